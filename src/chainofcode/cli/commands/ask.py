"""`coc ask`: a question in, the answer first on standard output; how it came about, live, on standard error."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...emulator import Tool
from ...engine import Result, RunOptions
from ...errors import InputError
from ...methods import METHODS, Ways, ask, compose, files_of
from ...methods.presentation import in_words
from ...render import plain
from ...trace import Event, check_place
from ..answer_options import add_answer, chosen_answer
from ..artifact_output import keep
from ..hints import hints
from ..live import Live
from ..model_options import add_model, chosen_model
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import ANSWERED, NO_ANSWER, keeping, read_text, record, say, say_json
from ..tool_options import add_tools, approved, chosen_tools

_MAX_QUESTION_CHARS = 100_000


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "ask",
        help="answer a question: a model writes a program, Python runs what it can, the model the rest",
        description="The answer goes to standard output, the program and who ran each line to standard error. "
        "Exit code: 0 answered, 1 no answer, 2 could not run.",
    )
    parser.add_argument("question", metavar="QUESTION", help="the question (- for standard input)")
    add_model(parser)
    add_ways(parser)
    add_answer(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the answer")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write the trace as JSON lines")
    parser.add_argument("--quiet", action="store_true", help="the answer alone: nothing of how it came about")
    parser.add_argument("--all", action="store_true", help="show every step, not the first few of each statement")
    add_tools(parser)
    add_options(parser, has_question=False)
    parser.set_defaults(command=_command)


def add_ways(parser: argparse.ArgumentParser, *, has_shots: bool = True) -> None:
    parser.add_argument("--method", metavar="NAME", default="coc", help=f"{', '.join(METHODS)} (coc methods explains)")
    if has_shots:
        parser.add_argument(
            "--shots", metavar="N", type=int, help="how many examples the model sees before it writes (0: none)"
        )
    parser.add_argument(
        "--examples", metavar="FILE", type=Path, help="examples of your own: `Question: …` and what to reply"
    )
    parser.add_argument(
        "--repairs", metavar="N", type=int, default=2, help="how often a program that fails goes back to the model (2)"
    )
    parser.add_argument(
        "--no-fallback", action="store_true", help="end where the method does, instead of trying a plainer one"
    )
    parser.add_argument("--votes", metavar="K", type=int, default=1, help="answer K times; what most say counts")
    parser.add_argument("--value-votes", metavar="K", type=int, default=1, help="the same for each emulated value")
    parser.add_argument(
        "--critique", action="store_true", help="have the model read program and trace before the answer counts"
    )


def chosen_ways(given: argparse.Namespace) -> Ways:
    for name, least in (("shots", 0), ("repairs", 0), ("votes", 1), ("value_votes", 1)):
        number = getattr(given, name)
        if number is not None and number < least:
            raise InputError(f"--{name.replace('_', '-')} takes {least} or more, not {number}")
    method = compose(
        given.method,
        repairs=given.repairs,
        critique=given.critique,
        fallback=not given.no_fallback,
        votes=given.votes,
    )
    examples = read_text(given.examples) if given.examples else None
    return Ways(method=method, shots=given.shots, examples=examples, value_votes=given.value_votes)


def _command(given: argparse.Namespace) -> int:
    with chosen_tools(given) as tools:
        return asyncio.run(_ask(given, tools))


async def _ask(given: argparse.Namespace, tools: Sequence[Tool]) -> int:
    question = _question(given)
    options = read_options(given)
    if given.trace:
        check_place(given.trace)
    started = time.monotonic()
    with keeping(given.trace) as events:
        await _answer(question, given, tools, options, events)
    result = Result.of(events)
    try:  # the answer first: it was paid for
        _print(question, result, given, time.monotonic() - started)
    finally:
        if given.trace:
            result.trace.write(given.trace)
    return ANSWERED if result.reason == "answered" else NO_ANSWER


def _print(question: str, result: Result, given: argparse.Namespace, seconds: float) -> None:
    if given.json:
        program = result.trace.program
        told = {"question": question, **record(result), "program": program.source if program is not None else None}
        say_json(told | {"seconds": round(seconds, 3)})  # with what the model took
    elif result.reason == "answered":
        say(in_words(result))
    keep(result, given, is_quiet=given.quiet)
    for hint in hints(result, given):
        print(f"coc: {plain(hint)}", file=sys.stderr)


async def _answer(
    question: str, given: argparse.Namespace, tools: Sequence[Tool], options: RunOptions, events: list[Event]
) -> None:
    ways = Ways(**chosen_ways(given), answer_type=chosen_answer(given))
    live = Live(sys.stderr, is_quiet=given.quiet, all_steps=given.all)
    options = dataclasses.replace(options, tools=approved(tools, given, live.paused))
    with live, chosen_sandbox(given, spares=0) as sandbox:
        ways["files"] = await files_of(given.file, options, sandbox)  # before a model is loaded
        with chosen_model(given, live.progress) as lm:
            async for event in ask(question, live.watch(lm), sandbox=sandbox, options=options, **ways):
                events.append(event)
                live.show(event)


def _question(given: argparse.Namespace) -> str:
    if given.question == "-" and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    text: str = sys.stdin.read() if given.question == "-" else given.question
    # Bytes that are not UTF-8 are written out: no model takes half a character.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").strip()
    if not text:
        raise InputError('the question is empty; ask it as in: coc ask "How many days are there in March?"')
    if len(text) > _MAX_QUESTION_CHARS:
        raise InputError(f"the question has {len(text):,} characters; {_MAX_QUESTION_CHARS:,} are allowed")
    return text
