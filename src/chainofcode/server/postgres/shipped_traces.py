"""Traces in PostgreSQL: the server that carries out a run writes a local file and ships it in chunks of whole lines.

Other servers keep a local copy, and update it before they read it. Each time a trace is begun or replaced, it gets a
higher generation: copies of an older generation are made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..objects import ObjectStorage
from ..refusal import Refusal, StorageError, TakenOver
from ..trace_files import PARTIAL, TraceWriter
from .connections import Connections, Postgres

_MAX_CHUNK_BYTES = 4 * 1024**2
_MAX_UNSHIPPED_BYTES = 1024**2  # above this, a run waits
_TOGETHER_SECONDS = 0.02  # events within this time share one transaction
_READ_AT_ONCE = 8  # chunks
NOTIFY = "SELECT pg_notify('coc', %s)"
_BEGIN = """UPDATE runs SET generation = generation + 1, trace_key = NULL WHERE id = %s AND server = %s
RETURNING generation"""
_DISCARD = """INSERT INTO garbage (key) SELECT trace_key FROM runs WHERE id = %s AND trace_key IS NOT NULL
ON CONFLICT DO NOTHING"""
_SHIP = """INSERT INTO chunks SELECT id, generation, %(start)s, %(data)s FROM runs
WHERE id = %(run)s AND server = %(server)s AND generation = %(generation)s
ON CONFLICT (run, generation, start) DO UPDATE SET data = excluded.data"""
_READ = "SELECT data FROM chunks WHERE run = %s AND generation = %s AND start >= %s ORDER BY start LIMIT %s"


class ShippedTrace:
    """A trace that is written here and shipped to the database. Raises TakenOver if another server has the run."""

    def __init__(self, copies: TraceCopies, run: str, server: str, file: TraceWriter) -> None:
        self._copies, self._database = copies, copies.database
        self.run, self._server, self._file = run, server, file
        self._unshipped, self.bytes = bytearray(), 0
        self.generation = 0  # unknown until the first chunk is shipped
        self._shipping: asyncio.Task[None] | None = None
        self._is_urgent = asyncio.Event()

    def append(self, item: object) -> None:
        self._unshipped += self._file.append(item)
        if self._shipping is None:
            self._shipping = asyncio.create_task(self._ship_all())
        elif self._shipping.done() and not self._shipping.cancelled():
            self._shipping.result()  # raises the error that stopped it

    @property
    def is_behind(self) -> bool:
        return len(self._unshipped) > _MAX_UNSHIPPED_BYTES

    async def flush(self) -> None:
        self._is_urgent.set()
        if self._shipping is not None:
            await asyncio.shield(self._shipping)

    async def replace(self, lines: Iterable[bytes]) -> None:
        """Ship the lines that the file begins with."""
        self._unshipped += b"".join(lines)
        await self._ship()

    async def _ship_all(self) -> None:
        try:
            while self._unshipped:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TOGETHER_SECONDS):
                        await self._is_urgent.wait()
                self._is_urgent.clear()
                await self._ship()
        finally:
            if not self._unshipped:
                self._shipping = None

    async def _ship(self) -> None:
        data = bytes(self._unshipped)
        self.generation = await self._database.do_patiently(lambda connection: self._insert(connection, data))
        self.bytes += len(data)
        del self._unshipped[: len(data)]

    def _insert(self, connection: Postgres, data: bytes) -> int:
        generation = self.generation or self._begin(connection)
        for start in range(0, len(data), _MAX_CHUNK_BYTES):
            given = {
                "run": self.run,
                "server": self._server,
                "generation": generation,
                "start": self.bytes + start,
                "data": data[start : start + _MAX_CHUNK_BYTES],
            }
            if connection.execute(_SHIP, given).rowcount != 1:
                raise TakenOver
        connection.execute(NOTIFY, (f"changed {self.run}",))
        return generation

    def _begin(self, connection: Postgres) -> int:
        connection.execute(_DISCARD, (self.run,))
        row = connection.execute(_BEGIN, (self.run, self._server)).fetchone()
        if row is None:
            raise TakenOver
        connection.execute("DELETE FROM chunks WHERE run = %s AND generation < %s", (self.run, row[0]))
        return int(row[0])

    def close(self) -> None:
        """Stop writing. Unless the trace has ended, other servers may continue it, so remove the local file."""
        self._file.close()
        self._copies.leave(self)


class _Copy(NamedTuple):
    generation: int
    bytes: int


class TraceCopies:
    """Local files with the traces of any server."""

    def __init__(self, directory: Path, database: Connections, objects: ObjectStorage) -> None:
        self._directory, self.database, self._objects = directory, database, objects
        self._copies: dict[str, _Copy] = {}
        self._open: dict[str, ShippedTrace] = {}  # of runs that this server carries out
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def path(self, run: str) -> Path:
        return self._directory / f"{run}.jsonl"

    def _lock(self, run: str) -> asyncio.Lock:
        """The lock for writing the local file of a trace, unless this server writes the trace itself."""
        return self._locks.setdefault(run, asyncio.Lock())

    async def begin(self, run: str, server: str) -> ShippedTrace:
        async with self._lock(run):
            self.forget(run)
            trace = self._open[run] = ShippedTrace(self, run, server, TraceWriter(self.path(run)))
        return trace

    async def replace(self, run: str, server: str, items: Iterable[object]) -> ShippedTrace:
        path = self.path(run)
        async with self._lock(run):
            file = await asyncio.to_thread(TraceWriter.replacing, path, items)
            trace = self._open[run] = ShippedTrace(self, run, server, file)
        try:
            await trace.replace([await asyncio.to_thread(path.read_bytes)])
        except BaseException:
            trace.close()
            raise
        return trace

    def end(self, trace: ShippedTrace) -> None:
        """Treat the local file of a trace that was shipped completely as a copy from now on."""
        if self._open.pop(trace.run, None) is trace:
            self._copies[trace.run] = _Copy(trace.generation, trace.bytes)
        trace.close()

    def leave(self, trace: ShippedTrace) -> None:
        """Forget a trace that this server no longer writes."""
        if self._open.get(trace.run) is trace:
            self.forget(trace.run)

    def forget(self, run: str) -> None:
        """Remove the local file, if there is one."""
        self._open.pop(run, None)
        self._copies.pop(run, None)
        for suffix in (".jsonl", PARTIAL):
            self.path(run).with_suffix(suffix).unlink(missing_ok=True)

    async def fetch(self, run: str) -> Path:
        """Bring the local copy of a trace up to date."""
        path = self.path(run)
        if run in self._open:
            return path
        async with self._lock(run):
            if run not in self._open:
                await self._update(run, path)
        return path

    async def _update(self, run: str, path: Path) -> None:
        sql = "SELECT generation, trace_key FROM runs WHERE id = %s"
        row = await self.database.do(lambda connection: connection.execute(sql, (run,)).fetchone())
        if row is None:
            return
        generation, key = row
        copy = self._copies.get(run, _Copy(0, 0))
        if copy.generation != generation or not os.path.exists(path):  # noqa: ASYNC240 (a local file)
            copy = _Copy(generation, 0)
        elif key is not None:
            return
        if key is not None:
            size = await asyncio.to_thread(self._fetch_object, key, path)
            self._copies[run] = _Copy(generation, size)
        else:
            await self._append_chunks(run, path, copy)

    def _fetch_object(self, key: str, path: Path) -> int:
        partial = path.with_suffix(PARTIAL)
        partial.unlink(missing_ok=True)
        try:
            self._objects.fetch(key, partial)
        except FileNotFoundError:
            raise Refusal(404, "no_trace", "the trace is not in the object storage") from None
        partial.replace(path)
        return path.stat().st_size

    async def _append_chunks(self, run: str, path: Path, copy: _Copy) -> None:
        """Append new chunks. A copy from the beginning is a new file, so that readers of the old one notice."""
        while True:
            data = await self.database.do(functools.partial(_read, run, copy))
            if not data:
                return
            await asyncio.to_thread(_append, path, data, copy.bytes)
            copy = self._copies[run] = _Copy(copy.generation, copy.bytes + len(data))


def _read(run: str, copy: _Copy, connection: Postgres) -> bytes:
    rows = connection.execute(_READ, (run, copy.generation, copy.bytes, _READ_AT_ONCE))
    return b"".join(bytes(row[0]) for row in rows)


def _append(path: Path, data: bytes, size: int) -> None:
    place = path if size else path.with_suffix(PARTIAL)
    try:
        with place.open("ab" if size else "wb") as file:
            file.truncate(size)
            file.write(data)
        if not size:
            os.replace(place, path)
    except OSError as error:
        raise StorageError(error.strerror or str(error)) from None
