"""Runs a program sequentially and overlapped, and compares the runs with each other and with CPython."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from overlap_programs import HOLES
from overlap_programs.plain import Plain

from chainofcode import EmulationError, Jail, Limits, Result, arun
from chainofcode.emulator import Answered, Pause

IN_FLIGHT = 8
DELAYS = (0.0015, 0.005, 0.02)  # maximum seconds: values arrive before lookahead gets far, or long after
LIMITS = Limits(lm_calls=100_000, run_seconds=20)
MOST_SECONDS = 30  # for one run, which should take a fraction of a second
# What may differ between two equal runs: when values arrived, and which calls were wasted.
TIMES = ("seconds", "started", "how", "wasted", "chain")


class Late:
    """Answers late and out of order; if `known` is given, it has no value for other calls.

    A call sent ahead that the program never makes must not matter, with or without a value. With `gathers`, lookahead
    sends all the calls it can find before the first answer.
    """

    in_flight = IN_FLIGHT

    def __init__(
        self, seed: int = 0, delay: float = DELAYS[1], known: Collection[str] | None = None, *, gathers: bool = False
    ) -> None:
        self._random, self._delay, self._known, self.gathers = random.Random(seed), delay, known, gathers
        self.requested: list[str] = []

    async def answer(self, pause: Pause) -> Answered:
        self.requested.append(pause.text)
        await asyncio.sleep(self._random.random() * self._delay)
        if pause.kind == "statement" or (self._known is not None and pause.text not in self._known):
            raise EmulationError(f"no value for {pause.text}")
        return Answered(HOLES[pause.name](*pause.args, **pause.kwargs))


@dataclass(frozen=True)
class Compared:
    """The differences between a program's two runs, and how many calls were sent ahead."""

    differences: list[str]
    calls: int = 0
    ahead: int = 0
    wasted: int = 0


async def compare(source: str, sandbox: Jail, plain: Plain | None = None, seed: int = 0) -> Compared:
    """Run a program both ways; compare with plain CPython if its run is given. `seed` decides how values arrive."""
    known = set(plain.calls) if plain is not None and seed % 2 else None
    late = Late(seed, DELAYS[seed % len(DELAYS)], known, gathers=seed // 6 % 2 == 1)
    sequential = await arun(source, Late(delay=0), sandbox=sandbox, limits=LIMITS, in_flight=1)
    try:
        async with asyncio.timeout(MOST_SECONDS):
            overlapped = await arun(source, late, sandbox=sandbox, limits=LIMITS)
    except TimeoutError:
        return Compared([f"overlapped run: no end within {MOST_SECONDS} s, after {len(late.requested)} calls"])
    found = [] if plain is None else [f"sequential {one}" for one in differences_from_cpython(sequential, plain)]
    if difference := first_difference(events(sequential), events(overlapped)):
        found.append(f"overlapped trace: {difference}")
    trace = overlapped.trace
    failed = overlapped.reason == "emulation failed"
    if len(late.requested) != trace.lm_calls + trace.wasted + failed:
        found.append(
            f"{len(late.requested)} calls requested; the trace has {trace.lm_calls} and {trace.wasted} wasted ones"
        )
    ahead = sum(step.how == "ahead" for step in trace.steps)
    return Compared(found, trace.lm_calls, ahead, trace.wasted)


def differences_from_cpython(result: Result, plain: Plain) -> list[str]:
    """Return the differences from CPython: in the answer or error, the output, the order of calls."""
    answer = result.trace.answer
    assert answer is not None
    error = f"{answer.error.type}: {answer.error.message}" if answer.error is not None else ""
    pairs: dict[str, tuple[Any, Any]] = {
        "answer": (answer.text, plain.answer),
        "error": (error, plain.error),
        "output": (result.trace.output, plain.output),
        "calls": ([step.call for step in result.trace.steps if step.call], plain.calls),
    }
    return [f"{what}: {ours!r}, CPython: {theirs!r}" for what, (ours, theirs) in pairs.items() if ours != theirs]


def events(result: Result) -> list[dict[str, Any]]:
    """Return the events of a trace without times."""
    lines = [json.loads(line) for line in result.trace.lines()]
    return [{key: line[key] for key in line if key not in TIMES} for line in lines]


def first_difference(these: list[dict[str, Any]], those: list[dict[str, Any]]) -> str:
    for this, that in zip(these, those, strict=False):
        if this != that:
            return f"{json.dumps(that)} instead of {json.dumps(this)}"
    if len(these) != len(those):
        return f"{len(those)} events instead of {len(these)}"
    return ""
