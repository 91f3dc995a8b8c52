"""Overlap changes only the time: overlapped runs, sequential runs and plain CPython agree."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import has_tier, random_programs
from overlap_cases import CASES
from overlap_effects import effects
from overlap_endless import endless
from overlap_programs import FEATURES, HOLES, program
from overlap_programs.plain import Plain, run_all
from overlap_runs import LIMITS, Compared, Late, compare, events, first_difference
from overlap_sharing import SCRATCH, SHARING, TOOLS

from chainofcode import Jail, Result, arun

COUNT = random_programs(50, 300)
SIZE = 25
AT_ONCE = 4
WAYS = (0, 7, 8)  # seeds for `compare`: early values; gathered, without values for wasted calls; gathered and late


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=AT_ONCE) as jail:
        yield jail


def compare_all(sources: dict[int, str], plains: list[Plain], jail: Jail) -> dict[int, Compared]:
    async def run() -> list[Compared]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def compare_one(seed: int, plain: Plain) -> Compared:
            async with slots:
                return await compare(sources[seed], jail, plain, seed)

        return await asyncio.gather(*map(compare_one, sources, plains))

    return dict(zip(sources, asyncio.run(run()), strict=True))


@pytest.mark.parametrize("start", range(0, COUNT, SIZE))
def test_random_programs(start: int, jail: Jail) -> None:
    sources = {seed: program(seed).source for seed in range(start, min(start + SIZE, COUNT))}
    compared = compare_all(sources, run_all(sources.values()), jail)
    different = {seed: result.differences for seed, result in compared.items() if result.differences}
    summary = [f"seed {seed}: {found[0]}" for seed, found in different.items()]
    sample = sources[min(different)] if different else ""
    assert not different, "\n".join([f"{len(different)} of {len(sources)} programs differ", *summary, "", sample])
    calls, ahead = sum(result.calls for result in compared.values()), sum(result.ahead for result in compared.values())
    assert ahead > calls / 5  # otherwise nothing overlapped and the test is vacuous


def test_generated_programs_are_diverse() -> None:
    """Every feature and every undefined function occurs in many programs, which end in different ways and lengths."""
    programs = [program(seed) for seed in range(600)]
    used = Counter(name for generated in programs for name in set(generated.features))
    assert [name for name in FEATURES if used[name] < 4] == []
    assert len(FEATURES) > 100
    plains = run_all(generated.source for generated in programs)
    assert [generated.seed for generated, plain in zip(programs, plains, strict=True) if plain.error == "no end"] == []
    called = Counter(name for plain in plains for name in {call.partition("(")[0] for call in plain.calls})
    assert [name for name in HOLES if called[name] < 20] == []
    assert len({plain.answer + plain.error for plain in plains}) > 590
    assert sum(bool(plain.output) for plain in plains) > 300
    assert sum(plain.answer.startswith("('early'") for plain in plains) > 5
    assert sum(bool(plain.error) for plain in plains) > 5
    numbers = sorted(len(plain.calls) for plain in plains)
    assert numbers[0] >= 1
    assert numbers[len(numbers) // 2] > 20
    assert numbers[-1] < 500


# --- handwritten programs -----------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", effects())
def test_effects_happen_once_and_in_program_order(name: str, jail: Jail) -> None:
    source = effects()[name]
    (plain,) = run_all([source])
    assert plain.error == ""
    assert plain.calls
    for seed in WAYS:
        compared = asyncio.run(compare(source, jail, plain, seed))
        assert compared.differences == [], source


@pytest.mark.parametrize("name", SHARING)
def test_shared_resources_are_used_once(name: str, jail: Jail) -> None:
    (plain,) = run_all([SHARING[name]])
    assert plain.error == ""
    for seed in WAYS:
        assert asyncio.run(compare(SHARING[name], jail, plain, seed)).differences == []


@pytest.mark.parametrize("name", SCRATCH)
def test_files_are_written_once(name: str, jail: Jail) -> None:
    if not has_tier("A"):
        pytest.skip("a scratch directory needs tier A of the sandbox")
    given: Any = {"sandbox": jail, "limits": LIMITS, "scratch": True}
    sequential = asyncio.run(arun(SCRATCH[name], Late(delay=0), in_flight=1, **given))
    overlapped = asyncio.run(arun(SCRATCH[name], Late(), **given))
    assert sequential.reason == "answered", sequential.error
    assert first_difference(events(sequential), events(overlapped)) == ""
    assert overlapped.artifacts == sequential.artifacts


@pytest.mark.parametrize("name", TOOLS)
def test_tools_are_called_as_often_as_the_program_does(name: str, jail: Jail) -> None:
    def traced(in_flight: int) -> tuple[list[int], Result]:
        sent: list[int] = []

        def send(value: int) -> int:
            sent.append(value)
            return value + len(sent)

        options: Any = {"tools": [send], "sandbox": jail, "limits": LIMITS, "in_flight": in_flight}
        return sent, asyncio.run(arun(TOOLS[name], Late(), **options))

    (sent, sequential), (also_sent, overlapped) = traced(1), traced(8)
    assert sequential.reason == "answered", sequential.error
    assert also_sent == sent
    assert first_difference(events(sequential), events(overlapped)) == ""


@pytest.mark.parametrize("name", endless())
def test_work_after_an_exit_does_not_delay_the_end(name: str, jail: Jail) -> None:
    source = endless()[name]
    began = time.perf_counter()
    sequential = asyncio.run(arun(source, Late(), sandbox=jail, limits=LIMITS, in_flight=1))
    between = time.perf_counter()
    overlapped = asyncio.run(arun(source, Late(), sandbox=jail, limits=LIMITS))
    ended = time.perf_counter()
    assert (sequential.answer, sequential.reason) == (10, "answered")
    assert first_difference(events(sequential), events(overlapped)) == ""
    assert ended - between < between - began + 2


def test_handwritten_programs_are_distinct() -> None:
    sources = [*effects().values(), *endless().values(), *CASES.values()]
    sources += [*SHARING.values(), *SCRATCH.values(), *TOOLS.values()]
    assert len({source.strip() for source in sources}) == len(sources) > 250
