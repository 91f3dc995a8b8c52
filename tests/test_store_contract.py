"""The contract of all stores: SQLite with a directory, and PostgreSQL with a directory or S3 as object storage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from databases import PostgresServer, postgres_server
from older_stores import write_as_older_version, write_as_version_2

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from test_run_store import QUESTIONS, SEARCHES, found, run_of

from chainofcode.reasons import Reason
from chainofcode.server import search_index, sqlite_runs
from chainofcode.server.objects import DirectoryObjects, ObjectStorage, objects_at
from chainofcode.server.refusal import Refusal, StorageError, TakenOver
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import (
    PendingQuestion,
    QueueRoom,
    RunFilter,
    RunRecord,
    RunSummary,
    Store,
    StoredFile,
    new_file,
    new_run,
)
from chainofcode.trace import as_json

Use = Callable[[Store], Coroutine[Any, Any, Any]]
FINAL = {"state": "done", "reason": Reason.ANSWERED}
changed = msgspec.structs.replace


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a bucket in an S3 server."""
    pytest.importorskip("moto", reason="moto[server] is not installed")
    pytest.importorskip("obstore", reason="the extra `s3` is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                with contextlib.suppress(httpx.TransportError):
                    if httpx.put(f"{url}/runs").status_code == 200:
                        break
                time.sleep(0.1)
            settings = {
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
            }
            before = {name: os.environ.get(name) for name in settings}
            os.environ.update(settings)
            yield "s3://runs/coc"
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        finally:
            server.kill()


@pytest.fixture(params=["sqlite", "postgres", "postgres and s3"])
def use(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Use], Any]:
    """Run a coroutine with a store."""
    if request.param == "sqlite":
        opened: Callable[[], Any] = lambda: SQLiteStore(tmp_path / "data")  # noqa: E731
    else:
        database = request.getfixturevalue("postgres").database()
        place = request.getfixturevalue("s3") if "s3" in request.param else str(tmp_path / "objects")
        from chainofcode.server.postgres.postgres_store import PostgresStore

        opened = lambda: PostgresStore(database, tmp_path / "data", objects_at(place))  # noqa: E731

    def run(function: Use) -> Any:
        with contextlib.closing(opened()) as store:
            return asyncio.run(function(store))

    return run


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen within 30 seconds")


# --- runs ---------------------------------------------------------------------------------------------------------


