"""A server and its shared queue, when PostgreSQL fails at a critical moment."""

from __future__ import annotations

import asyncio
import contextlib
import io
import selectors
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from databases import PostgresServer, postgres_server

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

import psycopg

from chainofcode.sandbox import NoSandbox
from chainofcode.server import intake as intake_module
from chainofcode.server.intake import Intake, KeptRequest
from chainofcode.server.metrics import ServerLog
from chainofcode.server.objects import DirectoryObjects
from chainofcode.server.postgres import connections
from chainofcode.server.postgres.postgres_store import PostgresStore
from chainofcode.server.quotas import Ledger
from chainofcode.server.refusal import Refusal, StorageError
from chainofcode.server.resuming import Resuming
from chainofcode.server.run_kinds import Models, RunRequest
from chainofcode.server.runs import Runs
from chainofcode.server.settings import ServerSettings
from chainofcode.server.store import new_run
from chainofcode.server.telemetry import Telemetry
from chainofcode.trace import as_json

T = TypeVar("T")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Relay(socketserver.ThreadingTCPServer):
    """Forwards bytes to PostgreSQL. The next `cuts` claims are committed, but their replies are lost."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), RelayedConnection)
        self.port, self.cuts = port, 0


class RelayedConnection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Relay)
        with (
            socket.create_connection(("127.0.0.1", self.server.port)) as database,
            selectors.DefaultSelector() as ready,
        ):
            ready.register(self.request, selectors.EVENT_READ, database)
            ready.register(database, selectors.EVENT_READ, self.request)
            is_claim = False
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(65_536)  # type: ignore[union-attr]
                    if not data:
                        return
                    key.data.sendall(data)
                    is_claim = is_claim or b"SET state = 'running'" in data
                    if is_claim and b"COMMIT" in data and key.data is database:
                        is_claim = False
                        if self.server.cuts:
                            self.server.cuts -= 1
                            database.recv(65_536)  # the claim is committed
                            return


@pytest.fixture
def relay(postgres: PostgresServer) -> Iterator[Relay]:
    with Relay(postgres.port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextlib.asynccontextmanager
async def served(store: PostgresStore, settings: ServerSettings, log: io.StringIO) -> AsyncIterator[Intake]:
    with contextlib.closing(Models((), 1)) as models:
        ledger, server_log = Ledger({}, store), ServerLog("json", True, log)
        runs = Runs(
            settings,
            store=store,
            sandbox=NoSandbox(),
            models=models,
            ledger=ledger,
            telemetry=Telemetry(log=server_log),
        )
        intake = Intake(settings, store, runs, models, ledger)
        assert runs.peers is not None
        async with runs.peers.open(store, runs, Resuming(intake, server_log).start_claimed):
            yield intake


def use(url: str, directory: Path, check: Callable[[Intake], Awaitable[None]], **more: Any) -> str:
    """Run a coroutine with the parts of a server. Return its log."""
    log = io.StringIO()

    async def run(store: PostgresStore) -> None:
        async with asyncio.timeout(60), served(store, ServerSettings(directory, (), runs=2, **more), log) as intake:
            await check(intake)

    objects = DirectoryObjects(directory / "objects")
    with contextlib.closing(PostgresStore(url, directory / "data", objects)) as store:
        asyncio.run(run(store))
    return log.getvalue()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (there is no event to wait for)
        await asyncio.sleep(0.05)


async def patiently(do: Callable[[], Awaitable[T]]) -> T:
    """Retry: after a failover, each thread finds out by a failure that its session is read-only."""
    while True:
        with contextlib.suppress(StorageError):
            return await do()
        await asyncio.sleep(0.1)


async def ended(intake: Intake, id: str) -> Any:
    async for _ in intake.runs.follow(await intake.runs.find(id, "ann")):
        pass
    return await intake.runs.find(id, "ann")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("detach", [True, False])
def test_claim_is_not_lost_with_its_reply(postgres: PostgresServer, relay: Relay, tmp_path: Path, detach: bool) -> None:
    direct = postgres.database()
    url = direct.replace(f":{postgres.port}/", f":{relay.server_address[1]}/")

    async def check(intake: Intake) -> None:
        relay.cuts = 2
        for _ in range(4):  # more runs than slots
            run = await intake.start("ann", RunRequest(program="answer = 1", detach=detach))
            over = await ended(intake, run.id)
            assert (over.state, over.answer) == ("done", "1")
        with psycopg.connect(direct) as connection:
            assert connection.execute("SELECT count(*) FROM chainofcode.runs WHERE state = 'done'").fetchone() == (4,)

    assert "queue unavailable" in use(url, tmp_path, check)
    assert not relay.cuts


def test_one_user_cannot_fill_the_queue(postgres: PostgresServer, tmp_path: Path) -> None:
    async def check(intake: Intake) -> None:
        async def fill(owner: str) -> int:
            for count in range(12):
                try:
                    await intake.runs.enqueue(new_run(owner, "pears", "coc", "a model of another server"))
                except Refusal:
                    return count
            return 12

        assert [await fill(owner) for owner in ("ann", "bob")] == [6, 3]

    use(postgres.database(), tmp_path, check, queue=10, user_header="x-user")


@contextlib.contextmanager
def read_only(url: str) -> Iterator[str]:
    """Make a database read-only, like a standby; yield an address at which it is writable."""
    name, writable = url.rpartition("/")[2], f"{url}?options=-c%20default_transaction_read_only%3Doff"
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    with psycopg.connect(writable, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.execute(others, (name,))
        yield writable
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")


@pytest.mark.nightly
def test_server_continues_after_a_failover(postgres: PostgresServer, tmp_path: Path) -> None:
    url, request = postgres.database(), RunRequest(program="answer = 1")

    async def check(intake: Intake) -> None:
        with read_only(url) as writable:
            for _ in range(2):  # on connections that broke, and on new ones
                with pytest.raises(StorageError):
                    await intake.start("ann", request)
            run = new_run("ann", None, "run", None)
            objects = DirectoryObjects(tmp_path / "objects")
            with contextlib.closing(PostgresStore(writable, tmp_path / "other", objects)) as other:
                await other.shared.enqueue(run, as_json(KeptRequest(request)))
            await asyncio.sleep(3)  # meanwhile, the server polls the queue
        later = await patiently(lambda: intake.start("ann", request))
        for id in (run.id, later.id):
            over = await ended(intake, id)
            assert (over.state, over.answer) == ("done", "1")

    assert "PostgreSQL error 25006" in use(url, tmp_path, check)


def test_run_taken_over_before_its_end_was_stored(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    url, request = postgres.database(), RunRequest(program="import time\ntime.sleep(2)\nanswer = 1")

    async def check(intake: Intake) -> None:
        ids = [(await intake.start("ann", request)).id for _ in range(2)]
        await until(lambda: all(map(intake.runs.has, ids)))
        with read_only(url) as writable:
            await until(lambda: not any(map(intake.runs.has, ids)))
            taken_over, own = intake.runs.known
            with psycopg.connect(writable) as connection:
                sql = "UPDATE chainofcode.runs SET server = 'another' WHERE id = %s"
                connection.execute(sql, (taken_over,))
        await patiently(intake.runs.flush)
        states = [(await intake.runs.find(id, "ann")).state for id in (taken_over, own)]
        assert states == ["running", "failed"]

    use(url, tmp_path, check)


@pytest.mark.nightly
def test_a_run_that_cannot_be_resumed_stays_interrupted(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "_MAX_READ_BYTES", 10)
    url, run = postgres.database(), new_run("ann", None, "run", None)

    async def interrupt(store: PostgresStore) -> None:
        await store.shared.enqueue(run, as_json(KeptRequest(RunRequest(program="answer = 1"))))
        await store.shared.claim([], [])
        trace = await store.new_trace(run.id)
        trace.append({"event": "call"})
        await trace.flush()
        trace.close()
        await store.shared.enqueue(msgspec.structs.replace(run, resumed=1))

    async def check(intake: Intake) -> None:
        over = await ended(intake, run.id)
        assert (over.state, (over.error or {})["type"]) == ("interrupted", "too_large")
        assert await intake.store.request(run.id) is not None

    with contextlib.closing(PostgresStore(url, tmp_path / "other", DirectoryObjects(tmp_path / "objects"))) as store:
        asyncio.run(interrupt(store))
    use(url, tmp_path, check)
