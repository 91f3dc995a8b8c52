"""Wrappers of models, each a model itself: a cache, retries, limits, a budget.

lm = Cached(Budgeted(Retried(Limited(lm, in_flight=8)), tokens=100_000), path)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import math
import random
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ..errors import BudgetError, LMError
from .interface import LM, Around, Completion, Message, Usage

_BUSY_SECONDS = 30
_LONGEST_PAUSE_SECONDS = 60.0
_TABLE = "CREATE TABLE IF NOT EXISTS replies (request BLOB PRIMARY KEY, completions BLOB NOT NULL) WITHOUT ROWID"
_DEFAULTS = {
    name: option.default
    for name, option in inspect.signature(LM.complete).parameters.items()
    if option.kind is inspect.Parameter.KEYWORD_ONLY
}
_completions: msgspec.json.Decoder[list[Completion]] = msgspec.json.Decoder(list[Completion])


class Cached(Around):
    """Caches replies in a file, which processes can share. A cache hit costs nothing.

    A damaged file is renamed, and a new one begun.
    """

    def __init__(self, lm: LM, path: Path) -> None:
        super().__init__(lm)
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._store = self._open()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise LMError(f"cannot keep replies in {path}: {error}") from None
            self._set_aside()
            self._store = self._open()

    def _open(self) -> sqlite3.Connection:
        store = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            store.execute("PRAGMA journal_mode=WAL")
            store.execute("PRAGMA synchronous=NORMAL")
            store.execute(_TABLE)
        except sqlite3.DatabaseError:
            store.close()
            raise
        return store

    def _set_aside(self) -> None:
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            self._path.rename(self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}"))

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        request = hashlib.sha256(_canonical(self.name, messages, options)).digest()
        known = self._look_up(request)
        if known is not None:
            return [msgspec.structs.replace(reply, usage=Usage(), seconds=0.0) for reply in known]
        replies = await self._lm.complete(messages, **options)
        self._keep(request, replies)
        return replies

    def _look_up(self, request: bytes) -> list[Completion] | None:
        try:
            row = self._store.execute("SELECT completions FROM replies WHERE request = ?", (request,)).fetchone()
            return None if row is None else _completions.decode(row[0])
        except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
            self._begin_anew_after(error)
            return None

    def _keep(self, request: bytes, replies: list[Completion]) -> None:
        try:
            row = (request, msgspec.json.encode(replies))
            self._store.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", row)
        except sqlite3.DatabaseError as error:
            self._begin_anew_after(error)

    def _begin_anew_after(self, error: Exception) -> None:
        """Start a new file after damage. Other errors (locked, disk full) only mean that a reply is not cached."""
        if isinstance(error, msgspec.DecodeError) or _is_damage(error):
            self._store.close()
            self._set_aside()
            self._store = self._open()

    def close(self) -> None:
        self._store.close()
        super().close()


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _canonical(name: str, messages: Sequence[Message], options: dict[str, Any]) -> bytes:
    """Return a request as bytes, which do not depend on the order of options or on defaults being given."""
    return msgspec.json.encode([name, list(messages), {**_DEFAULTS, **options}], order="sorted")


class Retried(Around):
    """Retries transient errors, after the time that the endpoint asks for, or a pause that doubles."""

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
                asked = error.retry_seconds
                if asked is not None and asked > _LONGEST_PAUSE_SECONDS:
                    raise  # too long to wait without a word
                # Jitter: requests that failed together must not come again together.
                await asyncio.sleep(asked if asked is not None else pause * random.uniform(0.5, 1.5))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")


class RateLimit:
    """At most so many requests a minute; the rest wait. None: no limit."""

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
    """At most so many requests at once, and so many a minute; the rest wait for their turn."""

    def __init__(self, lm: LM, in_flight: int = 8, per_minute: int | None = None) -> None:
        super().__init__(lm)
        self._slot_count, self._rate = in_flight, RateLimit(per_minute)
        self.in_flight = min(self.in_flight, in_flight)
        # One for each event loop: a semaphore belongs to the loop in which it was waited for.
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        async with self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._slot_count)):
            await self._rate.wait()
            return await self._lm.complete(messages, **options)


class Batched(Around):
    """Is asked for up to so many calls of one function in a prompt: fewer prompts, less money; see bench/rows.py."""

    def __init__(self, lm: LM, rows: int) -> None:
        super().__init__(lm)
        self.rows = rows


class Budget:
    """Limits of requests, tokens and dollars, and what was spent of them."""

    def __init__(self, *, calls: int | None = None, tokens: float | None = None, dollars: float | None = None) -> None:
        limits = {"calls": calls, "tokens": tokens, "money": dollars}
        self.limits = {which: limit for which, limit in limits.items() if limit is not None}
        self.begun, self.spent = 0, Usage()

    def exceeded(self, wanted: int = 1) -> str:
        """Return which limit forbids so many more requests, if any. An unknown price exceeds every limit of money."""
        spent = {
            "calls": self.begun + wanted - 1,
            "tokens": self.spent.prompt_tokens + self.spent.completion_tokens,
            "money": math.inf if self.spent.dollars is None else self.spent.dollars,
        }
        return next((which for which, limit in self.limits.items() if spent[which] >= limit), "")


class Budgeted(Around):
    """Refuses to ask once a budget is spent. Money can only be counted where the price is known."""

    def __init__(
        self, lm: LM, *, calls: int | None = None, tokens: int | None = None, dollars: float | None = None
    ) -> None:
        super().__init__(lm)
        self._budget = Budget(calls=calls, tokens=tokens, dollars=dollars)

    @property
    def spent(self) -> Usage:
        return self._budget.spent

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        wanted = int(options.get("n", 1))
        self._check(wanted)
        self._budget.begun += wanted
        replies = await self._lm.complete(messages, **options)
        for reply in replies:
            self._budget.spent += reply.usage
        return replies

    def _check(self, wanted: int) -> None:
        which = self._budget.exceeded(wanted)
        if which == "money" and self.spent.dollars is None:
            raise BudgetError("money", f"the price of {self.name} is not known: a budget in money cannot be kept")
        if which:
            unit = "dollars" if which == "money" else which
            raise BudgetError(which, f"the budget of {self._budget.limits[which]:g} {unit} is spent")
