"""Clients that read slowly or not at all: long lines arrive whole, memory stays bounded, and connections end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.server.outgoing import Outgoing
from chainofcode.server.refusal import Refusal
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import new_run
from chainofcode.server.trace_files import TraceWriter
from chainofcode.server.trace_reader import Line, LongLine, TraceReader

SIZES = (10, 65_000, 65_536, 200_000, 3, 3_000_000, 5)


def events_of(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"event": "step", "line": number, "value": "ä" * size} for number, size in enumerate(sizes)]


def write(path: Path, events: list[dict[str, Any]]) -> None:
    writer = TraceWriter(path)
    for event in events:
        writer.append(event)
    writer.close()


def data_of(line: Line) -> Any:
    return json.loads(line if isinstance(line, bytes) else b"".join(line.event_pieces()))


async def read(reader: TraceReader) -> list[Any]:
    """All events that are there, without their digests."""
    found = []
    while lines := await reader.batch():
        for line in lines:
            data = data_of(line)
            data.pop("chain", None)
            found.append(data)
    return found


# --- reading a trace ----------------------------------------------------------------------------------------------


def test_long_lines_are_read_whole_in_pieces(tmp_path: Path) -> None:
    async def check() -> None:
        write(tmp_path / "t.jsonl", events_of(SIZES))
        with contextlib.closing(TraceReader(tmp_path / "t.jsonl")) as reader:
            assert await read(reader) == events_of(SIZES)
        with contextlib.closing(TraceReader(tmp_path / "t.jsonl")) as reader:
            copy = b""
            while lines := await reader.batch():
                for line in lines:
                    pieces = list(line.pieces()) if isinstance(line, LongLine) else [line]
                    assert max(map(len, pieces)) <= 65_536
                    copy += b"".join(pieces) + b"\n"
        assert copy == (tmp_path / "t.jsonl").read_bytes()

    asyncio.run(check())


def test_long_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    async def check() -> None:
        write(tmp_path / "whole.jsonl", events_of((3_000_000, 4)))
        whole, path = (tmp_path / "whole.jsonl").read_bytes(), tmp_path / "t.jsonl"
        path.write_bytes(b"")
        with contextlib.closing(TraceReader(path)) as reader:
            for start in range(0, len(whole), 777_777):
                assert await read(reader) == []
                with path.open("ab") as file:
                    file.write(whole[start : start + 777_777])
            assert await read(reader) == events_of((3_000_000, 4))
            assert await read(reader) == []

    asyncio.run(check())


def test_reading_continues_after_a_long_line_in_a_replaced_trace(tmp_path: Path) -> None:
    async def check() -> None:
        path = tmp_path / "t.jsonl"
        write(path, events_of(SIZES[:-1]))
        with contextlib.closing(TraceReader(path)) as reader:
            assert len(await read(reader)) == len(SIZES) - 1
            TraceWriter.replacing(path, events_of(SIZES)).close()
            assert await read(reader) == events_of(SIZES)[-1:]

    asyncio.run(check())


def test_line_that_is_cut_off_while_it_is_sent_is_an_error(tmp_path: Path) -> None:
    async def check() -> None:
        path = tmp_path / "t.jsonl"
        write(path, events_of((3_000_000,)))
        with contextlib.closing(TraceReader(path)) as reader:
            (line,) = await reader.batch()
            assert isinstance(line, LongLine)
            path.write_bytes(b"")
            with pytest.raises(Refusal, match="cut off"):
                list(line.pieces())

    asyncio.run(check())


# --- a server -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def with_trace(directory: Path, events: list[dict[str, Any]]) -> Iterator[tuple[Serving, str]]:
    """A server with a finished run that has these events."""
    run = msgspec.structs.replace(new_run("", "Long?", "run", None), state="done", reason="answered", answer="1")
    with contextlib.closing(SQLiteStore(directory / "data")) as store:
        write(store.trace_path(run.id), events)
        asyncio.run(store.keep(run))
    with served(directory, "--rate", "100000") as server:
        yield server, run.id


def test_streams_and_downloads_have_long_lines(tmp_path: Path) -> None:
    with with_trace(tmp_path, events_of(SIZES)) as (server, id):
        *streamed, end = server.events(id)
        assert [event["data"] for event in streamed] == events_of(SIZES)
        assert [event["id"] for event in streamed] == list(range(len(SIZES)))
        assert end["event"] == "end"
        rest = server.events(id, last=4)
        assert [event["data"]["line"] for event in rest[:-1]] == [5, 6]
        path = server.directory / "data" / "traces" / f"{id}.jsonl"
        assert server.client.get(f"/api/runs/{id}/trace").content == path.read_bytes()


def unread(server: Serving, path: str) -> socket.socket:
    """A request whose reply is not read."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect((host, int(port)))
    wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return wire


