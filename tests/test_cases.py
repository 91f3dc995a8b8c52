"""The shared cases: every program has its expected answer."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import records, shared
from shared_jail import run

from chainofcode import Program
from chainofcode.emulator import Table

CASES = [(name, record) for name in ("holes", "bbh", "recorded") for record in records(f"cases/{name}.jsonl")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}/{case['id']}" for name, case in CASES])
def test_case(name: str, case: dict[str, Any]) -> None:
    table = Table.of_records(case["calls"], case["id"])
    result = run(case["program"], table, question=case.get("question"))
    assert result.trace.answer is not None
    assert result.trace.answer.text == case["expect"], result.trace.answer


def test_shared_cases_are_present() -> None:
    for name in ("holes", "bbh", "recorded"):
        assert shared(f"cases/{name}.jsonl").stat().st_size > 0
    assert len(CASES) >= 453


@pytest.mark.parametrize("name", ["comprehension", "countries", "helper_key", "loop_if", "straight_line"])
def test_parallel_programs_have_their_expected_answers(name: str) -> None:
    program = shared(f"cases/parallel/{name}.py").read_text(encoding="utf-8")
    result = run(program, Table.read(shared(f"cases/parallel/{name}.values.jsonl")))
    assert result.trace.answer is not None
    assert result.trace.answer.text == shared(f"cases/parallel/{name}.expect").read_text(encoding="utf-8").strip()


def test_parsing_a_parsed_program_changes_nothing() -> None:
    for _, case in CASES[::40]:
        parsed = Program.parse(case["program"])
        assert Program.parse(parsed.source) == parsed
