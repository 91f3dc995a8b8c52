"""`coc report`: the table of an evaluation beside the paper's, a page with charts; or how two evaluations differ."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InputError
from ...evals.report import Summary, compare, draw, write_page
from ...evals.results import read_planned, read_scores, safe_name, write_table
from ...render import plain
from ..terminal import ANSWERED, say_json


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="the table of an evaluation, beside the paper's; or how two evaluations differ",
        description="DIR is what `coc eval … --out DIR` made. The table is printed; report.html, charts and "
        "results.parquet are written into DIR. With two of them, a paired test on the samples that both have.",
    )
    parser.add_argument("directories", metavar="DIR", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true", help="the table as one JSON object")
    parser.add_argument(
        "--inspect-logs", metavar="DIR", type=Path, help="write a log for each method that Inspect's viewer opens"
    )
    parser.set_defaults(command=_report)


def _report(given: argparse.Namespace) -> int:
    if len(given.directories) > 2:
        raise InputError("coc report takes one directory, or two to compare")
    if len(given.directories) == 2:
        return _compare(given)
    (directory,) = given.directories
    summary = Summary(read_scores(directory), read_planned(directory))
    if given.json:
        rows = [{"name": name, "ours": ours, "paper": paper} for name, ours, paper in summary.rows()]
        samples = {method: {"run": ran, "planned": planned} for method, (ran, planned) in summary.progress.items()}
        faithful = {method: summary.faithful(method) for method in summary.methods}
        told = {"methods": summary.methods, "is_complete": not summary.gaps, "samples": samples}
        say_json({**told, "faithful": faithful, "rows": rows})
    else:
        for line in summary.lines():
            print("\n".join(map(plain, line.split("\n"))))
    pictures = list[str]()
    for write in (lambda: write_table(directory), lambda: pictures.extend(draw(summary, directory))):
        try:
            write()
        except InputError as error:  # the rest is worth having without it
            print(f"coc: {plain(str(error))}", file=sys.stderr)
    if given.inspect_logs:
        _export(directory, given.inspect_logs, summary.methods)
    print(f"coc: {plain(str(write_page(summary, directory, pictures)))}", file=sys.stderr)
    return ANSWERED


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
        say_json(msgspec.to_builtins(differences))
        return ANSWERED
    print(f"{'':<18}{'n':>7}{'A':>9}{'B':>9}{'only A':>9}{'only B':>9}{'p':>9}   A {first}, B {second}")
    for one in differences:
        print(
            f"{plain(one.method):<18}{one.n:>7}{one.first:>9.1f}{one.second:>9.1f}{one.only_first:>9}{one.only_second:>9}"
            f"{one.p:>9.3f}"
        )
    return ANSWERED
