"""Batches on disk: their requests and replies, so that a new process can continue after one was killed.

One SQLite file. A batch is recorded before it is sent, with the custom id of each request, so that it can be found at
the provider even if its id was never received. Failed requests cost nothing and are deleted.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError

_TABLES = """CREATE TABLE IF NOT EXISTS batches (
    token TEXT PRIMARY KEY, model TEXT NOT NULL, id TEXT, noted REAL NOT NULL, is_collected INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS requests (
    custom_id TEXT PRIMARY KEY, token TEXT NOT NULL, digest BLOB NOT NULL, reply BLOB
);
CREATE INDEX IF NOT EXISTS requests_by_digest ON requests (digest);
CREATE INDEX IF NOT EXISTS requests_by_token ON requests (token);"""


@dataclass(frozen=True)
class NotedBatch:
    """A batch whose results are not collected yet. If `id` is None, it is unknown whether the provider received it."""

    token: str
    id: str | None
    noted: float  # Unix time
    requests: int


@dataclass(frozen=True)
class NotedRequest:
    """A request in a batch, with its reply if it has arrived."""

    custom_id: str
    token: str
    reply: bytes | None


class BatchStore:
    """The batches of an evaluation. The file is opened on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    def begin(self, model: str, digests: Sequence[bytes]) -> tuple[str, list[str]]:
        """Record a batch that is about to be sent. Returns its token and the custom id of each request."""
        token = secrets.token_hex(8)
        custom_ids = [f"{token}-{number}" for number in range(len(digests))]
        with self._changing() as file:
            file.execute("INSERT INTO batches (token, model, noted) VALUES (?, ?, ?)", (token, model, time.time()))
            rows = [(custom_id, token, digest) for custom_id, digest in zip(custom_ids, digests, strict=True)]
            file.executemany("INSERT INTO requests (custom_id, token, digest) VALUES (?, ?, ?)", rows)
        return token, custom_ids

    def note_sent(self, token: str, batch_id: str) -> None:
        with self._changing() as file:
            file.execute("UPDATE batches SET id = ? WHERE token = ?", (batch_id, token))

    def keep(self, replies: Iterable[tuple[str, bytes]]) -> None:
        """Keep replies by custom id. Keeping one twice does no harm."""
        rows = [(reply, custom_id) for custom_id, reply in replies]
        with self._changing() as file:
            file.executemany("UPDATE requests SET reply = ? WHERE custom_id = ?", rows)

    def finish(self, token: str) -> None:
        """Mark a batch as collected, and delete its requests without a reply."""
        with self._changing() as file:
            file.execute("DELETE FROM requests WHERE token = ? AND reply IS NULL", (token,))
            file.execute("UPDATE batches SET is_collected = 1 WHERE token = ?", (token,))

    def forget(self, token: str) -> None:
        """Forget a batch that was never sent."""
        with self._changing() as file:
            file.execute("DELETE FROM requests WHERE token = ?", (token,))
            file.execute("DELETE FROM batches WHERE token = ?", (token,))

    def find(self, digest: bytes, taken: Collection[str]) -> NotedRequest | None:
        """Return a request with this digest whose custom id is not taken. Requests with a reply are preferred."""
        query = "SELECT custom_id, token, reply FROM requests WHERE digest = ? ORDER BY reply IS NULL, rowid"
        with self._reading() as file:
            rows = file.execute(query, (digest,))
            return next((NotedRequest(*row) for row in rows if row[0] not in taken), None)

    def reply(self, custom_id: str) -> bytes | None:
        with self._reading() as file:
            row = file.execute("SELECT reply FROM requests WHERE custom_id = ?", (custom_id,)).fetchone()
        return row[0] if row is not None else None

    def open_batches(self, model: str) -> list[NotedBatch]:
        """Return the batches of a model whose results are not collected yet, oldest first."""
        query = """SELECT token, id, noted, (SELECT count(*) FROM requests WHERE requests.token = batches.token)
            FROM batches WHERE model = ? AND NOT is_collected ORDER BY noted"""
        with self._reading() as file:
            return [NotedBatch(*row) for row in file.execute(query, (model,))]

    def known_ids(self) -> set[str]:
        """Return the provider's ids of all batches."""
        with self._reading() as file:
            return {row[0] for row in file.execute("SELECT id FROM batches WHERE id IS NOT NULL")}

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # --- the file -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._file()
        except sqlite3.Error as error:
            raise InputError(f"cannot use the batches in {self._path}: {error}") from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: at its end, either all of its changes are on disk or none."""
        with self._reading() as file, file:
            yield file

    def _file(self) -> sqlite3.Connection:
        if self._opened is None:
            file = sqlite3.connect(self._path)
            try:
                file.execute("PRAGMA synchronous=FULL")
                file.executescript(_TABLES)
            except sqlite3.Error:
                file.close()
                raise
            self._opened = file
        return self._opened
