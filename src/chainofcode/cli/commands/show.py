"""`coc show`: shows a trace as text, or writes it as a page."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from ...audit import afollow, why_data
from ...errors import ChainOfCodeError, InputError
from ...trace import Trace
from ..grant_options import add_grants, approve_trace
from ..parser import add_trace_argument
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import ANSWERED, NO_ANSWER, is_same_file, note, print_result, print_trace

_FOLLOW_SECONDS = 20


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "show",
        help="print a trace, or write it as an HTML page to share",
        description="Print TRACE as text, or with --html write it as one HTML file that needs no server. For the page, "
        "its last program runs again with the recorded values, to find out what depends on what; --no-why skips that. "
        "Exit code: 0 answered, 1 no answer, 2 could not run.",
        examples=(
            "coc show run.jsonl",
            "coc show run.jsonl --program",
            "coc show run.jsonl --html run.html",
        ),
    )
    add_trace_argument(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="print every step, not only the first three of each statement, and as much of each source line as fits",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--program", action="store_true", help="print only the source of the last program, in full (exit code 0)"
    )
    output.add_argument("--html", metavar="FILE", help="write a self-contained HTML page (- for standard output)")
    parser.add_argument("--no-why", action="store_true", help="with --html: do not run the program again")
    add_sandbox(parser)
    add_grants(parser)
    parser.set_defaults(command=_show)


def _show(given: argparse.Namespace) -> int:
    trace = Trace.read(given.trace, is_whole=False)
    if given.program:
        return _print_program(trace, given.trace)
    if given.html is None:
        print_trace(trace, given.all, has_numbers=True)
    else:
        _write_page(trace, given)
    return ANSWERED if trace.answer is not None and trace.answer.is_answered else NO_ANSWER


def _print_program(trace: Trace, path: Path) -> int:
    if trace.program is None:
        raise InputError(f"{path} contains no program")
    print_result(trace.program.source.removesuffix("\n"))
    return ANSWERED


def _write_page(trace: Trace, given: argparse.Namespace) -> None:
    from ...server.sharing import as_html

    page_file = Path(given.html)
    if given.html != "-" and is_same_file(page_file, given.trace):
        raise InputError("--html must not name the trace: use another file")
    why = None if given.no_why else _why(approve_trace(trace, given), given)
    page = as_html(trace, why, title=given.trace.name, files=Path(f"{given.trace}.files"))
    if given.html == "-":
        print_result(page)
        return
    try:
        page_file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {given.html}: {error.strerror}") from None
    note(given.html)


def _why(trace: Trace, given: argparse.Namespace) -> dict[str, Any] | None:
    """Return what depends on what; None if that takes too long or fails, because the page works without it."""
    try:
        with chosen_sandbox(given, spares=0) as sandbox:
            found = asyncio.run(asyncio.wait_for(afollow(trace, sandbox=sandbox), _FOLLOW_SECONDS))
    except TimeoutError:
        why = f"that takes over {_FOLLOW_SECONDS} seconds"
    except ChainOfCodeError as error:
        why = str(error)
    else:
        if found.difference is None:
            return why_data(found)
        why = f"the replay differs at {found.difference.where}"
    note(f"the page does not show what depends on what: {why}")
    return None
