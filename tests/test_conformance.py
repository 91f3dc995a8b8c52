"""Files of asserts, one per language feature, run under plain CPython and under the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chainofcode import run

FILES = sorted((Path(__file__).parent / "conformance").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_under_cpython(path: Path) -> None:
    # Since 3.14, `return`, `break` and `continue` in `finally` cause a warning.
    command = [sys.executable, "-s", "-P", "-W", "ignore::SyntaxWarning", str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_under_the_engine(path: Path) -> None:
    result = run(path.read_text(encoding="utf-8"))
    assert result.answer == "ok", result.trace.answer
    assert result.trace.lm_calls == 0
