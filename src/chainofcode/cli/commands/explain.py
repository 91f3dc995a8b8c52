"""`coc explain`: shows which calls of a program are sent together, and which values the others wait for."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...explain import Expected, aexplain
from ...languages import SQL, language_of_file
from ...lm.prices import estimated_dollars
from ...lm.providers import resolved
from ...render import fit, plain
from ..program_files import read_program
from ..query_options import add_database, with_files
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import ANSWERED, note, print_json, print_line
from ..value_sources import add_values, known_values

_WIDTH, _NAME_WIDTH, _MAX_CALLS = 60, 24, 100
_WRITTEN_TOKENS = 12  # of a reply with one value
_MACRO_HINT = "if judging each row separately is enough, define a macro (docs/sql.md)"


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="show which calls of a program are sent together, and which values the others wait for",
        description="Run the program as lookahead does, without a model: skip calls without a value, and all code that "
        "depends on them. With --values, also show the later rounds.",
        examples=(
            "coc explain program.py",
            "coc explain program.py --values values.jsonl",
        ),
    )
    parser.add_argument(
        "program",
        metavar="PROGRAM",
        type=Path,
        help="a program, or a model's reply that contains one (- for standard input)",
    )
    add_values(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per call")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="for a query: estimate what this model would cost")
    add_database(parser)
    add_options(parser)
    parser.set_defaults(command=_explain)


def _explain(given: argparse.Namespace) -> int:
    if given.program.suffix == ".jsonl":
        raise InputError("coc explain works with one program, not a file of records")
    source, options = read_program(given.program), read_options(given)
    with chosen_sandbox(given, spares=0) as sandbox:
        language = language_of_file(given.program)
        options = with_files(given, dataclasses.replace(options, language=language), language, sandbox)
        found = asyncio.run(aexplain(source, known_values(given), sandbox=sandbox, options=options))
    if given.json:
        for call in found.calls:
            data = {"line": call.line, "call": call.call, "round": call.round, "waits_for": call.waits_for}
            print_json(data | _query_data(call) if language is SQL else data)
    else:
        _print(found.calls)
        if language is SQL:
            _print_cost(found.calls, given.model)
    if found.error is not None:
        line = f"line {found.error.line}: " if found.error.line is not None else ""
        note(f"the program ends with an error: {line}{found.error.message}")
    sys.stdout.flush()
    return ANSWERED


def _query_data(call: Expected) -> dict[str, Any]:
    data = {"rows": call.rows, "tokens": call.tokens}
    return data | {"pairs": call.pairs, "judges": call.judges} if call.pairs else data


def _print(calls: tuple[Expected, ...]) -> None:
    if not calls:
        print_line("the program makes no calls that need a model")
        return
    rounds: dict[int, list[Expected]] = {}
    for call in calls:
        if call.round is not None:
            rounds.setdefault(call.round, []).append(call)
    for number, together in sorted(rounds.items()):
        print_line(f"round {number}: {_calls(len(together))}")
        for call in together[:_MAX_CALLS]:
            rows = f"  {call.rows:,} rows" if call.rows > 1 else ""
            print_line(f"{call.line:>5}  {fit(plain(call.call), _WIDTH).rstrip()}{rows}")
        if len(together) > _MAX_CALLS:
            print_line(f"    ⋮  {len(together) - _MAX_CALLS:,} more")
    later = [call for call in calls if call.round is None]
    if later:
        print_line("later")
    for call in later:
        print_line(f"{call.line:>5}  {fit(plain(call.call), _NAME_WIDTH)}  {_reason(call)}")


def _print_cost(calls: tuple[Expected, ...], model: str | None) -> None:
    """Print what the calls that are known now would cost; a later round may add more."""
    known = [call for call in calls if call.round is not None]
    rows, tokens = sum(call.rows for call in known), sum(call.tokens for call in known)
    written = _WRITTEN_TOKENS * len(known)
    summary = f"{rows:,} rows to judge, {len(known):,} distinct calls, about {tokens + written:,} tokens"
    if model is not None:
        model = resolved(model)
        price = estimated_dollars(model, tokens, written)
        summary += f", {'price unknown' if price is None else f'about ${price:.4f}'} with {model}"
    print_line(summary)
    if rows > len(known):
        print_line("each distinct value is judged once")
    _print_pairs(known)
    if len(known) < len(calls):
        print_line("further calls depend on the values of these calls (give them with --values)")


def _print_pairs(calls: Sequence[Expected]) -> None:
    """Print how many pairs of rows a join compares, and how many calls that takes."""
    for judges in ("row", "pair"):
        own = [call for call in calls if call.judges == judges]
        if not own:
            continue
        pairs, number = own[0].pairs, _counted(len(own), "call")
        summary = f"join: {_counted(pairs, 'pair')} of rows, "
        if judges == "row":
            least = f" instead of up to {pairs:,}" if pairs > len(own) else ""
            print_line(f"{summary}compared by a judgement of each row: {number}{least}")
        else:
            print_line(f"{summary}judged pair by pair: {number}; {_MACRO_HINT}")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls together"


def _reason(call: Expected) -> str:
    if not call.waits_for:
        return "not reached yet, or a repeat of an earlier call"
    if call.waits_for.startswith(f"{call.call}("):
        return "not sent ahead: a tool, or a call without arguments or with mutable objects"
    return f"waits for {fit(plain(call.waits_for), _WIDTH).rstrip()}"
