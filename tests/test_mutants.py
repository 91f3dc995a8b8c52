"""bench/mutants.py: the list of defects matches the source, and failures of flaky tests do not count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import mutants

SOURCE = "def double(x):\n    return 2 * x\n"
TESTS = """
from pathlib import Path
from chainofcode.double import double

def test_flaky():
    mark = Path(f"mark{double(3)}")
    if not mark.exists():
        mark.touch()
        assert double(3) == 6

def test_sound():
    assert double(3) != 9
"""


def test_every_defect_can_be_planted() -> None:
    listed = mutants.read((ROOT / "bench" / "mutants.txt").read_text(encoding="utf-8"))
    assert len(listed) >= 150
    assert mutants.check(listed, ROOT / "src" / "chainofcode") == []


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("return 3 * x", "contains this 0 times"),
        ("x", "contains this 2 times"),
        ("return 2 * x\n", "was never closed"),
    ],
)
def test_outdated_defects_are_reported(tmp_path: Path, before: str, message: str) -> None:
    (tmp_path / "double.py").write_text(SOURCE)
    mutant = mutants.Mutant("no more", "double.py", ("test_none",), before, "return (\n")
    problem, missing = mutants.check([mutant], tmp_path)
    assert problem.startswith("no more: ") and message in problem
    assert missing == "no more: test_none not found"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> mutants.Copy:
    repository, place = tmp_path_factory.mktemp("repository"), tmp_path_factory.mktemp("place")
    for path, text in (
        ("src/chainofcode/__init__.py", ""),
        ("src/chainofcode/double.py", SOURCE),
        ("tests/test_double.py", TESTS),
        ("tests/test_always.py", "def test_always_fails():\n    assert False\n"),
    ):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    return mutants.Copy(repository, place)


@pytest.mark.parametrize(
    ("after", "state", "by"),
    [
        ("3 * x", "noticed", "tests/test_double.py::test_sound"),
        ("4 * x", "SURVIVES", "(failed once: tests/test_double.py::test_flaky)"),
    ],
)
def test_flaky_failure_does_not_count_as_noticed(copy: mutants.Copy, after: str, state: str, by: str) -> None:
    mutant = mutants.Mutant("another factor", "double.py", ("test_double",), "2 * x", after)
    verdict = copy.verdict(mutant)
    assert (verdict.state, verdict.by) == (state, by)
    assert mutants.logged(f"SURVIVES\t1.0\tanother factor\t\n{verdict.line()}\n")["another factor"].by == by


@pytest.mark.nightly
def test_failing_test_does_not_count_as_noticed(copy: mutants.Copy) -> None:
    mutant = mutants.Mutant("another factor", "double.py", ("test_always", "test_double"), "2 * x", "3 * x")
    assert copy.verdict(mutant).by == "tests/test_double.py::test_sound"
    assert copy.verdict(mutant, "tests/test_double.py::test_gone").by == "tests/test_double.py::test_sound"
