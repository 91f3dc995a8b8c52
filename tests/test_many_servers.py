"""Several servers on one PostgreSQL: each serves every run, and no run is lost when a server dies."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from databases import PostgresServer, postgres_server
from serving import FRUIT, SCRIPT, Serving, parsed, served
from test_server_resume import PROGRAM, Counting, counting

from chainofcode import Trace
from chainofcode.audit import check_chain, replay
from chainofcode.server.postgres.shared_queue import LEASE_SECONDS

SLOW = [
    {"when": "is_fruit('apple')", "reply": "true", "seconds": 1.0},
    {"when": "is_fruit('saw')", "reply": "false", "seconds": 1.0},
    {"when": "is_long(1)", "reply": "true", "seconds": 600.0},
]
TOKENS = {"ann": "a" * 20, "bob": "b" * 20}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Group:
    """Servers that share a database, a directory of objects and a model."""

    def __init__(self, directory: Path, postgres: PostgresServer) -> None:
        self._directory, self.url = directory, postgres.database()
        script = directory / "model.jsonl"
        script.write_text("\n".join(map(json.dumps, [*SLOW, *SCRIPT])))
        self.model = f"scripted:{script}"

    @contextlib.contextmanager
    def server(self, name: str, *options: str, model: str = "", token: str = "") -> Iterator[Serving]:
        place = self._directory / name
        place.mkdir(exist_ok=True)
        shared = ("--store", self.url, "--objects", str(self._directory / "objects"), *options)
        with served(place, *shared, model=model or self.model, token=token) as server:
            yield server

    @contextlib.contextmanager
    def pair(self, *options: str, token: str = "") -> Iterator[tuple[Serving, Serving]]:
        with self.server("one", *options, token=token) as one, self.server("two", *options, token=token) as two:
            yield one, two


@pytest.fixture
def group(tmp_path: Path, postgres: PostgresServer) -> Group:
    return Group(tmp_path, postgres)


def until(is_so: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def start_long_run(server: Serving, group: Group, **more: Any) -> str:
    """A run that waits ten minutes for its model."""
    program = {"program": "begun = 1\nanswer = is_long(1)", "model": group.model}
    reply = server.client.post("/api/runs", json={**program, **more})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def trace_of(server: Serving, id: str, directory: Path) -> Path:
    path = directory / f"{id}.jsonl"
    path.write_bytes(server.client.get(f"/api/runs/{id}/trace").content)
    return path


def runs_logged(server: Serving, event: str) -> list[str]:
    """The runs for which a server logged an event."""
    return [line["run"] for line in server.log if line["event"] == event]


# --- every server serves every run --------------------------------------------------------------------------------


def test_each_server_serves_the_runs_of_the_other(group: Group, tmp_path: Path) -> None:
    with group.pair("--scratch") as (one, two):
        file = one.client.post("/api/files", params={"name": "sales.csv"}, content=b"n\n1\n4\n").json()["id"]
        program = "open('left.txt', 'w').write('kept')\nanswer = sum(int(row['n']) for row in sales)"
        id = two.client.post("/api/runs", json={"program": program, "files": [file]}).json()["id"]
        for server in (one, two):
            done = server.over(id)
            assert (done["state"], done["answer"]) == ("done", "5"), done
            assert server.client.get(f"/api/runs/{id}/verify").json()["replays"]
            kept = server.client.get(f"/api/runs/{id}/artifacts/{done['artifacts'][0]['sha256']}")
            assert kept.content == b"kept"
            assert check_chain(trace_of(server, id, tmp_path)).state == "intact"
            assert [run["id"] for run in server.client.get("/api/runs", params={"q": "done"}).json()["runs"]] == [id]
        again = one.client.post(f"/api/runs/{id}/replay", json={}).json()["id"]
        assert two.over(again)["answer"] == "5"
        assert two.client.delete(f"/api/runs/{id}").status_code == 204
        for server in (one, two):
            assert server.client.get(f"/api/runs/{id}/trace").status_code == 404
            digest = server.run(again)["artifacts"][0]["sha256"]
            assert server.client.get(f"/api/runs/{again}/artifacts/{digest}").content == b"kept"
        assert two.client.delete(f"/api/runs/{again}").status_code == 204
        assert {path.name for path in (tmp_path / "objects").rglob("*") if path.is_file()} == {file}


def test_events_are_streamed_live_from_the_other_server(group: Group) -> None:
    with group.pair() as (one, two):
        id = one.begin()
        received: dict[str, list[tuple[float, Any]]] = {"one": [], "two": []}

        def follow(name: str, server: Serving) -> None:
            with server.client.stream("GET", f"/api/runs/{id}/events") as reply:
                received[name] += [(time.monotonic(), event) for event in parsed(reply.iter_lines())]

        threads = [threading.Thread(target=follow, args=given) for given in (("one", one), ("two", two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        numbered = [[event for _, event in events if "id" in event] for events in received.values()]
        assert numbered[0] == numbered[1] and numbered[0][-1]["data"] == {"state": "done"}
        for events in received.values():  # the values took a second; the program arrived long before
            times = {event["event"]: at for at, event in events}
            assert times["end"] - times["program"] > 0.5
        late = [event for event in two.events(id, last=2) if "id" in event]
        assert late == numbered[0][3:]


def test_any_server_can_cancel_a_run(group: Group) -> None:
    with group.pair("--runs", "1") as (one, two):
        running = [start_long_run(one, group) for _ in range(2)]
        for id in running:
            one.until(id, "running")
        until(lambda: all(len(runs_logged(server, "run claimed")) == 1 for server in (one, two)))
        queued, waited = start_long_run(one, group), start_long_run(one, group, detach=False)
        for id, server in ((running[0], one), (running[1], two), (queued, two), (waited, two)):
            assert server.client.post(f"/api/runs/{id}/cancel").json() == {"id": id, "state": "cancelled"}
            assert one.run(id)["state"] == two.run(id)["state"] == "cancelled"
        assert two.over(one.begin())["answer"] == "1"


def test_any_server_accepts_the_answer_to_a_question(group: Group) -> None:
    with group.pair() as (one, two):
        id = one.begin(ask_me="is_.*")
        for server in (two, one):
            server.until(id, "waiting")
            (question,) = server.client.get("/api/questions", params={"run": id}).json()["questions"]
            reply = server.client.post(f"/api/questions/{question['id']}", json={"value": True})
            assert reply.status_code == 202, reply.text
        assert one.over(id)["answer"] == two.over(id)["answer"] == "2"


# --- ownership and fairness ---------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_tokens_see_their_own_runs_and_take_turns(group: Group) -> None:
    options = ["--runs", "2", *(part for name in TOKENS for part in ("--token", f"{name}={TOKENS[name]}"))]
    program = {"program": "import time\ntime.sleep(1)\nanswer = 1"}
    with group.pair(*options, token=TOKENS["ann"]) as (one, two):
        anns = [one.client.post("/api/runs", json=program).json()["id"] for _ in range(24)]
        bob = httpx.Client(base_url=two.url, headers={"authorization": f"Bearer {TOKENS['bob']}"}, timeout=60)
        with bob:
            bobs = [bob.post("/api/runs", json=program).json()["id"] for _ in range(4)]
            assert bob.get(f"/api/runs/{anns[0]}").status_code == 404
            assert one.client.get(f"/api/runs/{bobs[0]}").status_code == 404
            until(lambda: all(bob.get(f"/api/runs/{id}").json()["state"] == "done" for id in bobs))
            finished = sum(one.run(id)["state"] == "done" for id in anns)
        assert finished <= 16, "bob's four runs must overtake ann's queue"
        assert all(one.over(id)["answer"] == "1" for id in anns)


def test_shared_queue_is_bounded(group: Group) -> None:
    with group.pair("--runs", "1", "--queue", "1") as (one, two):
        ids = [start_long_run(server, group) for server in (one, two, one, two)]
        refused = [server.client.post("/api/runs", json={"question": FRUIT}) for server in (one, two)]
        assert [(reply.status_code, reply.json()["error"]["type"]) for reply in refused] == [(429, "busy")] * 2
        for id in ids:
            two.client.post(f"/api/runs/{id}/cancel")
        assert two.over(two.begin())["answer"] == "1"


# --- servers that die ---------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_other_server_finishes_runs_of_a_killed_server(group: Group) -> None:
    with group.pair("--runs", "6") as (one, two), concurrent.futures.ThreadPoolExecutor(8) as pool:
        acknowledged: list[str] = []

        def begin(number: int) -> None:
            with contextlib.suppress(httpx.TransportError):
                acknowledged.append((one if number % 2 else two).begin())

        begun = [pool.submit(begin, number) for number in range(36)]
        until(lambda: sum(two.run(id)["state"] == "running" for id in acknowledged[:12]) >= 4)
        held = set(runs_logged(one, "run claimed")) - set(runs_logged(one, "run ended"))
        assert held, "the killed server must have had runs"
        assert one.stop(signal.SIGKILL) == -signal.SIGKILL
        concurrent.futures.wait(begun)
        assert len(acknowledged) >= 18
        until(lambda: all(two.run(id)["state"] not in ("queued", "running") for id in acknowledged), 300)
        ends = [two.run(id) for id in acknowledged]
        assert {(end["state"], end["answer"]) for end in ends} == {("done", "1")}
        taken_over = [end["id"] for end in ends if end["resumed"]]
        assert taken_over and set(taken_over) <= set(runs_logged(two, "run ended"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_takeover_requests_only_missing_values(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with counting(150) as model, contextlib.ExitStack() as stack:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        one = stack.enter_context(group.server("one", "--drain", "0", model="openai:m"))
        id = one.client.post("/api/runs", json={"program": PROGRAM, "model": "openai:m"}).json()["id"]
        until(lambda: one.client.get(f"/api/runs/{id}/trace").content.count(b'"answers":{') == 150)
        two = stack.enter_context(group.server("two", model="openai:m"))
        assert two.run(id)["state"] == "running"
        model.begin_again(most=10**6)  # requests in flight stay unanswered; there is no room for more
        one.stop(signal.SIGKILL if way == "killed" else signal.SIGTERM)
        done = two.until(id, "done", "failed")
        _check_paid_once(model, done, trace_of(two, id, tmp_path))


def _check_paid_once(model: Counting, done: dict[str, Any], path: Path) -> None:
    assert (done["state"], done["answer"], done["resumed"]) == ("done", "100", 1)
    assert len(model.prompts) == len(set(model.prompts)) == 50
    trace = Trace.read(path)
    assert len({call.prompt for call in trace.calls if not call.is_abandoned}) == 200
    assert check_chain(path).state == "intact"
    assert replay(trace).is_same


@pytest.mark.nightly
def test_paused_server_does_not_disturb_its_successor(group: Group, tmp_path: Path) -> None:
    with group.server("one") as one:
        id = start_long_run(one, group)
        until(lambda: b'"begun"' in one.client.get(f"/api/runs/{id}/trace").content)
        with group.server("two") as two:
            one.process.send_signal(signal.SIGSTOP)
            until(lambda: id in runs_logged(two, "run claimed"))
            one.process.send_signal(signal.SIGCONT)
            until(lambda: id in runs_logged(one, "run taken over"))
            assert one.run(id)["state"] == two.run(id)["state"] == "running"
            assert one.client.post(f"/api/runs/{id}/cancel").json()["state"] == "cancelled"
            assert runs_logged(two, "run ended") == [id]
            assert check_chain(trace_of(one, id, tmp_path)).state == "intact"
            assert two.over(one.begin())["answer"] == "1"


@pytest.mark.nightly
def test_stopping_server_finishes_its_runs_and_claims_no_more(group: Group) -> None:
    program = {"program": "import time\ntime.sleep(6)\nanswer = 1"}
    with group.pair("--runs", "1", "--drain", "60") as (one, two):
        time.sleep(LEASE_SECONDS + 1)  # from now on, the other server would take over runs without a server
        ids = [one.client.post("/api/runs", json=program).json()["id"] for _ in range(4)]
        until(lambda: bool(runs_logged(one, "run claimed")))
        assert one.stop() == 0
        ends = [two.until(id, "done", "failed", "cancelled", "interrupted") for id in ids]
        assert {(end["state"], end["answer"], end["resumed"]) for end in ends} == {("done", "1", 0)}
        assert runs_logged(one, "run claimed") == runs_logged(one, "run ended")
        assert sorted(runs_logged(one, "run ended") + runs_logged(two, "run ended")) == sorted(ids)


@pytest.mark.nightly
def test_killed_server_interrupts_runs_with_a_waiting_client(group: Group) -> None:
    with group.server("one") as one, group.server("two") as two:
        id = start_long_run(one, group, detach=False)
        one.until(id, "running")
        one.stop(signal.SIGKILL)
        assert two.over(id)["state"] == "interrupted"
        assert two.client.post(f"/api/runs/{id}/resume").status_code == 202  # but it can be resumed on request
        two.until(id, "running")


# --- PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_servers_survive_a_restart_of_postgresql(group: Group, postgres: PostgresServer) -> None:
    with group.pair() as (one, two):
        ids = [one.begin("A little") for _ in range(4)]
        for id in ids:
            one.until(id, "running")
        time.sleep(0.5)  # until the servers have read the requests: a run whose request cannot be read fails
        postgres.stop()
        try:
            for server in (one, two):
                for reply in (
                    server.client.post("/api/runs", json={"question": FRUIT}),
                    server.client.get(f"/api/runs/{'0' * 24}"),
                ):
                    assert (reply.status_code, reply.json()["error"]["type"]) == (503, "storage"), reply.text
                    assert "PostgreSQL" in reply.json()["error"]["message"] and "127.0.0.1" not in reply.text
                assert "store" in server.client.get("/readyz").json()["problems"]
                assert server.client.get("/healthz").status_code == 200
            time.sleep(3)  # runs end meanwhile
        finally:
            postgres.start()
        until(lambda: all(server.client.get("/readyz").status_code == 200 for server in (one, two)))
        for id in ids:
            end = two.until(id, "done", "failed", "interrupted", "cancelled")
            assert (end["state"], end["answer"], end["resumed"]) == ("done", "rested", 0)
        assert two.over(one.begin())["answer"] == "1"


def test_invalid_store_settings(tmp_path: Path, group: Group) -> None:
    for options, message in (
        (["--store", "mysql://x"], "--store must be an address such as postgresql://USER@HOST/DATABASE"),
        (["--store", group.url], "use --store and --objects together"),
        (["--objects", str(tmp_path)], "use --store and --objects together"),
        (["--store", group.url, "--objects", "ftp://x"], "unknown object storage 'ftp://x'"),
        (["--store", "postgresql://127.0.0.1:1/x", "--objects", str(tmp_path)], "cannot use the PostgreSQL database"),
    ):
        with pytest.raises(AssertionError, match=message):
            Serving(tmp_path, *options)
    with group.server("one"), pytest.raises(AssertionError, match="another server uses"), group.server("one"):
        pass
