"""What a server keeps: runs and files in SQLite, traces as files that grow while a run goes on.

Covered: whatever was acknowledged is there after a kill -9; a trace then lacks at most its last events. Not covered:
two servers in one directory (refused), and disks that lie about what they have written.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ..errors import InputError
from ..trace import as_json, chained, linked
from . import removal
from .settings import MAX_FILES_BYTES, Refusal

State = Literal["queued", "running", "done", "cancelled", "interrupted", "failed"]
T = TypeVar("T")
_MAX_AT_ONCE_BYTES = 65_536
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


class Run(msgspec.Struct):
    """What is known of a run, without its events."""

    id: str
    state: State
    question: str | None
    method: str
    model: str | None
    created: float
    seconds: float | None = None
    answer: str | None = None
    value: Any = None  # the answer as data, where that is not too long
    reason: str | None = None
    parent: str | None = None
    usage: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    artifacts: list[dict[str, Any]] = []
    files: list[str] = []
    owner: str = ""

    @property
    def row(self) -> tuple[str, str, str, bytes, str]:
        """As it is kept, with the words by which it is found: as much of them as a list shows, and some more."""
        parts = (self.question, self.answer, self.method, self.model, self.reason, self.state, self.id)
        words = "\n".join((part or "")[:_SEARCHED_CHARS] for part in parts).casefold()
        return self.id, self.owner, self.state, as_json(self), words.encode(errors="replace").decode()

    def told(self, cut_chars: int | None = None) -> dict[str, Any]:
        """As the API tells it; in a list, long texts are cut and the rest is left out."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data.pop("owner")
        if cut_chars is not None:
            for name in ("value", "usage", "error", "artifacts", "files"):
                data.pop(name)
            for name in ("question", "answer"):
                if data[name] is not None and len(data[name]) > cut_chars:
                    data[name] = data[name][: cut_chars - 1] + "…"
        return data


class StoredFile(msgspec.Struct, frozen=True):
    id: str
    name: str
    bytes: int
    sha256: str


class NotKept(Refusal):
    """The disk is full, perhaps."""

    def __init__(self, error: sqlite3.Error | OSError) -> None:
        why = str(error) if isinstance(error, sqlite3.Error) else error.strerror
        super().__init__(503, "storage", f"nothing can be written on the server: {why}", retry_seconds=60)


