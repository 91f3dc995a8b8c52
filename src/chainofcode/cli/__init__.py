"""The command `coc`."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..errors import ChainOfCodeError
from ..render import plain
from .commands import ask, debug, eval, explain, mcp, models, replay, report, run, score, serve, show, verify, why
from .parser import Parser
from .terminal import ANSWERED, COULD_NOT_RUN, INTERRUPTED, note

_COMMANDS = (ask, run, replay, why, verify, debug, explain, models, eval, score, report, mcp, serve, show)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `coc`. The exit code is 0 answered, 1 no answer, 2 could not run."""
    for stream in (sys.stdout, sys.stderr):  # programs print odd text, which must not end us; in JSON it is escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # the parent process closed it
        sys.exit(COULD_NOT_RUN if sys.stderr is None else "coc: cannot write: standard output is closed")
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return COULD_NOT_RUN
    options = parser.parse_args(arguments)
    return _run(options.command, options)


def _run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except ChainOfCodeError as error:
        first, *more = str(error).split("\n")
        note(first)
        for line in more:
            print(plain(line), file=sys.stderr)
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
    """Drop what is still buffered: Python would report an error for it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script() -> NoReturn:
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="coc", description="Reason in code: Python runs what it can, a language model runs the rest.")
    from .. import __version__

    parser.add_argument("--version", action="version", version=f"coc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    methods = commands.add_parser("methods", help="list the ways of answering that --method knows")
    methods.add_argument("--json", action="store_true", help="the list as JSON")
    methods.set_defaults(command=_methods)
    doctor = commands.add_parser("doctor", help="show which walls hold on this machine, and how to get the rest")
    doctor.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    doctor.set_defaults(command=_doctor)
    return parser


def _methods(given: argparse.Namespace) -> int:
    from ..methods import LADDER, METHODS

    if given.json:
        print(json.dumps(METHODS))
        return ANSWERED
    for name, what in METHODS.items():
        print(f"{name:<18} {what}")
    print(f"where one brings no answer, the next is tried: {' → '.join(LADDER)} (--no-fallback: not)")
    return ANSWERED


def _doctor(given: argparse.Namespace) -> int:
    from ..sandbox.doctor import examine

    report = asyncio.run(examine())
    for line in [json.dumps(report.as_dict())] if given.json else report.lines():
        print(line)
    return ANSWERED if report.tier else COULD_NOT_RUN


if __name__ == "__main__":
    script()
