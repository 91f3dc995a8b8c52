"""The store of `coc serve`: runs, uploads and budgets in SQLite; traces, uploads and artifacts as files.

Covered: acknowledged writes survive kill -9; a trace then lacks at most its last events. On a full disk, writes fail
without partial results, while reads and removals work. Not covered: two servers in one directory (refused), and disks
that report writes before they are durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import InputError
from ..platforms import lock
from . import data_directory, pending, removal, search_index, sqlite_runs
from .disk_reserve import DiskReserve
from .fair_share import SEARCH_SECONDS, refuse_if_slow
from .readers import Readers
from .refusal import Refusal, StorageError
from .settings import MAX_FILES_BYTES
from .store import ANY_RUN, PendingQuestion, RunFilter, RunRecord, RunSummary, StoredFile
from .trace_files import TraceLog, TraceWriter, remove_partial_line

T = TypeVar("T")
_DATABASE = "runs.sqlite"
_LOOKUP_THREADS, _SEARCH_THREADS = 2, 3
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
    created REAL);
CREATE TABLE IF NOT EXISTS spent (
    day TEXT NOT NULL, owner TEXT NOT NULL, tokens INTEGER NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (day, owner));
CREATE TABLE IF NOT EXISTS alive (one INTEGER PRIMARY KEY CHECK (one = 1), checked REAL NOT NULL);
"""
_LEAST_BYTES = 4096  # that a file takes up on a disk
_USED = "SELECT coalesce(sum(max(bytes, ?)), 0) FROM files WHERE owner = ?"
_REMOVED_AT_ONCE = 100  # so that other writes do not wait long
_SPEND = """INSERT INTO spent VALUES (?, ?, ?, ?)
ON CONFLICT (day, owner) DO UPDATE SET tokens = tokens + excluded.tokens, dollars = dollars + excluded.dollars"""


