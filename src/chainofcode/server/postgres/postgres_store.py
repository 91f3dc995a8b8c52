"""The store of several servers: rows in PostgreSQL; uploads, artifacts and long traces in object storage.

Covered: acknowledged writes survive the death of any server; runs continue after their last stored reply. While
PostgreSQL is down, requests are refused (503) and runs wait. An object is listed in `garbage` before it is stored, and
until a row refers to it, so that nothing is left behind. Not covered: loss of PostgreSQL or of the object storage.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...platforms import lock
from .. import data_directory
from ..fair_share import SEARCH_SECONDS, SERVER, refuse_if_slow
from ..objects import ObjectStorage
from ..refusal import Refusal, StorageError
from ..search_index import searched
from ..settings import MAX_FILES_BYTES
from ..store import ANY_RUN, PendingQuestion, RunFilter, RunRecord, RunSummary, StoredFile
from ..trace_files import TraceLog
from . import run_rows, schema
from .connections import Connections, Postgres
from .local_copies import LocalCopies
from .shared_queue import PostgresQueue
from .shipped_traces import NOTIFY, ShippedTrace, TraceCopies
from .upgrading import prepare

_THREADS, _SEARCH_THREADS, _OBJECT_THREADS = 8, 3, 4
_LARGE_BYTES = 1024**2  # a larger finished trace is stored as an object
_LEAST_BYTES = 4096  # the minimum that an upload counts
_REMOVED_AT_ONCE = 100
_GARBAGE_SECONDS = 3600  # the storing of an object may take this long
_USED = "SELECT coalesce(sum(greatest(bytes, %s)), 0) FROM files WHERE owner = %s"
_SPEND = """INSERT INTO spent VALUES (%s, %s, %s, %s) ON CONFLICT (day, owner)
DO UPDATE SET tokens = spent.tokens + excluded.tokens, dollars = spent.dollars + excluded.dollars"""
_DISCARD = "INSERT INTO garbage (key) SELECT unnest(%s::text[]) ON CONFLICT (key) DO UPDATE SET since = now()"
_FORGET = """DELETE FROM runs WHERE id = ANY(%s) AND state NOT IN ('queued', 'running') RETURNING id, trace_key"""
_SUMMARIES = "SELECT summary, state FROM runs WHERE owner = %(owner)s"
_FACTS = {
    "state": "state = %(state)s",
    "method": "method = %(method)s",
    "model": "model = %(model)s",
    "since": "created >= %(since)s",
    "until": "created < %(until)s",
}


class PostgresStore:
    """A `Store` for several servers. `directory` has only local copies, and belongs to this server."""

    def __init__(self, url: str, directory: Path, objects: ObjectStorage) -> None:
        self._lock = _locked(directory)
        try:
            prepare(url)
        except InputError:
            os.close(self._lock)
            raise
        self._objects, self._database = objects, Connections(url, _THREADS, "postgres")
        self._searches = Connections(url, _SEARCH_THREADS, "search", keeps_one_free=True)
        self._linking = Connections(url, _OBJECT_THREADS, "objects")  # transactions that wait for the object storage
        self._directory, self.me = directory, secrets.token_hex(8)
        self._copies = LocalCopies(directory, objects)
        self._traces = TraceCopies(directory / "traces", self._database, objects)
        self.shared = PostgresQueue(self._database, url, self.me, self._forget_local)
        for key in self._database.now(_garbage):  # of servers that died
            with contextlib.suppress(StorageError):
                self._linking.now(_collected(objects, key))

    def close(self) -> None:
        for connections in (self._database, self._searches, self._linking):
            connections.close()
        os.close(self._lock)

    async def check(self) -> None:
        await self._database.do(lambda connection: connection.execute("SELECT nextval('claims')"))
        await asyncio.to_thread(self._objects.check)

    # --- runs -------------------------------------------------------------------------------------------------

    async def keep(self, run: RunRecord, trace: TraceLog | None = None, request: bytes | None = None) -> None:
        key = None
        if isinstance(trace, ShippedTrace):
            await trace.flush()
            if trace.bytes > _LARGE_BYTES and run.is_over:
                with contextlib.suppress(StorageError):  # if it fails, the trace stays in the database
                    key = await self._keep_large(trace)

        def keep(connection: Postgres) -> None:
            run_rows.write(connection, run, self.me, request=request)
            if key is not None:
                connection.execute("UPDATE runs SET trace_key = %s WHERE id = %s", (key, run.id))
                connection.execute("DELETE FROM chunks WHERE run = %s", (run.id,))
                connection.execute("DELETE FROM garbage WHERE key = %s", (key,))

        await (self._database.do if trace is None else self._database.do_patiently)(keep, owner=run.owner)
        if isinstance(trace, ShippedTrace):
            self._traces.end(trace)

    async def _keep_large(self, trace: ShippedTrace) -> str:
        key = f"traces/{trace.run}-{trace.generation}.jsonl"
        data = await asyncio.to_thread(self._traces.path(trace.run).read_bytes)
        await self._put({key: data})
        return key

    async def run(self, id: str, owner: str) -> RunRecord | None:
        sql, given = "SELECT record, state FROM runs WHERE id = %s AND owner = %s", (run_rows.plain(id), owner)

        def find(connection: Postgres) -> RunRecord | None:
            row = connection.execute(sql, given).fetchone()
            return run_rows.read_run(*row) if row else None

        return await self._database.do(find, owner=owner)

    async def summary(self, id: str, owner: str) -> RunSummary | None:
        find = _list(f"{_SUMMARIES} AND id = %(id)s", {"owner": owner, "id": run_rows.plain(id)})
        return next(iter(await self._database.do(find, owner=owner)), None)

    async def runs(
        self, owner: str, limit: int, before: str | None, run_filter: RunFilter = ANY_RUN
    ) -> list[RunSummary]:
        find = _list(*_search(owner, limit, before, run_filter))
        if run_filter.is_empty:
            return await self._database.do(find, owner=owner)
        with refuse_if_slow():
            return await self._searches.do(find, owner=owner, seconds=SEARCH_SECONDS)

    async def remove(self, ids: Sequence[str]) -> None:
        def forget(connection: Postgres) -> list[str]:
            gone = connection.execute(_FORGET, (list(ids),)).fetchall()
            sql = "DELETE FROM artifacts WHERE run = ANY(%s) RETURNING sha256"
            artifacts = {row[0] for row in connection.execute(sql, ([row[0] for row in gone],))}
            keys = [row[1] for row in gone if row[1] is not None] + [f"artifacts/{sha256}" for sha256 in artifacts]
            connection.execute(_DISCARD, (keys,))
            for id, _ in gone:
                connection.execute(NOTIFY, (f"removed {id}",))
            return keys

        keys = await self._database.do(forget)
        for id in ids:
            self._traces.forget(id)
        await self._collect(keys)

    async def remove_before(self, when: float) -> int:
        sql = """SELECT id FROM runs WHERE state NOT IN ('queued', 'running', 'waiting') AND created < %s
