"""The command `coc`."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Callable, Sequence

from ..errors import ChainOfCodeError, GrantError
from ..interrupts import INTERRUPTED, raise_on_interrupt
from .commands import (
    ask,
    chat,
    completion,
    debug,
    eval,
    examples,
    explain,
    mcp,
    models,
    replay,
    report,
    resume,
    run,
    score,
    serve,
    show,
    sql,
    tokens,
    verify,
    why,
)
from .message_stream import drop_unwritable_messages
from .overview import TopParser
from .parser import Parser
from .terminal import (
    ANSWERED,
    COULD_NOT_RUN,
    note,
    note_in_full,
    note_lines,
    print_json,
    print_line,
    print_lines,
)

_COMMANDS = (
    ask, chat, run, sql, resume, replay, why, verify, debug, explain, models, eval, score, report, mcp, serve, tokens,
    show,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `coc` and return its exit code: 0 answered, 1 no answer, 2 could not run, 130 interrupted."""
    _replace_closed_streams()
    drop_unwritable_messages()
    for stream in (sys.stdout, sys.stderr):  # escape characters that the encoding lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return COULD_NOT_RUN
    options = parser.parse_args(arguments)
    return _run(options.command, options)


def _replace_closed_streams() -> None:
    """Replace standard streams that the parent process closed; exit if standard output is closed."""
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        note("cannot write: standard output is closed")
        sys.exit(COULD_NOT_RUN)


def _run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        raise_on_interrupt()
        code = command(options)
        sys.stdout.flush()
        return code
    except GrantError as error:
        note_in_full(str(error).split("\n"))
        return COULD_NOT_RUN
    except ChainOfCodeError as error:
        note_lines(str(error))
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has stopped reading
        _forget_stdout()
        return ANSWERED
    except OSError as error:
        _forget_stdout()
        note(f"cannot write: {error.strerror}")
        return COULD_NOT_RUN


def _forget_stdout() -> None:
    """Discard buffered output: writing it at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> TopParser:
    parser = TopParser(
        prog="coc", description="Reason in code: Python runs what it can, a language model runs the rest."
    )
    from .. import __version__

    parser.add_argument("--version", action="version", version=f"coc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for command in _COMMANDS:
        command.add_to(commands)
    methods = commands.add_parser(
        "methods",
        help="list the methods that --method accepts",
        description="A method is a way to answer a question, such as chain of code (coc) or chain of thought (cot).",
        examples=("coc methods",),
    )
    methods.add_argument("--json", action="store_true", help="print the list as JSON")
    methods.set_defaults(command=_methods)
    doctor = commands.add_parser(
        "doctor",
        help="show which sandbox tiers work on this machine, and how to enable the others",
        description="Try each sandbox tier on this machine. Exit code: 0 at least one works, 2 none does.",
        examples=("coc doctor",),
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(command=_doctor)
    examples.add_to(commands, main)
    completion.add_to(commands, parser)
    return parser


def _methods(given: argparse.Namespace) -> int:
    from ..methods import LADDER, METHODS

    if given.json:
        print_json(METHODS)
        return ANSWERED
    for name, what in METHODS.items():
        print_line(f"{name:<18} {what}")
    print_line(f"if a method gives no answer, the next one is tried: {' → '.join(LADDER)} (unless --no-fallback)")
    return ANSWERED


def _doctor(given: argparse.Namespace) -> int:
    from ..sandbox.doctor import examine
    from ..sandbox.remote_sandbox import SCHEMES

    chosen = os.environ.get("COC_SANDBOX", "")
    report = asyncio.run(examine(chosen if chosen.startswith(SCHEMES) else ""))
    if given.json:
        print_json(report.as_dict())
    else:
        print_lines(report.lines())
    return ANSWERED if report.works else COULD_NOT_RUN
