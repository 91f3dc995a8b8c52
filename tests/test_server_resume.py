"""Resumed runs of a server: no request is sent or paid for twice, and the trace replays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("openai", reason="the extra `openai` is not installed")

from endpoint import Endpoint, Server
from serving import Serving, served

from chainofcode import InputError, Trace, run
from chainofcode.audit import check_chain, replay
from chainofcode.server.continuation import Continuation
from chainofcode.server.trace_files import TraceWriter
from chainofcode.server.trace_reader import TraceReader
from chainofcode.trace import Call, Step

PROGRAM = "answer = sum(bool(is_good(n)) for n in range(200))"
THREADS = """
from concurrent.futures import ThreadPoolExecutor
def judged(n):
    return bool(is_good(n)) + bool(is_good(n + 100))
with ThreadPoolExecutor(4) as pool:
    answer = sum(pool.map(judged, range(20)))
"""
QUESTION = "How many of the numbers are good?"


class Counting:
    """An OpenAI-compatible endpoint that writes the program, answers its calls, and hangs after `most` requests."""

    def __init__(self, most: int) -> None:
        self.prompts, self.most, self.url = list[str](), most, ""

    def reply(self, text: str) -> bytes:
        self.prompts.append(text)
        if len(self.prompts) > self.most:
            time.sleep(60)
        call = re.search(r"call: is_good\((\d+)\)", text)
        content = f"```python\n{PROGRAM}\n```" if call is None else json.dumps({"value": int(call[1]) % 2 == 0})
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        return json.dumps({"choices": [{"message": {"content": content}}], "usage": usage}).encode()

    def begin_again(self, most: int) -> None:
        """Forget the prompts so far, once the last requests of a killed server have arrived."""
        known = -1
        while known != len(self.prompts):
            known = len(self.prompts)
            time.sleep(0.5)
        self.most, self.prompts = most, []


@contextlib.contextmanager
def counting(most: int = 10**6) -> Iterator[Counting]:
    model = Counting(most)

    class Handler(Endpoint):
        def act(self, body: dict[str, Any]) -> None:
            with contextlib.suppress(OSError):  # the client may be gone
                self.reply(200, model.reply(body["messages"][-1]["content"]))

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    with counting() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield model


def trace_of(server: Serving, id: str) -> Path:
    return server.directory / "data" / "traces" / f"{id}.jsonl"


def values_in(path: Path) -> int:
    return path.read_bytes().count(b'"answers":{') if path.exists() else 0


def kill_after(server: Serving, id: str, values: int) -> None:
    """Kill the server when the trace has this many values."""
    deadline = time.monotonic() + 60
    while values_in(trace_of(server, id)) < values and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert values_in(trace_of(server, id)) == values


def refused(reply: httpx.Response, status: int, kind: str) -> str:
    assert (reply.status_code, reply.json()["error"]["type"]) == (status, kind), reply.text
    return str(reply.json()["error"]["message"])


def resumed(server: Serving, id: str, **body: Any) -> dict[str, Any]:
    reply = server.client.post(f"/api/runs/{id}/resume", json=body)
    assert (reply.status_code, reply.json()["id"]) == (202, id), reply.text
    return server.over(id)


# --- after a crash ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", ["by itself", "over the API"])
@pytest.mark.parametrize("body", [{"program": PROGRAM}, {"question": QUESTION}], ids=["program", "question"])
def test_server_killed_at_call_150_requests_only_the_other_50(
    tmp_path: Path, endpoint: Counting, body: dict[str, str], way: str
) -> None:
    written = "question" in body  # by the model, in one more request
    endpoint.most = 150 + written
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json={**body, "model": "openai:m"}).json()["id"]
        kill_after(server, id, 150)
    endpoint.begin_again(most=10**6)
    options = ["--resume"] if way == "by itself" else []
    with served(tmp_path, *options, model="openai:m") as server:
        if way == "over the API":
            assert server.run(id)["state"] == "interrupted"
            done = resumed(server, id)
        else:
            done = server.until(id, "done", "failed")
        assert (done["state"], done["answer"], done["resumed"]) == ("done", "100", 1)
        assert len(endpoint.prompts) == len(set(endpoint.prompts)) == 50
        assert done["usage"]["requests"] == 200 + written
        assert done["usage"]["prompt_tokens"] == 10 * (200 + written)
        path = trace_of(server, id)
        trace = Trace.read(path)
        assert len({call.prompt for call in trace.calls}) == len(trace.calls) == 200 + written
        assert [step.number for step in trace.steps] == list(range(1, len(trace.steps) + 1))
        assert check_chain(path).state == "intact"
        assert replay(trace).is_same
        streamed = server.events(id)
        assert [event.get("id") for event in streamed] == list(range(len(trace.events) + 2))


@pytest.mark.nightly
def test_a_resumed_run_that_is_killed_again_loses_nothing(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 60
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        kill_after(server, id, 60)
    endpoint.begin_again(most=30)
    with served(tmp_path, "--resume", model="openai:m") as server:
        kill_after(server, id, 90)
    endpoint.begin_again(most=10**6)
    with served(tmp_path, "--resume", model="openai:m") as server:
        done = server.until(id, "done", "failed")
        assert (done["answer"], done["resumed"], len(endpoint.prompts)) == ("100", 2, 110)
        assert replay(Trace.read(trace_of(server, id))).is_same


@pytest.mark.nightly
def test_threads_are_resumed_in_another_order(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 13
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json={"program": THREADS, "model": "openai:m"}).json()["id"]
        kill_after(server, id, 13)
    endpoint.begin_again(most=10**6)
    with served(tmp_path, "--resume", model="openai:m") as server:
        done = server.until(id, "done", "failed")
        assert (done["answer"], len(endpoint.prompts), done["usage"]["requests"]) == ("20", 27, 40)
        trace = Trace.read(trace_of(server, id))
        assert len({call.prompt for call in trace.calls}) == len(trace.calls) == 40
        calls = [step.call for step in trace.steps if step.call]
        assert len(calls) == len(set(calls)) == 40
        assert [step.number for step in trace.steps] == list(range(1, len(trace.steps) + 1))
        assert check_chain(trace_of(server, id)).state == "intact"


def test_attached_run_is_not_resumed_automatically(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 5
    with served(tmp_path, model="openai:m") as server:
        body = {"program": PROGRAM, "model": "openai:m", "detach": False}
        left = server.client.post("/api/runs", json=body).json()["id"]
        kept = server.client.post("/api/runs", json={**body, "detach": True}).json()["id"]
        server.until(kept, "running")
        server.stop(signal.SIGKILL)
    endpoint.most = 10**6
    with served(tmp_path, "--resume", model="openai:m") as server:
        assert server.until(kept, "done", "failed")["answer"] == "100"
        assert server.run(left)["state"] == "interrupted"
        assert resumed(server, left)["answer"] == "100"  # but on request


def test_runs_without_any_value_are_resumed(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 0
    with served(tmp_path, "--runs", "1", model="openai:m") as server:
        ids = [
            server.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
            for _ in range(3)
        ]
        assert [server.until(ids[0], "running")["state"], server.run(ids[2])["state"]] == ["running", "queued"]
        server.stop(signal.SIGKILL)
    endpoint.begin_again(most=10**6)
    with served(tmp_path, "--resume", model="openai:m") as server:
        assert [server.until(id, "done", "failed")["answer"] for id in ids] == ["100"] * 3
        assert len(endpoint.prompts) == 600


# --- without a crash ----------------------------------------------------------------------------------------------


def test_cancelled_run_is_resumed(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 40
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json={"question": QUESTION, "model": "openai:m"}).json()["id"]
        while values_in(trace_of(server, id)) < 39:
            time.sleep(0.02)
        server.client.post(f"/api/runs/{id}/cancel")
        before = Trace.read(trace_of(server, id))
        abandoned = [call for call in before.calls if call.is_abandoned]
        assert server.run(id)["state"] == "cancelled" and abandoned
        endpoint.begin_again(most=10**6)
        assert resumed(server, id)["answer"] == "100"
        assert len(endpoint.prompts) == 161
        trace = Trace.read(trace_of(server, id))
        assert [call for call in trace.calls if call.is_abandoned] == abandoned  # they may have a cost
        assert replay(trace).is_same


@pytest.mark.nightly
def test_run_is_resumed_under_a_higher_limit(tmp_path: Path, endpoint: Counting) -> None:
    with served(tmp_path, "--limit", "calls=60", model="openai:m") as server:
        id = server.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        assert server.over(id)["reason"] == "limit:calls"
        count = len(endpoint.prompts)
        assert resumed(server, id)["reason"] == "limit:calls"  # as before
        assert len(endpoint.prompts) == count
    with served(tmp_path, model="openai:m") as server:
        assert resumed(server, id)["answer"] == "100"
        assert len(endpoint.prompts) == len(set(endpoint.prompts)) == 200
        trace = Trace.read(trace_of(server, id))
        assert not trace.settings.get("limits")  # the trace has the limits under which it replays
        assert replay(trace).is_same


def test_run_is_resumed_with_a_new_budget(tmp_path: Path, endpoint: Counting) -> None:
    with served(tmp_path, "--budget", "tokens=500", model="openai:m") as server:
        id = server.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        assert server.over(id)["reason"] == "limit:tokens"
        count = len(endpoint.prompts)
        message = refused(server.client.post(f"/api/runs/{id}/resume"), 429, "insufficient_quota")
        assert "the budget of 500 tokens a day is spent" in message
        assert (server.run(id)["state"], len(endpoint.prompts)) == ("done", count)
    with served(tmp_path, model="openai:m") as server:
        assert resumed(server, id)["answer"] == "100"
        assert len(endpoint.prompts) == 200


def test_values_and_inputs_of_the_request_are_kept(tmp_path: Path, endpoint: Counting) -> None:
    program = "known = price('fig')\nanswer = [known, *[is_good(n) for n in numbers]]"
    values = [{"call": "price('fig')", "value": {"$tuple": [1, 2]}}]
    body = {"program": program, "values": values, "inputs": {"numbers": [1, 2, 3]}, "model": "openai:m"}
    endpoint.most = 2
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json=body).json()["id"]
        kill_after(server, id, 2)
    endpoint.begin_again(most=10**6)
    with served(tmp_path, model="openai:m") as server:
        assert resumed(server, id)["value"] == [{"$tuple": [1, 2]}, False, True, False]
        assert len(endpoint.prompts) == 1


# --- what cannot be resumed ---------------------------------------------------------------------------------------


def test_bad_requests_are_refused(tmp_path: Path, endpoint: Counting) -> None:
    tokens = {"ann": "a" * 20, "bob": "b" * 20}
    options = [part for name, secret in tokens.items() for part in ("--token", f"{name}={secret}")]
    endpoint.most = 0
    with served(tmp_path, *options, token=tokens["ann"], model="openai:m") as server:
        post = server.client.post
        id = post("/api/runs", json={"program": "answer = 1"}).json()["id"]
        server.over(id)
        assert "nothing is left to do: the run ended (answered)" in refused(
            post(f"/api/runs/{id}/resume"), 409, "nothing_left"
        )
        failed = post("/api/runs", json={"program": "1 / 0"}).json()["id"]
        server.over(failed)
        refused(post(f"/api/runs/{failed}/resume"), 409, "nothing_left")
        again = post(f"/api/runs/{id}/replay", json={}).json()["id"]
        server.over(again)
        refused(post(f"/api/runs/{again}/resume"), 409, "nothing_left")
        slow = post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        server.until(slow, "running")
        refused(post(f"/api/runs/{slow}/resume"), 409, "not_over")
        post(f"/api/runs/{slow}/cancel")
        bob = httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {tokens['bob']}"})
        with bob:
            refused(bob.post(f"/api/runs/{slow}/resume"), 404, "not_found")
        refused(post(f"/api/runs/{slow}/resume", json={"model": "openai:other"}), 404, "model_not_found")
        refused(post(f"/api/runs/{slow}/resume", json={"program": "answer = 2"}), 400, "invalid_request")
        refused(post(f"/api/runs/{'0' * 24}/resume"), 404, "not_found")
        assert server.run(slow)["state"] == "cancelled"


@pytest.mark.nightly
def test_a_trace_of_another_program(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 5
    with served(tmp_path, model="openai:m") as server:
        ids = []
        for program in (PROGRAM, f"first = 1\n{PROGRAM}"):
            ids.append(server.client.post("/api/runs", json={"program": program, "model": "openai:m"}).json()["id"])
            while not (path := trace_of(server, ids[-1])).exists() or b'"event":"program"' not in path.read_bytes():
                time.sleep(0.02)
        server.stop(signal.SIGKILL)
        first, second = (trace_of(server, id) for id in ids)
    swapped = first.read_bytes()
    first.write_bytes(second.read_bytes())
    endpoint.begin_again(most=10**6)
    with served(tmp_path, model="openai:m") as server:
        done = resumed(server, ids[0])
        assert done["state"] == "failed" and "the trace is of another program" in done["error"]["message"]
        assert endpoint.prompts == []
        trace_of(server, ids[0]).write_bytes(b"{")
        refused(server.client.post(f"/api/runs/{ids[0]}/resume"), 422, "cannot_follow")
        trace_of(server, ids[0]).write_bytes(swapped)
        assert resumed(server, ids[0])["answer"] == "100"


@pytest.mark.nightly
def test_two_requests_to_resume_one_run(tmp_path: Path, endpoint: Counting) -> None:
    endpoint.most = 50
    with served(tmp_path, model="openai:m") as server:
        id = server.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        kill_after(server, id, 50)
    endpoint.begin_again(most=10**6)
    with served(tmp_path, model="openai:m") as server:
        replies: list[int] = []

        def resume() -> None:
            replies.append(httpx.post(f"{server.url}/api/runs/{id}/resume", timeout=60).status_code)

        threads = [threading.Thread(target=resume) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(replies) == [202, *[409] * 7]
        assert server.over(id)["answer"] == "100"
        assert len(endpoint.prompts) == 150


# --- units --------------------------------------------------------------------------------------------------------


def test_different_step_drops_recorded_steps_but_no_request() -> None:
    trace = run("a = is_good(1)\nb = is_good(2)\nanswer = a + b", {"is_good(1)": 1, "is_good(2)": 2}).trace
    program, first, *rest = trace.events
    paid = Call(prompt="p", reply="r", answers={"is_good(2)": 2})
    trace.events = [program, first, paid, *rest[:-1]]
    continued = Continuation(trace)
    assert continued.is_recorded(trace.header) and continued.is_recorded(program) and continued.is_recorded(first)
    new = Call(prompt="new", reply="r")
    assert not continued.is_recorded(new) and not continued.has_diverged
    other = Step(number=2, by="lm", statement=9, line=9, call="other()")
    assert not continued.is_recorded(other) and continued.has_diverged
    continued.part()
    assert continued.events == [program, first, paid, new]
    assert continued.is_recorded(paid) and not continued.is_recorded(rest[0])


def test_another_program_is_refused() -> None:
    trace = run("answer = is_good(1)", {"is_good(1)": 1}).trace
    trace.events = trace.events[:-1]
    continued = Continuation(trace)
    with pytest.raises(InputError, match="the trace is of another program"):
        continued.is_recorded(run("answer = 2").trace.events[0])


def test_reader_continues_in_a_replaced_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = TraceWriter(path)
    for number in range(3):
        writer.append({"n": number})
    reader = TraceReader(path)
    assert len(asyncio.run(reader.batch())) == 3
    replaced = TraceWriter.replacing(path, [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}])
    replaced.append({"n": 4})
    assert [line[:6] for line in asyncio.run(reader.batch())] == [b'{"n":3', b'{"n":4']
    for file in (reader, writer, replaced):
        file.close()
    assert check_chain(path).state == "intact" and list(tmp_path.iterdir()) == [path]
