"""Provenance: known dependencies, and brute-force checks that statements and values outside a slice do not matter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aliasing_programs import FIRST, aliasing_program
from channels import NEED_FILES, WAYS, alone, mixed
from conftest import part, random_programs, records
from lineage_cases import CASES
from oracle import Oracle, objections
from programs import HOLES, program
from slice_check import Force

from chainofcode import Limits, Pause, Result, ScriptedLM, Trace, arun, run
from chainofcode.audit.provenance.slices import slice_of
from chainofcode.sandbox import Jail, Sandbox
from chainofcode.values.codec import decode

COUNT = random_programs(20, 20)  # each takes seconds
PROGRAMS = random_programs(40, 100)  # random mixes of channels
SEE_THE_WATCHER = {"trace function"}  # its answer differs in a guest
ENDS = ["a", "b", "c", "d", "xs", "sorted(d0.items())", "d1", "log", "dict(many)", "xs is ys"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Jail(spares=1) as jail:
        yield jail


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as process:
        yield process


def steps(trace: Trace) -> list[Any]:
    return [
        (s.by, s.statement, s.visit, s.delta, s.outcome, s.output, s.call, repr(s.value), s.error) for s in trace.steps
    ]


def answer_at_random(pause: Pause) -> Any:
    try:
        return HOLES[pause.name](*pause.args)
    except (TypeError, KeyError):  # a program without one of its statements may make any call
        return 0


@pytest.mark.parametrize("name", CASES)
def test_known_dependencies(name: str, sandbox: Sandbox) -> None:
    source, values, lines = CASES[name]
    force = Force(source, lambda pause: values[pause.text], sandbox, {})
    result, found = asyncio.run(force.sliced())
    assert found is not None, result
    assert result.trace.program is not None
    assert {result.trace.program.statements[number].line for number in found.statements} == lines
    assert asyncio.run(force.objections()) == []


def marked_cases() -> dict[str, str]:
    parts = (Path(__file__).parent / "slice_cases.txt").read_text(encoding="utf-8").split("=== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def answer_of(pause: Pause) -> Any:
    fixed: dict[str, Any] = {"ok": False, "yes": True, "zero": 0}
    first = pause.args[0] if pause.args else 0
    return fixed[pause.name] if pause.name in fixed else (int(first) if isinstance(first, int) else 7) * 10 + 1


@pytest.mark.parametrize("name", marked_cases())
def test_hidden_dependencies(name: str, sandbox: Sandbox) -> None:
    source = marked_cases()[name]
    force = Force(source, answer_of, sandbox, {})
    result, found = asyncio.run(force.sliced())
    assert found is not None, result
    assert result.trace.program is not None
    expected = {number for number, line in enumerate(source.split("\n"), 1) if line.endswith("#")}
    assert {result.trace.program.statements[number].line for number in found.statements} == expected
    assert asyncio.run(force.objections()) == []


@pytest.mark.parametrize("seed", range(COUNT // 5))
def test_brute_force_on_aliasing_programs(seed: int, sandbox: Sandbox) -> None:
    force = Force(aliasing_program(seed), answer_at_random, sandbox, {})
    assert asyncio.run(force.objections(FIRST)) == []


@pytest.mark.sampled(10)
@pytest.mark.parametrize("way", [way for way in WAYS if way not in NEED_FILES | SEE_THE_WATCHER])
def test_every_channel_alone(way: str, sandbox: Sandbox, oracle: Oracle) -> None:
    for in_function, chance in ((False, 3), (False, 4), (True, 3), (True, 4)):
        source = alone(way, in_function=in_function, chance=chance)
        if chance == 3 or "is_lucky" in source:
            assert asyncio.run(objections(source, sandbox, oracle)) == []


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_mixes_of_channels(seed: int, sandbox: Sandbox, oracle: Oracle) -> None:
    assert asyncio.run(objections(mixed(seed), sandbox, oracle)) == []


@pytest.mark.parametrize("start", range(0, 108, 12))
def test_brute_force_on_shared_cases(start: int, sandbox: Sandbox) -> None:
    for case in part(records("cases/bbh.jsonl")[start : start + 12], 3):
        values = {call["call"]: decode(call["value"]) for call in case["calls"]}
        force = Force(case["program"], lambda pause, values=values: values[pause.text], sandbox, {})  # type: ignore[misc]
        assert asyncio.run(force.objections()) == [], case["id"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(COUNT))
def test_brute_force_on_random_programs(seed: int, sandbox: Sandbox) -> None:
    lines = program(seed).rstrip().split("\n")
    lines[-1] = f"answer = {random.Random(seed).choice(ENDS)}"
    force = Force("\n".join(lines) + "\n", answer_at_random, sandbox, {})
    assert asyncio.run(force.objections()) == []


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_following_does_not_change_a_run(start: int, sandbox: Sandbox) -> None:
    async def both(source: str) -> tuple[Result, Result]:
        given: dict[str, Any] = {"sandbox": sandbox, "limits": Limits(lm_calls=100_000)}
        followed = await arun(source, lambda pause: HOLES[pause.name](*pause.args), follow=True, **given)
        return followed, await arun(source, lambda pause: HOLES[pause.name](*pause.args), in_flight=1, **given)

    for seed in range(start, start + 10):
        followed, plain = asyncio.run(both(program(seed)))
        assert steps(followed.trace) == steps(plain.trace), seed
        assert (followed.reason, followed.answer) == (plain.reason, plain.answer)


HOT = """
def grow(n):
    return n + step_of(0)