ORDER BY created LIMIT %s"""
        count, given = 0, (when, _REMOVED_AT_ONCE)
        while rows := await self._database.do(lambda connection: connection.execute(sql, given).fetchall()):
            await self.remove([row[0] for row in rows])
            count += len(rows)
        await self._remove_uploads(when)
        await self._sweep()
        return count

    async def _remove_uploads(self, when: float) -> None:
        unused = """DELETE FROM files WHERE created < %s AND NOT EXISTS (SELECT 1 FROM uses WHERE file = files.id)
            RETURNING id"""

        def forget(connection: Postgres) -> list[str]:
            keys = [f"files/{row[0]}" for row in connection.execute(unused, (when,)).fetchall()]
            connection.execute(_DISCARD, (keys,))
            return keys

        await self._collect(await self._database.do(forget))

    async def request(self, run: str) -> bytes | None:
        sql = "SELECT request FROM requests WHERE run = %s"
        row = await self._database.do(lambda connection: connection.execute(sql, (run,)).fetchone())
        return bytes(row[0]) if row else None

    async def interrupted(self) -> list[tuple[str, str]]:
        sql = """SELECT id, owner FROM runs WHERE state = 'interrupted'
            AND EXISTS (SELECT 1 FROM requests WHERE run = runs.id) ORDER BY number"""
        return await self._database.do(lambda connection: connection.execute(sql).fetchall())

    # --- traces -----------------------------------------------------------------------------------------------

    async def new_trace(self, id: str) -> TraceLog:
        return await self._traces.begin(id, self.me)

    async def replace_trace(self, id: str, items: Iterable[object]) -> TraceLog:
        return await self._traces.replace(id, self.me, items)

    async def local_trace(self, id: str) -> Path:
        path = await self._traces.fetch(run_rows.plain(id))
        self._copies.use(path)
        return path

    def _forget_local(self, kind: str, name: str) -> None:
        """Remove the copy of a run or an object that another server has removed."""
        if kind == "removed":
            self._traces.forget(name)
        else:
            self._copies.forget(name)

    # --- questions --------------------------------------------------------------------------------------------

    async def keep_question(self, question: PendingQuestion) -> None:
        row = run_rows.question_row(question)
        await self._database.do_patiently(lambda connection: connection.execute(run_rows.KEEP_QUESTION, row))

    async def question(self, id: str, owner: str) -> PendingQuestion | None:
        return await self._question(run_rows.OWN_QUESTION, (run_rows.plain(id), owner), owner)

    async def question_of(self, run: str, call: str) -> PendingQuestion | None:
        return await self._question(run_rows.QUESTION_OF, (run, run_rows.as_bytes(call)))

    async def _question(self, sql: str, given: tuple[object, ...], owner: str = SERVER) -> PendingQuestion | None:
        def find(connection: Postgres) -> Any:
            return connection.execute(sql, given).fetchone()

        row = await self._database.do_patiently(find, owner=owner)
        return run_rows.read_question(row)

    async def questions(self, owner: str, limit: int, run: str | None = None) -> list[PendingQuestion]:
        return await self._database.do(
            lambda connection: run_rows.open_questions(connection, owner, limit, run), owner=owner
        )

    async def answer_question(self, id: str, answer: str) -> bool:
        return await self._database.do(lambda connection: run_rows.answer(connection, id, answer))

    # --- files ------------------------------------------------------------------------------------------------

    def without_paths(self, text: str) -> str:
        return text.replace(f"{self._directory}/files/", "")

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        row = (file.id, owner, file.name, file.bytes, file.sha256, time.time())
        size = max(file.bytes, _LEAST_BYTES)

        def check_room(connection: Postgres) -> None:
            used = connection.execute(_USED, (_LEAST_BYTES, owner)).fetchone()
            if used is None or used[0] + size > MAX_FILES_BYTES:
                raise Refusal(413, "too_large", f"all uploads together can have at most {MAX_FILES_BYTES:,} bytes")

        def keep(connection: Postgres) -> None:
            locking = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"
            connection.execute(locking, (schema.OWNER_LOCKS, owner))  # uploads may be concurrent
            check_room(connection)
            connection.execute("INSERT INTO files VALUES (%s, %s, %s, %s, %s, %s)", row)
            connection.execute("DELETE FROM garbage WHERE key = %s", (f"files/{file.id}",))

        await self._database.do(check_room, owner=owner)
        await self._put({f"files/{file.id}": data})
        await self._database.do(keep, owner=owner)

    async def file(self, id: str, owner: str) -> StoredFile | None:
        sql, given = (
            "SELECT id, name, bytes, sha256 FROM files WHERE id = %s AND owner = %s",
            (run_rows.plain(id), owner),
        )
        row = await self._database.do(lambda connection: connection.execute(sql, given).fetchone(), owner=owner)
        return StoredFile(id=row[0], name=row[1], bytes=row[2], sha256=row[3]) if row else None

    async def local_file(self, file: StoredFile) -> Path:
        return await self._copies.fetch(f"files/{file.id}", Path("files", file.id, file.name))

    async def local_artifact(self, sha256: str) -> Path:
        return await self._copies.fetch(f"artifacts/{sha256}", Path("artifacts", sha256))

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        await self._discard([f"artifacts/{sha256}" for sha256 in artifacts])
        for sha256, data in artifacts.items():
            await self._linking.do_patiently(_linked(self._objects, run, sha256, data))

    # --- objects ----------------------------------------------------------------------------------------------

    async def _discard(self, keys: Sequence[str]) -> None:
        await self._database.do_patiently(lambda connection: connection.execute(_DISCARD, (list(keys),)))

    async def _put(self, objects: Mapping[str, bytes]) -> None:
        """Store objects that a row will soon refer to."""
        await self._discard(list(objects))
        for key, data in objects.items():
            await asyncio.to_thread(self._objects.put, key, data)

    async def _sweep(self) -> None:
        """Remove objects without a row, left by uploads that failed and servers that died."""
        await self._collect(await self._database.do(_garbage))

    async def _collect(self, keys: Iterable[str]) -> None:
        """Remove objects that are garbage. What fails now is swept later."""
        for key in keys:
            with contextlib.suppress(StorageError):
                await self._linking.do(_collected(self._objects, key))
            self._copies.forget(key)

    # --- budgets ----------------------------------------------------------------------------------------------

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        def spend(connection: Postgres) -> None:
            for owner, (tokens, dollars) in sorted(amounts.items()):  # in a fixed order, to prevent deadlocks
                connection.execute(_SPEND, (day, owner, tokens, dollars))

        await self._database.do(spend)

    async def spent(self, day: str) -> dict[str, tuple[int, float]]:
        sql = "SELECT owner, tokens, dollars FROM spent WHERE day = %s"
        rows = await self._database.do(lambda connection: connection.execute(sql, (day,)).fetchall())
        return {owner: (tokens, dollars) for owner, tokens, dollars in rows}


def _locked(directory: Path) -> int:
    """Lock a directory for local copies, and remove what an earlier server left in it."""
    data_directory.make_private(directory)
    try:
        held = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"cannot store copies in {directory}: {error.strerror}") from None
    try:
        lock(held, waits=False)
    except OSError:
        os.close(held)
        raise InputError(f"another server uses {directory}: give this one its own --data") from None
    if (directory / "runs.sqlite").exists():
        os.close(held)
        raise InputError(f"{directory} has the runs of an SQLite store: give --store postgresql:// its own --data")
    for part in data_directory.PARTS:
        shutil.rmtree(directory / part, ignore_errors=True)
        (directory / part).mkdir(mode=0o700)
    return held


def _search(owner: str, limit: int, before: str | None, run_filter: RunFilter) -> tuple[str, dict[str, object]]:
    sql = _SUMMARIES
    given: dict[str, object] = {"owner": owner, "limit": limit}
    if before is not None:
        sql += " AND number < (SELECT number FROM runs WHERE id = %(before)s AND owner = %(owner)s)"
        given["before"] = run_rows.plain(before)
    for place, word in enumerate(run_filter.words):
        sql += f" AND words LIKE %(word{place})s"
        given[f"word{place}"] = f"%{_escaped(searched(word))}%"
    for name, condition in _FACTS.items():
        value = getattr(run_filter, name)
        if value is not None:
            sql += f" AND {condition}"
            given[name] = run_rows.plain(value) if isinstance(value, str) else value
    return f"{sql} ORDER BY number DESC LIMIT %(limit)s", given


def _list(sql: str, given: dict[str, object]) -> Callable[[Postgres], list[RunSummary]]:
    """Read summaries. Write those that are missing first, because an older server has written their rows."""

    def find(connection: Postgres) -> list[RunSummary]:
        rows = connection.execute(sql, given).fetchall()
        if any(row[0] is None for row in rows):
            run_rows.add_summaries(connection)
            rows = connection.execute(sql, given).fetchall()
        return [run_rows.read_summary(*row) for row in rows]

    return find


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _linked(objects: ObjectStorage, run: str, sha256: str, data: bytes) -> Callable[[Postgres], None]:
    def link(connection: Postgres) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (schema.ARTIFACT_LOCKS, sha256))
        connection.execute("INSERT INTO artifacts VALUES (%s, %s) ON CONFLICT DO NOTHING", (sha256, run))
        objects.put(f"artifacts/{sha256}", data)
        connection.execute("DELETE FROM garbage WHERE key = %s", (f"artifacts/{sha256}",))

    return link


def _garbage(connection: Postgres) -> list[str]:
    """Keys of objects without a row that are no longer being stored."""
    sql = "SELECT key FROM garbage WHERE since < now() - %s * interval '1 second' LIMIT %s"
    return [row[0] for row in connection.execute(sql, (_GARBAGE_SECONDS, _REMOVED_AT_ONCE))]


def _collected(objects: ObjectStorage, key: str) -> Callable[[Postgres], None]:
    """Remove an object, unless a run has left the same artifact meanwhile."""

    def collect(connection: Postgres) -> None:
        kind, _, name = key.partition("/")
        if kind == "artifacts":
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (schema.ARTIFACT_LOCKS, name))
        used = connection.execute("SELECT 1 FROM artifacts WHERE sha256 = %s LIMIT 1", (name,)).fetchone()
        if kind != "artifacts" or used is None:
            objects.remove(key)
            connection.execute(NOTIFY, (f"discarded {key}",))
        connection.execute("DELETE FROM garbage WHERE key = %s", (key,))

    return collect
