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

# The options that several commands share, in the order of a help text.
OPTION_GROUPS = (
    "Answer options",
    "Program options",
    "Model options",
    "Method options",
    "Tool options",
    "Sandbox options",
    "Overlap options",
)


class Parser(argparse.ArgumentParser):
    """Prints errors in two lines, without the usage, and suggests near matches for unknown options and commands.

    Its help shows the examples first, then the command's own options, then those in `OPTION_GROUPS`.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})  # a misspelt option is an error
        self.examples = examples

    def format_usage(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(None, self._get_positional_actions(), [])
        return formatter.format_help().replace(self.prog, f"{self.prog} [OPTIONS]", 1)

    def format_help(self) -> str:
        described, formatter = self._get_formatter(), self._get_formatter()
        described.add_text(self.description)
        for group in sorted(self._action_groups, key=_order):
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        examples = "".join(f"  {example}\n" for example in self.examples)
        parts = [self.format_usage(), described.format_help(), examples and f"examples:\n{examples}"]
        return "\n".join(filter(None, [*parts, formatter.format_help()]))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal(unknown[0].partition("=")[0]))  # without its value, which may be a secret
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, _unknown_value(action, str(value)))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            kind = "a whole number" if action.type is int else "a number"
            message = f"{_name(action)} must be {kind}, not {arg_string[:100]!r}"
            raise argparse.ArgumentError(None, message) from None

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            raise argparse.ArgumentError(None, f"{_name(action)} needs a value") from None

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {plain(message)}\nsee {self.prog} --help\n")

    def _refusal(self, unknown: str) -> str:
        if not unknown.startswith("-"):
            return f"unrecognized argument: {unknown} (quote text that contains spaces)"
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.75)
        return f"unrecognized option: {unknown}" + (f" (did you mean {near[0]}?)" if near else "")


def _unknown_value(action: argparse.Action, value: str) -> str:
    choices = [str(choice) for choice in action.choices or ()]
    if isinstance(action, argparse._SubParsersAction):  # `coc --help` lists the commands
        near = difflib.get_close_matches(value, choices, n=1)
        return f"unknown command {value[:100]!r}" + (f" (did you mean {near[0]}?)" if near else "")
    if action.option_strings:
        return f"{_name(action)} must be {', '.join(choices[:-1])} or {choices[-1]}, not {value[:100]!r}"
    return f"unknown {action.dest} {value[:100]!r} (expected one of: {', '.join(choices)})"


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)


def _order(group: argparse._ArgumentGroup) -> int:
    return OPTION_GROUPS.index(group.title) if group.title in OPTION_GROUPS else -1


def option_group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The group of options with this title, one of `OPTION_GROUPS`."""
    known = {group.title: group for group in parser._action_groups}
    return known[title] if title in known else parser.add_argument_group(title)


def add_list(parser: argparse._ActionsContainer, option: str, metavar: str, help: str) -> None:
    """Add an option that can be given several times."""
    parser.add_argument(option, metavar=metavar, action="append", default=[], help=f"{help} (repeatable)")


def add_trace_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a trace, written with --trace")


def check_range(given: argparse.Namespace, option: str, least: int, most: int | None = None) -> None:
    """Raise InputError if an option is set to a number outside of a range."""
    number = getattr(given, option.replace("-", "_"))
    if number is None or least <= number <= (math.inf if most is None else most):
        return
    allowed = f"{least} or more" if most is None else f"{least} to {most:,}"
    raise InputError(f"--{option} must be {allowed}, not {number:g}")
