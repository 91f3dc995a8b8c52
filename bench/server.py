"""Many clients at once, each following a run of its own: python bench/server.py [--clients 200]

Starts `coc serve` and an endpoint with a set latency (bench/latency.py), both on loopback. Each client starts a run of
five requests (a program and four values) and reads its events to the end. Says how long the first event and the end
took, what the runs would take at least, and what the server held: memory, descriptors, processes, before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

HERE = Path(__file__).parent
PROGRAM = (
    "total = 0\nfor word in ['fig', 'saw', 'kiwi', 'nail']:\n    if is_fruit(word):\n        total += 1\nanswer = total"
)
VALUES = {"fig": True, "saw": False, "kiwi": True, "nail": False}


@contextlib.contextmanager
def started(directory: Path, latency: float, runs: int) -> Iterator[tuple[str, int]]:
    """The server's address and process."""
    lines = [json.dumps({"call": f"is_fruit('{word}')", "value": value}) for word, value in VALUES.items()]
    (directory / "values.jsonl").write_text("\n".join(lines))
    (directory / "programs.json").write_text(json.dumps({"How many are fruit?": PROGRAM}))
    files = ["--values", str(directory / "values.jsonl"), "--programs", str(directory / "programs.json")]
    command = [sys.executable, str(HERE / "latency.py"), "--latency", str(latency), "--in-flight", "1000", *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as endpoint:
        assert endpoint.stdout is not None
        url = f"http://127.0.0.1:{endpoint.stdout.readline().strip()}/v1"
        environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "chainofcode", "serve", "--port", "0", "--log", "json", "--rate", "1000000"]
        command += ["--model", "openai:m", "--data", str(directory / "data"), "--runs", str(runs), "--queue", "1000"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
            assert server.stderr is not None
            serving = json.loads(server.stderr.readline())
            with open(os.devnull, "w") as nowhere:
                drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=nowhere)
            try:
                yield serving["url"], server.pid
            finally:
                server.terminate()
                server.wait()
                drain.wait()
                endpoint.terminate()


async def follow(client: httpx.AsyncClient) -> tuple[float, float, int]:
    """Seconds to the first event and to the end, and how many events came; raises where one is missing."""
    began, first, numbers, state, answer = time.monotonic(), 0.0, [], "", ""
    reply = await client.post("/api/runs", json={"question": "How many are fruit?", "detach": False})
    reply.raise_for_status()
    async with client.stream("GET", f"/api/runs/{reply.json()['id']}/events") as events:
        async for line in events.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                first = first or time.monotonic() - began
                numbers.append(int(value))
            elif name == "data" and value.startswith('{"event":"answer"'):
                answer = json.loads(value)["text"]
            elif name == "data" and value.startswith('{"state"'):
                state = json.loads(value)["state"]
    assert (state, answer, numbers) == ("done", "2", list(range(len(numbers)))), (state, answer)
    return first, time.monotonic() - began, len(numbers)


def held(pid: int) -> dict[str, Any]:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {"MB": resident // 2**20, "fds": len(os.listdir(f"/proc/{pid}/fd")), "children": len(children), "cpu": cpu}


async def measure(url: str, pid: int, clients: int) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        for _ in range(100):
            with contextlib.suppress(httpx.TransportError):
                await client.get("/healthz")
                break
            await asyncio.sleep(0.1)
        await follow(client)
        before, began = held(pid), time.monotonic()
        done = await asyncio.gather(*(follow(client) for _ in range(clients)))
        seconds = time.monotonic() - began
    await asyncio.sleep(2)
    after = held(pid)
    after["of them sockets"] = sum("socket" in os.readlink(f.path) for f in os.scandir(f"/proc/{pid}/fd"))
    for name, column in (("first event", 0), ("end", 1)):
        values = sorted(row[column] for row in done)
        print(
            f"{name + ':':<13} median {quantiles(values, n=100)[49]:.2f} s, 95 % {quantiles(values, n=100)[94]:.2f} s"
        )
    events = sum(row[2] for row in done)
    print(f"all:          {seconds:.1f} s, {clients / seconds:.0f} runs/s, {events / seconds:,.0f} events/s, none lost")
    print(f"server's CPU: {(after['cpu'] - before['cpu']) / clients * 1000:.0f} ms a run, without its guests")
    print(f"held before:  {before}\nheld after:   {after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.5, help="of the model, in seconds")
    parser.add_argument("--runs", type=int, default=200, help="at once")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, started(Path(place), given.latency, given.runs) as (url, pid):
        asyncio.run(measure(url, pid, given.clients))


if __name__ == "__main__":
    main()
