"""macOS and Windows: everything works except the sandbox.

Each test starts an interpreter without the features that only Linux has (tests/foreign_platform.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PORTABLE, ROOT, part
from endpoint import serving
from foreign_platform import SITES
from guest_servers import guest_server

from chainofcode import run

SOURCE = ROOT / "src" / "chainofcode"
# Modules that need Linux, and modules of extras that are not tested here.
LINUX = (
    "sandbox.jail",
    "sandbox.kernel",
    "sandbox.seccomp",
    "sandbox.witness",
    "sandbox.zygote",
    "sandbox.tier_checks",
)
LINUX_TOO = ("languages.guest.entry", "server", "notebook")
EXTRAS = (
    "cli.debugger",
    "emulator.mcp_client",
    "emulator.mcp_stdio",
    "evals.inspecting",
    "evals.ray",
    "languages.javascript.guest",
    "sandbox.ray_guests",
    "__main__",
)
REPLY = {"choices": [{"message": {"content": "So the answer is 42."}, "finish_reason": "stop"}], "usage": {}}


@pytest.fixture(params=["darwin", "win32"])
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def python(platform: str, *arguments: str, imported: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python as on another platform. `imported`: packages that need the real platform during their import."""
    environment = {**os.environ, **variables, "PYTHONPATH": str(SITES / platform), "COC_IMPORTED": imported}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=600
    )


def coc(platform: str, *arguments: str | Path, imported: str = "", **variables: str) -> str:
    done = python(platform, "-m", "chainofcode", *map(str, arguments), imported=imported, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_interpreter_lacks_linux_features(platform: str) -> None:
    """A check of the tests themselves: features that only Linux has are missing."""
    tried = "import sys; assert sys.platform != 'linux'\nimport os\n"
    assert "memfd_create" in python(platform, "-c", f"{tried}os.memfd_create('x')").stderr
    assert "No such file" in python(platform, "-c", f"{tried}open('/proc/self/stat')").stderr
    assert "no libc" in python(platform, "-c", f"{tried}import ctypes; ctypes.CDLL(None)").stderr
    windows = python(platform, "-c", f"{tried}import fcntl, resource, termios, pwd; os.killpg; os.O_NOFOLLOW")
    assert (windows.returncode != 0) == (platform == "win32")
    waiting = "import asyncio\nasync def f(): asyncio.get_running_loop().add_reader(0, print)\nasyncio.run(f())"
    assert ("NotImplementedError" in python(platform, "-c", waiting).stderr) == (platform == "win32")


IMPORTING = """
import importlib
for name in {names}:
    try:
        importlib.import_module(f"chainofcode.{{name}}")
    except (ImportError, AttributeError, OSError):
        print(name)
"""


def test_portable_modules_can_be_imported(platform: str) -> None:
    """All modules except those in LINUX can be imported; on Windows, all of these fail."""
    names = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in sorted(SOURCE.rglob("*.py"))]
    names = [name for name in names if not name.startswith((*LINUX_TOO, *EXTRAS, "platforms."))]
    assert len(names) > 200
    done = python(platform, "-c", IMPORTING.format(names=names))
    assert done.returncode == 0, done.stderr
    failed = done.stdout.split()
    assert set(failed) <= set(LINUX)
    assert platform == "darwin" or set(failed) >= set(LINUX)


QUERYING = """
import sqlite3, sys
from chainofcode.emulator.types import Misfit
from chainofcode.methods.sql import Query
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE t AS SELECT 1 AS a")
connection.commit()
connection.close()
query = Query(sys.argv[1])
assert "CREATE TABLE t" in query.words
print(query.read("SELECT a, upper('x') AS b FROM t"))
try:
    query.read("SELECT fts3_tokenizer('simple')")
except Misfit as misfit:
    print("not authorized" in str(misfit))
"""


def test_a_database_is_queried_without_the_sandbox(platform: str, tmp_path: Path) -> None:
    """In a worker process, which has limits and the settings of SQLite, but keeps the rights of the user."""
    done = python(platform, "-c", QUERYING, str(tmp_path / "a.db"))
    assert done.stdout.split("\n") == ["[{'a': 1, 'b': 'X'}]", "True", ""], done.stderr


