"""`coc chat`: questions one after another, in a pipe and in a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli import COC, coc

from chainofcode import Trace
from chainofcode.methods.prompting import question_after

FIRST, SECOND = "How many of these are fruit: fig, saw?", "And ten times that?"
BEFORE = f"What was said before:\nUser: {FIRST}\nAssistant: 1\n\nThe question now: {SECOND}"


def replies(path: Path, *more: dict[str, str]) -> str:
    lines = [
        {"when": f"Question: {BEFORE}", "reply": "```python\nn = 1\nanswer = n * 10\n```"},
        {"when": f"Question: {FIRST}", "reply": "```python\nanswer = sum(map(is_fruit, ['fig', 'saw']))\n```"},
        {"when": "call: is_fruit('fig')", "reply": '{"value": true}'},
        {"when": "call: is_fruit('saw')", "reply": '{"value": false}'},
        *more,
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{path}"


def chat(model: str, *lines: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return coc("chat", "--model", model, "--no-fallback", *more, stdin="\n".join(lines) + "\n")


def test_question_may_refer_to_the_previous_one(tmp_path: Path) -> None:
    done = chat(replies(tmp_path / "r.jsonl"), FIRST, "", SECOND)
    assert (done.returncode, done.stdout) == (0, "1\n10\n"), done.stderr
    assert "is_fruit('fig') → True" in done.stderr
    assert re.findall(r"\d+ LM requests?", done.stderr) == ["3 LM requests", "1 LM request"]  # for each question


def test_new_forgets_the_conversation(tmp_path: Path) -> None:
    alone = {"when": f"Question: {SECOND}", "reply": "```python\nanswer = 'of what?'\n```"}
    done = chat(replies(tmp_path / "r.jsonl", alone), FIRST, "/new", SECOND, more=("--quiet",))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\nof what?\n", "")


def test_json_and_traces(tmp_path: Path) -> None:
    traces = [tmp_path / "first trace.jsonl", tmp_path / "second.jsonl"]
    lines = [FIRST, f"/trace '{traces[0]}'", SECOND, f"/trace {traces[1]}", "/quit", "not asked"]
    done = chat(replies(tmp_path / "r.jsonl"), *lines, more=("--json", "--quiet"))
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["question"], record["answer"]) for record in records] == [(FIRST, "1"), (SECOND, "10")]
    assert [Trace.read(path).question for path in traces] == [FIRST, BEFORE]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/trace t.jsonl", "there is no answer yet, so there is no trace to write"),
        ("/trace", "/trace needs the name of a file, as in /trace run.jsonl"),
        ("/nothing", "unknown command '/nothing'"),
        ("/trace 'x", "a quotation mark is not closed"),
        ("/help", "/new          forget the conversation"),
        ("x" * 100_001, "the question has 100,001 characters; the limit is 100,000"),
        ("What?", "no reply left for request 1"),
    ],
)
def test_a_mistake_does_not_end_the_session(tmp_path: Path, line: str, message: str) -> None:
    done = chat(replies(tmp_path / "r.jsonl"), line, FIRST, more=("--quiet",))
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == "1\n"
    assert done.returncode == (0 if line == "/help" else 1)


def test_long_turns_are_cut_and_old_ones_dropped(tmp_path: Path) -> None:
    """In a long session, the questions do not grow without bound."""
    script = tmp_path / "r.jsonl"
    script.write_text(json.dumps({"when": "Question:", "reply": "answer = 'y' * 5000"}) + "\n")
    count = 25
    lines = [line for number in range(count) for line in (f"{number} " + "x" * 5000, "/trace last.jsonl")]
    done = coc("chat", "--quiet", "--model", f"scripted:{script}", stdin="\n".join(lines), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    question = Trace.read(tmp_path / "last.jsonl").question or ""
    assert question.count("User: ") == 20 and "User: 3 " not in question and "User: 4 " in question
    assert len(question) < 20 * 2 * 2_100 + 5_200


class Terminal:
    """`coc chat` in a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._process, self._host = pty.fork()
        if self._process == 0:
            os.execvpe(sys.executable, [*COC, "chat", *arguments], {**os.environ, "TERM": "xterm", "COLUMNS": "100"})
        self.text = ""

    def until(self, wanted: str, seconds: float = 30) -> None:
        """Read until a text appears, and drop the output up to its end."""
        deadline = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self._host], [], [], 0.1)[0]:
                self.text += os.read(self._host, 4096).decode(errors="replace")
        self.text = self.text.partition(wanted)[2]

    def type(self, text: str) -> None:
        os.write(self._host, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])


def test_in_a_terminal(tmp_path: Path) -> None:
    """Ctrl-C stops an answer and keeps the session; Ctrl-D leaves."""
    endless = {"when": "Question: For ever?", "reply": "```python\nwhile True: pass\n```"}
    terminal = Terminal("--model", replies(tmp_path / "r.jsonl", endless))
    terminal.until("> ")
    terminal.type("For ever?\n")
    terminal.until("while True")
    terminal.type("\x03")
    terminal.until("stopped; ask again, or leave with Ctrl-D")
    terminal.until("> ")
    terminal.type(FIRST + "\n")
    terminal.until("1\r\n\r\n")
    terminal.until("is_fruit('fig') → True")  # the trace follows the answer
    terminal.until("> ")
    terminal.type("\x04")
    assert terminal.code() == 0


def test_interrupt_ends_a_session_in_a_pipe(tmp_path: Path) -> None:
    endless = {"when": "Question: For ever?", "reply": "```python\nwhile True: pass\n```"}
    command = [*COC, "chat", "--model", replies(tmp_path / "r.jsonl", endless)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdin is not None and started.stderr is not None
    started.stdin.write("For ever?\n")
    started.stdin.flush()
    while "replied in" not in started.stderr.readline():
        pass
    started.send_signal(signal.SIGINT)
    assert started.wait(30) == 130
    assert "interrupted" in started.stderr.read()


def test_first_question_is_unchanged() -> None:
    assert question_after([], "q") == "q"
