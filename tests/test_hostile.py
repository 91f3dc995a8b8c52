"""Hostile or broken input ends with a clear reason: no hang, no internal traceback, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chainofcode import Limits, Program, ProgramError, Result, run

LIMITS = Limits(run_seconds=10, wall_seconds=20)


def error_message(result: Result) -> str:
    """The message of a run that ended without an answer."""
    assert result.reason != "answered"
    assert result.trace.answer is not None
    assert result.trace.answer.error is not None
    message = result.trace.answer.error.message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "empty"),
        ("   \n\t\n", "empty"),
        ("x = 1\n" * 2_000_000, "12,000,000 bytes"),
        ("é" * 600_000, "1,200,000 bytes"),
        ("x = 1\ny = '\0'", "line 2 contains a null byte"),
        ("x = 1\n\ny = '\ud800'", "line 3 contains a lone surrogate"),
        ("x = " + "-" * 200_000 + "1", "nested too deep"),
        ("x = " + "1+" * 100_000 + "1", "nested too deep"),
        ("x" + ".a" * 100_000, "nested too deep"),
        ("f" + "()" * 100_000, "nested too deep"),
        ("x = " + "not " * 100_000 + "1", "nested too deep"),
        ("x = " + "lambda: " * 50_000 + "1", "nested too deep"),
        ("```python\n```", "empty"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_unreadable_source_is_explained(source: str, words: str) -> None:
    message = error_message(run(source, limits=LIMITS))
    assert words in message or "died" in message
    with pytest.raises(ProgramError):
        Program.parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 100_000,
        "[" * 5_000 + "]" * 5_000,
        "{" * 300,
        "def def def\n" * 3_000,
        "x = = 1\ny = 2\n" * 2_000,
        "if x:\n" * 500,
        "".join(" " * i + "if 1:\n" for i in range(150)),
        "'''never closed\n" * 3,
        "\\\n" * 1_000,
        "\f\v\x1c\x85\u2028 odd spaces",
        "return 5\nyield 6\nawait x\nbreak",
        "f'{' * 1000",
        "\x1b[31m red \x1b[0m",
        "async async async",
        "x = 1\n  y = 2\n    z = 3\n w = 4",
        "\u202e reversed",
    ],
    ids=lambda source: repr(source[:12]),
)
def test_syntax_errors_everywhere(source: str) -> None:
    """Lines that are not Python become instructions for a model, and here there is no model."""
    started = time.monotonic()
    result = run(source, limits=LIMITS)
    assert time.monotonic() - started < 15
    assert result.reason in ("emulation failed", "error"), result.trace.answer
    assert error_message(result)


def test_legal_depth_is_not_refused() -> None:
    assert run("x = " + "(" * 150 + "1" + ")" * 150 + "\nanswer = x").answer == 1
    assert run("answer = " + "+".join(["1"] * 800)).answer == 800
    nested = "".join("    " * i + f"if {i} < 99:\n" for i in range(60)) + "    " * 60 + "answer = 1"
    assert run(nested).answer == 1
    chain = (
        "x = 700\n"
        + "if x == 0:\n    answer = 0\n"
        + "".join(f"elif x == {i}:\n    answer = {i}\n" for i in range(1, 701))
    )
    assert run(chain).answer == 700
    assert run("xs = [" + "1," * 50_000 + "]\nanswer = sum(xs)").answer == 50_000


@pytest.mark.parametrize(
    "attack",
    [
        "os.write({fd}, b'garbage that is no frame at all')",
        "os.write({fd}, struct.pack('<I', 0xFFFFFFFF))",
        "os.write({fd}, struct.pack('<I', 100) + b'half')\nos._exit(0)",
        "os.write({fd}, struct.pack('<I', 4) + b'\\xff\\xfe\\xfd\\xfc')",
        "os.write({fd}, struct.pack('<I', 3) + b'NaN')",
        "body = b'[' * 50_000\nos.write({fd}, struct.pack('<I', len(body)) + body)",
        'body = b\'{{"type":"settled","id":7}}\'\nos.write({fd}, struct.pack(\'<I\', len(body)) + body)',
        'body = b\'{{"type":"ended","reason":"limit:heaven"}}\'\nos.write({fd}, struct.pack(\'<I\', len(body)) + body)',
        'body = b\'{{"type":"ran","steps":[{{"statement":999,"visit":1}}]}}\'\nos.write({fd}, struct.pack(\'<I\', len(body)) + body)',
        'body = b\'{{"type":"paused","id":-1,"kind":"call","name":"x"}}\'\nos.write({fd}, struct.pack(\'<I\', len(body)) + body)',
        "os.close({fd})\nwhile True: pass",
        "[os.close(fd) for fd in range(3, 64) if fd_is_open(fd)]\nwhile True: pass",
    ],
    ids=lambda attack: attack[:40],
)
def test_guest_that_breaks_the_protocol(attack: str) -> None:
    program = (
        "import os, struct\n"
        "def fd_is_open(fd):\n    try:\n        os.fstat(fd)\n        return True\n    except OSError:\n        return False\n"
        "pipes = [fd for fd in range(3, 64) if fd_is_open(fd)]\n" + attack.format(fd="pipes[1]") + "\nanswer = f(1)"
    )
    result = run(program, {"f(1)": 1}, limits=LIMITS)
    assert result.reason == "guest died", result.trace.answer
    assert error_message(result)


def test_a_forged_answer_is_only_an_answer() -> None:
    """The guest may lie about its own answer, but gains nothing else."""
    program = (
        'import os, struct\nbody = b\'{"type":"ended","reason":"answered","answer":{"$nope":1},"text":"lie"}\'\n'
        "os.write(4, struct.pack('<I', len(body)) + body)\n"
    )
    result = run(program, limits=LIMITS)
    assert result.reason == "answered"
    assert repr(result.answer) == "lie"


@pytest.mark.parametrize(
    "program",
    [
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()\nanswer = 1",
        "import os\nos.fork()\nwhile True: pass",
        "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nwhile True: pass",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
        "x = 9 ** 9 ** 9",
    ],
    ids=["swallows everything", "ignores signals", "thread", "fork", "child", "regex", "huge int"],
)
def test_guest_that_never_stops(program: str) -> None:
    started = time.monotonic()
    sandbox = "none" if "fork" in program or "subprocess" in program else "auto"
    result = run(program, limits=Limits(run_seconds=1, cpu_seconds=30), sandbox=sandbox)
    assert result.reason in ("limit:run", "limit:memory"), result.trace.answer
    assert time.monotonic() - started < 6


def test_nothing_is_left_behind() -> None:
    marker = f"{os.getpid()}.5"
    for ending in ("answer = 1", "while True: pass", "os._exit(1)"):
        run(
            f"import os, subprocess\nsubprocess.Popen(['sleep', '{marker}'])\n{ending}",
            limits=Limits(run_seconds=1),
            sandbox="none",
        )
    time.sleep(0.2)
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert not [line for line in lines if line == f"sleep {marker}"]


def test_no_descriptor_leaks() -> None:
    run("answer = 1")
    before = len(os.listdir("/proc/self/fd"))
    for program in ("answer = f(1)", "while True: pass", "import os\nos._exit(1)", "answer = 1", ""):
        run(program, limits=Limits(run_seconds=0.2))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "program",
    [
        "import builtins\nfor name in list(vars(builtins)):\n    if name not in ('__import__', 'list'): setattr(builtins, name, None)\nx = 1",
        "import sys\nsys.modules.clear()\nanswer = 1",
        "import json\njson.dumps = json.loads = json.JSONEncoder = None\nanswer = f(1)",
        "import os, time\nos.write = os.read = time.monotonic = None\nanswer = f(1)",
        "import sys\nsys.stdout = sys.stderr = None\nanswer = 1",
        "import sys\nsys.setrecursionlimit(50)\ndef f(n):\n    return f(n + 1)\nf(0)",
        "import gc, sys\nfor o in gc.get_objects():\n    pass\nanswer = len(sys.modules) > 0",
        "import sys\nsys.settrace(lambda *a: None)\nx = 1\nanswer = x",
        "raise BaseException('deep')",
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E",
        "class E(Exception):\n    def __str__(self):\n        return 5\nraise E",
        "raise ExceptionGroup('g', [ValueError(1)])",
    ],
    ids=lambda program: program[:40],
)
def test_program_that_breaks_its_own_environment(program: str) -> None:
    result = run(program, {"f(1)": 1}, limits=LIMITS)
    if result.reason == "answered":
        assert result.answer in (1, True)
    else:
        assert result.reason in ("error", "guest died")
        assert error_message(result)


TRAP = """
class Trap:
    def __init__(self): pass
    def __repr__(self): print('RAN'); raise SystemExit
    def __eq__(self, other): print('RAN'); return True
    def __hash__(self): return 77
    def __len__(self): print('RAN'); return 1
    def __bool__(self): print('RAN'); return True
    def __getattr__(self, name): print('RAN', name); raise AttributeError(name)
    def __iter__(self): print('RAN'); return iter(())
    @property
    def __class__(self): print('RAN'); return int
