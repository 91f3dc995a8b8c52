"""The argument parser of `coc`: short error messages, and what several commands check and declare."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import InputError
from ..render import plain


class Parser(argparse.ArgumentParser):
    """Prints errors in two lines, without the usage, and suggests near matches for unknown options."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal(unknown[0].partition("=")[0]))  # without its value, which may be a secret
        return known, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {plain(message)}\nsee {self.prog} --help\n")

    def _refusal(self, unknown: str) -> str:
        if not unknown.startswith("-"):
            return f"unrecognized argument: {unknown} (quote text that contains spaces)"
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.75)
        return f"unrecognized option: {unknown}" + (f" (did you mean {near[0]}?)" if near else "")


def add_list(parser: argparse.ArgumentParser, option: str, metavar: str, help: str) -> None:
    """Add an option that can be given several times."""
    parser.add_argument(option, metavar=metavar, action="append", default=[], help=help)


def add_trace_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a trace, written with --trace")


def check_range(given: argparse.Namespace, option: str, least: int, most: int | None = None) -> None:
    """Raise InputError if an option is set to a number outside of a range."""
    number = getattr(given, option.replace("-", "_"))
    if number is None or least <= number <= (math.inf if most is None else most):
        return
    allowed = f"{least} or more" if most is None else f"{least} to {most:,}"
    raise InputError(f"--{option} must be {allowed}, not {number:g}")
