"""No token holder can make another wait, regardless of its requests: fair slots, and a server under attack."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT
from serving import FRUIT, Serving, served

sys.path.insert(0, str(ROOT / "bench"))
from soak import Place, hostile_programs

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.server.fair_share import FairSlots, has_room

MALLORY, ANN = "the-token-of-mallory", "the-token-of-ann-which-is-honest"


# --- slots --------------------------------------------------------------------------------------------------------


async def hold_slot(slots: FairSlots, owner: str, order: list[str], until: asyncio.Event) -> None:
    async with slots.taken(owner):
        order.append(owner)
        await until.wait()


def test_slots_are_kept_for_owners_without_one() -> None:
    async def main() -> None:
        slots, order, over = FairSlots(8, ["mallory", "ann", "bob"]), list[str](), asyncio.Event()
        many = [asyncio.create_task(hold_slot(slots, "mallory", order, over)) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["mallory"] * 6, "two slots are kept free for other owners"
        few = [asyncio.create_task(hold_slot(slots, owner, order, over)) for owner in ("ann", "bob")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order[6:] == ["ann", "bob"], "they get slots at once"
        over.set()
        await asyncio.gather(*many, *few)
        assert len(order) == 102

    asyncio.run(main())


def test_the_owner_with_the_fewest_slots_is_next() -> None:
    async def main() -> list[str]:
        slots, order = FairSlots(1), list[str]()
        ends = [asyncio.Event() for _ in range(7)]
        owners = ["mallory", "mallory", "mallory", "mallory", "ann", "ann", "bob"]
        tasks = []
        for owner, end in zip(owners, ends, strict=True):
            tasks.append(asyncio.create_task(hold_slot(slots, owner, order, end)))
            await asyncio.sleep(0)
        for end in ends:
            end.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == ["mallory", "mallory", "ann", "bob", "mallory", "ann", "mallory"]


def test_single_owner_may_use_all_slots() -> None:
    async def main() -> int:
        slots, order, over = FairSlots(4, [""]), list[str](), asyncio.Event()
        tasks = [asyncio.create_task(hold_slot(slots, "", order, over)) for _ in range(9)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found = len(order)
        over.set()
        await asyncio.gather(*tasks)
        return found

    assert asyncio.run(main()) == 4


@pytest.mark.parametrize("moment", ["waiting", "handed out", "held"])
def test_slots_of_cancelled_jobs_are_released(moment: str) -> None:
    async def main() -> None:
        slots, order, over = FairSlots(1), list[str](), asyncio.Event()
        first = asyncio.create_task(hold_slot(slots, "ann", order, asyncio.Event()))
        second = asyncio.create_task(hold_slot(slots, "bob", order, over))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        third = asyncio.create_task(hold_slot(slots, "eve", order, over))
        await asyncio.sleep(0)
        if moment == "waiting":
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
        first.cancel()
        if moment == "handed out":
            await asyncio.sleep(0)  # the first ends and passes its slot to the second, which has not run yet
            second.cancel()
        over.set()
        await asyncio.wait_for(third, 5)
        await asyncio.gather(first, second, return_exceptions=True)
        async with asyncio.timeout(5), slots.taken("ann"):
            pass

    asyncio.run(main())


def test_last_slot_is_kept_for_an_unknown_owner() -> None:
    async def main() -> list[str]:
        slots, order, over = FairSlots(3, keeps_one_free=True), list[str](), asyncio.Event()
        tasks = [asyncio.create_task(hold_slot(slots, "mallory", order, over)) for _ in range(9)]
        tasks += [asyncio.create_task(hold_slot(slots, "ann", order, over)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        begun = list(order)
        over.set()
        await asyncio.gather(*tasks)
        assert len(order) == 11
        return begun

    assert asyncio.run(main()) == ["mallory", "mallory", "ann"]


def test_owner_leaves_room_for_others() -> None:
    taken, mine = 0, 0
    while has_room(mine, taken, 100, is_shared=True):
        taken, mine = taken + 1, mine + 1
    assert mine == 50
    assert has_room(0, taken, 100, is_shared=True)
    assert has_room(99, 99, 100, is_shared=False)
    assert not has_room(100, 100, 100, is_shared=False)


# --- a server -----------------------------------------------------------------------------------------------------

FORGED = """
import os, struct, json
size = 60_000
nodes = [[0, [1]] for _ in range(size)]
lineage = {"nodes": nodes, "logs": [[[], []]] * size, "ends": {"answer": size - 1}}
body = json.dumps({"type": "ended", "reason": "answered", "answer": 1, "text": "1", "source": "variable",
                   "lineage": lineage}).encode()
frame = struct.pack("<I", len(body)) + body
while frame:
    frame = frame[os.write(4, frame):]
