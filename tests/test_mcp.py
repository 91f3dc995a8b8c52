"""MCP in both directions: `coc mcp` with the client of the SDK, and tools of MCP servers in programs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import ROOT
from endpoint import serving
from processes import command_of, descendants, is_alive, stat, variables_of
from test_cli import COC, coc

from chainofcode import InputError, Limits, ScriptedLM, Trace, arun, run
from chainofcode.audit import verify
from chainofcode.emulator import Tool, Toolbox
from chainofcode.sandbox import Jail

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, MCPError, StdioServerParameters
from starlette.applications import Starlette

from chainofcode.emulator.mcp_client import mcp_tools
from chainofcode.server.mcp import mcp_server, streamable_app

SERVER = f"{sys.executable} {ROOT / 'tests' / 'mcp_server.py'}"
RULES = [
    {"when": "How many", "reply": "```python\nanswer = sum(is_fruit(x) for x in ['fig', 'saw'])\n```"},
    {"when": "is_fruit('fig')", "reply": "true"},
    {"when": "is_fruit('saw')", "reply": "false"},
]


# --- `coc mcp` ----------------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    return path


def session(script: Path, work: Callable[[Client], Coroutine[Any, Any, None]], mode: str = "auto") -> None:
    """Run a coroutine in a session with a process of `coc mcp`."""
    command = [*COC[1:], "mcp", "--model", f"scripted:{script}", "--limit", "run=30", "--limit", "output=20000"]
    server = StdioServerParameters(
        command=COC[0], args=command, env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "LOGNAME": "coc-test"}
    )

    async def main() -> None:
        async with asyncio.timeout(240), Client(server, mode=mode) as client:
            await work(client)

    asyncio.run(main())


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def test_server_lists_tools_with_schemas(script: Path) -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["run_program", "solve", "verify"]
        for tool in tools.values():
            assert tool.description
            assert tool.input_schema["type"] == tool.output_schema["type"] == "object"  # type: ignore[index]
        assert tools["solve"].input_schema["required"] == ["question"]
        wanted = {"answer", "value", "reason", "steps", "lm_calls", "program", "trace"}
        assert wanted <= tools["run_program"].output_schema["properties"].keys()  # type: ignore[index]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates.resource_templates] == ["trace://{id}"]

    session(script, work)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_solve_and_verify_tools(script: Path, mode: str) -> None:
    progress_reports: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_reports.append((progress, message))

    async def work(client: Client) -> None:
        solved = await client.call_tool("solve", {"question": "How many are fruit?"}, progress_callback=on_progress)
        data = solved.structured_content
        assert not solved.is_error
        assert (data["answer"], data["value"], data["reason"], data["error"]) == ("1", 1, "answered", None)
        assert (data["steps"], data["lm_calls"]) == (3, 2)
        assert "is_fruit(x)" in data["program"]
        assert text_of(solved).startswith("answer: 1\n")
        assert text_of(solved).endswith(f"trace://{data['trace']}")
        assert progress_reports and [count for count, _ in progress_reports] == sorted(
            {count for count, _ in progress_reports}
        )
        text = (await client.read_resource(f"trace://{data['trace']}")).contents[0].text  # type: ignore[union-attr]
        assert Trace.parse(text.encode().splitlines()).answer.text == "1"  # type: ignore[union-attr]
        for given in ({"id": data["trace"]}, {"trace": text}):
            verified = (await client.call_tool("verify", given)).structured_content
            assert (verified["score"], verified["flags"], verified["chain"]) == (1.0, [], "intact")
            assert verified["decisive"] == ["is_fruit('fig')", "is_fruit('saw')"]
            assert verified["hangs_on"].startswith("The answer depends on is_fruit('fig') → True (line ")
        changed = await client.call_tool("verify", {"trace": text.replace('"text":"1"', '"text":"2"')})
        assert changed.structured_content["chain"] == "broken"
        assert changed.structured_content["score"] == 0

    session(script, work, mode)


def test_run_program_tool(script: Path) -> None:
    async def work(client: Client) -> None:
        async def ran(program: str, **more: Any) -> dict[str, Any]:
            result = await client.call_tool("run_program", {"program": program, **more})
            assert not result.is_error, text_of(result)
            return dict(result.structured_content)

        known = [{"call": "kind('a')", "value": "letter"}]
        assert (await ran("answer = [kind(x) for x in xs]", values=known, inputs={"xs": ["a"]}))["value"] == ["letter"]
        assert (await ran("answer = is_fruit('fig')"))["value"] is True  # without a value, the model is asked
        assert (await ran("answer = question", question="why"))["value"] == "why"
        assert (await ran("answer = (1, {2})"))["value"] == {"$tuple": [1, {"$set": [2]}]}
        failed = await ran("x = 1\nanswer = 1 / 0")
        assert (failed["answer"], failed["reason"]) == (None, "error")
        assert failed["error"] == "line 2: division by zero"
        assert (await ran("answer = '\\ud800'"))["answer"] == r"'\ud800'"
        assert (await ran("import os\nanswer = os.listdir('/home')"))["reason"] == "error"

    session(script, work)


def test_invalid_arguments_are_reported(script: Path) -> None:
    reads, scratch = [
        json.dumps({"event": "trace", "version": 1, "python": "3.12.1", "settings": settings})
        for settings in ({"reads": ["/etc"]}, {"scratch": True})
    ]
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("solve", {}, "question"),
        ("solve", {"question": 7}, "valid string"),
        ("solve", {"question": " "}, "a question has 1 to 100,000 characters"),
        ("solve", {"question": "How many?", "method": "magic"}, "unknown method 'magic'"),
        ("solve", {"question": "How many?", "answer_type": "/etc/schema.json"}, "not a file"),
        ("solve", {"question": "How many?", "answer_type": "nonsense"}, "unknown answer type 'nonsense'"),
        ("solve", {"question": "nobody has a reply for this"}, "no reply left"),
        ("run_program", {"program": "answer = 1", "values": [{"call": 3}]}, "expected"),
        ("run_program", {"program": "answer = 1", "inputs": {"x": {"$tuple": 3}}}, "inputs"),
        ("verify", {}, "either id or trace"),
        ("verify", {"id": "nope"}, "there is no run 'nope'"),
        ("verify", {"trace": "nonsense"}, "this is not a trace; "),
        ("verify", {"trace": reads}, "granted reads"),
        ("verify", {"trace": scratch}, "granted scratch"),
        ("steal", {}, "steal"),
    ]

    async def work(client: Client) -> None:
        for name, given, message in cases:
            result = await client.call_tool(name, given)
            assert result.is_error, (name, given)
            assert message in text_of(result), (name, given)
            assert "Traceback" not in text_of(result)
        with pytest.raises(MCPError, match="there is no run 'nope'"):
            await client.read_resource("trace://nope")

    session(script, work)


def test_a_trace_cannot_raise_limits(script: Path) -> None:
    trace = run("print('x' * 50_000)\nanswer = 1", limits=Limits(output_bytes=10**6)).trace
    assert verify(trace).replays  # with its own limits

    async def work(client: Client) -> None:
        found = await client.call_tool("verify", {"trace": "\n".join(trace.lines())})
        assert "limit:output" in text_of(found)  # the limit of the server ended the replay
        assert not found.structured_content["replays"]

    session(script, work)


def busiest(pid: int) -> tuple[int, int]:
    """The descendant with the most CPU time, and the time in hundredths of a second."""
    return max(((int(fields[11]), child) for child in descendants(pid) if (fields := stat(child))), default=(0, 0))[
        ::-1
    ]


def test_cancelling_a_call_ends_the_guest(script: Path) -> None:
    async def work(client: Client) -> None:
        assert (await client.call_tool("run_program", {"program": "answer = 1"})).structured_content["value"] == 1
        started = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            started.set()

        own = os.getpid()
        given = {"program": "x = 0\nwhile True:\n    x += 1"}
        call = asyncio.create_task(client.call_tool("run_program", given, progress_callback=on_progress))
        await asyncio.wait_for(started.wait(), 60)
        await until(lambda: "zygote" in command_of(busiest(own)[0]) and busiest(own)[1] > 50, 60)
        guest, _ = busiest(own)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await until(lambda: not is_alive(guest))
        assert (await client.call_tool("run_program", {"program": "answer = 2"})).structured_content["value"] == 2

    session(script, work)


async def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_traces_are_verified_in_a_process_without_secrets(script: Path) -> None:
    trace = run("answer = 1").trace

    def auditors() -> list[int]:
        return [pid for pid in descendants(os.getpid()) if "server.auditor" in command_of(pid)]

    async def work(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("verify", {"trace": "\n".join(trace.lines())}))
        await until(lambda: bool(auditors()))
        (pid,) = auditors()
        os.kill(pid, signal.SIGSTOP)
        assert variables_of(pid) == ["PYTHONPATH"]
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await until(lambda: not is_alive(pid))

    session(script, work)


def test_stdout_has_only_messages_and_sigint_ends_the_server(script: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    server = subprocess.Popen(
        [*COC, "mcp", "--model", f"scripted:{script}", "--sandbox", "none"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(b"nonsense\n" + json.dumps(hello).encode() + b"\n")
    server.stdin.flush()
    replies = [json.loads(server.stdout.readline())]
    if replies[-1].get("id") != 1:
        replies.append(json.loads(server.stdout.readline()))
    assert replies[-1]["result"]["serverInfo"]["name"] == "chainofcode"
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 130
    rest, errors = server.communicate()
    assert rest == b""
    assert b"no sandbox" in errors


def test_invalid_options_of_coc_mcp() -> None:
    assert "unknown model 'nope'" in coc("mcp", "--model", "nope").stderr
    assert "--limit must be" in coc("mcp", "--model", "scripted:/dev/null", "--limit", "x=1").stderr


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The MCP server over HTTP, in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    lm = ScriptedLM(lambda messages: next(r["reply"] for r in RULES if r["when"] in messages[-1].content))
    with socket.create_server(("127.0.0.1", 0)) as listening, Jail(spares=0) as jail:
        ours = mcp_server(lm, jail)
        routes = streamable_app(ours).routes

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with ours.session_manager.run():
                yield

        app = Starlette(routes=routes, lifespan=lifespan)  # as part of another application
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(20)


def test_http_rejects_foreign_host_names() -> None:
    with served() as url:
        where = urlsplit(url)
        for host, status in (("evil.example", 421), (where.netloc, 406)):
            connection = http.client.HTTPConnection(where.netloc, timeout=20)
            connection.request(
                "POST", "/mcp", "{}", {"Host": host, "Content-Type": "application/json", "Accept": "x/y"}
            )
            assert connection.getresponse().status == status
            connection.close()


class Waiting:
    """A model that never answers, and records when a request is cancelled."""

    name, in_flight = "waiting", 1

    def __init__(self) -> None:
        self.requested, self.cancelled = asyncio.Event(), asyncio.Event()

    async def complete(self, messages: Any, **options: Any) -> Any:
        self.requested.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("name", "given"), [("solve", {"question": "?"}), ("run_program", {"program": "answer = f(1)"})]
)
def test_cancelling_a_call_cancels_model_requests(mode: str, name: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        lm = Waiting()
        with Jail(spares=0) as jail:
            async with asyncio.timeout(60), Client(mcp_server(lm, jail), mode=mode) as client:
                call = asyncio.create_task(client.call_tool(name, given))
                await lm.requested.wait()
                call.cancel()
                await lm.cancelled.wait()
                with contextlib.suppress(asyncio.CancelledError):
                    await call
                assert (await client.call_tool("run_program", {"program": "answer = 1"})).structured_content[
                    "value"
                ] == 1

    asyncio.run(main())


def test_http_server_and_client() -> None:
    with served() as url:

        async def main() -> None:
            async with asyncio.timeout(60), Client(url) as client:
                solved = await client.call_tool("solve", {"question": "How many are fruit?"})
                assert solved.structured_content["answer"] == "1"

        asyncio.run(main())
        with mcp_tools([url]) as tools:
            result = run("answer = run_program('answer = 6 * 7')['value']", tools=tools)
            assert result.answer == 42
            assert {one.name: one.has_effect for one in tools} == {
                "solve": False,
                "run_program": False,
                "verify": False,
            }


def endless_reply(endpoint: Any) -> None:
    """An MCP server with two tools: the reply of `f` has 100 MB, that of `squeezed` is compressed."""
    body = endpoint.seen[-1][1]
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "endless", "version": "1"},
        },
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("f", "squeezed")]},
    }
    message = {"jsonrpc": "2.0", "id": body.get("id")}
    if body.get("method") == "tools/call" and body["params"]["name"] == "squeezed":
        endpoint.reply(200, gzip.compress(json.dumps({**message, "result": {}}).encode()), Content_Encoding="gzip")
    elif body.get("method") == "tools/call":
        endpoint.send_response(200)
        endpoint.send_header("Content-Type", "application/json")
        endpoint.send_header("Content-Length", str(100 * 1024**2))
        endpoint.end_headers()
        for _ in range(100):
            endpoint.wfile.write(b" " * 1024**2)
    elif body.get("method") in results:
        endpoint.reply(200, json.dumps({**message, "result": results[body["method"]]}).encode())
    else:
        endpoint.reply(200, json.dumps({**message, "error": {"code": -32601, "message": "no"}}).encode())


def test_size_of_http_replies_is_limited() -> None:
    program = "try:\n    answer = {}()\nexcept Exception as error:\n    answer = str(error)"
    with serving(endless_reply) as endpoint, mcp_tools([f"{endpoint.url}/mcp"], seconds=20) as tools:
        for _ in range(2):  # the connection stays usable
            assert "the reply is compressed (gzip)" in run(program.format("squeezed"), tools=tools).answer
        assert "the reply has over 16,777,216 bytes" in run(program.format("f"), tools=tools).answer


# --- tools of MCP servers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tools() -> Iterator[list[Tool]]:
    with mcp_tools([SERVER], seconds=20) as found:
        yield found


def test_tools_are_described_with_their_signature(tools: list[Tool]) -> None:
    named = {one.name: one for one in tools}
    assert named["price_of"].description.startswith("def price_of(item: str, count: int | None = None):")
    assert "The price of so many of an item." in named["price_of"].description
    assert "Gives int | float" in named["price_of"].description
    assert not named["price_of"].has_effect
    assert named["buy"].has_effect
    assert "print" not in named and "Shop_Co_print" in named


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("answer = price_of('kiwi', 2)", 1.5),
        ("answer = price_of(item='kiwi', count=2) + price_of('apple')", 2.0),
        ("answer = motto('fresh')", "fresh, fresh"),
        ("answer = item('fig')", {"name": "fig", "stock": [1, 2, 3]}),
        ("answer = Shop_Co_print('a')", "A"),
        ("try:\n    fail()\nexcept Exception as error:\n    answer = 'no luck today' in str(error)", True),
    ],
)
def test_programs_call_mcp_tools(tools: list[Tool], program: str, answer: object) -> None:
    result = run(program, tools=tools)
    assert result.answer == answer, result
    assert {step.by for step in result.trace.steps} == {"python", "tool"}


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("price_of(3)", "the argument 'item' does not fit"),
        ("price_of()", "missing a required argument: 'item'"),
        ("price_of('kiwi', 1, 2)", "too many positional arguments"),
        ("price_of('kiwi', colour='red')", "unexpected keyword argument"),
        ("price_of(object())", "plain values"),
        ("price_of('\\ud800')", "cannot be sent as JSON"),
        ("price_of('no such item')", "Error executing tool price_of"),
        ("much()", "the limit is 1,000,000"),
    ],
)
def test_errors_of_tools_are_raised_in_the_program(tools: list[Tool], program: str, message: str) -> None:
    result = run(program, tools=tools)
    assert result.error is not None
    assert message in result.error.message


def test_api_keys_are_not_passed_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("COC_OPENAPI_TOKEN", "secret")
    with mcp_tools([SERVER]) as tools:
        names = run("answer = environment()", tools=tools).answer
    assert set(names) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


def test_tools_that_are_not_read_only_need_approval(tools: list[Tool]) -> None:
    requested: list[str] = []

    def approve(used: Tool, call: str) -> bool:
        requested.append(call)
        return not used.has_effect

    result = run("price_of('kiwi')\nbuy('fig')", tools=Toolbox.of(tools, approve))
    assert result.error is not None and "buy was not approved" in result.error.message
    assert requested == ["price_of('kiwi')", "buy('fig')"]


def test_a_server_that_dies_or_hangs_is_an_error_in_the_program() -> None:
    with mcp_tools([SERVER], seconds=5) as tools:
        started = time.monotonic()
        hung = run("hang()", tools=tools)
        assert hung.error is not None and "no reply within 5 s" in hung.error.message
        assert run("answer = motto()", tools=tools).answer == "fresh, always"
        dead = run("try:\n    crash()\nexcept Exception as error:\n    answer = str(error)", tools=tools)
        assert "the server is gone" in dead.answer
        again = run("motto()", tools=tools)
        assert again.error is not None and "the server is gone" in again.error.message
        assert time.monotonic() - started < 100


def test_connection_stays_usable_after_a_cancelled_run(tools: list[Tool]) -> None:
    async def main() -> None:
        task = asyncio.create_task(arun("hang()", tools=tools))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await arun("answer = motto()", tools=tools)).answer == "fresh, always"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "seconds", "message"),
    [
        ("silent", 2, "did not answer within 2 s"),
        ("noise", 2, "did not answer within 2 s|gone|decode"),
        ("dead", 60, "stderr: there is no shop here"),
    ],
)
def test_a_server_that_does_not_start(fault: str, seconds: float, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=message), mcp_tools([f"{SERVER} {fault}"], start_seconds=seconds):
        pass
    assert time.monotonic() - started < 100


def test_servers_end_with_the_context_manager() -> None:
    before = set(descendants(os.getpid()))
    with mcp_tools([SERVER]):
        started = set(descendants(os.getpid())) - before
        assert started
    assert not any(map(is_alive, started))


def test_hostile_names_and_schemas_are_treated_as_data() -> None:
    with mcp_tools([f"{SERVER} hostile"], taken=["loops"], seconds=20) as tools:
        names = [one.name for one in tools]
        assert len(names) == len(set(names)) == 11
        assert all(name.isidentifier() for name in names)
        assert "eval" not in names and "loops" not in names and "hostile_loops" in names
        for one in tools:
            assert "\x1b" not in one.description
            assert one.description.count('"""') == 2
            assert len(one.description) < 20_000
        result = run("answer = [slow(), hostile({'a b': 1}), lambda_('x', _1=2)]", tools=tools)
        assert result.answer == ["a" * 60 + "!", "{'a b': 1}", "{'class': 'x', '1': 2}"]


