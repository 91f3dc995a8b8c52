"""Many clients at once, each following its own run: python bench/server.py [--clients 200] [--seconds 60]

Starts `coc serve` on loopback with a scripted model as slow as a real one: a program after --writing seconds, four
values after --value seconds, all four at once. Each client starts a run, reads its events to the end, and starts the
next. The server adds the time that a run takes beyond that of the model: sandbox, engine, trace, store, stream, and
waiting for a core. Prints this time, problems such as lost events, and the resources of the server before and after:
memory, descriptors, guests. Exits 1 if there was a problem, if resources were not released, or if a target is missed.
With --kill, the server is killed (SIGKILL) under load and started again: every acknowledged run must still exist. With
--store, the server keeps its runs in that PostgreSQL database, and files in a directory. With --before DIR, the server
of another checkout is measured first, and a table compares the two; with --store, that needs a new database, which the
newer server upgrades. 300 runs at once, compared with the last release:

    git worktree add ../before TAG
    python bench/server.py --clients 300 --before ../before
    python bench/server.py --clients 300 --before ../before --store postgresql://USER@HOST/NEW_DATABASE
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

QUESTION = "How many are fruit?"
PROGRAM = """total = 0
for word in ['fig', 'saw', 'kiwi', 'nail']:
    if is_fruit(word):
        total += 1
answer = total"""
_MOST_MORE_MB = 32
_MOST_MORE_DESCRIPTORS = 10  # spare guests come and go
VALUES = {"fig": True, "saw": False, "kiwi": True, "nail": False}


def script(path: Path, writing: float, value: float) -> Path:
    rules = [
        {"when": f"call: is_fruit('{word}')", "reply": json.dumps(v), "seconds": value} for word, v in VALUES.items()
    ]
    rules.append({"when": QUESTION, "reply": f"```python\n{PROGRAM}\n```", "seconds": writing})
    path.write_text("\n".join(map(json.dumps, rules)))
    return path


@contextlib.contextmanager
def served(
    place: Path, clients: int, store: str, checkout: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server, possibly of another checkout; yield its address and its process. Its log goes to a file."""
    command = [sys.executable, "-m", "chainofcode", "serve", "--port", "0", "--log", "json", "--rate", "1000000"]
    command += ["--model", f"scripted:{place / 'script.jsonl'}", "--data", str(place / "data")]
    command += ["--runs", str(clients), "--requests", str(4 * clients)]
    command += ["--store", store, "--objects", str(place / "objects")] if store else []
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")} if checkout is not None else None
    log = place / "log.jsonl"
    log.write_bytes(b"")
    with log.open("ab") as written, subprocess.Popen(command, stderr=written, env=environment) as server:
        try:
            while b"\n" not in log.read_bytes():
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            url = json.loads(log.read_bytes().split(b"\n")[0])["url"]
            yield url, server
        finally:
            server.terminate()
            server.wait()


async def lines(url: str, path: str, body: bytes | None = None) -> AsyncIterator[bytes]:
    """Yield the status line of a reply and the lines of its body, as they arrive. Uses plain sockets, because the
    clients run on the same cores as the server and should take little time."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: {host}:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        writer.write(head.encode() + (body or b""))
        yield await reader.readline()
        while (await reader.readline()).strip():
            pass
        while line := await reader.readline():
            yield line.rstrip()
    finally:
        writer.close()


class Client:
    """Starts runs, one after another, and follows each to its end."""

    def __init__(self, url: str, least: float) -> None:
        self._url, self._least = url, least
        self.added: list[float] = []  # seconds, beyond the model's
        self.acknowledged: dict[str, str] = {}  # the last known state of each run
        self.problems: list[str] = []
        self.has_ended_one = asyncio.Event()

    async def go_on(self, first_after: float, until: float) -> None:
        await asyncio.sleep(first_after)
        while time.monotonic() < until:
            try:
                await self._one()
            except (OSError, AssertionError, ValueError) as error:
                self.problems.append(f"{type(error).__name__}: {error}")
                return

    async def _one(self) -> None:
        began, numbers, state, answer = time.monotonic(), list[int](), "", ""
        body = json.dumps({"question": QUESTION}).encode()
        status, *told = [line async for line in lines(self._url, "/api/runs", body)]
        assert b" 202 " in status, (status, told)
        id = json.loads(told[0])["id"]
        self.acknowledged[id] = "started"
        async for line in lines(self._url, f"/api/runs/{id}/events"):
            name, _, value = line.partition(b": ")
            if name == b"id":
                numbers.append(int(value))
            elif value.startswith(b'{"event":"answer"'):
                answer = json.loads(value)["text"]
            elif value.startswith(b'{"state"'):
                state = json.loads(value)["state"]
                self.acknowledged[id] = state
        whole = (state, answer, numbers) == ("done", "2", list(range(len(numbers))))
        assert whole, f"a run ended as {state!r} with {answer!r} after {len(numbers)} events"
        self.added.append(time.monotonic() - began - self._least)
        self.has_ended_one.set()


def held(pid: int) -> dict[str, float]:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {"MB": resident // 2**20, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "cpu": cpu}


def processes(pid: int) -> list[int]:
    """Return the descendants of a process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        left += (more := children.get(left.pop(), []))
        found += more
    return found


