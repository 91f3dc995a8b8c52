"""A deadline for work with models. The time that the work waits for a person or a download does not count."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """Cancels work that takes too long. The work may then finish what it has to report, without a limit."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._when = self._loop.time() + seconds
        self._timeout = asyncio.timeout(None)
        self._has_passed = False
        self._waits, self._waiting_since = 0, 0.0

    @property
    def has_passed(self) -> bool:
        return self._has_passed

    async def limit(self, work: Awaitable[T]) -> T:
        """Wait for the next part of the work. Raises TimeoutError if the deadline passes."""
        token = _DEADLINE.set(self)
        self._timeout = asyncio.timeout_at(None if self._waits or self._has_passed else self._when)
        try:
            async with self._timeout:
                return await work
        finally:
            self._has_passed = self._has_passed or self._timeout.expired()
            _DEADLINE.reset(token)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        if not self._waits:
            self._waiting_since = self._loop.time()
            self._reschedule(None)
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._when += self._loop.time() - self._waiting_since
                self._reschedule(self._when)

    def _reschedule(self, when: float | None) -> None:
        if not self._has_passed:
            with contextlib.suppress(RuntimeError):  # it has just expired, or no part of the work is in progress
                self._timeout.reschedule(when)


_DEADLINE: contextvars.ContextVar[Deadline | None] = contextvars.ContextVar("deadline", default=None)


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """Stop the clock of the work that this code belongs to, if it has a deadline."""
    deadline = _DEADLINE.get()
    with contextlib.nullcontext() if deadline is None else deadline.stopped():
        yield
