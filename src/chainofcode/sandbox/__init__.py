"""The host's side of the guest: somewhere to run a job, and the session that comes of it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from .job import Job, Limits
from .session import Session

__all__ = ["Job", "Limits", "Sandbox", "Session"]


class Sandbox(Protocol):
    """Somewhere to run guests."""

    def start(self, job: Job) -> AbstractAsyncContextManager[Session]: ...
