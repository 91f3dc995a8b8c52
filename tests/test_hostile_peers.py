"""Hostile input from outside the sandbox, derived from SECURITY.md alone: clients, models, tools, traces, programs."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import serving
from guest_servers import TOKEN, guest_server
from guest_servers import Serving as GuestServing
from serving import Serving, served
from test_remote_sandbox import UPGRADE, connected

from chainofcode import InputError, run
from chainofcode.emulator.rest import rest_tools
from chainofcode.errors import LMError
from chainofcode.lm.interface import Message
from chainofcode.sandbox import RemoteSandbox
from chainofcode.sandbox.packets import Packet, packet

pytest.importorskip("starlette", reason="the extra `server` is not installed")

# --- requests to `coc serve` --------------------------------------------------------------------------------------

CLIENT = "a-token-of-a-client-123"
OWN = f"Authorization: Bearer {CLIENT}\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    options = ("--token", f"ann={CLIENT}", "--rate", "100000")
    with served(tmp_path_factory.mktemp("peers"), *options, token=CLIENT) as running:
        yield running


def status_of(server: Serving, request: str) -> int:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as wire:
        wire.sendall(request.encode())
        return int(wire.recv(4096)[9:12])


def get(target: str = "/api/info", host: str = "localhost", more: str = OWN) -> str:
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"


def post(origin: str) -> str:
    head = f"POST /api/runs HTTP/1.1\r\nHost: localhost\r\n{origin}{OWN}Content-Type: application/json\r\n"
    return f"{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"


REQUESTS = {
    "two hosts": (get(host="localhost\r\nHost: evil.example"), {400}),
    "no host": (f"GET /api/info HTTP/1.0\r\n{OWN}\r\n", {400, 421}),
    "an absolute target": (get("http://evil.example/api/info"), {400, 404, 421}),
    **{
        f"host {host}": (get(host=host), {400, 421})
        for host in ("localhost@evil.example", "evil.example@localhost", "localhost.", "ｌocalhost", "2130706433",
                     "localhost, evil.example", "localhost\tevil", "0", "127.1", "localhost%00")
    },
    **{
        f"origin {origin}": (post(f"Origin: {origin}\r\n"), {403})
        for origin in ("http://localhost.evil.example", "http://localhost@evil.example", "http://localhost:1", "file://",
                       "null", "chrome-extension://x", "")
    },
    "two origins": (post("Origin: http://localhost\r\nOrigin: http://evil.example\r\n"), {400, 403}),
    **{
        f"path {path}": (get(path), {404})
        for path in ("/static/..%2f..%2fetc/passwd", "/static/%2e%2e/%2e%2e/etc/passwd", "/static//etc/passwd", "/static/%00",
                     "//evil.example/%2f..", "/api/runs/..%2f..%2ftokens.json", "/%2e%2e/", "/static/\\..\\x", "/docs")
    },
    **{f"method {method}": (get().replace("GET", method), {400, 405}) for method in ("TRACE", "CONNECT", "get", "PROPFIND")},
    **{
        f"token {token}": (get(more=f"Authorization: {token}\r\n"), {400, 401})
        for token in (f"Bearer {CLIENT},x", f"Bearer\t{CLIENT}", f"Bearer {CLIENT[:-1]}", f"Basic {CLIENT}", CLIENT, "Bearer \0")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_request_is_refused(server: Serving, name: str) -> None:
    request, expected = REQUESTS[name]
    assert status_of(server, request) in expected
    assert status_of(server, get()) == 200


BODIES = {
    "a long key": b'{"' + b"k" * 1_000_000 + b'": 1, "program": "answer = 1"}',
    "a number of 400,000 digits": b'{"program": "answer = x", "inputs": {"x": ' + b"9" * 400_000 + b"}}",
    "lists that are nested": b'{"program": "answer = 1", "inputs": {"x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    "UTF-16": '{"program": "answer = 1"}'.encode("utf-16"),
    "a prototype": b'{"__proto__": {"scratch": true}, "program": "answer = 1"}',
    "too many values": json.dumps({"program": "1", "values": [{"call": f"f({n})", "value": n} for n in range(20_000)]}).encode(),
    "a bidirectional pattern": '{"program": "answer = 1", "ask_me": "appr\u202eove"}'.encode(),
    "a pattern as a type": b'{"question": "x", "type": "pattern: (a+)+$"}',
    **{
        f"a long {field}": json.dumps({"question": "x", field: "y" * 500_000}).encode()
        for field in ("type", "method", "ask_me", "files")
    },
    "a file as a type": b'{"question": "x", "type": "../../etc/x.json"}',
    "a URL as a type": b'{"question": "x", "type": "http://127.0.0.1/x.json"}',
    "a path as a method": b'{"question": "x", "method": "../x"}',
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_body_is_refused(server: Serving, name: str) -> None:
    started = time.monotonic()
    reply = server.client.post("/api/runs", content=BODIES[name], headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request")
    assert len(reply.text) < 2000 and time.monotonic() - started < 10


@pytest.mark.parametrize(
    "name", ["CON", "a%00.csv", "．．／etc", "$(id).csv", "a';drop.csv", "~root.csv", "a.csv ", "😀.csv"]
)
def test_upload_stays_in_its_directory(server: Serving, name: str) -> None:
    before = {path for path in server.directory.rglob("*") if path.is_file()}
    reply = server.client.post("/api/files", params={"name": name}, content=b"n\n1\n")
    made = {path for path in server.directory.rglob("*") if path.is_file()} - before
    assert reply.status_code in (201, 400)
    assert all(path.is_relative_to(server.directory / "data") for path in made)


# --- orders to `coc serve --sandbox-only` -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guests() -> Iterator[GuestServing]:
    with guest_server("--scratch", "--runs", "3", "--queue", "3", "--drain", "1") as running:
        yield running


def order(**changes: Any) -> bytes:
    given = {"language": "python", "limits": {}, "files": [], "packages": [], **changes}
    return packet(Packet.ORDER, json.dumps(given).encode())


def files(*names: str) -> bytes:
    return order(files=[{"name": name, "size": 1} for name in names]) + packet(Packet.FILES, b"x" * len(names))


ORDERS = {
    "a negative size": order(files=[{"name": "a", "size": -1}]),
    "a long name": files("x" * 100_000),
    **{f"the name {name!r}": files(name) for name in (".", "a/../../x", "/tmp/x", "..\\x", "a\0b", "a\nb", "a\u202eb", "")},
    "one name twice": files("a", "a"),
    "30,000 files": order(files=[{"name": f"f{n}", "size": 0} for n in range(30_000)]),
    **{f"the package {name}": order(packages=[name]) for name in ("../../etc", "os", "*", "")},
    "50,000 packages": order(packages=["x"] * 50_000),
    "negative limits": order(limits={"cpu_seconds": -5, "memory_bytes": -1, "processes": -7}),
    "no time": order(limits={"wall_seconds": 0}),
    "a limit that is text": order(limits={"memory_bytes": "9"}),
    "a language with a null": order(language="py\0"),
    "two orders": order() + order(),
    "files that were not announced": order() + packet(Packet.FILES, b"x" * 1000),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_order_is_refused(guests: GuestServing, name: str) -> None:
    """The server closes the connection, at most after a reason."""
    client = connected(guests, UPGRADE + ORDERS[name])
    client.settimeout(20)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    finally:
        client.close()
    assert run("answer = 1", sandbox=RemoteSandbox(guests.url, TOKEN)).answer == 1


# --- models and tools ---------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BOMB = gzip.compress(b'"' + b"A" * 50_000_000 + b'"')
# what a model's endpoint sends once, and then without end
REPLIES = {
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 Early Hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
    "headers": (HEAD, b"X-A: b\r\n"),
    "one header": (HEAD + b"X: ", b"a" * 65_536),
    "the extension of a chunk": (CHUNKED + b"1;", b"x" * 65_536),
    "chunks of one byte": (CHUNKED, b"1\r\n \r\n" * 1000),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"A: b\r\n"),
    "compressed zeros": (HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB, b""),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456", b""),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_endless_reply_of_a_model_ends(name: str) -> None:
    openai = pytest.importorskip("chainofcode.lm.openai", reason="the extra `openai` is not installed")
    once, again = REPLIES[name]

    def act(endpoint: Any) -> None:
        endpoint.close_connection = True
        try:
            endpoint.wfile.write(once)
            while again:
                endpoint.wfile.write(again)
        except OSError:
            return

    async def ask(url: str) -> None:
        await openai.OpenAILM("m", base_url=url, api_key="k" * 20, request_seconds=2).complete([Message("user", "hi")])

    started = time.monotonic()
    with serving(act) as endpoint, pytest.raises(LMError):
        asyncio.run(asyncio.wait_for(ask(endpoint.url), 30))
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    "value", ["%2e%2e", "%2e%2e%2f", "..;", "a?b=1", "a#b", "a%00", "\u2025", "．．", "a b", "\t", "a&b"]
)
def test_argument_stays_in_its_part_of_the_path(tmp_path: Path, value: str) -> None:
    parameter = {"name": "x", "in": "path", "required": True, "schema": {"type": "string"}}
    paths = {"/a/{x}/b": {"get": {"operationId": "f", "parameters": [parameter]}}}
    seen: list[str] = []

    def act(endpoint: Any) -> None:
        seen.append(endpoint.path)
        endpoint.reply(200, b"[1]")

    with serving(act) as endpoint:
        info = {"openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "servers": [{"url": endpoint.url}]}
        (tmp_path / "doc.json").write_text(json.dumps({**info, "paths": paths}))
        tools = rest_tools([(tmp_path / "doc.json", None)], {}, lambda note: None)
        assert run("answer = f(value)", tools=tools, inputs={"value": value}).answer == [1]
    assert [re.fullmatch(r"/a/[\w%.-]+/b", path) is not None for path in seen] == [True], seen


PAGES = """
import json, sys
count = 0
for line in sys.stdin:
    message, result = json.loads(line), {}
    if message.get("method") == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif message.get("method") == "tools/list":
        count += 1
        result = {"tools": [{"name": f"t{count}", "inputSchema": {"type": "object"}}], "nextCursor": CURSOR}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("cursor", ["str(count)", "'same'"])
