"""Worker processes of `coc serve`: they hold no secrets, use the server's sandbox, and end when their client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import pytest
from processes import children, command_of, is_alive, variables_of
from serving import FRUIT, Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode import run
from chainofcode.server.workers import Workers

T = TypeVar("T")
TOKEN = "the-token-of-ann-which-is-honest"
HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
AUDITOR, SCHEMA_CHECK = "chainofcode.server.auditor", "methods.conforming"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        options = ("--token", f"ann={TOKEN}", "--sandbox-at-least", "C", "--rate", "100000")
        with served(tmp_path_factory.mktemp("server"), *options, token=TOKEN) as server:
            yield server


def awaited(find: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + 30
    while not (found := find()):
        assert time.monotonic() < deadline, what
        time.sleep(0.005)
    return found


def test_an_auditor_has_no_secrets(server: Serving) -> None:
    (pid,) = awaited(lambda: children(server.process.pid, AUDITOR), "no auditor is ready")
    assert variables_of(pid) == ["PYTHONPATH"]
    for link in Path(f"/proc/{pid}/fd").iterdir():
        assert str(server.directory) not in str(link.resolve()), "the auditor has a file of the store open"


def test_auditors_run_in_the_lowest_allowed_tier(server: Serving) -> None:
    (pid,) = awaited(lambda: children(server.process.pid, AUDITOR), "no auditor is ready")
    assert command_of(pid).endswith("\0C+\0")


@pytest.mark.parametrize("sandbox", ["none", "auto"])
def test_an_auditor_uses_the_sandbox_that_it_is_given(tmp_path: Path, sandbox: str) -> None:
    """Only a program without a sandbox can see this directory."""
    trace = run(f"import os\nanswer = os.path.exists({str(tmp_path)!r})", sandbox="none").trace
    job = {"audit": "verify", "text": "\n".join(trace.lines()), "limits": {}, "scratch": False}

    async def replays() -> bool:
        found = msgspec.json.decode(await Workers(["ann"], 0, sandbox=sandbox).audited("ann", job))
        return bool(found["replays"])

    assert asyncio.run(replays()) == (sandbox == "none")


@contextlib.contextmanager
def stopped(find: Callable[[], list[int]]) -> Iterator[int]:
    """Suspend a process, so that it cannot end on its own; it must be gone at the end of the block."""
    (pid,) = awaited(find, "the process did not start")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
        awaited(lambda: not is_alive(pid), "the process was not killed")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("audit", ["why", "page"])
def test_an_audit_is_killed_when_its_client_leaves(server: Serving, audit: str) -> None:
    id = server.client.post("/api/runs", json={"program": "answer = 1"}).json()["id"]
    server.over(id)
    with stopped(lambda: children(server.process.pid, AUDITOR)) as pid:
        while is_alive(pid):  # a busy server may not have given it the job within a second
            with connected(server) as client:
                client.request("GET", f"/api/runs/{id}/{audit}", headers=HEADERS)
                with pytest.raises(TimeoutError):
                    client.getresponse()
            time.sleep(0.1)
    assert server.client.get(f"/api/runs/{id}/{audit}").status_code == 200


def test_a_schema_check_is_killed_when_its_client_leaves(server: Serving) -> None:
    pytest.importorskip("jsonschema", reason="the extra `schema` is not installed")
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "x"}}}
    body = {"model": "coc", "messages": [{"role": "user", "content": FRUIT}], "response_format": wanted}
    with connected(server) as client:
        client.request("POST", "/v1/chat/completions", json.dumps(body), HEADERS)
        with stopped(lambda: children(server.process.pid, SCHEMA_CHECK)):
            client.close()


def test_concurrent_schema_checks_are_limited(server: Serving) -> None:
    pytest.importorskip("jsonschema", reason="the extra `schema` is not installed")
    schema = {"type": "string", "pattern": "^(" + "(x+x+)+y|" * 3 + "z)$", "const": "x" * 40}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": "coc", "messages": [{"role": "user", "content": FRUIT}], "response_format": wanted}
    most = 0
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            client = stack.enter_context(connected(server))
            client.request("POST", "/v1/chat/completions", json.dumps(body), HEADERS)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            most = max(most, len(children(server.process.pid, SCHEMA_CHECK)))
            time.sleep(0.01)
    assert 1 <= most <= max(4, os.cpu_count() or 1)


def connected(server: Serving) -> contextlib.closing[HTTPConnection]:
    return contextlib.closing(HTTPConnection(urlsplit(server.url).netloc, timeout=1))
