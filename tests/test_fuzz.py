"""Fuzzing of every reader of untrusted data: with a fixed seed, and with all inputs that once broke one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ALL, ROOT

sys.path.insert(0, str(ROOT / "bench"))

import fuzz
from readers import READERS

CASES = sorted((Path(__file__).parent / "fuzz_cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_inputs_that_once_broke_a_reader(path: Path) -> None:
    fuzz.check(*fuzz.decoded(path.read_text(encoding="utf-8", errors="surrogatepass")))


def test_no_reader_breaks() -> None:
    command = [sys.executable, str(ROOT / "bench" / "fuzz.py"), "--seconds", "60" if ALL else "4", "--seed", "18"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert "0 readers broke" in done.stdout


def test_fuzzer_stores_inputs_that_break_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception and a crash of the interpreter are each stored as a case."""
    monkeypatch.setattr(fuzz, "CASES", tmp_path)
    for name, read in (("broken", "1 / len(text)"), ("dead", "__import__('signal').raise_signal(9)")):
        monkeypatch.setitem(READERS, name, type(READERS["value"])("text", eval(f"lambda text: {read}")))
        case = fuzz.fork_round(name, 1)
        assert fuzz.decoded(case) == (name, "")
        assert fuzz.keep(case).read_text() == case
