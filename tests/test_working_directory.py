"""Files in the working directory that have the names of modules: no process of this project imports them.

Each writes its name and its process into a file when it is imported.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import ROOT
from processes import wait_for
from test_approve import SHOP

EXAMPLES = ROOT / "examples"
COC = Path(sysconfig.get_path("scripts")) / "coc"
OURS = (
    "chainofcode",
    "sitecustomize",
    "usercustomize",
    "site",
    "pip",
    "msgspec",
    "numpy",
    "pandas",
    "openai",
    "xllamacpp",
)
OTHERS = (
    "anthropic",
    "starlette",
    "uvicorn",
    "mcp",
    "textual",
    "duckdb",
    "quickjs",
    "ray",
    "yaml",
    "PIL",
    "uv",
    "httpx",
)
NAMES = sorted({*OURS, *OTHERS, *sys.stdlib_module_names} - {*sys.builtin_module_names, "__future__"})
SOURCE = """
import posix
file = posix.open({marker!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)
posix.write(file, ("%s %d\\n" % (__name__, posix.getpid())).encode())
posix.close(file)
"""
COMMANDS: tuple[Sequence[str | Path], ...] = (
    ("run", EXAMPLES / "fruit.py", "--values", EXAMPLES / "fruit.jsonl", "--trace", "t.jsonl"),
    ("run", EXAMPLES / "fruit.py", "--values", EXAMPLES / "fruit.jsonl", "--sandbox", "none"),
    ("run", EXAMPLES / "fruit.js", "--values", EXAMPLES / "fruit_js.jsonl"),
    ("run", EXAMPLES / "tickets.py", "--values", EXAMPLES / "tickets.jsonl", "--scratch"),
    ("ask", "A circus has 3 spiders, 12 ducks, 4 horses and 9 snakes. A pair of shoes is 7 euros. What do shoes for all of "
     "them cost?", "--model", f"scripted:{EXAMPLES / 'word_problem.jsonl'}", "--file", EXAMPLES / "reviews.csv"),
    ("sql", EXAMPLES / "sarcasm.sql", "--file", EXAMPLES / "reviews.csv", "--values", EXAMPLES / "sarcasm.jsonl"),
    ("eval", EXAMPLES / "quiz.jsonl", "--model", f"scripted:{EXAMPLES / 'quiz_replies.jsonl'}", "--out", "out"),
    ("examples", "fruit.py"),
    ("examples", "robot"),
    ("replay", EXAMPLES / "traces" / "fruit.jsonl"),
    ("why", EXAMPLES / "traces" / "fruit.jsonl", "count"),
    ("verify", EXAMPLES / "traces" / "fruit.jsonl"),
    ("resume", EXAMPLES / "traces" / "fruit.jsonl"),
    ("show", EXAMPLES / "traces" / "fruit.jsonl"),
    ("debug", EXAMPLES / "traces" / "fruit.jsonl"),
    ("explain", EXAMPLES / "fruit.py"),
    ("models",),
    ("models", "pull", "qwen2.5-coder-0.5b"),
    ("run", EXAMPLES / "fruit.py", "--model", "local:none.gguf"),
    ("doctor",),
    ("methods",),
    ("tokens", "list"),
    ("report", "out"),
    ("mcp", "--model", f"scripted:{EXAMPLES / 'quiz_replies.jsonl'}"),
    ("--help",),
)  # fmt: skip


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    poison(directory, tmp_path / "marker")
    return directory


def poison(directory: Path, marker: Path) -> None:
    source = SOURCE.format(marker=str(marker))
    for name in NAMES:
        (directory / f"{name}.py").write_text(source)
    (directory / "encodings").mkdir()
    (directory / "encodings" / "__init__.py").write_text(source)


def imported(directory: Path) -> str:
    marker = directory.parent / "marker"
    return marker.read_text() if marker.exists() else ""


def variables(tmp_path: Path) -> dict[str, str]:
    """The environment of a user, without the module path of this test run, and with sources that do not answer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COC_"))}
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "0"}
    return {**kept, **nowhere, "PIP_CONFIG_FILE": os.devnull, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.skipif(not COC.exists(), reason="the command `coc` is not installed in this environment")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(Path(word).name for word in command)[:40])
