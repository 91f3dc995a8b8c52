"""Random queries with undefined functions, for comparison with an engine that has the functions.

Each has a total order or no LIMIT, so that its rows are determined. `r` always has the columns of `reviews`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

_COLUMNS = ["id", "movie", "text", "stars", "day"]
_CHEAP = [
    "r.stars > 2",
    "r.id % 2 = 0",
    "r.movie <> 'up'",
    "r.text IS NOT NULL",
    "r.stars IS NULL",
    "r.id BETWEEN 2 AND 7",
]
_TEXTS = ["sentiment(r.text)", "shout(r.movie)", "Topic(r.text)", "shout(sentiment(r.text))", "sentiment(r.movie)"]
_NUMBERS = ["score(r.text)", "score(r.movie)", "SCORE(r.text) + r.id", "urgency(r.text)", "score(shout(r.movie)) * 2"]
_TYPES = "-- score(text) -> int\n-- urgency(text) -> float\n"
_DIRECTIONS = ["", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST"]


@dataclass
class RandomQuery:
    """One query for one engine: `text`, and whether its rows have an order."""

    engine: str
    seed: int
    text: str = ""
    is_ordered: bool = False
    _items: list[tuple[str, str]] = field(default_factory=list)  # an expression and its alias

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.engine} {self.seed}")
        with_, table, more = self._source()
        body = self._pick(self._plain, self._plain, self._plain, self._grouped, self._windowed, self._set)(table, more)
        types = _TYPES if self.engine == "duckdb" else ""  # where the type decides how a number is written
        self.text = f"{types}{with_}{body}"

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    # --- tables -----------------------------------------------------------------------------------------------------

    def _source(self) -> tuple[str, str, int]:
        """Return a WITH clause, a FROM clause, and the number of its columns besides those of reviews."""
        judged = f"SELECT r.*, {self._pick(*_TEXTS, *_NUMBERS)} AS j FROM reviews r{self._where(0.4)}"
        on = (
            f"r.movie = m.title{self._pick('', ' AND ' + self._condition(1), ' AND is_sarcastic(m.genre) IS NOT NULL')}"
        )
        other = self._condition(1).replace("r.", "x.")
        return self._pick(
            ("", "reviews r", 0),
            ("", "reviews r", 0),
            ("", f"({judged}) r", 1),
            (f"WITH q AS ({judged}) ", "q AS r", 1),
            ("", f"reviews r JOIN movies m ON {on}", 3),
            ("", f"reviews r LEFT JOIN movies m ON {on}", 3),
            ("", f"reviews r, movies m WHERE_JOIN {on}", 3),
            ("", f"reviews r LEFT JOIN movies m ON {on} JOIN reviews x ON x.id = r.id AND {other}", 8),
            ("", f"reviews r JOIN movies m ON {on} LEFT JOIN reviews x ON x.id = r.id + 1 AND {other}", 8),
            ("", "reviews r JOIN reviews x USING (id)", 4),
        )

    def _from(self, table: str, share: float = 0.7) -> str:
        table, _, joined = table.partition(" WHERE_JOIN ")
        condition = self._where(share)
        if not joined:
            return f" FROM {table}{condition}"
        return f" FROM {table} WHERE {joined}" + (f" AND ({condition[7:]})" if condition else "")

    # --- expressions ------------------------------------------------------------------------------------------------

    def _judged(self) -> str:
        return self._pick(
            "is_sarcastic(r.text)",
            "IS_SARCASTIC(r.text)",
            "NOT is_sarcastic(r.text)",
            f"{self._pick(*_TEXTS)} {self._pick('=', '<>')} '{self._pick('positive', 'negative', 'UP!', 'product')}'",
            f"{self._pick(*_NUMBERS)} {self._pick('>', '<=')} {self._random.randint(1, 6)}",
            f"{self._pick(*_TEXTS)} IS {self._pick('NOT ', '')}NULL",
            "coalesce(is_sarcastic(r.text), r.stars > 2)",
            "CASE WHEN is_sarcastic(r.text) THEN r.stars ELSE 3 END > 2",
            f"score(r.text) BETWEEN 2 AND {self._random.randint(3, 6)}",
            "sentiment(r.text) IN ('positive', 'neutral')",
            "EXISTS (SELECT 1 FROM movies n WHERE n.title = r.movie AND score(n.genre) > 5)",
            "r.id > (SELECT min(score(x.text)) FROM reviews x)",
        )

    def _condition(self, depth: int = 2) -> str:
        if not depth or self._chance(0.3):
            return self._judged() if self._chance(0.6) else self._pick(*_CHEAP)
        one, other = self._condition(depth - 1), self._condition(depth - 1)
        return self._pick(f"{one} AND {other}", f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one} AND {other})")

    def _where(self, share: float) -> str:
        return f" WHERE {self._condition()}" if self._chance(share) else ""

    def _item(self) -> str:
        return self._pick(
            *_TEXTS,
            *_NUMBERS,
            "r.id",
            "r.movie",
            "r.stars",
            f"CASE WHEN {self._condition(1)} THEN {self._pick(*_NUMBERS)} ELSE -1 END",
            f"({self._condition(1)})",
            "coalesce(r.stars, score(r.text))",
            "(SELECT max(score(n.title)) FROM movies n WHERE n.title <> r.movie)",
        )

    def _window(self) -> str:
        part = self._pick("", "PARTITION BY r.movie ", "PARTITION BY sentiment(r.text) ")
        order = f"ORDER BY {self._pick('', *(f'{one}, ' for one in _NUMBERS))}r.id{self._pick('', ' DESC')}"
        return self._pick(
            f"row_number() OVER ({part}{order})",
            f"sum({self._pick('r.stars', *_NUMBERS)}) OVER ({part}{order})",
            f"count(*) FILTER (WHERE {self._condition(1)}) OVER ({part})",
            f"avg({self._pick(*_NUMBERS)}) OVER ()",
            f"lag({self._pick('r.id', *_TEXTS)}) OVER ({part}{order})",
        )

    def _aggregate(self) -> str:
        found = [
            "count(*)",
            f"count(*) FILTER (WHERE {self._condition(1)})",
            f"sum({self._pick(*_NUMBERS)})",
            f"max({self._pick(*_NUMBERS, *_TEXTS)})",
            f"count(DISTINCT {self._pick(*_TEXTS)})",
            f"min(r.id) FILTER (WHERE {self._judged()})",
            "shout(max(r.text))",
            "score(min(r.movie)) + count(*)",
            f"sum(CASE WHEN {self._condition(1)} THEN 1 ELSE 0 END)",
        ]
        if self.engine == "duckdb":
            found += [
                f"string_agg(r.movie, ',' ORDER BY {self._pick(*_NUMBERS)}, r.id)",
                f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {self._pick(*_NUMBERS)})",
            ]
        return self._pick(*found)

    # --- queries ----------------------------------------------------------------------------------------------------

    def _listed(self) -> str:
        return ", ".join(f"{text} AS {alias}" if alias else text for text, alias in self._items)

    def _add(self, text: str, number: int) -> None:
        self._items.append((text, self._pick("", f"a{number}", f"a{number}") if text != "*" else ""))

    def _limit(self) -> str:
        count, skipped = self._random.randint(0, 4), self._random.randint(0, 3)
        found = ["", f" LIMIT {count}", f" LIMIT {count}", f" LIMIT {count} OFFSET {skipped}", f" LIMIT 1 + {count}"]
        found += [f" LIMIT {count} + 1 OFFSET {skipped}"]
        own = [f" LIMIT {skipped}, {count}", f" LIMIT -1 OFFSET {skipped}"]
        return self._pick(*found, *([" LIMIT 40%", f" LIMIT 50% OFFSET {skipped}"] if self.engine == "duckdb" else own))

    def _order(self, total: list[str], width: int) -> str:
        """Return an ORDER BY that ends with `total` and a LIMIT, or neither."""
        if self._chance(0.2):
            return ""
        self.is_ordered = True
        terms: list[str] = []
        for _ in range(self._random.randint(0, 2)):
            number = self._random.randrange(len(self._items))
            text, alias = self._items[number]
            position = 1 + sum(width if one == "*" else 1 for one, _ in self._items[:number])
            text = text if text not in ("*", "-1") else str(position)
            term = self._pick(str(position), text, alias or str(position), self._pick(*total))
            terms.append(term + self._pick(*_DIRECTIONS))
        return f" ORDER BY {', '.join([*terms, *total])}{self._limit()}"

    def _plain(self, table: str, more: int) -> str:
        for number in range(self._random.randint(1, 3)):
            self._add("*" if not number and self._chance(0.25) else self._item(), number)
        if self.engine == "duckdb" and self._items[-1][1] and "SELECT" not in self._items[-1][0] and self._chance(0.3):
            self._items.append((f"coalesce(CAST({self._items[-1][1]} AS VARCHAR), 'none')", "reused"))
        if self._chance(0.15):
            return f"SELECT DISTINCT {self._listed()}{self._from(table)}"
        rows = self._from(table)
        total = self._pick(["r.id"], ["r.id"], ["row_number() OVER (PARTITION BY r.movie ORDER BY r.id)", "r.id"])
        return f"SELECT {self._listed()}{rows}{self._order(total, len(_COLUMNS) + more)}"

    def _windowed(self, table: str, more: int) -> str:
        for number in range(self._random.randint(1, 3)):
            self._add(self._pick(self._item(), self._window()), number)
        self._items.append((self._window(), "w"))
        rows = self._from(table)
        if self.engine == "duckdb" and self._chance(0.3):
            rows += f" QUALIFY {self._pick('w IS NOT NULL', 'row_number() OVER (PARTITION BY sentiment(r.text) ORDER BY r.id) = 1')}"
        return f"SELECT {self._listed()}{rows}{self._order(['r.id'], len(_COLUMNS) + more)}"

    def _grouped(self, table: str, more: int) -> str:
        keys = self._random.sample(["r.movie", "r.stars", *_TEXTS], self._random.randint(0, 2))
        for number, key in enumerate(keys):
            self._items.append((key, self._pick("", f"k{number}")))
        for number in range(self._random.randint(1, 2)):
            self._add(self._aggregate(), number)
        named = [self._pick(key, self._items[n][1] or key, str(n + 1)) for n, key in enumerate(keys)]
        group = f" GROUP BY {', '.join(named)}" if keys else ""
        having = f" HAVING {self._aggregate()} IS NOT NULL" if keys and self._chance(0.3) else ""
        having += f" AND count(*) > {self._random.randint(0, 2)}" if having else ""
        rows = self._from(table)
        order = self._order(keys, 0) if keys else self._pick("", " LIMIT 1", " LIMIT 3")
        return f"SELECT {self._listed()}{rows}{group}{having}{order}"

    def _set(self, table: str, more: int) -> str:
        one = f"SELECT r.id, {self._pick(*_NUMBERS)} * 2 AS s{self._from(table)}"
        other = f"SELECT r.id, {self._pick('r.id', *_NUMBERS)} * 2 FROM reviews r{self._where(0.7)}"
        self._items = [("1", ""), ("2", "s")]
        return f"{one} {self._pick('UNION ALL', 'UNION', 'EXCEPT')} {other}{self._pick('', ' ORDER BY s, 1, 2')}"
