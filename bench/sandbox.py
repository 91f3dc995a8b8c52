"""The cost of the sandbox, compared with alternatives; all measurements are interleaved in one run.

    python bench/sandbox.py     skips what is not installed (apt install bubblewrap, pip install smolagents)

cold      from no running process to the answer of a trivial program
warm      from the request to the first statement, with processes kept running if the alternative allows it
whole     from the request to the answer
loop      a loop of 10⁶ iterations, warm, fastest run
callback  a call from the program to the host and back, in microseconds, on one core; for coc at the level of frames
          (bench/overhead.py measures what `execute` adds)
Except for the loop, times are medians. Exits 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

from chainofcode import arun
from chainofcode.sandbox import Jail, Job, NoSandbox
from chainofcode.sandbox.frames import Ended, Paused, ProgramParsed, Reader, encode

TRIVIAL = "answer = 1 + 1"
LOOP = """
total = 0
for i in range(1_000_000):
    total += i % 7 * 3
    if total > 1000:
        total -= 1000
answer = total
"""
SCIENCE = ("numpy", "pandas", "sympy")
CALLS = 2000
TARGETS = {"cold": 100.0, "cold with packages": 4000.0, "warm": 2.0, "callback": 100.0, "loop": 1.15}
PLAIN = "import sys; exec(compile(sys.stdin.read(), 'program', 'exec'), {'__name__': '__main__'})"
CALLING = f"""
import os, sys, time
gaps = []
for i in range({CALLS}):
    started = time.perf_counter()
    os.write(1, b'{{"name": "f", "args": [1]}}\\n')
    os.read(0, 100)
    gaps.append(time.perf_counter() - started)
