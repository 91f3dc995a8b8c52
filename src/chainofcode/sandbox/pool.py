"""The sandbox `Jail`: a pool of zygotes, and guests that are forked before they are needed.

A zygote has everything that programs with the same grants share: namespaces, visible files, imported packages. Each
program gets a fork of it. The host kills guests through a pidfd and needs the zygote only for forks.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import InputError, SandboxError
from .handle import JailGuest, SandboxStatus, ZygoteHandle
from .job import Job
from .linux_only import require_linux
from .packages import Grant, Packages
from .session import Session, session_of
from .tiers import TIERS

__all__ = ["TIERS", "Jail"]

_MAX_ZYGOTES = 4


class Jail:
    """Runs programs in the best sandbox tier that this machine supports. Raises SandboxError if it supports no tier.

    Keep one for many programs, and close it (`with Jail() as jail: …`); it may be used from several threads and event
    loops. `spares` guests are forked in advance. `tiers` limits the choice to one or some; `at_least` refuses those
    below a tier.
    """

    def __init__(
        self,
        tiers: str | tuple[str, ...] = TIERS,
        *,
        at_least: str = "",
        spares: int = 1,
        python: str = sys.executable,
    ) -> None:
        chosen = (tiers,) if isinstance(tiers, str) else tiers
        for tier in (*chosen, at_least or chosen[0]):
            if tier not in TIERS:
                raise InputError(f"unknown sandbox tier {tier!r} (expected one of: {', '.join(TIERS)})")
        accepted = TIERS[: TIERS.index(at_least) + 1] if at_least else TIERS
        self._tiers, self._at_least = tuple(tier for tier in chosen if tier in accepted), at_least
        if not self._tiers:
            raise InputError(f"sandbox {' or '.join(chosen)!r} is below tier {at_least}, the lowest that you allow")
        self._spares, self._python = spares, python
        self._lock = threading.Lock()
        self._zygotes: dict[Grant, ZygoteHandle] = {}
        self._packages: dict[tuple[str, ...], Packages] = {}
        self._owner, self._is_closed = os.getpid(), False
        self.refusals: dict[str, str] = {}  # reasons by tier

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        if not job.language.is_forkable:
            raise SandboxError(f"the jail cannot start guests of {job.language.name}; run it with sandbox='none'")
        grant = self.grant(job)
        async with self.guest(job, grant) as guest, session_of(guest, job, grant) as session:
            yield session

    @asynccontextmanager
    async def guest(self, job: Job, grant: Grant) -> AsyncIterator[JailGuest]:
        """Start a guest for a job, without its program. The caller closes the guest."""
        async with self._ready(grant) as zygote:
            status = zygote.status
            if job.scratch and not status.has_scratch:
                raise SandboxError(f"a scratch directory needs tier A of the sandbox{status.why_not('A')}")
            if job.reads and status.tier == "C":
                raise SandboxError(f"granting files needs tier A or B of the sandbox{status.why_not('B')}")
            guest = await zygote.start_guest(job.scratch_bytes)
            guest.limit(job)
            yield guest

    async def status(self) -> SandboxStatus:
        """Build the sandbox. Raises SandboxError with the reasons if none can be built."""
        async with self._ready(Grant()) as zygote:
            return zygote.status

    @asynccontextmanager
    async def _ready(self, grant: Grant) -> AsyncIterator[ZygoteHandle]:
        require_linux("the built-in sandbox")
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

    def grant(self, job: Job) -> Grant:
        """Return the grant of a job. Raises InputError for packages and files that do not exist."""
        names = job.all_packages
        if names not in self._packages:
            self._packages[names] = Packages(names)
        return Grant.of(self._packages[names], job)

    def _zygote(self, grant: Grant) -> ZygoteHandle:
        """Return the zygote for a grant, which is kept at least until its `users` is decremented."""
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
                zygote = ZygoteHandle(self._python, self._tiers, grant, spares=self._spares, at_least=self._at_least)
            zygote.users += 1
            self._zygotes[grant] = zygote  # the last one used comes last
            return zygote
