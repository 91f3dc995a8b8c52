"""Promises of SECURITY.md that no other test proves: minimum tiers, limits, queries, sandbox servers, keys, `coc mcp`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import serving as endpoint_serving
from guest_servers import TOKEN, guest_server
from test_cli import coc
from test_sandbox import NO_NAMESPACES, in_tier_a

from chainofcode import Limits, SandboxError, run
from chainofcode.cli import _parser as command_parser
from chainofcode.engine import fetches
from chainofcode.lm import remote
from chainofcode.methods import answers, input_files
from chainofcode.methods.queries import asql
from chainofcode.sandbox import RemoteSandbox, frames
from chainofcode.sandbox.packets import Packet, packet

# --- the minimum tier ---------------------------------------------------------------------------------------------


def test_commands_that_run_programs_take_a_minimum_tier() -> None:
    (subcommands,) = [action for action in command_parser()._actions if isinstance(action.choices, dict)]
    options = {name: set(parser._option_string_actions) for name, parser in subcommands.choices.items()}
    running = {name for name, known in options.items() if known & {"--sandbox", "--sandbox-only", "--limit"}}
    assert running >= {
        "ask",
        "chat",
        "run",
        "sql",
        "resume",
        "replay",
        "why",
        "verify",
        "debug",
        "eval",
        "mcp",
        "serve",
    }
    assert not [name for name in running if "--sandbox-at-least" not in options[name]]


@in_tier_a
def test_examples_take_a_minimum_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COC_SANDBOX", "A+")
    command = [sys.executable, "-m", "chainofcode", "examples", "fruit.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*NO_NAMESPACES, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "tier A: " in done.stderr


def test_program_without_a_sandbox_has_limits() -> None:
    limits = Limits(run_seconds=1, memory_bytes=512 << 20, output_bytes=10_000)
    programs = {"time.sleep(9)": "limit:run", "bytearray(10**10)": "limit:memory", "print('x' * 10**6)": "limit:output"}
    for program, reason in programs.items():
        assert run(f"import time\n{program}", sandbox="none", limits=limits).reason == reason, program


# --- limits -------------------------------------------------------------------------------------------------------


def default_of(function: Callable[..., Any], name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def test_documented_limits_are_the_defaults() -> None:
    """Other tests show that a limit works, often with a lower one; these are the limits that the page states."""
    assert Limits().trace_bytes == 100_000_000
    assert (frames.MAX_FRAME_MEMORY, frames.MAX_RUN_MEMORY) == (128 << 20, 512 << 20)
    assert fetches._MAX_DECODED_BYTES == 256 << 20
    assert (input_files.INSPECTION_SECONDS, input_files.INSPECTION_BYTES) == (60, 1 << 30)
    assert default_of(remote.RemoteLM.__init__, "request_seconds") == 600
    assert (answers._MAX_SECONDS, answers._MAX_MEMORY_BYTES) == (2, 512 << 20)


def test_documented_limits_of_mcp_are_the_defaults() -> None:
    mcp_client = pytest.importorskip("chainofcode.emulator.mcp_client", reason="the extra `mcp` is not installed")
    manager = pytest.importorskip("mcp.server.streamable_http_manager")
    assert default_of(mcp_client.mcp_tools, "seconds") == default_of(mcp_client.mcp_tools, "start_seconds") == 60
    assert default_of(manager.StreamableHTTPSessionManager.__init__, "session_idle_timeout") == 1800


# --- queries ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"shop.{request.param}"
    engine: Any = pytest.importorskip("sqlite3" if request.param == "sqlite" else "duckdb")
    with contextlib.closing(engine.connect(str(path))) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.commit()
    return path


def test_engines_cannot_write_a_database(database: Path) -> None:
    """Not even without the sandbox and without the check that a program is one SELECT."""
    from chainofcode.languages.sql.guest.duck_engine import DuckEngine
    from chainofcode.languages.sql.guest.engine import QueryError
    from chainofcode.languages.sql.guest.sqlite_engine import SqliteEngine

    before = database.read_bytes()
    kind: Any = SqliteEngine if database.suffix == ".sqlite" else DuckEngine
    engine = kind(1 << 30, str(database))
    engine.seal()
    for place in ("", "main.", "shop."):
        for query in ("INSERT INTO {}t VALUES (2)", "DELETE FROM {}t", "UPDATE {}t SET id = 2", "DROP TABLE {}t"):
            with pytest.raises(QueryError):
                list(engine.run(query.format(place))[1])
    outside = database.with_name("more.db")
    for query in (f"ATTACH '{outside}' AS more", "SET enable_external_access = true", f"VACUUM INTO '{outside}'"):
        with pytest.raises(QueryError):
            list(engine.run(query)[1])
    assert list(engine.run("SELECT id FROM t")[1]) == [(1,)]
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


NO_SELECT = [
    "COPY t TO '/tmp/x'", "ATTACH ':memory:' AS m", "PRAGMA database_list", "SET threads = 1", "SELECT 1; SELECT 2",
    "/* x */ PRAGMA x", "-- x\nATTACH 'y' AS z", "CALL pragma_version()", "EXPLAIN ANALYZE SELECT 1", "BEGIN",
    "INSERT INTO t SELECT 2", "DROP TABLE t", "(SELECT 1); ATTACH 'y' AS z", "SELECT 1;;\n;SET x = 1",
]  # fmt: skip


@pytest.mark.parametrize("query", NO_SELECT)
def test_program_is_one_query(query: str, database: Path) -> None:
    result = asyncio.run(asql(query, None, database=database))
    assert result.error is not None and result.error.type == "NotAProgram", result


def test_lock_of_a_query_reaches_no_other_process(tmp_path: Path) -> None:
    """DuckDB would refuse to open a file that another process has open for writing."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    refused = f"import duckdb, sys\ntry: duckdb.connect({str(path)!r}, read_only=True)\nexcept duckdb.IOException: sys.exit(7)"
    with contextlib.closing(duckdb.connect(str(path))) as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS id")
        writer.execute("CHECKPOINT")
        assert subprocess.run([sys.executable, "-c", refused], check=False).returncode == 7
        assert asyncio.run(asql("SELECT id FROM t", None, database=path)).rows == [{"id": 1}]


