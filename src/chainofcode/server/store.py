"""The protocol of a store, and the records in it: runs, uploads, artifacts, and what each owner has spent.

Traces, uploads and artifacts are local files: programs read uploads, and responses stream the others. The store decides
how it keeps everything else. `coc serve` uses `SQLiteStore`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from .trace_files import TraceWriter

State = Literal["queued", "running", "done", "cancelled", "interrupted", "failed"]
UNFINISHED = ("queued", "running")
_ONLY_WHOLE = ("value", "usage", "error", "artifacts", "files")


class RunRecord(msgspec.Struct):
    """A run without its events."""

    id: str
    state: State
    question: str | None
    method: str
    model: str | None
    created: float
    seconds: float | None = None
    answer: str | None = None
    value: Any = None  # the answer as data, unless it is too long
    reason: str | None = None
    parent: str | None = None
    usage: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    artifacts: list[dict[str, Any]] = []
    files: list[str] = []
    owner: str = ""

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED

    def as_data(self) -> dict[str, Any]:
        """The record as the API returns it."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data.pop("owner")
        return data

    def as_listed(self, max_chars: int) -> dict[str, Any]:
        """The record as an entry of a list: short fields only, long texts cut."""
        data = {name: value for name, value in self.as_data().items() if name not in _ONLY_WHOLE}
        for name in ("question", "answer"):
            if data[name] is not None and len(data[name]) > max_chars:
                data[name] = data[name][: max_chars - 1] + "…"
        return data


class StoredFile(msgspec.Struct, frozen=True):
    """An uploaded file."""

    id: str
    name: str
    bytes: int
    sha256: str


def new_file(name: str, data: bytes) -> StoredFile:
    """An upload with an id that cannot be guessed."""
    return StoredFile(id=secrets.token_hex(12), name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


class Store(Protocol):
    """Keeps what a server must not lose. What an awaited call wrote survives a crash; writes raise StorageError.

    `owner` is the name of a token: records of other owners do not exist for it.
    """

    def close(self) -> None: ...

    async def check(self) -> None:
        """Raise StorageError if nothing can be written."""

    async def keep(self, run: RunRecord, trace: TraceWriter | None = None) -> None:
        """Insert or replace a run. `trace` is closed before the run is marked as finished."""

    async def run(self, id: str, owner: str) -> RunRecord | None: ...

    async def runs(self, owner: str, limit: int, before: str | None, words: Sequence[str] = ()) -> list[RunRecord]:
        """The newest runs that contain all `words`; `before` is the id of the last run of the previous page."""

    async def remove(self, ids: Sequence[str]) -> None:
        """Remove finished runs with their traces, and artifacts that no other run has."""

    async def remove_before(self, when: float) -> int:
        """Remove finished runs and unused uploads that are older. Return the number of runs."""

    def trace_path(self, id: str) -> Path: ...

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        """Keep an upload. Raises Refusal when the owner has no room left."""

    async def file(self, id: str, owner: str) -> StoredFile | None: ...

    def file_path(self, file: StoredFile) -> Path: ...

    def without_paths(self, text: str) -> str:
        """A message for clients: uploads are named as the client named them."""

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        """Keep the files that a run left, by their SHA-256."""

    def artifact_path(self, sha256: str) -> Path: ...

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        """Add tokens and dollars to what each owner has spent on a day."""

    async def spent(self, day: str) -> dict[str, tuple[int, float]]: ...
