"""`coc ask`: prints the answer on standard output, the program and its steps on standard error."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from pathlib import Path
from typing import Any

from ...engine import Result
from ...trace import check_place
from ..asking import add_asking, opened_asker, print_answer, read_question
from ..terminal import ANSWERED, NO_ANSWER, saving_partial_trace, write_trace
from ..tool_options import chosen_tools


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "ask",
        help="answer a question: a model writes a program, Python runs what it can, the model runs the rest",
        description="Print the answer on standard output, and the program with its steps on standard error. "
        "Exit code: 0 answered, 1 no answer, 2 could not run.",
        examples=(
            'coc ask "How many days are there in March?"',
            'coc ask "Which region earned the most?" --file orders.csv',
            'coc ask "Which review is angriest?" --file reviews.csv --model openai:gpt-4o-mini --trace run.jsonl',
        ),
    )
    parser.add_argument("question", metavar="QUESTION", help="the question (- for standard input)")
    add_asking(parser)
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write a trace of the run to FILE, for coc show, why, verify and replay",
    )
    parser.set_defaults(command=_command)


def _command(given: argparse.Namespace) -> int:
    question = _question(given)
    if given.trace:
        check_place(given.trace)
    with chosen_tools(given) as tools, asyncio.Runner() as runner:
        with saving_partial_trace(given.trace) as events, opened_asker(given, tools, runner.run) as asker:
            runner.run(asker.answer(question, events))
        result = Result.of(events)
        try:  # print the answer even if the trace cannot be written
            print_answer(question, result, given, asker.live)
        finally:
            if given.trace:
                write_trace(result.trace, given.trace)
    return ANSWERED if result.is_answered else NO_ANSWER


def _question(given: argparse.Namespace) -> str:
    if given.question == "-" and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    return read_question(sys.stdin.read() if given.question == "-" else given.question)
