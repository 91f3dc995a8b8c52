"""A deadline for work with models. The time that the work waits for a person or a download does not count."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Iterator
from typing import TypeVar

T = TypeVar("T")


class _Clock:
    """A clock that stops while work waits for a person or a download."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits, self._waiting_since, self._waited = 0, 0.0, 0.0
        self.deadlines = set[Deadline]()  # of work in progress

    def time(self) -> float:
        return (self._waiting_since if self._waits else self._loop.time()) - self._waited

    def loop_time(self, when: float) -> float | None:
        """Return the event loop's time for a time of this clock; None while it is stopped."""
        return None if self._waits else when + self._waited

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        if not self._waits:
            self._waiting_since = self._loop.time()
        self._waits += 1
        self._reschedule()
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._waited += self._loop.time() - self._waiting_since
            self._reschedule()

    def _reschedule(self) -> None:
        for deadline in self.deadlines:
            deadline.reschedule()


class Deadline:
    """Cancels work that takes too long. The work may then finish what it has to report, without a limit."""

    def __init__(self, seconds: float) -> None:
        self._clock = _CLOCK.get() or _Clock()
        self._when = self._clock.time() + seconds
        self._timeout = asyncio.timeout(None)
        self._has_passed = False

    @property
    def has_passed(self) -> bool:
        return self._has_passed

    async def limit(self, work: Awaitable[T]) -> T:
        """Wait for the next part of the work. Raises TimeoutError if the deadline passes."""
        token = _CLOCK.set(self._clock)
        self._timeout = asyncio.timeout_at(None if self._has_passed else self._clock.loop_time(self._when))
        try:
            async with self._timeout:
                self._clock.deadlines.add(self)
                return await work
        finally:
            self._clock.deadlines.discard(self)
            self._has_passed = self._has_passed or self._timeout.expired()
            _CLOCK.reset(token)

    def reschedule(self) -> None:
        if not self._has_passed:
            with contextlib.suppress(RuntimeError):  # it has just expired
                self._timeout.reschedule(self._clock.loop_time(self._when))


_CLOCK: contextvars.ContextVar[_Clock | None] = contextvars.ContextVar("clock", default=None)


@contextlib.contextmanager
def shared_clock() -> Iterator[None]:
    """Give all deadlines of this work one clock: some parts may wait for what another part waits for."""
    token = _CLOCK.set(_Clock())
    try:
        yield
    finally:
        _CLOCK.reset(token)


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """Stop the clock of the work that this code belongs to, if it has a deadline."""
    clock = _CLOCK.get()
    with contextlib.nullcontext() if clock is None else clock.stopped():
        yield
