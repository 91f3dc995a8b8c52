"""The command `coc`: everything a person does with a program, in one place."""

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
from .terminal import ANSWERED, COULD_NOT_RUN, INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `coc`; the exit code is 0 answered, 1 no answer, 2 could not run."""
    for stream in (sys.stdout, sys.stderr):  # odd text from a program must not stop us; in JSON it is an escape
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # closed by whoever started us
        sys.exit(COULD_NOT_RUN if sys.stderr is None else "coc: cannot write: standard output is closed")
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):  # nothing was asked for: say what there is
        parser.print_help(sys.stderr)
        return COULD_NOT_RUN
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except ChainOfCodeError as error:
        lines = map(plain, str(error).split("\n"))  # some of it is what endpoints and paths say
        print("coc: " + "\n".join(lines), file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        print("coc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _forget_stdout()
        return ANSWERED
    except OSError as error:
        _forget_stdout()
        print(f"coc: cannot write: {error.strerror}", file=sys.stderr)
        return COULD_NOT_RUN


def _forget_stdout() -> None:
    """Whatever is still buffered has nowhere to go; Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script() -> NoReturn:
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="coc", description="Reason in code: Python runs what it can, a language model runs the rest.")
    from .. import __version__

    parser.add_argument("--version", action="version", version=f"coc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ask.add_to(commands)
    run.add_to(commands)
    replay.add_to(commands)
    why.add_to(commands)
    verify.add_to(commands)
    debug.add_to(commands)
    explain.add_to(commands)
    models.add_to(commands)
    eval.add_to(commands)
    score.add_to(commands)
    report.add_to(commands)
    mcp.add_to(commands)
    serve.add_to(commands)
    show.add_to(commands)
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