def test_tools_of_two_servers_do_not_clash() -> None:
    with mcp_tools([SERVER, SERVER]) as tools:
        result = run("answer = price_of('kiwi') + Shop_Co_price_of('kiwi')", tools=tools)
    assert result.answer == 1.5


# --- on the command line ------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = "p = price_of('kiwi')\nb = buy('fig')\nanswer = [p, b]\n"
    (tmp_path / "p.py").write_text(program)
    (tmp_path / "records.jsonl").write_text(json.dumps({"id": 1, "program": program}) + "\n")
    (tmp_path / "script.jsonl").write_text(json.dumps(f"```python\n{program}```"))
    return tmp_path


def test_coc_run_and_ask_with_mcp_tools(shop: Path) -> None:
    refused = coc("run", str(shop / "p.py"), "--mcp", SERVER)
    assert refused.returncode == 1
    assert "buy was not approved: there is no terminal to ask on" in refused.stdout
    assert not (shop / "bought").exists()
    allowed = coc("run", str(shop / "p.py"), "--mcp", SERVER, "--approve", "never", "--json")
    assert json.loads(allowed.stdout)["value"] == [0.75, "bought fig"]
    assert coc("run", str(shop / "records.jsonl"), "--mcp", SERVER, "--approve", "never").returncode == 0
    model = f"scripted:{shop / 'script.jsonl'}"
    answered = coc("ask", "Buy?", "--model", model, "--mcp", SERVER, "--approve", "never", "--trace", str(shop / "t"))
    assert answered.stdout == "[0.75, 'bought fig']\n", answered.stderr
    assert (shop / "bought").read_text() == "fig\n" * 3
    assert "def price_of(item: str" in (shop / "t").read_text()
    assert coc("replay", str(shop / "t")).returncode == 0  # without the server


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("/nowhere/to/be/found", "No such file or directory"),
        ("", "--mcp takes the command of a server"),
        ("'", "No closing quotation"),
        (f"{SERVER} dead", r"there is no shop here\x1b[31m"),
        ("http://127.0.0.1:9/mcp", "--mcp http://127.0.0.1:9/mcp: "),
    ],
)
def test_unavailable_servers_are_reported(shop: Path, server: str, message: str) -> None:
    done = coc("run", str(shop / "p.py"), "--mcp", server)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr and not re.search("\x1b", done.stderr)


def test_ctrl_c_ends_the_server(shop: Path) -> None:
    (shop / "h.py").write_text("hang()")
    running = subprocess.Popen(
        [*COC, "run", str(shop / "h.py"), "--mcp", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def servers() -> list[int]:
        return [pid for pid in descendants(running.pid) if "mcp_server.py" in command_of(pid)]

    asyncio.run(until(lambda: bool(servers()), 60))
    time.sleep(4)  # by now, the program waits for its call
    started = servers()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    asyncio.run(until(lambda: not any(map(is_alive, started))))
    assert running.stderr is not None and b"Traceback" not in running.stderr.read()
