"""Options that grant access to the program of a trace: someone else's trace grants nothing by itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..audit import Grants, approve, grant_options
from ..trace import Trace
from .parser import add_list, option_group
from .run_options import add_limits, add_packages, add_reads, parse_limits, read_packages
from .terminal import note_in_full


def add_grants(parser: argparse.ArgumentParser) -> None:
    """Add the options for the grants of a trace to a command that runs its program again."""
    options = option_group(parser, "Program options")
    add_list(options, "--file", "FILE", "a file that the recorded run used; needed only for someone else's trace")
    add_approval(parser)
    add_limits(parser)


def add_approval(parser: argparse.ArgumentParser) -> None:
    """Add only those options of `add_grants` that `coc resume` does not have already."""
    options = option_group(parser, "Sandbox options")
    options.add_argument(
        "--grant-recorded",
        action="store_true",
        help="grant everything that someone else's trace recorded: files, packages, scratch, raised limits and, for "
        "coc resume, the model",
    )
    add_packages(parser)
    add_reads(parser)


def approve_trace(
    trace: Trace, given: argparse.Namespace, *, files: Sequence[str] | None = None, choices: Sequence[str] | None = None
) -> Trace:
    """Return a trace with the grants of the command line; see `approve`. With --grant-recorded, list what it grants.

    `files` are the approved files, if they differ from those of --file.
    """
    grants = Grants(
        reads=given.allow_read,
        files=given.file if files is None else files,
        packages=read_packages(given),
        scratch=given.scratch,
        limits=parse_limits(given.limit),
        recorded=given.grant_recorded,
    )
    recorded = [*grant_options(trace), *(choices or ())] if trace.is_foreign and given.grant_recorded else []
    trace = approve(trace, grants, choices=choices)
    if recorded:
        note_in_full(["granted as recorded in the trace, which may be someone else's:", *recorded])
    return trace
