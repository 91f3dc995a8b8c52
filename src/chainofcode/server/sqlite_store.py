"""The store of `coc serve`: runs, uploads and budgets in SQLite; traces, uploads and artifacts as files.

Covered: acknowledged writes survive kill -9; a trace then lacks at most its last events. Not covered: two servers in
one directory (refused), and disks that report writes they have not done.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import InputError
from ..trace import as_json
from . import removal
from .refusal import Refusal, StorageError
from .settings import MAX_FILES_BYTES
from .store import RunRecord, StoredFile
from .trace_files import TraceWriter, remove_partial_line

T = TypeVar("T")
_SEARCHED_CHARS = 2000  # of a question, and of an answer
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, state TEXT NOT NULL,
    record BLOB NOT NULL, words TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS runs_of ON runs (owner, number);
CREATE INDEX IF NOT EXISTS runs_open ON runs (state) WHERE state IN ('queued', 'running');
CREATE TABLE IF NOT EXISTS files (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
    created REAL);
CREATE TABLE IF NOT EXISTS spent (
    day TEXT NOT NULL, owner TEXT NOT NULL, tokens INTEGER NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (day, owner));
CREATE TABLE IF NOT EXISTS alive (one INTEGER PRIMARY KEY CHECK (one = 1), checked REAL NOT NULL);
"""
_LEAST_BYTES = 4096  # that a file takes on a disk
_USED = "SELECT coalesce(sum(max(bytes, ?)), 0) FROM files WHERE owner = ?"
_REMOVED_AT_ONCE = 100  # others want to be kept meanwhile
_KEEP = """INSERT INTO runs (id, owner, state, record, words) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record, words = excluded.words"""
_SPEND = """INSERT INTO spent VALUES (?, ?, ?, ?)
ON CONFLICT (day, owner) DO UPDATE SET tokens = tokens + excluded.tokens, dollars = dollars + excluded.dollars"""


