"""One token floods each endpoint with large records, large lists and clients that never read; another is served.

The endpoints come from the application's routes: the tests fail for a new endpoint until there is a flood for it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from databases import postgres_server
from serving import SCRIPT, Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from chainofcode import run
from chainofcode.server.access import Access
from chainofcode.server.application import Application
from chainofcode.server.objects import objects_at
from chainofcode.server.run_kinds import Models
from chainofcode.server.settings import ServerSettings
from chainofcode.server.spans import Spans
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import RunRecord, Store, new_run

MALLORY, ANN = "the-token-of-mallory", "the-token-of-ann-which-is-honest"
RECORDS = 200
MOST_SECONDS = 1.0
MOST_BYTES = 400 * 1024**2  # growth allowed during a flood: 128 MiB of bodies, as much of responses, and copies
LASTING_BYTES = 200 * 1024**2  # growth allowed after a flood, while the runs that it started continue
SHA256 = "a" * 64
JSON = {"Content-Type": "application/json"}
MCP = {**JSON, "Accept": "application/json, text/event-stream"}
WIDE = [{"when": "Wide", "reply": "```python\nanswer = 'x' * 1_000_000\n```"}]
ROUTES_WITHOUT_STORE = ("/healthz", "/openapi.json", "/metrics", "/", "/static/", "/v1/models", "/api/info", "/readyz")


@dataclass
class Flood:
    """What Mallory sends to an endpoint: the first one again and again, all of them without reading the replies."""

    target: str
    body: Any = b""
    headers: dict[str, str] = field(default_factory=lambda: JSON)


def hello(number: int = 1) -> dict[str, Any]:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "m", "version": "1"}}
    return {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": client}


def chat(**more: Any) -> dict[str, Any]:
    return {"model": "coc", "messages": [{"role": "user", "content": "Wide"}], **more}


# By method and path. RUN has a large record, LONG a trace of two lines of 30 MB. TRACE, of one megabyte, can be audited
# within the time of the test. LARGE is the largest trace that the server reads into memory, READ the largest that MCP
# returns.
FLOODS: dict[str, list[Flood]] = {
    "GET /healthz": [Flood("/healthz")],
    "GET /readyz": [Flood("/readyz")],
    "GET /metrics": [Flood("/metrics")],
    "GET /openapi.json": [Flood("/openapi.json")],
    "GET /api/info": [Flood("/api/info")],
    "POST /api/files": [Flood("/api/files?name=a", bytes(2 * 1024**2))],
    "GET /api/runs": [
        Flood("/api/runs?limit=200"),
        Flood("/api/runs?limit=200&q=question"),
        Flood("/api/runs?limit=200&method=none&since=1"),
    ],
    "POST /api/runs": [Flood("/api/runs", {"program": "answer = 1", "inputs": {"x": "x" * 3_000_000}})],
    "GET /api/questions": [Flood("/api/questions")],
    "POST /api/questions/{id}": [Flood("/api/questions/QUESTION", {"value": "x" * 3_000_000})],
    "GET /api/runs/{id}": [Flood("/api/runs/RUN")],
    "DELETE /api/runs/{id}": [Flood("/api/runs/GONE")],
    "GET /api/runs/{id}/events": [Flood("/api/runs/LONG/events"), Flood("/api/runs/TRACE/events")],
    "GET /api/runs/{id}/trace": [Flood("/api/runs/LONG/trace"), Flood("/api/runs/TRACE/trace")],
    "GET /api/runs/{id}/page": [Flood("/api/runs/TRACE/page"), Flood("/api/runs/LONG/page")],
    "POST /api/runs/{id}/cancel": [Flood("/api/runs/RUN/cancel")],
    "POST /api/runs/{id}/resume": [Flood("/api/runs/RUN/resume", {})],
    "POST /api/runs/{id}/replay": [Flood("/api/runs/LARGE/replay", {}), Flood("/api/runs/LONG/replay", {})],
    "GET /api/runs/{id}/why": [Flood("/api/runs/TRACE/why"), Flood("/api/runs/LONG/why")],
    "GET /api/runs/{id}/verify": [Flood("/api/runs/TRACE/verify"), Flood("/api/runs/LONG/verify")],
    "GET /api/runs/{id}/artifacts/{sha256}": [Flood(f"/api/runs/RUN/artifacts/{SHA256}")],
    "GET /v1/models": [Flood("/v1/models")],
    "GET /v1/models/{name:path}": [Flood("/v1/models/coc")],
    "POST /v1/chat/completions": [
        Flood("/v1/chat/completions", chat(stream=True)),
        Flood("/v1/chat/completions", chat()),
    ],
    "POST /v1/responses": [
        Flood("/v1/responses", {"model": "coc", "input": "Wide", "stream": True}),
        Flood("/v1/responses", {"model": "coc", "input": "Wide"}),
    ],
    "GET /mcp": [Flood("/mcp", headers={**MCP, "Mcp-Session-Id": "SESSION"})],
    "POST /mcp": [
        Flood(
            "/mcp",
            {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "trace://READ"}},
            {**MCP, "Mcp-Session-Id": "SESSION"},
        ),
        Flood("/mcp", hello(), MCP),
    ],
    "DELETE /mcp": [Flood("/mcp", headers={**MCP, "Mcp-Session-Id": "none"})],
    "GET /": [Flood("/")],
    "GET /static/{name}": [Flood("/static/app.js")],
    "GET /static/{version}/{name}": [Flood("/static/1/app.js")],
}
# With `POST`, as bodies in chunks of one byte.
TINY_CHUNKS = {
    "with its token": Flood("/api/runs"),
    "with a wrong token": Flood("/api/runs", headers={**JSON, "Authorization": "Bearer wrong"}),
    "where no token is needed": Flood("/healthz"),
}
CONTAINERS = [290_000, 45_000]  # too many for one run, and almost too many


class Filled:
    """A server with large records of Mallory, and the ids in them."""

    def __init__(self, server: Serving, ids: dict[str, str]) -> None:
        self.server, self.ids = server, ids
        with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {MALLORY}"}, timeout=60) as client:
            reply = client.post("/mcp", json=hello(), headers=MCP)
            self.ids["SESSION"] = reply.headers["mcp-session-id"]
        self.own = server.client.post("/api/runs", json={"program": "answer = 1"}).json()["id"]
        server.over(self.own)
        time.sleep(1)
        self.at_rest = memory(server, "VmRSS")

    def filled_in(self, text: str) -> str:
        for name, id in self.ids.items():
            text = text.replace(name, id)
        return text

    def requests(self, endpoint: str) -> list[dict[str, Any]]:
        return [self.request(endpoint.partition(" ")[0], flood) for flood in FLOODS[endpoint]]

    def request(self, method: str, flood: Flood) -> dict[str, Any]:
        body = flood.body if isinstance(flood.body, bytes) else self.filled_in(json.dumps(flood.body)).encode()
        headers = {name: self.filled_in(value) for name, value in flood.headers.items()}
        encoded = base64.b64encode(body).decode()
        return {"method": method, "target": self.filled_in(flood.target), "headers": headers, "body": encoded}


def large_runs() -> list[RunRecord]:
    runs = [new_run("mallory", f"question {number}", "run", None) for number in range(RECORDS)]
    artifacts = [{"name": "a.bin", "sha256": SHA256, "bytes": 16 * 1024**2}]
    end: dict[str, Any] = {"state": "done", "reason": "answered", "answer": "é" * 1_000_000, "artifacts": artifacts}
    return [msgspec.structs.replace(one, **end) for one in runs]


def audited_events(calls: int) -> list[dict[str, Any]]:
    """The trace of a real run with half a megabyte for each call."""
    values = {f"f({number})": "x" * 500_000 for number in range(calls)}
    program = "".join(f"x{number} = f({number})\n" for number in range(calls))
    trace = run(f"{program}answer = len(x0)", values).trace
    assert trace.answer is not None and trace.answer.is_answered
    lines = [json.loads(line) for line in trace.lines()]
    return [{name: line[name] for name in line if name != "chain"} for line in lines]


async def fill(store: Store) -> dict[str, str]:
    runs = large_runs()
    for one in runs:
        await store.keep(one)
    await store.keep_artifacts(runs[-1].id, {SHA256: bytes(16 * 1024**2)})
    long = [{"event": "step", "line": 1, "value": "x" * 30_000_000}] * 2
    traces = {"LONG": long, "TRACE": audited_events(2), "LARGE": audited_events(30), "READ": audited_events(7)}
    kept = {name: await keep_trace(store, events) for name, events in traces.items()}
    return {**kept, "RUN": runs[-1].id, "GONE": runs[0].id, "QUESTION": "0" * 24}


async def keep_trace(store: Store, events: list[Any]) -> str:
    begun = msgspec.structs.replace(new_run("mallory", "a trace", "run", None), state="running")
    await store.keep(begun)
    trace = await store.replace_trace(begun.id, events)
    await store.keep(msgspec.structs.replace(begun, state="done", reason="answered", answer="1"), trace)
    return begun.id


@contextlib.contextmanager
def filled(directory: Path, store: Store, *options: str) -> Iterator[Filled]:
    with contextlib.closing(store):
        ids = asyncio.run(fill(store))
    tokens = ("--token", f"mallory={MALLORY}", "--token", f"ann={ANN}")
    limits = ("--rate", "1000000", "--runs", "4", "--queue", "100000", "--limit", "run=5")
    with served(directory, *tokens, *limits, *options, token=ANN, script=[*SCRIPT, *WIDE]) as server:
        yield Filled(server, ids)


@pytest.fixture(scope="module")
def with_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    directory = tmp_path_factory.mktemp("sqlite")
    with filled(directory, SQLiteStore(directory / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def with_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    directory = tmp_path_factory.mktemp("postgres")
    with postgres_server() as postgres:
        from chainofcode.server.postgres.postgres_store import PostgresStore

        url, objects = postgres.database(), str(directory / "objects")
        store = PostgresStore(url, directory / "filling", objects_at(objects))
        with filled(directory, store, "--store", url, "--objects", objects) as server:
            yield server


def memory(server: Serving, which: str) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(which)).split()[1]) * 1024


@contextlib.contextmanager
def flooded(
    filled: Filled, requests: list[dict[str, Any]], *, idle: int = 40, busy: int = 8, tiny_chunks: bool = False
) -> Iterator[None]:
    job = {"url": filled.server.url, "token": MALLORY, "requests": requests}
    job |= {"idle": idle, "busy": busy, "tiny_chunks": tiny_chunks}
    command = [sys.executable, str(Path(__file__).with_name("flooding.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flooding:
        assert flooding.stdin is not None
        flooding.stdin.write(json.dumps(job) + "\n")
        flooding.stdin.flush()
        try:
            yield
        finally:
            output, _ = flooding.communicate(timeout=60)
        print(output.strip())
        assert json.loads(output), "no request of the flood was answered"


def seconds_of(request: Callable[[], httpx.Response]) -> float:
    started = time.monotonic()
    request().raise_for_status()
    return time.monotonic() - started


def endpoints(directory: Path) -> set[str]:
    """All endpoints of the application."""
    settings = ServerSettings(directory, ("scripted:none",))
    with contextlib.closing(SQLiteStore(directory)) as store, contextlib.closing(Models((), 1)) as models:
        parts: Any = {"store": store, "models": models, "sandbox": None, "spans": Spans()}
        routes: Any = Application(settings, access=Access(settings), **parts).routes
    return {f"{method} {route.path}" for route in routes for method in route.methods - {"HEAD"}}


def test_every_endpoint_is_flooded(tmp_path: Path) -> None:
    assert endpoints(tmp_path) == set(FLOODS)


def needs_store(endpoint: str) -> bool:
    path = endpoint.partition(" ")[2]
    return not any(
        path == part or (part in ("/static/", "/v1/models") and path.startswith(part)) for part in ROUTES_WITHOUT_STORE
    )


CASES = [(endpoint, "with_sqlite") for endpoint in FLOODS]
CASES += [(endpoint, "with_postgres") for endpoint in FLOODS if needs_store(endpoint)]


def seconds_of_others(filled: Filled, seconds: float = 3) -> list[float]:
    """How long requests of Ann take meanwhile."""
    server, taken = filled.server, list[float]()
    time.sleep(1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        taken.append(seconds_of(lambda: server.client.get("/api/runs")))
        taken.append(seconds_of(lambda: server.client.get(f"/api/runs/{filled.own}")))
        taken.append(seconds_of(lambda: server.client.post("/api/runs", json={"program": "answer = 1"})))
        time.sleep(0.05)
    return taken


@pytest.mark.alone
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("endpoint", "store"), CASES)
def test_flood_of_one_token_does_not_affect_another(endpoint: str, store: str, request: pytest.FixtureRequest) -> None:
    filled: Filled = request.getfixturevalue(store)
    server = filled.server
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # forget the peak
    with flooded(filled, filled.requests(endpoint)):
        taken = seconds_of_others(filled)
    peak = memory(server, "VmHWM") - filled.at_rest
    print(f"{endpoint}: {max(taken):.3f} s, {peak / 2**20:.0f} MiB")
    assert max(taken) < MOST_SECONDS
    assert peak < MOST_BYTES
    deadline = time.monotonic() + 20
    while memory(server, "VmRSS") - filled.at_rest > LASTING_BYTES and time.monotonic() < deadline:
        time.sleep(0.5)
    assert memory(server, "VmRSS") - filled.at_rest <= LASTING_BYTES


@pytest.mark.alone
@pytest.mark.parametrize("sender", TINY_CHUNKS)
def test_flood_of_tiny_chunks_does_not_affect_another_token(sender: str, with_sqlite: Filled) -> None:
    request = with_sqlite.request("POST", TINY_CHUNKS[sender])
    with flooded(with_sqlite, [request], busy=16, tiny_chunks=True):
        taken = seconds_of_others(with_sqlite)
    print(f"{sender}: {max(taken):.3f} s")
    assert max(taken) < MOST_SECONDS


@pytest.mark.alone
@pytest.mark.parametrize("count", CONTAINERS)
def test_flood_of_containers_does_not_affect_another_token(count: int, with_sqlite: Filled) -> None:
    flood = Flood("/api/runs", {"program": "answer = 1", "inputs": {"x": [{}] * count}})
    with flooded(with_sqlite, [with_sqlite.request("POST", flood)], idle=0):
        taken = seconds_of_others(with_sqlite, 8)
    print(f"{count} containers: {max(taken):.3f} s")
    assert max(taken) < MOST_SECONDS