def test_commands(command: Sequence[str | Path], poisoned: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [COC, *command], cwd=poisoned, env=variables(tmp_path), input=b"", capture_output=True, timeout=110, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert imported(poisoned) == ""


@pytest.mark.nightly
@pytest.mark.skipif(not COC.exists(), reason="the command `coc` is not installed in this environment")
def test_workers_of_ray(poisoned: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    model = f"scripted:{EXAMPLES / 'quiz_replies.jsonl'}"
    command = [COC, "eval", EXAMPLES / "quiz.jsonl", "--model", model, "--engine", "ray"]
    given = {**variables(tmp_path), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(command, cwd=poisoned, env=given, capture_output=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert imported(poisoned) == ""


@pytest.mark.skipif(not COC.exists(), reason="the command `coc` is not installed in this environment")
def test_server(poisoned: Path, tmp_path: Path) -> None:
    output = tmp_path / "said"
    model = f"scripted:{EXAMPLES / 'quiz_replies.jsonl'}"
    command = [COC, "serve", "--port", "0", "--data", "data", "--model", model]
    with output.open("wb") as said:
        server = subprocess.Popen(command, cwd=poisoned, env=variables(tmp_path), stdout=said, stderr=said)
    try:
        wait_for(lambda: b"http://" in output.read_bytes() or server.poll() is not None)
        time.sleep(1)  # the auditor and the guests that it keeps ready start meanwhile
        assert server.poll() is None, output.read_text()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    assert imported(poisoned) == ""


@pytest.mark.skipif(not COC.exists(), reason="the command `coc` is not installed in this environment")
def test_modules_beside_a_tool_are_not_imported_by_coc(tmp_path: Path) -> None:
    """The tool comes from the working directory; what coc imports later, such as yaml, does not."""
    pytest.importorskip("yaml", reason="the extra `yaml` is not installed")
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "p.py").write_text("answer = price('fig')")
    for name in ("mcp", "numpy", "difflib", "yaml", "sqlite3", "zipfile", "xml", "http", "email"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')")
    document = {"openapi": "3.1.0", "servers": [{"url": "http://127.0.0.1:9"}], "paths": {"/x": {"get": {}}}}
    (tmp_path / "api.yaml").write_text(json.dumps(document))
    command = [COC, "run", "p.py", "--tool", "shop:send", "--tool", "shop:price", "--openapi", "api.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


# A process that looks for modules in the working directory: as a notebook does, or with an empty part in PYTHONPATH.
BESIDE = """
import asyncio, sys
from pathlib import Path
import test_working_directory as here
from chainofcode import Program, run
from chainofcode.errors import LMError
from chainofcode.lm import connect
from chainofcode.methods.isolated import arun_isolated, run_isolated
from chainofcode.server.workers import Workers
assert str(Path.cwd()) in sys.path or "" in sys.path
INSPECTION = "methods.file_inspection", {"path": here.REVIEWS, "kind": "rows"}

async def serve():
    workers = Workers(["me"], 1 << 30)
    async with workers.open():
        await asyncio.sleep(1.5)
    assert "error" not in await arun_isolated(*INSPECTION, seconds=10, memory=1 << 30)

here.poison(Path.cwd(), Path("../marker").absolute())
Program.parse("answer = 1")
assert run("answer = 1").answer == 1
assert "error" not in run_isolated(*INSPECTION, seconds=10, memory=1 << 30)
asyncio.run(serve())
Path("model.gguf").write_text("none")
try:
    asyncio.run(connect("local:model.gguf").prepare())
except LMError as error:
    print(error)
"""
REVIEWS = str(EXAMPLES / "reviews.csv")


@pytest.mark.parametrize("path", ["", os.pathsep])
def test_children_of_a_process_that_imports_from_there(path: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    given = {**variables(tmp_path), "PYTHONPATH": f"{path}{ROOT / 'tests'}{os.pathsep}{ROOT / 'src'}"}
    command = [sys.executable, *(["-P"] if path else []), "-c", BESIDE]
    with subprocess.Popen(command, cwd=work, env=given, stdout=-1, stderr=-1, text=True) as process:
        output, errors = process.communicate(timeout=110)
    assert process.returncode == 0, errors
    assert "model" in output
    assert [line for line in imported(work).splitlines() if not line.endswith(f" {process.pid}")] == []
