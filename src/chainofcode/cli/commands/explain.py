"""`coc explain`: shows which calls of a program go out together, and what the others wait for."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ...emulator import Table
from ...errors import InputError
from ...explain import Expected, aexplain
from ...methods import files_of
from ...render import fit, plain
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import ANSWERED, note, read_text

_WIDTH, _NAME_WIDTH = 60, 24


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="show which calls of a program go out together, and what the others wait for",
        description="Run a shadow of the program, as lookahead does: calls without a value are skipped, with all code "
        "that depends on them. No model is called. With --values, show the later rounds, too.",
    )
    parser.add_argument(
        "program", metavar="PROGRAM", type=Path, help="a .py file, or a model's reply (- for standard input)"
    )
    parser.add_argument(
        "--values", metavar="FILE", type=Path, help='lines of {"call": "is_fruit(\'apple\')", "value": true}'
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a call")
    add_options(parser)
    parser.set_defaults(command=_explain)


def _explain(given: argparse.Namespace) -> int:
    if given.program.suffix == ".jsonl":
        raise InputError("coc explain takes one program, not a file of records")
    source, options = read_text(given.program), read_options(given)
    values = Table.read(given.values) if given.values else Table([])
    with chosen_sandbox(given, spares=0) as sandbox:
        if given.file:
            options = asyncio.run(files_of(given.file, options, sandbox)).granted(options)
        found = asyncio.run(aexplain(source, values, sandbox=sandbox, options=options))
    if given.json:
        for call in found.calls:
            data = {"line": call.line, "call": call.call, "round": call.round, "waits_for": call.waits_for}
            print(json.dumps(data))
    else:
        _print(found.calls)
    if found.error is not None:
        line = f"line {found.error.line}: " if found.error.line is not None else ""
        note(f"the program ends with an error: {line}{found.error.message}")
    sys.stdout.flush()
    return ANSWERED


def _print(calls: tuple[Expected, ...]) -> None:
    if not calls:
        print("Python runs the whole program: there are no calls for a model")
        return
    rounds: dict[int, list[Expected]] = {}
    for call in calls:
        if call.round is not None:
            rounds.setdefault(call.round, []).append(call)
    for number, together in sorted(rounds.items()):
        print(f"round {number}: {_calls(len(together))}")
        for call in together:
            print(f"{call.line:>5}  {fit(plain(call.call), _WIDTH).rstrip()}")
    later = [call for call in calls if call.round is None]
    if later:
        print("later")
    for call in later:
        print(f"{call.line:>5}  {fit(plain(call.call), _NAME_WIDTH)}  {_reason(call)}")


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls together"


def _reason(call: Expected) -> str:
    if not call.waits_for:
        return "not reached yet, or a repeat of an earlier call"
    if call.waits_for.startswith(f"{call.call}("):
        return "not sent ahead: a tool, or a call without arguments or with mutable objects"
    return f"waits for {fit(plain(call.waits_for), _WIDTH).rstrip()}"
