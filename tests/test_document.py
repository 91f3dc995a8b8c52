"""`/openapi.json` held against a real server by schemathesis: any finding fails.

COC_FUZZ=N makes N times as many requests, with a seed of the day instead of none: findings there are real, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")
TOKEN = "a-secret-of-many-letters"
# It answers whatever it is asked: a model that cannot be had is a 502, which would count as a finding.
MODEL = {"when": "", "reply": "```python\nanswer = 6 * 7\n```"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    script = tmp_path / "model.jsonl"
    script.write_text(json.dumps(MODEL))
    options = ("--token", TOKEN, "--rate", "1000000", "--limit", "run=5")
    with served(tmp_path, *options, token=TOKEN, model=f"scripted:{script}") as server:
        yield server


def found_by_schemathesis(server: Serving, directory: Path, *options: str, seconds: float) -> str:
    """What it says; its exit code is 1 for findings, more for errors of its own."""
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", f"{server.url}/openapi.json"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--continue-on-failure"]
    command += ["--request-timeout", "120", "--max-response-time", "120", *options]  # runs wait for their turn
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-2000:]}"
    broken = [line for line in server.log if line["event"] == "request broke" or line.get("status") == 500]
    assert not broken
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_requests_and_answers_are_as_the_document_says(server: Serving, tmp_path: Path) -> None:
    said = found_by_schemathesis(server, tmp_path, "-n", "3", "--generation-deterministic", seconds=600)
    assert "Selected: 24/24" in said and "Tested: 24" in said
    # Artifacts are left by programs, under names that no document leads to: test_server.py downloads them.
    assert "Unsupported regex" not in said


@pytest.mark.skipif("COC_FUZZ" not in os.environ, reason="COC_FUZZ=N asks for N times as many requests")
def test_the_same_at_length(server: Serving, tmp_path: Path) -> None:
    times, seed = int(os.environ["COC_FUZZ"]), str(int(time.time()) // 86_400)
    found_by_schemathesis(server, tmp_path, "-n", str(10 * times), "--seed", seed, seconds=600 * times)
