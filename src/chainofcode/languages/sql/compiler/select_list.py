"""The columns of a SELECT: which of them affect the rows of the result. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .expressions import Context, Expressions, Site
from .structure import Select, without_alias
from .tokens import Group, Node, SqlToken, parts, walk


class SelectList:
    """The items of SELECT. Those that another clause mentions by their alias come before this clause.

    `late` are the sites that LIMIT can spare: no clause and no aggregate function needs their values.
    """

    def __init__(self, rewriter: Expressions, select: Select) -> None:
        self._rewriter = rewriter
        self._clause = select.clause("SELECT")
        items = self._clause.items if self._clause is not None else []
        self._head = 0
        if items and items[0].word in ("DISTINCT", "ALL"):
            self._head = 2 if len(items) > 1 and items[1].word == "ON" else 1
            self._head += self._head == 2
        self._parts = parts(items[self._head :]) if items else []
        self._counts = [without_alias(part) for part in self._parts]
        self._texts: dict[int, str] = {}
        self.names: dict[str, str] = {}  # columns as rewritten, and as written
        self._on = items[2:3] if self._head == 3 else []
        self._prefix = rewriter.plain(items[: min(self._head, 2)])
        self._aliases = [self._alias(part, count) for part, count in zip(self._parts, self._counts, strict=True)]
        self._early = self._mentioned(select, "WHERE", "GROUP", "HAVING", "QUALIFY")
        self._ordered = self._mentioned(select, "ORDER")
        self.late: list[Site] = []

    def _alias(self, part: Sequence[Node], count: int) -> str:
        return self._rewriter.lower(part[-1]) if count < len(part) else ""

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
        return [
            number
            for number, part in enumerate(self._parts)
            if self._rewriter.holds(part)
            and (has_all or f"#{number + 1}" in wanted or (self._aliases[number] and self._aliases[number] in wanted))
        ]

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
        own = self._own(context)
        end = level
        for number in numbers:
            part, count = self._parts[number], self._counts[number]
            first = len(self._rewriter.sites)
            text, after = self._rewriter.expression(part[:count], own, level)
            if number not in self._ordered and number not in self._early and not self._is_aggregated(part):
                self.late += [site for site in self._rewriter.sites[first:] if site.depth == context.depth]
            self._texts[number] = f"{text} {self._rewriter.plain(part[count:])}".rstrip()
            self.names[text] = self._rewriter.plain(part)
            end = max(end, after)
        return end

    def _is_aggregated(self, part: Sequence[Node]) -> bool:
        """Whether an aggregate or window function has an argument with sites."""
        for level, index in walk(part):
            following = level[index + 1] if index + 1 < len(level) else None
            is_aggregate = self._rewriter.lower(level[index]) in self._rewriter.aggregates
            if level[index].word == "OVER" or (
                is_aggregate and isinstance(following, Group) and self._rewriter.holds(following.items)
            ):
                return True
        return False

    @property
    def text(self) -> str:
        listed = ", ".join(self._texts[number] for number in range(len(self._parts)))
        return f"{self._prefix} {listed}".strip()
