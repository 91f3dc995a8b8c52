"""`coc why`: shows where an answer comes from."""

from __future__ import annotations

import argparse
from typing import Any

from ...audit import follow, why_data, why_lines
from ...trace import Trace
from ..grant_options import add_grants, approve_trace
from ..parser import add_trace_argument
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import ANSWERED, note, output_style, print_json, print_lines
from ..trace_warnings import note_grants


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "why",
        help="show what the answer of a trace depends on: statements, inputs, values of models and tools",
        description="Run the last program of TRACE again with its recorded values, and show the chain from the answer "
        "back to everything it depends on. No model is used. Exit code: 0 shown, 2 could not run.",
        examples=(
            "coc why run.jsonl",
            "coc why run.jsonl total",
        ),
    )
    add_trace_argument(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", help="a variable of the program, instead of the answer")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, with every step and its dependencies"
    )
    parser.add_argument("--all", action="store_true", help="print every statement and value")
    add_sandbox(parser)
    add_grants(parser)
    parser.set_defaults(command=_why)


def _why(given: argparse.Namespace) -> int:
    trace = Trace.read(given.trace)
    trace = approve_trace(trace, given)
    note_grants(trace)
    with chosen_sandbox(given, spares=0) as sandbox:
        found = follow(trace, given.name, sandbox=sandbox)
    if found.difference is not None:
        note(f"the replay differs at {found.difference.where}: see coc replay")
    if given.json:
        print_json(why_data(found))
        return ANSWERED
    width, colour = output_style()
    print_lines(why_lines(found, width=width, colour=colour, all_lines=given.all))
    return ANSWERED
