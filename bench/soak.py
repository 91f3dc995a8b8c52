"""Soak test: many programs, every third one hostile: python bench/soak.py [--programs 20000] [--serve]

Runs programs through one `Jail` or, with --serve, through `coc serve`. The hostile programs are those of tests/attacks
and those below; the honest programs must still give the right answers. Prints at intervals which resources the host
uses: memory (its own and that of its zygotes), descriptors, processes, mounts, temporary files, control groups, disk.
Exits 1 if an honest program gave a wrong answer, or if a resource has grown since the warm-up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from chainofcode import Limits, arun
from chainofcode.sandbox import Jail
from chainofcode.sandbox.cgroups import delegated

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from attacks import test_files, test_kernel, test_network, test_processes, test_resources  # noqa: E402
from attacks.harness import PRELUDE, HostFiles  # noqa: E402
from processes import descendants, resident_bytes  # noqa: E402

_AT_ONCE = 4
_ROWS = 20
# Growth since the warm-up that counts as noise: caches fill, spare guests come and go.
ALLOWED = {
    "host MB": 24, "zygotes MB": 24, "descriptors": 16, "processes": 6, "mounts": 0, "temporary": 0, "groups": 6,
    "disk MB": 8,
}  # fmt: skip
HOSTILE_LIMITS = Limits(run_seconds=0.15, cpu_seconds=1, memory_bytes=256 << 20, output_bytes=100_000, processes=24)
FRAME = """
import json, struct
def send(**message):
    data = json.dumps(message).encode()
    data = struct.pack('<I', len(data)) + data
    while data:
        data = data[os.write(4, data):]
