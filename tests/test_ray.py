"""An evaluation on a cluster of several nodes, one of which is lost in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from endpoint import serving
from test_cli import coc

from chainofcode import ScriptedLM
from chainofcode.engine import RunOptions
from chainofcode.evals import EvalJob, Sample
from chainofcode.lm import Usage
from chainofcode.methods import Ways

COUNT = 30


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "script.jsonl"
    program = "import time\ntime.sleep(0.2)\nanswer = sum(range({n} + 1)) - sum(range({n}))"
    replies = [{"when": f"question {n}?", "reply": f"```python\n{program.format(n=n)}\n```"} for n in range(COUNT)]
    path.write_text("\n".join(map(json.dumps, replies)))
    return path


@pytest.mark.nightly
def test_a_lost_node_loses_nothing(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from chainofcode.evals.ray import Plan, run_on_ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setitem(os.environ, "RAY_DEDUP_LOGS", "0")
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=2)
    jobs = [
        EvalJob(Sample(f"q-{n}", f"What is question {n}?", targets=[n]), "coc", Ways(method="coc"))
        for n in range(COUNT)
    ]
    seen: list[str] = []
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        for score, trace in run_on_ray(jobs, Plan(f"scripted:{script}"), RunOptions(), workers=3):
            assert score.verdict == "right", score
            assert trace is not None
            seen.append(score.id)
            if len(seen) == 6:
                cluster.remove_node(node, allow_graceful=False)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert sorted(seen) == sorted(f"q-{n}" for n in range(COUNT))


@pytest.mark.nightly
def test_a_cluster_asks_the_model_as_this_machine_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key, address, rows, budget and requests a minute reach the workers; the key reaches no file."""
    pytest.importorskip("ray")
    pytest.importorskip("openai")
    key, questions, out = "k-9f3a77c1e5", tmp_path / "q.jsonl", tmp_path / "out"
    questions.write_text("\n".join(json.dumps({"question": f"What is {n}?", "target": 7}) for n in range(3)))
    program = "```python\nanswer = [f(x) for x in range(4)] and 7\n```"

    def act(server: Any) -> None:
        asked = str(server.seen[-1][1]["messages"][-1]["content"])
        text = '{"1": 1, "2": 2, "3": 3, "4": 4}' if "call 4:" in asked else "5" if "call:" in asked else program
        usage = {"prompt_tokens": 30, "completion_tokens": 20}
        server.reply(200, json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())

    with (
        serving(act) as server,
        tempfile.TemporaryDirectory(dir="/tmp", prefix="r") as place,
    ):  # sockets need short names
        monkeypatch.setenv("RAY_TMPDIR", place)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", key)
        plainly = ("--methods", "coc", "--repairs", "0", "--rows", "4", "--budget", "tokens=300", "--per-minute", "500")
        done = coc(
            "eval", questions, "--model", "openai:m", "--engine", "ray", *plainly, "--at-once", "1", "--out", out
        )
        written = [path for path in Path(place).rglob("*") if path.is_file()] + [*out.rglob("*.*")]
        assert done.returncode == 0, done.stderr
        assert "3 of 3 right" in done.stdout
        assert {headers["authorization"] for headers, _ in server.seen} == {f"Bearer {key}"}
        assert any("call 4: f(3)" in str(body["messages"][-1]["content"]) for _, body in server.seen)
        assert len(written) > 10
        assert [str(path) for path in written if path.is_file() and key.encode() in path.read_bytes()] == []


def plan(**more: Any) -> Any:
    pytest.importorskip("ray")
    from chainofcode.evals.ray import Plan, _Counter

    return _Counter(Plan("scripted:x", **more))


def used(**more: Any) -> bytes:
    return msgspec.msgpack.encode(Usage(1, **more))


def test_what_is_spent_is_counted_in_one_place() -> None:
    async def spend() -> None:
        counter = plan(tokens=100)
        assert await counter.begin(0) == ""
        await counter.end(0, used(prompt_tokens=60, completion_tokens=40))
        assert await counter.begin(1) == "tokens"
        counter = plan(dollars=1.0)
        assert await counter.begin(0) == ""
        await counter.end(0, used(dollars=None))  # nobody knows the price
        assert await counter.begin(1) == "money"

    asyncio.run(spend())


def test_requests_a_minute_and_at_once_are_held_back_for_all_workers() -> None:
    async def hold() -> None:
        counter = plan(per_minute=2)
        assert [await counter.begin(n) for n in range(2)] == ["", ""]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(2), 0.2)
        counter = plan(in_flight=1)
        await counter.begin(0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(1), 0.2)
        await counter.lose(0)  # what a lost worker held, others get
        assert await asyncio.wait_for(counter.begin(1), 1) == ""
        await counter.end(0, used())  # it was not lost after all
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(2), 0.2)

    asyncio.run(hold())


def test_a_request_that_is_given_up_while_it_waits_keeps_no_turn() -> None:
    """Calls that were sent ahead in vain are given up: their turns must not be taken for ever."""
    counter = plan(in_flight=1)
    from chainofcode.evals.ray import _Counted

    class Remote:
        """The counter as an actor's handle: what was begun there goes on, whoever waits for it."""

        def __getattr__(self, name: str) -> Any:
            method = getattr(counter, name)
            return SimpleNamespace(remote=lambda *given: asyncio.shield(asyncio.ensure_future(method(*given))))

    async def give_up() -> None:
        lm = _Counted(ScriptedLM(["a", "b"]), Remote(), 0)
        await counter.begin(1)
        waiting = asyncio.create_task(lm.complete([]))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await counter.end(1, used())
        (reply,) = await asyncio.wait_for(lm.complete([]), 2)
        assert reply.text == "a"

    asyncio.run(give_up())


@pytest.mark.nightly
def test_a_model_that_cannot_be_had_ends_it_on_a_cluster_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from chainofcode.errors import LMError
    from chainofcode.evals.ray import Plan, run_on_ray

    (tmp_path / "empty.jsonl").write_text("")
    jobs = [EvalJob(Sample(f"q-{n}", "What?", targets=[n]), "direct", Ways(method="direct")) for n in range(20)]
    scores = []
    try:
        with pytest.raises(LMError, match="no reply left"):
            scores += run_on_ray(jobs, Plan(f"scripted:{tmp_path / 'empty.jsonl'}"), RunOptions(), workers=1)
    finally:
        ray.shutdown()
    assert len(scores) < 3
