"""Random programs have the same results under the engine as under CPython with the holes as real functions."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import Any

import pytest
from conftest import random_programs
from programs import HOLES, program

from chainofcode import Limits, Result, arun

COUNT = random_programs(60, 120)
SIZE = 20


def under_cpython(source: str) -> tuple[str, str]:
    """Return the answer or error, and the output."""
    names: dict[str, Any] = {"__name__": "__main__", **HOLES}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, "<program>", "exec"), names)
        except Exception as error:
            return f"{type(error).__name__}: {error}", printed.getvalue()
    return repr(names["answer"]), printed.getvalue()


def outcome_of(result: Result) -> tuple[str, str]:
    answer = result.trace.answer
    assert answer is not None
    if answer.error is not None:
        return f"{answer.error.type}: {answer.error.message}", result.trace.output
    return answer.text, result.trace.output


@pytest.mark.parametrize("start", range(0, COUNT, SIZE))
def test_random_programs(start: int) -> None:
    sources = {seed: program(seed) for seed in range(start, start + SIZE)}

    async def run_all() -> list[Result]:
        slots = asyncio.Semaphore(4)

        async def run_one(source: str) -> Result:
            async with slots:
                return await arun(source, lambda p: HOLES[p.name](*p.args), limits=Limits(lm_calls=100_000))

        return await asyncio.gather(*(run_one(source) for source in sources.values()))

    for (seed, source), result in zip(sources.items(), asyncio.run(run_all()), strict=True):
        assert outcome_of(result) == under_cpython(source), f"seed {seed}\n{source}"


def test_generator_covers_many_features() -> None:
    """The programs differ: many features occur, some programs end in errors, most outcomes are distinct."""
    sources = [program(seed) for seed in range(300)]
    for words in (
        "while",
        "for n",
        "try:",
        "finally:",
        "break",
        "nonlocal",
        "global c",
        "yield",
        "lambda",
        "key=weigh",
    ):
        assert sum(words in source for source in sources) > 10, words
    outcomes = [under_cpython(source)[0] for source in sources]
    assert 10 < sum("Error" in outcome for outcome in outcomes) < 200
    assert len(set(outcomes)) > 200
