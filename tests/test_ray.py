"""Evaluations on a Ray cluster: a lost node, and settings, budgets and rate limits shared by the workers."""

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
from chainofcode.cli.model_options import endpoint_of
from chainofcode.engine import RunOptions
from chainofcode.evals import EvalJob, Sample
from chainofcode.lm import Usage, connect
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
def test_no_sample_is_lost_with_a_node(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_workers_use_the_model_settings_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key, address, rows, budget and rate limit reach the workers; the key is written to no file."""
    pytest.importorskip("ray")
    pytest.importorskip("openai")
    key, questions, out = "k-9f3a77c1e5", tmp_path / "q.jsonl", tmp_path / "out"
    questions.write_text("\n".join(json.dumps({"question": f"What is {n}?", "target": 7}) for n in range(3)))
    program = "```python\nanswer = [f(x) for x in range(4)] and 7\n```"

    def act(server: Any) -> None:
        prompt = str(server.seen[-1][1]["messages"][-1]["content"])
        text = '{"1": 1, "2": 2, "3": 3, "4": 4}' if "call 4:" in prompt else "5" if "call:" in prompt else program
        usage = {"prompt_tokens": 30, "completion_tokens": 20}
        server.reply(200, json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())

    with (
        serving(act) as server,
        tempfile.TemporaryDirectory(dir="/tmp", prefix="r") as place,
    ):  # socket paths must be short
        monkeypatch.setenv("RAY_TMPDIR", place)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", key)
        options = (
            "--methods",
            "coc",
            "--repairs",
            "0",
            "--rows",
            "4",
            "--effort",
            "low",
            "--budget",
            "tokens=300",
            "--per-minute",
            "500",
        )
        done = coc(
            "eval", questions, "--model", "openai:m", "--engine", "ray", *options, "--at-once", "1", "--out", out
        )
        written = [path for path in Path(place).rglob("*") if path.is_file()] + [*out.rglob("*.*")]
        assert done.returncode == 0, done.stderr
        assert "3 of 3 right" in done.stdout
        assert {headers["authorization"] for headers, _ in server.seen} == {f"Bearer {key}"}
        assert {body.get("reasoning_effort") for _, body in server.seen} == {"low"}
        assert any("call 4: f(3)" in str(body["messages"][-1]["content"]) for _, body in server.seen)
        assert len(written) > 10
        assert [str(path) for path in written if path.is_file() and key.encode() in path.read_bytes()] == []


def test_workers_connect_to_the_model_as_the_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("openai")
    from chainofcode.evals.ray import Plan, _Worker

    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    settings = {"is_small": True, "has_images": False, "effort": "high"}
    worker = _Worker(Plan("gemini:gemini-2.5-flash", **settings), 0)
    lm, sandbox = worker._opened(None, "k" * 20)
    sandbox.close()
    assert (lm.is_small, lm.has_images) == (True, False)
    assert connect("gemini:gemini-2.5-flash", api_key="k").has_images and not Plan("gemini:x").effort


def test_the_key_of_each_provider_is_sent_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    given = SimpleNamespace(api_key=None, base_url=None)
    for provider in ("openai", "anthropic", "gemini"):
        pytest.importorskip("anthropic")
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", f"key of {provider}")
        assert endpoint_of(given, connect(f"{provider}:m"))[0] == f"key of {provider}"  # type: ignore[arg-type]
    monkeypatch.setenv("GEMINI_BASE_URL", "http://127.0.0.1:9/v1")
    assert endpoint_of(given, connect("gemini:m"))[1] == "http://127.0.0.1:9/v1"  # type: ignore[arg-type]


def new_counter(**more: Any) -> Any:
    pytest.importorskip("ray")
    from chainofcode.evals.ray import Plan, _Counter

    return _Counter(Plan("scripted:x", **more))


def encoded_usage(**more: Any) -> bytes:
    return msgspec.msgpack.encode(Usage(1, **more))


def test_budgets_are_shared_by_all_workers() -> None:
    async def spend() -> None:
        counter = new_counter(tokens=100)
        assert await counter.begin(0) == ""
        await counter.end(0, encoded_usage(prompt_tokens=60, completion_tokens=40))
        assert await counter.begin(1) == "tokens"
        counter = new_counter(dollars=1.0)
        assert await counter.begin(0) == ""
        await counter.end(0, encoded_usage(dollars=None))  # unknown price
        assert await counter.begin(1) == "money"

    asyncio.run(spend())


def test_rate_limit_and_concurrency_are_shared_by_all_workers() -> None:
    async def hold() -> None:
        counter = new_counter(per_minute=2)
        assert [await counter.begin(n) for n in range(2)] == ["", ""]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(2), 0.2)
        counter = new_counter(in_flight=1)
        await counter.begin(0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(1), 0.2)
        await counter.lose(0)  # releases the slots of a lost worker
        assert await asyncio.wait_for(counter.begin(1), 1) == ""
        await counter.end(0, encoded_usage())  # it was not lost after all
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counter.begin(2), 0.2)

    asyncio.run(hold())


def test_cancelled_request_releases_its_slot() -> None:
    """Unneeded lookahead calls are cancelled while they wait; their slots must not stay taken."""
    counter = new_counter(in_flight=1)
    from chainofcode.evals.ray import _Counted

    class Remote:
        """The counter as an actor handle: a call continues there even if its caller is cancelled."""

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
        await counter.end(1, encoded_usage())
        (reply,) = await asyncio.wait_for(lm.complete([]), 2)
        assert reply.text == "a"

    asyncio.run(give_up())


@pytest.mark.nightly
def test_unavailable_model_ends_the_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