kept = []
size = 0
for i in range(200_000):
    size += 1
    if size % 50_000 == 0:
        kept.append(i)
other = label(1)
n = 0
for w in ["a", "b"]:
    if is_good(w):
        n = grow(n)
answer = (n, len(kept))
unused = label(2)
"""


def test_lineage_of_a_long_loop_is_small() -> None:
    values = {"step_of(0)": 2, "label(1)": "x", "label(2)": "y", "is_good('a')": True, "is_good('b')": False}
    result = run(HOT, values, follow=True)
    assert result.answer == (2, 4)
    assert result.lineage is not None
    assert len(result.lineage.nodes) < 8000
    assert result.trace.program is not None and result.trace.answer is not None
    found = slice_of(result.lineage, result.trace.program, result.trace.answer)
    lines = {result.trace.program.statements[number].line for number in found.statements}
    assert {4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15} <= lines
    assert not {10, 16} & lines  # statements that do not affect the loop stay out


def test_dependencies_of_an_error() -> None:
    result = run("a = f(1)\nb = f(2)\nc = a - 1\nanswer = 1 / c", {"f(1)": 1, "f(2)": 2}, follow=True)
    assert result.reason == "error" and result.lineage is not None
    assert result.trace.program is not None and result.trace.answer is not None
    found = slice_of(result.lineage, result.trace.program, result.trace.answer)
    assert {result.trace.program.statements[number].line for number in found.statements} == {1, 3, 4}


def test_emulated_statement_is_followed() -> None:
    source = (
        "basket = ['plum']\nother = ['nail']\nput everything that is in the shop into the basket\nanswer = len(basket)"
    )
    for text in (
        source,
        "def count():\n    " + source.replace("\n", "\n    ") + "\n    return answer\nanswer = count()",
    ):
        result = run(text, ScriptedLM(['{"basket": ["plum", "pear"]}']), follow=True)
        assert result.answer == 2 and result.lineage is not None
        assert result.trace.program is not None and result.trace.answer is not None
        found = slice_of(result.lineage, result.trace.program, result.trace.answer)
        lines = {result.trace.program.statements[number].line for number in found.statements}
        first = text[: text.index("put")].count("\n") + 1
        assert found.values == {0} and {first, first + 1} <= lines
        assert first - 1 not in lines, "other is not in the basket"


def test_question_is_an_input_of_the_answer() -> None:
    result = run("x = question\nanswer = x.upper()", follow=True, question="why")
    assert result.lineage is not None
    assert result.trace.program is not None and result.trace.answer is not None
    assert slice_of(result.lineage, result.trace.program, result.trace.answer).inputs == {"question"}
