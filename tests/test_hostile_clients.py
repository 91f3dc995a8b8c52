"""`coc serve` and hostile or faulty clients: none of them affects other clients."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from endpoint import serving
from serving import FRUIT, Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.errors import SandboxError
from chainofcode.server.intake import Intake
from chainofcode.server.metrics import LibraryLog, ServerLog
from chainofcode.server.quotas import Ledger
from chainofcode.server.run_kinds import Models, RunRequest, source_of
from chainofcode.server.runs import Runs
from chainofcode.server.settings import MAX_FILES_BYTES, ServerSettings
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import Store, StoredFile, new_run
from chainofcode.server.telemetry import Telemetry

TOKEN, OTHER = "a-secret-of-many-letters", "another-secret-of-letters"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("server"), "--rate", "100000", "--runs", "4") as server:
        yield server


def test_lone_surrogates_and_later_records_are_stored(tmp_path: Path) -> None:
    """Models and programs produce lone surrogates, which JSON cannot represent."""
    reply = {"choices": [{"message": {"content": "So the answer is 7."}}], "usage": {"prompt_tokens": 70}}
    with serving(reply) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        with served(tmp_path, "--budget", "tokens=70", model="openai:m") as server:
            body = {"program": "answer = '\\ud83c' + 'x'"}
            half = str(server.client.post("/api/runs", json=body).json()["id"])
            assert server.over(half)["state"] == "done"
            time.sleep(1.5)  # the server retries each second what it could not store
            server.over(server.begin("Seven?", method="direct"))
            time.sleep(1.5)
            server.process.kill()
            server.process.wait()
        with served(tmp_path, "--budget", "tokens=70", model="openai:m") as server:
            assert (server.run(half)["state"], server.run(half)["answer"]) == ("done", "\\ud83cx")
            spent = server.client.post("/api/runs", json={"question": "Seven?"})
            assert (spent.status_code, spent.json()["error"]["type"]) == (429, "insufficient_quota")


def test_tokens_of_a_model_without_a_price_count(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"content": "So the answer is 7."}}], "usage": {"prompt_tokens": 70}}
    with serving(reply) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        with served(tmp_path, "--budget", "tokens=70", "--budget", "money=9", model="openai:m") as server:
            server.over(server.begin("Seven?", method="direct"))
            again = server.client.post("/api/runs", json={"question": "Seven?"})
            assert (again.status_code, again.json()["error"]["type"]) == (429, "insufficient_quota")


def test_guesses_at_tokens_are_limited(tmp_path: Path) -> None:
    with served(tmp_path, "--rate", "20", "--token", TOKEN, token=TOKEN) as server:
        wrong = {"authorization": f"Bearer {OTHER}"}
        guesses = [httpx.get(f"{server.url}/api/info", headers=wrong).status_code for _ in range(40)]
        assert (guesses[0], guesses[-1]) == (401, 429)
        assert server.client.get("/api/info").status_code == 200


def test_page_loads_do_not_use_the_rate_limit_of_a_token(tmp_path: Path) -> None:
    with served(tmp_path, "--rate", "20", "--token", TOKEN, token=TOKEN) as server:
        strangers = [httpx.get(f"{server.url}/static/app.js").status_code for _ in range(30)]
        assert strangers[-1] == 429
        assert server.client.get("/api/info").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": FRUIT}], "response_format": {"type": []}}),
        ("/v1/responses", {"input": FRUIT, "text": {"format": "json_object"}}),
        ("/v1/responses", {"input": FRUIT, "text": {"format": {"type": {}}}}),
        ("/v1/responses", {"input": FRUIT, "text": {"format": {"type": "json_schema"}}}),
    ],
)
def test_invalid_response_formats(server: Serving, path: str, body: dict[str, object]) -> None:
    reply = server.client.post(path, json={"model": "coc", **body})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("part", ['"inputs": {"x": 1e999999}', '"values": [{"call": "f(1)", "value": 1e999999}]'])
def test_numbers_out_of_range_are_refused(server: Serving, part: str) -> None:
    body = f'{{"program": "answer = 1", {part}}}'
    reply = server.client.post("/api/runs", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "part",
    [b'"inputs": {"x": "\xff"}', b'"inputs": {"x": {"\xff": 1}}', b'"values": [{"call": "f(1)", "value": "\xff"}]'],
)
def test_text_that_is_not_utf8(server: Serving, part: bytes) -> None:
    body = b'{"program": "answer = 1", %s}' % part
    reply = server.client.post("/api/runs", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request")


def connected(server: Serving) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.nightly  # the server waits for half a minute
def test_slow_body_times_out(server: Serving) -> None:
    """A byte from time to time does not extend the timeout."""
    with connected(server) as wire:
        head = "POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 90\r\n"
        wire.sendall(f"{head}\r\n".encode())
        wire.settimeout(5)
        for _ in range(8):
            wire.sendall(b" ")
            try:
                reply = wire.recv(4096)
            except TimeoutError:
                continue
            break
        else:
            reply = b""
    assert reply.startswith(b"HTTP/1.1 408 ")


@pytest.mark.nightly
def test_concurrent_bodies_are_bounded_together(tmp_path: Path) -> None:
    """Each body is allowed, but all together would exhaust the memory."""
    with served(tmp_path, "--token", TOKEN, "--token", f"ann={OTHER}", token=TOKEN) as server:
        sender = {"authorization": f"Bearer {TOKEN}", "host": "localhost", "content-length": str(32 * 1024**2)}
        head = "\r\n".join(["POST /api/files?name=a HTTP/1.1", *map(": ".join, sender.items())])
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(connected(server)) for _ in range(6)]
            for wire in wires:
                with contextlib.suppress(ConnectionError):
                    wire.sendall(f"{head}\r\n\r\n".encode() + bytes(30 * 1024**2))
            for wire in wires:
                wire.settimeout(1)
            assert sorted(map(status_of, wires)) == [0, 0, 0, 0, 503, 503]
            ann = {"authorization": f"Bearer {OTHER}"}
            assert server.client.post("/api/files?name=a", content=b"x", headers=ann).status_code == 201
        time.sleep(1)
        assert server.client.post("/api/files?name=a", content=bytes(32 * 1024**2)).status_code == 201


def status_of(wire: socket.socket) -> int:
    """The status of the reply, or 0 without one."""
    try:
        return int(wire.recv(4096)[9:12])
    except TimeoutError:
        return 0
    except ConnectionError:  # the server hung up during the request
        return 503


@pytest.mark.parametrize("path", ["/api/runs", "/api/files?name=a", "/v1/chat/completions", "/mcp"])
def test_disconnect_during_a_body_is_not_a_server_error(server: Serving, path: str) -> None:
    before, route = len(server.log), path.partition("?")[0]
    with connected(server) as wire:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 90"
        wire.sendall(f"{head}\r\n\r\n{{".encode())
        time.sleep(0.3)
    deadline = time.monotonic() + 20
    while not (lines := [line for line in server.log[before:] if line.get("route") == route]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [(line["event"], line["status"]) for line in lines] == [("request", 400)]


@pytest.mark.parametrize("path", ["/api/runs", "/healthz", "/v1/responses"])
@pytest.mark.parametrize("length", ["5", "0", "90"])
def test_two_lengths_of_a_body_end_the_connection(server: Serving, path: str, length: str) -> None:
    """A proxy may use the other length: then what follows is a request of another client."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    smuggled = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(server) as wire:
        wire.sendall(f"{head}content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        wire.sendall(b"0\r\n\r\n" + smuggled)
        wire.settimeout(5)
        reply = b"".join(iter(lambda: received(wire), b""))  # until the server closes the connection
    assert reply.startswith(b"HTTP/1.1 400 ") and b"connection: close" in reply.lower()
    assert reply.count(b"HTTP/1.1") == 1 and b"Transfer-Encoding" in reply


@pytest.mark.parametrize("path", ["/api/runs", "/api/files?name=a"])
def test_bodies_in_tiny_chunks_are_refused(server: Serving, path: str) -> None:
    with connected(server) as wire:
        wire.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        wire.sendall(b"1\r\nx\r\n" * 1001)
        wire.settimeout(5)
        reply = b"".join(iter(lambda: received(wire), b""))  # until the server closes the connection
    assert reply.startswith(b"HTTP/1.1 400 ") and reply.count(b"HTTP/1.1") == 1 and b"tiny chunks" in reply


@pytest.mark.parametrize(("size", "count"), [(1, 900), (64, 3000), (100_000, 200)])
def test_bodies_in_other_chunks_are_accepted(server: Serving, size: int, count: int) -> None:
    """Also after a turn: the parts of a body keep their order."""
    chunks = [bytes([number % 251]) * size for number in range(count)]
    sent = b"".join(chunks)
    reply = server.client.post("/api/files?name=a", content=iter(chunks))
    assert (reply.status_code, reply.json()["bytes"]) == (201, len(sent))


def test_an_unwanted_body_ends_the_connection(server: Serving) -> None:
    """A client need not notice for a small body, but one that continues is disconnected."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as client:
        for _ in range(2):
            client.putrequest("POST", "/healthz")
            client.putheader("content-length", "1000")
            client.endheaders()
            reply = client.getresponse()
            assert (reply.status, bool(reply.read())) == (405, True)
            assert client.sock is not None
            client.sock.sendall(bytes(1000))
    with connected(server) as wire:
        wire.sendall(b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n")
        with pytest.raises(ConnectionError):
            wire.sendall(bytes(100_000_000))


def received(wire: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return wire.recv(65_536)
    return b""


def test_repeated_log_messages_of_libraries_are_thinned_out() -> None:
    written = io.StringIO()
    library_log = LibraryLog(ServerLog("json", False, written))
    for n in range(3001):
        place = {"name": "asyncio", "levelno": logging.ERROR, "levelname": "ERROR", "lineno": 7, "created": n / 1000}
        library_log.handle(logging.makeLogRecord({**place, "msg": "socket.accept() out of system resource"}))
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line.get("omitted") for line in lines] == [None, 999, 999, 999]


@pytest.mark.parametrize("broken", [b"", b"{}\n", b"\xff\n"])
def test_unreadable_trace_is_an_error_and_can_be_removed(server: Serving, broken: bytes) -> None:
    """A full disk leaves an empty trace."""
    id = server.begin()
    server.over(id)
    (server.directory / "data" / "traces" / f"{id}.jsonl").write_bytes(broken)
    expected = (422, "cannot_follow") if broken else (404, "no_trace")
    for method, what in (("GET", "why"), ("GET", "verify"), ("POST", "replay")):
        reply = server.client.request(method, f"/api/runs/{id}/{what}")
        assert (reply.status_code, reply.json()["error"]["type"]) == expected
    assert server.client.delete(f"/api/runs/{id}").status_code == 204


@pytest.mark.parametrize("where", ["inputs", "values"])
def test_values_with_too_many_parts_are_refused(server: Serving, where: str) -> None:
    def status(count: int) -> tuple[int, bool]:
        value = [{}] * count
        given: object = {"x": value} if where == "inputs" else [{"call": "f(1)", "value": value}]
        reply = server.client.post("/api/runs", json={"program": "answer = 1", where: given})
        return reply.status_code, "50,000 parts" in reply.text

    assert (status(49_999), status(50_000)) == ((202, False), (400, True))


def test_many_references_to_one_file_are_refused_without_lookups(server: Serving) -> None:
    id = server.client.post("/api/files?name=a.txt", content=b"x").json()["id"]
    started = time.monotonic()
    reply = server.client.post("/api/runs", json={"program": "answer = 1", "files": [id] * 100_000})
    assert (reply.status_code, time.monotonic() - started < 5) == (400, True)


class Counting:
    """A sandbox that starts nothing and counts the attempts."""

    def __init__(self) -> None:
        self.count = 0

    @contextlib.asynccontextmanager
    async def start(self, job: Any) -> AsyncIterator[Any]:
        self.count += 1
        await asyncio.sleep(0.1)
        raise SandboxError("no guests here")
        yield

    def close(self) -> None:
        """There is nothing to close."""


@contextlib.contextmanager
def intake(directory: Path) -> Iterator[tuple[Intake, Counting]]:
    settings, sandbox = ServerSettings(directory, ()), Counting()
    with contextlib.closing(SQLiteStore(directory)) as store, contextlib.closing(Models((), 1)) as models:
        ledger = Ledger({}, store)
        telemetry = Telemetry(log=ServerLog("json", False, io.StringIO()))
        runs = Runs(settings, store=store, sandbox=sandbox, models=models, ledger=ledger, telemetry=telemetry)
        yield Intake(settings, store, runs, models, ledger), sandbox


def test_concurrent_readiness_checks_share_one_probe(tmp_path: Path) -> None:
    async def ask(intake: Intake) -> list[dict[str, str]]:
        return await asyncio.gather(*(intake.problems() for _ in range(20)), intake.problems())

    with intake(tmp_path) as (made, sandbox):
        assert asyncio.run(ask(made)) == [{"sandbox": "no guests here"}] * 21
        assert sandbox.count == 1


def test_leaving_while_a_run_is_being_stored_cancels_it(tmp_path: Path) -> None:
    """MCP clients do this: the run is being stored, and would otherwise remain queued forever."""

    async def leave(intake: Intake) -> list[str]:
        source = source_of(RunRequest(program="answer = 1"), [], intake.settings, model=None)
        submitting = asyncio.create_task(intake.runs.submit(new_run("", None, "run", None), source))
        await asyncio.sleep(0)  # until it waits for the disk
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
        await intake.runs.close()
        return [run.state for run in await intake.runs.listed("", 10, None)]

    with intake(tmp_path) as (made, _):
        assert asyncio.run(leave(made)) == ["cancelled"]


def test_concurrent_files_count_together_even_empty_ones(tmp_path: Path) -> None:
    async def send(store: Store) -> list[Any]:
        most = [StoredFile(f"{n}", "a", MAX_FILES_BYTES - 4096, "") for n in range(3)]
        empty = [StoredFile(f"empty{n}", "a", 0, "") for n in range(2)]
        sending = [store.keep_file(file, "ann", b"") for file in [*most, *empty]]
        return [*await asyncio.gather(*sending, store.keep_file(most[1], "bob", b""), return_exceptions=True)]

    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        outcomes = asyncio.run(send(store))
    *large, empty, other_empty, bobs = [getattr(outcome, "status", None) for outcome in outcomes]
    assert {*large, empty, other_empty} == {None, 413} and bobs is None
    kept = (large.count(None), [empty, other_empty].count(None))
    assert kept in ((1, 1), (0, 2))  # with a large file there is room for one empty file, in any order


def test_unread_trace_downloads_use_little_memory(server: Serving) -> None:
    program = "import time\nfor number in range(8):\n    x = f(1)\nprint('read')\ny = g(1)\n"
    values = [{"call": "f(1)", "value": "x" * 3_000_000}]
    body = {"program": program, "values": values, "ask_me": "g"}
    id = str(server.client.post("/api/runs", json=body).json()["id"])
    for _ in range(600):
        if server.client.get("/api/questions", params={"run": id}).json()["questions"]:
            break
        time.sleep(0.05)
    before = peak_bytes(server.process.pid)
    with contextlib.ExitStack() as stack:
        host, port = server.url.removeprefix("http://").split(":")
        for _ in range(12):
            client = stack.enter_context(socket.create_connection((host, int(port))))
            client.sendall(f"GET /api/runs/{id}/trace HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        time.sleep(3)
        assert peak_bytes(server.process.pid) - before < 150_000_000
    trace = server.client.get(f"/api/runs/{id}/trace").content
    assert len(trace) > 20_000_000 and trace.endswith(b"\n")
    assert server.client.post(f"/api/runs/{id}/cancel").json()["state"] == "cancelled"
    for what in ("replay", "resume"):
        reply = server.client.post(f"/api/runs/{id}/{what}", json={})
        assert (reply.status_code, reply.json()["error"]["type"]) == (413, "too_large")


def peak_bytes(pid: int) -> int:
    """The peak memory use of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
