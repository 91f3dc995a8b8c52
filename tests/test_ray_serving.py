"""`coc serve --engine ray`: programs run on the workers of a Ray cluster; runs survive the loss of workers and servers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytest.importorskip("ray", reason="the extra `ray` is not installed")

from databases import PostgresServer, postgres_server
from ray.cluster_utils import Cluster
from serving import FRUIT, Serving, served
from test_many_servers import Group, runs_logged, trace_of, until
from test_sandbox import NO_NAMESPACES
from test_server_resume import PROGRAM, counting

from chainofcode import Limits, Trace, arun
from chainofcode.audit import check_chain, replay
from chainofcode.errors import InputError
from chainofcode.sandbox.ray_guests import RaySandbox

KEY = "k-5d1f0a97be34"
PATIENCE = {"RAY_raylet_start_wait_time_s": "300", "RAY_agent_register_timeout_ms": "300000"}  # on a busy machine


class RayWorkers:
    """A Ray cluster on this machine: a head without CPUs, and workers that can be killed."""

    def __init__(self) -> None:
        self._cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.address, self.alive = str(self._cluster.address), list[Any]()

    def add(self) -> None:
        self.alive.append(self._cluster.add_node(num_cpus=1))

    def kill(self, worker: Any) -> None:
        self.alive.remove(worker)
        self._cluster.remove_node(worker, allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def workers() -> Iterator[RayWorkers]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in PATIENCE.items():
            patched.setenv(name, value)
        cluster = RayWorkers()
        try:
            cluster.add()
            yield cluster
        finally:
            cluster.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def on_ray(workers: RayWorkers) -> tuple[str, ...]:
    return ("--engine", "ray", "--ray-address", workers.address)


# --- the sandbox --------------------------------------------------------------------------------------------------


def test_programs_run_on_the_cluster(workers: RayWorkers) -> None:
    """Values, long messages, limits, and the end of a guest pass through the cluster."""

    async def check() -> None:
        with contextlib.closing(RaySandbox(workers.address)) as sandbox:
            tier = (await sandbox.status()).tier
            done = await arun("answer = [f(n) for n in range(5)]", lambda pause: pause.args[0] * 2, sandbox=sandbox)
            assert done.answer == [0, 2, 4, 6, 8] and done.trace.answer.sandbox == tier
            text = "x" * 300_000
            done = await arun(
                "answer = text + echo(text)", lambda pause: pause.args[0], inputs={"text": text}, sandbox=sandbox
            )
            assert done.answer == text + text
            for program, limits, reason in (
                ("while True: pass", Limits(run_seconds=2), "limit:run"),
                (
                    "held = []\nwhile True: held.append(bytearray(10**7))",
                    Limits(memory_bytes=400_000_000),
                    "limit:memory",
                ),
                ("import os\nos._exit(3)", Limits(), "guest died"),
                ("print('x' * 2_000_000)", Limits(), "limit:output"),
            ):
                assert (await arun(program, sandbox=sandbox, limits=limits)).reason == reason, program
            with pytest.raises(InputError, match="no such package"):
                await arun("answer = 1", packages=["no_such_package"], sandbox=sandbox)

    asyncio.run(check())


LEAST = """
import asyncio, contextlib, sys
from ray.cluster_utils import Cluster
from chainofcode import SandboxError
from chainofcode.sandbox.ray_guests import RaySandbox
async def tier(least):
    with contextlib.closing(RaySandbox(str(cluster.address), at_least=least)) as sandbox:
        try:
            return (await sandbox.status()).tier
        except SandboxError as error:
            return "refused" if "tier A: " in str(error) else str(error)
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
print("tier", asyncio.run(tier(sys.argv[1])))
cluster.shutdown()
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("least", "expected"), [("B", "B"), ("A", "refused")])
def test_minimum_tier_applies_to_workers(least: str, expected: str) -> None:
    """On workers where only tiers B and C work."""
    command = [*NO_NAMESPACES, sys.executable, "-c", LEAST, least]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert f"tier {expected}" in done.stdout.splitlines(), done.stderr[-2000:]


def test_unusable_settings_are_refused(tmp_path: Path) -> None:
    for options, message in (
        (["--engine", "ray", "--ray-address", "127.0.0.1:1"], "there is no Ray cluster at 127.0.0.1:1"),
        (["--engine", "ray", "--token", "a" * 20], "set COC_TOKEN instead of --token"),
        (["--engine", "ray", "--store", "postgresql://coc:secret@127.0.0.1/x"], "set COC_STORE instead of --store"),
        (["--ray-address", "127.0.0.1:1"], "--ray-address needs --engine ray"),
    ):
        with pytest.raises(AssertionError, match=message):
            Serving(tmp_path, *options)


# --- one server ---------------------------------------------------------------------------------------------------


