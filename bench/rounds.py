"""Measure rounds of calls: how many round trips to a model a program takes when calls overlap, and how many calls are
wasted.

    python bench/rounds.py                     ../shared/cases/bbh.jsonl and ../shared/data/bbh-runs, if present
    python bench/rounds.py --part cases        only the 41 programs of bbh.jsonl that have calls
    python bench/rounds.py --part runs --limit 200
    python bench/rounds.py --program p.py --values p.values.jsonl

Values arrive in rounds: after `--quiet` seconds without a new call, all pending calls are answered together. A program
with independent calls takes one round; sequential calls take one round each. Raise `--quiet` on a slow or busy machine:
a call that arrives after its round was closed counts as another round. Exits 1 if a target is missed: over 1.5 rounds
per program, over 3 % wasted calls, or a wrong answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chainofcode import Answer, Jail, Pause, Program, Step, Table, Trace, arun
from chainofcode.emulator import Answered

SHARED = Path(__file__).parents[2] / "shared"
CASES = SHARED / "cases" / "bbh.jsonl"
RUNS = SHARED / "data" / "bbh-runs"
MOST_ROUNDS = 1.5  # per program, on average
MOST_WASTE = 0.03  # of the requested calls


class InRounds:
    """Answers all pending calls together, after a while without a new call."""

    in_flight, gathers = 1024, True

    def __init__(self, values: Table, quiet: float) -> None:
        self._values, self._quiet = values, quiet
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.is_ordered = values.is_ordered
        self.rounds: list[int] = []  # the number of calls in each

    async def answer(self, pause: Pause) -> Answered:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        self.close()
        self._timer = loop.call_later(self._quiet, self._release)
        await turn
        return await self._values.answer(pause)

    def _release(self) -> None:
        waiting = [turn for turn in self._waiting if not turn.done()]  # the others are cancelled
        self._waiting = []
        self.rounds += [len(waiting)] if waiting else []
        for turn in waiting:
            turn.set_result(None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


# --- programs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A program, the values of its calls, and the expected answer."""

    name: str
    program: str
    values: Table
    expected: str = ""
    question: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Sample]:
    """Yield programs of a frontier model that have calls."""
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["calls"]:
            values = Table.of_records(case["calls"], case["id"])
            yield Sample(case["id"], case["program"], values, case["expect"], case["question"])


def runs() -> Iterator[Sample]:
    """Yield programs of a small model: the last one of each trace, if it has calls and an answer."""
    for path in sorted(RUNS.glob("*/traces.txz")):
        with tarfile.open(path, "r|xz") as archive:  # in the order of the archive: seeking would unpack it again
            for member in archive:
                file = archive.extractfile(member) if "/coc/" in member.name else None
                sample = _recorded(member.name, file) if file is not None else None
                if sample is not None:
                    yield sample


def _recorded(name: str, file: Iterable[bytes]) -> Sample | None:
    trace = Trace.parse(file, name)
    events = trace.attempts[-1]
    program = next((event for event in events if isinstance(event, Program)), None)
    steps = [event for event in events if isinstance(event, Step) and event.by == "lm"]
    answer = events[-1]
    if program is None or not steps or not isinstance(answer, Answer) or answer.reason != "answered":
        return None
    # A repeated call has the same value; listed twice, it would make the order of calls matter.
    told = {json.dumps([step.call, step.value]): {"call": step.call, "value": step.value} for step in steps}
    values = Table.of_records(list(told.values()), name)
    return Sample(name, program.source, values, answer.text, trace.question, dict(trace.inputs))


# --- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    sample: Sample
    rounds: int
    calls: int  # that the program made
    wasted: int
    answer: str

    @property
    def is_right(self) -> bool:
        return not self.sample.expected or self.answer == self.sample.expected


async def measure(sample: Sample, sandbox: Jail, quiet: float) -> Measured:
    emulator = InRounds(sample.values, quiet)
    given: Any = {"question": sample.question, "inputs": sample.inputs, "in_flight": emulator.in_flight}
    try:
        result = await arun(sample.program, emulator, sandbox=sandbox, **given)
    finally:
        emulator.close()
    text = result.trace.answer.text if result.error is None and result.trace.answer is not None else result.reason
    return Measured(sample, len(emulator.rounds), result.trace.lm_calls, result.trace.wasted, text)


def report(part: str, measured: list[Measured], worst: int) -> bool:
    """Print the measurements; whether the targets are met."""
    programs = len(measured)
    rounds, calls = sum(one.rounds for one in measured), sum(one.calls for one in measured)
    wasted = sum(one.wasted for one in measured)
    wrong = [one for one in measured if not one.is_right]
    waste = wasted / max(1, calls + wasted)
    is_met = rounds <= MOST_ROUNDS * programs and waste <= MOST_WASTE and not wrong
    text = f"{part:<8} {programs} programs   {rounds / programs:.2f} rounds per program (target {MOST_ROUNDS})   "
    text += f"{calls / programs:.2f} calls per program   {wasted} of {calls + wasted} calls wasted, "
    text += f"{waste:.1%} (target {MOST_WASTE:.0%})   {len(wrong)} wrong"
    print(text + ("" if is_met else "   MISSED"))
    spread = sorted(Counter(one.rounds for one in measured).items())
    print("         " + ", ".join(f"{number} of {count} rounds" for count, number in spread))
    for one in sorted(measured, key=lambda one: -one.rounds - one.wasted)[:worst]:
        print(f"         {one.sample.name}: {one.rounds} rounds, {one.calls} calls, {one.wasted} wasted")
    for one in wrong:
        print(f"         {one.sample.name}: {one.answer} instead of {one.sample.expected}")
    return is_met


async def measure_all(samples: list[Sample], given: argparse.Namespace, sandbox: Jail) -> list[Measured]:
    slots = asyncio.Semaphore(given.at_once)

    async def one(sample: Sample) -> Measured:
        async with slots:
            return await measure(sample, sandbox, given.quiet)

    return await asyncio.gather(*map(one, samples))


def chosen(given: argparse.Namespace) -> dict[str, list[Sample]]:
    if given.program is not None:
        values = Table.read(given.values)
        return {"program": [Sample(given.program.name, given.program.read_text(encoding="utf-8"), values)]}
    parts = {"cases": (CASES, cases), "runs": (RUNS, runs)}
    samples = {}
    for part, (path, read) in parts.items():
        if given.part in (None, part) and not path.exists():
            print(f"{part}: ../shared/{path.relative_to(SHARED)} not found")
        elif given.part in (None, part):
            samples[part] = list(read())[: given.limit]
    return samples


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["cases", "runs"], help="only this part")
    parser.add_argument("--limit", type=int, help="maximum number of programs per part")
    parser.add_argument("--quiet", type=float, default=0.05, help="seconds without a new call that end a round")
    parser.add_argument("--at-once", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--worst", type=int, default=5, help="how many of the slowest programs to name")
    parser.add_argument("--program", type=Path, help="measure this program, with --values")
    parser.add_argument("--values", type=Path, help="its values, in the format of `coc run --values`")
    given = parser.parse_args()
    if (given.program is None) != (given.values is None):
        parser.error("--program and --values go together")
    is_met = True
    with Jail(spares=given.at_once) as sandbox:
        for part, samples in chosen(given).items():
            is_met = report(part, await measure_all(samples, given, sandbox), given.worst) and is_met
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