"""
WORDY = "answer = " + repr("a1 " * 7000)  # many numbers and words for `verify` to compare with the question
SPINNING = "n = 0\nwhile True:\n    n += 1"
SPINNING_SCRIPT = "let n = []; while (true) n.push(n.length)"
SPINNING_QUERY = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
COLLIDING = {"$dict": [[(2**61 - 1) * number, 0] for number in range(1, 40_000)]}
DEEP = json.loads("[" * 900 + "]" * 900)


def equal_columns() -> bytes:
    return ",".join([*map(str, range(2_000_000)), "x", "x"]).encode()


class Attack:
    """All requests that Mallory can send, repeated in threads."""

    def __init__(self, url: str, place: Place) -> None:
        self._url, self._over = url, threading.Event()
        self._programs, self._inputs = itertools.cycle(hostile_programs()), place.inputs
        self.done: dict[str, int] = {}
        self.broken: list[str] = []
        self._files = [self._upload("a.csv", equal_columns()), self._upload("b.csv", b"," * 10_000_000)]
        self._forged, self._wordy = (self._finished(program) for program in (FORGED, WORDY))
        kinds: list[Callable[[httpx.Client], httpx.Response]] = [
            lambda client: self._begin(client, program="answer = 1", files=[self._files[0]]),
            lambda client: self._begin(client, program="answer = 1", files=[self._files[1]]),
            lambda client: client.get(f"/api/runs/{self._forged}/why"),
            lambda client: client.get(f"/api/runs/{self._wordy}/verify"),
            lambda client: client.post(f"/api/runs/{self._forged}/replay", json={}),
            lambda client: self._begin(client, program="answer = len(d)", inputs={"d": COLLIDING}),
            lambda client: self._begin(client, program="answer = f(1)", values=[{"call": "f(1)", "value": COLLIDING}]),
            lambda client: self._begin(client, program="answer = d", inputs={"d": [DEEP] * 500}),
            lambda client: self._begin(client, program=next(self._programs), inputs=self._inputs),
            lambda client: self._begin(client, program=SPINNING),
            lambda client: self._begin(client, program=SPINNING_SCRIPT, language="javascript"),
            lambda client: self._begin(client, program=SPINNING_QUERY, language="sql"),
            lambda client: self._begin(client, question="Sleep"),
            lambda client: client.get("/api/runs", params={"q": "a" * 200, "limit": 200}),
            lambda client: client.get("/api/runs", params={"q": " ".join(["zq"] * 60), "limit": 200}),
        ]
        self._threads = [threading.Thread(target=self._repeat, args=(str(n), kind)) for n, kind in enumerate(kinds * 2)]

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._url, headers={"authorization": f"Bearer {MALLORY}"}, timeout=150)

    def _upload(self, name: str, data: bytes) -> str:
        with self._client() as client:
            return str(client.post("/api/files", params={"name": name}, content=data).json()["id"])

    def _begin(self, client: httpx.Client, **body: Any) -> httpx.Response:
        return client.post("/api/runs", json=body)

    def _finished(self, program: str) -> str:
        with self._client() as client:
            id = self._begin(client, program=program).json()["id"]
            while client.get(f"/api/runs/{id}").json()["state"] in ("queued", "running"):
                time.sleep(0.1)
            return str(id)

    def _repeat(self, name: str, kind: Callable[[httpx.Client], httpx.Response]) -> None:
        with self._client() as client:
            while not self._over.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    reply = kind(client)
                    self.done[name] = self.done.get(name, 0) + 1
                    if reply.status_code == 500:
                        self.broken.append(reply.text)
                time.sleep(0.02)

    def __enter__(self) -> Attack:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    tokens = ("--token", f"mallory={MALLORY}", "--token", f"ann={ANN}")
    limits = ("--runs", "8", "--queue", "200", "--rate", "100000", "--limit", "run=3")
    with served(tmp_path, *tokens, *limits, token=ANN) as server:
        yield server


def attack(url: str, place: Path, over: Any, report: Any) -> None:
    """Runs in its own process, so that its computations do not delay the honest client."""
    with Attack(url, Place(place)) as attacking:
        report.put("begun")
        over.wait()
    report.put((len(attacking.done), attacking.broken))
    report.close()
    report.join_thread()
    os._exit(0)  # some requests take minutes


@contextlib.contextmanager
def under_attack(url: str, place: Path) -> Iterator[None]:
    processes = multiprocessing.get_context("spawn")
    over, report = processes.Event(), processes.Queue()
    attacker = processes.Process(target=attack, args=(url, place, over, report))
    attacker.start()
    try:
        assert report.get(timeout=120) == "begun"
        yield
        over.set()
        kinds, broken = report.get(timeout=60)
        assert (kinds > 18, broken) == (True, []), "all attacks were running, and no request broke"
    finally:
        attacker.kill()
        attacker.join()


@pytest.mark.alone
def test_others_are_served_during_an_attack(server: Serving, tmp_path: Path) -> None:
    health, begun, ended = list[float](), list[float](), list[float]()
    with under_attack(server.url, tmp_path):
        time.sleep(5)
        started = time.monotonic()
        while time.monotonic() < started + 20:
            health.append(timed(lambda: server.client.get("/healthz").raise_for_status()))
            ids: list[str] = []
            begun.append(timed(functools.partial(begin, server, ids)))
            ended.append(timed(functools.partial(server.over, ids[0])))
            assert server.run(ids[0])["answer"] == "1"
            time.sleep(0.2)
    assert max(health) < 1, health
    assert max(begun) < 1, begun
    assert max(ended) < 20, ended


def begin(server: Serving, ids: list[str]) -> None:
    ids.append(server.begin(FRUIT))


def timed(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def test_run_does_not_wait_behind_runs_of_another_owner(server: Serving) -> None:
    mallory = {"authorization": f"Bearer {MALLORY}"}
    replies = [
        server.client.post("/api/runs", json={"question": "Sleep"}, headers=mallory).status_code for _ in range(150)
    ]
    assert replies.count(202) == 104 and replies[-1] == 429, "half of the slots and of the queue"
    assert server.over(server.begin())["answer"] == "1"
    assert server.over(server.begin())["answer"] == "1"
