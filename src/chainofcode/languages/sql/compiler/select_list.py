"""The columns of a SELECT. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .expressions import Context, Expressions
from .structure import Select, without_alias
from .tokens import Node, SqlToken, parts, walk


class SelectList:
    """The items of SELECT. Those that WHERE or GROUP BY mention by their alias come before these clauses."""

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
        self._prefix = rewriter.plain(items[: self._head])
        self._aliases = [self._alias(part, count) for part, count in zip(self._parts, self._counts, strict=True)]
        self._early = self._mentioned(select)

    def _alias(self, part: Sequence[Node], count: int) -> str:
        return self._rewriter.lower(part[-1]) if count < len(part) else ""

    def _mentioned(self, select: Select) -> list[int]:
        """The items with sites that an earlier clause names by alias, or GROUP BY by position."""
        wanted: set[str] = set()
        for word in ("WHERE", "GROUP", "HAVING", "QUALIFY"):
            clause = select.clause(word)
            for level, index in walk(clause.items) if clause is not None else ():
                item = level[index]
                is_position = isinstance(item, SqlToken) and item.kind == "number" and word == "GROUP"
                wanted.add(
                    f"#{item.text}" if is_position and isinstance(item, SqlToken) else self._rewriter.lower(item)
                )
        has_all = select.clause("GROUP") is not None and "all" in wanted
        return [
            number
            for number, part in enumerate(self._parts)
            if self._rewriter.holds(part)
            and (has_all or f"#{number + 1}" in wanted or (self._aliases[number] and self._aliases[number] in wanted))
        ]

    def hot_aliases(self) -> frozenset[str]:
        return frozenset(self._aliases[number] for number in self._early if self._aliases[number])

    def rewrite_early(self, level: int, context: Context) -> int:
        return self._rewrite(self._early, level, context)

    def rewrite_rest(self, level: int, context: Context) -> int:
        return self._rewrite([n for n in range(len(self._parts)) if n not in self._texts], level, context)

    def _rewrite(self, numbers: Sequence[int], level: int, context: Context) -> int:
        own = replace(context, clause=self._clause.start if self._clause is not None else 0)
        end = level
        for number in numbers:
            part, count = self._parts[number], self._counts[number]
            text, after = self._rewriter.expression(part[:count], own, level)
            self._texts[number] = f"{text} {self._rewriter.plain(part[count:])}".rstrip()
            self.names[text] = self._rewriter.plain(part)
            end = max(end, after)
        return end

    @property
    def text(self) -> str:
        listed = ", ".join(self._texts[number] for number in range(len(self._parts)))
        return f"{self._prefix} {listed}".strip()
