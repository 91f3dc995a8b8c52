"""`coc explain`: which calls of a program can overlap, and why the others cannot."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError, ProgramError
from ..program.explain import Overlap, explain
from ..program.parse import NotAProgram, check_readable
from ..render import fit, plain
from .options import add_packages, read_packages
from .terminal import ANSWERED, read_text


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="say which calls of a program can overlap, and why the others cannot",
        description="Nothing of the program runs. A call that can overlap is asked for before the program gets to it, "
        "together with others, where the model takes several at once (--in-flight).",
    )
    parser.add_argument(
        "program", metavar="PROGRAM", type=Path, help="a .py file, or a model's reply (- for standard input)"
    )
    add_packages(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a call")
    parser.set_defaults(command=_explain)


def _explain(given: argparse.Namespace) -> int:
    if given.program.suffix == ".jsonl":
        raise InputError("coc explain takes one program, not a file of records")
    source = read_text(given.program)
    try:
        check_readable(source)
        calls = explain(source, packages=read_packages(given))
    except (NotAProgram, RecursionError) as error:
        raise ProgramError(str(error) or "the program is nested too deep to be explained") from None
    if given.json:
        for call in calls:
            print(json.dumps({name: getattr(call, name) for name in ("line", "call", "can_overlap", "when")}))
        return ANSWERED
    _print(calls)
    return ANSWERED


def _print(calls: list[Overlap]) -> None:
    if not calls:
        print("Python runs all of it: no call is left to a model")
        return
    can = sum(call.can_overlap for call in calls)
    print(f"{can} of {len(calls)} calls can overlap\n")
    width = min(max(len(call.call) for call in calls), 40)
    for call in calls:
        mark = "∥" if call.can_overlap else "·"
        print(f"{call.line:>5} {mark} {fit(plain(call.call), width)}  {plain(call.when)}")
    sys.stdout.flush()
