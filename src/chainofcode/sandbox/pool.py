"""The sandbox `Jail`: a pool of zygotes, and guests that are forked before they are needed.

A zygote has everything that programs with the same grants share: walls, visible files, imported packages. Each program
gets a fork of it. The host kills guests through a pidfd and needs the zygote only for forks.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import SandboxError
from ..languages import PYTHON
from .handle import SandboxStatus, ZygoteHandle
from .job import Job
from .packages import Grant, Packages
from .session import Session, session_of

TIERS = ("A", "B", "C")
_MAX_ZYGOTES = 4


class Jail:
    """Runs programs behind the best wall that this machine can build. Raises SandboxError if it can build none.

    Keep one for many programs, and close it (`with Jail() as jail: …`); it may be used from several threads and event
    loops. `spares` guests are forked in advance. `tiers` limits the choice.
    """

    def __init__(self, tiers: str | tuple[str, ...] = TIERS, *, spares: int = 1, python: str = sys.executable) -> None:
        self._tiers, self._spares, self._python = tuple(tiers), spares, python
        self._lock = threading.Lock()
        self._zygotes: dict[Grant, ZygoteHandle] = {}
        self._packages: dict[tuple[str, ...], Packages] = {}
        self._owner, self._is_closed = os.getpid(), False
        self.refusals: dict[str, str] = {}  # reasons by tier

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        if job.language != PYTHON:
            raise SandboxError(f"the jail runs Python only, not {job.language.name}")
        grant = self._grant(job)
        async with self._ready(grant) as zygote:
            status = zygote.status
            if job.scratch and status.tier != "A":
                raise SandboxError(f"a scratch directory needs tier A of the sandbox{status.why_not('A')}")
            if job.reads and status.tier == "C":
                raise SandboxError(f"files can be granted in tiers A and B of the sandbox{status.why_not('B')}")
            guest = await zygote.start_guest(job.scratch_bytes)
            async with session_of(guest, job, grant) as session:
                yield session

    async def status(self) -> SandboxStatus:
        """Build the sandbox. Raises SandboxError with the reasons if none can be built."""
        async with self._ready(Grant()) as zygote:
            return zygote.status

    @asynccontextmanager
    async def _ready(self, grant: Grant) -> AsyncIterator[ZygoteHandle]:
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

    def _zygote(self, grant: Grant) -> ZygoteHandle:
        """The zygote for these grants, kept at least until `users` is decremented."""
        with self._lock:
            if self._is_closed:
                raise SandboxError("this Jail was closed; open another one")
            if self._owner != os.getpid():  # this process is a fork: the zygotes belong to its parent
                self._owner, self._zygotes = os.getpid(), {}
            zygote = self._zygotes.pop(grant, None)
            if zygote is None or zygote.is_gone:
                idle = [key for key, other in self._zygotes.items() if not other.users]
                for key in idle[: max(0, len(self._zygotes) - _MAX_ZYGOTES + 1)]:
                    self._zygotes.pop(key).close()
                zygote = ZygoteHandle(self._python, self._tiers, grant, self._spares)
            zygote.users += 1
            self._zygotes[grant] = zygote  # the last one used comes last
            return zygote
