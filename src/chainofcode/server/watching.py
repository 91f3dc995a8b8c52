"""A sandbox that tells which calls its programs wait for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from ..program import Program
from ..render import cut
from ..sandbox import Job, Sandbox, Session
from ..sandbox.frames import Ended, Parsed, Paused

_MAX_TEXT_CHARS = 300
_MAX_TOLD = 64


class Watched:
    """Another sandbox; `changed` is called when a call goes out or comes back."""

    def __init__(self, sandbox: Sandbox, changed: Callable[[], None]) -> None:
        self._sandbox, self._changed = sandbox, changed
        self._sessions: list[_Seen] = []

    @property
    def waiting(self) -> list[dict[str, Any]]:
        calls = [call for session in self._sessions for call in session.waiting.values()]
        once = {
            (call["statement"], call["text"]): call for call in calls
        }  # the program and its shadow may wait for the same call
        return list(once.values())[:_MAX_TOLD]

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        async with self._sandbox.start(job) as session:
            seen = _Seen(session, self._changed)
            self._sessions.append(seen)
            try:
                yield cast(Session, seen)
            finally:
                self._sessions.remove(seen)

    def close(self) -> None:
        """The other one is not ours to close."""


class _Seen:
    """A session whose pauses are noted; everything else is the session's own."""

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session, self._changed, self._program = session, changed, Program("")
        self.waiting: dict[int, dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for signal in self._session:
            if isinstance(signal, Parsed):
                self._program = signal.program
            elif isinstance(signal, Paused) and signal.kind != "module":
                self.waiting[signal.id] = self._told(signal)
                self._changed()
            elif isinstance(signal, Ended):
                self.waiting.clear()
            yield signal

    def _told(self, paused: Paused) -> dict[str, Any]:
        statements = self._program.statements
        line = statements[paused.statement].line if paused.statement < len(statements) else 0
        text = cut(paused.text, _MAX_TEXT_CHARS)
        return {"id": paused.id, "line": line, "statement": paused.statement, "text": text}

    def resume(self, paused: Paused, *given: Any, **more: Any) -> None:
        self._session.resume(paused, *given, **more)
        self._forget(paused)

    def answered(self, paused: Paused) -> None:
        self._session.answered(paused)
        self._forget(paused)

    def _forget(self, paused: Paused) -> None:
        if self.waiting.pop(paused.id, None) is not None:
            self._changed()
