"""Rewrites a query for an engine, so that an undefined function is called for as few rows as possible.

Conditions without sites come first; then sites in source order, each only for rows that passed the ones before (CASE is
lazy in both engines, AND is not). guest/query_rounds.py requests the calls level by level. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .derived import Columns, judged_columns, judged_of_cte
from .expressions import Context, Expressions, Site
from .joins import Joined, gated, joined
from .pairs import Pairs, pairs_of
from .script import Script
from .select_list import SelectList
from .structure import Clause, Select, SelectQuery, conjuncts, query_of, skipped_rows, without_alias
from .tokens import Node, parts

MAYBE, ARGUMENT = "coc_maybe_", "coc_argument_"


@dataclass(kw_only=True)
class Rewritten:
    """A query for an engine. `columns` are arguments of sites, added to the result if LIMIT may end it early."""

    text: str
    sites: list[Site]
    clauses: list[tuple[int, int, str]]  # start, end, keyword
    maybes: list[list[int]] = field(default_factory=list)  # conditions that may be unknown, by their sites
    columns: list[tuple[int, int]] = field(default_factory=list)  # site, number of arguments
    names: dict[str, str] = field(default_factory=dict)  # rewritten column → original column
    pairs: Pairs | None = None  # of a join on judgements
    skipped: int = 0  # rows that OFFSET leaves out: they must be judged, too
    has_judged_order: bool = False  # ORDER BY calls an undefined function, or names a column that does


class Rewriter(Expressions):
    """Rewrites one query.

    `form` sets which sites have their arguments among the columns: none (`full`), all of the outermost SELECT
    (`rows`; conditions with sites may then be unknown), or those whose calls LIMIT can avoid (`late`).
    """

    def __init__(
        self, script: Script, functions: frozenset[str], aggregates: frozenset[str], *, form: str = "full"
    ) -> None:
        super().__init__(script, functions, aggregates)
        self._form = form
        self._cte_columns: dict[str, Columns] = {}
        self._has_judged_order = False
        self._skipped = 0
        self._clauses: dict[int, tuple[int, int, str]] = {}
        self._maybes: list[list[int]] = []
        self._columns: list[tuple[int, int]] = []
        self._names: dict[str, str] = {}
        self._pairs: Pairs | None = None

    def rewritten(self) -> Rewritten:
        text, _ = self.subquery(self._script.query, 0, Context(depth=0))
        query = query_of(self._script.query)
        return Rewritten(
            text=text,
            sites=self.sites,
            clauses=sorted(self._clauses.values()),
            maybes=self._maybes,
            columns=self._columns,
            names=self._names,
            pairs=self._pairs if len(query.selects) == 1 and not query.ctes else None,
            skipped=self._skipped,
            has_judged_order=self._has_judged_order,
        )

    def joins(self, items: Sequence[Node], level: int, context: Context) -> tuple[str, int]:
        found, end = joined(self, items, level, context, may_move=False)
        return found.text, end

    def subquery(self, items: Sequence[Node], level: int, context: Context) -> tuple[str, int]:
        query = query_of(items)
        text, start = self._ctes(query, level, context)
        end = start
        for select in query.selects:
            form = self._form if not context.depth and len(query.selects) == 1 else "full"
            words = self.plain(select.before)
            own, after = self._select(select, start, context, form)
            text = " ".join(filter(None, (text, words, own)))
            end = max(end, after)
        return text, end

    def _ctes(self, query: SelectQuery, level: int, context: Context) -> tuple[str, int]:
        """Return WITH, and the level after it. A common table expression comes after those that it mentions."""
        ends: dict[str, int] = {}
        texts: list[str] = []
        for name, before, group in query.ctes:
            start = max([level, *(end for other, end in ends.items() if self.mentions(group.items, other))])
            inner = replace(context, depth=context.depth + 1)
            self._cte_columns[name] = judged_of_cte(self, before, group, self._cte_columns)
            body, ends[name] = self.subquery(group.items, start, inner)
            texts.append(f"{self.plain(before)} ({body})")
        if not texts:
            return "", level
        return f"{self.plain(query.head)} {', '.join(texts)}", max(ends.values())

    def _select(self, select: Select, level: int, context: Context, form: str) -> tuple[str, int]:
        """Return a SELECT with its clauses, and the level after it."""
        for clause in select.clauses:
            self._clauses.setdefault(clause.start, (clause.start, clause.end, clause.word))
        texts: dict[str, str] = {}
        around, judged, own = self.shared, self.judged, dict[tuple[str, ...], Site]()
        self.shared, self.judged = None, judged_columns(self, select, self._cte_columns)
        first = len(self.sites)
        tables, level = self._from(select, level, context)
        if form == "rows" and any(not site.depth for site in self.sites[first:]):
            raise NotLimited  # without its value, no row may make the call, as with a LEFT JOIN
        texts["FROM"] = tables.text
        listed = SelectList(self, select)
        self.shared = own
        level = listed.rewrite_early(level, context)
        self.shared = None
        aliases = listed.hot_aliases()
        texts["WHERE"], level = self._where(select, tables, aliases, level, context, is_top=form == "rows")
        self.shared = own
        for word in ("GROUP", "HAVING", "QUALIFY"):
            texts[word], level = self._clause(select, word, level, context)
        level = listed.rewrite_ordered(level, context)
        texts["ORDER"], level = self._clause(select, "ORDER", level, context)
        level = listed.rewrite_rest(level, context)
        self._note_order(select, listed, context)
        self.shared, self.judged = around, judged
        sites = {"full": [], "rows": [site for site in self.sites if not site.depth], "late": listed.late}
        texts["SELECT"] = listed.text + self._extra_columns(sites[form])
        self._names |= listed.names
        texts |= self._with_skipped(select) if form == "rows" else {}
        made = [self._written(clause, texts, context) for clause in select.clauses]
        if texts["WHERE"] and select.clause("WHERE") is None:
            place = next((i + 1 for i, clause in enumerate(select.clauses) if clause.word == "FROM"), len(made))
            made.insert(place, f"WHERE {texts['WHERE']}")
        return " ".join(made), level

    def _with_skipped(self, select: Select) -> dict[str, str]:
        """Return LIMIT with the rows that OFFSET skips, if both are numbers."""
        limit, skipped = select.clause("LIMIT"), skipped_rows(select)
        if limit is None or not skipped:
            return {}
        self._skipped = skipped
        return {"LIMIT": f"{self.plain(limit.items)} + {skipped}", "OFFSET": ""}

    def _note_order(self, select: Select, listed: SelectList, context: Context) -> None:
        order = select.clause("ORDER")
        if order is not None and not context.depth:
            self._has_judged_order = listed.is_ordered_by or self.holds(order.items)

    def _written(self, clause: Clause, texts: dict[str, str], context: Context) -> str:
        word = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}.get(clause.word, clause.word)
        if clause.word in texts:
            return f"{word} {texts[clause.word]}" if texts[clause.word] else ""
        own = replace(context, clause=clause.start)
        return f"{word} {', '.join(self._leaf(part, own, 0)[0] for part in parts(clause.items))}".strip()

    def _from(self, select: Select, level: int, context: Context) -> tuple[Joined, int]:
        clause = select.clause("FROM")
        if clause is None:
            return Joined(text=""), level
        own = replace(context, clause=clause.start)
        return joined(self, clause.items, level, own)

    def _where(
        self,
        select: Select,
        tables: Joined,
        aliases: frozenset[str],
        level: int,
        context: Context,
        *,
        is_top: bool,
    ) -> tuple[str, int]:
        clause = select.clause("WHERE")
        cheap, hot, conditions = list[str](), list[str](), list[list[Site]]()
        first = len(self.sites)
        if tables.moved:
            own = replace(context, clause=select.clauses[0].start if clause is None else clause.start)
            hot, conditions, level = self._hot(tables.moved, level, own, is_top=is_top)
        if clause is not None:
            own = replace(context, clause=clause.start)
            pieces = [clause.items] if len(conjuncts(clause.items, "OR")) > 1 else conjuncts(clause.items)
            is_hot = [self.holds(piece, aliases) for piece in pieces]
            for piece in (piece for piece, hot_one in zip(pieces, is_hot, strict=True) if not hot_one):
                text, level = self.expression(piece, replace(own, is_condition=True), level)
                cheap.append(f"({text})")
            left = [piece for piece, hot_one in zip(pieces, is_hot, strict=True) if hot_one]
            more, judged, level = self._hot(left, level, own, is_top=is_top)
            hot, conditions = hot + more, conditions + judged
        if not context.depth:
            self._pairs = pairs_of(tables, cheap, conditions)
        if is_top and (aliases or any(site.depth for site in self.sites[first:])):
            raise NotLimited
        return gated(cheap, hot, [*tables.gate, *cheap]), level

    def _hot(
        self, pieces: Sequence[Sequence[Node]], level: int, context: Context, *, is_top: bool
    ) -> tuple[list[str], list[list[Site]], int]:
        """Return conditions with sites, each at the level after the one before, and the sites of each."""
        texts: list[str] = []
        judged: list[list[Site]] = []
        for piece in pieces:
            first = len(self.sites)
            text, level = self.expression(piece, replace(context, is_condition=True), level)
            sites = self.sites[first:]
            judged.append(sites)
            if is_top:
                arguments = [argument for site in sites for argument in site.arguments]
                text = f"{MAYBE}{len(self._maybes)}({', '.join([text, *arguments])})"
                self._maybes.append([site.number for site in sites])
            texts.append(f"({text})")
        return texts, judged, level

    def _extra_columns(self, sites: Sequence[Site]) -> str:
        """Return the arguments of sites as further columns."""
        columns: list[str] = []
        for site in sites:
            self._columns.append((site.number, len(site.arguments)))
            names = (f"{ARGUMENT}{site.number}_{index}" for index in range(len(site.arguments)))
            columns += [f"{text} AS {name}" for text, name in zip(site.arguments, names, strict=True)]
        return "".join(f", {column}" for column in columns)

    def _clause(self, select: Select, word: str, level: int, context: Context) -> tuple[str, int]:
        clause = select.clause(word)
        if clause is None:
            return "", level
        own = replace(context, clause=clause.start)
        if word in ("HAVING", "QUALIFY"):
            cheap, hot, level = self.condition(clause.items, level, own)
            return gated(cheap, hot, cheap), level
        texts, end = list[str](), level
        for part in parts(clause.items):
            count = without_alias(part) if word == "ORDER" else len(part)
            text, after = self.expression(part[:count], own, level)
            texts.append(f"{text} {self.plain(part[count:])}".rstrip())
            end = max(end, after)
        return ", ".join(texts), end


class NotLimited(Exception):
    """LIMIT cannot end the query early."""