os.write(2, repr(sorted(gaps)[len(gaps) // 2]).encode())
"""
Row = dict[str, list[float]]


def timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def process_row(prefix: list[str], row: Row) -> None:
    """A new interpreter per program, plain or in bubblewrap: no process can be kept."""
    command = [*prefix, sys.executable, "-I", "-S", "-c", PLAIN]

    def once(program: str) -> None:
        subprocess.run(command, input=program.encode(), check=True, capture_output=True)

    seconds = timed(lambda: once(TRIVIAL))
    for name in ("cold", "warm", "whole"):
        row.setdefault(name, []).append(seconds)
    row.setdefault("loop", []).append(timed(lambda: once(LOOP)))


def process_callback(prefix: list[str]) -> float:
    command = [*prefix, sys.executable, "-I", "-S", "-c", CALLING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        for _ in range(CALLS):
            os.read(child.stdout.fileno(), 100)
            os.write(child.stdin.fileno(), b"1\n")
        return float(child.stderr.read()) * 1e6


def bubblewrap() -> list[str]:
    prefix = sys.base_prefix
    shown = [part for path in ("/usr", prefix, sys.prefix) for part in ("--ro-bind", path, path)]
    links = [part for name in ("lib", "lib64", "bin") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    return ["bwrap", *shown, *links, "--unshare-all", "--die-with-parent", "--clearenv", "--new-session"]


def exec_row(row: Row) -> None:
    row.setdefault("whole", []).append(timed(lambda: exec(compile(TRIVIAL, "p", "exec"), {})))
    row.setdefault("loop", []).append(timed(lambda: exec(compile(LOOP, "p", "exec"), {})))


async def session_times(place: Jail | NoSandbox, program: str, packages: tuple[str, ...] = ()) -> tuple[float, float]:
    """Return the milliseconds until the program is about to run, and until it has ended."""
    started = time.perf_counter()
    ready = 0.0
    async with place.start(Job(program, packages=packages)) as session:
        async for signal in session:
            if isinstance(signal, ProgramParsed):
                ready = time.perf_counter()
        return (ready - started) * 1000, (time.perf_counter() - started) * 1000


async def jail_row(kept: Jail | NoSandbox, row: Row, cold: Callable[[], Jail | NoSandbox]) -> None:
    fresh = cold()
    try:
        _, seconds = await session_times(fresh, TRIVIAL)
    finally:
        fresh.close()
    row.setdefault("cold", []).append(seconds)
    for _ in range(4):
        await asyncio.sleep(0.02)  # as between two programs: meanwhile, the spare guest is started
        warm, whole = await session_times(kept, TRIVIAL)
        row.setdefault("warm", []).append(warm)
        row.setdefault("whole", []).append(whole)
    warm, whole = await session_times(kept, LOOP)
    row.setdefault("loop", []).append(whole - warm)


async def callback(place: Jail | NoSandbox) -> float:
    """At the level of frames: the guest, two pipes, and a host that only answers."""
    moments = []
    async with place.start(Job(f"for i in range({CALLS}):\n    value = ask(i)\nanswer = value")) as session:
        reader, guest = Reader(1 << 24, 1 << 24), session._guest
        os.set_blocking(guest.wire.read_fd, True)
        while not isinstance(signal := reader.next(), Ended):
            if isinstance(signal, Paused):
                moments.append(time.perf_counter())
                os.write(guest.wire.write_fd, encode({"type": "resume", "id": signal.id, "value": 1}))
            elif signal is None:
                reader.feed(os.read(guest.wire.read_fd, 1 << 16))
    return median(later - earlier for earlier, later in pairwise(moments)) * 1e6


def smolagents_row(row: Row, loop: bool) -> None:
    from smolagents.local_python_executor import LocalPythonExecutor

    def once(program: str) -> None:
        executor = LocalPythonExecutor([], timeout_seconds=None, max_print_outputs_length=None)
        executor.send_tools({})
        executor(program)

    row.setdefault("whole", []).append(timed(lambda: once(TRIVIAL)))
    if loop:  # a tenth of the loop, times ten: the whole loop takes a minute
        row.setdefault("loop", []).append(timed(lambda: once(LOOP.replace("1_000_000", "100_000"))) * 10)


def smolagents_callback() -> float:
    from smolagents.local_python_executor import LocalPythonExecutor

    executor = LocalPythonExecutor([], timeout_seconds=None, max_print_outputs_length=None)
    moments: list[float] = []
    executor.send_tools({"ask": lambda i: moments.append(time.perf_counter()) or 1})
    executor(f"for i in range({CALLS}):\n    value = ask(i)")
    return median(later - earlier for earlier, later in pairwise(moments)) * 1e6


def on_one_core(measure: Callable[[], float]) -> float:
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        return measure()
    finally:
        os.sched_setaffinity(0, everywhere)


async def main() -> int:
    peers = {"bubblewrap": bool(shutil.which("bwrap")), "smolagents": _has_smolagents()}
    rows: dict[str, Row] = {}
    with Jail(spares=0) as forking, Jail(spares=1) as spare:
        holds = await spare.status()
        await forking.status()
        for turn in range(9):
            exec_row(rows.setdefault("plain exec", {}))
            process_row([], rows.setdefault("python -I", {}))
            if peers["bubblewrap"]:
                process_row(bubblewrap(), rows.setdefault("bubblewrap", {}))
            await jail_row(NoSandbox(), rows.setdefault("coc --sandbox none", {}), NoSandbox)
            await jail_row(forking, rows.setdefault("coc, fork", {}), lambda: Jail(spares=0))
            await jail_row(spare, rows.setdefault("coc, spare guest", {}), lambda: Jail(spares=0))
            if peers["smolagents"]:
                smolagents_row(rows.setdefault("smolagents", {}), turn == 0)
        callbacks = await callbacks_of(peers)
        packages = median([await cold_with_packages() for _ in range(3)])
    return report(holds.tier, rows, callbacks, packages, peers)


async def callbacks_of(peers: dict[str, bool]) -> dict[str, float]:
    """On one core: with two, the time to wake an idle core would count."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        found = {"python -I": process_callback([]), "coc --sandbox none": await callback(NoSandbox())}
        with Jail(spares=0) as jail:
            found["coc, fork"] = found["coc, spare guest"] = await callback(jail)
        if peers["bubblewrap"]:
            found["bubblewrap"] = process_callback(bubblewrap())
        if peers["smolagents"]:
            found["smolagents"] = smolagents_callback()
        return found
    finally:
        os.sched_setaffinity(0, everywhere)


async def cold_with_packages() -> float:
    with Jail(spares=0) as jail:
        program = "import numpy, pandas, sympy\nanswer = 1"
        started = time.perf_counter()
        assert (await arun(program, sandbox=jail, packages=SCIENCE)).answer == 1
        return (time.perf_counter() - started) * 1000


def _has_smolagents() -> bool:
    import importlib.util

    return importlib.util.find_spec("smolagents") is not None


def report(
    tier: str, rows: dict[str, Row], callbacks: dict[str, float], packages: float, peers: dict[str, bool]
) -> int:
    print(f"Python {sys.version.split()[0]}, tier {tier}; ms, callback µs")
    print(f"{'':20} {'cold':>8} {'warm':>8} {'whole':>8} {'loop':>9} {'callback':>9}")
    for name, row in rows.items():
        cells = [f"{median(row[key]):8.2f}" if key in row else f"{'–':>8}" for key in ("cold", "warm", "whole")]
        call = f"{callbacks[name]:9.0f}" if name in callbacks else f"{'–':>9}"
        print(f"{name:20} {' '.join(cells)} {min(row['loop']):9.0f} {call}")
    print(f"cold with {', '.join(SCIENCE)} imported: {packages:.0f} ms, once")
    for name in [peer for peer, is_there in peers.items() if not is_there]:
        print(f"{name} is not installed: skipped")
    spare = rows["coc, spare guest"]
    found = {
        "cold": median(spare["cold"]),
        "cold with packages": packages,
        "warm": median(spare["warm"]),
        "callback": callbacks["coc, spare guest"],
        "loop": min(spare["loop"]) / min(rows["plain exec"]["loop"]),
    }
    missed = {name: value for name, value in found.items() if value > TARGETS[name]}
    for name, value in missed.items():
        print(f"missed: {name} is {value:.2f}, target {TARGETS[name]:g}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