def test_commands_on_traces_and_results(platform: str, tmp_path: Path) -> None:
    trace, replies, results = tmp_path / "t.jsonl", tmp_path / "replies.jsonl", tmp_path / "results"
    run("x = f('a')\nprint('note')\nanswer = x + 1", {"f('a')": 1}).trace.write(trace)
    replies.write_text(
        json.dumps({"task": "t", "index": 0, "style": "cot", "reply": "The answer is 42.", "target": 42})
    )
    results.mkdir()
    score = {"id": "1", "verdict": "right", "answer": "1", "targets": ["1"], "reason": "", "task": "t", "method": "coc"}
    (results / "results.jsonl").write_text(json.dumps(score) + "\n")
    assert "lm  x = f('a')" in coc(platform, "show", trace)
    assert json.loads(coc(platform, "score", replies, "--json"))["t"]["cot"]["accuracy"] == 100
    assert "100.0" in coc(platform, "report", results)
    assert "smollm2-135m" in coc(platform, "models")
    assert "Reason in code" in coc(platform, "--help")
    assert "direct" in coc(platform, "methods")


@pytest.mark.sampled(2)
def test_ask_and_eval_with_a_model(platform: str, tmp_path: Path) -> None:
    suite, out = tmp_path / "suite.jsonl", tmp_path / "out"
    suite.write_text(json.dumps({"question": "What is 6 times 7?", "target": "42"}) + "\n")
    with serving(REPLY) as endpoint:
        model = ["--model", "openai:m", "--base-url", f"{endpoint.url}/v1"]
        settings = {"imported": "openai", "OPENAI_API_KEY": "k"}
        answered = coc(platform, "ask", "What is 6 times 7?", "--method", "direct", *model, **settings)
        assert answered == "42\n"
        coc(platform, "eval", suite, "--methods", "direct", "--out", out, *model, **settings)
    assert json.loads((out / "results.jsonl").read_text())["verdict"] == "right"


def test_error_without_a_sandbox_names_alternatives(platform: str, tmp_path: Path) -> None:
    """One line states where programs can run instead; `coc doctor` prints it, too."""
    program, trace = tmp_path / "p.py", tmp_path / "t.jsonl"
    program.write_text("answer = 1")
    run("answer = 1").trace.write(trace)
    alternative = {"darwin": "--sandbox docker:", "win32": "run coc in WSL"}[platform]
    for arguments in (["run", str(program)], ["run", str(program), "--sandbox=none"], ["why", str(trace)]):
        done = python(platform, "-m", "chainofcode", *arguments)
        (line,) = [line for line in done.stderr.splitlines() if "Linux only" in line]
        assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
        assert alternative in line and "coc serve --sandbox-only" in line and "COC_SANDBOX" in line
    doctor = python(platform, "-m", "chainofcode", "doctor")
    assert doctor.returncode == 2 and alternative in doctor.stdout.splitlines()[0]


def test_a_remote_sandbox(platform: str, tmp_path: Path) -> None:
    """Programs, replays and provenance work with a sandbox server."""
    (tmp_path / "v.jsonl").write_text('{"call": "f(3)", "value": 4}')
    (tmp_path / "p.py").write_text("answer = f(sum(n for n in [1, 2])) + 1")
    trace = tmp_path / "t.jsonl"
    with guest_server() as server:
        where = {"COC_SANDBOX": server.url, "COC_SANDBOX_TOKEN": server.token}
        ran = coc(platform, "run", tmp_path / "p.py", "--values", tmp_path / "v.jsonl", "--trace", trace, **where)
        assert ran.startswith("answer: 5")
        assert "answer: 5 → 8" in coc(platform, "replay", trace, "--set", "step:1=7", **where)
        assert "f(" in coc(platform, "why", trace, **where)
        assert server.url in coc(platform, "doctor", **where).splitlines()[0]


@pytest.mark.sampled(2)
def test_portable_tests_pass(platform: str) -> None:
    """Tests of modules that need no sandbox pass, too."""
    sample = part(sorted(PORTABLE), 3)
    files = [str(ROOT / "tests" / f"test_{name}.py") for name in sample]
    options = ["-q", "--capture=sys", "-p", "no:cacheprovider", "-m", "portable", *files]
    done = python(platform, "-m", "pytest", *options, imported="pytest openai")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
