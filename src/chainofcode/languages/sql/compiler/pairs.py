"""Joins on judgements: how many pairs of rows a condition compares, and whether a row or a pair is judged.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .expressions import SITE, Site
from .joins import Joined

_LITERAL = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The pairs that conditions with sites compare. `count` is the query that counts them.

    A site of `by_row` judges one row: the condition compares such judgements. A site of `by_pair` judges two rows.
    """

    count: str
    by_row: frozenset[int]
    by_pair: frozenset[int]


def pairs_of(tables: Joined, cheap: Sequence[str], conditions: Iterable[Sequence[Site]]) -> Pairs | None:
    """Return the pairs of an inner join of two tables, if conditions with sites compare their rows."""
    condition = " AND ".join(cheap) or "1 = 1"
    count = f"SELECT count(*) FROM {tables.text} WHERE {condition}"  # noqa: S608 (parts of the query itself)
    if len(tables.aliases) != 2 or SITE in count:
        return None
    by_row, by_pair = set[int](), set[int]()
    for sites in conditions:
        sides = {site.number: _sides(site, tables.aliases) for site in sites}
        if len(set().union(*sides.values())) == 2:
            by_pair |= {number for number, own in sides.items() if len(own) == 2}
            by_row |= {number for number, own in sides.items() if len(own) == 1}
    if not by_row and not by_pair:
        return None
    return Pairs(count=count, by_row=frozenset(by_row), by_pair=frozenset(by_pair))


def _sides(site: Site, aliases: Sequence[str]) -> set[str]:
    """Return the tables whose columns the arguments of a site name."""
    text = _LITERAL.sub("''", " ".join(site.arguments))
    return {alias for alias in aliases if re.search(rf"(?<![\w.]){re.escape(alias)}\s*\.", text, re.IGNORECASE)}
