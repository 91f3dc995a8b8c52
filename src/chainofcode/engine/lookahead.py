"""Lookahead: a shadow of the program runs ahead of it, in its own guest, and finds the calls that it will make.

The shadow reports calls, the host requests their values, and the shadow runs again with the values that have arrived
(for Python: languages/python/guest/shadow/rounds.py). It cannot affect the result: the program takes a value only for a
call that it makes itself, with the same arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from ..sandbox import Job, Sandbox, Session
from ..sandbox.frames import Ended, Paused, Surveyed

_FREE_SECONDS = 2.0  # how much longer than the program its shadows may run
_MAX_PATIENCE, _MAX_SHADOWS = 64, 4
_HOLD_SECONDS = 1.0  # how long requests are held back to go out together


class Foreseeing(Protocol):
    """Receives calls before the program makes them."""

    def foresee(self, paused: Paused) -> bool:
        """Queue a call that the shadow reports. Return whether it is new."""

    def reorder(self, calls: list[int]) -> None:
        """Sort the queue by the calls of a finished round, given as pause numbers in program order."""

    def pump(self) -> None:
        """Start queued requests, up to the number allowed in flight."""

    @property
    def is_busy(self) -> bool:
        """Whether enough requests are queued already."""


class Lookahead:
    """Runs shadows of one program, from its first pause on.

    Shadows run no longer than the program has, plus a constant. A new round begins when values have arrived; after
    each round without new calls, the next one waits for more values.
    """

    def __init__(self, place: Sandbox, job: Job, session: Session, answers: Foreseeing) -> None:
        self._place, self._job, self._session, self._answers = place, job, session, answers
        self._values: list[dict[str, Any]] = []
        self._news = 0  # values and unforeseen calls since the last round began
        self._patience = 1  # how many of them start a new round
        self._spent_seconds, self._shadows = 0.0, 0
        self._shadow: Session | None = None
        self._is_alive = self._is_running = False  # whether a shadow exists; whether it is in a round
        self._hold: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        self._release()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def learn(self, paused: Paused, reply: Mapping[str, Any]) -> None:
        """Keep a value for the next round."""
        call = {"kind": paused.kind, "text": paused.text, "args": paused.args, "kwargs": paused.kwargs}
        self._values.append({**call, "known_by": paused.known_by, "statement": paused.statement, "reply": reply})
        self._note_news()

    def reach(self, *, is_foreseen: bool) -> None:
        """Handle a pause of the program: start a shadow, or count a call that it did not foresee."""
        if not self._is_alive and (self._task is None or self._may_start()):
            self._is_alive = True
            self._shadows += 1
            self._task = asyncio.create_task(self._look())
            self._note_running()
        elif not is_foreseen:
            self._note_news()

    @property
    def holds(self) -> bool:
        """Whether more calls may be found soon, so that an emulator that batches requests should wait."""
        is_about_to_run = not self._is_running and self._is_worthwhile()
        return self._is_alive and (self._hold is not None or is_about_to_run)

    def end(self, foreseen: Paused | None) -> None:
        """Handle the end of a request: there may be room for more."""
        if foreseen is not None and self._shadow is not None:
            self._shadow.answered(foreseen)
        self._changed.set()

    def _note_news(self) -> None:
        self._news += 1
        self._changed.set()

    def _note_running(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
        self._is_running = True
        self._hold = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._release)

    def _note_surveyed(self) -> None:
        self._is_running = False
        self._release()

    def _release(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
            self._answers.pump()

    def _may_start(self) -> bool:
        """Whether another shadow has enough time to catch up with the program."""
        return self._shadows < _MAX_SHADOWS and self._left_seconds() > self._session.program_seconds

    def _left_seconds(self) -> float:
        return self._session.program_seconds + _FREE_SECONDS - self._spent_seconds

    async def _look(self) -> None:
        try:
            with contextlib.suppress(Exception):  # if the sandbox fails, the program runs without lookahead
                await self._run_shadow()
        finally:
            self._is_alive = False
            self._note_surveyed()

    async def _run_shadow(self) -> None:
        seconds = self._left_seconds()
        limits = replace(self._job.limits, run_seconds=seconds, cpu_seconds=seconds)
        job = replace(self._job, limits=limits, is_shadow=True)
        async with self._place.start(job) as session:
            self._shadow = session
            try:
                session.lower_priority()
                await self._run_rounds(session)
            finally:
                self._shadow = None
                self._spent_seconds += session.program_seconds

    async def _run_rounds(self, session: Session) -> None:
        sent, found = self._begin_round(session, 0), 0
        async for signal in session:
            if isinstance(signal, Paused):
                if self._answers.foresee(signal):
                    found += 1
                else:
                    session.answered(signal)  # the program has already made this call
            elif isinstance(signal, Surveyed):
                self._patience = 1 if found else min(2 * self._patience, _MAX_PATIENCE)
                self._answers.reorder(signal.calls)
                self._note_surveyed()
                await self._until_worthwhile()
                sent, found = self._begin_round(session, sent), 0
            elif isinstance(signal, Ended):
                return

    def _begin_round(self, session: Session, sent: int) -> int:
        self._news = 0
        self._note_running()
        session.survey(self._values[sent:])
        return len(self._values)

    async def _until_worthwhile(self) -> None:
        while not self._is_worthwhile():
            self._changed.clear()
            await self._changed.wait()

    def _is_worthwhile(self) -> bool:
        return self._news >= self._patience and not self._answers.is_busy
