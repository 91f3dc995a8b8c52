"""The cost of watching: the engine, with traces on, compared with plain `exec` of the same text, interleaved.

    python bench/overhead.py            on this Python; .venv-3.12/bin/python bench/overhead.py on another

Engine time is the time from the Program event to the Answer event: process start and parsing are excluded, everything
that happens while the program runs is included. Prints the ratio of the fastest runs, the size of the trace, and the
cost of a pause. The targets for pauses apply to one core: with two, waking an idle core takes time that depends on the
machine; the time of a bare message over a pipe is printed for comparison. Exits 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from itertools import pairwise

from chainofcode import Answer, Program, Trace, execute

PROGRAMS = {
    "a 10⁶-iteration loop": """
total = 0
for i in range(1_000_000):
    total += i % 7 * 3
    if total > 1000:
        total -= 1000
answer = total
""",
    "a tight loop": """
total = 0
for i in range(3_000_000):
    total += i
answer = total
""",
    "b strings, dicts, sorting": """
words = []
for i in range(400_000):
    words.append("w" + str(i * 7919 % 10_007))
counts = {}
for word in words:
    counts[word] = counts.get(word, 0) + 1
ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
text = ",".join(f"{word}:{count}" for word, count in ranked)
total = 0
for part in text.split(","):
    word, count = part.split(":")
    total += int(count) * len(word)
for turn in range(4):
    words = sorted(words, key=lambda word: word[::-1])
answer = (total, words[0], len(text))
""",
    "c recursive calls": """
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)
answer = fib(30)
""",
}
NEW = sys.version_info >= (3, 12)
TARGETS = {name: 1.15 if NEW else 2.0 if name.startswith("c") else 1.5 for name in PROGRAMS}
PLAIN = """
import sys, time
code = compile(sys.stdin.read(), "<program>", "exec")
started = time.perf_counter()
names = {"__name__": "__main__"}
exec(code, names)
names["seconds"] = time.perf_counter() - started
sys.__stdout__.write(f"\\n{names[sys.argv[1]]}")
"""
PAUSES = 2000


def plain_seconds(program: str) -> float:
    return float(run_plainly(program, "seconds"))


def run_plainly(program: str, name: str) -> str:
    """Run a program with plain `exec` in a fresh interpreter; return one of its variables, or its seconds."""
    command = [sys.executable, "-s", "-P", "-S", "-c", PLAIN, name]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=True)
    return done.stdout.rpartition("\n")[2]


async def engine_seconds(program: str) -> tuple[float, Trace]:
    trace, started = Trace(), 0.0
    async for event in execute(program):
        trace.events.append(event)
        if isinstance(event, Program):
            started = time.perf_counter()
        if isinstance(event, Answer):
            assert event.reason == "answered", event
            return time.perf_counter() - started, trace
    raise AssertionError("no answer")


def pause_microseconds() -> float:
    """The time of a pause and its resumption through `execute`: the median of many pauses in one program."""
    program = f"for i in range({PAUSES}):\n    value = ask(i)\nanswer = value"
    moments: list[float] = []

    async def collect() -> None:
        def answer(pause: object) -> int:
            moments.append(time.perf_counter())
            return 1

        from chainofcode import Limits

        async for _ in execute(program, answer, limits=Limits(lm_calls=PAUSES)):
            pass

    asyncio.run(collect())
    gaps = sorted(later - earlier for earlier, later in pairwise(moments))
    return gaps[len(gaps) // 2] * 1e6


def frame_microseconds() -> float:
    """The time of a pause at the level of frames: a guest, a pipe, and nothing else on the host."""
    from chainofcode.sandbox.frames import Ended, Paused, Reader, encode
    from chainofcode.sandbox.job import Job
    from chainofcode.sandbox.process import ProcessGuest

    guest = ProcessGuest(sys.executable)
    job = Job(f"for i in range({PAUSES}):\n    value = ask(i)\nanswer = value")
    reader, moments = Reader(1 << 24, 1 << 24), []
    os.write(guest.wire.write_fd, encode({**job.message(), "package_names": [], "package_paths": [], "processes": 0}))
    while True:
        signal = reader.next()
        if signal is None:
            reader.feed(os.read(guest.wire.read_fd, 1 << 16))
        elif isinstance(signal, Paused):
            moments.append(time.perf_counter())
            os.write(guest.wire.write_fd, encode({"type": "resume", "id": signal.id, "value": 1}))
        elif isinstance(signal, Ended):
            break
    guest.kill()
    asyncio.run(guest.wait())
    gaps = sorted(later - earlier for earlier, later in pairwise(moments))
    return gaps[len(gaps) // 2] * 1e6


def floor_microseconds() -> float:
    """The time that a message takes to another process and back over pipes."""
    there_read, there_write = os.pipe()
    back_read, back_write = os.pipe()
    child = os.fork()
    if child == 0:
        while data := os.read(there_read, 100):
            os.write(back_write, data)
            if data == b"end":
                os._exit(0)
    gaps = []
    for _ in range(PAUSES):
        started = time.perf_counter()
        os.write(there_write, b"ping")
        os.read(back_read, 100)
        gaps.append(time.perf_counter() - started)
    os.write(there_write, b"end")
    os.waitpid(child, 0)
    return sorted(gaps)[len(gaps) // 2] * 1e6


def main() -> int:
    missed = 0
    print(f"Python {sys.version.split()[0]}          plain s  engine s  ratio  target  trace kB")
    for name, program in PROGRAMS.items():
        plain, engine = [], []
        for _ in range(15):
            plain.append(plain_seconds(program))
            seconds, trace = asyncio.run(engine_seconds(program))
            engine.append(seconds)
        ratio = min(engine) / min(plain)
        size = sum(len(line) + 1 for line in trace.lines()) / 1000
        missed += ratio > TARGETS[name]
        print(f"{name:26} {min(plain):8.3f} {min(engine):9.3f} {ratio:6.2f} {TARGETS[name]:7} {size:9.0f}")
    _, trace = asyncio.run(engine_seconds("n = 0\nwhile n < 10_000_000:\n    n += 1\nanswer = n"))
    size = sum(len(line) + 1 for line in trace.lines()) / 1000
    missed += size > 1000
    print(f"a 10⁷-iteration loop leaves a trace of {size:.0f} kB (target < 1000)")
    print("pause and resume, µs      pipe alone  frames  execute   (targets: frames ≤ 100, execute ≤ 250)")
    for where, cores in (("on two cores", None), ("on one core", {min(os.sched_getaffinity(0))})):
        everywhere = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores or everywhere)
        pipe, frames, whole = floor_microseconds(), frame_microseconds(), pause_microseconds()
        os.sched_setaffinity(0, everywhere)
        print(f"  {where:22} {pipe:11.0f} {frames:7.0f} {whole:8.0f}")
    missed += frames > 100 or whole > 250
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
