"""A real server, checked by schemathesis against its `/openapi.json`: any finding fails.

COC_FUZZ=N sends N times as many requests, with a new seed each day; its findings are real, too.
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
# The model answers every request: an unavailable model returns 502, which would count as a finding.
MODEL = {"when": "", "reply": "```python\nanswer = 6 * 7\n```"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    script = tmp_path / "model.jsonl"
    script.write_text(json.dumps(MODEL))
    options = ("--token", TOKEN, "--rate", "1000000", "--limit", "run=5")
    with served(tmp_path, *options, token=TOKEN, model=f"scripted:{script}") as server:
        yield server


def run_schemathesis(server: Serving, directory: Path, *options: str, seconds: float) -> str:
    """Return its output. The exit code is 1 for findings, and higher for errors of schemathesis itself."""
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", f"{server.url}/openapi.json"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--continue-on-failure"]
    command += ["--request-timeout", "120", "--max-response-time", "120", *options]  # runs may be queued
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-2000:]}"
    broken = [line for line in server.log if line["event"] == "request error" or line.get("status") == 500]
    assert not broken
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_server_conforms_to_its_document(server: Serving, tmp_path: Path) -> None:
    output = run_schemathesis(server, tmp_path, "-n", "3", "--generation-deterministic", seconds=600)
    assert "Selected: 24/24" in output and "Tested: 24" in output
    # Artifacts get their names from programs, so schemathesis cannot find any: test_server.py downloads them.
    assert "Unsupported regex" not in output


@pytest.mark.skipif("COC_FUZZ" not in os.environ, reason="COC_FUZZ=N asks for N times as many requests")
def test_server_conforms_to_its_document_in_many_requests(server: Serving, tmp_path: Path) -> None:
    times, seed = int(os.environ["COC_FUZZ"]), str(int(time.time()) // 86_400)
    run_schemathesis(server, tmp_path, "-n", str(10 * times), "--seed", seed, seconds=600 * times)
