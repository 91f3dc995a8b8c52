"""A disk cache of replies and values: one SQLite file, limited in size, that several processes can share.

The least recently used rows are removed first. Each row has a digest. If a digest does not match or SQLite reports
damage, the file is renamed and a new one started; a file that cannot be written is still read.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import LMError

MAX_BYTES = 1 << 30
_LEAST_BYTES = 1 << 16  # an empty file and a few rows
_BUSY_SECONDS = 5
_DIGEST_BYTES = 16
_DAY_SECONDS = 86_400
_ROOMY = 0.9  # rows are removed until the file has this share of its maximum size
_REMOVED_AT_ONCE = 256
_TABLE = """CREATE TABLE IF NOT EXISTS kept (
    request BLOB UNIQUE NOT NULL, reply BLOB NOT NULL, used INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS kept_by_use ON kept (used);"""


class ReplyStore:
    """Replies by request, both as bytes. `warn` gets messages for the user about problems with the file."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, warn: Callable[[str], None] = lambda text: None) -> None:
        if max_bytes < _LEAST_BYTES:
            raise LMError(f"the size of a cache must be at least {_LEAST_BYTES:,} bytes, not {max_bytes:,}")
        self._path, self._max_bytes, self._warn = path, max_bytes, warn
        self._is_read_only = self._has_warned = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._opened()
        except OSError as error:
            raise LMError(f"cannot store replies in {path.parent}: {error.strerror}") from None
        except sqlite3.DatabaseError as error:
            raise LMError(f"cannot store replies in {path}: {error}") from None

    def get(self, request: bytes) -> bytes | None:
        """Return the reply to a request, or None if it is not stored."""
        try:
            query = "SELECT CAST(reply AS BLOB), CAST(used AS INTEGER) FROM kept WHERE request = ?"
            row = self._file.execute(query, (request,)).fetchone()
        except sqlite3.DatabaseError as error:
            self._recover(error)
            return None
        if row is None:
            return None
        if row[0][:_DIGEST_BYTES] != _digest(request, row[0][_DIGEST_BYTES:]):
            self.replace_file()
            return None
        self._note_use(request, row[1])
        return bytes(row[0][_DIGEST_BYTES:])

    def put(self, request: bytes, reply: bytes) -> None:
        """Store a reply. Does not raise: after a failure, the reply is just not cached."""
        if self._is_read_only or len(reply) > self._max_bytes // 4:
            return
        try:
            row = (request, _digest(request, reply) + reply, int(time.time()))
            self._file.execute("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", row)
            self._make_room()
        except sqlite3.DatabaseError as error:
            self._recover(error)

    def replace_file(self) -> None:
        """Set the file aside because its content is invalid, and start a new one."""
        self._file.close()
        if not self._is_read_only:
            self._set_aside()
        try:
            self._file = self._opened()
        except sqlite3.DatabaseError as error:
            self._give_up(str(error))

    def close(self) -> None:
        self._file.close()

    # --- the file ---------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._set_aside()
                return self._open()
            file = self._open_to_read()
            if file is None:
                raise
        self._is_read_only = True
        self._warn_once(f"cannot write {self._path}: stored replies are used, but no new ones are added")
        return file

    def _open(self) -> sqlite3.Connection:
        file = self._connect("")
        try:
            file.execute("PRAGMA journal_mode=WAL")
            file.execute("PRAGMA synchronous=NORMAL")
            file.executescript(_TABLE)
            file.execute("UPDATE kept SET used = used WHERE request = x''")  # fails if the file is read-only
        except sqlite3.DatabaseError:
            file.close()
            raise
        return file

    def _open_to_read(self) -> sqlite3.Connection | None:
        """Open the file read-only; return None if it is missing or has no table of replies."""
        if not self._path.exists():
            return None
        file = self._connect("?mode=ro&immutable=1")
        try:
            file.execute("SELECT count(*) FROM (SELECT 1 FROM kept LIMIT 1)")
        except sqlite3.DatabaseError:
            file.close()
            return None
        return file

    def _connect(self, how: str) -> sqlite3.Connection:
        name = f"{self._path.absolute().as_uri()}{how}"
        return sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)

    def _set_aside(self) -> None:
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        damaged = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            self._path.rename(damaged)
            self._warn(f"{self._path} is damaged: it was renamed to {damaged.name}, and a new file is started")

    def _note_use(self, request: bytes, used: int) -> None:
        """Update the time at which a row was last used, at most once a day."""
        now = int(time.time())
        if not self._is_read_only and now - used > _DAY_SECONDS:
            with contextlib.suppress(sqlite3.DatabaseError):
                self._file.execute("UPDATE kept SET used = ? WHERE request = ?", (now, request))

    def _make_room(self) -> None:
        """Remove the least recently used rows if the file is too large."""
        if self._size() <= self._max_bytes:
            return
        before = self._size() + 1
        while self._max_bytes * _ROOMY < self._size() < before:
            before = self._size()
            oldest = "SELECT request FROM kept ORDER BY used LIMIT ?"
            self._file.execute(f"DELETE FROM kept WHERE request IN ({oldest})", (_REMOVED_AT_ONCE,))  # noqa: S608

    def _size(self) -> int:
        """Return the bytes in use, in constant time. Free pages do not count: SQLite reuses them."""
        pages, free, size = (
            self._file.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    # --- failures ---------------------------------------------------------------------------------------------

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        """Start a new file after damage. If the file is locked, skip this reply; after other errors, store no more."""
        if _is_damage(error):
            self.replace_file()
        elif getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
            self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        self._is_read_only = True
        self._warn_once(f"new replies are no longer stored in {self._path}: {why}")

    def _warn_once(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(text)


def _digest(request: bytes, reply: bytes) -> bytes:
    return hashlib.sha256(request + reply).digest()[:_DIGEST_BYTES]


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
