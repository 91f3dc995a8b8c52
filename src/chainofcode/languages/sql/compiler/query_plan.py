"""A query prepared for an engine: its program for the trace, its rewritten text, and the types of its functions.

Standard library only.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from ...python.compiler.kinds import by_name, final_type, merge
from ...source import NotAProgram
from .expressions import Site
from .rewrite import NotLimited, Rewriter, Rewritten
from .script import Script, at
from .structure import Select, query_of, skipped_rows
from .tokens import Group, Node, SqlToken, SyntaxProblem, place, unquoted, walk
from .words import aggregating

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_TYPE_CHARS = 2000
_KINDS = {"bool": "bool", "truth": "bool", "int": "int", "float": "float", "number": "float"}


@dataclass(kw_only=True)
class QueryPlan:
    """A query and its rewritten forms.

    `simple` has the arguments of its calls as further columns, if each row of the result can be computed on its own.
    With LIMIT, `limited` has as columns the arguments of the calls that are needed only for rows of the result.
    """

    script: Script
    full: Rewritten
    simple: Rewritten | None
    limited: Rewritten | None
    types: dict[str, str]  # of functions, as Python annotations
    places: list[tuple[int, int, str]]  # of statements: start, end, kind
    guesses: dict[str, str] = field(default_factory=dict)  # types in SQL of functions without a known type

    def statement(self, offset: int) -> int:
        """Return the number of the statement that begins at an offset."""
        return next((number for number, (start, _, _) in enumerate(self.places) if start == offset), 0)

    def column_kind(self, function: str) -> str:
        """Return the type of a function's values in SQL: bool, int, float or text."""
        guess = self.guesses.get(function) or "text"
        return _KINDS.get(self.types.get(function, "").removesuffix(" | None"), guess)

    def description(self) -> dict[str, Any]:
        """Return the program for the trace."""
        source = self.script.source
        declared = {
            declaration.name: self.statement(declaration.start) for declaration in self.script.declarations.values()
        }
        uses: dict[tuple[int, str], list[Any]] = {}
        for site in self.full.sites:
            number = self.statement(site.clause)
            uses[number, site.function] = [
                number,
                site.function,
                self.types[site.function],
                declared.get(site.function),
            ]
        return {
            "event": "program",
            "source": source,
            "statements": [
                [*_position(source, start), *_position(source, end), kind] for start, end, kind in self.places
            ],
            "holes": sorted({site.function for site in self.full.sites}),
            "uses": list(uses.values()),
            "prose": [],
            "imports": [],
            "is_hard_coded": False,
        }


def plan_of(script: Script, functions: frozenset[str], aggregates: frozenset[str]) -> QueryPlan:
    """Prepare a query for an engine that has these functions. Raises NotAProgram."""
    bodies = {name: _called(macro.body) for name, macro in script.macros.items()}
    aggregates = aggregating(bodies, aggregates) | {"unnest"}  # its rows, too, depend on its argument
    try:
        full = Rewriter(script, functions, aggregates).rewritten()
        simple, limited = _of_rows(script, functions, aggregates, full)
    except SyntaxProblem as problem:
        raise NotAProgram(at(script.source, problem.offset, str(problem))) from None
    except RecursionError:
        raise NotAProgram("the query is nested too deeply") from None
    types, places = _types(script, full.sites), _places(script, full)
    return QueryPlan(script=script, full=full, simple=simple, limited=limited, types=types, places=places)


def _of_rows(
    script: Script, functions: frozenset[str], aggregates: frozenset[str], full: Rewritten
) -> tuple[Rewritten | None, Rewritten | None]:
    """Return the query with the arguments of its calls as columns: if it is simple; and if LIMIT can avoid calls."""
    query = query_of(script.query)
    if len(query.selects) != 1 or not full.sites or any(level[i].word == "COLUMNS" for level, i in walk(script.query)):
        return None, None  # COLUMNS(…) turns one column into several, even an added one
    select = query.selects[0]
    has_limit = select.clause("LIMIT") is not None or select.clause("FETCH") is not None
    simple = None
    if _is_simple(select, aggregates):
        with contextlib.suppress(NotLimited):
            simple = Rewriter(script, functions, aggregates, form="rows").rewritten()
    if not has_limit:
        return simple, None
    if simple is not None and not simple.has_judged_order and skipped_rows(select) is not None:
        return simple, simple
    late = None if _is_distinct(select) else Rewriter(script, functions, aggregates, form="late").rewritten()
    return simple, late if late is not None and late.columns else None


def _called(body: list[Node]) -> set[str]:
    """Return the functions that the body of a macro calls, and OVER."""
    found: set[str] = set()
    for level, index in walk(body):
        item, following = level[index], level[index + 1] if index + 1 < len(level) else None
        if isinstance(item, SqlToken) and (isinstance(following, Group) or item.word == "OVER"):
            found.add(unquoted(item).lower())
    return found


def _is_distinct(select: Select) -> bool:
    listed = select.clause("SELECT")
    return listed is None or not listed.items or listed.items[0].word == "DISTINCT"


def _is_simple(select: Select, aggregates: frozenset[str]) -> bool:
    """Whether each row of the result is computed from rows of the tables, independently of other rows."""
    if any(select.clause(word) is not None for word in ("GROUP", "HAVING", "QUALIFY", "WINDOW", "VALUES")):
        return False
    listed, order = select.clause("SELECT"), select.clause("ORDER")
    if listed is None or _is_distinct(select):
        return False
    for level, index in walk([*listed.items, *(order.items if order is not None else ())]):
        item = level[index]
        if item.word == "OVER" or (isinstance(item, SqlToken) and unquoted(item).lower() in aggregates):
            return False
    return True


def _types(script: Script, sites: list[Site]) -> dict[str, str]:
    uses: dict[str, list[str]] = {}
    for site in sites:
        uses.setdefault(site.function, []).append(site.kind)
    types: dict[str, str] = {}
    for name, kinds in uses.items():
        declared = script.declarations.get(name.lower())
        if "number" in kinds:  # `||` accepts numbers, too
            kinds = [kind for kind in kinds if kind != "str"]
        kind = declared.type if declared is not None else ""
        kind = kind or final_type(merge(kinds), by_name(name))
        types[name] = kind if len(kind) <= MAX_TYPE_CHARS else ""
    return types


def _places(script: Script, full: Rewritten) -> list[tuple[int, int, str]]:
    declared = [(declaration.start, declaration.end, "Declaration") for declaration in script.declarations.values()]
    macros = [(macro.start, macro.end, "Macro") for macro in script.macros.values()]
    clauses = [(start, end, word.capitalize() or "Query") for start, end, word in full.clauses]
    return sorted(set(declared + macros + clauses))


def _position(source: str, offset: int) -> tuple[int, int]:
    """Return a line from 1, and a column from 0 in bytes."""
    line, column = place(source, offset)
    return line, len(source[offset - column + 1 : offset].encode())
