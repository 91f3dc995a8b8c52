"""JavaScript with functions you did not define: the shared cases, and agreement with Node."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import records
from js_runs import in_node, programs_in, run_all

from chainofcode import InputError, run
from chainofcode.sandbox import Jail, Sandbox

CASES = {record["id"]: record for record in records("cases/holes.jsonl")}
# Cases that exist only in Python: imports that are found or missing, a name that is both a hole and a variable.
NOT_JAVASCRIPT = {"missing_import", "try_import", "self_shadow"}


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


def as_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return {key: as_json(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("is_observed", [False, True])
def test_shared_hole_cases(jail: Sandbox, is_observed: bool) -> None:
    if not CASES:
        pytest.skip("the shared test material has no cases/holes.jsonl here")
    programs = programs_in("holes.txt")
    assert CASES.keys() - programs.keys() == NOT_JAVASCRIPT
    given = [
        (program, CASES[name]["calls"], {"question": CASES[name].get("question")}) for name, program in programs.items()
    ]
    for name, result in zip(programs, run_all(given, jail, is_observed=is_observed), strict=True):
        assert result.is_answered, (name, result.error)
        assert result.answer == as_json(ast.literal_eval(CASES[name]["expect"])), name


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize(
    ("language", "file", "least"), [("javascript", "programs.txt", 160), ("typescript", "typescript.txt", 10)]
)
def test_programs_agree_with_node(jail: Sandbox, language: str, file: str, least: int, is_observed: bool) -> None:
    programs = programs_in(file)
    assert len(programs) >= least
    expected = in_node(programs, language=language)
    assert {name: record["error"] for name, record in expected.items() if "error" in record} == {}
    given = [(program, expected[name]["calls"], {"in_flight": 1}) for name, program in programs.items()]
    wrong = {}
    for name, result in zip(programs, run_all(given, jail, is_observed=is_observed), strict=True):
        calls = {step.call for step in result.trace.steps if not step.is_code}
        if (
            not result.is_answered
            or result.answer != expected[name]["value"]
            or calls != expected[name]["calls"].keys()
        ):
            wrong[name] = (result.error, result.answer, expected[name]["value"], calls ^ expected[name]["calls"].keys())
    assert wrong == {}


def test_the_library_accepts_the_name_of_a_language() -> None:
    result = run("answer = isFruit('fig') ? 1 : 2", {'isFruit("fig")': True}, language="javascript")
    assert result.answer == 1
    with pytest.raises(InputError, match="unknown language 'cobol'"):
        run("answer = 1", language="cobol")
