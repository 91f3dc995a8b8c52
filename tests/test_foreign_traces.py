"""Someone else's trace grants itself nothing: each attack is refused, and succeeds with the options that the error lists.

Traces are recorded by real commands of two users, each with a directory for the key that seals traces.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import serving
from forked import COC
from test_cli import coc

from chainofcode import InputError, Limits, Table, Trace, run
from chainofcode.audit import follow, replay, verify
from chainofcode.errors import GrantError
from chainofcode.trace import as_json, chained, linked

VALUE = {"choices": [{"message": {"content": '{"value": "fine"}'}}]}
FOREIGN = "the trace may be someone else's"


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def key_of(tmp_path: Path) -> Path:
    return tmp_path / "state" / "chainofcode" / "trace.key"


def record_as_mallory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *command: str | Path) -> Path:
    """Record a trace as another user."""
    own, path = os.environ["XDG_STATE_HOME"], tmp_path / "foreign.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mallory"))
    done = coc(*command, "--trace", path, cwd=tmp_path)
    assert path.exists(), done.stderr
    monkeypatch.setenv("XDG_STATE_HOME", own)
    return path


def write_chained(path: Path, lines: list[bytes]) -> None:
    """Write lines with the chain that anyone can compute, and the seals that they have."""
    digest, written = "", []
    for line in lines:
        digest = linked(digest, line)
        written.append(chained(line, digest))
    path.write_bytes(b"\n".join(written) + b"\n")


def lines_of(path: Path) -> list[bytes]:
    """The lines of a trace without their chain."""
    return [line[: line.rindex(b',"chain":"')] + b"}" for line in path.read_bytes().splitlines()]


def with_settings(path: Path, **settings: Any) -> Path:
    """Change the settings of a trace, as an attacker does, with a chain that is intact."""
    head, *rest = lines_of(path)
    data = json.loads(head)
    data["settings"] = {**data.get("settings", {}), **settings}
    write_chained(path, [as_json(data), *rest])
    return path


def options_in(refusal: str) -> list[str]:
    """The options that a refusal names, one per line."""
    return [line.strip() for line in refusal.split("\n") if line.startswith("     -")]


def assert_refused(*command: str | Path, names: list[str], cwd: Path) -> list[str]:
    """Assert that a command is refused with these options, and return what to type."""
    done = coc(*command, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert FOREIGN in done.stderr
    assert options_in(done.stderr) == names
    return [word for name in names for word in shlex.split(name)]


# --- resume: a secret, a model, a process -------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    path.write_text("PRIVATE-KEY-OF-THE-USER")
    return path


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("openai", reason="the extra `openai` is not installed")
    with serving(VALUE) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield model


@pytest.fixture
def thief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: Path) -> Path:
    """Someone else's trace that reads the secret, and sends it to the model that the trace names."""
    (tmp_path / "p.py").write_text(f"text = open({str(secret)!r}).read()\nanswer = summarize(text)\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--allow-read", secret)
    return with_settings(path, reads=[str(secret)], asked={"model": "openai:of-mallory"})


def sent_to(endpoint: Any) -> str:
    return json.dumps([body for _, body in endpoint.seen])


