"""Ctrl-C at any moment of `coc`, from its first import on: it ends with 130, and without a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT

SCRIPT = Path(sysconfig.get_path("scripts")) / "coc"
STARTS: dict[str, Sequence[str | Path]] = {
    "script": [sys.executable, SCRIPT],
    "module": [sys.executable, "-m", "chainofcode"],
}
COMMANDS: dict[str, Sequence[str | Path]] = {
    "run": ["run", ROOT / "examples" / "fruit.py", "--values", ROOT / "examples" / "fruit.jsonl"],
    "help": ["--help"],
}
REPORTS = ("", "\n", "coc: interrupted\n")
# Sends Ctrl-C when the module with this number is imported, counted from the first one of `coc`.
HOOK = """
import os, signal, sys
number, left = 0, int(os.environ["INTERRUPT_AT"])
def interrupt(event, arguments):
    global number
    if event == "import" and (number or arguments[0] == "chainofcode.interrupts"):
        number += 1
        if number == left:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""


def interrupt_at_import(start: str, command: str, number: int, hook: Path) -> tuple[int, str]:
    variables = {**os.environ, "INTERRUPT_AT": str(number), "PYTHONPATH": f"{hook}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [*STARTS[start], *COMMANDS[command]], env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    return tmp_path


@pytest.mark.skipif(not SCRIPT.exists(), reason="the command `coc` is not installed in this environment")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_at_every_import(start: str, command: str, hook: Path) -> None:
    numbers = [*range(1, 12), *range(20, 500, 24)]
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda number: interrupt_at_import(start, command, number, hook), numbers))
    for number, (code, errors) in zip(numbers, ends, strict=True):
        assert errors in REPORTS, (number, errors)
        assert code in (130, 0), number  # 0: there were fewer imports
    assert sum(code == 130 for code, _ in ends) > 15


def interrupt_after(start: str, seconds: float) -> tuple[int, str]:
    process = subprocess.Popen([*STARTS[start], *COMMANDS["run"]], stdout=-1, stderr=-1, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.skipif(not SCRIPT.exists(), reason="the command `coc` is not installed in this environment")
@pytest.mark.parametrize("start", STARTS)
def test_ctrl_c_at_random_times(start: str) -> None:
    moments = [random.Random(number).uniform(0, 1) for number in range(40)]
    with ThreadPoolExecutor(3) as pool:
        ends = list(pool.map(lambda moment: interrupt_after(start, moment), moments))
    for moment, (code, errors) in zip(moments, ends, strict=True):
        if "Traceback" in errors or code == -signal.SIGINT:  # while the interpreter itself starts
            assert not re.search(r'File ".*chainofcode/', errors), (moment, errors)
        else:
            assert (code, errors) in [(0, ""), *((130, report) for report in REPORTS)], moment


def test_tests_can_send_ctrl_c_if_their_runner_ignores_it() -> None:
    """As after `nohup python3 check.py &`."""
    code = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    tests = ["tests/test_cli.py::test_ctrl_c_is_clean", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-c", code, sys.executable, "-m", "pytest", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not SCRIPT.exists(), reason="the command `coc` is not installed in this environment")
def test_ctrl_c_during_the_query_of_an_answer(tmp_path: Path) -> None:
    """The guest of the program is still open while the one with the database runs the query."""
    with contextlib.closing(sqlite3.connect(tmp_path / "d.db")) as database:
        database.execute("CREATE TABLE t (a)")
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    reply = json.dumps(f'```python\nanswer = "{endless}"\n```')
    (tmp_path / "sql.jsonl").write_text(f"{reply}\n" * 6)
    command = [*STARTS["script"], "ask", "How many?", "--type", "sql", "--database", "d.db"]
    process = subprocess.Popen(
        [*command, "--model", "scripted:sql.jsonl"], cwd=tmp_path, stdout=-1, stderr=-1, text=True
    )
    assert process.stderr is not None
    shown = ""
    while "py  answer" not in shown:  # the program has ended; its query runs for up to 10 s
        line = process.stderr.readline()
        assert line, shown
        shown += line
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "coc: interrupted\n")
