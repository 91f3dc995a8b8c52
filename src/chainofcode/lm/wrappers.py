"""Wrappers of models, each a model itself: a cache, retries, limits, a budget.

lm = Cached(Budgeted(Retried(Limited(lm, in_flight=8)), tokens=100_000), path)
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
import random
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ..errors import BudgetError, LMError
from .interface import LM, Around, Completion, Message, Usage
from .reply_store import ReplyStore

_LONGEST_PAUSE_SECONDS = 60.0
_DEFAULTS = {
    name: option.default
    for name, option in inspect.signature(LM.complete).parameters.items()
    if option.kind is inspect.Parameter.KEYWORD_ONLY
}
_completions: msgspec.json.Decoder[list[Completion]] = msgspec.json.Decoder(list[Completion])


class Cached(Around):
    """Keeps replies in a file, which processes can share; see `ReplyStore`. A cache hit costs nothing."""

    def __init__(self, lm: LM, store: ReplyStore | Path) -> None:
        super().__init__(lm)
        self._is_owner = isinstance(store, Path)
        self._store = ReplyStore(store) if isinstance(store, Path) else store

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        relevant = {name: value for name, value in options.items() if name != "on_text"}
        request = hashlib.sha256(_canonical([self.name, self.version], messages, relevant)).digest()
        known = self._look_up(request)
        if known is not None:
            return [msgspec.structs.replace(reply, usage=Usage(), seconds=0.0, is_cached=True) for reply in known]
        replies = await self._lm.complete(messages, **options)
        self._store.put(request, msgspec.json.encode(replies))
        return replies

    def _look_up(self, request: bytes) -> list[Completion] | None:
        data = self._store.get(request)
        try:
            return None if data is None else _completions.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._store.replace_file()
            return None

    def close(self) -> None:
        if self._is_owner:
            self._store.close()
        super().close()


def _canonical(model: list[str], messages: Sequence[Message], options: dict[str, Any]) -> bytes:
    """Return a request as bytes. They do not depend on the order of options, or on whether defaults are given."""
    return msgspec.json.encode([*model, list(messages), {**_DEFAULTS, **options}], order="sorted")


class Retried(Around):
    """Retries transient errors, after the delay that the endpoint requests or with exponential backoff."""

    def __init__(self, lm: LM, attempts: int = 5, first_pause_seconds: float = 0.5) -> None:
        super().__init__(lm)
        self._attempts, self._first_pause = attempts, first_pause_seconds

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        pause = self._first_pause
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._lm.complete(messages, **options)
            except LMError as error:
                if not error.is_transient or attempt == self._attempts:
                    raise
                delay = error.retry_seconds
                if delay is not None and delay > _LONGEST_PAUSE_SECONDS:
                    raise  # too long to wait silently
                # Jitter: requests that failed together must not be retried together.
                await asyncio.sleep(delay if delay is not None else pause * random.uniform(0.5, 1.5))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")


class RateLimit:
    """At most `per_minute` requests a minute; the rest wait. None: no limit."""

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._begun: deque[float] = deque()

    async def wait(self) -> None:
        while self._per_minute is not None:
            now = time.monotonic()
            while self._begun and self._begun[0] <= now - 60:
                self._begun.popleft()
            if len(self._begun) < self._per_minute:
                self._begun.append(now)
                return
            await asyncio.sleep(self._begun[0] + 60 - now)


class Limited(Around):
    """At most `in_flight` requests at once, and `per_minute` a minute; the rest wait."""

    def __init__(self, lm: LM, in_flight: int = 8, per_minute: int | None = None) -> None:
        super().__init__(lm)
        self._slot_count, self._rate = in_flight, RateLimit(per_minute)
        self.in_flight = min(self.in_flight, in_flight)
        # One for each event loop: a semaphore belongs to the loop that first waits for it.
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        async with self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._slot_count)):
            await self._rate.wait()
            return await self._lm.complete(messages, **options)


class Batched(Around):
    """Puts up to `rows` calls of one function into a prompt, which saves requests and money; see bench/rows.py."""

    def __init__(self, lm: LM, rows: int) -> None:
        super().__init__(lm)
        self.rows = rows


class Budget:
    """Limits on requests, tokens and dollars, and how much of them is spent."""

    def __init__(self, *, calls: int | None = None, tokens: float | None = None, dollars: float | None = None) -> None:
        limits = {"calls": calls, "tokens": tokens, "money": dollars}
        self.limits = {which: limit for which, limit in limits.items() if limit is not None}
        self.begun, self.spent = 0, Usage()

    def exceeded(self, wanted: int = 1) -> str:
        """Return which limit forbids `wanted` more requests, if any. An unknown price exceeds every money limit."""
        spent = {
            "calls": self.begun + wanted - 1,
            "tokens": self.spent.prompt_tokens + self.spent.completion_tokens,
            "money": math.inf if self.spent.dollars is None else self.spent.dollars,
        }
        return next((which for which, limit in self.limits.items() if spent[which] >= limit), "")


class Budgeted(Around):
    """Sends no requests once a budget is spent. A money limit needs a model with a known price."""

    def __init__(
        self,
        lm: LM,
        budget: Budget | None = None,
        *,
        calls: int | None = None,
        tokens: float | None = None,
        dollars: float | None = None,
    ) -> None:
        """Pass `budget` to share one between several models."""
        super().__init__(lm)
        self._budget = budget or Budget(calls=calls, tokens=tokens, dollars=dollars)

    @property
    def spent(self) -> Usage:
        return self._budget.spent

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        wanted = int(options.get("n", 1))
        self._check(wanted)
        self._budget.begun += wanted
        try:
            replies = await self._lm.complete(messages, **options)
        except asyncio.CancelledError:  # the provider may charge for it
            self._budget.spent += self.estimate(messages)
            raise
        for reply in replies:
            self._budget.spent += reply.usage
        return replies

    def _check(self, wanted: int) -> None:
        which = self._budget.exceeded(wanted)
        if which == "money" and self.spent.dollars is None:
            why = f"the price of {self.name} is unknown, so a money budget cannot be enforced"
            raise BudgetError("money", why)
        if which:
            unit = "dollars" if which == "money" else which
            raise BudgetError(which, f"the budget of {self._budget.limits[which]:g} {unit} is spent")
