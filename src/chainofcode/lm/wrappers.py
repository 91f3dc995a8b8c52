"""Models around models: remember replies, try again, hold back, keep to a budget. Each is a model itself.

lm = Cached(Budgeted(Retried(Limited(lm, in_flight=8)), tokens=100_000), path)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
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
    """The same request is asked once, over all processes that share the file. What it repeats costs nothing.

    A file that is damaged is set aside, with its name changed, and a new one begun.
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
        """Locked for long, or no room: a reply that is not kept is asked for again. Damage is another matter."""
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
    """A request as bytes: the same whatever the order of its options, and whether defaults are written out."""
    return msgspec.json.encode([name, list(messages), {**_DEFAULTS, **options}], order="sorted")


class Retried(Around):
    """What fails for a moment is tried again, after as long as the endpoint asks for, or a pause that doubles."""

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
                    raise  # nobody waits that long without being told
                # Not all at the same moment again: those who failed together would fail together.
                await asyncio.sleep(asked if asked is not None else pause * random.uniform(0.5, 1.5))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")


class Limited(Around):
    """At most so many requests at once, and begun in a minute; the rest wait for their turn."""

    def __init__(self, lm: LM, in_flight: int = 8, per_minute: int | None = None) -> None:
        super().__init__(lm)
        self._in_flight, self._per_minute = in_flight, per_minute
        self.in_flight = min(self.in_flight, in_flight)
        # Some for each loop that asks: what was waited for belongs to its loop.
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._begun: deque[float] = deque()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        async with self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._in_flight)):
            await self._wait_for_minute()
            return await self._lm.complete(messages, **options)

    async def _wait_for_minute(self) -> None:
        if self._per_minute is None:
            return
        while True:
            now = time.monotonic()
            while self._begun and self._begun[0] <= now - 60:
                self._begun.popleft()
            if len(self._begun) < self._per_minute:
                self._begun.append(now)
                return
            await asyncio.sleep(self._begun[0] + 60 - now)


class Batched(Around):
    """Is asked for up to so many calls of one function in a prompt: fewer prompts, less money; see bench/rows.py."""

    def __init__(self, lm: LM, rows: int) -> None:
        super().__init__(lm)
        self.rows = rows


class Budgeted(Around):
    """Refuses to ask once a budget is spent. Money can only be counted where the price is known."""

    def __init__(
        self, lm: LM, *, calls: int | None = None, tokens: int | None = None, dollars: float | None = None
    ) -> None:
        super().__init__(lm)
        self._budget = {"calls": calls, "tokens": tokens, "money": dollars}
        self._begun = 0
        self.spent = Usage()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self._check(options.get("n", 1))
        self._begun += int(options.get("n", 1))
        replies = await self._lm.complete(messages, **options)
        for reply in replies:
            self.spent += reply.usage
        return replies

    def _check(self, wanted: int) -> None:
        if self._budget["money"] is not None and self.spent.dollars is None:
            raise BudgetError("money", f"the price of {self.name} is not known: a budget in money cannot be kept")
        spent = {
            "calls": self._begun + wanted - 1,
            "tokens": self.spent.prompt_tokens + self.spent.completion_tokens,
            "money": self.spent.dollars or 0.0,
        }
        for which, budget in self._budget.items():
            if budget is not None and spent[which] >= budget:
                raise BudgetError(
                    which, f"the budget of {budget:g} {'dollars' if which == 'money' else which} is spent"
                )
