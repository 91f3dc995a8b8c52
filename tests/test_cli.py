"""The command as a user or a script sees it: output, exit codes, bad input, interruption."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, has_tier
from forked import COC, can_fork, run_coc

from chainofcode.cli import _parser
from chainofcode.cli.overview import GROUPS


def coc(*arguments: str | Path, cwd: Path = ROOT, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    words = [*map(str, arguments)]
    if can_fork(words):
        done = run_coc(words, cwd, stdin)
    else:
        done = subprocess.run(
            [*COC, *words], capture_output=True, text=True, check=False, cwd=cwd, timeout=60, input=stdin
        )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.py"
    path.write_text("x = f('a')\nprint('note')\nanswer = (x, n)\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(\\"a\\")", "value": {"$set": [1]}}\n\n')
    return path


def test_show_prints_what_run_printed(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    done = coc("run", program, "--values", tmp_path / "v.jsonl", "--input", "n=[1, 2]", "--trace", trace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("answer: ({1}, [1, 2])\n")
    assert "lm  x = f('a')" in done.stdout
    assert "│ note" in done.stdout
    shown = coc("show", trace)
    assert shown.returncode == 0
    numbers = iter(range(1, 10))
    for ran, again in zip(done.stdout.splitlines(), shown.stdout.replace("step line\n", "").splitlines(), strict=True):
        if ran[6:8] in ("py", "lm"):  # each step has the number that `coc replay --set step:N=…` accepts
            assert again == f"{next(numbers):>4} {ran}"
        else:
            assert again.strip() == ran.strip()
    assert next(numbers) == 5
    changed = coc("replay", trace, "--set", "step:1=7")
    assert changed.stdout.startswith("answer: ({1}, [1, 2]) → (7, [1, 2])\n")
    assert json.loads(trace.read_text().splitlines()[0])["version"] == 1


LONG = "fruits = [name for name in ['apple', 'hammer', 'kiwi', 'saw'] if is_fruit(name) and len(name) > 1]"


@pytest.fixture
def long_trace(tmp_path: Path) -> Path:
    (tmp_path / "p.py").write_text(f"{LONG}\nanswer = fruits[0]\n")
    values = [
        {"call": f"is_fruit('{name}')", "value": name in "apple kiwi"} for name in ("apple", "hammer", "kiwi", "saw")
    ]
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, values)))
    done = coc("run", "p.py", "--values", "v.jsonl", "--trace", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "t.jsonl"


def test_source_has_the_room_that_there_is(long_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = coc("show", long_trace).stdout
    assert f"{LONG[:39]}…  is_fruit('apple') → True\n" in usual
    whole = coc("show", long_trace, "--all").stdout
    assert f"{LONG[:58]}…  is_fruit('apple') → True\n" in whole  # the value leaves its room to the source
    monkeypatch.setenv("COLUMNS", "200")
    for more in ((), ("--all",)):
        assert f"{LONG}    is_fruit('apple') → True\n" in coc("show", long_trace, *more).stdout
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, coc("show", long_trace, "--all").stdout.splitlines())) <= 61
    for columns in ("0", "-5", "wide", "", "9" * 5000):
        monkeypatch.setenv("COLUMNS", columns)
        assert coc("show", long_trace).stdout == usual


def test_program_of_a_trace(long_trace: Path, tmp_path: Path) -> None:
    done = coc("show", long_trace, "--program")
    assert (done.returncode, done.stdout, done.stderr) == (0, (tmp_path / "p.py").read_text(), "")
    (tmp_path / "s.jsonl").write_text(json.dumps("The answer is: 4"))
    asked = ("ask", "What?", "--model", f"scripted:{tmp_path}/s.jsonl", "--method", "direct", "--quiet")
    assert coc(*asked, "--trace", tmp_path / "direct.jsonl").returncode == 0
    done = coc("show", "direct.jsonl", "--program", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "coc: direct.jsonl contains no program\n")


def test_json_keeps_stdout_machine_readable(program: Path, tmp_path: Path) -> None:
    done = coc("run", program, "--values", tmp_path / "v.jsonl", "--input", "n=text", "--json")
    record = json.loads(done.stdout)
    assert record["answer"] == "({1}, 'text')"
    assert (record["reason"], record["lm_calls"], record["steps"]) == ("answered", 1, 4)
    done = coc("run", program, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["message"] == "no value for the call f('a')"


def test_missing_value_shows_exact_text_of_call(program: Path) -> None:
    done = coc("run", program)
    assert done.returncode == 1
    assert "no answer: emulation failed" in done.stdout
    assert "line 1: no value for the call f('a')" in done.stdout
    assert """--values: {"call": "f('a')", "value": …}""" in done.stderr
    values = program.with_name("near.jsonl")
    values.write_text('{"call": "f(\'b\')", "value": 1}')
    assert "no value for the call f('a'); did you mean f('b')?" in coc("run", program, "--values", values).stdout


def test_a_command_without_a_model_suggests_one(program: Path) -> None:
    program.write_text("answer = f(1)")
    assert "--model local" in coc("run", program).stderr
    table = program.with_suffix(".csv")
    table.write_text("text\na\n")
    assert "--model local" in coc("sql", "SELECT * FROM p WHERE f(text)", "--file", table, "--engine", "sqlite").stderr


def test_help_names_the_default_model_of_each_command() -> None:
    defaults = {
        "ask": "COC_MODEL",
        "eval": "COC_MODEL",
        "run": "none",
        "sql": "none",
        "verify": "none",
        "resume": "as rec",
    }
    for command, default in defaults.items():
        (model,) = [action for action in _parser().parsers()[command]._actions if action.dest == "model"]
        assert f"(default: {default}" in str(model.help), command


def test_a_model_that_is_not_asked_is_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: pip install 'chainofcode[local]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = coc("run", "examples/fruit.py", "--values", "examples/fruit.jsonl", "--model", "local")
    assert (done.returncode, "download" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("answer = n + 1", "--input n=VALUE"),
        ("answer = question", "--question TEXT"),
        ("answer = input('x? ')", "--input NAME=VALUE"),
        ("while True: pass", "--limit run="),
        ("answer = 'abc'.uper()", "--values"),
        ("def f(:\n    return 1", "a line that is not Python is an instruction for a model"),
        ("import socket\nsocket.socket()", "programs have no network"),
        ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')", "programs have no network"),
        (
            "import time, threading as t\nwhile True: t.Thread(target=time.sleep, args=[9], daemon=True).start()",
            "--limit processes=",
        ),
    ],
)
def test_errors_have_hints(tmp_path: Path, source: str, hint: str) -> None:
    (tmp_path / "p.py").write_text(source)
    done = coc("run", tmp_path / "p.py", "--limit", "run=1")
    assert done.returncode == 1
    assert hint in done.stderr
    if "uper" in source:
        assert "did you mean 'upper'?" in done.stdout


@pytest.mark.skipif(not has_tier("A"), reason="files are hidden, and written, in tier A only")
@pytest.mark.parametrize(
    ("source", "more", "hint"),
    [
        ("open('/etc/hostname')", [], "--allow-read PATH"),
        ("import os\nos.listdir(b'/root')", [], "--allow-read PATH"),
        ("open('x', 'w')", [], "--scratch"),
        ("open('x', 'w').write('x' * 10**8)", ["--scratch"], "--limit scratch="),
        ("open('p.py')", ["--allow-read", "{tmp}/p.py"], "it was granted by its full path: open it as"),
        ("open('/p.py')", ["--allow-read", "{tmp}/p.py"], "a file of that name is granted as"),
        ("raise OSError('[Errno 2] of my own: \\'/etc/hostname\\'')", [], ""),
    ],
)
def test_refused_files_have_hints(tmp_path: Path, source: str, more: list[str], hint: str) -> None:
    (tmp_path / "p.py").write_text(source)
    done = coc("run", "p.py", *(option.format(tmp=tmp_path) for option in more), "--limit", "scratch=1", cwd=tmp_path)
    assert done.returncode == 1
    assert hint in done.stderr if hint else not done.stderr, done.stderr


HOSTILE_ERRORS = {
    "message": "raise OSError('[Errno 2]' * 220 + '\\'' * 2000 + 'x')",
    "properties": "class E(OSError):\n    errno = property(lambda self: 1 / 0)\n    filename = errno\nraise E(2, 'x', 'y')",
    "truth": "class E(OSError):\n    def __bool__(self): return 1 / 0\ntry: raise E\nexcept E: raise E",
    "circle": "a, b = OSError('a'), OSError('b')\na.__context__, b.__context__ = b, a\nraise a",
    "args": "class A(str):\n    def __eq__(self, other): return 1 / 0\nraise RuntimeError(A('x'))",
    "file": "raise OSError(2, 'x', 'a\\0b\\x1b[2J\\n\\udc80' * 9000)",
}


@pytest.mark.parametrize("source", HOSTILE_ERRORS.values(), ids=HOSTILE_ERRORS)
def test_no_error_stalls_or_breaks_the_hints(tmp_path: Path, source: str) -> None:
    (tmp_path / "p.py").write_text(source)
    begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = coc("run", tmp_path / "p.py")
    assert done.returncode == 1
    assert "no answer: error" in done.stdout and "Traceback" not in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun < 3


def test_program_from_standard_input() -> None:
    done = subprocess.run([*COC, "run", "-"], input="answer = 1 + 1", capture_output=True, text=True, check=False)
    assert done.stdout.startswith("answer: 2\n")


def test_full_output_device_causes_no_traceback(program: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COC, "run", str(program)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "coc: cannot write: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_messages_that_cannot_be_written_do_not_end_a_run(tmp_path: Path, unbuffered: str) -> None:
    """On a full device, and with a reader that has gone."""
    (tmp_path / "replies.jsonl").write_text(json.dumps("```python\nanswer = len('abcd') + 27\n```") + "\n")
    asking = [*COC, "ask", "How many?", "--model", f"scripted:{tmp_path / 'replies.jsonl'}"]
    failing = [*COC, "show", str(tmp_path / "missing")]
    read_end, write_end = os.pipe()
    os.close(read_end)
    streams = [write_end, *([os.open("/dev/full", os.O_WRONLY)] if Path("/dev/full").exists() else [])]
    variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for stream in streams:
        for command, wanted in ((asking, (0, "31\n")), (failing, (2, ""))):
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=stream, text=True, env=variables, timeout=60, check=False
            )
            assert (done.returncode, done.stdout) == wanted
        os.close(stream)


def test_error_names_line_and_cause(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("total = 3\n\nanswer = totl\n")
    done = coc("run", path)
    assert done.returncode == 1
    assert "line 3: NameError: name 'totl' is not defined; did you mean 'total'?" in done.stdout


def test_each_record_prints_one_line(tmp_path: Path) -> None:
    records: list[Any] = [
        {"id": "a", "program": "answer = f(1)", "calls": [{"call": "f(1)", "value": 5}]},
        {"id": "b", "program": "answer = question + s", "question": "q", "inputs": {"s": "!"}},
        {"id": "c", "program": "answer = g(1)"},
        {"id": "d"},
        {"program": "answer = {1, 2}"},
        {"id": "f", "program": "answer = 1", "calls": [{"call": "f(1)", "value": {"$nope": 1}}]},
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records) + "\nnot json\n\n")
    done = coc("run", path)
    assert done.returncode == 2
    results = {str(line["id"]): line for line in map(json.loads, done.stdout.splitlines())}
    assert {key: line["answer"] for key, line in results.items()} == {
        "a": "5", "b": "'q!'", "c": None, "d": None, "5": "{1, 2}", "f": None, "7": None,
    }  # fmt: skip
    assert results["a"]["reason"] == "answered"
    assert set(results["a"]) >= {"id", "answer", "reason", "steps", "lm_calls", "seconds"}
    assert results["c"]["reason"] == "emulation failed"
    for key, words in {"d": "line 4: expected", "f": "$nope", "7": "line 7: not JSON"}.items():
        assert results[key]["reason"] == "not run"
        assert words in results[key]["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.py"], "cannot read missing.py: No such file"),
        (["run", "."], "cannot read"),
        (["run", "p.py", "--values", "missing.jsonl"], "cannot read missing.jsonl"),
        (["run", "p.py", "--values", "bad.jsonl"], "bad.jsonl, line 2"),
        (["run", "p.py", "--values", "p.py"], "p.py, line 1"),
        (["run", "p.py", "--values", "binary"], "cannot read binary"),
        (["run", "p.py", "--input", "oops"], "NAME=VALUE"),
        (["run", "p.py", "--input", "1x=3"], "NAME=VALUE"),
        (["run", "p.py", "--input", "def=3"], "NAME=VALUE"),
        (["run", "p.py", "--limit", "calls=0"], "above 0"),
        (["run", "p.py", "--values", "python.jsonl"], "JSON writes true"),
        (["run", "p.py", "--limit", "run=fast"], "--limit must be"),
        (["run", "p.py", "--limit", "sleep=3"], "--limit must be"),
        (["run", "p.py", "--allow-package", "no_such_package_here"], "pip install no_such_package_here"),
        (["run", "p.py", "--trace", "no/such/dir/t.jsonl"], "cannot write"),
        (["run", "p.py", "--trace", "."], "it is a directory"),
        (["run", "p.py", "--budget", "tokens=foo"], "--budget must be"),
        (["run", "p.jsonl", "--budget", "tokens=foo"], "--budget must be"),
        (["run", "no\x1b[2J\x07.py"], "cannot read no\\x1b[2J\\x07.py"),
        (["run", "p.jsonl", "--trace", "t"], "--trace works with one program"),
        (["show", "missing"], "cannot read missing"),
        *(
            (
                [command, "p.py"],
                "coc: p.py is not a trace; coc run and coc ask write one with --trace FILE (line 1: JSON",
            )
            for command in ("show", "replay", "verify", "why", "resume", "debug")
        ),
        (
            ["replay", "bad.jsonl"],
            "bad.jsonl is not a trace; coc run and coc ask write one with --trace FILE (line 1: Object missing",
        ),
        (
            ["debug", "bad.jsonl"],
            "bad.jsonl is not a trace; coc run and coc ask write one with --trace FILE (line 1: Object missing",
        ),
        (["verify", "cut.jsonl"], "cut.jsonl, line 2: not a line of a trace: Input data was truncated"),
        (
            ["show", "empty"],
            "empty is not a trace; coc run and coc ask write one with --trace FILE (line 1: the file is empty)",
        ),
        (["frobnicate"], "coc: unknown command 'frobnicate'\nsee coc --help"),
        (["verfy", "run.jsonl"], "coc: unknown command 'verfy' (did you mean verify?)\nsee coc --help\n"),
        (["tokens", "drop"], "unknown action 'drop' (expected one of: list, add, revoke)"),
        (["run", "p.py", "--policy", "lax"], "--policy must be strict or paper, not 'lax'"),
        (["run", "p.py", "--seed", "one"], "--seed must be a whole number, not 'one'"),
        (["run", "p.py", "--seed"], "--seed needs a value"),
        (["ask", "Why?", "--vote", "3"], "coc ask: unrecognized option: --vote (did you mean --votes?)"),
        (
            ["ask", "Why?", "--modle", "local"],
            "coc ask: unrecognized option: --modle (did you mean --model?)\nsee coc ask --help",
        ),
        (
            ["ask", "Why?", "--api-kye=k-secret-k"],
            "coc ask: unrecognized option: --api-kye (did you mean --api-key?)\n",
        ),
        (["ask", "How", "many?"], "coc ask: unrecognized argument: many? (quote text that contains spaces)"),
        ([], "step through a trace, forwards"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_explained(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "p.py").write_text("answer = 1")
    (tmp_path / "p.jsonl").write_text("")
    (tmp_path / "bad.jsonl").write_text('{"call": "f(1)", "value": 1}\n{"call": 3}\n')
    (tmp_path / "python.jsonl").write_text('{"call": "f(1)", "value": True}')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").write_text("")
    (tmp_path / "cut.jsonl").write_text('{"event":"trace","version":1,"python":"3.11.7"}\n{"event":"st')
    done = coc(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done
    assert words in done.stderr


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "orders.csv",
            "order_id\n1\n",
            "a .csv file holds data; to ask about it, use coc ask QUESTION --file orders.csv",
        ),
        ("ORDERS.JSON", "{}", "a .json file holds data; to ask about it, use coc ask QUESTION --file ORDERS.JSON"),
        ("shop.sqlite", "SQLite format 3", "a .sqlite file holds data; to ask"),
        ("photo.png", "\x89PNG", "a .png file holds data; to ask about it"),
        (
            "notes.md",
            "# Notes\n\nsome words\n",
            "it has no code block; to ask about it, use coc ask QUESTION --file notes.md",
        ),
    ],
)
def test_file_that_is_not_a_program(tmp_path: Path, command: str, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    done = coc(command, name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"coc: {name} is not a program: {words}")


def test_document_that_is_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "paper.pdf").write_text("%PDF-1.7")
    assert "paper.pdf is not a program (expected .py, .js, " in coc("run", "paper.pdf", cwd=tmp_path).stderr


@pytest.mark.parametrize("name", ["reply.md", "reply.txt"])
def test_reply_that_contains_a_program(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Here it is:\n\n```python\nanswer = 6 * 7\n```\n")
    assert coc("run", name, cwd=tmp_path).stdout.startswith("answer: 42\n")


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00\x80", b"x = 1\x00", b"\xef\xbb\xbfanswer = 1\r\n", b"answer = 'caf\xe9'"]
)
def test_unusual_program_file_runs_or_is_explained(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "p.py"
    path.write_bytes(data)
    done = coc("run", path)
    assert done.returncode == (0 if data.startswith(b"\xef") else 1)
    assert done.stdout.startswith("answer: 1" if data.startswith(b"\xef") else "no answer")


def test_ctrl_c_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("while True: pass")
    child = subprocess.Popen([*COC, "run", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    for _ in range(200):  # starting the guest may be slow on a busy machine
        if children.read_text().strip():
            break
        time.sleep(0.05)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out, err) == (130, "", "coc: interrupted\n")


@pytest.mark.parametrize("command", ["run", "ask"])
def test_ctrl_c_keeps_the_trace(command: str, tmp_path: Path) -> None:
    source = "x = f(1)\ny = mark(x)\nwhile True:\n    pass\n"
    (tmp_path / "marks.py").write_text(
        "from pathlib import Path\ndef mark(n: int) -> int:\n    Path('marked').touch()\n    return n\n"
    )
    (tmp_path / "p.py").write_text(source)
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 5}')
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, [f"```python\n{source}```", '{"value": 5}'])))
    what = ["p.py", "--values", "v.jsonl"] if command == "run" else ["What?", "--model", "scripted:s.jsonl", "--quiet"]
    tool = ["--tool", "marks:mark", "--approve", "never", "--trace", "t.jsonl"]
    child = subprocess.Popen(
        [*COC, command, *what, *tool], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    began = time.monotonic()
    while not (tmp_path / "marked").exists() and time.monotonic() - began < 30 and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out) == (130, "")
    assert err == "coc: partial trace: t.jsonl ('coc resume' continues the run)\ncoc: interrupted\n"
    shown = coc("show", "t.jsonl", cwd=tmp_path)
    assert (shown.returncode, shown.stdout.partition("\n")[0]) == (1, "no answer: interrupted")
    assert "f(1) → 5" in shown.stdout
    assert "the file was changed" not in coc("verify", "t.jsonl", cwd=tmp_path).stdout


def test_run_ended_by_a_model_error_keeps_its_trace(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps("```python\nx = 1 + 1\nanswer = f(x)\n```"))
    done = coc("ask", "What?", "--model", "scripted:s.jsonl", "--trace", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "partial trace: t.jsonl" in done.stderr
    shown = coc("show", "t.jsonl", cwd=tmp_path).stdout
    assert shown.startswith("no answer: interrupted\n  LMError: scripted:s.jsonl has no reply left")
    assert "x = 2" in shown
    nothing = coc("ask", "What?", "--model", "scripted:/dev/null", "--trace", "none.jsonl", cwd=tmp_path)
    assert nothing.returncode == 2
    assert not (tmp_path / "none.jsonl").exists()


def test_truncated_trace_is_shown(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    coc("run", program, "--values", tmp_path / "v.jsonl", "--input", "n=1", "--trace", trace)
    whole = trace.read_bytes()
    lines = whole.splitlines(keepends=True)
    for end in (len(whole) - 30, len(b"".join(lines[:4])), len(b"".join(lines[:4])) + 12):
        trace.write_bytes(whole[:end])
        shown = coc("show", trace)
        assert shown.returncode == 1, shown.stderr
        assert shown.stdout.startswith("no answer: the trace ends before the run did\n")
        assert "f('a') → {1}" in shown.stdout
    trace.write_bytes(lines[0] + b"{broken\n" + lines[1])
    assert coc("show", trace).returncode == 2
    trace.write_bytes(lines[0][:20])
    assert "is not a trace" in coc("show", trace).stderr


def test_closed_output_pipe_causes_no_error(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("for i in range(60):\n    x = i\nanswer = x")
    read, write = os.pipe()
    child = subprocess.Popen([*COC, "run", str(path), "--all"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    os.close(read)
    _, err = child.communicate(timeout=20)
    assert err == ""


def test_terminal_escapes_of_programs_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("print('\\x1b[31mred\\x07')\nanswer = 'a\\x1b[2Jb'  # \x1b[2J")
    done = coc("run", path)
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_limits_and_packages_by_option(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("while True: pass")
    assert "limit:run" in coc("run", path, "--limit", "run=0.3").stdout
    path.write_text("import msgspec\nanswer = msgspec.json.decode('1')")
    assert "--allow-package msgspec" in coc("run", path).stdout
    assert coc("run", path, "--allow-package", "msgspec").stdout.startswith("answer: 1")


def test_clock_and_seed_by_option(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("import datetime, random\nanswer = (str(datetime.date.today()), random.random())")
    first = coc(
        "run", path, "--clock", "2031-05-06T07:00", "--seed", "7", "--trace", tmp_path / "t"
    ).stdout.splitlines()[0]
    assert first.startswith("answer: ('2031-05-06', 0.32383")
    assert json.loads((tmp_path / "t").read_text().splitlines()[0])["settings"] == {"clock": 1935817200.0, "seed": 7}
    assert coc("run", path, "--clock", "later").returncode == 2
    now = coc("run", path, "--clock", "now")
    assert "2025-01-01" not in now.stdout + now.stderr


def test_program_that_reads_the_fixed_clock_gets_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("import datetime\nanswer = str(datetime.date.today())")
    assert "use --clock now for the real time" in coc("run", path).stderr
    path.write_text("from datetime import datetime, timezone\nanswer = datetime.now(timezone.utc).year")
    assert "use --clock now for the real time" in coc("run", path).stderr
    path.write_text("import datetime\ndef now(): return 3\nanswer = now() + datetime.datetime(2024, 1, 2).time().hour")
    assert coc("run", path).stderr == ""


def test_full_disk_loses_nothing(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    (tmp_path / "p.py").write_text("answer = 1")
    kept = tmp_path / "t.jsonl"
    kept.write_text("the old trace")
    (tmp_path / "t.jsonl.partial").symlink_to("/dev/full")
    done = coc("run", tmp_path / "p.py", "--trace", kept)
    assert done.returncode == 2
    assert done.stdout.startswith("answer: 1\n")  # the answer is not lost
    assert "No space left" in done.stderr
    assert kept.read_text() == "the old trace"


def test_trace_is_written_even_if_output_is_closed(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("answer = 1")
    read, write = os.pipe()
    os.close(read)
    arguments = [*COC, "run", str(tmp_path / "p.py"), "--trace", str(tmp_path / "t.jsonl")]
    done = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(write)
    assert done.stderr == ""
    assert (tmp_path / "t.jsonl").exists()


# --- help and completion --------------------------------------------------------------------------------------------


def test_coc_without_arguments_suggests_commands() -> None:
    done = coc()
    assert done.returncode == 2 and not done.stdout
    assert "Try:\n  coc ask " in done.stderr and done.stderr == coc("--help").stdout


def test_every_command_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert set(_parser().commands()) <= set(grouped) and len(set(grouped)) == len(grouped)


def test_completion_in_bash() -> None:
    shell = f"{shlex.join(COC)} completion bash"
    ask = "COMP_CWORD=2; COMP_WORDS=(coc ask --no-fa); _coc; echo ${COMPREPLY[@]}"
    first = "COMP_CWORD=1; COMP_WORDS=(coc verif); _coc; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f'eval "$({shell})"; {ask}; {first}'], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("--no-fallback\nverify\n", "")


def test_completion_in_other_shells() -> None:
    assert "bashcompinit" in coc("completion", "zsh").stdout
    fish = coc("completion", "fish").stdout
    assert "-a verify -d 'check whether the answer of a trace" in fish and "-l no-fallback" in fish
    assert coc("completion", "tcsh").returncode == 2
