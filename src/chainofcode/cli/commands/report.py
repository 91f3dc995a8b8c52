"""`coc report`: the table of an evaluation next to published ones, with charts; or how two evaluations differ."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...errors import InputError
from ...evals.report import Summary, compare, draw, write_page
from ...evals.results import describe_run, read_planned, read_scores, safe_name, write_table
from ...render import fit, plain
from ..eval_table import by_method, totals
from ..terminal import ANSWERED, note, print_json, print_line, print_lines

T = TypeVar("T")


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="print the table of an evaluation next to published results, or compare two evaluations",
        description="Print the table of DIR, a directory of `coc eval … --out DIR`, and write report.html, a page "
        "for each run, charts (accuracy by task, against tokens, against seconds) and results.parquet into it. With "
        "two directories, print a paired test on the samples of both.",
        examples=(
            "coc report results",
            "coc report before after",
        ),
    )
    parser.add_argument("directories", metavar="DIR", type=Path, nargs="+", help="one directory, or two to compare")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--inspect-logs", metavar="DIR", type=Path, help="also write logs for Inspect's viewer into DIR, one per method"
    )
    parser.set_defaults(command=_report)


def _report(given: argparse.Namespace) -> int:
    if len(given.directories) > 2:
        raise InputError("coc report works with one directory, or two to compare")
    if len(given.directories) == 2:
        return _compare(given)
    (directory,) = given.directories
    scores = read_scores(directory)
    if not scores:
        raise InputError(f"{directory} has no results yet: coc eval SUITE --out {directory} adds some")
    summary = Summary(scores, read_planned(directory), describe_run(directory))
    if given.json:
        print_json(_data(summary))
    else:
        print_lines(summary.lines())
    _attempt(lambda: write_table(directory))
    pictures = _attempt(lambda: draw(summary, directory)) or []
    if given.inspect_logs:
        _export(directory, given.inspect_logs, summary.methods)
    note(str(write_page(summary, directory, pictures)))
    return ANSWERED


def _attempt(write: Callable[[], T]) -> T | None:
    """Write an optional part of the report; without a package that it needs, print a note instead."""
    try:
        return write()
    except InputError as error:
        note(str(error))
        return None


def _data(summary: Summary) -> dict[str, Any]:
    return {
        "methods": summary.methods,
        "is_complete": not summary.gaps,
        "samples": {method: {"run": ran, "planned": planned} for method, (ran, planned) in summary.progress.items()},
        "totals": {method: totals(scores) for method, scores in by_method(summary.scores).items()},
        "faithful": {method: summary.faithful(method) for method in summary.methods},
        "rows": [{"name": name, "ours": ours, "paper": paper} for name, ours, paper in summary.rows()],
    }


def _export(directory: Path, logs: Path, methods: list[str]) -> None:
    try:
        from ...evals.inspecting import export
    except ImportError:
        raise InputError("logs for Inspect need inspect_ai: pip install 'chainofcode[inspect]'") from None
    logs.mkdir(parents=True, exist_ok=True)
    for method in methods:
        export(directory, logs / f"{safe_name(method or 'program')}.eval", method)


def _compare(given: argparse.Namespace) -> int:
    first, second = given.directories
    differences = compare(read_scores(first), read_scores(second))
    if given.json:
        print_json(msgspec.to_builtins(differences))
        return ANSWERED
    print_line(f"{'':<18}{'n':>7}{'A':>9}{'B':>9}{'only A':>9}{'only B':>9}{'p':>9}   A {first}, B {second}")
    for difference in differences:
        print_line(
            f"{fit(plain(difference.method), 18)}{difference.n:>7}{difference.first:>9.1f}{difference.second:>9.1f}"
            f"{difference.only_first:>9}{difference.only_second:>9}{difference.p:>9.3f}"
        )
    return ANSWERED
