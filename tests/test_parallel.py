"""Looking ahead changes when calls are made, never what a program computes."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import pytest
from programs import HOLES, program

from chainofcode import Limits, Result, arun
from chainofcode.emulator import Answered, Pause
from chainofcode.sandbox import opened

COUNT = int(os.environ.get("COC_RANDOM_PROGRAMS", "120"))
SIZE = 20


class Slow:
    """Answers late, in any order, and remembers what it was asked."""

    in_flight = 8

    def __init__(self, seed: int = 0, delay: float = 0.003) -> None:
        self._random, self._delay = random.Random(seed), delay
        self.asked: list[str] = []

    async def answer(self, pause: Pause) -> Answered:
        self.asked.append(pause.text)
        await asyncio.sleep(self._random.random() * self._delay)
        return Answered(HOLES[pause.name](*pause.args))


def same(result: Result) -> list[str]:
    """A trace without times and without how values came."""
    lines = []
    for line in result.trace.lines():
        event: dict[str, Any] = json.loads(line)
        lines.append(json.dumps({key: event[key] for key in event if key not in ("seconds", "how", "wasted")}))
    return lines


@pytest.mark.parametrize("start", range(0, COUNT, SIZE))
def test_random_programs_are_the_same_ahead_and_one_by_one(start: int) -> None:
    async def both(seed: int, sandbox: Any) -> None:
        source, emulator, limits = program(seed), Slow(seed), Limits(lm_calls=100_000)
        ahead = await arun(source, emulator, sandbox=sandbox, limits=limits)
        plain = await arun(source, Slow(delay=0), sandbox=sandbox, limits=limits, in_flight=1)
        assert same(ahead) == same(plain), f"seed {seed}\n{source}"
        assert ahead.trace.answer is not None
        assert len(emulator.asked) == ahead.trace.lm_calls + ahead.trace.answer.wasted, f"seed {seed}\n{source}"
        assert len(set(emulator.asked)) == len(emulator.asked), f"seed {seed}\n{source}"

    async def run_all() -> None:
        async with opened("auto") as sandbox:
            slots = asyncio.Semaphore(4)

            async def one(seed: int) -> None:
                async with slots:
                    await both(seed, sandbox)

            await asyncio.gather(*(one(seed) for seed in range(start, start + SIZE)))

    asyncio.run(run_all())
