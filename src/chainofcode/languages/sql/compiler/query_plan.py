"""A query prepared for an engine: its program for the trace, its rewritten text, and the types of its functions.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...python.compiler.kinds import by_name, merge, settled
from ...source import NotAProgram
from .expressions import Site
from .rewrite import NotLimited, Rewriter, Rewritten
from .script import Script, at
from .structure import Clause, Select, query_of
from .tokens import SqlToken, SyntaxProblem, place, walk

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_TYPE_CHARS = 2000
_KINDS = {"bool": "bool", "truth": "bool", "int": "int", "float": "float", "number": "float"}


@dataclass(kw_only=True)
class QueryPlan:
    """A query and its rewritten forms.

    `simple` has the arguments of its calls in each row of the result, if a row comes from rows of the tables by
    itself. With `has_limit` the run needs only the first rows of it.
    """

    script: Script
    full: Rewritten
    simple: Rewritten | None
    has_limit: bool
    types: dict[str, str]  # of functions, as the texts of Python annotations
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
        declared = {told.name: self.statement(told.start) for told in self.script.declarations.values()}
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
    try:
        full = Rewriter(script, functions).rewritten()
        simple, has_limit = _simple(script, functions, aggregates, full)
    except SyntaxProblem as problem:
        raise NotAProgram(at(script.source, problem.offset, str(problem))) from None
    except RecursionError:
        raise NotAProgram("the query is nested too deep") from None
    types, places = _types(script, full.sites), _places(script, full)
    return QueryPlan(script=script, full=full, simple=simple, has_limit=has_limit, types=types, places=places)


def _simple(
    script: Script, functions: frozenset[str], aggregates: frozenset[str], full: Rewritten
) -> tuple[Rewritten | None, bool]:
    """Return a simple query with the arguments of its calls as columns, and whether LIMIT can end it early."""
    query = query_of(script.query)
    if len(query.selects) != 1 or not full.sites:
        return None, False
    select = query.selects[0]
    if not _is_simple(select, aggregates):
        return None, False
    try:
        rewritten = Rewriter(script, functions, is_limited=True).rewritten()
    except NotLimited:
        return None, False
    has_limit = select.clause("LIMIT") is not None or select.clause("FETCH") is not None
    return rewritten, has_limit and not _has_sites_in_order(select, full)


def _is_simple(select: Select, aggregates: frozenset[str]) -> bool:
    """Whether each row of the result comes from rows of the tables by itself."""
    if any(select.clause(word) is not None for word in ("GROUP", "HAVING", "QUALIFY", "WINDOW", "VALUES")):
        return False
    listed = select.clause("SELECT")
    if listed is None or not listed.items or listed.items[0].word == "DISTINCT":
        return False
    for level, index in walk(listed.items):
        item = level[index]
        if item.word == "OVER" or (isinstance(item, SqlToken) and item.text.lower() in aggregates):
            return False
    return True


def _has_sites_in_order(select: Select, full: Rewritten) -> bool:
    """Whether ORDER BY calls an undefined function, or names a column that does."""
    order = select.clause("ORDER")
    if order is None:
        return False
    starts = [site.start for site in full.sites]
    if any(order.start <= start < order.end for start in starts):
        return True
    listed = select.clause("SELECT")
    # Which column has a site is not worth finding out.
    return (
        listed is not None
        and any(listed.start <= start < listed.end for start in starts)
        and _names_columns(order, listed)
    )


def _names_columns(order: Clause, listed: Clause) -> bool:
    """Whether ORDER BY names a column of the result by its alias or its position."""
    words = {item.text.lower() for level, i in walk(order.items) if isinstance(item := level[i], SqlToken)}
    aliases = {item.text.lower() for item in _after_as(listed)}
    return bool(words & aliases) or any(word.isdigit() for word in words)


def _after_as(listed: Clause) -> Iterator[SqlToken]:
    for level, index in walk(listed.items):
        following = level[index + 1] if index + 1 < len(level) else None
        if level[index].word == "AS" and isinstance(following, SqlToken):
            yield following


def _types(script: Script, sites: list[Site]) -> dict[str, str]:
    uses: dict[str, list[str]] = {}
    for site in sites:
        uses.setdefault(site.function, []).append(site.kind)
    types: dict[str, str] = {}
    for name, kinds in uses.items():
        declared = script.declarations.get(name.lower())
        kind = declared.type if declared is not None else ""
        kind = kind or settled(merge(kinds), by_name(name))
        types[name] = kind if len(kind) <= MAX_TYPE_CHARS else ""
    return types


def _places(script: Script, full: Rewritten) -> list[tuple[int, int, str]]:
    declared = [(told.start, told.end, "Declaration") for told in script.declarations.values()]
    macros = [(macro.start, macro.end, "Macro") for macro in script.macros.values()]
    clauses = [(start, end, word.capitalize() or "Query") for start, end, word in full.clauses]
    return sorted(set(declared + macros + clauses))


def _position(source: str, offset: int) -> tuple[int, int]:
    """Return a line from 1, and a column from 0 in bytes."""
    line, column = place(source, offset)
    return line, len(source[offset - column + 1 : offset].encode())