def test_a_served_run_uses_the_cluster_and_no_key_reaches_it(
    workers: RayWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with served(tmp_path, *on_ray(workers), "--scratch", model="openai:m") as server:
            file = server.client.post("/api/files", params={"name": "rows.csv"}, content=b"n\n1\n4\n").json()["id"]
            program = "open('left.txt', 'w').write('kept')\nanswer = [len(rows), is_good(4)]"
            body = {"program": program, "files": [file], "model": "openai:m"}
            done = server.over(server.client.post("/api/runs", json=body).json()["id"])
            assert (done["state"], done["value"]) == ("done", [2, True]), str(done)
            assert [one["name"] for one in done["artifacts"]] == ["left.txt"]
            hosts = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_guest_node(pid)]
            assert hosts and not any(KEY.encode() in _read(f"/proc/{pid}/environ") for pid in hosts)
            session = Path(os.path.realpath("/tmp/ray/session_latest"))
            files = [path for path in session.rglob("*") if path.is_file()]
            assert files and [path for path in files if KEY.encode() in _read(path)] == []
            id = server.begin("Sleep")  # a drain lets it finish, or interrupts it
            server.until(id, "running")
            assert server.stop(signal.SIGINT) == 0


def _is_guest_node(pid: int) -> bool:
    return b"GuestNode" in _read(f"/proc/{pid}/cmdline")


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@pytest.mark.nightly
@pytest.mark.sampled(2)
@pytest.mark.parametrize("detach", [True, False])
def test_run_resumes_on_another_worker_without_repeated_requests(
    workers: RayWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detach: bool
) -> None:
    """The same server resumes the run on another worker, also while a client waits for it."""
    with counting(150) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with served(tmp_path, *on_ray(workers), model="openai:m") as server:
            body = {"program": PROGRAM, "model": "openai:m", "detach": detach}
            id = server.client.post("/api/runs", json=body).json()["id"]
            until(lambda: server.client.get(f"/api/runs/{id}/trace").content.count(b'"answers":{') == 150)
            model.begin_again(most=10**6)  # the requests in flight stay unanswered and block further ones
            workers.kill(workers.alive[0])
            workers.add()
            done = server.until(id, "done", "failed", "interrupted", "cancelled")
            assert (done["state"], done["answer"], done["resumed"]) == ("done", "100", 1), done
            assert len(model.prompts) == len(set(model.prompts)) == 50
            path = trace_of(server, id, tmp_path)
            assert len({call.prompt for call in Trace.read(path).calls if not call.is_abandoned}) == 200
            assert check_chain(path).state == "intact" and replay(Trace.read(path)).is_same
            assert runs_logged(server, "worker lost") == [id]


# --- two servers and two workers ----------------------------------------------------------------------------------


class Load:
    """A thread that starts runs on servers in turn, and keeps the ids of those that were acknowledged."""

    def __init__(self, urls: list[str]) -> None:
        self.urls, self.acknowledged = urls, list[str]()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._begin_all)
        self._thread.start()

    def _begin_all(self) -> None:
        for turn in itertools.count():
            if self._is_over.wait(0.25):
                return
            url = self.urls[turn % len(self.urls)]
            with contextlib.suppress(httpx.TransportError):
                reply = httpx.post(f"{url}/api/runs", json={"question": FRUIT}, timeout=30)
                if reply.status_code == 202:
                    self.acknowledged.append(reply.json()["id"])

    def go_on(self, count: int) -> None:
        """Wait until `count` more runs are acknowledged."""
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted)

    def end(self) -> list[str]:
        self._is_over.set()
        self._thread.join()
        return self.acknowledged


@pytest.mark.nightly
def test_each_server_and_worker_is_killed_under_load(
    workers: RayWorkers, postgres: PostgresServer, tmp_path: Path
) -> None:
    group = Group(tmp_path, postgres)
    options = (*on_ray(workers), "--runs", "8")
    workers.add()
    with contextlib.ExitStack() as stack:
        one, two = (stack.enter_context(group.server(name, *options)) for name in ("one", "two"))
        load = Load([one.url, two.url])
        stack.callback(load.end)
        load.go_on(8)
        workers.kill(workers.alive[0])
        load.go_on(8)
        workers.add()
        one.stop(signal.SIGKILL)
        load.urls = [two.url]
        load.go_on(8)
        three = stack.enter_context(group.server("three", *options))
        load.urls = [two.url, three.url]
        workers.kill(workers.alive[0])
        load.go_on(8)
        two.stop(signal.SIGKILL)
        load.urls = [three.url]
        load.go_on(8)
        acknowledged = load.end()
        workers.add()
        until(lambda: all(three.run(id)["state"] not in ("queued", "running") for id in acknowledged), 180)
        ends = [three.run(id) for id in acknowledged]
        assert len(ends) >= 40 and {(end["state"], end["answer"]) for end in ends} == {("done", "1")}
        lost = [id for server in (one, two, three) for id in runs_logged(server, "worker lost")]
        assert lost, "the killed workers had no runs"
        assert {end["id"] for end in ends if end["resumed"]} - set(lost), "the killed servers had no runs"
