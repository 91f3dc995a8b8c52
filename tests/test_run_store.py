"""The SQLite store of `coc serve`: searches, full disks, traces that a killed server left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import sqlite3
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from serving import FRUIT, Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.server import search_index
from chainofcode.server.refusal import Refusal, StorageError
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import RunFilter, RunRecord, Store, new_run
from chainofcode.server.trace_files import TraceWriter, remove_partial_line
from chainofcode.server.trace_reader import TraceReader


def with_store(directory: Path, use: Callable[[SQLiteStore], Coroutine[Any, Any, Any]]) -> Any:
    with contextlib.closing(SQLiteStore(directory)) as store:
        return asyncio.run(use(store))


def run_of(owner: str, question: str, answer: str | None = None) -> RunRecord:
    return msgspec.structs.replace(new_run(owner, question, "coc", "m"), state="done", answer=answer)


async def found(store: Store, owner: str, *words: str, limit: int = 50, before: str | None = None) -> list[str]:
    return [run.question or "" for run in await store.runs(owner, limit, before, RunFilter(words))]


# --- search -------------------------------------------------------------------------------------------------------

QUESTIONS = [
    "Apples and PEARS",
    "pears alone",
    "naïve straße",
    "日本語のテキスト",
    'say "no" to AND OR NEAR(',
    "a\0b tail",
    "x",
]
SEARCHES = [
    ["pear"], ["PEARS", "apple"], ["STRASSE"], ["日本語"], ["本"], ['"no"'], ["near("], ["and"], ["x"], ["*"], ["a:b"],
    ["tail"], ["'; drop table runs"], ["pear", "zzz"], ["\ud800"], ["done"], ["coc", "m"], ["^ap"], ["-pears"], ["{}"],
]  # fmt: skip


@pytest.mark.parametrize("has_index", [True, False])
def test_searches_find_all_words_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_index: bool) -> None:
    if not has_index:
        monkeypatch.setattr(search_index, "_has_trigrams", lambda database: False)

    async def use(store: SQLiteStore) -> None:
        assert store._has_index is has_index
        for question in QUESTIONS:
            await store.keep(run_of("ann", question))
            await store.keep(run_of("bob", f"{question} of bob"))
        for words in SEARCHES:
            folded = [search_index.searched(word) for word in words]
            texts = {question: search_index.searched(f"{question}\ncoc\nm\ndone") for question in QUESTIONS}
            expected = [question for question, text in texts.items() if all(word in text for word in folded)]
            assert await found(store, "ann", *words) == expected[::-1], words
        assert await found(store, "eve", "pears") == []

    with_store(tmp_path, use)


def test_searches_are_paged_and_forget_removed_runs(tmp_path: Path) -> None:
    async def use(store: SQLiteStore) -> None:
        runs = [run_of("ann", f"pears {number}") for number in range(9)]
        for run in runs:
            await store.keep(run)
        assert await found(store, "ann", "pears", limit=2) == ["pears 8", "pears 7"]
        assert await found(store, "ann", "pears", limit=2, before=runs[7].id) == ["pears 6", "pears 5"]
        assert await found(store, "bob", "pears", before=runs[7].id) == []
        await store.remove([runs[5].id])
        await store.keep(msgspec.structs.replace(runs[6], question="plums"))
        assert await found(store, "ann", "pears", limit=3) == ["pears 8", "pears 7", "pears 4"]
        assert await found(store, "ann", "plums") == ["plums"]
        await store._do(lambda database: database.execute("INSERT INTO search (search) VALUES ('integrity-check')"))

    with_store(tmp_path, use)


def test_older_databases_and_those_without_an_index_are_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep(store: SQLiteStore) -> None:
        await store.keep(run_of("ann", "pears at first"))

    async def keep_more(store: SQLiteStore) -> list[str]:
        await store.keep(run_of("ann", "pears without an index"))
        return await found(store, "ann", "pears")

    async def look(store: SQLiteStore) -> list[str]:
        assert store._has_index
        return await found(store, "ann", "pears")

    with_store(tmp_path, keep)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as database:  # as in an older version
        for name in search_index._TRIGGERS:
            database.execute(f"DROP TRIGGER {name}")
        database.executescript("DROP TABLE search; DROP VIEW searchable; DROP TABLE owners")
    assert with_store(tmp_path, look) == ["pears at first"]
    with monkeypatch.context() as patch:
        patch.setattr(search_index, "_has_trigrams", lambda database: False)
        assert with_store(tmp_path, keep_more) == ["pears without an index", "pears at first"]
    assert with_store(tmp_path, look) == ["pears without an index", "pears at first"]


def test_search_for_rare_words_uses_the_index(tmp_path: Path) -> None:
    """A search for fewer than three letters scans all runs; a longer one is much faster."""
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefgh", k=9)) for _ in range(500)]

    def fill(database: sqlite3.Connection) -> None:
        rows = (
            (f"{number:024x}", "ann", "done", "coc", 0.0, b"{}", " ".join(dice.choices(words, k=12)))
            for number in range(20_000)
        )
        columns = "id, owner, state, method, created, summary, words"
        database.executemany(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    async def use(store: SQLiteStore) -> tuple[float, float]:
        await store._do(fill)
        await store.keep(run_of("ann", "the needle"))
        seconds = []
        for text in ("needle", "qq"):  # two letters: too short for the index
            started = time.process_time()
            await store.runs("ann", 50, None, RunFilter((text,)))
            seconds.append(time.process_time() - started)
        return seconds[0], seconds[1]

    indexed, scanned = with_store(tmp_path, use)
    assert indexed < scanned / 3


def test_a_search_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainofcode.server.sqlite_store.SEARCH_SECONDS", 0.0)
    monkeypatch.setattr("chainofcode.server.readers._OPERATIONS", 1)

    async def use(store: SQLiteStore) -> None:
        await store.keep(run_of("ann", "pears"))
        with pytest.raises(Refusal, match="the search took too long: use longer words"):
            await store.runs("ann", 50, None, RunFilter(("zz",)))
        assert len(await store.runs("ann", 50, None)) == 1  # a list without a search has no limit

    with_store(tmp_path, use)


# --- a full disk --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    place = tmp_path / "data"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(disk: Path) -> Path:
    """Fill the disk with a file; return its path."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def all_files(disk: Path) -> list[str]:
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.parent != disk)