class Meta(type):
    def __repr__(cls): print('RAN'); return 'x'
    def __instancecheck__(cls, x): print('RAN'); return True
    @property
    def __name__(cls): print('RAN'); return 'x'
class Odd(list, metaclass=Meta):
    def __iter__(self): print('RAN'); return iter(())
"""


def test_watching_runs_no_code_of_the_program() -> None:
    program = (
        TRAP
        + "t = Trap()\nxs = [t, Odd([1])]\nd = {1: t, t: 2}\nxs.append(Odd)\ndef f(a):\n    b = a\n    return b\nu = f(t)\nanswer = 'quiet'"
    )
    result = run(program, limits=LIMITS)
    assert result.answer == "quiet"
    assert result.trace.output == ""
    assert result.trace.steps[-2].delta["u"] == "<Trap>"


@pytest.mark.parametrize(
    "program",
    [
        "i = 0\nwhile i < 10_000_000:\n    i += 1\nanswer = i",
        "def down(n):\n    return 0 if n == 0 else 1 + down(n - 1)\nanswer = [down(900) for i in range(50)][0]",
        "big = ['x' * 10_000] * 10_000\nfor i in range(200):\n    big.append({str(k): big[0] for k in range(100)})\nanswer = 1",
        "".join(f"x{i} = {i}\n" for i in range(5_000)) + "answer = x4999",
        "".join(f"def f{i}(n):\n    n = n + 1\n    return n\n" for i in range(300))
        + "for i in range(200):\n"
        + "".join(f"    f{i}(i)\n" for i in range(300))
        + "answer = 1",
    ],
    ids=["loop", "recursion", "huge values", "many statements", "many functions"],
)
def test_traces_are_bounded(program: str) -> None:
    result = run(program, limits=Limits(run_seconds=60, cpu_seconds=100))
    assert result.reason == "answered", result.trace.answer
    lines = list(result.trace.lines())
    program_line = len(lines[1])
    assert sum(map(len, lines)) - program_line < 2_000_000


def test_the_host_survives_a_parser_that_dies(tmp_path: Path) -> None:
    source = "x = " + "-" * 400_000 + "1"
    code = f"import chainofcode as c\nr = c.run({source!r})\nassert r.reason in ('error', 'guest died'), r.reason"
    path = tmp_path / "host.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
