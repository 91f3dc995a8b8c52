"""`coc chat`: answers questions one after another; each may refer to those before it."""

from __future__ import annotations

import argparse
import asyncio
import io
import shlex
import sys
from pathlib import Path
from typing import Any

from ...engine import Result
from ...errors import ChainOfCodeError, InputError
from ...methods.presentation import in_words
from ...methods.prompting import question_after
from ...render import cut
from ...trace import Event, Trace, check_place
from ..asking import Asker, add_asking, opened_asker, print_answer, read_question
from ..terminal import ANSWERED, NO_ANSWER, note, note_lines, write_lines, write_trace
from ..tool_options import chosen_tools

_MAX_TURNS, _MAX_TURN_CHARS = 20, 2_000  # of the conversation, sent with each question
_HELP = """\
/new          forget the conversation
/trace FILE   write the trace of the last answer
/quit         leave (so does Ctrl-D)
Ctrl-C stops an answer."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "chat",
        help="answer questions one after another; each may refer to those before it",
        description="Read a question from each line of standard input and answer it as coc ask does. The model is "
        "loaded once, and sees the last 20 questions and answers (2,000 characters of each). /help lists the commands. "
        "Exit code: 0 all answered, 1 a question was not, 2 could not run.",
        examples=(
            "coc chat --model ollama:llama3.2",
            "coc chat --file orders.csv",
        ),
    )
    add_asking(parser)
    parser.set_defaults(command=_command, question=None, trace=None)


def _command(given: argparse.Namespace) -> int:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    with (
        chosen_tools(given) as tools,
        asyncio.Runner() as runner,
        opened_asker(given, tools, runner.run) as asker,
    ):
        return _Session(given, asker, runner).answer_all()


class _Session:
    def __init__(self, given: argparse.Namespace, asker: Asker, runner: asyncio.Runner) -> None:
        self._given, self._asker, self._runner = given, asker, runner
        self._turns: list[tuple[str, str]] = []
        self._last: Trace | None = None
        self._is_interactive = sys.stdin.isatty() and sys.stdout.isatty()

    def answer_all(self) -> int:
        if self._is_interactive:
            import readline  # noqa: F401 - gives `input` history and editing

            note("ask a question; /help lists the commands")
        code = ANSWERED
        while (line := self._next_line()) is not None:
            try:
                if line.startswith("/"):
                    if not self._run_command(line):
                        break
                elif line and not self._answer(read_question(line)):
                    code = NO_ANSWER
            except ChainOfCodeError as error:
                note_lines(str(error))
                code = NO_ANSWER
            except KeyboardInterrupt:
                if not self._is_interactive:
                    raise
                note("stopped; ask again, or leave with Ctrl-D")
        return code

    def _next_line(self) -> str | None:
        with self._asker.live.paused():
            try:
                return input("> " if self._is_interactive else "").strip()
            except EOFError:
                if self._is_interactive:
                    write_lines([""], sys.stderr)  # the shell's prompt begins on a line of its own
                return None

    def _run_command(self, line: str) -> bool:
        """Run a command, a line with a slash. Returns whether the session continues."""
        try:
            command, *arguments = shlex.split(line)
        except ValueError:
            raise InputError(f"cannot read {line[:100]!r}: a quotation mark is not closed") from None
        match command, arguments:
            case "/quit" | "/exit", []:
                return False
            case "/new", []:
                self._turns.clear()
            case "/trace", [path]:
                self._write(Path(path))
            case "/trace", _:
                raise InputError("/trace needs the name of a file, as in /trace run.jsonl")
            case "/help", []:
                note_lines(_HELP)
            case _:
                raise InputError(f"unknown command {line[:100]!r}; /help lists the commands")
        return True

    def _write(self, path: Path) -> None:
        if self._last is None:
            raise InputError("there is no answer yet, so there is no trace to write")
        check_place(path)
        write_trace(self._last, path)
        note(f"written: {path}")

    def _answer(self, question: str) -> bool:
        events: list[Event] = []
        with self._asker.live as live:
            self._runner.run(self._asker.answer(question_after(self._turns, question), events))
        result = Result.of(events)
        self._last = result.trace
        print_answer(question, result, self._given, live)
        sys.stdout.flush()
        if result.is_answered:
            messages = [("User", question), ("Assistant", in_words(result))]
            self._turns += [(speaker, cut(text, _MAX_TURN_CHARS)) for speaker, text in messages]
            del self._turns[: -2 * _MAX_TURNS]
        return result.is_answered
