"""`coc debug`: steps through a trace in the terminal, and continues from a changed value."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from ...audit import read_checked
from ...emulator import asking
from ...errors import GrantError, InputError
from ..grant_options import add_grants, approve_trace
from ..model_options import add_model, named_model
from ..parser import add_trace_argument
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import ANSWERED
from ..trace_warnings import warnings


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "debug",
        help="step through a trace, forwards and backwards; change a value and continue from there",
        description="Needs a terminal and the extra `debug` (Textual). Press ? for the keys.",
        examples=("coc debug run.jsonl",),
    )
    add_trace_argument(parser)
    add_model(parser, default="none")
    add_sandbox(parser)
    add_grants(parser)
    parser.set_defaults(command=_debug)


def _debug(given: argparse.Namespace) -> int:
    trace, chain = read_checked(given.trace)
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise InputError(f"coc debug needs a terminal; without one, use coc show {given.trace}")
    try:
        from ..debugger.app import Debugger
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise InputError("coc debug needs Textual: pip install 'chainofcode[debug]' (or pip install textual)") from None
    with contextlib.suppress(GrantError):  # the debugger can show it, and lists the missing grants on an edit
        trace = approve_trace(trace, given)
    with named_model(given) as lm, chosen_sandbox(given, spares=0) as sandbox:
        emulator = asking(lm) if lm is not None else None
        notes = tuple(warnings(trace, chain))
        Debugger(trace, given.trace, emulator=emulator, sandbox=sandbox, warnings=notes).run()
    return ANSWERED