async def load(url: str, clients: int, seconds: float, least: float) -> list[Client]:
    all_of_them = [Client(url, least) for _ in range(clients)]
    until = time.monotonic() + seconds
    # Users do not all start in the same second.
    await asyncio.gather(*(client.go_on(random.uniform(0, least), until) for client in all_of_them))
    return all_of_them


class Measured(NamedTuple):
    """Milliseconds that a server adds to a run."""

    runs: int
    p50: float
    p95: float
    is_well: bool


def compared(before: Measured, now: Measured) -> str:
    named = {"before": before, "now": now}
    rows = [f"{name} | {one.runs:,} | {one.p50:.0f} | {one.p95:.0f}" for name, one in named.items()]
    return "\n".join(["version | runs | p50 added, ms | p95 added, ms", *rows])


def measure(
    place: Path, clients: int, seconds: float, least: float, *, target: float, store: str, checkout: Path | None = None
) -> Measured:
    with served(place, clients, store, checkout) as (url, server):
        asyncio.run(load(url, clients, least, least))  # a warm-up, so that lasting allocations do not count as growth
        time.sleep(2)
        before, idle = held(server.pid), len(processes(server.pid))
        own = time.process_time()
        done = asyncio.run(load(url, clients, seconds, least))
        own = time.process_time() - own
        time.sleep(2)
        after, still = held(server.pid), len(processes(server.pid))
    added = sorted(1000 * value for client in done for value in client.added)
    problems = [problem for client in done for problem in client.problems]
    cuts, count = quantiles(added, n=100), len(added)
    cpu, own = (1000 * seconds / count for seconds in (after["cpu"] - before["cpu"], own))
    print(f"{clients} clients, {seconds:g} s: {count:,} runs of {least:g} s of the model, {len(problems)} problems")
    print(f"the server adds: p50 {cuts[49]:.0f} ms, p95 {cuts[94]:.0f} ms, most {added[-1]:.0f} ms")
    print(f"CPU: the server {cpu:.1f} ms per run, without its guests; the clients, on the same cores, {own:.1f} ms")
    print(f"memory: {before['MB']} → {after['MB']} MB; descriptors: {before['descriptors']} → {after['descriptors']}")
    print(f"guests and zygotes: {idle} → {still} processes", *problems[:3], sep="\n")
    kept = {
        "memory": after["MB"] - before["MB"] > _MOST_MORE_MB,
        "descriptors": after["descriptors"] > before["descriptors"] + _MOST_MORE_DESCRIPTORS,
        "processes": still > idle,
    }
    missed = [f"more {name} than before" for name, is_more in kept.items() if is_more]
    missed += [f"{target:g} ms added, p95"] if cuts[94] > target else []
    for what in missed:
        print(f"missed: {what}")
    return Measured(count, cuts[49], cuts[94], not problems and not missed)


async def killed(place: Path, clients: int, least: float, store: str) -> bool:
    """Kill the server under load, start it again, and look for each acknowledged run."""
    with served(place, clients, store) as (url, server):
        callers = [Client(url, least) for _ in range(clients)]
        until = time.monotonic() + 300
        working = asyncio.gather(*(caller.go_on(random.uniform(0, least), until) for caller in callers))
        async with asyncio.timeout(300):
            await asyncio.gather(*(caller.has_ended_one.wait() for caller in callers[: clients // 4]))
        server.kill()
        await working
    acknowledged = {id: state for caller in callers for id, state in caller.acknowledged.items()}
    with served(place, clients, store) as (url, _):
        found = {}
        for id in acknowledged:
            status, *told = [line async for line in lines(url, f"/api/runs/{id}")]
            found[id] = json.loads(told[0])["state"] if b" 200 " in status else "lost"
    left = {"queued", "running"} if store else {"interrupted"}  # a run in a shared store is resumed automatically
    ends = {"done": {"done"}}  # runs known to be done must be done; others may be unfinished
    wrong = [id for id, heard in acknowledged.items() if found[id] not in ends.get(heard, {"done"} | left)]
    states = ", ".join(f"{count} {state}" for state, count in Counter(found.values()).most_common())
    print(f"killed under load and started again: {len(found):,} runs were acknowledged; {states}; {len(wrong)} wrong")
    return not wrong and bool(set(found.values()) & left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writing", type=float, default=16.0, help="seconds that the model takes to write a program")
    parser.add_argument("--value", type=float, default=4.0, help="seconds that the model takes for a value")
    parser.add_argument("--target", type=float, default=50.0, help="milliseconds that the server may add, p95")
    parser.add_argument("--kill", action="store_true", help="kill the server in the middle, instead of measuring")
    parser.add_argument("--store", default="", help="a PostgreSQL database, instead of SQLite: postgresql://…")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version, to be measured first")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        script(Path(place) / "script.jsonl", given.writing, given.value)
        least = given.writing + given.value
        if given.kill:
            sys.exit(not asyncio.run(killed(Path(place), given.clients, least, given.store)))
        kept = {"target": given.target, "store": given.store}
        before = None
        if given.before is not None:
            before = measure(Path(place), given.clients, given.seconds, least, **kept, checkout=given.before)
            shutil.rmtree(Path(place) / "data")
        now = measure(Path(place), given.clients, given.seconds, least, **kept)
        if before is not None:
            print(compared(before, now))
    sys.exit(not now.is_well)


if __name__ == "__main__":
    main()
