"""Options of commands that run programs: inputs, grants, limits, sandbox, clock."""

from __future__ import annotations

import argparse
import ast
import datetime
import keyword
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from ..engine import RunOptions
from ..errors import InputError
from ..sandbox import CHOICES, LIMIT_OPTIONS, MAX_IN_FLIGHT, TIERS, Limits, Sandbox, open_sandbox
from .artifact_output import ArtifactsAction
from .parser import add_list, check_range, option_group
from .terminal import note


def add_options(parser: argparse.ArgumentParser, *, has_question: bool = True) -> None:
    options = option_group(parser, "Program options")
    add_list(
        options, "--input", "NAME=VALUE", "set a variable of the program; VALUE is a Python literal, otherwise text"
    )
    add_list(
        options,
        "--file",
        "FILE",
        "a file to load into a variable of the program: CSV, TSV, Parquet, Excel, JSON, JSON lines, SQLite, text, an "
        "image",
    )
    if has_question:
        options.add_argument("--question", metavar="TEXT", help="the value of the variable `question`")
    add_packages(parser)
    add_reads(parser)
    options.add_argument(
        "--artifacts",
        metavar="DIR",
        action=ArtifactsAction,
        help="like --scratch, and keep the files in DIR (--scratch with --trace FILE keeps them in FILE.files)",
    )
    add_overlap(parser)
    add_sandbox(parser)
    add_limits(parser)
    options.add_argument(
        "--policy",
        choices=["strict", "paper"],
        default="strict",
        help="what to do if a statement fails: strict ends the run, paper emulates it, as in the paper (strict)",
    )
    options.add_argument(
        "--clock", metavar="WHEN", help="the program's clock: `now`, or a time such as 2025-01-31T12:00 (UTC)"
    )
    options.add_argument("--seed", metavar="N", type=int, help="the program's random seed")


def add_packages(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Sandbox options")
    add_list(options, "--allow-package", "NAME", "let the program import an installed package")


def add_reads(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Sandbox options")
    add_list(options, "--allow-read", "PATH", "let the program read a file or a directory")
    options.add_argument(
        "--scratch",
        action="store_true",
        help="give the program an empty, writable working directory, deleted afterwards",
    )


def read_packages(given: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name for text in given.allow_package for name in text.split(","))


def add_overlap(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Overlap options")
    options.add_argument(
        "--in-flight",
        metavar="N",
        type=int,
        help="send up to N calls at once, some before the program reaches them (as many as the model accepts)",
    )
    options.add_argument("--sequential", action="store_true", help="send one call at a time, like --in-flight 1")
    options.add_argument(
        "--no-share",
        action="store_true",
        help="request a value again for each repeated call (default: repeated calls share it)",
    )


def read_in_flight(given: argparse.Namespace) -> int | None:
    check_range(given, "in-flight", 1, MAX_IN_FLIGHT)
    if given.in_flight is not None and given.sequential:
        raise InputError("--sequential means --in-flight 1: use only one of them")
    in_flight: int | None = 1 if given.sequential else given.in_flight
    return in_flight


def add_limits(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Sandbox options")
    add_list(
        options,
        "--limit",
        "WHICH=N",
        f"a limit of the run: {', '.join(LIMIT_OPTIONS)} (in seconds, bytes or a count; see docs/programs.md)",
    )


def add_sandbox(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Sandbox options")
    either = options.add_mutually_exclusive_group()
    either.add_argument(
        "--sandbox",
        metavar="WHICH",
        default=os.environ.get("COC_SANDBOX") or "auto",
        help=f"{', '.join(CHOICES)}; auto is the best that this machine supports (see coc doctor), none is no "
        "sandbox, a URL is a server started with coc serve --sandbox-only, with its token in COC_SANDBOX_TOKEN "
        "(default: COC_SANDBOX, else auto)",
    )
    either.add_argument(
        "--sandbox-at-least",
        metavar="TIER",
        dest="sandbox",
        type=lambda tier: f"{tier}+",
        default=argparse.SUPPRESS,
        help=f"refuse to run in a lower tier than this: {', '.join(TIERS)}",
    )


def read_options(given: argparse.Namespace) -> RunOptions:
    return RunOptions(
        question=given.question,
        inputs=dict(_input(text) for text in given.input),
        policy=given.policy,
        packages=read_packages(given),
        limits=read_limits(given.limit),
        reads=tuple(given.allow_read),
        scratch=given.scratch,
        clock=_clock(given.clock) if given.clock is not None else None,
        seed=given.seed,
        in_flight=read_in_flight(given),
        share=not given.no_share,
    )


def _clock(text: str) -> float:
    if text == "now":
        return time.time()
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--clock must be `now` or a time as in 2025-01-31T12:00, not {text!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"--input must be NAME=VALUE, not {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return name, value


def read_limits(given: Sequence[str]) -> Limits:
    return Limits(**parse_limits(given))


def parse_limits(given: Sequence[str]) -> dict[str, Any]:
    """Return the limits of --limit, by their fields in Limits."""
    chosen: dict[str, Any] = {}
    for text in given:
        which, _, number = text.partition("=")
        try:
            field = LIMIT_OPTIONS[which]
            value = float(number)
            if not 0 < value < 1e18:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(
                f"--limit must be one of {', '.join(LIMIT_OPTIONS)} and a number above 0, as in run=5; not {text!r}"
            ) from None
        chosen[field] = value if field.endswith("seconds") else int(value)
    return chosen


@contextmanager
def chosen_sandbox(given: argparse.Namespace, *, spares: int) -> Iterator[Sandbox]:
    if given.sandbox == "none":
        note("no sandbox: the program has access to your files and your network")
    with closing(open_sandbox(given.sandbox, spares=spares)) as sandbox:
        yield sandbox
