"""A short run of bench/soak.py: hundreds of programs, every third one hostile, and nothing grows."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, has_tier

SOAK = ROOT / "bench" / "soak.py"
pytestmark = pytest.mark.skipif(not has_tier("B"), reason="no sandbox with files on this machine")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(["--programs", "240"], id="jail"),
        pytest.param(["--programs", "120", "--serve"], id="server", marks=pytest.mark.nightly),
    ],
)
def test_nothing_grows(way: list[str]) -> None:
    if "--serve" in way:
        pytest.importorskip("starlette", reason="the extra `server` is not installed")
    done = subprocess.run([sys.executable, str(SOAK), *way], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing has grown" in done.stdout


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["host MB", "descriptors", "processes", "mounts", "temporary", "groups", "disk MB"])
def test_growth_is_noticed(soak: ModuleType, name: str) -> None:
    rows = [dict.fromkeys(soak.ALLOWED, 100.0) for _ in range(20)]
    assert soak.Soak(1, Path("/"), rows=rows).grown() == []
    for number, row in enumerate(rows):
        row[name] += 5 * number
    assert soak.Soak(1, Path("/"), rows=rows).grown() == [f"{name} has grown: 135 → 185"]


def test_every_third_program_is_hostile(soak: ModuleType) -> None:
    cases = list(soak.cases(300))
    assert sum(not case.expected for case in cases) == 100
    assert len({case.program for case in cases}) > 60
