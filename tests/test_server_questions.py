"""Calls that wait for a person, over the API: they survive restarts; only their owner can answer them, and only once."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from serving import Serving, served
from test_server_resume import refused, trace_of

from chainofcode import Trace
from chainofcode.audit import replay

TOKENS = {"ann": "a" * 20, "bob": "b" * 20}
PROGRAM = """def approve_payment(amount: int) -> bool: ...
paid = [amount for amount in (10, 20) if approve_payment(amount)]
label = note(paid)
answer = f'{label}: {paid}'"""
SCRIPT = [
    {"when": "call: note(", "reply": '"paid"'},
    {"when": "Pay", "reply": f"```python\n{PROGRAM}\n```"},
    {"when": "approve_payment", "reply": "true"},
]


def options() -> list[str]:
    return [part for name, secret in TOKENS.items() for part in ("--token", f"{name}={secret}")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with served(tmp_path, *options(), "--runs", "1", token=TOKENS["ann"], script=SCRIPT) as server:
        yield server


def begin(server: Serving, program: str = PROGRAM, ask_me: str = "approve_.*", **more: Any) -> str:
    body = {"program": program, "ask_me": ask_me, **more}
    reply = server.client.post("/api/runs", json=body)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def questions(server: Serving, run: str | None = None) -> list[dict[str, Any]]:
    reply = server.client.get("/api/questions", params={} if run is None else {"run": run})
    found: list[dict[str, Any]] = reply.json()["questions"]
    return found


def question(server: Serving, run: str) -> dict[str, Any]:
    server.until(run, "waiting")
    (pending,) = questions(server, run)
    return pending


def answer(server: Serving, pending: dict[str, Any], **body: Any) -> httpx.Response:
    return server.client.post(f"/api/questions/{pending['id']}", json=body)


def test_a_call_waits_for_a_person(server: Serving) -> None:
    id = begin(server, model=f"scripted:{server.directory}/script.jsonl")
    pending = question(server, id)
    assert pending.keys() == {"id", "run", "call", "type", "wants", "line", "asked"}
    facts = (pending["run"], pending["call"], pending["type"], pending["line"])
    assert facts == (id, "approve_payment(10)", "bool", 2) and "true or false" in pending["wants"]
    assert server.events(id)[-1]["data"] == {"state": "waiting"}
    done = answer(server, pending, value=False)
    assert (done.status_code, done.json()["id"]) == (202, id)
    while (pending := question(server, id))["call"] == "approve_payment(10)":
        time.sleep(0.05)
    assert pending["call"] == "approve_payment(20)"
    assert answer(server, pending, text="yes").status_code == 202
    run = server.over(id)
    assert (run["answer"], run["ask_me"], questions(server)) == ("paid: [20]", "approve_.*", [])
    trace = Trace.read(trace_of(server, id))
    steps = {step.call: (step.value, step.model) for step in trace.steps if step.call}
    assert steps["approve_payment(10)"] == (False, "you") and steps["approve_payment(20)"] == (True, "you")
    assert replay(trace).is_same


def test_a_question_for_a_model_has_calls_for_a_person(server: Serving) -> None:
    id = server.begin("Pay the bills.", ask_me="approve_payment")
    for value in (True, True):
        assert answer(server, question(server, id), value=value).status_code == 202
        server.until(id, "waiting", "done")
    run = server.over(id)
    assert (run["answer"], run["usage"]["requests"]) == ("paid: [10, 20]", 2)  # one for the program, one for the note


def test_waiting_runs_do_not_occupy_slots(server: Serving) -> None:
    waiting = [begin(server) for _ in range(3)]
    for id in waiting:
        server.until(id, "waiting")
    assert server.over(begin(server, "answer = 1", ask_me="other"))["answer"] == "1"  # with --runs 1
    assert [one["run"] for one in questions(server)] == waiting
    seconds = server.run(waiting[0])["seconds"]
    time.sleep(2)
    pending = question(server, waiting[0])
    answer(server, pending, value=False)
    server.until(waiting[0], "waiting")
    assert server.run(waiting[0])["seconds"] - seconds < 2  # without the two seconds of waiting


def test_quick_answer_reaches_the_running_process(server: Serving) -> None:
    id = begin(server, "answer = [approve_first(), approve_second()]")
    for _ in range(2):
        while not (pending := questions(server, id)):
            time.sleep(0.01)
        assert answer(server, pending[0], value=1).status_code == 202
    run = server.over(id)
    assert (run["value"], run["resumed"]) == ([1, 1], 0)


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_questions_survive_a_restart(tmp_path: Path, kind: signal.Signals) -> None:
    model = f"scripted:{tmp_path}/script.jsonl"
    with served(tmp_path, script=SCRIPT) as server:
        ids = [begin(server, model=model) for _ in range(2)]
        for id in ids:
            while not questions(server, id):
                time.sleep(0.01)
        server.stop(kind)  # SIGKILL ends the runs, too; SIGTERM drains them first
    with served(tmp_path, "--resume", script=SCRIPT) as server:
        time.sleep(1)
        assert [server.run(id)["state"] for id in ids] == ["waiting", "waiting"]
        for value in (True, False):
            assert answer(server, question(server, ids[0]), value=value).status_code == 202
            server.until(ids[0], "waiting", "done")
        assert server.over(ids[0])["answer"] == "paid: [10]"
        assert server.run(ids[1])["state"] == "waiting"


def test_answers_that_do_not_fit_are_refused(server: Serving) -> None:
    program = "def approve_amount(n: int) -> int: ...\nanswer = approve_amount(1) + 1"
    id = begin(server, program)
    pending = question(server, id)
    for body in ({"value": "many"}, {"text": "many"}, {"text": ""}, {"value": [1]}, {"value": None}):
        assert "expected a whole number" in refused(answer(server, pending, **body), 400, "invalid_request"), body
    for body in ({}, {"value": 1, "text": "1"}, {"text": 1}, {"valu": 1}, {"text": "1" * 30_000}):
        refused(answer(server, pending, **body), 400, "invalid_request")
    refused(server.client.post(f"/api/questions/{pending['id']}", content=b"1"), 415, "unsupported_media_type")
    refused(server.client.get("/api/questions", params={"run": "x"}), 400, "invalid_request")
    assert (server.run(id)["state"], questions(server)) == ("waiting", [pending])
    assert answer(server, pending, value=41).status_code == 202
    assert server.over(id)["answer"] == "42"


def test_text_answers_are_unrestricted(server: Serving) -> None:
    id = begin(
        server, "def approve_text() -> str: ...\ndef approve_any(): ...\nanswer = [approve_text(), approve_any()]"
    )
    text = 'true\n{"value": 1} <b>'
    answer(server, question(server, id), value=text)
    while question(server, id)["call"] != "approve_any()":
        time.sleep(0.05)
    answer(server, question(server, id), value={"value": {"$set": [1]}})
    assert server.over(id)["value"] == [text, {"value": {"$set": [1]}}]


def test_a_question_is_answered_once_and_by_its_owner(server: Serving) -> None:
    program = "answer = [approve(1)]"
    id = begin(server, program, ask_me="approve")
    pending = question(server, id)
    with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {TOKENS['bob']}"}) as bob:
        assert bob.get("/api/questions").json() == {"questions": []}
        assert bob.get("/api/questions", params={"run": id}).json() == {"questions": []}
        refused(bob.post(f"/api/questions/{pending['id']}", json={"value": 1}), 404, "not_found")
    assert answer(server, pending, value=1).status_code == 202
    refused(answer(server, pending, value=2), 409, "answered")
    assert server.over(id)["value"] == [1]
    refused(answer(server, pending, value=2), 404, "not_found")  # removed when the run ended


def test_a_run_that_waits_can_be_cancelled_and_resumed(server: Serving) -> None:
    id = begin(server, "answer = approve()", ask_me="approve")
    pending = question(server, id)
    assert "waits for an answer" in refused(server.client.post(f"/api/runs/{id}/resume"), 409, "not_over")
    refused(server.client.delete(f"/api/runs/{id}"), 409, "not_over")
    assert server.client.post(f"/api/runs/{id}/cancel").json()["state"] == "cancelled"
    assert (server.run(id)["state"], questions(server)) == ("cancelled", [])
    assert "no longer waiting" in refused(answer(server, pending, value=1), 409, "over")
    assert server.client.post(f"/api/runs/{id}/resume").status_code == 202
    assert question(server, id) == pending  # the same question, not another one
    answer(server, pending, value=1)
    assert server.over(id)["answer"] == "1"


def test_questions_are_removed_with_their_run(server: Serving) -> None:
    final, removed = begin(server, "answer = 1"), begin(server, "answer = approve()", ask_me="approve")
    server.over(final)
    question(server, removed)
    assert rows(server, "requests") == rows(server, "questions") == [removed]
    server.client.post(f"/api/runs/{removed}/cancel")
    assert rows(server, "requests") == [removed]
    assert server.client.delete(f"/api/runs/{removed}").status_code == 204
    assert rows(server, "requests") == rows(server, "questions") == []


def rows(server: Serving, table: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(server.directory / "data" / "runs.sqlite")) as database:
        return [row[0] for row in database.execute(f"SELECT run FROM {table}")]


def test_run_whose_answer_came_before_a_kill_is_resumed(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        id = begin(server, "answer = approve()", ask_me="approve")
        pending = question(server, id)
        server.stop(signal.SIGKILL)
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "runs.sqlite")) as database:
        database.execute(
            "UPDATE questions SET answer = '5' WHERE id = ?", (pending["id"],)
        )  # but the run was not resumed
        database.commit()
    with served(tmp_path, "--resume") as server:
        assert server.until(id, "done")["answer"] == "5"


def test_model_values_are_requested_before_the_wait(server: Serving) -> None:
    model = f"scripted:{server.directory}/script.jsonl"
    id = begin(
        server,
        "import asyncio\nnotes = [note(n) for n in range(5)]\nanswer = [approve(), *notes]",
        "approve",
        model=model,
    )
    pending = question(server, id)
    before = Trace.read(trace_of(server, id))
    assert sum(len(call.answers) for call in before.calls) == 5
    answer(server, pending, value=0)
    run = server.over(id)
    assert (run["value"], run["usage"]["requests"]) == ([0, *["paid"] * 5], 5)


@pytest.mark.parametrize("pattern", ["(a+)+b", "", "approve(", "a" * 501, "[a-z]", "a b", "a.*b.*c"])
def test_patterns_that_are_refused(server: Serving, pattern: str) -> None:
    reply = server.client.post("/api/runs", json={"program": "answer = 1", "ask_me": pattern})
    assert "ask_me must be names of functions" in refused(reply, 400, "invalid_request")


def test_a_value_of_the_request_needs_no_person(server: Serving) -> None:
    id = begin(server, "answer = approve(1)", ".*", values=[{"call": "approve(1)", "value": 7}])
    assert server.over(id)["answer"] == "7"


def test_a_call_that_is_too_long_for_a_person(server: Serving) -> None:
    run = server.over(begin(server, "answer = approve('x' * 30_000)", "approve"))
    assert (run["state"], run["reason"]) == ("done", "emulation failed")
    assert "a call that waits for a person can have at most 20,000 characters" in run["error"]["message"]
    assert questions(server) == []
