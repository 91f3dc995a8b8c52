"""Many clients at once, each following its own run: a short run of bench/server.py, which also measures the speed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("starlette", reason="the extra `server` is not installed")


def bench(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "bench" / "server.py"), "--clients", "200", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_200_clients_lose_nothing() -> None:
    output = bench("--seconds", "8", "--writing", "3", "--value", "1", "--target", "60000")
    assert " 0 problems" in output and "missed" not in output


@pytest.mark.nightly
def test_a_kill_under_load() -> None:
    assert bench("--kill", "--writing", "2", "--value", "1").endswith(" 0 wrong\n")