class SQLiteStore:
    """A `Store` in one directory, for one server. SQLite runs in a thread of its own; awaited writes are committed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            for part in ("", "traces", "files", "artifacts"):
                (directory / part).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InputError(f"cannot keep runs in {directory}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InputError(f"another server keeps its runs in {directory}: give this one its own --data") from None
        self._thread = ThreadPoolExecutor(1, "store")
        self._turn = threading.Lock()
        self._waiting: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = []
        try:
            self._database: sqlite3.Connection = self._thread.submit(self._open).result()
        except sqlite3.Error as error:
            self._thread.shutdown()
            os.close(self._lock)
            raise InputError(f"cannot keep runs in {directory}: {error}") from None

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self._directory / "runs.sqlite", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self._directory / "runs.sqlite", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.executescript(_TABLES + removal.TABLES)
        if "words" not in {column[1] for column in database.execute("PRAGMA table_info(runs)")}:
            _add_words(database)
        removal.upgrade_and_sweep(database, self._directory)
        rows = database.execute("SELECT record FROM runs WHERE state IN ('queued', 'running')").fetchall()
        for (record,) in rows:  # a server was killed during these runs
            run = msgspec.json.decode(record, type=RunRecord)
            run.state = "interrupted"
            remove_partial_line(self.trace_path(run.id))
            database.execute(_KEEP, _row(run))
        return database

    async def _do(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in the next transaction: writes that wait for the disk share one commit."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._turn:
            self._waiting.append((function, done))
            is_first = len(self._waiting) == 1
        if is_first:
            loop.run_in_executor(self._thread, self._do_waiting, loop)
        try:
            return await done
        except sqlite3.OperationalError as error:
            raise StorageError(str(error)) from None
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None

    def _do_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._turn:
            waiting, self._waiting = self._waiting, []
        outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for function, done in waiting:
                try:
                    outcomes.append((done, function(self._database), None))
                except Exception as error:  # for this caller alone
                    outcomes.append((done, None, error))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            outcomes = [(done, None, error) for _, done in waiting]
        loop.call_soon_threadsafe(_settle, outcomes)

    def close(self) -> None:
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()
        os.close(self._lock)

    async def check(self) -> None:
        row = (time.time(),)
        await self._do(lambda database: database.execute("INSERT OR REPLACE INTO alive VALUES (1, ?)", row))

    # --- runs -------------------------------------------------------------------------------------------------

    def trace_path(self, id: str) -> Path:
        return self._directory / "traces" / f"{id}.jsonl"

    async def keep(self, run: RunRecord, trace: TraceWriter | None = None) -> None:
        row, used = _row(run), [(file, run.id) for file in run.files]

        def keep(database: sqlite3.Connection) -> None:
            if trace is not None:
                trace.close()
            database.execute(_KEEP, row)
            if used:
                database.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", used)

        await self._do(keep)

    async def run(self, id: str, owner: str) -> RunRecord | None:
        sql = "SELECT record FROM runs WHERE id = ? AND owner = ?"
        row = await self._do(lambda database: database.execute(sql, (id, owner)).fetchone())
        return msgspec.json.decode(row[0], type=RunRecord) if row else None

    async def runs(self, owner: str, limit: int, before: str | None, words: Sequence[str] = ()) -> list[RunRecord]:
        sql = "SELECT record FROM runs WHERE owner = ?"
        given: list[Any] = [owner]
        if before is not None:
            sql += " AND number < (SELECT number FROM runs WHERE id = ? AND owner = ?)"
            given += [before, owner]
        for word in words:
            sql += " AND instr(words, ?)"
            given.append(word.casefold())
        given.append(limit)
        sql += " ORDER BY number DESC LIMIT ?"
        rows = await self._do(lambda database: database.execute(sql, given).fetchall())
        return [msgspec.json.decode(row[0], type=RunRecord) for row in rows]

    async def remove(self, ids: Sequence[str]) -> None:
        had = await self._do(lambda database: removal.forget(database, ids))
        await self._do(lambda database: removal.clear(database, self._directory, ids, had))

    async def remove_before(self, when: float) -> int:
        count = 0
        while ids := await self._do(lambda database: removal.ended_before(database, when, _REMOVED_AT_ONCE)):
            await self.remove(ids)
            count += len(ids)
        files = await self._do(lambda database: removal.forget_files(database, when))
        await asyncio.to_thread(removal.clear_files, self._directory, files)
        return count

    # --- files ------------------------------------------------------------------------------------------------

    def without_paths(self, text: str) -> str:
        return text.replace(f"{self._directory}/files/", "")

    def file_path(self, file: StoredFile) -> Path:
        return self._directory / "files" / file.id / file.name

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        path = self.file_path(file)

        def keep(database: sqlite3.Connection) -> None:
            (used,) = database.execute(_USED, (_LEAST_BYTES, owner)).fetchone()
            if (
                used + max(file.bytes, _LEAST_BYTES) > MAX_FILES_BYTES
            ):  # checked in the transaction: uploads may be concurrent
                raise Refusal(413, "too_large", f"all files together have {MAX_FILES_BYTES:,} bytes at most")
            path.parent.mkdir(mode=0o700)
            _write(path, data)
            row = (file.id, owner, file.name, file.bytes, file.sha256, time.time())
            database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._do(keep)

    async def file(self, id: str, owner: str) -> StoredFile | None:
        sql = "SELECT id, name, bytes, sha256 FROM files WHERE id = ? AND owner = ?"
        row = await self._do(lambda database: database.execute(sql, (id, owner)).fetchone())
        return StoredFile(id=row[0], name=row[1], bytes=row[2], sha256=row[3]) if row else None

    def artifact_path(self, sha256: str) -> Path:
        return self._directory / "artifacts" / sha256

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        def keep(database: sqlite3.Connection) -> None:
            removal.link(database, run, artifacts)
            for sha256, data in artifacts.items():
                if not self.artifact_path(sha256).exists():
                    _write(self.artifact_path(sha256), data)

        await self._do(keep)

    # --- budgets ----------------------------------------------------------------------------------------------

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        rows = [(day, owner, tokens, dollars) for owner, (tokens, dollars) in amounts.items()]
        await self._do(lambda database: database.executemany(_SPEND, rows))

    async def spent(self, day: str) -> dict[str, tuple[int, float]]:
        sql = "SELECT owner, tokens, dollars FROM spent WHERE day = ?"
        rows = await self._do(lambda database: database.execute(sql, (day,)).fetchall())
        return {owner: (tokens, dollars) for owner, tokens, dollars in rows}


def _row(run: RunRecord) -> tuple[str, str, str, bytes, str]:
    """A run as a row of the table, with the text in which searches look."""
    parts = (run.question, run.answer, run.method, run.model, run.reason, run.state, run.id)
    words = "\n".join((part or "")[:_SEARCHED_CHARS] for part in parts).casefold()
    return run.id, run.owner, run.state, as_json(run), words.encode(errors="replace").decode()


def _add_words(database: sqlite3.Connection) -> None:
    """Upgrade a database from before runs could be searched."""
    database.execute("BEGIN IMMEDIATE")
    database.execute("ALTER TABLE runs ADD COLUMN words TEXT NOT NULL DEFAULT ''")
    for (record,) in database.execute("SELECT record FROM runs").fetchall():
        database.execute(_KEEP, _row(msgspec.json.decode(record, type=RunRecord)))
    database.execute("COMMIT")


def _settle(outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for done, result, error in outcomes:
        if done.done():  # the caller was cancelled
            continue
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