class SQLiteStore:
    """A `Store` in one directory, for one server. Awaited writes are committed.

    One thread writes. Other threads read, so that no read waits for a write, and no lookup for a search.
    """

    shared = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        data_directory.make_private(directory, *data_directory.PARTS)
        try:
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(f"cannot store runs in {directory}: {error.strerror}") from None
        try:
            lock(self._lock, waits=False)
        except OSError:
            os.close(self._lock)
            raise InputError(f"another server uses {directory}: give this one its own --data") from None
        self._thread = ThreadPoolExecutor(1, "store")
        self._turn = threading.Lock()
        self._waiting: list[_Write] = []
        self._reserve = DiskReserve(directory / "reserve")
        try:
            self._database: sqlite3.Connection = self._thread.submit(self._open).result()
        except sqlite3.Error as error:
            self._thread.shutdown()
            os.close(self._lock)
            raise InputError(f"cannot store runs in {directory}: {error}") from None
        self._lookups = Readers(directory / _DATABASE, _LOOKUP_THREADS)
        self._searches = Readers(directory / _DATABASE, _SEARCH_THREADS, keeps_one_free=True)

    def _open(self) -> sqlite3.Connection:
        self._reserve.fill()
        os.close(os.open(self._directory / _DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self._directory / _DATABASE, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        sqlite_runs.upgrade(database)
        database.executescript(sqlite_runs.TABLES + _TABLES + removal.TABLES + pending.TABLES)
        self._has_index = search_index.prepare(database)
        removal.upgrade_and_sweep(database, self._directory)
        for id, owner in database.execute(pending.BROKEN_OFF).fetchall():  # a server was killed during these runs
            self._mark_broken_off(database, id, owner)
        return database

    def _mark_broken_off(self, database: sqlite3.Connection, id: str, owner: str) -> None:
        run = sqlite_runs.record(database, id, owner)
        assert run is not None
        run.state = "waiting" if pending.questions(database, owner, 1, id) else "interrupted"
        remove_partial_line(self.trace_path(id))
        sqlite_runs.keep(database, sqlite_runs.row_of(run))

    async def _do(
        self, function: Callable[[sqlite3.Connection], T], undo: Callable[[sqlite3.Connection], object] | None = None
    ) -> T:
        """Run a function in the next transaction: writes that wait for the disk share one commit.

        `undo` reverts what the function did to files, if it is not committed.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._turn:
            self._waiting.append(_Write(function, undo, done))
            is_first = len(self._waiting) == 1
        if is_first:
            loop.run_in_executor(self._thread, self._do_waiting, loop)
        with _storage_errors():
            return await done

    def _do_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._turn:
            waiting, self._waiting = self._waiting, []
        try:
            self._database.execute("BEGIN IMMEDIATE")
            outcomes = [(write, *self._outcome(write)) for write in waiting]
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            outcomes = [(write, None, error) for write in waiting]
        for write, _, failure in outcomes:
            if failure is not None and write.undo is not None:
                with contextlib.suppress(OSError, sqlite3.Error):
                    write.undo(self._database)
        loop.call_soon_threadsafe(_settle, outcomes)

    def _outcome(self, write: _Write) -> tuple[Any, Exception | None]:
        """The result of one write in a transaction, or its error; the other writes are unaffected."""
        self._database.execute("SAVEPOINT one")
        try:
            result = write.function(self._database)
        except Exception as error:  # only this caller gets it
            if not self._database.in_transaction:  # a full disk ends the whole transaction
                raise
            self._database.execute("ROLLBACK TO one")
            self._database.execute("RELEASE one")
            return None, error
        self._database.execute("RELEASE one")
        return result, None

    def close(self) -> None:
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()
        self._lookups.close()
        self._searches.close()
        os.close(self._lock)

    async def check(self) -> None:
        row = (time.time(),)
        await self._do(lambda database: database.execute("INSERT OR REPLACE INTO alive VALUES (1, ?)", row))
        await self._write(self._reserve.fill)

    # --- runs -------------------------------------------------------------------------------------------------

    def trace_path(self, id: str) -> Path:
        return self._directory / "traces" / f"{id}.jsonl"

    async def local_trace(self, id: str) -> Path:
        return self.trace_path(id)

    async def new_trace(self, id: str) -> TraceLog:
        return TraceWriter(self.trace_path(id))

    async def replace_trace(self, id: str, items: Iterable[object]) -> TraceLog:
        return await asyncio.to_thread(TraceWriter.replacing, self.trace_path(id), items)

    async def keep(self, run: RunRecord, trace: TraceLog | None = None, request: bytes | None = None) -> None:
        row, used = sqlite_runs.row_of(run), [(file, run.id) for file in run.files]

        if trace is not None:
            await asyncio.to_thread(trace.close)

        def keep(database: sqlite3.Connection) -> None:
            sqlite_runs.keep(database, row)
            if used:
                database.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", used)
            if request is not None:
                database.execute("INSERT OR REPLACE INTO requests VALUES (?, ?)", (run.id, request))
            if run.is_final:
                pending.forget(database, run.id)

        await self._do(keep)

    async def run(self, id: str, owner: str) -> RunRecord | None:
        return await self._lookups.do(lambda database: sqlite_runs.record(database, id, owner), owner=owner)

    async def summary(self, id: str, owner: str) -> RunSummary | None:
        return await self._lookups.do(lambda database: sqlite_runs.summary(database, id, owner), owner=owner)

    async def runs(
        self, owner: str, limit: int, before: str | None, run_filter: RunFilter = ANY_RUN
    ) -> list[RunSummary]:
        def find(database: sqlite3.Connection) -> list[RunSummary]:
            return sqlite_runs.summaries(
                database, owner, run_filter, limit=limit, before=before, has_index=self._has_index
            )

        if run_filter.is_empty:
            return await self._lookups.do(find, owner=owner)
        with refuse_if_slow():
            return await self._searches.do(find, owner=owner, seconds=SEARCH_SECONDS)

    async def remove(self, ids: Sequence[str]) -> None:
        try:
            artifacts = await self._do(lambda database: removal.forget(database, ids))
        except StorageError:  # a full disk: a removal frees more than it writes
            artifacts = await self._do_with_reserve(lambda database: removal.forget(database, ids))
        await self._do(lambda database: removal.clear(database, self._directory, ids, artifacts))
        await self._write(self._reserve.fill)

    async def _do_with_reserve(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a separate transaction with the disk space that is reserved for removals."""

        def remove() -> T:
            self._reserve.release()
            self._database.execute("BEGIN IMMEDIATE")
            try:
                result = function(self._database)
                self._database.execute("COMMIT")
            except sqlite3.Error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                self._reserve.fill()
                raise
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return result

        return await self._write(remove)

    async def _write(self, function: Callable[[], T]) -> T:
        """Run a function in the thread that writes."""
        with _storage_errors():
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def remove_before(self, when: float) -> int:
        count = 0
        while ids := await self._do(lambda database: removal.ended_before(database, when, _REMOVED_AT_ONCE)):
            await self.remove(ids)
            count += len(ids)
        files = await self._do(lambda database: removal.forget_files(database, when))
        await asyncio.to_thread(removal.clear_files, self._directory, files)
        return count

    async def request(self, run: str) -> bytes | None:
        return await self._lookups.do(lambda database: pending.request(database, run))

    async def interrupted(self) -> list[tuple[str, str]]:
        return await self._lookups.do(pending.interrupted)

    # --- questions --------------------------------------------------------------------------------------------

    async def keep_question(self, question: PendingQuestion) -> None:
        await self._do(lambda database: pending.keep_question(database, question))

    async def question(self, id: str, owner: str) -> PendingQuestion | None:
        return await self._lookups.do(lambda database: pending.question(database, id, owner), owner=owner)

    async def question_of(self, run: str, call: str) -> PendingQuestion | None:
        return await self._lookups.do(lambda database: pending.question_of(database, run, call))

    async def questions(self, owner: str, limit: int, run: str | None = None) -> list[PendingQuestion]:
        return await self._lookups.do(lambda database: pending.questions(database, owner, limit, run), owner=owner)

    async def answer_question(self, id: str, answer: str) -> bool:
        return await self._do(lambda database: pending.answer_question(database, id, answer))

    # --- files ------------------------------------------------------------------------------------------------

    def without_paths(self, text: str) -> str:
        return text.replace(f"{self._directory}/files/", "")

    async def local_file(self, file: StoredFile) -> Path:
        return self._directory / "files" / file.id / file.name

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        path = await self.local_file(file)
        row = (file.id, owner, file.name, file.bytes, file.sha256, time.time())
        size = max(file.bytes, _LEAST_BYTES)

        def check_room(database: sqlite3.Connection) -> None:
            (used,) = database.execute(_USED, (_LEAST_BYTES, owner)).fetchone()
            if used + size > MAX_FILES_BYTES:
                raise Refusal(413, "too_large", f"all uploads together can have at most {MAX_FILES_BYTES:,} bytes")

        def keep(database: sqlite3.Connection) -> None:
            check_room(database)  # again, in the transaction: uploads may be concurrent
            database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

        def undo(database: sqlite3.Connection | None = None) -> None:
            removal.clear_files(self._directory, [file.id])

        await self._lookups.do(check_room, owner=owner)
        with _storage_errors():
            await asyncio.to_thread(_written, {path: data}, undo)
        await self._do(keep, undo)

    async def file(self, id: str, owner: str) -> StoredFile | None:
        sql = "SELECT id, name, bytes, sha256 FROM files WHERE id = ? AND owner = ?"
        row = await self._lookups.do(lambda database: database.execute(sql, (id, owner)).fetchone(), owner=owner)
        return StoredFile(id=row[0], name=row[1], bytes=row[2], sha256=row[3]) if row else None

    async def local_artifact(self, sha256: str) -> Path:
        return self._artifact_path(sha256)

    def _artifact_path(self, name: str) -> Path:
        return self._directory / "artifacts" / name

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        partial = {sha256: self._artifact_path(f"{sha256}.{run}.partial") for sha256 in artifacts}

        def keep(database: sqlite3.Connection) -> None:
            removal.link(database, run, artifacts)
            for sha256, path in partial.items():
                path.replace(self._artifact_path(sha256))

        def discard() -> None:
            for path in partial.values():
                path.unlink(missing_ok=True)

        def undo(database: sqlite3.Connection) -> None:
            discard()
            removal.clear(database, self._directory, (), artifacts)

        with _storage_errors():
            await asyncio.to_thread(_written, {partial[sha256]: data for sha256, data in artifacts.items()}, discard)
        await self._do(keep, undo)

    # --- budgets ----------------------------------------------------------------------------------------------

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        rows = [(day, owner, tokens, dollars) for owner, (tokens, dollars) in amounts.items()]
        await self._do(lambda database: database.executemany(_SPEND, rows))

    async def spent(self, day: str) -> dict[str, tuple[int, float]]:
        sql = "SELECT owner, tokens, dollars FROM spent WHERE day = ?"
        rows = await self._lookups.do(lambda database: database.execute(sql, (day,)).fetchall())
        return {owner: (tokens, dollars) for owner, tokens, dollars in rows}


class _Write(NamedTuple):
    """A function that waits for the next transaction."""

    function: Callable[[sqlite3.Connection], Any]
    undo: Callable[[sqlite3.Connection], object] | None
    done: asyncio.Future[Any]


def _settle(outcomes: list[tuple[_Write, Any, Exception | None]]) -> None:
    for write, result, error in outcomes:
        if write.done.done():  # the caller was cancelled
            continue
        if error is not None:
            write.done.set_exception(error)
        else:
            write.done.set_result(result)


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StorageError(str(error)) from None
    except OSError as error:
        raise StorageError(error.strerror or str(error)) from None


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _written(files: Mapping[Path, bytes], undo: Callable[[], object]) -> None:
    """Write files so that they survive a crash: all of them, or none."""
    try:
        for path, data in files.items():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with open(path, "wb", opener=_open_privately) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        undo()
        raise