"""
# Attacks that tests/attacks does not have: on the host's memory, trace and disk.
FOUND = [
    FRAME + "x = f(1)\nwhile True: send(type='settled', id=1, value=x, text='y' * 30000)",
    FRAME + "for n in range(10**6): send(type='wrote', name=str(n), data='eA==')",
    FRAME + "for n in range(10**6): send(type='paused', id=n, kind='call', name='f', statement=0)",
    FRAME + "send(type='ran', steps=[{'statement': 0, 'visit': 1, 'delta': {'x': 'y' * 7_000_000}}])",
    "import os, struct\nos.write(4, struct.pack('<I', 2**31) + b'half')",
    "answer = {(2**61 - 1) * n: n for n in range(30_000)}",
    "n = 0\nwhile True:\n    n += 1\n    tried(os.stat, f'{os.path.dirname(os.__file__)}/{salt}{n:0200d}')",
    "import fcntl\nfile = open(granted)\nanswer = tried(fcntl.lockf, file, fcntl.LOCK_SH), tried(fcntl.flock, file, 6)",
    "answer = tried(lambda: os.write(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), b'x'))",
    "for n in range(10**6): open(f'{n}', 'w').write('x' * 1000)",
    "open('x' * 250, 'w').close()\nos.makedirs('d/' * 60)\nos.symlink('/', 'out')\nanswer = 1",
    "while True: f(len(str(f)))",
]
HONEST = [
    ("answer = sum(n * n for n in range(1000))", "332833500"),
    ("answer = sum([f(n) for n in range(3)])", "21"),
    ("import json, re\nanswer = sum(map(int, re.findall('[0-9]+', json.dumps({'a': [1, 22]}))))", "23"),
    ("import collections\nanswer = collections.Counter('hello')['l']", "2"),
    ("def g(n):\n    return 1 if n < 2 else g(n - 1) + g(n - 2)\nanswer = g(12)", "233"),
]


@dataclass(frozen=True)
class Case:
    """A program. `expected` is the answer, as text; empty for a hostile program."""

    program: str
    expected: str = ""
    scratch: bool = False


def hostile_programs() -> list[str]:
    attacks = [
        *test_files.READING, *test_files.WRITING, *test_kernel.ATTACKS, *test_network.ATTACKS, *test_processes.ATTACKS,
    ]  # fmt: skip
    resources = [*test_resources.ENDLESS.values(), *test_resources.GREEDY.values(), *test_resources.DEEP.values()]
    fatal = [program for program, _ in test_resources.FATAL.values()]
    return [PRELUDE + program for program in (*(a.program for a in attacks), *resources, *fatal, *FOUND)]


def cases(count: int) -> Iterator[Case]:
    chance, hostile = random.Random(0), hostile_programs()
    for number in range(count):
        if number % 3 == 0:
            yield Case(chance.choice(hostile), scratch=chance.random() < 0.2)
        else:
            yield Case(*chance.choice(HONEST))


class Place:
    """A directory of the host with something to attack: a secret, a granted file, a named pipe."""

    def __init__(self, directory: Path) -> None:
        self._world = HostFiles(directory / "host")
        self.granted = directory / "granted"
        self.granted.mkdir()
        (self.granted / "table.csv").write_text("1,2")
        os.mkfifo(self.granted / "pipe", 0o666)

    @property
    def inputs(self) -> dict[str, str]:
        files = {"granted": str(self.granted / "table.csv"), "pipe": str(self.granted / "pipe")}
        return {**self._world.inputs, **files, "salt": f"{time.monotonic_ns():x}"}

    def is_untouched(self) -> bool:
        return self._world.is_untouched()


# --- resources in use ---------------------------------------------------------------------------------------------


def held(pid: int, data: Path) -> dict[str, float]:
    """The resources that a host and its descendants use."""
    children = descendants(pid)
    mounts = [_mounts(pid) for pid in children]
    place = delegated()[0]
    temporary = Path(tempfile.gettempdir())
    return {
        "host MB": resident_bytes(pid) / 2**20,
        "zygotes MB": sum(map(resident_bytes, children)) / 2**20,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "processes": len(children),
        "mounts": max(mounts, default=0) - _mounts(os.getpid()),  # other processes may mount file systems meanwhile
        "temporary": len(list(temporary.glob("chainofcode-*"))),
        "groups": len(list(place.glob(f"chainofcode-{pid}-*/*/"))) if place is not None else 0,
        "disk MB": _disk_bytes(data) / 2**20,
    }


def _mounts(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    return 0


def _disk_bytes(data: Path) -> int:
    used = 0
    for directory, _, names in os.walk(data):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                used += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return used


@dataclass
class Soak:
    """Counts outcomes, and keeps a row of figures for each interval."""

    pid: int
    data: Path
    rows: list[dict[str, float]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def note(self, case: Case, reason: str, answer: str) -> None:
        self.reasons[f"{'honest' if case.expected else 'hostile'}: {reason}"] += 1
        if case.expected and (reason, answer) != ("answered", case.expected):
            self.wrong.append(f"{case.program!r} gave {reason}, {answer!r}")

    def print_row(self, done: int) -> None:
        self.rows.append(row := held(self.pid, self.data))
        if len(self.rows) == 1:
            print(f"{'programs':>9} {'seconds':>8}", *(f"{name:>11}" for name in row))
        print(f"{done:>9,} {time.monotonic() - self.started:>8.0f}", *(f"{value:>11.0f}" for value in row.values()))
        sys.stdout.flush()

    def grown(self) -> list[str]:
        """The resources that have grown since the warm-up, comparing medians of several rows."""
        rows = self.rows[len(self.rows) // 4 :]
        part = max(1, len(rows) // 3)
        found = []
        for name, allowed in ALLOWED.items():
            before, after = (median(row[name] for row in some) for some in (rows[:part], rows[-part:]))
            if after > before + allowed:
                found.append(f"{name} has grown: {before:.0f} → {after:.0f}")
        return found

    def verdict(self) -> int:
        print(*(f"{count:,} {what}" for what, count in self.reasons.most_common()), sep="; ")
        problems = [*self.wrong[:5], *self.grown()]
        print(*problems or ["nothing has grown, and every honest program gave the right answer"], sep="\n")
        return int(bool(problems))


async def soak(count: int, state: Soak, run: Callable[[Case], Awaitable[tuple[str, str]]]) -> None:
    """Run `count` programs, a few at once; print the resources in use at intervals."""
    step = max(1, count // _ROWS)
    waiting = cases(count)
    done = 0

    async def work(some: Iterator[Case]) -> None:
        for case in some:
            state.note(case, *await run(case))

    while done < count:
        some = iter([case for _, case in zip(range(step), waiting, strict=False)])
        await asyncio.gather(*(work(some) for _ in range(_AT_ONCE)))
        done = min(count, done + step)
        await asyncio.sleep(0.3)  # until spare guests have started and dead ones are gone
        state.print_row(done)


# --- through a jail -----------------------------------------------------------------------------------------------


async def through_a_jail(count: int, directory: Path) -> int:
    place = Place(directory)
    with Jail(spares=2) as jail:
        status = await jail.status()
        state = Soak(os.getpid(), directory)

        async def run(case: Case) -> tuple[str, str]:
            options: dict[str, Any] = {}
            if not case.expected:
                options = {"inputs": place.inputs, "limits": HOSTILE_LIMITS}
                options["scratch"] = case.scratch and status.has_scratch
                options["reads"] = (str(place.granted),) if status.tier != "C" else ()
            result = await arun(case.program, lambda pause: 7, sandbox=jail, **options)
            return result.reason, repr(result.answer)

        await soak(count, state, run)
    if not place.is_untouched():
        state.wrong.append("a program has changed a file of the host")
    return state.verdict()


# --- through a server ---------------------------------------------------------------------------------------------


def through_a_server(count: int, directory: Path) -> int:
    (directory / "script.jsonl").write_text(json.dumps({"when": "", "reply": "7"}))
    command = [sys.executable, "-m", "chainofcode", "serve", "--port", "0", "--log", "json", "--rate", "1000000"]
    command += ["--data", str(directory / "data"), "--model", f"scripted:{directory / 'script.jsonl'}"]
    # `run` is enough for an honest program on a busy machine, but short, because some programs never end.
    limits = {"run": 2, "cpu": 1, "memory": 256 << 20, "output": 100_000, "processes": 24, "calls": 50}
    for name, value in limits.items():
        command += ["--limit", f"{name}={value}"]
    with (directory / "log").open("w+") as log, subprocess.Popen(command, stderr=log) as server:
        try:
            while not (said := (directory / "log").read_text()).endswith("\n"):
                assert server.poll() is None, said
                time.sleep(0.05)
            state = Soak(server.pid, directory / "data")
            asyncio.run(_serve(count, state, json.loads(said.splitlines()[0])["url"], Place(directory)))
        finally:
            server.terminate()
            server.wait()
    return state.verdict()


async def _serve(count: int, state: Soak, url: str, place: Place) -> None:
    import httpx

    async with httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def run(case: Case) -> tuple[str, str]:
            """Run a program, and remove the run afterwards: stored runs would count as growth."""
            body = {"program": case.program, "inputs": {} if case.expected else place.inputs}
            reply = await client.post("/api/runs", json={**body, "values": [f"f({n})=7" for n in range(3)]})
            assert reply.status_code == 202, reply.text
            path = f"/api/runs/{reply.json()['id']}"
            async with client.stream("GET", f"{path}/events") as events:
                async for _ in events.aiter_bytes():
                    pass
            found = (await client.get(path)).json()
            (await client.delete(path)).raise_for_status()
            return found["reason"] or found["state"], found["answer"] or ""

        await soak(count, state, run)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000, metavar="N", help="how many programs (20000)")
    parser.add_argument("--serve", action="store_true", help="through `coc serve` instead of a Jail")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coc-soak-") as directory:
        if given.serve:
            return through_a_server(given.programs, Path(directory))
        return asyncio.run(through_a_jail(given.programs, Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
