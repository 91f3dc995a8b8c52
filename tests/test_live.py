"""The live display: what it draws while a program runs, and what it leaves in the terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import ROOT
from test_cli import COC, coc

from chainofcode import Program, Step
from chainofcode.cli.live import LiveDisplay
from chainofcode.cli.screen import Screen
from chainofcode.render import for_terminal
from chainofcode.trace import Answer

ASK = ("ask", "Which are fruit?")
FRUIT = ("run", "examples/fruit.py", "--values", "examples/fruit.jsonl")
LINES = ["items = ['fig', 'saw', 'kiwi', 'axe', 'pear']", "fruits = [item for item in items if is_fruit(item)]"]
ERASE = re.compile(r"\r\x1b\[(\d+)A\x1b\[J")
CODES = re.compile(r"\x1b\[[0-9;]*[AJm]|\r")


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A model whose first program fails; it repairs it."""
    broken, repaired = (
        "```python\n" + "\n".join([*LINES, end]) + "\n```" for end in ("answer = fruts", "answer = fruits")
    )
    replies = [{"when": "NameError", "reply": repaired}, {"when": "Question: Which", "reply": broken}]
    for item in ("fig", "saw", "kiwi", "axe", "pear"):
        value = json.dumps({"value": item not in ("saw", "axe")})
        replies.append({"when": f"call: is_fruit('{item}')", "reply": value})
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"scripted:{path}"