# --- sandboxes on servers -----------------------------------------------------------------------------------------

HOSTILE = """
import os, socket
def tried(act, *args):
    try:
        return bool(act(*args)) or True
    except OSError:
        return False
answer = [tried(open, '/etc/passwd'), tried(open, '/new', 'w'), tried(os.fork), tried(socket.socket), os.getuid() == 0]
"""


def test_served_guest_is_confined() -> None:
    with guest_server() as server:
        result = run(HOSTILE, sandbox=RemoteSandbox(server.url, TOKEN))
    assert result.answer == [False] * 5, result


def test_sandbox_server_needs_the_scope_run(tmp_path: Path) -> None:
    secrets = {
        scope: coc("tokens", "add", "ann", "--scope", scope, "--data", tmp_path).stdout.strip()
        for scope in ("run", "read", "metrics")
    }
    with guest_server("--data", str(tmp_path)) as server:
        assert run("answer = 1", sandbox=RemoteSandbox(server.url, secrets["run"])).answer == 1
        for scope in ("read", "metrics"):
            with pytest.raises(SandboxError):
                run("answer = 1", sandbox=RemoteSandbox(server.url, secrets[scope]))


@contextlib.contextmanager
def recording_relay(port: int) -> Iterator[tuple[str, bytearray]]:
    """A relay to a server; yields its URL, and what clients send through it."""
    sent = bytearray()

    def copy(source: socket.socket, target: socket.socket, *, is_kept: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_kept:
                    sent.extend(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for pair, is_kept in (((client, server), True), ((server, client), False)):
                    threading.Thread(target=copy, args=pair, kwargs={"is_kept": is_kept}, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", sent


def test_sandbox_server_receives_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """It receives what a guest does: here the program, and values of a model and of a tool."""
    keys = {"OPENAI_API_KEY": "sk-9f3a77c1e5", "COC_OPENAPI_TOKEN": "tok-51ab", "COC_TOKEN": "server-token-of-the-user"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)

    def look(at: str) -> str:
        return "value-of-the-tool"

    with guest_server() as server, recording_relay(server.port) as (url, sent):
        program = "answer = ['text of the program', look('x'), judge('y')]"
        result = run(program, lambda pause: "value-of-the-model", sandbox=RemoteSandbox(url, TOKEN), tools=[look])
    assert result.answer == ["text of the program", "value-of-the-tool", "value-of-the-model"]
    assert b"text of the program" in sent and b"value-of-the-tool" in sent and b"value-of-the-model" in sent
    assert not [name for name, value in keys.items() if value.encode() in sent]


def test_sandbox_server_cannot_reach_further_than_a_guest(tmp_path: Path) -> None:
    """It requests a tool that was not granted, an image that was not granted, and more values than the limit allows."""
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n secret")
    calls: list[str] = []

    def judge(pause: Any) -> int:
        calls.append(pause.text)
        return 1

    def wire(body: dict[str, Any]) -> bytes:
        data = json.dumps(body).encode()
        return packet(Packet.WIRE, len(data).to_bytes(4, "little") + data)

    def paused(number: int, name: str) -> bytes:
        where = str(tmp_path / "secret.png")
        return wire(
            {"type": "paused", "id": number, "kind": "call", "name": name, "text": f"{name}()", "args": [where]}
        )

    replies = [packet(Packet.STARTED, b'{"wall":"A"}'), *(paused(n, "eval") for n in range(1, 30))]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError), listening.accept()[0] as client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + b"".join(replies))
                time.sleep(5)

        threading.Thread(target=serve, daemon=True).start()
        remote_sandbox = RemoteSandbox(f"http://127.0.0.1:{listening.getsockname()[1]}", TOKEN)
        result = run("answer = 1", judge, sandbox=remote_sandbox, limits=Limits(lm_calls=10, wall_seconds=20))
    assert result.reason == "limit:calls", result
    assert len(calls) <= 10


# --- keys ---------------------------------------------------------------------------------------------------------


def test_no_key_is_in_prompt_trace_or_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the program answers with its environment, and an error quotes the arguments of the process."""
    pytest.importorskip("openai")
    key = "k-5d1f0a97be34c2"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    program = "```python\nimport os, sys\nprint(sys.argv, sys.orig_argv)\nanswer = [dict(os.environ), judge('x')]\n```"

    def act(server: Any) -> None:
        prompt = str(server.seen[-1][1]["messages"][-1]["content"])
        text = '"fine"' if "judge('x')" in prompt else program
        server.reply(200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())

    with endpoint_serving(act) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        done = coc("ask", "Why?", "--model", "openai:m", "--trace", tmp_path / "t.jsonl", "--json", "--no-fallback")
        assert done.returncode == 0, done.stderr
        assert {headers["authorization"] for headers, _ in server.seen} == {f"Bearer {key}"}
        prompts = json.dumps([body for _, body in server.seen])
    shown = "".join(coc(command, tmp_path / "t.jsonl").stdout for command in ("show", "why", "verify"))
    for text in (done.stdout, done.stderr, prompts, (tmp_path / "t.jsonl").read_text(), shown):
        assert text and key not in text


# --- coc mcp ------------------------------------------------------------------------------------------------------


def test_mcp_runs_and_traces_are_bounded(tmp_path: Path) -> None:
    """Four programs run at once; the trace of the first of 101 runs is no longer kept."""
    test_mcp = pytest.importorskip("test_mcp", reason="the extra `mcp` is not installed")
    (tmp_path / "script.jsonl").write_text("")

    async def work(client: Any) -> None:
        async def run_program(program: str) -> str:
            return str((await client.call_tool("run_program", {"program": program})).structured_content["trace"])

        started = time.monotonic()
        await asyncio.gather(*[run_program("import time\ntime.sleep(1.5)\nanswer = 1") for _ in range(5)])
        assert time.monotonic() - started >= 3
        ids = [await run_program("answer = 1") for _ in range(101)]
        assert len(set(ids)) == 101 and all(len(id) == 16 for id in ids)
        await client.read_resource(f"trace://{ids[1]}")
        with pytest.raises(test_mcp.MCPError, match="no longer kept"):
            await client.read_resource(f"trace://{ids[0]}")

    test_mcp.session(tmp_path / "script.jsonl", work)


@pytest.mark.parametrize("argument", ["reads", "packages", "limits", "sandbox", "files", "scratch", "tools", "policy"])
def test_mcp_tools_take_no_grants(argument: str, tmp_path: Path) -> None:
    test_mcp = pytest.importorskip("test_mcp", reason="the extra `mcp` is not installed")
    (tmp_path / "script.jsonl").write_text("")

    async def work(client: Any) -> None:
        for tool in (await client.list_tools()).tools:
            assert argument not in tool.input_schema.get("properties", {})

    test_mcp.session(tmp_path / "script.jsonl", work)
