"""Judged columns of subqueries and common table expressions: their values depend on undefined functions.

A condition on such a column is as expensive as the call itself: it is evaluated after the cheap ones. Standard library
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .expressions import Expressions
from .structure import Select, is_query, query_of, without_alias
from .tokens import Group, Node, SqlToken, parts

Columns = frozenset[str]  # names in lower case


def judged_columns(rewriter: Expressions, select: Select, ctes: Mapping[str, Columns]) -> Columns:
    """Return the judged columns that the tables of a SELECT have."""
    clause = select.clause("FROM")
    return _of_tables(rewriter, clause.items, ctes) if clause is not None else frozenset()


def judged_of_cte(rewriter: Expressions, before: Sequence[Node], body: Group, ctes: Mapping[str, Columns]) -> Columns:
    """Return the judged columns of a common table expression; `before` is its name, with its columns in brackets."""
    found = _of_query(rewriter, body.items, ctes)
    named = next((item for item in before if isinstance(item, Group)), None)
    if named is None:
        return frozenset(name for name, is_judged in found if is_judged)
    names = [rewriter.lower(part[0]) for part in parts(named.items) if part]
    return frozenset(name for name, (_, is_judged) in zip(names, found, strict=False) if is_judged)


def _of_tables(rewriter: Expressions, items: Sequence[Node], ctes: Mapping[str, Columns]) -> Columns:
    found: set[str] = set()
    for item in items:
        if isinstance(item, Group) and is_query(item.items):
            found |= {name for name, is_judged in _of_query(rewriter, item.items, ctes) if is_judged}
        elif isinstance(item, Group):
            found |= _of_tables(rewriter, item.items, ctes)
        else:
            found |= ctes.get(rewriter.lower(item), frozenset())
    return frozenset(found)


def _of_query(rewriter: Expressions, items: Sequence[Node], ctes: Mapping[str, Columns]) -> list[tuple[str, bool]]:
    """Return the names of the columns of a query, and whether each is judged; for `*`, only the judged ones.

    The result is cached, because each level of nested queries needs the columns of all levels below. It is not cached
    with common table expressions, on which it depends.
    """
    if ctes:
        return _read_columns(rewriter, items, ctes)
    known = rewriter.columns_of.get(id(items))
    if known is None:
        known = rewriter.columns_of[id(items)] = _read_columns(rewriter, items, ctes)
    return known


def _read_columns(rewriter: Expressions, items: Sequence[Node], ctes: Mapping[str, Columns]) -> list[tuple[str, bool]]:
    query = query_of(items)
    known = dict(ctes)
    for name, before, body in query.ctes:
        known[name] = judged_of_cte(rewriter, before, body, known)
    found: list[tuple[str, bool]] = []
    for select in query.selects:
        clause = select.clause("SELECT")
        inner = judged_columns(rewriter, select, known)
        for part in parts(clause.items) if clause is not None else ():
            last = part[-1] if part else None
            if isinstance(last, SqlToken) and last.text == "*":
                found += [(name, True) for name in sorted(inner)]
            elif last is not None:
                found.append((rewriter.lower(last), rewriter.holds(part[: without_alias(part)], inner)))
    return found
