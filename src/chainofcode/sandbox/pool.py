"""Guests behind the wall, ready when they are needed.

A zygote holds what a set of grants has in common: walls, files that are shown, packages already imported. Each program
gets a fork of it, and the next fork is made ahead. The host kills through a pidfd and needs the zygote only for births.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import SandboxError
from ..languages import PYTHON
from .handle import Holds, Zygote
from .job import Job
from .packages import Grant, Packages
from .session import Session

TIERS = ("A", "B", "C")
_MOST_ZYGOTES = 4


class Jail:
    """Runs programs behind the best wall that this machine can build; raises SandboxError where it can build none.

    Keep one for many programs, and close it (`with Jail() as jail: …`); it may be used from several threads and event
    loops. `spares` guests are forked ahead. `tiers` limits the choice.
    """

    def __init__(self, tiers: str | tuple[str, ...] = TIERS, *, spares: int = 1, python: str = sys.executable) -> None:
        self._tiers, self._spares, self._python = tuple(tiers), spares, python
        self._lock = threading.Lock()
        self._zygotes: dict[Grant, Zygote] = {}
        self._packages: dict[tuple[str, ...], Packages] = {}
        self._owner, self._is_closed = os.getpid(), False
        self.refusals: dict[str, str] = {}  # why tiers were refused, once one was

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        if job.language is not PYTHON:
            raise SandboxError(f"the jail runs Python only, not {job.language.name}")
        grant = self._grant(job)
        async with self._ready(grant) as zygote:
            holds = zygote.holds
            if job.scratch and holds.tier != "A":
                raise SandboxError(f"a scratch directory needs tier A of the sandbox{holds.why_not('A')}")
            if job.reads and holds.tier == "C":
                raise SandboxError(f"files can be granted in tiers A and B of the sandbox{holds.why_not('B')}")
            session = Session(await zygote.take(job.scratch_bytes), job, grant)
            try:
                session.begin()
                yield session
            finally:
                await session.close()

    async def holds(self) -> Holds:
        """Build a wall, or say why none can be built."""
        async with self._ready(Grant()) as zygote:
            return zygote.holds

    @asynccontextmanager
    async def _ready(self, grant: Grant) -> AsyncIterator[Zygote]:
        zygote = self._zygote(grant)
        try:
            await zygote.ready()
            yield zygote
        finally:
            with self._lock:
                self.refusals |= zygote.refusals
                zygote.users -= 1

    def close(self) -> None:
        with self._lock:
            zygotes, self._zygotes, self._is_closed = list(self._zygotes.values()), {}, True
        for zygote in zygotes:
            zygote.close()

    def __enter__(self) -> Jail:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _grant(self, job: Job) -> Grant:
        names = tuple(job.packages)
        if names not in self._packages:
            self._packages[names] = Packages(names)
        return Grant.of(self._packages[names], job.reads)

    def _zygote(self, grant: Grant) -> Zygote:
        """The zygote for these grants, which stays at least until it has one user less."""
        with self._lock:
            if self._is_closed:
                raise SandboxError("this Jail was closed; open another one")
            if self._owner != os.getpid():  # we are a fork: those zygotes are our parent's
                self._owner, self._zygotes = os.getpid(), {}
            zygote = self._zygotes.pop(grant, None)
            if zygote is None or zygote.is_gone:
                idle = [key for key, other in self._zygotes.items() if not other.users]
                for key in idle[: max(0, len(self._zygotes) - _MOST_ZYGOTES + 1)]:
                    self._zygotes.pop(key).close()
                zygote = Zygote(self._python, self._tiers, grant, self._spares)
            zygote.users += 1
            self._zygotes[grant] = zygote  # the last one used comes last
            return zygote
