"""Quotas: requests per minute, tokens and money per day."""

from __future__ import annotations

import asyncio
import collections
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import BudgetError
from ..lm import LM, Around, Completion, Message, Usage
from .store import Store
from .telemetry import Telemetry

Key = TypeVar("Key")
_MAX_KNOWN = 10_000


class RateLimiter:
    """A token bucket for each client: it holds a minute's worth of requests and refills steadily."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def take(self, client: str) -> float:
        """Count a request. Return the seconds to wait, 0 if it is allowed now."""
        now = time.monotonic()
        left, before = self._buckets.pop(client, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - before) * self._per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / self._per_minute
        self._buckets[client] = (left if wait else left - 1, now)
        if len(self._buckets) > _MAX_KNOWN:
            self._buckets.popitem(last=False)
        return wait


class Ledger:
    """What each owner has spent today, across restarts; `flush` writes new amounts to the store.

    `budget` applies to every owner; the limits that `own_budget` returns for an owner replace it.
    """

    def __init__(
        self,
        budget: Mapping[str, float],
        store: Store,
        own_budget: Callable[[str], Mapping[str, float]] = lambda owner: {},
    ) -> None:
        self._budget, self._store, self._own_budget = budget, store, own_budget
        self._day = ""
        self._spent: dict[str, tuple[int, float]] = {}
        self._new: dict[tuple[str, str], tuple[int, float]] = {}  # by day and owner

    async def open(self) -> None:
        self._day = today()
        self._spent = await self._store.spent(self._day)

    def check(self, owner: str) -> None:
        """Raise BudgetError when an owner's budget is spent."""
        self._start_new_day()
        tokens, dollars = self._spent.get(owner, (0, 0.0))
        for which, used, word in (("tokens", tokens, "tokens"), ("dollars", dollars, "money")):
            allowed = self._allowed(owner).get(which)
            if allowed is not None and used >= allowed:
                raise BudgetError(word, f"the budget of {allowed:g} {which} a day is spent")

    def _allowed(self, owner: str) -> dict[str, float]:
        return {**self._budget, **self._own_budget(owner)}

    def _start_new_day(self) -> None:
        """Begin a new ledger day at midnight."""
        if today() != self._day:
            self._day, self._spent = today(), {}

    def add(self, owner: str, usage: Usage) -> None:
        self._start_new_day()
        amount = (usage.prompt_tokens + usage.completion_tokens, usage.dollars or 0.0)
        _add(self._spent, owner, amount)
        _add(self._new, (self._day, owner), amount)

    def counts_money(self, owner: str) -> bool:
        return "dollars" in self._allowed(owner)

    async def flush(self) -> None:
        days: dict[str, dict[str, tuple[int, float]]] = {}
        for (day, owner), amount in self._new.items():
            days.setdefault(day, {})[owner] = amount
        self._new = {}
        while days:
            day, amounts = days.popitem()
            try:
                await self._store.spend(day, amounts)
            except Exception:  # after any error, the amounts are written later
                for left, unwritten in (*days.items(), (day, amounts)):
                    for owner, amount in unwritten.items():
                        _add(self._new, (left, owner), amount)
                raise
        if self._store.shared is not None:  # other servers spend, too
            self._start_new_day()
            day = self._day
            spent = await self._store.spent(day)
            for (when, owner), amount in self._new.items():
                if when == day:
                    _add(spent, owner, amount)
            if day == self._day:
                self._spent = spent


def _add(table: dict[Key, tuple[int, float]], key: Key, amount: tuple[int, float]) -> None:
    tokens, dollars = table.get(key, (0, 0.0))
    table[key] = (tokens + amount[0], dollars + amount[1])


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def seconds_to_midnight() -> float:
    now = datetime.datetime.now(datetime.UTC)
    return 86_400 - (now.hour * 3600 + now.minute * 60 + now.second)


class MeteredLM(Around):
    """A model for one owner: its requests are counted, and refused when the daily budget is spent."""

    def __init__(self, lm: LM, owner: str, ledger: Ledger, telemetry: Telemetry) -> None:
        super().__init__(lm)
        self._owner, self._ledger = owner, ledger
        self._metrics, self._spans = telemetry.metrics, telemetry.spans

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self._ledger.check(self._owner)
        model = self.name.partition(":")[2]
        turns = [(message.role, message.content) for message in messages]
        with self._spans.begun("chat", model, self.name, turns) as span:
            replies = await self._counted(messages, options)
            used = [reply.usage for reply in replies]
            span.usage(sum(one.prompt_tokens for one in used), sum(one.completion_tokens for one in used))
            span.set({"gen_ai.response.finish_reasons": [reply.finish_reason for reply in replies]})
            span.content("gen_ai.output.messages", [("assistant", reply.text) for reply in replies])
        return replies

    async def _counted(self, messages: Sequence[Message], options: dict[str, Any]) -> list[Completion]:
        started = time.monotonic()
        try:
            replies = await self._lm.complete(messages, **options)
        except asyncio.CancelledError:  # the provider may charge for it
            self._metrics.add("coc_lm_requests_total", model=self.name, outcome="cancelled")
            self._ledger.add(self._owner, self.estimate(messages))
            raise
        except Exception:
            self._metrics.add("coc_lm_requests_total", model=self.name, outcome="failed")
            raise
        usage = Usage()
        for reply in replies:
            usage += reply.usage
        self._ledger.add(self._owner, usage)  # even if its price is unknown
        if usage.dollars is None and self._ledger.counts_money(self._owner):
            raise BudgetError("money", f"the price of {self.name} is unknown, so a money budget cannot be enforced")
        self._metrics.add("coc_lm_requests_total", model=self.name, outcome="answered")
        self._metrics.observe("coc_lm_seconds", time.monotonic() - started)
        for kind, count in (("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens)):
            self._metrics.add("coc_lm_tokens_total", count, model=self.name, kind=kind)
        self._metrics.add("coc_lm_dollars_total", usage.dollars or 0.0, model=self.name)
        return replies
