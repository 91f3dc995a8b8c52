"""Every worked example of the evaluation runs, is right, and is not in the test data."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT, SHARED

from chainofcode import Table, run
from chainofcode.evals import is_same
from chainofcode.evals.shots import read_shots

FILES = sorted((ROOT / "src" / "chainofcode" / "evals" / "shots").glob("*.md"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_run_and_are_right(path: object) -> None:
    shots = read_shots(path.read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    assert len(shots) == 3
    for shot in shots:
        result = run(shot.program, Table(shot.calls), question=shot.question)
        assert result.reason == "answered", (shot.question, result.error)
        assert is_same(result.answer, shot.answer), (shot.question, result.answer, shot.answer)
        used = {step.call for step in result.trace.steps if step.by == "lm"}
        assert len(used) == len(shot.calls), "the example has values that no call uses"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_are_not_from_the_data(path: object) -> None:
    data = SHARED / "data" / "bbh"
    if not data.exists():
        pytest.skip("../shared/data/bbh is not here")
    questions = {
        " ".join(example["input"].split())
        for file in data.glob("*.json")
        for example in json.loads(file.read_text(encoding="utf-8"))["examples"]
    }
    prompts = " ".join(" ".join(file.read_text(encoding="utf-8").split()) for file in data.glob("cot-prompts/*.txt"))
    for shot in read_shots(path.read_text(encoding="utf-8")):  # type: ignore[attr-defined]
        question = " ".join(shot.question.split())
        assert question not in questions
        assert question not in prompts
