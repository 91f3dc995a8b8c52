"""Sandboxes, and sessions with the guests that run in them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from ..errors import InputError
from .container import ENGINES, Container
from .handle import SandboxStatus
from .job import LIMIT_OPTIONS, MAX_IN_FLIGHT, File, Job, Limits
from .pool import TIERS, Jail
from .process import NoSandbox
from .remote_sandbox import SCHEMES, RemoteSandbox, open_remote
from .session import Session

__all__ = [
    "CHOICES",
    "LIMIT_OPTIONS",
    "MAX_IN_FLIGHT",
    "TIERS",
    "CheckedSandbox",
    "Container",
    "File",
    "Jail",
    "Job",
    "Limits",
    "NoSandbox",
    "RemoteSandbox",
    "Sandbox",
    "Session",
    "open_sandbox",
    "opened",
]

CHOICES = ("auto", "A", "B", "C", "A-", *ENGINES, "none", "URL")


class Sandbox(Protocol):
    """A place to run guests. Close it after the last program."""

    def start(self, job: Job) -> AbstractAsyncContextManager[Session]: ...

    def close(self) -> None: ...


class CheckedSandbox(Sandbox, Protocol):
    """A sandbox whose status can be checked before it runs a program."""

    async def status(self) -> SandboxStatus:
        """Return the status. Raises SandboxError with the reasons if no guest can be started."""


def open_sandbox(name: str, *, spares: int = 0) -> Sandbox:
    """Open a sandbox by name. `auto` is the best tier that this machine supports; `B+` is tier B or a better one.

    `docker:IMAGE` and `podman:IMAGE` use the Python of an image instead of the host's. A URL names a server that was
    started with `coc serve --sandbox-only`; its token is read from `COC_SANDBOX_TOKEN`.
    """
    engine, _, image = name.partition(":")
    if name.startswith(SCHEMES):
        return open_remote(name)
    if engine in ENGINES:
        return Container(engine, image)
    if name == "none":
        return NoSandbox()
    if name == "auto" or name in TIERS:
        return Jail(TIERS if name == "auto" else name, spares=spares)
    if name.endswith("+"):
        return Jail(at_least=name[:-1], spares=spares)
    raise InputError(f"unknown sandbox {name!r} (expected one of: {', '.join(CHOICES)})")


@asynccontextmanager
async def opened(sandbox: Sandbox | str) -> AsyncIterator[Sandbox]:
    """Yield the caller's sandbox, which stays open, or open one by name and close it at the end."""
    if sandbox is None:
        raise InputError("sandbox must be a name, such as 'auto', or a sandbox, not None")
    if not isinstance(sandbox, str):
        yield sandbox
        return
    with contextlib.closing(open_sandbox(sandbox)) as own:
        yield own