def test_endless_list_of_tools_is_refused(cursor: str) -> None:
    client = pytest.importorskip("chainofcode.emulator.mcp_client", reason="the extra `mcp` is not installed")
    command = shlex.join([sys.executable, "-c", PAGES.replace("CURSOR", cursor)])
    started = time.monotonic()
    with pytest.raises(InputError, match="over 500 tools, or an endless list"), client.mcp_tools([command]):
        pass
    assert time.monotonic() - started < 30


# --- traces and programs ------------------------------------------------------------------------------------------

CLAIMED: dict[str, Any] = {
    "packages": ["numpy"],
    "files": {"x": "/etc/passwd"},
    "sandbox": "none",
    "tools": ["os:system"],
    "model": "scripted:/etc/passwd",
    "prelude": "import os",
}


def test_settings_of_a_trace_grant_nothing_to_a_client_of_mcp(tmp_path: Path) -> None:
    """The program answers with the file if it can read it; a replay that does would have another answer."""
    test_mcp = pytest.importorskip("test_mcp", reason="the extra `mcp` is not installed")
    program = "try:\n    answer = open('/etc/passwd').read(4)\nexcept OSError:\n    answer = 'refused'"
    lines = [json.loads(line) for line in run(program).trace.lines()]
    (tmp_path / "script.jsonl").write_text("")

    async def work(client: Any) -> None:
        for name, value in CLAIMED.items():
            forged = [{**lines[0], "settings": {name: value}}, *lines[1:]]
            found = await client.call_tool("verify", {"trace": "\n".join(map(json.dumps, forged))})
            text = test_mcp.text_of(found)
            assert "root:" not in text and "Traceback" not in text, name
            assert found.is_error or found.structured_content["replays"], (name, text)

    test_mcp.session(tmp_path / "script.jsonl", work)