def resident_bytes(server: Serving) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def open_streams(server: Serving) -> int:
    lines = server.client.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("coc_streams ")).split()[1]))


@pytest.mark.alone
def test_idle_readers_are_disconnected_and_leave_no_memory(tmp_path: Path) -> None:
    long = {"event": "step", "line": 1, "value": "x" * 30_000_000}
    with with_trace(tmp_path, [long, long]) as (server, id), contextlib.ExitStack() as stack:
        server.events(id)
        at_rest = resident_bytes(server)
        for _ in range(100):
            stack.enter_context(unread(server, f"/api/runs/{id}/events"))
        time.sleep(5)
        assert open_streams(server) == 100
        assert resident_bytes(server) - at_rest < 60 * 1024**2
        deadline = time.monotonic() + 50
        while open_streams(server) and time.monotonic() < deadline:
            time.sleep(1)
        assert open_streams(server) == 0, "clients that do not read are disconnected"
        assert resident_bytes(server) - at_rest < 60 * 1024**2


def test_streams_are_bounded_by_token() -> None:
    async def send(message: Any) -> None: ...

    async def refuse(refusal: Refusal) -> None: ...

    def open_all(outgoing: Outgoing, owner: str) -> int:
        count = 0
        with contextlib.suppress(Refusal):
            while True:
                stack.enter_context(outgoing.response(owner, send, refuse))
                count += 1
        return count

    with contextlib.ExitStack() as stack:
        shared = Outgoing({"mallory", "ann"})
        assert (open_all(shared, "mallory"), open_all(shared, "ann")) == (800, 400)
        assert open_all(Outgoing(set()), "") == 1600
        assert open_all(Outgoing({"ann"}), "ann") == 1600


def test_unread_responses_are_bounded_by_token() -> None:
    """The response that exceeds the bound is replaced by a refusal; another token, and small ones, are not affected."""
    stuck, refusals, sent = asyncio.Event(), list[str](), list[str]()

    async def send(message: Any) -> None:
        if len(message.get("body", b"")) > 10_000:
            await stuck.wait()
        sent.append(message["type"])

    async def refuse(refusal: Refusal) -> None:
        refusals.append(refusal.kind)

    async def respond(outgoing: Outgoing, owner: str, size: int) -> None:
        with outgoing.response(owner, send, refuse) as sender:
            headers = [(b"content-length", str(size).encode())]
            await sender({"type": "http.response.start", "status": 200, "headers": headers})
            await sender({"type": "http.response.body", "body": bytes(size)})

    async def check() -> None:
        outgoing = Outgoing({"mallory", "ann"})
        large = [asyncio.create_task(respond(outgoing, "mallory", 30 * 1024**2)) for _ in range(6)]
        await asyncio.sleep(0.1)
        assert refusals == ["busy", "busy"]
        await respond(outgoing, "mallory", 1000)
        waiting = asyncio.create_task(respond(outgoing, "ann", 30 * 1024**2))
        stuck.set()
        await asyncio.gather(*large, waiting)
        assert refusals == ["busy", "busy"] and sent.count("http.response.start") == 6
        await respond(outgoing, "mallory", 100 * 1024**2)  # what was sent no longer counts
        assert refusals == ["busy", "busy"]

    asyncio.run(check())
