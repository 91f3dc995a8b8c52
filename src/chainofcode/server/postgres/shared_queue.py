"""The queue of all servers in PostgreSQL: claims in turn by token, heartbeats, and runs of servers that died.

A server without a heartbeat for `LEASE_SECONDS` is dead: another one puts its runs back into the queue. If the dead
server was only slow, its later writes are refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import psycopg

from ..fair_share import has_room
from ..refusal import Refusal, StorageError
from ..store import ClaimedRun, QueueRoom, RunRecord
from . import run_rows
from .connections import Connections, Postgres, connected
from .schema import CLAIMING
from .shipped_traces import NOTIFY

BEAT_SECONDS = 2.0
LEASE_SECONDS = 10.0
_MAX_RESUMED = 5  # so that a run that crashes servers is not resumed forever
_AT_ONCE = 100
_RETRY_SECONDS = 0.5
_NEXT = """SELECT first.id, first.server FROM (
    SELECT DISTINCT ON (owner) owner, number, id, server FROM runs
    WHERE state = 'queued' AND (server = %(me)s OR (server IS NULL AND NOT %(only_own)s))
    AND owner <> ALL(%(waiting)s)
    AND (model IS NULL OR model = ANY(%(models)s))
    ORDER BY owner, number) AS first
LEFT JOIN (SELECT owner, count(*) AS running FROM runs WHERE state = 'running' GROUP BY owner) AS held USING (owner)
LEFT JOIN turns USING (owner)
ORDER BY coalesce(running, 0), coalesce(claimed, 0), number LIMIT 1"""
# A client may have cancelled the run, or left, since it was found: then this waits for that transaction.
_CLAIM = """UPDATE runs SET state = 'running', server = %s
WHERE id = %s AND state = 'queued' AND server IS NOT DISTINCT FROM %s
RETURNING record, (SELECT request FROM requests WHERE run = id)"""
_LOST = """SELECT record, (SELECT request FROM requests WHERE run = id) FROM runs
WHERE state = 'running' AND server = %s AND id <> ALL(%s) LIMIT 1"""
_TURN = """INSERT INTO turns VALUES (%s, nextval('claims'))
ON CONFLICT (owner) DO UPDATE SET claimed = excluded.claimed"""
_COUNT = """SELECT count(*) FILTER (WHERE owner = %s), count(*),
(SELECT greatest(count(*), 1) FROM servers WHERE seen > now() - %s * interval '1 second')
FROM runs WHERE state IN ('queued', 'running')"""
_BEAT = "INSERT INTO servers VALUES (%s, now()) ON CONFLICT (id) DO UPDATE SET seen = now()"
_ORPHANS = """SELECT record, state, is_cancelled, (SELECT request FROM requests WHERE run = id) FROM runs
WHERE state IN ('queued', 'running') AND server IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM servers WHERE servers.id = server AND seen > now() - %s * interval '1 second')
ORDER BY number LIMIT %s FOR UPDATE OF runs SKIP LOCKED"""


class _Detached(msgspec.Struct):
    """The part of a kept request that matters here."""

    is_detached: bool = True


class PostgresQueue:
    """The part of one server, `me`, in the shared queue."""

    def __init__(self, database: Connections, url: str, me: str, removed: Callable[[str, str], None]) -> None:
        self._database, self._url, self.me, self._removed = database, url, me, removed
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    async def enqueue(self, run: RunRecord, request: bytes | None = None, places: QueueRoom | None = None) -> None:
        def insert(connection: Postgres) -> None:
            if places is not None:
                _check_room(connection, run.owner, places)
            run_rows.write(connection, run, self.me, request=request, is_shared=True)

        if places is None:
            await self._database.do_patiently(insert, owner=run.owner)
        else:
            await self._database.do(insert, owner=run.owner)

    async def claim(
        self, waiting: Sequence[str], models: Sequence[str], *, only_own: bool = False
    ) -> ClaimedRun | None:
        given = {"me": self.me, "waiting": list(waiting), "models": list(models), "only_own": only_own}

        def take(connection: Postgres) -> ClaimedRun | None:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CLAIMING,))
            while found := connection.execute(_NEXT, given).fetchone():
                row = connection.execute(_CLAIM, (self.me, *found)).fetchone()
                if row is not None:
                    run = run_rows.read_run(row[0], "running")
                    connection.execute(_TURN, (run.owner,))
                    connection.execute(NOTIFY, (f"changed {run.id}",))
                    return ClaimedRun(run, row[1], found[1] is not None)
            return None

        return await self._database.do(take)

    async def lost_claim(self, known: Sequence[str]) -> ClaimedRun | None:
        def find(connection: Postgres) -> ClaimedRun | None:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CLAIMING,))  # the failed claim is over
            row = connection.execute(_LOST, (self.me, list(known))).fetchone()
            return ClaimedRun(run_rows.read_run(row[0], "running"), row[1], False) if row else None

        return await self._database.do(find)

    async def cancel(self, id: str) -> None:
        def cancel(connection: Postgres) -> None:
            sql = "SELECT record, state, server FROM runs WHERE id = %s AND state IN ('queued', 'running') FOR UPDATE"
            row = connection.execute(sql, (id,)).fetchone()
            if row is not None and row[2] is None:
                run_rows.settle(
                    connection, msgspec.structs.replace(run_rows.read_run(row[0], row[1]), state="cancelled")
                )
            elif row is not None:
                connection.execute("UPDATE runs SET is_cancelled = true WHERE id = %s", (id,))
                connection.execute(NOTIFY, ("held",))

        await self._database.do(cancel)

    async def held(self) -> dict[str, bool]:
        sql = "SELECT id, is_cancelled FROM runs WHERE state IN ('queued', 'running') AND server = %s"
        return dict(await self._database.do(lambda connection: connection.execute(sql, (self.me,)).fetchall()))

    # --- heartbeats -------------------------------------------------------------------------------------------

    def listen(self, notified: Callable[[str, str], None]) -> None:
        self._thread = threading.Thread(target=self._listen, args=(notified,), name="heartbeats", daemon=True)
        self._thread.start()

    def _listen(self, notified: Callable[[str, str], None]) -> None:
        """Beat in a thread with its own connection, so that a busy event loop does not delay heartbeats."""
        while not self._is_over.is_set():
            try:
                with connected(self._url) as connection:
                    connection.execute("LISTEN coc")
                    notified("changed", "")  # some may have been missed
                    self._beat_on(connection, notified)
            except psycopg.Error:
                self._is_over.wait(_RETRY_SECONDS)

    def _beat_on(self, connection: Postgres, notified: Callable[[str, str], None]) -> None:
        begun = time.monotonic()
        while not self._is_over.is_set():
            connection.execute(_BEAT, (self.me,))
            if time.monotonic() - begun > LEASE_SECONDS:  # after a restart of PostgreSQL all servers look dead at first
                with connection.transaction():
                    take_over(connection)
            notified("held", "")
            next_beat = time.monotonic() + BEAT_SECONDS
            while (left := next_beat - time.monotonic()) > 0 and not self._is_over.is_set():
                for notification in connection.notifies(timeout=min(left, 0.5)):
                    kind, _, id = notification.payload.partition(" ")
                    if kind in ("removed", "discarded"):
                        self._removed(kind, id)
                    else:
                        notified(kind, id)

    def leave(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._database.now(lambda connection: connection.execute("DELETE FROM servers WHERE id = %s", (self.me,)))
        except StorageError:
            return  # the lease will expire


def take_over(connection: Postgres) -> None:
    """Put the runs of dead servers back into the queue; those that a client waited for are interrupted."""
    for record, state, is_cancelled, request in connection.execute(_ORPHANS, (LEASE_SECONDS, _AT_ONCE)).fetchall():
        run = run_rows.read_run(record, state)
        if is_cancelled:
            run.state = "cancelled"
        elif run.resumed < _MAX_RESUMED and _is_detached(request):
            run.state, run.resumed = "queued", run.resumed + 1
        else:
            run.state = "interrupted"
        run_rows.settle(connection, run)
    connection.execute("DELETE FROM servers WHERE seen < now() - interval '1 hour'")


def _is_detached(request: bytes | None) -> bool:
    return request is not None and msgspec.json.decode(request, type=_Detached).is_detached


def _check_room(connection: Postgres, owner: str, places: QueueRoom) -> None:
    row = connection.execute(_COUNT, (owner, LEASE_SECONDS)).fetchone()
    assert row is not None
    held, taken, servers = row
    if not has_room(held, taken, places.per_server * servers, is_shared=places.is_shared):
        raise Refusal(429, "busy", "too many runs are active or waiting", retry_seconds=5)
