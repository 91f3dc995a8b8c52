"""The host's side of the guest: somewhere to run a job, and the session that comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from ..errors import InputError
from .container import ENGINES, Container
from .job import MAX_IN_FLIGHT, File, Job, Limits
from .pool import TIERS, Jail
from .process import NoWall
from .session import Session

__all__ = [
    "CHOICES",
    "MAX_IN_FLIGHT",
    "Container",
    "File",
    "Jail",
    "Job",
    "Limits",
    "NoWall",
    "Sandbox",
    "Session",
    "open_sandbox",
    "opened",
]

CHOICES = ("auto", *TIERS, *ENGINES, "none")


class Sandbox(Protocol):
    """Somewhere to run guests; close it when there are no more programs."""

    def start(self, job: Job) -> AbstractAsyncContextManager[Session]: ...

    def close(self) -> None: ...


def open_sandbox(name: str, *, spares: int = 0) -> Sandbox:
    """`auto` is the best wall this machine can build, or an error; the others are one kind and nothing else.

    `docker:IMAGE` and `podman:IMAGE` take an image's own Python instead of the host's.
    """
    engine, _, image = name.partition(":")
    if engine in ENGINES:
        return Container(engine, image)
    if name == "none":
        return NoWall()
    if name == "auto" or name in TIERS:
        return Jail(TIERS if name == "auto" else name, spares=spares)
    raise InputError(f"there is no sandbox {name!r}; there are {', '.join(CHOICES)}")


@asynccontextmanager
async def opened(sandbox: Sandbox | str) -> AsyncIterator[Sandbox]:
    """The caller's own sandbox, which stays open, or one by name for as long as this takes."""
    if sandbox is None:
        raise InputError("sandbox takes a name, such as 'auto', or a sandbox, not None")
    if not isinstance(sandbox, str):
        yield sandbox
        return
    place = open_sandbox(sandbox)
    try:
        yield place
    finally:
        place.close()