SOURCES = {
    "an encoding of its own": b"# coding: here\nanswer = 1",
    "an encoding with escapes": b'# coding: unicode_escape\nanswer = "\\x1b[31m"',
    "UTF-7": b"# coding: utf-7\nanswer = 1",
    "an error with a name": b'raise type("\\x1b[31mE\\r\\u202e", (Exception,), {})("\\x9b31m\\x1b]0;t\\x07\\nFORGED")',
    "output": b'print("\\x1b]52;c;aGk=\\x07 \\x1b[?1049h \\x0e \\u2066 \\u200f \\x85 \\u2028\\nFORGED")\nanswer = "\\x1b[0m"',
    "a call": b'answer = f("\\x1b[2J\\u202e")',
    "keys": b'answer = {"\\x1b]8;;http://evil.example\\x07": ["\\u202e"]}',
    "a comment": "x = 1  # \x1b[2J \u202e\nanswer = x".encode(),
    "standard error": b'import sys\nsys.__stderr__.write("\\x1b[31m")\nanswer = 1',
    "modules of the host": b"import here, sitecustomize\nanswer = 1",
}
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@pytest.mark.parametrize("name", SOURCES)
def test_program_controls_neither_terminal_nor_imports(name: str, tmp_path: Path) -> None:
    """Modules in the working directory are named like an encoding, a hook and modules that commands import."""
    for module in ("here", "sitecustomize", "json", "typing", "numpy", "duckdb"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    (tmp_path / "program.py").write_bytes(SOURCES[name])
    started = [sys.executable, "-P", "-m", "chainofcode"]  # like the installed script, without the working directory
    for command in (["run", "program.py", "--trace", "t.jsonl"], ["show", "t.jsonl", "--all"], ["replay", "t.jsonl"]):
        done = subprocess.run(
            [*started, *command], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
        )
        assert not CONTROL.search(done.stdout + done.stderr), command
        assert not re.search(r"^FORGED", done.stdout + done.stderr, re.MULTILINE), command
        assert "Traceback" not in done.stdout + done.stderr, command
    assert not (tmp_path / "imported").exists()
