"""The structure of queries: common table expressions, SELECTs and their clauses, joins. Standard library only.

It reads only what determines the order in which clauses are evaluated. The engine checks the syntax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .tokens import Group, Node, SqlToken, parts, unquoted

_SET_WORDS = ("UNION", "INTERSECT", "EXCEPT")
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH")
_STARTS = ("SELECT", "WITH", "VALUES", "FROM")
_JOIN_WORDS = (
    "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI",
)  # fmt: skip
_ORDER_WORDS = ("ASC", "DESC", "NULLS", "COLLATE")
_CONSTANTS = "NULL TRUE FALSE ISNULL NOTNULL ASC DESC FIRST LAST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP UNKNOWN"
_NOT_ALIASES = frozenset(_CONSTANTS.split())


@dataclass(slots=True)
class Clause:
    """One clause: its keyword, its nodes without the keyword, and its place."""

    word: str
    items: list[Node]
    start: int
    end: int
    head: int  # the number of nodes in the keyword


@dataclass(slots=True)
class Join:
    """A table in FROM with the words before it, and its condition."""

    words: tuple[str, ...]
    table: list[Node]
    on: list[Node] | None = None
    rest: list[Node] = field(default_factory=list)  # USING (…)

    @property
    def is_inner(self) -> bool:
        return not set(self.words) & {"LEFT", "RIGHT", "FULL", "NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI"}


@dataclass(slots=True)
class Select:
    """One SELECT, or VALUES, with its clauses in source order."""

    clauses: list[Clause]
    before: list[Node] = field(default_factory=list)  # UNION ALL

    def clause(self, word: str) -> Clause | None:
        return next((clause for clause in self.clauses if clause.word == word), None)


@dataclass(slots=True)
class SelectQuery:
    """A whole query: its common table expressions, and SELECTs that set operations combine."""

    head: list[Node]  # WITH [RECURSIVE]
    ctes: list[tuple[str, list[Node], Group]]  # name, the nodes before its query, its query
    selects: list[Select]


def is_query(items: Sequence[Node]) -> bool:
    """Whether nodes are a query, perhaps in brackets."""
    if not items:
        return False
    first = items[0]
    if isinstance(first, Group):
        return first.kind == "(" and is_query(first.items) and _is_whole_query(items)
    return first.word in _STARTS


def _is_whole_query(items: Sequence[Node]) -> bool:
    return len(items) == 1 or items[1].word in (*_SET_WORDS, "ORDER", "LIMIT", "OFFSET")


def query_of(items: Sequence[Node]) -> SelectQuery:
    """Read the nodes of a query."""
    head: list[Node] = []
    ctes: list[tuple[str, list[Node], Group]] = []
    index = 0
    if items and items[0].word == "WITH":
        head, ctes, index = _ctes(items)
    selects = [Select([])]
    clause: Clause | None = None
    while index < len(items):
        item = items[index]
        if item.word in _SET_WORDS:
            index = _next_select(items, index, selects)
            clause = None
            continue
        width = _clause_width(items, index)
        if width or clause is None:
            clause = Clause(item.word if width else "", [], item.start, item.end, width)
            selects[-1].clauses.append(clause)
            index += width
            if width:
                clause.end = items[index - 1].end
                continue
        clause.items.append(item)
        clause.end = item.end
        index += 1
    return SelectQuery(head, ctes, selects)


def _next_select(items: Sequence[Node], index: int, selects: list[Select]) -> int:
    words = [items[index]]
    index += 1
    while index < len(items) and items[index].word in ("ALL", "DISTINCT", "BY", "NAME"):
        words.append(items[index])
        index += 1
    selects.append(Select([], words))
    return index


def _clause_width(items: Sequence[Node], index: int) -> int:
    """Return the number of nodes in the keyword of a clause; 0 if no clause begins here."""
    word = items[index].word
    if word not in _CLAUSES and word != "VALUES":
        return 0
    following = items[index + 1].word if index + 1 < len(items) else ""
    if word in ("GROUP", "ORDER"):
        return 2 if following == "BY" else 0
    if word == "FROM" and index and items[index - 1].word == "DISTINCT" and index > 1:
        return 0 if items[index - 2].word in ("IS", "NOT") else 1
    return 1


def _ctes(items: Sequence[Node]) -> tuple[list[Node], list[tuple[str, list[Node], Group]], int]:
    head: list[Node] = [items[0]]
    index = 1
    if index < len(items) and items[index].word == "RECURSIVE":
        head.append(items[index])
        index += 1
    found: list[tuple[str, list[Node], Group]] = []
    before: list[Node] = []
    while index < len(items):
        item = items[index]
        previous = items[index - 1]
        if isinstance(item, Group) and previous.word in ("AS", "MATERIALIZED"):
            name = before[0]
            found.append((unquoted(name).lower() if isinstance(name, SqlToken) else "", before, item))
            before = []
            index += 1
            if index < len(items) and getattr(items[index], "text", "") == ",":
                index += 1
                continue
            break
        before.append(item)
        index += 1
    return head, found, index


def joins_of(items: Sequence[Node]) -> list[Join]:
    """Read the nodes of a FROM clause."""
    found = [Join((), [])]
    words: list[str] = []
    target = found[0].table
    for item in items:
        is_comma = isinstance(item, SqlToken) and item.text == ","
        if is_comma or item.word in _JOIN_WORDS:
            words.append("," if is_comma else item.word)
            if is_comma or item.word == "JOIN":
                found.append(Join(tuple(words), []))
                target, words = found[-1].table, []
        elif item.word == "ON" and found[-1].on is None:
            found[-1].on = target = []
        elif item.word == "USING":
            target = found[-1].rest
            target.append(item)
        else:
            target.append(item)
    return found


def skipped_rows(select: Select) -> int | None:
    """Return how many rows LIMIT and OFFSET skip; None if that is unknown, as for `LIMIT 10% OFFSET 5`."""
    limit, offset = select.clause("LIMIT"), select.clause("OFFSET")
    if offset is None:
        return None if limit is not None and len(parts(limit.items)) > 1 else 0  # SQLite: `LIMIT 5, 10`
    numbers = [clause.items[0] if clause is not None and len(clause.items) == 1 else None for clause in (limit, offset)]
    texts = [item.text if isinstance(item, SqlToken) else "" for item in numbers]
    return int(texts[1]) if all(text.isdecimal() for text in texts) else None


def alias_of(table: Sequence[Node]) -> str:
    """Return the name by which columns of a table in FROM are qualified; empty if it is unknown."""
    last = table[-1] if table else None
    return last.text if isinstance(last, SqlToken) and last.kind in ("word", "name") else ""


def conjuncts(items: Sequence[Node], word: str = "AND") -> list[list[Node]]:
    """Split a condition at its ANDs (or ORs), but not at the AND of BETWEEN."""
    found: list[list[Node]] = [[]]
    is_between = False
    for item in items:
        if item.word == "BETWEEN":
            is_between = True
        if item.word == word and not (word == "AND" and is_between):
            found.append([])
            continue
        if item.word == "AND":
            is_between = False
        found[-1].append(item)
    return found


def lambda_head(items: Sequence[Node]) -> int:
    """Return how many nodes come before the body of a lambda: `lambda x:` or `x ->`; 0 if this is not a lambda."""
    texts = [item.text if isinstance(item, SqlToken) else "" for item in items]
    if items and items[0].word == "LAMBDA" and ":" in texts:
        return texts.index(":") + 1
    is_arrow = len(items) > 2 and texts[1] == "->" and items[0].kind in ("word", "(")
    return 2 if is_arrow and items[2].kind not in ("string", "number") else 0  # `data -> 'key'` reads JSON


def without_alias(items: Sequence[Node]) -> int:
    """Return how many nodes of a SELECT or ORDER BY item are its expression; the rest is an alias or an order."""
    for index, item in enumerate(items):
        if index and (item.word == "AS" or item.word in _ORDER_WORDS):
            return index
    if len(items) > 1:
        last, previous = items[-1], items[-2]
        is_name = isinstance(last, SqlToken) and last.kind in ("word", "name") and last.word not in _NOT_ALIASES
        if is_name and (isinstance(previous, Group) or previous.kind in ("string", "number", "name")):
            return len(items) - 1
        if is_name and isinstance(previous, SqlToken) and previous.kind == "word" and _is_operand(previous):
            return len(items) - 1
    return len(items)


def _is_operand(token: SqlToken) -> bool:
    return token.word not in ("AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "DISTINCT", "ALL", "GLOB", "ILIKE")


__all__ = [
    "Clause",
    "Join",
    "Select",
    "SelectQuery",
    "alias_of",
    "conjuncts",
    "is_query",
    "joins_of",
    "lambda_head",
    "parts",
    "query_of",
    "skipped_rows",
    "without_alias",
]
