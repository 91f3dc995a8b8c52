"""`coc serve` removes runs on request or after `--keep` days, and stays consistent if it is killed meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import has_tier
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.server import removal
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import RunRecord, StoredFile, new_file
from chainofcode.server.trace_files import TraceWriter

SOON = "0.00003"  # days: 2.6 seconds


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def finished_run(server: Serving, program: str = "answer = 1", **more: Any) -> str:
    reply = server.client.post("/api/runs", json={"program": program, **more})
    assert reply.status_code == 202, reply.text
    server.over(reply.json()["id"])
    return str(reply.json()["id"])


def names(server: Serving, part: str) -> set[str]:
    return {path.name for path in (server.directory / "data" / part).iterdir()}


def test_a_run_is_removed(tmp_path: Path) -> None:
    with served(tmp_path, "--runs", "1", "--token", "ann=" + "a" * 20, "--token", "b" * 20, token="b" * 20) as server:
        first, second = finished_run(server), finished_run(server)
        ann = {"authorization": "Bearer " + "a" * 20}
        assert server.client.delete(f"/api/runs/{first}", headers=ann).status_code == 404
        reply = server.client.delete(f"/api/runs/{first}")
        assert (reply.status_code, reply.content) == (204, b"")
        for path in ("", "/events", "/trace", "/why", "/verify"):
            assert server.client.get(f"/api/runs/{first}{path}").status_code == 404
        assert server.client.delete(f"/api/runs/{first}").status_code == 404
        assert [run["id"] for run in server.client.get("/api/runs").json()["runs"]] == [second]
        assert names(server, "traces") == {f"{second}.jsonl"}
        running, queued = server.begin("Sleep"), server.begin()
        server.until(running, "running")
        for id in (running, queued):
            refused = server.client.delete(f"/api/runs/{id}")
            assert (refused.status_code, refused.json()["error"]["type"]) == (409, "not_over")
        for id in (running, queued):
            server.client.post(f"/api/runs/{id}/cancel")
            assert server.client.delete(f"/api/runs/{id}").status_code == 204
        assert names(server, "traces") == {f"{second}.jsonl"}


def test_artifacts_are_removed_with_the_last_run_that_has_them(tmp_path: Path) -> None:
    if not has_tier("A"):
        pytest.skip("a scratch directory needs tier A")
    with served(tmp_path, "--scratch") as server:
        own = "open('a', 'w').write('shared')\nopen('b', 'w').write('{}')\nanswer = 1"
        ids = [finished_run(server, own.format(number)) for number in range(2)]
        kept = [{file["name"]: file["sha256"] for file in server.run(id)["artifacts"]} for id in ids]
        assert kept[0]["a"] == kept[1]["a"] and kept[0]["b"] != kept[1]["b"]
        assert len(names(server, "artifacts")) == 3
        assert server.client.delete(f"/api/runs/{ids[0]}").status_code == 204
        assert names(server, "artifacts") == set(kept[1].values())
        assert server.client.get(f"/api/runs/{ids[1]}/artifacts/{kept[1]['a']}").content == b"shared"
        assert server.client.delete(f"/api/runs/{ids[1]}").status_code == 204
        assert names(server, "artifacts") == set()


@pytest.mark.nightly
def test_old_runs_and_files_are_removed(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        old = finished_run(server)
    time.sleep(3)
    with served(tmp_path, "--keep", SOON) as server:
        until(lambda: server.client.get(f"/api/runs/{old}").status_code == 404)  # older than this server
        files = [upload(server, name) for name in ("used.csv", "unused.csv")]
        running = server.client.post("/api/runs", json={"question": "Sleep", "files": [files[0]]}).json()["id"]
        assert server.run(running)["files"] == [files[0]]
        done = server.client.post("/api/runs", json={"program": "answer = 1"}).json()["id"]
        until(lambda: server.client.get(f"/api/runs/{done}").status_code == 404)
        until(lambda: names(server, "files") == {files[0]})
        assert server.run(running)["state"] == "running"  # as old, but not finished
        again = server.client.post("/api/runs", json={"question": "x", "files": [files[1]]})
        assert again.status_code == 404
        server.client.post(f"/api/runs/{running}/cancel")
        until(lambda: not names(server, "files") and not names(server, "traces"))
        assert any(line["event"] == "runs removed" and line["runs"] for line in server.log)


@pytest.mark.nightly
def test_failed_removal_is_retried(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        id = finished_run(server)
    database = sqlite3.connect(tmp_path / "data" / "runs.sqlite", isolation_level=None)
    with contextlib.closing(database):
        database.execute("CREATE TRIGGER broken BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'broken'); END")
        with served(tmp_path, "--keep", SOON) as server:
            until(lambda: any(line["event"] == "removal failed" for line in server.log))
            database.execute("DROP TRIGGER broken")
            until(lambda: server.client.get(f"/api/runs/{id}").status_code == 404)


def upload(server: Serving, name: str) -> str:
    reply = server.client.post("/api/files", params={"name": name}, content=b"n\n1\n")
    assert reply.status_code == 201
    return str(reply.json()["id"])


def test_only_old_files_are_removed_and_only_with_keep(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        id, file = finished_run(server), upload(server, "a.csv")
    with sqlite3.connect(tmp_path / "data" / "runs.sqlite") as database:
        database.execute("UPDATE files SET created = 1")
    database.close()
    for options in ((), ("--keep", "1")):
        with served(tmp_path, *options) as server:
            if options:
                until(lambda server=server: not names(server, "files"))  # type: ignore[misc]
            else:
                time.sleep(1)
                assert names(server, "files") == {file}
            assert server.run(id)["answer"] == "1"
            assert server.client.get(f"/api/runs/{id}/trace").status_code == 200


@pytest.mark.parametrize("days", ["0", "-1", "nan", "inf"])
def test_invalid_days_are_refused(tmp_path: Path, days: str) -> None:
    with pytest.raises(AssertionError, match="--keep must be a number of days"):
        Serving(tmp_path, f"--keep={days}")


def test_kill_during_removal_leaves_files_and_database_consistent(tmp_path: Path) -> None:
    with served(tmp_path, "--rate", "100000") as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: finished_run(server), range(24)))
        gone = []

        def remove(id: str) -> None:
            with contextlib.suppress(httpx.TransportError):
                if server.client.delete(f"/api/runs/{id}").status_code == 204:
                    gone.append(id)

        removing = [pool.submit(remove, id) for id in ids]
        until(lambda: len(gone) > 4)
        server.stop(signal.SIGKILL)
        concurrent.futures.wait(removing)
    with served(tmp_path, "--rate", "100000") as server:
        left = {run["id"] for run in server.client.get("/api/runs", params={"limit": 200}).json()["runs"]}
        assert not left & set(gone)
        assert names(server, "traces") == {f"{id}.jsonl" for id in left}
        for id in left:
            assert server.client.get(f"/api/runs/{id}/verify").status_code == 200


def digest_of(data: bytes) -> str:
    return new_file("a", data).sha256


def run_of(id: str, store: SQLiteStore, *artifacts: bytes, files: list[str] | None = None) -> RunRecord:
    digests = [{"name": "a", "bytes": len(data), "sha256": digest_of(data)} for data in artifacts]
    trace = TraceWriter(store.trace_path(id))
    trace.append({"event": "trace"})
    trace.close()
    asyncio.run(store.keep_artifacts(id, {digest_of(data): data for data in artifacts}))
    return RunRecord(id, "done", None, "run", None, 1.0, artifacts=digests, files=files or [])


def parts(directory: Path) -> dict[str, set[str]]:
    return {part: {path.name for path in (directory / part).iterdir()} for part in ("traces", "artifacts", "files")}


def test_orphaned_files_are_removed_at_the_start(tmp_path: Path) -> None:
    """A kill can leave files whose rows were deleted, and files whose rows were never written."""
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        for id, own in (("kept", b"1"), ("gone", b"2")):
            asyncio.run(store.keep(run_of(id, store, own, b"both")))
        asyncio.run(store.keep_file(StoredFile("f1", "a", 1, "x"), "", b"1"))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as database:
        assert sorted(removal.forget(database, ["gone"])) == sorted(map(digest_of, (b"2", b"both")))
    (tmp_path / "artifacts" / "1234.partial").write_bytes(b"half")
    (tmp_path / "files" / "f2").mkdir()
    (tmp_path / "files" / "f2" / "b").write_bytes(b"never told")
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        assert asyncio.run(store.run("gone", "")) is None
        wanted = {"traces": {"kept.jsonl"}, "artifacts": {digest_of(b"1"), digest_of(b"both")}, "files": {"f1"}}
        assert parts(tmp_path) == wanted


def test_files_next_to_a_new_database_are_kept(tmp_path: Path) -> None:
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        asyncio.run(store.keep(run_of("r", store, b"1")))
    for path in tmp_path.glob("runs.sqlite*"):
        path.unlink()
    before = parts(tmp_path)
    for _ in range(2):
        with contextlib.closing(SQLiteStore(tmp_path)):
            assert parts(tmp_path) == before and before["traces"]


def test_older_database_is_migrated_with_its_files(tmp_path: Path) -> None:
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        asyncio.run(store.keep(run_of("r", store, b"1")))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as database:
        for statement in ("DROP TABLE artifacts", "DROP TABLE uses", "DROP TABLE files", "PRAGMA user_version = 0"):
            database.execute(statement)
        database.execute(
            "CREATE TABLE files (id TEXT PRIMARY KEY, owner TEXT, name TEXT, bytes INTEGER, sha256 TEXT NOT NULL)"
        )
        database.execute("INSERT INTO files VALUES ('f', '', 'a', 1, 'x')")
    (tmp_path / "files" / "f").mkdir()
    for _ in range(2):  # the second start removes orphaned files
        with contextlib.closing(SQLiteStore(tmp_path)) as store:
            assert parts(tmp_path) == {"traces": {"r.jsonl"}, "artifacts": {digest_of(b"1")}, "files": {"f"}}
            assert asyncio.run(store.remove_before(0.5)) == 0
    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        assert asyncio.run(store.remove_before(2.0)) == 1
        assert parts(tmp_path) == {"traces": set(), "artifacts": set(), "files": {"f"}}