def test_owners_cannot_see_records_of_others(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        run, file = run_of("ann", "pears"), new_file("a.csv", b"x")
        await store.keep(run)
        await store.keep_file(file, "ann", b"x")
        assert await store.run(run.id, "ann") == run
        assert await store.file(file.id, "ann") == file
        for other in ("bob", "", "ANN"):
            assert await store.run(run.id, other) is None
            assert await store.file(file.id, other) is None
            assert await store.runs(other, 9, None) == []

    use(check)


def test_records_survive_a_restart(use: Callable[[Use], Any]) -> None:
    run, file = run_of("ann", "pears\0and \ud800", "plums"), new_file("a.csv", b"n\n1\n")

    async def keep(store: Store) -> None:
        await store.keep(run)
        await store.keep_file(file, "ann", b"n\n1\n")
        await store.keep_artifacts(run.id, {"a" * 64: b"left"})
        await store.spend("2026-01-01", {"ann": (3, 0.5), "bob": (1, 0.0)})
        await store.spend("2026-01-01", {"ann": (4, 0.25)})

    async def look(store: Store) -> None:
        assert await store.run(run.id, "ann") == run
        assert (await store.local_file(file)).read_bytes() == b"n\n1\n"
        assert (await store.local_file(file)).name == "a.csv"
        assert (await store.local_artifact("a" * 64)).read_bytes() == b"left"
        assert not (await store.local_artifact("b" * 64)).exists()
        assert await store.spent("2026-01-01") == {"ann": (7, 0.75), "bob": (1, 0.0)}
        assert await store.spent("2026-01-02") == {}
        await store.check()

    run.question = run.question.replace("\ud800", "") if run.question else None
    use(keep)
    use(look)


def test_searches_find_all_words_anywhere(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        for question in QUESTIONS:
            await store.keep(run_of("ann", question))
            await store.keep(run_of("bob", f"{question} of bob"))
        texts = {question: search_index.searched(f"{question}\ncoc\nm\ndone") for question in QUESTIONS}
        for words in [*SEARCHES, ["%"], ["_"], ["\\"]]:
            folded = [search_index.searched(word) for word in words]
            expected = [question for question, text in texts.items() if all(word in text for word in folded)]
            assert await found(store, "ann", *words) == expected[::-1], words
        assert await found(store, "eve", "pears") == []

    use(check)


def test_lists_are_paged_and_filtered(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        runs = [changed(run_of("ann", f"pears {number}"), created=float(number)) for number in range(9)]
        runs[3] = changed(runs[3], method="cot", state="failed", model=None)
        for run in runs:
            await store.keep(run)
        assert await found(store, "ann", "pears", limit=2) == ["pears 8", "pears 7"]
        assert await found(store, "ann", "pears", limit=2, before=runs[7].id) == ["pears 6", "pears 5"]
        assert await found(store, "bob", "pears", before=runs[7].id) == []
        assert await found(store, "ann", before="\0no such run") == []
        await store.remove([runs[5].id])
        await store.keep(changed(runs[6], question="plums"))
        assert await found(store, "ann", "pears", limit=3) == ["pears 8", "pears 7", "pears 4"]
        assert await found(store, "ann", "plums") == ["plums"]
        for wanted, expected in (
            (RunFilter(state="failed"), ["pears 3"]),
            (RunFilter(method="cot"), ["pears 3"]),
            (RunFilter(method="c\0t"), []),
            (RunFilter(model="m", since=2.0, until=5.0), ["pears 4", "pears 2"]),
        ):
            assert [run.question for run in await store.runs("ann", 50, None, wanted)] == expected

    use(check)


def test_lists_are_short_however_large_the_records_are(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        large = {"state": "done", "reason": "answered", "answer": "é" * 500_000, "value": ["x" * 1000] * 20}
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "dollars": None}
        runs = [changed(run_of("ann", "q" * 100_000), **large, usage=usage) for _ in range(9)]
        for run in runs:
            await store.keep(run)
        listed = await store.runs("ann", 50, None)
        assert listed == [RunSummary.of(run) for run in runs[::-1]]
        assert len(msgspec.json.encode(listed)) < 9 * 8000
        assert (listed[0].tokens, listed[0].dollars) == (7, None)
        assert await store.summary(runs[0].id, "ann") == RunSummary.of(runs[0])
        assert await store.summary(runs[0].id, "bob") is await store.summary("\0", "ann") is None
        assert await store.run(runs[0].id, "ann") == runs[0]
        await store.keep(changed(runs[0], answer="short"))
        assert (await store.runs("ann", 50, None))[-1].answer == "short"

    use(check)


def test_lists_of_questions_are_bounded(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        run = new_run("ann", "pears", "coc", "m")
        await store.keep(run)
        for number in range(60):
            call = f"approve({'x' * 19_900!r}, {number})"
            await store.keep_question(PendingQuestion(f"q{number}", run.id, call, "bool", 1, float(number)))
        found = await store.questions("ann", 200)
        assert [question.id for question in found] == [f"q{number}" for number in range(50)]

    use(check)


def test_a_request_is_kept_until_its_run_is_final(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        run = new_run("ann", "pears", "coc", "m")
        await store.keep(run, request=b'{"a": 1}')
        assert await store.request(run.id) == b'{"a": 1}'
        assert await store.interrupted() == []
        await store.keep(changed(run, state="interrupted"))
        assert await store.interrupted() == [(run.id, "ann")]
        assert await store.request(run.id) == b'{"a": 1}'
        await store.keep(changed(run, **FINAL))
        assert await store.request(run.id) is None
        assert await store.interrupted() == []

    use(check)


def test_questions(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        run = new_run("ann", "pears", "coc", "m")
        await store.keep(run)
        call = f"approve({'x' * 9000!r})"
        pending = [PendingQuestion(f"q{n}", run.id, call + str(n), "bool", n, float(n)) for n in range(2)]
        for question in pending:
            await store.keep_question(question)
        assert await store.questions("ann", 9) == await store.questions("ann", 9, run.id) == pending
        assert await store.questions("ann", 1) == pending[:1]
        assert await store.questions("bob", 9) == await store.questions("ann", 9, "0" * 24) == []
        assert await store.question("q0", "ann") == pending[0]
        assert await store.question("q0", "bob") is await store.question("\0", "ann") is None
        assert await store.question_of(run.id, call + "1") == pending[1]
        newer = changed(pending[1], id="q9", asked=9.0)
        await store.keep_question(newer)  # for the same call
        assert await store.questions("ann", 9) == [pending[0], newer]
        assert await store.answer_question("q0", "a\0b") is True
        assert await store.answer_question("q0", "other") is False
        assert await store.question_of(run.id, call + "0") == changed(pending[0], answer="a\0b")
        await store.keep(changed(run, state="waiting"))
        assert await store.questions("ann", 9) == [newer]
        await store.keep(changed(run, **FINAL))
        assert await store.question("q9", "ann") is None

    use(check)


# --- removal ------------------------------------------------------------------------------------------------------


def test_removal_by_age_spares_runs_that_wait_for_a_person(use: Callable[[Use], Any]) -> None:
    async def check(store: Store) -> None:
        waiting, ended = (changed(run_of("ann", str(n)), created=float(n)) for n in range(2))
        await store.keep(changed(waiting, state="running"))
        await store.keep_question(PendingQuestion("q", waiting.id, "approve(1)", "bool", 0, 0.0))
        await store.keep(changed(waiting, state="waiting"))
        await store.keep(ended)
        assert await store.remove_before(9.0) == 1
        assert await store.run(ended.id, "ann") is None
        assert (await store.run(waiting.id, "ann")).state == "waiting"

    use(check)


def test_artifacts_and_uploads_are_removed_with_the_last_run_that_has_them(use: Callable[[Use], Any]) -> None:
    files = [new_file(name, b"x") for name in ("used.csv", "unused.csv")]

    async def keep(store: Store) -> list[RunRecord]:
        for file in files:
            await store.keep_file(file, "ann", b"x")
        runs = [changed(run_of("ann", str(n)), created=float(n), files=[files[0].id]) for n in range(2)]
        for run, own in zip(runs, ("b" * 64, "c" * 64), strict=True):
            await store.keep_artifacts(run.id, {"a" * 64: b"both", own: b"own"})
            await store.keep(run)
        await store.remove([runs[0].id])
        return runs

    async def look(store: Store) -> None:
        assert await store.run(runs[0].id, "ann") is None
        there = {letter: (await store.local_artifact(letter * 64)).exists() for letter in "abc"}
        assert there == {"a": True, "b": False, "c": True}
        assert await store.remove_before(0.5) == 0
        assert await store.remove_before(time.time() + 9) == 1
        assert [await store.file(file.id, "ann") for file in files] == [None, None]

    async def look_again(store: Store) -> None:
        assert not [letter for letter in "abc" if (await store.local_artifact(letter * 64)).exists()]
        assert not (await store.local_file(files[0])).exists()

    runs: list[RunRecord] = use(keep)
    use(look)
    use(look_again)


def test_the_uploads_of_an_owner_are_bounded(use: Callable[[Use], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sqlite_store", "postgres.postgres_store"):
        monkeypatch.setattr(f"chainofcode.server.{module}.MAX_FILES_BYTES", 3 * 4096)

    async def check(store: Store) -> None:
        uploads = [store.keep_file(StoredFile(f"f{n}", "a", 1, "x"), "ann", b"1") for n in range(9)]
        outcomes = await asyncio.gather(*uploads, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 3
        assert {outcome.kind for outcome in outcomes if isinstance(outcome, Refusal)} == {"too_large"}
        await store.keep_file(StoredFile("g", "a", 1, "x"), "bob", b"1")

    use(check)


# --- traces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_a_trace_is_written_replaced_and_read(use: Callable[[Use], Any], size: int) -> None:
    run = new_run("ann", "pears", "coc", "m")

    async def write(store: Store) -> bytes:
        await store.keep(run, request=b"{}")
        trace = await store.new_trace(run.id)
        trace.append({"event": "old"})
        await trace.flush()
        trace.close()
        trace = await store.replace_trace(run.id, [{"event": "new"}, {"event": "x" * size}])
        trace.append({"event": "last"})
        path = await store.local_trace(run.id)
        assert path.read_bytes().count(b"\n") == 3
        await store.keep(changed(run, **FINAL), trace)
        return path.read_bytes()

    async def look(store: Store) -> bytes:
        assert not (await store.local_trace("0" * 24)).exists()
        return (await store.local_trace(run.id)).read_bytes()

    written = use(write)
    assert written.startswith(b'{"event":"new"') and written.count(b"\n") == 3
    assert use(look) == written

    async def remove(store: Store) -> bool:
        await store.remove([run.id])
        return (await store.local_trace(run.id)).exists()

    assert use(remove) is False


# --- the queue of several servers ---------------------------------------------------------------------------------


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.database()


@pytest.fixture
def two_stores(url: str, tmp_path: Path) -> Iterator[list[Any]]:
    from chainofcode.server.postgres.postgres_store import PostgresStore

    objects = DirectoryObjects(tmp_path / "objects")
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(PostgresStore(url, tmp_path / name, objects)))
            for name in ("one", "two")
        ]


def test_owners_take_turns_on_all_servers(two_stores: list[Any]) -> None:
    async def check() -> None:
        one, two = two_stores
        for owner, count in (("ann", 5), ("bob", 2), ("eve", 1)):
            for number in range(count):
                run = changed(new_run(owner, str(number), "coc", "m"), created=float(number))
                await one.shared.enqueue(run, b"{}", QueueRoom(100, True))
        claimed = []
        while next_one := await (one, two)[len(claimed) % 2].shared.claim(["eve"], ["m"]):
            claimed.append((next_one.run.owner, next_one.run.question))
        assert claimed == [("ann", "0"), ("bob", "0"), ("ann", "1"), ("bob", "1"), *(("ann", n) for n in "234")]
        assert await one.shared.claim([], ["other"]) is None
        assert (await two.shared.claim(["ann"], ["m"])).run.state == "running"

    asyncio.run(check())


def test_concurrent_claims_take_each_run_once(two_stores: list[Any]) -> None:
    async def claim_all(store: Any) -> list[str]:
        ids = []
        while claimed := await store.shared.claim([], ["m"]):
            ids.append(claimed.run.id)
        return ids

    async def check() -> None:
        runs = [new_run("ann", "pears", "coc", "m") for _ in range(40)]
        await asyncio.gather(*(two_stores[0].shared.enqueue(run, b"{}") for run in runs))
        claimed = await asyncio.gather(*(claim_all(store) for store in two_stores * 3))
        assert sorted(id for ids in claimed for id in ids) == sorted(run.id for run in runs)

    asyncio.run(check())


def test_only_the_server_that_holds_a_run_can_write_it(two_stores: list[Any]) -> None:
    async def check() -> None:
        one, two = two_stores
        run = new_run("ann", "pears", "coc", "m")
        await one.shared.enqueue(run, b"{}")
        for store in two_stores:
            with pytest.raises(TakenOver):
                await store.keep(changed(run, state="failed"))
        claimed = (await two.shared.claim([], ["m"])).run
        trace = await one.new_trace(run.id)
        trace.append({"event": "old"})
        for write in (
            lambda: one.keep(changed(claimed, **FINAL)),
            lambda: one.shared.enqueue(changed(claimed, state="queued", resumed=1)),
            trace.flush,
        ):
            with pytest.raises(TakenOver):
                await write()
        await one.remove([run.id])  # no effect: the run is not finished
        assert await two.shared.held() == {run.id: False}
        await one.shared.cancel(run.id)
        assert await two.shared.held() == {run.id: True}
        await two.keep(changed(claimed, **FINAL))
        assert (await one.run(run.id, "ann")).state == "done"
        await one.remove([run.id])
        with pytest.raises(TakenOver):  # a removed run does not come back
            await two.shared.enqueue(changed(claimed, state="queued", resumed=1))

    asyncio.run(check())


@pytest.mark.parametrize("how", ["requeued", "taken over"])
def test_trace_that_another_server_continues_is_read_from_there(two_stores: list[Any], url: str, how: str) -> None:
    import psycopg

    async def check() -> None:
        one, two = two_stores
        run = new_run("ann", "pears", "coc", "m")
        await one.shared.enqueue(run, b"{}")
        await one.shared.claim([], ["m"])
        trace = await one.new_trace(run.id)
        trace.append({"event": "first"})
        await trace.flush()
        if how == "requeued":
            trace.close()
            await one.shared.enqueue(changed(run, resumed=1))
            await two.shared.claim([], ["m"])
        else:
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE chainofcode.runs SET server = %s", (two.me,))
            trace.append({"event": "not shipped"})
            with pytest.raises(TakenOver):
                await one.keep(changed(run, **FINAL), trace)
            trace.close()
        continued = await two.replace_trace(run.id, [{"event": "first"}, {"event": "second"}])
        for store in two_stores:
            assert b"second" in (await store.local_trace(run.id)).read_bytes()
        continued.append({"event": "third"})
        await two.keep(changed(run, **FINAL), continued)
        for store in two_stores:
            lines = (await store.local_trace(run.id)).read_bytes().splitlines()
            assert [msgspec.json.decode(line)["event"] for line in lines] == ["first", "second", "third"]

    asyncio.run(check())


def test_trace_that_restarts_while_the_old_one_is_copied(two_stores: list[Any]) -> None:
    async def check() -> None:
        one, two = two_stores
        run = new_run("ann", "pears", "coc", "m")
        await one.shared.enqueue(run, b"{}")
        await one.shared.claim([], ["m"])
        trace = await one.new_trace(run.id)
        trace.append({"event": "old"})
        await trace.flush()
        trace.close()
        await one.shared.enqueue(changed(run, resumed=1))
        await two.shared.claim([], ["m"])
        copying = asyncio.create_task(two.local_trace(run.id))
        await asyncio.sleep(0)  # now it waits for the database
        trace = await two.new_trace(run.id)
        trace.append({"event": "new"})
        path = await copying
        lines = path.read_bytes().splitlines()
        assert [msgspec.json.decode(line)["event"] for line in lines] == ["new"]
        await two.keep(changed(run, **FINAL), trace)

    asyncio.run(check())


def test_long_trace_stays_in_the_database_if_object_storage_fails(two_stores: list[Any], tmp_path: Path) -> None:
    async def check() -> None:
        one, two = two_stores
        run = new_run("ann", "pears", "coc", "m")
        await one.keep(run)
        trace = await one.new_trace(run.id)
        trace.append({"event": "x" * 3_000_000})
        (tmp_path / "objects").rmdir()
        (tmp_path / "objects").write_text("a file")
        await one.keep(changed(run, **FINAL), trace)
        assert (await two.run(run.id, "ann")).state == "done"
        paths = [await store.local_trace(run.id) for store in two_stores]
        assert paths[0].read_bytes() == paths[1].read_bytes() and paths[0].stat().st_size > 3_000_000

    asyncio.run(check())


class StuckObjects(DirectoryObjects):
    """Object storage that does not respond until `responds` is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.responds = threading.Event()

    def put(self, key: str, data: bytes) -> None:
        assert self.responds.wait(60)
        super().put(key, data)


def test_object_storage_that_hangs_does_not_stop_the_database(url: str, tmp_path: Path) -> None:
    from chainofcode.server.postgres.postgres_store import PostgresStore

    objects = StuckObjects(tmp_path / "objects")

    async def check(store: Store) -> None:
        runs = [run_of("ann", "pears") for _ in range(20)]
        for run in runs:
            await store.keep(run)
        keeping = [asyncio.create_task(store.keep_artifacts(run.id, {run.id: b"left"})) for run in runs]
        try:
            await asyncio.sleep(1)
            async with asyncio.timeout(20):
                assert await store.run(runs[0].id, "ann") == runs[0]
        finally:
            objects.responds.set()
        await asyncio.gather(*keeping)
        assert (await store.local_artifact(runs[0].id)).read_bytes() == b"left"

    with contextlib.closing(PostgresStore(url, tmp_path / "data", objects)) as store:
        asyncio.run(check(store))


def test_a_queued_run_is_cancelled_without_a_server(two_stores: list[Any]) -> None:
    async def check() -> None:
        one, two = two_stores
        run = new_run("ann", "pears", "coc", "m")
        await one.shared.enqueue(run, b"{}")
        await two.shared.cancel(run.id)
        assert (await one.run(run.id, "ann")).state == "cancelled"
        assert await one.shared.claim([], ["m"]) is None

    asyncio.run(check())


def test_a_run_that_is_cancelled_while_it_is_claimed_stays_cancelled(two_stores: list[Any], url: str) -> None:
    import psycopg

    async def check() -> None:
        one, two = two_stores
        first, second = (new_run("ann", "pears", "coc", "m") for _ in range(2))
        for run in (first, second):
            await one.shared.enqueue(run, b"{}")
        with psycopg.connect(url) as cancelling:
            cancelling.execute("UPDATE chainofcode.runs SET state = 'cancelled' WHERE id = %s", (first.id,))
            claiming = asyncio.create_task(two.shared.claim([], ["m"]))
            sql = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            await until(lambda: cancelling.execute(sql).fetchone() != (0,))
        claimed = await claiming
        assert claimed is not None and claimed.run.id == second.id
        assert (await one.run(first.id, "ann")).state == "cancelled"

    asyncio.run(check())


# --- object storage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_objects(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue("s3") if kind == "s3" else str(tmp_path / "objects")
    objects: ObjectStorage = objects_at(place)
    objects.check()
    for number, data in enumerate((b"", b"a" * 10, os.urandom(9_000_000))):
        objects.put(f"files/{number}", data)
        objects.fetch(f"files/{number}", tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == data
    objects.put("files/1", b"b")
    objects.fetch("files/1", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"b"
    objects.remove("files/1")
    objects.remove("files/1")
    with pytest.raises(FileNotFoundError):
        objects.fetch("files/1", tmp_path / "gone")


@pytest.mark.nightly
def test_object_storage_that_fails(tmp_path: Path, s3: str) -> None:
    with pytest.raises(StorageError, match="object storage: "):
        objects_at("s3://no-such-bucket/x").check()
    place = tmp_path / "objects"
    objects = objects_at(str(place))
    place.rmdir()
    place.write_text("a file")
    with pytest.raises(StorageError):
        objects.put("files/1", b"x")


# --- upgrades -----------------------------------------------------------------------------------------------------


async def keep_before_upgrade(store: Store) -> list[RunRecord]:
    """Runs of an older version, with records that are too large to be read all at once."""
    runs = [run_of("ann", f"pears {number}", "é" * 500_000) for number in range(9)]
    runs[3] = changed(runs[3], method="cot", model=None, created=3.0)
    for run in [*runs, run_of("bob", "plums")]:
        await store.keep(run)
    await store.remove([runs[8].id])
    return runs[:8]


async def check_upgraded(store: Store, runs: list[RunRecord]) -> None:
    assert await store.runs("ann", 50, None) == [RunSummary.of(run) for run in runs[::-1]]
    assert [await store.run(run.id, "ann") for run in runs] == runs
    assert await found(store, "ann", "pears", limit=2, before=runs[2].id) == ["pears 1", "pears 0"]
    assert [run.id for run in await store.runs("ann", 50, None, RunFilter(method="cot", until=4.0))] == [runs[3].id]
    newest = run_of("ann", "the newest")
    await store.keep(newest)
    assert [run.id for run in await store.runs("ann", 1, None)] == [newest.id]


@pytest.mark.parametrize("has_words", [True, False])
def test_older_sqlite_databases_are_upgraded(tmp_path: Path, has_words: bool) -> None:
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        runs = asyncio.run(keep_before_upgrade(store))
    write_as_older_version(tmp_path / "runs.sqlite", has_words=has_words)
    for _ in range(2):
        with contextlib.closing(SQLiteStore(tmp_path)) as store:
            asyncio.run(check_upgraded(store, runs))
            (newest,) = asyncio.run(store.runs("ann", 1, None))
            asyncio.run(store.remove([newest.id]))


def test_upgrade_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        runs = asyncio.run(keep_before_upgrade(store))
    write_as_older_version(tmp_path / "runs.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as database:
        database.execute("UPDATE runs SET record = '{' WHERE id = ?", (runs[7].id,))
        with pytest.raises(msgspec.DecodeError):
            sqlite_runs.upgrade(database)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as database:
        assert database.execute("SELECT count(*) FROM runs WHERE record IS NOT NULL").fetchone() == (9,)
        database.execute("UPDATE runs SET record = ? WHERE id = ?", (as_json(runs[7]), runs[7].id))
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        asyncio.run(check_upgraded(store, runs))


@pytest.mark.parametrize("when", ["before the start", "while the server runs"])
def test_older_postgres_databases_are_upgraded(tmp_path: Path, postgres: PostgresServer, when: str) -> None:
    """An older server may write runs to a database that a newer one has upgraded: their summaries are missing."""
    import psycopg

    from chainofcode.server.postgres.postgres_store import PostgresStore

    url, objects = postgres.database(), objects_at(str(tmp_path / "objects"))
    with contextlib.closing(PostgresStore(url, tmp_path / "first", objects)) as store:
        runs = asyncio.run(keep_before_upgrade(store))
    if when == "before the start":
        write_as_version_2(url)
    with contextlib.closing(PostgresStore(url, tmp_path / "second", objects)) as store:
        if when == "while the server runs":
            with psycopg.connect(url) as database:
                database.execute("UPDATE chainofcode.runs SET summary = NULL")
        asyncio.run(check_upgraded(store, runs))