class Store:
    """One directory, one server. SQLite has a thread of its own; what is awaited here is committed."""

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
        removal.settle(database, self._directory)
        rows = database.execute("SELECT record FROM runs WHERE state IN ('queued', 'running')").fetchall()
        for (record,) in rows:  # a server died in the middle of them
            run = msgspec.json.decode(record, type=Run)
            run.state = "interrupted"
            mend(self.trace_path(run.id))
            database.execute(_KEEP, run.row)
        return database

    async def _do(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """What comes while the disk is busy is committed together: one commit costs as much as a hundred."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._turn:
            self._waiting.append((function, done))
            is_first = len(self._waiting) == 1
        if is_first:
            loop.run_in_executor(self._thread, self._do_waiting, loop)
        try:
            return await done
        except (sqlite3.OperationalError, OSError) as error:
            raise NotKept(error) from None

    def _do_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._turn:
            waiting, self._waiting = self._waiting, []
        outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for function, done in waiting:
                try:
                    outcomes.append((done, function(self._database), None))
                except Exception as error:  # it is for whoever asked, not for the others
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

    async def check(self, now: float) -> None:
        """Raises NotKept where nothing can be written."""
        row = (now,)
        await self._do(lambda database: database.execute("INSERT OR REPLACE INTO alive VALUES (1, ?)", row))

    # --- runs -------------------------------------------------------------------------------------------------

    def trace_path(self, id: str) -> Path:
        return self._directory / "traces" / f"{id}.jsonl"

    async def keep(self, run: Run, trace: TraceFile | None = None) -> None:
        """A run; with its trace when that is whole, which is on the disk before the run is said to be over."""
        row, used = run.row, [(file, run.id) for file in run.files]

        def keep(database: sqlite3.Connection) -> None:
            if trace is not None:
                trace.close()
            database.execute(_KEEP, row)
            if used:
                database.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", used)

        await self._do(keep)

    async def run(self, id: str, owner: str) -> Run | None:
        sql = "SELECT record FROM runs WHERE id = ? AND owner = ?"
        row = await self._do(lambda database: database.execute(sql, (id, owner)).fetchone())
        return msgspec.json.decode(row[0], type=Run) if row else None

    async def runs(self, owner: str, limit: int, before: str | None, words: Sequence[str] = ()) -> list[Run]:
        """The newest first, of those with all of `words`; `before` is the id of the last one that is known."""
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
        return [msgspec.json.decode(row[0], type=Run) for row in rows]

    async def remove(self, ids: Sequence[str]) -> None:
        """Runs that are over, with their traces and the artifacts that no other run left."""
        had = await self._do(lambda database: removal.forget(database, ids))
        await self._do(lambda database: removal.clear(database, self._directory, ids, had))

    async def remove_before(self, when: float) -> int:
        """What is over and what was uploaded before a time. Gives how many runs that were."""
        count = 0
        while ids := await self._do(lambda database: removal.ended_before(database, when, _REMOVED_AT_ONCE)):
            await self.remove(ids)
            count += len(ids)
        files = await self._do(lambda database: removal.forget_files(database, when))
        await asyncio.to_thread(removal.clear_files, self._directory, files)
        return count

    # --- files ------------------------------------------------------------------------------------------------

    def without_paths(self, text: str) -> str:
        """A message to a client: files are named as it named them."""
        return text.replace(f"{self._directory}/files/", "")

    def file_path(self, file: StoredFile) -> Path:
        return self._directory / "files" / file.id / file.name

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        path = self.file_path(file)

        def keep(database: sqlite3.Connection) -> None:
            (used,) = database.execute(_USED, (_LEAST_BYTES, owner)).fetchone()
            if used + max(file.bytes, _LEAST_BYTES) > MAX_FILES_BYTES:  # looked at here: others are sent meanwhile
                raise Refusal(413, "too_large", f"all files together have {MAX_FILES_BYTES:,} bytes at most")
            path.parent.mkdir(mode=0o700)
            _write(path, data)
            row = (file.id, owner, file.name, file.bytes, file.sha256, time.time())
            database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._do(keep)

    async def file(self, id: str, owner: str) -> StoredFile | None:
        sql = "SELECT id, name, bytes, sha256 FROM files WHERE id = ? AND owner = ?"
        row = await self._do(lambda database: database.execute(sql, (id, owner)).fetchone())
        return StoredFile(*row) if row else None

    def artifact_path(self, sha256: str) -> Path:
        return self._directory / "artifacts" / sha256

    async def keep_artifacts(self, run: str, store: Mapping[str, bytes]) -> None:
        def keep(database: sqlite3.Connection) -> None:
            removal.link(database, run, store)
            for sha256, data in store.items():
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


def _add_words(database: sqlite3.Connection) -> None:
    """A server that could not search yet kept these runs."""
    database.execute("BEGIN IMMEDIATE")
    database.execute("ALTER TABLE runs ADD COLUMN words TEXT NOT NULL DEFAULT ''")
    for (record,) in database.execute("SELECT record FROM runs").fetchall():
        database.execute(_KEEP, msgspec.json.decode(record, type=Run).row)
    database.execute("COMMIT")


def _settle(outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for done, result, error in outcomes:
        if done.done():  # whoever asked has gone
            continue
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)


class TraceFile:
    """A trace that is written while it happens; what was appended stays, whatever becomes of us."""

    def __init__(self, path: Path) -> None:
        """Raises NotKept."""
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotKept(error) from None
        self._digest, self._bytes = "", 0

    def append(self, item: object) -> None:
        """Raises NotKept where there is no room; no half line stays behind then."""
        line = as_json(item)
        digest = linked(self._digest, line)
        whole = chained(line, digest) + b"\n"
        left = memoryview(whole)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            os.ftruncate(self._fd, self._bytes)
            raise NotKept(error) from None
        self._digest, self._bytes = digest, self._bytes + len(whole)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.close(fd)


class TraceReader:
    """The lines of a trace that may still grow."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._partial = path, contextlib.ExitStack(), b""
        self._lines: Any = None

    def some(self) -> list[bytes]:
        """What there is, as far as one likes to send it at once; nothing, if there is nothing yet."""
        lines, size = list[bytes](), 0
        while size < _MAX_AT_ONCE_BYTES and (line := self._next()) is not None:
            lines.append(line)
            size += len(line)
        return lines

    def _next(self) -> bytes | None:
        if self._lines is None:
            try:
                self._lines = self._file.enter_context(self._path.open("rb"))
            except FileNotFoundError:
                return None
        self._partial += self._lines.readline()
        if not self._partial.endswith(b"\n"):
            return None
        line, self._partial = self._partial[:-1], b""
        return line

    def close(self) -> None:
        self._file.close()


def mend(path: Path) -> None:
    """Take away the half line that a server left when it died."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
