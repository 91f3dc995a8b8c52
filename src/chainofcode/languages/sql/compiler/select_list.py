"""The columns of a SELECT: which of them affect the rows of the result. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from .expressions import Context, Expressions, Site
from .structure import Select, without_alias
from .tokens import Node, SqlToken, parts, walk

_AGGREGATE_WORDS = ("FILTER", "WITHIN", "GROUP")


class SelectList:
    """The items of SELECT. Items that another clause mentions by their alias are rewritten before that clause.

    `late` are the sites whose calls LIMIT can avoid: no clause and no aggregate function needs their values.
    """

    def __init__(self, rewriter: Expressions, select: Select) -> None:
        self._rewriter = rewriter
        self._clause = select.clause("SELECT")
        items = self._clause.items if self._clause is not None else []
        self._head = 0
        if items and items[0].word in ("DISTINCT", "ALL"):
            self._head = 2 if len(items) > 1 and items[1].word == "ON" else 1
            self._head += self._head == 2
        whole = parts(items[self._head :]) if items else []
        self._heads = [part[: _head_width(part)] for part in whole]
        self._parts = [part[_head_width(part) :] for part in whole]
        self._counts = [without_alias(part) for part in self._parts]
        self._texts: dict[int, str] = {}
        self.names: dict[str, str] = {}  # rewritten column → original column
        self._on = items[2:3] if self._head == 3 else []
        self._prefix = rewriter.plain(items[: min(self._head, 2)])
        self._aliases = [self._alias(number) for number in range(len(self._parts))]
        wide = {number for number, part in enumerate(self._parts) if _is_wide(part)}
        self._first_wide = min(wide, default=len(self._parts))
        self._items_named: dict[
            str, list[int]
        ] = {}  # the items that a name refers to: by alias, or inside `* REPLACE (…)`
        for number, alias in enumerate(self._aliases):
            inside = self._words(self._parts[number]) if number in wide else set()
            for name in {alias, *inside} - {""}:
                self._items_named.setdefault(name, []).append(number)
        self._early = self._mentioned(select, "WHERE", "GROUP", "HAVING", "QUALIFY")
        self._ordered = self._mentioned(select, "ORDER", "WINDOW")
        self._sites: dict[int, list[Site]] = {}

    def _alias(self, number: int) -> str:
        part, count = self._parts[number], self._counts[number]
        named = self._heads[number][:1] or part[count:][-1:]
        return self._rewriter.lower(named[0]) if named else ""

    def _mentioned(self, select: Select, *words: str) -> list[int]:
        """The items with sites that a clause names by alias, or GROUP BY and ORDER BY by position."""
        wanted: set[str] = set()
        for word in words:
            clause = select.clause(word)
            for level, index in walk(clause.items) if clause is not None else ():
                item = level[index]
                is_position = word in ("GROUP", "ORDER") and isinstance(item, SqlToken) and item.kind == "number"
                wanted.add(f"#{self._rewriter.lower(item)}" if is_position else self._rewriter.lower(item))
        has_all = "all" in wanted and ("GROUP" in words or "ORDER" in words)
        return self._with_sites(range(len(self._parts))) if has_all else self._named(wanted)

    def _with_sites(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if self._rewriter.holds(self._parts[number])]

    def _named(self, wanted: Iterable[str]) -> list[int]:
        """The items with sites that names or positions refer to, directly or through the aliases of other items."""
        names = set(wanted)
        found: set[int] = set()
        pending = self._at_positions({name for name in names if name.startswith("#")})
        fresh = set(names)
        while fresh or pending:
            pending += [number for name in fresh for number in self._items_named.get(name, ())]
            fresh = set()
            while pending:
                number = pending.pop()
                if number not in found:
                    found.add(number)
                    fresh |= self._words(self._parts[number]) - names
            names |= fresh
        return self._with_sites(sorted(found))

    def _at_positions(self, positions: set[str]) -> list[int]:
        """The items at these positions. After `*`, positions are unknown: each one may refer to any of those items."""
        known = [number for number in range(self._first_wide) if f"#{number + 1}" in positions]
        return known + ([*range(self._first_wide, len(self._parts))] if positions else [])

    def _words(self, items: Sequence[Node]) -> set[str]:
        return {self._rewriter.lower(level[index]) for level, index in walk(items)} - {""}

    @property
    def is_ordered_by(self) -> bool:
        """Whether ORDER BY names an item with sites."""
        return bool(self._ordered)

    def hot_aliases(self) -> frozenset[str]:
        return frozenset(self._aliases[number] for number in self._early if self._aliases[number])

    def rewrite_early(self, level: int, context: Context) -> int:
        return self._rewrite(self._early, level, context)

    def rewrite_ordered(self, level: int, context: Context) -> int:
        return self._rewrite([number for number in self._ordered if number not in self._texts], level, context)

    def rewrite_rest(self, level: int, context: Context) -> int:
        text, end = self._rewriter.expression(self._on, self._own(context), level)
        self._prefix = f"{self._prefix} {text}"
        rest = [number for number in range(len(self._parts)) if number not in self._texts]
        return max(end, self._rewrite(rest, level, context))

    def _own(self, context: Context) -> Context:
        return replace(context, clause=self._clause.start if self._clause is not None else 0)

    def _rewrite(self, numbers: Sequence[int], level: int, context: Context) -> int:
        own, plain = self._own(context), self._rewriter.plain
        end = level
        for number in numbers:
            part, count = self._parts[number], self._counts[number]
            first = len(self._rewriter.sites)
            text, after = self._rewriter.expression(part[:count], own, level)
            self._sites[number] = [site for site in self._rewriter.sites[first:] if site.depth == context.depth]
            self._texts[number] = " ".join(filter(None, (plain(self._heads[number]), text, plain(part[count:]))))
            if not self._aliases[number]:
                self.names[text] = plain(part)
            end = max(end, after)
        return end

    @property
    def late(self) -> list[Site]:
        """The sites that are only in items that cannot affect other rows."""
        decisive = {*self._early, *self._ordered, *self._aggregated()}
        texts = " ".join(self._texts[number] for number in decisive)
        own = (site for number, sites in self._sites.items() if number not in decisive for site in sites)
        return [site for site in own if f"{site.name}(" not in texts]

    def _aggregated(self) -> list[int]:
        """The items with sites that an aggregate or window function reads, in its own item or by an alias."""
        found: list[int] = []
        names: set[str] = set()
        for number, part in enumerate(self._parts):
            for scope in self._scopes(part):
                names |= self._words(scope)
                found += [number] if self._rewriter.holds(scope) else []
        return found + self._named(names)

    def _scopes(self, part: Sequence[Node]) -> Iterator[Sequence[Node]]:
        """Yield the calls of aggregate functions, with FILTER and WITHIN GROUP; for a window, the whole item."""
        for level, index in walk(part):
            if level[index].word == "OVER":
                yield part
            elif self._rewriter.lower(level[index]) in self._rewriter.aggregates:
                end = index + 2
                while end < len(level) and (
                    level[end].word in _AGGREGATE_WORDS or level[end - 1].word in _AGGREGATE_WORDS
                ):
                    end += 1
                yield level[index:end]

    @property
    def text(self) -> str:
        listed = ", ".join(self._texts[number] for number in range(len(self._parts)))
        return f"{self._prefix} {listed}".strip()


def _head_width(part: Sequence[Node]) -> int:
    """Return the number of nodes in an alias before the expression: DuckDB has `alias: expression`."""
    return 2 if len(part) > 2 and isinstance(part[1], SqlToken) and part[1].text == ":" else 0


def _is_wide(part: Sequence[Node]) -> bool:
    """Whether an item can be several columns: `*`, `t.*`, UNNEST of a record."""
    texts = [item.text if isinstance(item, SqlToken) else "" for item in part]
    return texts[:1] == ["*"] or (".", "*") in pairwise(texts) or (bool(part) and part[0].word == "UNNEST")