class Terminal:
    """A pseudo-terminal of a given size, and a command whose standard error, and unless piped output, go there."""

    def __init__(self, arguments: Sequence[str], columns: int = 80, rows: int = 24, *, is_piped: bool = False) -> None:
        self._host, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self._process = subprocess.Popen(
            [*COC, *arguments],
            stdin=end,
            stdout=subprocess.PIPE if is_piped else end,
            stderr=end,
            env={**environment, "TERM": "xterm"},
            cwd=ROOT,
        )
        os.close(end)
        self.drawn = ""

    def until(self, wanted: str | None = None) -> None:
        """Read until a text appears, or to the end."""
        deadline, data = time.monotonic() + 60, b""
        while wanted is None or wanted not in self.drawn:
            assert time.monotonic() < deadline, self.drawn
            if select.select([self._host], [], [], 0.1)[0]:
                try:
                    data += os.read(self._host, 65536)
                except OSError:  # the command has ended
                    break
                self.drawn = data.decode(errors="replace")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Return the exit code, standard output if it is piped, and what is left in the terminal."""
        before = self.drawn
        self.until()
        self.drawn = before + self.drawn.removeprefix(before)
        out = self._process.stdout.read().decode() if self._process.stdout is not None else ""
        os.close(self._host)
        return self._process.wait(), out, left(self.drawn)


def left(drawn: str) -> str:
    """Return what is left in a terminal once the pictures are erased."""
    return CODES.sub("", ERASE.split(drawn)[-1])


def frames(drawn: str) -> list[list[str]]:
    """Return the lines of each picture that was erased. Checks that it erases what it drew, no more and no less."""
    *pictures, _ = ERASE.split(drawn)
    found = []
    for text, number in zip(pictures[::2], pictures[1::2], strict=True):
        lines = CODES.sub("", text).splitlines()[-int(number) :]
        assert len(lines) == int(number)
        found.append(lines)
    return found


def shown_width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@pytest.mark.parametrize("more", [(), ("--all",)])
def test_trace_replaces_the_picture(script: str, more: tuple[str, ...]) -> None:
    """The trace that a pipe gets, with all calls of a line, and with all attempts."""
    command = (*ASK, "--model", script, *more)
    terminal = Terminal(command, columns=100)
    code, _, text = terminal.end()
    assert code == 0, terminal.drawn
    piped = coc(*command)
    answer, _, trace = text.partition("\n")
    steps = [line for line in trace.splitlines() if line]
    wanted = [line for line in piped.stderr.splitlines() if not re.search(r"^asking|replied in", line)]
    assert answer + "\n" == piped.stdout
    assert [re.sub(r"[\d.]+ s$", "", line) for line in steps] == [re.sub(r"[\d.]+ s$", "", line) for line in wanted]
    assert "NameError" not in text and "↓  error: name 'fruts' is not defined" in text
    assert text.count("is_fruit('axe') → False") == (2 if more else 0) and text.count("is_fruit('fig') → True") == 2


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (80, 24), (60, 15), (40, 8), (20, 3)])
def test_piped_answer_does_not_change_the_size_of_the_picture(script: str, columns: int, rows: int) -> None:
    terminal = Terminal((*ASK, "--model", script), columns, rows, is_piped=True)
    code, out, text = terminal.end()
    assert (code, out) == (0, "fig, kiwi, pear\n"), terminal.drawn
    assert text.startswith("\n   1  py") and "LM requests" in text
    pictures = frames(terminal.drawn)
    assert pictures and max(map(len, pictures)) < rows
    assert max(shown_width(line) for picture in pictures for line in picture) < columns


def test_run_draws_the_program_and_leaves_its_trace(tmp_path: Path) -> None:
    terminal = Terminal((*FRUIT, "--value-delay", "0.4"), columns=100)
    code, _, text = terminal.end()
    assert code == 0
    assert any(
        line.startswith("   4  ") and "if is_fruit(item):" in line for lines in frames(terminal.drawn) for line in lines
    )
    piped = coc(*FRUIT).stdout
    assert text.splitlines()[:6] == piped.splitlines()[:6]
    assert len(text.splitlines()) == len(piped.splitlines())


def test_interrupted_run_leaves_its_steps(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("x = f(1)\nanswer = f(x)\n")
    (tmp_path / "v.jsonl").write_text('{"call": "f(1)", "value": 5}\n{"call": "f(5)", "value": 6}')
    values = ("--values", str(tmp_path / "v.jsonl"), "--value-delay", "2")
    terminal = Terminal(("run", str(tmp_path / "p.py"), *values))
    terminal.until("f(1) → 5")
    terminal.interrupt()
    code, _, text = terminal.end()
    steps = [line for line in text.splitlines() if line]
    assert code == 130 and "Traceback" not in text
    assert steps[0].startswith("   1  lm  x = f(1)") and steps[-1] == "coc: interrupted"


def test_run_that_a_model_ended_leaves_its_steps(tmp_path: Path) -> None:
    replies = ["```python\nx = f(1)\nanswer = g(x)\n```", '{"value": 5}']
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, replies)))
    code, _, text = Terminal(("ask", "What?", "--model", f"scripted:{tmp_path}/s.jsonl")).end()
    steps = [line for line in text.splitlines() if line]
    assert code == 2 and steps[0].startswith("   1  lm  x = f(1)")
    assert "no reply left" in steps[-1]


@pytest.mark.parametrize("more", [("--quiet",), ("--json", "--quiet")])
def test_quiet_draws_nothing(script: str, more: tuple[str, ...]) -> None:
    terminal = Terminal((*ASK, "--model", script, *more))
    code, _, text = terminal.end()
    assert code == 0 and not frames(terminal.drawn)
    assert text.count("\n") == 1


class Drawn(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveDisplay]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with LiveDisplay(Drawn()) as display:
        yield display


@pytest.mark.parametrize("columns", [8, 12, 20, 30, 49, 50, 70, 100, 250])
def test_no_line_is_wider_than_the_terminal(columns: int, display: LiveDisplay) -> None:
    """The display erases its output line by line, so half of a line that wraps would remain."""
    display.progress(0, 0, "loading 漢字" * 9)
    lines = display._picture(columns, 24)
    display.show(Program.parse("名前 = '漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字'\nanswer = f(名前)\n"))
    display.show(Step(1, "lm", 1, 2, 1, call="f(名前)", value="漢字" * 40))
    lines += display._picture(columns, 24)
    display.show(Answer("error", then="repair"))
    lines += display._picture(columns, 24)
    lines = [for_terminal(line, colour=False) for line in lines]
    if columns >= 20:
        assert [line[:4] for line in lines if line[0] == " "] == ["   1", "   2", "   ↓"]
    assert max(map(shown_width, lines)) < columns


@pytest.mark.parametrize("line", [1, 50, 100])
def test_long_program_is_drawn_around_the_line_that_ran_last(line: int, display: LiveDisplay) -> None:
    display.show(Program.parse("\n".join(f"x{number} = {number}" for number in range(1, 101))))
    display.show(Step(1, "python", line - 1, line, 1, delta={f"x{line}": str(line)}))
    lines = display._picture(80, 20)
    assert 15 <= len(lines) <= 20
    assert [row for row in lines if f"x{line} = {line} " in row]


def test_screen_is_never_taller_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Erasing more lines than the terminal has would erase output of earlier commands."""
    monkeypatch.setenv("LINES", "10")
    drawn = Drawn()
    screen = Screen(drawn, lambda columns, rows: [str(number) for number in range(50)])
    screen.draw()
    with screen.paused():
        screen.draw()
    assert drawn.getvalue() == "".join(f"{number}\n" for number in range(41, 50)) + "\r\x1b[9A\x1b[J"
