"""Rounds: the query runs, all calls without a value are requested together, and it runs again until none is left.

A call without a value is NULL for the moment. Only calls of the lowest level that has such calls are requested: what
they depend on is known, so each of them is needed. If an argument is NULL, the value is NULL without a call, as with
most functions of SQL. Standard library only.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ....values.arrays import numbered
from ...guest.link import clean
from ..compiler.expressions import Site
from ..compiler.query_plan import QueryPlan
from ..compiler.rewrite import MAYBE, Rewritten
from .engine import QueryError, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from .engine import Engine

MAX_CALL_CHARS = 200_000
_MAX_ROUNDS = 10_000


@dataclass(kw_only=True)
class Wanted:
    """A call without a value: its place, its arguments, and how many rows make it."""

    site: Site
    key: Any
    args: tuple[Any, ...]
    rows: int = 1

    @property
    def text(self) -> str:
        """The call as values files write it."""
        return clean(f"{self.site.function}({', '.join(map(repr, self.args))})", MAX_CALL_CHARS)


class Rounds:
    """The values that are known, and the calls that a run of the query made without one."""

    def __init__(self, plan: QueryPlan, engine: Engine) -> None:
        self._plan, self._engine = plan, engine
        self._values: dict[str, dict[Any, Any]] = {site.function: {} for site in plan.full.sites}
        self._kinds: dict[str, str] = {}
        self._wanted: dict[int, dict[Any, Wanted]] = {}
        self._is_limited = plan.limited is not None
        self.call_numbers: dict[tuple[str, Any], int] = {}  # calls that have a value, numbered
        self._is_optimistic = False
        self._names = engine_names(plan)

    def results(
        self, ask: Callable[[list[Wanted]], list[Any]], max_bytes: int, names: Sequence[str]
    ) -> tuple[list[str], list[Sequence[Any]]]:
        """Run the query until no call is without a value. Returns the names of the columns and the rows."""
        for _ in range(_MAX_ROUNDS):
            form = self._plan.limited if self._is_limited and self._plan.limited is not None else self._plan.full
            self._is_optimistic = self._is_limited
            try:
                shown, rows = self._run(form, max_bytes)
            except QueryError:  # it may be due to a column that only this form has
                if not self._is_limited:
                    raise
                self._is_limited = False
                continue
            wanted = self._needed(form, rows)
            if wanted:
                self._learn(wanted, ask(wanted))
                continue
            if self._is_limited:
                self._is_optimistic = False
                shown, sure = self._run(form, max_bytes)
                if list(map(tuple, sure)) != list(map(tuple, rows)):  # a condition was NULL after all: judge all rows
                    self._is_limited = False
                    continue
                rows = sure
            width = len(shown) - sum(count for _, count in form.columns)
            heads = list(names) if len(names) == width else [self._names.get(name, name) for name in shown[:width]]
            return [str(name) for name in numbered(heads)], [row[:width] for row in rows[form.skipped :]]
        raise QueryError(f"the query still makes new calls after {_MAX_ROUNDS} rounds of values")

    # --- one run ----------------------------------------------------------------------------------------------------

    def _run(self, form: Rewritten, max_bytes: int) -> tuple[list[str], list[Sequence[Any]]]:
        self._wanted = {}
        self._define(form)
        names, rows = self._engine.run(form.text)
        kept: list[Sequence[Any]] = []
        left = max_bytes
        for row in rows:
            kept.append(row)
            left -= sum(len(cell) if isinstance(cell, (str, bytes)) else 16 for cell in row)
            if left < 0:
                raise QueryError(f"the result has over {max_bytes:,} bytes: select less, or raise --limit frame=N")
        return names, kept

    def _define(self, form: Rewritten) -> None:
        for site in form.sites:
            kind = self._kind(site.function)
            self._engine.define(site.name, self._function(site), kind, is_bare=not site.arguments)
        for number, sites in enumerate(form.maybes):
            self._engine.define(f"{MAYBE}{number}", self._maybe([form.sites[site] for site in sites]), "bool")

    def _kind(self, function: str) -> str:
        """Return the type of a function's values: that of the values so far, else that of its use."""
        types = {type(value) for value in self._values[function].values()} - {type(None)}
        if not types:
            return self._plan.column_kind(function)
        if types == {bool}:
            return "bool"
        if types == {int}:
            return "int"
        return "float" if types <= {int, float} else "text"

    def _function(self, site: Site) -> Callable[..., Any]:
        values = self._values[site.function]
        wanted = self._wanted.setdefault(site.number, {})
        is_text = self._kind(site.function) == "text"
        to_value = self._engine.value
        if is_text:
            values = {key: _texts(to_value(value)) for key, value in values.items()}

        def call(*args: Any) -> Any:
            if None in args:
                return None
            key = args if all(type(arg) is str for arg in args) else key_of(args)
            if key in values:
                return values[key]
            if key in wanted:
                wanted[key].rows += 1
            else:
                wanted[key] = Wanted(site=site, key=key, args=tuple(plain(arg) for arg in args))
            return None

        return call

    def _maybe(self, sites: Sequence[Site]) -> Callable[..., Any]:
        """Return a function that replaces a condition's value by true while a call in it has no value.

        The condition is not decided then: `f(x) IS NULL` holds for the moment, COALESCE(f(x), FALSE) does not.
        """
        unknown = [(self._wanted[site.number], len(site.arguments)) for site in sites]

        def maybe(value: Any, *args: Any) -> Any:
            place = 0
            for wanted, count in unknown if self._is_optimistic else ():
                own, place = args[place : place + count], place + count
                if wanted and key_of(own) in wanted:
                    return True
            return None if value is None else bool(value)

        return maybe

    # --- which calls to request -------------------------------------------------------------------------------------

    def _needed(self, form: Rewritten, rows: Sequence[Sequence[Any]]) -> list[Wanted]:
        """Return the distinct calls of the lowest level; with LIMIT, only those of rows in the result."""
        allowed = self._of_rows(form, rows) if self._is_limited else None
        found: dict[tuple[str, Any], Wanted] = {}
        lowest: int | None = None
        for site in sorted(form.sites, key=lambda site: site.level):
            if lowest is not None and site.level > lowest:
                break
            for key, wanted in self._wanted.get(site.number, {}).items():
                if allowed is not None and site.number in allowed and key not in allowed[site.number]:
                    continue
                lowest = site.level
                same = found.setdefault((site.function, key), wanted)
                same.rows += 0 if same is wanted else wanted.rows
        return list(found.values())

    @staticmethod
    def _of_rows(form: Rewritten, rows: Sequence[Sequence[Any]]) -> dict[int, set[Any]]:
        """Return the calls of each site that rows of the result make, from the columns with their arguments."""
        total = sum(count for _, count in form.columns)
        allowed: dict[int, set[Any]] = {site: set() for site, _ in form.columns}
        conditions = {site for sites in form.maybes for site in sites}
        for number, row in enumerate(rows):
            own = row[len(row) - total :]
            place = 0
            for site, count in form.columns:
                if number >= form.skipped or site in conditions:
                    allowed[site].add(key_of(own[place : place + count]))
                place += count
        return allowed

    def calls_of_rows(self, max_bytes: int) -> list[set[int]] | None:
        """Return the numbers of the calls that each row of the result depends on; None if it may depend on all."""
        form = self._plan.simple
        if form is None:
            return None
        self._is_optimistic = False
        try:
            _, rows = self._run(form, max_bytes)
        except QueryError:  # due to a column that only this form has
            return None
        inner = {site.function for site in form.sites if site.depth}
        everywhere = {number for (function, _), number in self.call_numbers.items() if function in inner}
        return [everywhere | self._calls_of(form, row) for row in rows[form.skipped :]]

    def _calls_of(self, form: Rewritten, row: Sequence[Any]) -> set[int]:
        found: set[int] = set()
        place = len(row) - sum(count for _, count in form.columns)
        for number, count in form.columns:
            call = form.sites[number].function, key_of(row[place : place + count])
            place += count
            if call in self.call_numbers:
                found.add(self.call_numbers[call])
        return found

    def _learn(self, wanted: Sequence[Wanted], values: Sequence[Any]) -> None:
        for call, value in zip(wanted, values, strict=True):
            self.call_numbers.setdefault((call.site.function, call.key), len(self.call_numbers))
            self._values[call.site.function][call.key] = self._engine.value(plain(value))


def engine_names(plan: QueryPlan) -> dict[str, str]:
    """Map the column names of the rewritten query to those of the original query."""
    return plan.full.names | (plan.limited.names if plan.limited is not None else {})


def key_of(args: Sequence[Any]) -> Any:
    """Return a key for arguments, the same for equal calls: 1, 1.0 and true are different arguments."""
    if all(type(arg) is str for arg in args):
        return tuple(args)
    return ", ".join(repr(plain(arg)) for arg in args)


def plain(value: Any) -> Any:
    """Convert an SQL value to a type that calls and results can contain."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return str(value)


def _texts(value: Any) -> Any:
    """Convert a value of a function whose values are texts."""
    if value is None or isinstance(value, str):
        return value
    return to_text(value) if isinstance(value, bool) else str(value)


def records(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows as objects by column."""
    for row in rows:
        yield {name: plain(cell) for name, cell in zip(names, row, strict=True)}