def refused(server: Serving, method: str, path: str, **more: Any) -> None:
    reply = server.client.request(method, path, **more)
    assert (reply.status_code, reply.json()["error"]["type"]) == (503, "storage"), reply.text


def test_full_disk_refuses_writes_but_lets_runs_be_removed(tmp_path: Path, small_disk: Path) -> None:
    with served(tmp_path) as server:
        ids = [server.begin() for _ in range(4)]
        for id in ids:
            server.over(id)
        filled(small_disk)
        before = all_files(small_disk)
        for size in (10, 100_000, 1_000_000):
            refused(server, "POST", "/api/files", params={"name": "a.csv"}, content=bytes(size))
        refused(server, "POST", "/api/runs", json={"question": FRUIT})
        assert all_files(small_disk) == before
        assert [server.run(id)["state"] for id in ids] == ["done"] * 4
        assert len(server.client.get("/api/runs", params={"q": "fruit"}).json()["runs"]) == 4
        for id in ids:
            assert server.client.delete(f"/api/runs/{id}").status_code == 204
        assert all_files(small_disk) == []
        (small_disk / "filler").unlink()
        assert server.over(server.begin())["answer"] == "1"  # without a restart
        assert server.client.get("/readyz").status_code == 200
        assert server.client.post("/api/files", params={"name": "a.csv"}, content=bytes(1000)).status_code == 201


def test_upload_that_fills_the_disk_is_removed(tmp_path: Path, small_disk: Path) -> None:
    """The disk is full only during the upload: the server needs no restart."""
    with served(tmp_path) as server:
        for _ in range(5):
            refused(server, "POST", "/api/files", params={"name": "a.csv"}, content=bytes(3_000_000))
            assert all_files(small_disk) == []
            assert server.over(server.begin())["answer"] == "1"
            for run in server.client.get("/api/runs").json()["runs"]:
                assert server.client.delete(f"/api/runs/{run['id']}").status_code == 204


def test_a_failed_write_is_undone_and_the_others_are_kept(tmp_path: Path) -> None:
    async def use(store: SQLiteStore) -> None:
        def half(database: sqlite3.Connection) -> None:
            database.execute("INSERT INTO alive VALUES (1, 0.5)")
            raise OSError(28, "No space left on device")

        kept = run_of("ann", "pears")
        outcomes = await asyncio.gather(
            store.keep(kept), store._do(half), store.keep(run_of("ann", "plums")), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), StorageError, type(None)]
        assert await found(store, "ann") == ["plums", "pears"]
        assert await store._lookups.do(lambda database: database.execute("SELECT * FROM alive").fetchall()) == []

    with_store(tmp_path, use)


def test_artifacts_that_cannot_be_kept_leave_nothing(tmp_path: Path, small_disk: Path) -> None:
    async def use(store: SQLiteStore) -> None:
        await store.keep_artifacts("one", {"a" * 64: b"x"})
        with pytest.raises(StorageError):
            await store.keep_artifacts("two", {"a" * 64: b"x", "b" * 64: bytes(3_000_000), "c" * 64: b"x"})
        assert os.listdir(small_disk / "artifacts") == ["a" * 64]
        await store.remove(["two"])
        assert os.listdir(small_disk / "artifacts") == ["a" * 64]

    with_store(small_disk, use)


# --- traces -------------------------------------------------------------------------------------------------------


def test_partly_written_line_is_removed(tmp_path: Path) -> None:

    writer = TraceWriter(tmp_path / "t.jsonl")
    writer.append({"a": 1})
    whole = (tmp_path / "t.jsonl").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 50, limits[1]))
    try:
        with pytest.raises(StorageError):
            writer.append({"b": "x" * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "t.jsonl").read_bytes() == whole
    writer.append({"c": 2})
    writer.close()
    assert (tmp_path / "t.jsonl").read_bytes().startswith(whole + b'{"c":2')


def test_partial_line_of_a_killed_server_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for left, kept in ((b'{"a":1}\n{"b"', b'{"a":1}\n'), (b'{"a":1}\n', b'{"a":1}\n'), (b'{"a"', b""), (b"", b"")):
        path.write_bytes(left)
        remove_partial_line(path)
        assert path.read_bytes() == kept
    remove_partial_line(tmp_path / "none.jsonl")

    async def keep(store: SQLiteStore) -> str:
        run = new_run("ann", "pears", "coc", "m")
        await store.keep(run)
        store.trace_path(run.id).write_bytes(b'{"a":1}\n{"b"')
        return run.id

    async def look(store: SQLiteStore) -> bytes:
        return store.trace_path(id).read_bytes()

    id: str = with_store(tmp_path / "data", keep)
    assert with_store(tmp_path / "data", look) == b'{"a":1}\n'


def test_partial_line_is_not_read_until_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    reader = TraceReader(path)
    assert asyncio.run(reader.batch()) == []
    for written, read in ((b'{"a":1}\n{"b"', [b'{"a":1}']), (b":", []), (b"2}\n", [b'{"b":2}']), (b"", [])):
        with path.open("ab") as file:
            file.write(written)
        assert asyncio.run(reader.batch()) == read
    reader.close()
