"""MCP in `coc serve`: the client of the SDK, over streamable HTTP, with a real server process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import command_of, descendants, is_alive
from serving import FRUIT, Serving, served

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
pytest.importorskip("starlette", reason="the extra `server` is not installed")

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from test_mcp import busiest, until

from chainofcode import Trace

TOKEN, OTHER = "a-secret-of-many-letters", "another-secret-of-letters"
LOOP = "x = 0\nwhile True:\n    x += 1"
MODES = ["auto", "legacy"]  # one request for each call, or a session with a handshake


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    options = ("--token", TOKEN, "--token", f"ann={OTHER}", "--rate", "100000", "--runs", "4")
    with served(tmp_path_factory.mktemp("server"), *options, token=TOKEN) as server:
        yield server


@contextlib.asynccontextmanager
async def connected(server: Serving, mode: str = "auto", token: str = TOKEN) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        asyncio.timeout(120),
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def ran(client: Client, name: str, **given: Any) -> dict[str, Any]:
    result = await client.call_tool(name, given)
    assert not result.is_error, result.content
    return dict(result.structured_content)


@pytest.mark.parametrize("mode", MODES)
def test_tools_and_their_results(server: Serving, mode: str) -> None:
    progress_reports: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_reports.append((progress, message))

    async def main() -> None:
        async with connected(server, mode) as client:
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == ["run_program", "solve", "verify"]
            solved = await client.call_tool("solve", {"question": FRUIT}, progress_callback=on_progress)
            data = solved.structured_content
            assert (data["answer"], data["value"], data["reason"], data["lm_calls"]) == ("1", 1, "answered", 2)
            assert solved.content[0].text.startswith("answer: 1\n")  # type: ignore[union-attr]
            assert progress_reports and [count for count, _ in progress_reports] == sorted(
                {count for count, _ in progress_reports}
            )
            assert all(message for _, message in progress_reports)
            text = (await client.read_resource(f"trace://{data['trace']}")).contents[0].text  # type: ignore[union-attr]
            assert Trace.parse(text.encode().splitlines()).answer.text == "1"  # type: ignore[union-attr]
            for given in ({"id": data["trace"]}, {"trace": text}):
                verified = await ran(client, "verify", **given)
                assert (verified["score"], verified["flags"], verified["chain"]) == (1.0, [], "intact")
                assert verified["decisive"] == ["is_fruit('apple')", "is_fruit('saw')"]
            known = [{"call": "kind('a')", "value": "letter"}]
            program = {"program": "answer = [kind(x) for x in xs]", "values": known, "inputs": {"xs": ["a"]}}
            assert (await ran(client, "run_program", **program))["value"] == ["letter"]
            assert (await ran(client, "run_program", program="answer = is_fruit('apple')"))["value"] is True
            failed = await ran(client, "run_program", program="x = 1\nanswer = 1 / 0")
            assert (failed["reason"], failed["error"]) == ("error", "line 2: division by zero")
            # The call is a run like any other: stored, listed and counted.
            run = server.run(data["trace"])
            assert (run["state"], run["answer"], run["question"], run["method"]) == ("done", "1", FRUIT, "coc")
            listed = server.client.get("/api/runs").json()["runs"]
            assert [run["method"] for run in listed[:4]] == ["run", "run", "run", "coc"]
            assert server.client.get(f"/api/runs/{data['trace']}/trace").text == text

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_invalid_arguments_are_reported(server: Serving, mode: str) -> None:
    reads = json.dumps({"event": "trace", "version": 1, "python": "3.12.1", "settings": {"reads": ["/etc"]}})
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("solve", {}, "question"),
        ("solve", {"question": " "}, "a question has 1 to 100,000 characters"),
        ("solve", {"question": FRUIT, "method": "magic"}, "unknown method 'magic'"),
        ("solve", {"question": FRUIT, "answer_type": "/etc/passwd"}, "expected one such as int"),
        ("solve", {"question": "Unheard"}, "no reply left"),
        ("run_program", {"program": "answer = 1", "values": [{"call": 3}]}, "expected"),
        ("run_program", {"program": "answer = 1", "inputs": {"a b": 1}}, "must have the name of a variable"),
        ("verify", {"id": "nope"}, "there is no run 'nope'"),
        ("verify", {"trace": "nonsense"}, "this is not a trace"),
        ("verify", {"trace": reads}, "granted reads"),
    ]

    async def main() -> None:
        async with connected(server, mode) as client:
            for name, given, message in cases:
                result = await client.call_tool(name, given)
                assert result.is_error, (name, given)
                assert message in result.content[0].text, (name, given)  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="there is no run 'nope'"):
                await client.read_resource("trace://nope")

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_cancelling_a_call_ends_the_run_and_its_guest(server: Serving, mode: str) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            started.set()

        async with connected(server, mode) as client:
            call = asyncio.create_task(
                client.call_tool("run_program", {"program": LOOP}, progress_callback=on_progress)
            )
            await asyncio.wait_for(started.wait(), 60)
            pid = server.process.pid
            await until(lambda: "zygote" in command_of(busiest(pid)[0]) and busiest(pid)[1] > 50)
            guest, _ = busiest(pid)
            (id,) = [run["id"] for run in server.client.get("/api/runs").json()["runs"] if run["state"] == "running"]
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            await until(lambda: not is_alive(guest))
            await until(lambda: server.run(id)["state"] == "cancelled")
            assert (await ran(client, "run_program", program="answer = 2"))["value"] == 2

    asyncio.run(main())


def test_concurrent_clients_see_only_their_own_runs(server: Serving) -> None:
    async def run_as(token: str, mode: str, number: int) -> str:
        async with connected(server, mode, token) as client:
            program = f"import time\ntime.sleep(1)\nanswer = {number}"
            done = await ran(client, "run_program", program=program)
            assert done["value"] == number
            return str(done["trace"])

    async def main() -> None:
        began = time.monotonic()
        ids = await asyncio.gather(
            *(run_as(*client_options, n) for n, client_options in enumerate([(TOKEN, "auto"), (OTHER, "legacy")]))
        )
        assert time.monotonic() - began < 60
        async with connected(server, token=OTHER) as client:
            result = await client.call_tool("verify", {"id": ids[0]})
            assert result.is_error and "there is no run" in result.content[0].text  # type: ignore[union-attr]
            assert (await ran(client, "verify", id=ids[1]))["replays"]
            assert (await ran(client, "verify", trace=f"trace://{ids[1]}"))["replays"]
        assert server.client.get(f"/api/runs/{ids[1]}").status_code == 404

    asyncio.run(main())


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def test_requests_without_a_valid_token_are_rejected(server: Serving) -> None:
    bare = httpx.Client(base_url=server.url, headers=ACCEPT, timeout=60)
    for value in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        for method in ("POST", "GET", "DELETE"):
            reply = bare.request(method, "/mcp", json=HELLO, headers={"authorization": value})
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer"), (method, value)

    async def main(token: str) -> None:
        async with connected(server, token=token) as client:
            await client.list_tools()

    for token in ("", "wrong"):
        seen = len(server.log)
        with pytest.raises(BaseExceptionGroup) as refused:
            asyncio.run(main(token))
        assert "MCPError" in repr(refused.value)
        requests = [line for line in server.log[seen:] if line["event"] == "request"]
        assert requests and {line["status"] for line in requests} == {401}


def test_session_belongs_to_the_token_that_opened_it(server: Serving) -> None:
    begun = server.client.post("/mcp", json=HELLO, headers=ACCEPT)
    assert begun.status_code == 200
    session = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    other = {"authorization": f"Bearer {OTHER}"}
    assert server.client.post("/mcp", json=listing, headers={**session, **other}).status_code == 404
    assert server.client.post("/mcp", json=listing, headers=session).status_code == 200
    assert server.client.delete("/mcp", headers={**session, **other}).status_code == 404
    assert server.client.delete("/mcp", headers=session).status_code == 200
    assert server.client.post("/mcp", json=listing, headers=session).status_code == 404


def test_limit_on_sessions_is_per_token(tmp_path: Path) -> None:
    with served(tmp_path, "--token", TOKEN, "--token", f"ann={OTHER}", token=TOKEN) as server:
        ann = {**ACCEPT, "authorization": f"Bearer {OTHER}"}
        opened = [server.client.post("/mcp", json=HELLO, headers=ACCEPT).status_code for _ in range(510)]
        assert (opened[0], opened[-1]) == (200, 503)
        assert server.client.post("/mcp", json=HELLO, headers=ann).status_code == 200


def test_invalid_http_requests_are_rejected(server: Serving) -> None:
    post = server.client.post
    assert post("/mcp", json=HELLO, headers={**ACCEPT, "host": "evil.example"}).status_code == 421
    assert post("/mcp", json=HELLO, headers={**ACCEPT, "origin": "https://evil.example"}).status_code == 403
    huge = {**HELLO, "params": {"x": "x" * 5_000_000}}
    assert post("/mcp", json=huge, headers=ACCEPT).status_code == 413
    assert post("/mcp", json=HELLO, headers={"accept": "text/plain"}).status_code == 406
    assert server.client.put("/mcp", json=HELLO, headers=ACCEPT).status_code == 405

    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 100_000

    with contextlib.suppress(httpx.TransportError):  # the server hung up while the body was being sent
        kind = {**ACCEPT, "content-type": "application/json"}
        assert post("/mcp", content=chunks(), headers=kind).status_code == 413


def test_queue_and_rate_limits_apply(tmp_path: Path) -> None:
    with served(tmp_path, "--runs", "1", "--queue", "0", "--rate", "40") as server:

        async def main() -> None:
            async with connected(server) as client:
                id = server.client.post("/api/runs", json={"program": LOOP}).json()["id"]
                result = await client.call_tool("run_program", {"program": "answer = 1"})
                assert result.is_error and "too many runs" in result.content[0].text  # type: ignore[union-attr]
                server.client.post(f"/api/runs/{id}/cancel")

        asyncio.run(main())
        for _ in range(40):
            server.client.get("/api/info")
        assert server.client.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 429


def test_budget_applies_to_tools(tmp_path: Path) -> None:
    from endpoint import serving

    reply = {
        "choices": [{"message": {"content": "```python\nanswer = 6 * 7\n```"}}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 50},
    }
    with serving(reply) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        with served(tmp_path, "--budget", "tokens=100", model="openai:m") as server:

            async def main() -> None:
                async with connected(server) as client:
                    assert (await ran(client, "solve", question="What is 6 times 7?"))["value"] == 42
                    result = await client.call_tool("solve", {"question": "Again?"})
                    assert result.is_error and "budget" in result.content[0].text  # type: ignore[union-attr]

            asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_drain_lets_calls_finish_and_ends_sessions(tmp_path: Path, mode: str) -> None:
    with served(tmp_path) as server:

        async def main() -> tuple[dict[str, Any], float]:
            async with connected(server, mode) as client:
                await (
                    client.list_tools()
                )  # otherwise the client lists them after the call, to check the schema of the result
                program = "import time\ntime.sleep(3)\nanswer = 'rested'"
                call = asyncio.create_task(ran(client, "run_program", program=program))
                await until(lambda: any(run["state"] == "running" for run in listed(server)))
                began = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                done = await call
                assert await asyncio.to_thread(server.process.wait, 60) == 0
                return done, time.monotonic() - began

        done, seconds = asyncio.run(main())
        assert done["value"] == "rested"
        assert seconds < 15  # a stream that stays open would take 40
    with served(tmp_path) as server:
        assert server.run(done["trace"])["answer"] == "rested"


def listed(server: Serving) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = server.client.get("/api/runs").json()["runs"]
    return runs


def test_drain_has_a_time_limit(tmp_path: Path) -> None:
    with served(tmp_path, "--drain", "1") as server:

        async def main() -> Any:
            async with connected(server, "legacy") as client:
                await client.list_tools()
                call = asyncio.create_task(client.call_tool("run_program", {"program": LOOP}))
                await until(lambda: any(run["state"] == "running" for run in listed(server)))
                guests = descendants(server.process.pid)
                server.process.send_signal(signal.SIGTERM)
                result = await call
                assert await asyncio.to_thread(server.process.wait, 30) == 0
                assert not any(map(is_alive, guests))
                return result

        result = asyncio.run(main())
        assert result.is_error and "interrupted" in result.content[0].text


def test_info_has_the_path_of_the_endpoint(server: Serving) -> None:
    assert server.client.get("/api/info").json()["mcp"] == "/mcp"
    assert "mcp unavailable" not in [line["event"] for line in server.log]


def test_server_without_the_mcp_extra(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{hidden}:{os.environ.get('PYTHONPATH', '')}")
        with served(tmp_path) as server:
            assert server.client.get("/api/info").json()["mcp"] is None
            assert server.client.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 404
            assert [line["event"] for line in server.log].count("mcp unavailable") == 1
            assert server.over(server.begin())["answer"] == "1"


# A machine where the package was never installed.
HIDING = """
import sys
from importlib.machinery import PathFinder


class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in ("mcp", "mcp_types") else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


def test_large_answer_is_only_in_the_trace(server: Serving) -> None:
    """The SDK copies each part of it, several times, in the event loop."""

    async def main() -> None:
        async with connected(server) as client:
            data = await ran(client, "run_program", program="answer = [[] for _ in range(100_000)]")
            assert (data["reason"], data["value"]) == ("answered", None)
            run = server.run(data["trace"])
            assert run["answer"].startswith("[[], []")

    asyncio.run(main())


@pytest.mark.parametrize("part", ["[]", "{}", "1,1,1,1"])
def test_body_with_too_many_parts_is_rejected(server: Serving, part: str) -> None:
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":[' + ",".join([part] * 200_000) + "]}}"
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    reply = server.client.post("/mcp", content=body, headers=headers)
    assert (reply.status_code, reply.json()["error"]["type"]) == (413, "too_large")
