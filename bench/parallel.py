"""Overlapping calls, compared with the same programs written by hand with asyncio.gather.

    python bench/parallel.py              all parts; the first two need ../shared/cases/parallel
    python bench/parallel.py --latency 0.2 --questions 100

programs    each program with values that take `--latency` seconds, at most `--in-flight` at once: the time from the
            start of the program to its answer, compared with asyncio.gather and with one call at a time
endpoint    the program with 188 places, over a real HTTP endpoint (bench/latency.py)
questions   recorded programs for many questions over the endpoint, all in one process: share of the ideal speed
            (latency × calls / in flight), and growth of memory from the first half to the second
Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from chainofcode import Answer, Jail, Program, Table, arun, asolve, connect, execute
from chainofcode.emulator import Delayed
from chainofcode.emulator.table import normal_text

CASES = Path(__file__).parents[2] / "shared" / "cases" / "parallel"
ROUNDS = 5
ROOM = 1.15, 0.015  # allowed: this factor of the time of gather, plus these seconds
Ask = Callable[..., Awaitable[Any]]


# --- by hand ------------------------------------------------------------------------------------------------------


async def comprehension(ask: Ask, reviews: list[str]) -> Any:
    labels = await asyncio.gather(*(ask("sentiment", review) for review in reviews))
    return labels.count("good")


async def countries(ask: Ask, places: list[str]) -> Any:
    return len(set(await asyncio.gather(*(ask("get_country", place) for place in places))))


async def helper_key(ask: Ask, reviews: list[str]) -> Any:
    async def score(review: str) -> Any:
        base, is_positive = await asyncio.gather(ask("humor", review), ask("is_positive", review))
        return base * 2 if is_positive else base

    scores = dict(zip(reviews, await asyncio.gather(*map(score, reviews)), strict=True))
    return max(reviews, key=scores.__getitem__), sorted(reviews, key=lambda r: (-scores[r], r))[:3]


async def loop_if(ask: Ask, reviews: list[str]) -> Any:
    async def topic(review: str) -> Any:
        return await ask("topic", review) if await ask("is_positive", review) else None

    by: dict[str, list[str]] = {}
    for review, about in zip(reviews, await asyncio.gather(*map(topic, reviews)), strict=True):
        if about is not None:
            by.setdefault(about, []).append(review)
    return sum(map(len, by.values())), sorted((about, len(chosen)) for about, chosen in by.items())


async def straight_line(ask: Ask, _: Any) -> Any:
    a, b, c, d, e, f = await asyncio.gather(
        *(ask("population", country) for country in ("Norway", "Sweden", "Finland")),
        ask("language", "Norway"),
        ask("capital", "Sweden"),
        ask("year", "moon landing"),
    )
    return a + b + c, d, e, f


BY_HAND = {job.__name__: job for job in (comprehension, countries, helper_key, loop_if, straight_line)}


class Values:
    """The values of a program, each of which takes `latency` seconds."""

    def __init__(self, path: Path, latency: float, in_flight: int) -> None:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self._values = {normal_text(record["call"]): record["value"] for record in records}
        self._latency, self._slots = latency, asyncio.Semaphore(in_flight)

    async def __call__(self, name: str, argument: Any) -> Any:
        async with self._slots:
            await asyncio.sleep(self._latency)
            return self._values[f"{name}({argument!r})"]


# --- the parts ----------------------------------------------------------------------------------------------------


class Report:
    """Prints what was measured; remembers whether a target was missed."""

    is_missed = False

    def __call__(self, text: str, is_met: bool) -> None:
        self.is_missed = self.is_missed or not is_met
        print(f"  {text}{'' if is_met else '   MISSED'}", flush=True)


async def timed(program: str, emulator: Any, sandbox: Any, **options: Any) -> tuple[float, Answer, int]:
    """Return the seconds from the start of a program to its answer, the answer, and the number of calls."""
    calls, started = 0, 0.0
    async for event in execute(program, emulator, sandbox=sandbox, **options):
        if isinstance(event, Program):
            started = time.perf_counter()
        elif isinstance(event, Answer):
            return time.perf_counter() - started, event, calls
        else:
            calls += getattr(event, "by", "") == "lm" and getattr(event, "how", "") != "shared"
    raise AssertionError("a run ends with an answer")


async def programs(given: argparse.Namespace, report: Report, sandbox: Any) -> None:
    print(f"programs: values take {given.latency:g} s, {given.in_flight} at once; best of {ROUNDS}")
    for name, by_hand in BY_HAND.items():
        source = (CASES / f"{name}.py").read_text(encoding="utf-8")
        path = CASES / f"{name}.values.jsonl"
        first = ast.parse(source).body[0]
        data = ast.literal_eval(first.value) if name != "straight_line" else None  # type: ignore[attr-defined]
        hand, ours = [], []
        for _ in range(ROUNDS):
            ask = Values(path, given.latency, given.in_flight)
            began = time.perf_counter()
            expected = await by_hand(ask, data)
            hand.append(time.perf_counter() - began)
            emulator = Delayed(Table.read(path), given.latency)
            seconds, answer, calls = await timed(source, emulator, sandbox, in_flight=given.in_flight)
            ours.append(seconds)
            if answer.text != repr(expected):
                raise SystemExit(f"{name}: {answer.text} is not {expected!r}")
        alone, _, _ = await timed(source, Delayed(Table.read(path), given.latency), sandbox, in_flight=1)
        limit = min(hand) * ROOM[0] + ROOM[1]
        distinct = len(path.read_text(encoding="utf-8").splitlines())
        text = f"{name:<14} {min(ours) * 1000:6.0f} ms   gather {min(hand) * 1000:6.0f} ms   "
        text += f"ratio {min(ours) / min(hand):.2f}   one by one {alone / min(ours):5.1f} x   "
        text += f"{calls} calls, {answer.wasted} wasted"
        is_met = min(ours) <= limit and calls <= distinct and answer.wasted <= 0.1 * calls
        report(text, is_met and (name != "countries" or alone / min(ours) >= 20))


async def endpoint(given: argparse.Namespace, report: Report, sandbox: Any) -> None:
    print(f"endpoint: {given.latency:g} s, {given.in_flight} at once, over HTTP")
    source = (CASES / "countries.py").read_text(encoding="utf-8")
    with serving(given, "--values", str(CASES / "countries.values.jsonl")) as url:
        lm = connect("openai:m", base_url=url, api_key="none")
        await arun("answer = get_country('Andorra')", lm, sandbox=sandbox)  # imports the HTTP client
        seconds, answer, calls = await timed(source, lm, sandbox, in_flight=given.in_flight)
        alone, _, _ = await timed(source, lm, sandbox, in_flight=1)
    ideal = given.latency * -(-calls // given.in_flight)
    text = f"countries      {seconds * 1000:6.0f} ms   ideal {ideal * 1000:.0f} ms   one by one {alone / seconds:.1f} x"
    report(f"{text}   {calls} calls, {answer.wasted} wasted, answer {answer.text}", answer.reason == "answered")


async def questions(given: argparse.Namespace, report: Report, sandbox: Any) -> None:
    print(
        f"questions: {given.questions} with recorded programs, {given.question_latency:g} s, {given.in_flight} at once"
    )
    with tempfile.TemporaryDirectory() as place:
        told, values = Path(place, "programs.json"), Path(place, "values.jsonl")  # small: blocking is no problem
        asked = {f"How many of batch {n} are ripe?": _program(n) for n in range(given.questions)}
        told.write_text(json.dumps(asked))  # noqa: ASYNC240
        lines = [
            {"call": f"is_ripe('fruit {n}-{k}')", "value": k % 3 == 0} for n in range(given.questions) for k in range(7)
        ]
        values.write_text("\n".join(map(json.dumps, lines)))  # noqa: ASYNC240
        more = ("--programs", str(told), "--values", str(values), "--latency", str(given.question_latency))
        with serving(given, *more) as url:
            lm = connect("openai:m", base_url=url, api_key="none")
            slots, memory, done = asyncio.Semaphore(given.in_flight), [], 0
            calls = wrong = 0

            async def one(question: str) -> None:
                nonlocal calls, wrong, done
                async with slots:
                    result = await asolve(question, lm, sandbox=sandbox)
                calls += len(result.trace.calls)
                wrong += result.answer != 3
                done += 1
                if done in (given.questions // 2, given.questions):
                    memory.append(_memory())

            began = time.perf_counter()
            await asyncio.gather(*map(one, asked))
            seconds = time.perf_counter() - began
    ideal = given.question_latency * calls / given.in_flight
    share, growth = ideal / seconds, memory[-1] / memory[0] - 1
    text = f"{calls} calls in {seconds:.1f} s, {share:.0%} of the ideal {ideal:.1f} s; {wrong} wrong; "
    text += f"memory {memory[0] / 1e6:.0f} MB after half, {memory[-1] / 1e6:.0f} MB after all"
    report(text, share >= 0.85 and not wrong and growth < 0.1)


def _program(n: int) -> str:
    return f"items = [f'fruit {n}-{{k}}' for k in range(7)]\nanswer = sum(is_ripe(item) for item in items)"


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@contextlib.contextmanager
def serving(given: argparse.Namespace, *more: str) -> Iterator[str]:
    """Run the endpoint in a separate process."""
    here = str(Path(__file__).with_name("latency.py"))
    command = [sys.executable, here, "--latency", str(given.latency), "--in-flight", str(given.in_flight), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        finally:
            server.terminate()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--question-latency", type=float, default=1.0, help="seconds; what a real model takes")
    parser.add_argument("--part", choices=["programs", "endpoint", "questions"], help="only this one")
    given = parser.parse_args()
    report = Report()
    sandbox = Jail(spares=4)
    try:
        await arun("answer = 1", sandbox=sandbox)
        if not CASES.exists():
            print("programs, endpoint: ../shared/cases/parallel not found")
        for part in (programs, endpoint, questions):
            if given.part in (None, part.__name__) and (CASES.exists() or part is questions):
                await part(given, report, sandbox)
    finally:
        sandbox.close()
    return int(report.is_missed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
