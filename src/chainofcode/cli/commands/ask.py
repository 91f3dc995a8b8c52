"""`coc ask`: prints the answer on standard output, and how it came about on standard error."""

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
from ...methods import Ways, ask, files_of
from ...methods.presentation import in_words
from ...trace import Event, check_place
from ..artifact_output import keep_artifacts
from ..hints import hints
from ..live import LiveDisplay
from ..method_options import add_answer_type, add_method, read_answer_type, read_method
from ..model_options import add_model, chosen_model
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import ANSWERED, NO_ANSWER, note, print_json, print_text, result_data, saving_partial_trace
from ..tool_options import add_tools, chosen_tools, toolbox_of

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
    add_method(parser)
    add_answer_type(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the answer")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write the trace as JSON lines")
    parser.add_argument("--quiet", action="store_true", help="the answer alone: nothing of how it came about")
    parser.add_argument("--all", action="store_true", help="show every step, not the first few of each statement")
    add_tools(parser)
    add_options(parser, has_question=False)
    parser.set_defaults(command=_command)


def _command(given: argparse.Namespace) -> int:
    with chosen_tools(given) as tools:
        return asyncio.run(_ask(given, tools))


async def _ask(given: argparse.Namespace, tools: Sequence[Tool]) -> int:
    question = _question(given)
    options = read_options(given)
    if given.trace:
        check_place(given.trace)
    started = time.monotonic()
    with saving_partial_trace(given.trace) as events:
        await _answer(question, given, tools, options, events)
    result = Result.of(events)
    try:  # the answer first, whatever happens to the trace
        _print(question, result, given, time.monotonic() - started)
    finally:
        if given.trace:
            result.trace.write(given.trace)
    return ANSWERED if result.is_answered else NO_ANSWER


def _print(question: str, result: Result, given: argparse.Namespace, seconds: float) -> None:
    if given.json:
        program = result.trace.program
        source = program.source if program is not None else None
        data = {"question": question, **result_data(result), "program": source}
        print_json(data | {"seconds": round(seconds, 3)})  # including the model
    elif result.is_answered:
        print_text(in_words(result))
    keep_artifacts(result, given, is_quiet=given.quiet)
    for hint in hints(result, given):
        note(hint)


async def _answer(
    question: str, given: argparse.Namespace, tools: Sequence[Tool], options: RunOptions, events: list[Event]
) -> None:
    ways = Ways(**read_method(given), answer_type=read_answer_type(given))
    live = LiveDisplay(sys.stderr, is_quiet=given.quiet, all_steps=given.all)
    options = dataclasses.replace(options, tools=toolbox_of(tools, given, live.paused))
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
    # Bytes that are not UTF-8 are escaped: models take no lone surrogates.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").strip()
    if not text:
        raise InputError('the question is empty; ask it as in: coc ask "How many days are there in March?"')
    if len(text) > _MAX_QUESTION_CHARS:
        raise InputError(f"the question has {len(text):,} characters; {_MAX_QUESTION_CHARS:,} are allowed")
    return text
