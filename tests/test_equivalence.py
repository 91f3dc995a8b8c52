"""Random programs give under the engine what they give under CPython with the holes as real functions."""

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
    """(answer or error, output)"""
    names: dict[str, Any] = {"__name__": "__main__", **HOLES}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, "<program>", "exec"), names)
        except Exception as error:
            return f"{type(error).__name__}: {error}", printed.getvalue()
    return repr(names["answer"]), printed.getvalue()


def told(result: Result) -> tuple[str, str]:
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

        async def one(source: str) -> Result:
            async with slots:
                return await arun(source, lambda p: HOLES[p.name](*p.args), limits=Limits(lm_calls=100_000))

        return await asyncio.gather(*(one(source) for source in sources.values()))

    for (seed, source), result in zip(sources.items(), asyncio.run(run_all()), strict=True):
        assert told(result) == under_cpython(source), f"seed {seed}\n{source}"


def test_the_generator_reaches_far() -> None:
    """The programs are not all alike: some end in errors, most loop, most ask."""
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