def test_resume_sends_no_secret_to_a_model_that_the_trace_names(tmp_path: Path, thief: Path, endpoint: Any) -> None:
    secret = tmp_path / "id_ed25519"
    words = assert_refused("resume", thief, names=[f"--allow-read {secret}", "--model openai:of-mallory"], cwd=tmp_path)
    assert endpoint.seen == []
    before = thief.read_bytes()
    for kept in (words[:2], words[2:]):  # one of two is not enough
        assert coc("resume", thief, *kept, cwd=tmp_path).returncode == 2
    assert endpoint.seen == [] and thief.read_bytes() == before
    done = coc("resume", thief, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PRIVATE-KEY" in sent_to(endpoint)


def test_grant_recorded_grants_everything_and_lists_it(tmp_path: Path, thief: Path, endpoint: Any) -> None:
    done = coc("resume", thief, "--grant-recorded", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert options_in(done.stderr) == [f"--allow-read {tmp_path / 'id_ed25519'}", "--model openai:of-mallory"]
    assert "PRIVATE-KEY" in sent_to(endpoint)
    assert Trace.read(thief).seal_problem == ""  # it was approved, and is this user's now


def test_another_model_does_not_approve_the_recorded_one(tmp_path: Path, thief: Path, endpoint: Any) -> None:
    thief = with_settings(thief, reads=[], asked={"model": "local:evil.gguf"})
    (tmp_path / "id_ed25519").unlink()
    (tmp_path / "p.py").write_text("answer = summarize('x')\n")
    program = lines_of(run_own(tmp_path, "p.py"))[1].replace(b"own.jsonl", b"")
    write_chained(thief, [lines_of(thief)[0], as_json({**json.loads(program), "seal": ""})])
    done = coc("resume", thief, "--model", "openai:mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    resumed = Trace.read(thief)
    assert resumed.seal_problem == ""
    assert resumed.settings["asked"] == {"model": "openai:mine"}  # a later resume asks this one


@pytest.mark.parametrize("option", ["model", "emulator"])
def test_resume_loads_no_model_file_that_the_trace_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    weights = tmp_path / "x.gguf"
    weights.write_bytes(b"GGUF" + b"\xff" * 100)
    (tmp_path / "p.py").write_text("answer = f(1)\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py")
    with_settings(path, asked={option: f"local:{weights}"})
    words = assert_refused("resume", path, names=[f"--{option} local:{weights}"], cwd=tmp_path)
    done = coc("resume", path, *words, cwd=tmp_path)
    assert FOREIGN not in done.stderr
    assert "x.gguf" in done.stderr or "llama" in done.stderr  # now llama.cpp gets the file, and cannot load it


def test_model_of_the_first_request_needs_an_approval(tmp_path: Path, thief: Path, endpoint: Any) -> None:
    """Without a recorded option, `coc resume` uses the model of the first request."""
    thief = with_settings(thief, reads=[], asked={})
    head, program, *rest = lines_of(thief)
    call = {"event": "call", "prompt": "Hello", "reply": "1", "model": "openai:of-mallory", "answers": {"g()": 1}}
    write_chained(thief, [head, program, as_json(call), *rest])
    assert_refused("resume", thief, names=["--model openai:of-mallory"], cwd=tmp_path)
    assert endpoint.seen == []


def test_tools_time_and_limits_of_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("answer = f(1)\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py")
    settings: dict[str, Any] = {
        "tools": ["send", "pay now"],
        "limits": {"run_seconds": 600, "lm_calls": 2000, "cpu_seconds": 5},
        "scratch": True,
        "asked": {"method_seconds": 0, "votes": 3, "threshold": 0.5, "ask_me": "approve"},
        "seed": 7,
        "policy": "paper",
    }
    expected = ["--scratch", "--limit run=600", "--limit calls=2000", "--votes 3", "--method-seconds 0"]
    expected += [f"--tool, --openapi or --mcp, for the tool {name}" for name in ("send", "'pay now'")]
    assert_refused("resume", with_settings(path, **settings), names=expected, cwd=tmp_path)
    with_settings(path, **{**settings, "tools": []})
    words = assert_refused("resume", path, names=expected[:5], cwd=tmp_path)
    done = coc("resume", path, *words, cwd=tmp_path)
    assert (done.returncode, FOREIGN in done.stderr) == (1, False), done.stderr
    limits = Trace.read(path).settings["limits"]
    assert limits == {"run_seconds": 600, "lm_calls": 2000, "cpu_seconds": 5}  # the lower one needs no approval


def test_files_of_a_foreign_question_are_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Any
) -> None:
    (tmp_path / "data.txt").write_text("DATA-OF-THE-USER")
    model = ("--model", "openai:m", "--no-fallback", "--repairs", "0", "--budget", "tokens=1")
    path = record_as_mallory(monkeypatch, tmp_path, "ask", "What?", "--file", "data.txt", *model)
    keep_header(path)
    endpoint.seen.clear()
    assert_refused("resume", path, names=[f"--file {tmp_path}/data.txt", "--model openai:m"], cwd=tmp_path)
    assert endpoint.seen == []
    done = coc("resume", path, "--file", "data.txt", "--model", "openai:m", cwd=tmp_path)
    assert FOREIGN not in done.stderr


def keep_header(path: Path) -> None:
    """Make a trace that of a run which was killed before its first request."""
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


@pytest.mark.parametrize(
    "spelling", ["{0}/./secret.txt", "/{0}/secret.txt", "{0}/secret.txt/", "secret.txt", "{0}/secret.txt"]
)
def test_a_read_is_not_hidden_behind_a_recorded_file(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user names the files of a question again, which may be others: the recorded ones grant nothing."""
    (tmp_path / "secret.txt").write_text("SECRET-OF-THE-USER")
    (tmp_path / "data.txt").write_text("data")
    program = (
        f"```python\ntry:\n    answer = open('{tmp_path}/secret.txt').read()\nexcept OSError:\n    answer = 0\n```"
    )
    (tmp_path / "replies.jsonl").write_text(f"{json.dumps(program)}\n" * 4)
    model = ("--model", "scripted:replies.jsonl")
    path = record_as_mallory(
        monkeypatch, tmp_path, "ask", "What?", "--file", "data.txt", *model, "--budget", "tokens=1"
    )
    secret = str(tmp_path / "secret.txt")
    with_settings(path, files={"data": secret}, file_kinds={"data": ["text", ""]}, reads=[spelling.format(tmp_path)])
    keep_header(path)
    done = coc("resume", path, "--file", "data.txt", *model, cwd=tmp_path)
    assert "SECRET" not in done.stdout + done.stderr + path.read_text(), done.stdout
    assert done.returncode == 0 and "answer = 0" in done.stdout, done.stderr


def test_costly_choices_of_a_foreign_trace_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "replies.jsonl").write_text(f"{json.dumps('answer = 1')}\n" * 99)
    model = ("--model", "scripted:replies.jsonl")
    path = record_as_mallory(monkeypatch, tmp_path, "ask", "What?", *model)
    asked = {"votes": 300, "value_votes": 20, "repairs": 500, "think": True, "critique": True, "effort": "high"}
    with_settings(path, asked=asked)
    keep_header(path)
    names = ["--votes 300", "--value-votes 20", "--repairs 500", "--think", "--critique", "--effort high"]
    assert_refused("resume", path, *model, names=names, cwd=tmp_path)
    with_settings(path, asked={"votes": 1, "repairs": 0})
    done = coc("resume", path, *model, cwd=tmp_path)
    assert FOREIGN not in done.stderr and done.returncode == 0, done.stderr


# --- replay, why, verify, show ------------------------------------------------------------------------------------

RERUNS = {
    "replay": ["replay", "foreign.jsonl"],
    "what if": ["replay", "foreign.jsonl", "--set", "f(1)=3"],
    "edit": ["replay", "foreign.jsonl", "--edit", "p.py"],
    "why": ["why", "foreign.jsonl"],
    "verify": ["verify", "foreign.jsonl"],
    "page": ["show", "foreign.jsonl", "--html", "page.html"],
}
GRANTED = {  # what Mallory's run was given, the program, and what the user must type
    "read": (["--allow-read", "secret.txt"], "open('secret.txt').read()", ["--allow-read DIR/secret.txt"]),
    "limit": (["--limit", "run=600", "--limit", "cpu=9"], "1", ["--limit run=600.0"]),
    "package": (["--allow-package", "msgspec"], "__import__('msgspec').json.encode(1)", ["--allow-package msgspec"]),
    "scratch": (["--scratch"], "open('new.txt', 'w').write('x')", ["--scratch"]),
    "file": (["--file", "secret.txt"], "secret", ["--file DIR/secret.txt"]),
    "all": (
        ["--allow-read", "a dir", "--file", "secret.txt", "--allow-package", "msgspec,numpy", "--limit", "output=2e6"],
        "secret",
        ["--allow-read 'DIR/a dir'", "--file DIR/secret.txt", "--allow-package msgspec", "--allow-package numpy",
         "--limit output=2000000"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("grant", GRANTED)
@pytest.mark.parametrize("rerun", RERUNS)
def test_reruns_take_nothing_from_a_foreign_trace(
    rerun: str, grant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, expression, expected = GRANTED[grant]
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "a dir").mkdir()
    (tmp_path / "p.py").write_text(f"found = {expression}\nanswer = [str(found), f(1)]\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 2}\n')
    record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--values", "v.jsonl", *options)
    command = RERUNS[rerun]
    words = assert_refused(*command, names=[name.replace("DIR", str(tmp_path)) for name in expected], cwd=tmp_path)
    assert not (tmp_path / "page.html").exists()
    given = coc(*command, *words, cwd=tmp_path)
    everything = coc(*command, "--grant-recorded", cwd=tmp_path)
    for done in (given, everything):
        assert FOREIGN not in done.stderr.partition("granted as recorded in the trace, which may be someone")[0]
        assert done.returncode in ((0, 1) if rerun == "verify" else (0,)), done.stdout + done.stderr
    assert len(options_in(everything.stderr)) == len(expected)
    if rerun == "replay":
        assert given.stdout.startswith("the same")


@pytest.mark.parametrize("rerun", [name for name in RERUNS if name != "page"])
def test_a_foreign_trace_that_needs_nothing_runs_as_before(
    rerun: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.py").write_text("answer = f(1) + 1\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 2}\n')
    harmless = ["--limit", "run=5", "--seed", "3", "--clock", "2025-01-31", "--policy", "paper", "--no-share"]
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--values", "v.jsonl", *harmless)
    with_settings(path, asked={"model": "openai:of-mallory", "votes": 3})
    done = coc(*RERUNS[rerun], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_limits_of_the_command_line_replace_recorded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("print('x' * 1_500_000)\nanswer = 1\n")
    record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--limit", "output=2e6")
    done = coc("replay", "foreign.jsonl", "--limit", "output=1e6", cwd=tmp_path)
    assert done.returncode == 1 and "different" in done.stdout
    assert coc("replay", "foreign.jsonl", "--limit", "output=3e6", cwd=tmp_path).returncode == 0
    done = coc("replay", "foreign.jsonl", "--limit", "output=2e6", "--file", "other.txt", cwd=tmp_path)
    assert done.returncode == 2 and "had no file 'other.txt'" in done.stderr


# --- the user's own traces ----------------------------------------------------------------------------------------


def run_own(tmp_path: Path, program: str, *options: str | Path) -> Path:
    path = tmp_path / "own.jsonl"
    coc("run", program, "--trace", path, *options, cwd=tmp_path)
    assert path.exists()
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An own trace with grants, which ended for lack of a value."""
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "p.py").write_text("text = open('secret.txt').read()\nanswer = [text, f(1), f(2)]\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 2}\n')
    return run_own(tmp_path, "p.py", "--allow-read", "secret.txt", "--limit", "run=600", "--values", "v.jsonl")


@pytest.mark.parametrize("command", ["resume", "replay", "why", "verify"])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_own_traces_need_no_approval_even_if_their_end_is_missing(
    command: str, cut: int, own: Path, tmp_path: Path
) -> None:
    lines = own.read_bytes().splitlines()
    last = lines[-cut][:-10] if cut and command == "resume" else b""  # the others want whole lines
    own.write_bytes(b"\n".join([*lines[: -cut or None], last]))
    done = coc(command, own, cwd=tmp_path)
    assert FOREIGN not in done.stderr and f"the program may read {tmp_path}/secret.txt" in done.stderr
    assert command == "why" or done.returncode in (0, 1), done.stderr  # the run cannot be followed to its end


def test_journal_of_a_killed_run_is_own(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "p.py").write_text("text = open('secret.txt').read()\nanswer = [text, f(1), f(2)]\n")
    (tmp_path / "s.jsonl").write_text(
        json.dumps({"when": "call: f(1)", "reply": '"one"'})
        + "\n"
        + json.dumps({"when": "call: f(2)", "reply": "", "seconds": 60})
    )
    grants = ["--allow-read", "secret.txt", "--model", "scripted:s.jsonl", "--sequential"]
    process = subprocess.Popen([*COC, "run", "p.py", "--trace", "t.jsonl", *grants], cwd=tmp_path)
    journal = tmp_path / "t.jsonl.journal"
    deadline = time.monotonic() + 60
    while not (journal.exists() and b'"answers":' in journal.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert Trace.read(journal, is_whole=False).seal_problem == ""
    (tmp_path / "s.jsonl").write_text(json.dumps({"when": "call: f(2)", "reply": '"two"'}) + "\n")
    done = coc("resume", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and FOREIGN not in done.stderr, done.stderr
    assert "['SECRET', 'one', 'two']" in done.stdout
    assert Trace.read(tmp_path / "t.jsonl").seal_problem == ""


CHANGES = {
    "program": (lambda lines: [lines[0], lines[1].replace(b"[text,", b"[None,"), *lines[2:]], "line 2 was changed"),
    "value": (lambda lines: [line.replace(b'"value":2', b'"value":9') for line in lines], "was changed"),
    "no seals": (lambda lines: [_without_seal(line) for line in lines], "it has no seal"),
    "unsealed program": (lambda lines: [lines[0], _without_seal(lines[1]), *lines[2:]], "line 2 was changed"),
    "missing line": (lambda lines: [*lines[:2], *lines[3:]], "line 3 was changed"),
    "order": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "line 3 was changed"),
    "added line": (lambda lines: [*lines, lines[-1]], "was changed, or is from another trace"),
    "header": (lambda lines: [lines[0].replace(b"secret.txt", b"other.pem"), *lines[1:]], "another key sealed it"),
    "repeated header member": (
        lambda lines: [lines[0].replace(b'"seal"', b'"settings":{"scratch":true},"seal"'), *lines[1:]],
        "another key sealed it",
    ),
}  # fmt: skip


def _without_seal(line: bytes) -> bytes:
    return line[: line.rindex(b',"seal":')] + b"}"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", ["resume", "replay"])
def test_a_changed_own_trace_is_foreign(change: str, command: str, own: Path, tmp_path: Path) -> None:
    """An attacker who got a sealed trace keeps its header with its grants, and repairs the chain."""
    make, why = CHANGES[change]
    before = lines_of(own)
    changed = make(before)
    assert changed != before
    write_chained(own, changed)
    done = coc(command, own, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert FOREIGN in done.stderr and why in done.stderr, done.stderr
    assert options_in(done.stderr)


def test_lines_of_two_own_traces_cannot_be_combined(own: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("answer = send(open('secret.txt').read())\n")
    head = lines_of(own)[0]
    same_grants = run_own(tmp_path, "other.py", "--allow-read", "secret.txt", "--limit", "run=600")
    assert lines_of(same_grants)[0] == head  # the header, and so its seal, is the same
    harmless = lines_of(run_own(tmp_path, "other.py"))
    for lines in ([head, *harmless[1:]], [head, *lines_of(own)[1:2], *harmless[1:]]):
        write_chained(own, lines)
        assert "line 2 was changed" in (problem := Trace.read(own).seal_problem) or "line 3" in problem
        assert coc("resume", own, cwd=tmp_path).returncode == 2


def test_seals_do_not_change_what_a_trace_says(own: Path) -> None:
    trace = Trace.read(own)
    assert trace == Trace.parse([_without_seal(line) for line in lines_of(own)])
    assert trace.seal_problem == "" != Trace.parse([_without_seal(line) for line in lines_of(own)]).seal_problem
    assert list(trace.lines()) == list(Trace.parse(line.encode() for line in trace.lines()).lines())
    again = own.with_name("again.jsonl")
    trace.write(again)
    assert again.read_bytes() == own.read_bytes()
    seals = [json.loads(line)["seal"] for line in own.read_bytes().splitlines()]
    assert len(set(seals)) == len(seals) and all(len(seal) == 32 for seal in seals)


# --- laundering ---------------------------------------------------------------------------------------------------


def test_a_replay_does_not_seal_what_was_not_approved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("answer = 1\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py")
    with_settings(path, asked={"model": "local:evil.gguf", "emulator": "openai:evil", "method_seconds": 0, "votes": 3})
    for more in ((), ("--edit", "p.py")):
        assert coc("replay", path, *more, "--trace", "new.jsonl", cwd=tmp_path).returncode == 0
        new = Trace.read(tmp_path / "new.jsonl")
        assert new.settings["asked"] == {"votes": 3}
        assert "evil" not in (tmp_path / "new.jsonl").read_text()
    with_settings(path, reads=["/etc/passwd"])
    assert coc("replay", path, "--trace", "refused.jsonl", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "refused.jsonl").exists()


def test_reading_and_writing_a_foreign_trace_does_not_seal_it(
    tmp_path: Path, thief: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace.read(thief)
    trace.write(tmp_path / "copy.jsonl")
    assert Trace.read(tmp_path / "copy.jsonl").seal_problem == "it has no seal"
    with pytest.raises(InputError, match="someone else"):
        replay(trace)


# --- the library --------------------------------------------------------------------------------------------------


def test_library_functions_refuse_foreign_grants() -> None:
    from chainofcode.audit import Grants, approve
    from chainofcode.audit.replay.resume import Resumed
    from chainofcode.emulator import Toolbox
    from chainofcode.errors import GrantError

    recorded = run("answer = 1", limits=Limits(run_seconds=600)).trace
    trace = Trace.parse([line.encode() for line in recorded.lines()])
    ended = run("answer = f(1)", Table([]), limits=Limits(run_seconds=600)).trace
    unfinished = Trace.parse([line.encode() for line in ended.lines()])
    for use in (replay, follow, verify):
        with pytest.raises(GrantError, match="--limit run=600"):
            use(trace)
        assert use(trace, grant_recorded=True) is not None
        assert use(approve(trace, Grants(limits={"run_seconds": 700}))) is not None
    with pytest.raises(GrantError, match="--limit run=600"):
        Resumed(unfinished)
    assert Resumed(unfinished, grant_recorded=True).options(Toolbox.of(())).limits.run_seconds == 600
    with pytest.raises(GrantError):
        approve(trace, Grants(limits={"cpu_seconds": 100}))


def test_the_debugger_shows_a_foreign_trace_and_refuses_to_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("textual", reason="the extra `debug` is not installed")
    from test_debug import drive, screen, type_in

    (tmp_path / "p.py").write_text("answer = f(1)\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 2}\n')
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--values", "v.jsonl")
    with_settings(path, reads=[f"/etc/file-{n}" for n in range(3)])

    async def script(app: Any, pilot: Any) -> None:
        await pilot.press("c", "e")
        await type_in(app, pilot, "3")
        assert all(f"--allow-read /etc/file-{n}" in screen(app) for n in range(3))
        await pilot.press("escape")
        assert "answer: 2" in screen(app)

    drive(Trace.read(path), script, path=path)


# --- the refusal --------------------------------------------------------------------------------------------------


def test_a_finished_run_needs_no_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("answer = 1\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py", "--limit", "run=600")
    done = coc("resume", path, cwd=tmp_path)
    assert "nothing is left to do" in done.stderr and FOREIGN not in done.stderr, done.stderr


def test_a_refusal_is_complete_and_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("answer = 1\n")
    path = record_as_mallory(monkeypatch, tmp_path, "run", "p.py")
    hostile = ["-x", "a b'c", "x\ncoc: fine", "\x1b[2K\x1b[1A", "\u202egnp.exe", "é\\", "/" + "d" * 4000]
    with_settings(path, reads=[*hostile, *(f"/f{n}" for n in range(300))])
    done = coc("why", path, cwd=tmp_path)
    lines = options_in(done.stderr)
    assert len(lines) == 307 == len(done.stderr.splitlines()) - 2
    assert done.stderr.replace("\n", "").isprintable()
    assert "…" not in done.stderr
    assert lines[0] == f"--allow-read {tmp_path}/-x"  # the file that a relative path means here
    typed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {' '.join(lines[:7])}"], capture_output=True, check=True
    ).stdout.decode("utf-8")
    words = typed.split("\0")[:-1]
    assert [word for word in words if word != "--allow-read"] == [str(tmp_path / path) for path in hostile]
    done = coc("why", path, *words, *(word for line in lines[7:] for word in shlex.split(line)), cwd=tmp_path)
    assert FOREIGN not in done.stderr, done.stderr


@pytest.mark.parametrize("settings", [{"reads": ["/x" * 5000]}, {"reads": [f"/{n}" for n in range(2000)]}])
def test_a_refusal_is_bounded(settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text("answer = 1\n")
    path = with_settings(record_as_mallory(monkeypatch, tmp_path, "run", "p.py"), **settings)
    done = coc("why", path, cwd=tmp_path)
    assert done.returncode == 2 and len(done.stderr) < 2000


# --- the key ------------------------------------------------------------------------------------------------------


def test_key_is_private(own: Path, tmp_path: Path) -> None:
    found = key_of(tmp_path).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_size) == (0o600, 32)
    assert stat.S_IMODE(key_of(tmp_path).parent.stat().st_mode) == 0o700
    assert os.listdir(key_of(tmp_path).parent) == ["trace.key"]
    assert key_of(tmp_path).read_bytes() not in own.read_bytes()
    assert key_of(tmp_path).read_bytes().hex().encode() not in own.read_bytes()


def _copy(key: Path) -> Path:
    return Path(shutil.copy(key, key.with_name("copy")))


SPOILT = {
    "mode": (lambda key: key.chmod(0o644), "is open to other users (mode 644)"),
    "directory": (lambda key: key.parent.chmod(0o777), "is open to other users (mode 777)"),
    "link": (lambda key: (_copy(key), key.unlink(), key.symlink_to("copy")), "cannot read"),
    "size": (lambda key: key.write_bytes(b"short"), "is not a key"),
    "named pipe": (lambda key: (key.unlink(), os.mkfifo(key, 0o600)), "is not a key"),
    "owner": (lambda key: os.chown(key, 12345, 12345), "belongs to another user"),
    "missing": (lambda key: key.unlink(), "this user has no key yet"),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
def test_a_key_that_others_could_have_read_seals_nothing(how: str, own: Path, tmp_path: Path) -> None:
    if how == "owner" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    spoil, why = SPOILT[how]
    spoil(key_of(tmp_path))
    done = coc("replay", own, cwd=tmp_path)
    assert done.returncode == 2 and FOREIGN in done.stderr and why in done.stderr, done.stderr
    new = run_own(tmp_path, "p.py", "--values", "v.jsonl")
    assert (b'"seal":' in new.read_bytes()) == (how == "missing")  # then there is a new key


def test_without_a_place_for_the_key_traces_have_no_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (tmp_path / "p.py").write_text("answer = 1\n")
    done = coc("run", "p.py", "--limit", "run=600", "--trace", "own.jsonl", cwd=tmp_path)
    assert "the trace gets no seal, and will count as someone else's: cannot store a key in" in done.stderr
    path = tmp_path / "own.jsonl"
    assert Trace.read(path).seal_problem == "it has no seal"
    assert_refused("replay", path, names=["--limit run=600.0"], cwd=tmp_path)
    assert coc("replay", path, "--grant-recorded", cwd=tmp_path).returncode == 0


def test_a_key_is_not_made_in_the_home_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `sudo`, which may keep HOME: a key of root there would lock out its owner."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    (tmp_path / "p.py").write_text("answer = 1\n")
    assert Trace.read(run_own(tmp_path, "p.py")).seal_problem == "it has no seal"
    assert os.listdir(home) == []


def _make_at_once(start: Any, keys: Any) -> None:
    from chainofcode.seals import make_key

    start.wait()
    keys.put(make_key())


def test_processes_that_create_the_key_at_once_get_the_same(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        start, keys = context.Barrier(8), context.SimpleQueue()
        processes = [context.Process(target=_make_at_once, args=(start, keys), daemon=True) for _ in range(8)]
        for process in processes:
            process.start()
        made = {keys.get() for _ in processes}
        for process in processes:
            process.join()
        assert made == {key_of(tmp_path).read_bytes()}
        assert os.listdir(key_of(tmp_path).parent) == ["trace.key"]
        shutil.rmtree(tmp_path / "state")


def test_sealing_takes_little_of_the_time_of_a_run() -> None:
    """Compared with the CPU time of the host for the run whose lines are sealed."""
    started = time.process_time()
    trace = run("answer = sum(f(n) for n in range(300))", lambda pause: 1).trace
    took = time.process_time() - started

    def write(key: bytes | None) -> float:
        began = time.process_time()
        assert len(list(trace.lines(key))) > 300
        return time.process_time() - began

    assert min(write(bytes(32)) for _ in range(5)) < took / 10


# --- servers ------------------------------------------------------------------------------------------------------


def test_a_server_runs_its_own_traces_again_and_their_copies_have_no_seal(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra `server` is not installed")
    from serving import served

    with served(tmp_path, "--limit", "run=120") as server:
        id = server.begin(None, program="answer = f(1) + 1", values=[{"call": "f(1)", "value": 2}])
        assert server.over(id)["answer"] == "3"
        for audit in ("why", "verify"):
            reply = server.client.get(f"/api/runs/{id}/{audit}")
            assert reply.status_code == 200, reply.text
        again = server.client.post(f"/api/runs/{id}/replay", json={}).json()["id"]
        assert server.over(again)["answer"] == "3"
        (tmp_path / "copy.jsonl").write_bytes(server.client.get(f"/api/runs/{id}/trace").content)
    assert_refused("replay", tmp_path / "copy.jsonl", names=["--limit run=120.0"], cwd=tmp_path)


def test_a_server_resumes_its_own_runs_with_their_limits(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra `server` is not installed")
    from serving import served

    program = {"program": "answer = f(1) + g(2)", "values": [{"call": "f(1)", "value": 2}], "ask_me": "g"}
    with served(tmp_path, "--limit", "run=120") as server:
        id = server.begin(None, **program)
        server.until(id, "waiting")
        (question,) = server.client.get("/api/questions").json()["questions"]
        assert server.stop() == 0
    with served(tmp_path, "--limit", "run=120") as server:
        reply = server.client.post(f"/api/questions/{question['id']}", json={"value": 3})
        assert reply.status_code in (200, 202), reply.text
        assert server.over(id)["answer"] == "5"


def test_a_sealed_trace_that_arrives_through_mcp_grants_nothing(own: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from test_mcp import session, text_of

    (tmp_path / "script.jsonl").write_text('"no reply"\n')

    text = own.read_text()

    async def work(client: Any) -> None:
        result = await client.call_tool("verify", {"trace": text})
        assert result.is_error and "granted reads" in text_of(result)

    session(tmp_path / "script.jsonl", work)


# --- paths --------------------------------------------------------------------------------------------------------

LISTING = "import os\nanswer = sorted(os.listdir('.')), open('data/notes.txt').read()"


def test_relative_grants_mean_the_recorded_files_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another directory, a relative path would grant other files."""
    for place, text in (("here", "recorded"), ("there", "secret")):
        (tmp_path / place / "data").mkdir(parents=True)
        (tmp_path / place / "data" / "notes.txt").write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    result = run(LISTING, reads=["data/notes.txt"])
    path = tmp_path / "run.jsonl"
    result.trace.write(path)
    monkeypatch.chdir(tmp_path / "there")
    again = replay(Trace.read(path))
    assert again.is_same, again.difference
    assert "secret" not in repr(again.result.answer)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    with pytest.raises(GrantError) as refused:
        replay(Trace.read(path))
    assert f"--allow-read {tmp_path}/here/data/notes.txt" in str(refused.value)
