"""`coc score`: scores recorded replies, without running anything."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...evals.recorded_replies import Tally, read_replies, tally
from ...render import fit, plain
from ..terminal import ANSWERED, print_json, print_line


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="score recorded replies, without running anything",
        description='REPLIES.jsonl has lines of {"task": …, "index": …, "style": …, "reply": …, "target": …}. '
        "The answer in a reply is found as in BIG-Bench Hard: the text after the last `answer is`, otherwise its only "
        "line; a reply that names several options does not count as an answer.",
        examples=("coc score replies.jsonl",),
    )
    parser.add_argument("replies", metavar="REPLIES.jsonl", type=Path, help="the replies")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object: task → style → accuracy, no_answer, …"
    )
    parser.set_defaults(command=_score)


def _score(given: argparse.Namespace) -> int:
    tallies = tally(read_replies(given.replies))
    if not tallies:
        raise InputError(f"{given.replies} has no replies")
    if given.json:
        data: dict[str, dict[str, Any]] = {}
        for row in tallies:
            data.setdefault(row.task, {})[row.style] = {
                "accuracy": round(row.accuracy, 2),
                "no_answer": row.no_answer,
                "not_extracted": row.not_extracted,
                "n": row.n,
                "standard_error": round(row.error, 2),
            }
        print_json(data)
    else:
        _print(tallies)
    return ANSWERED


def _print(tallies: list[Tally]) -> None:
    width = max(len(plain(row.task)) for row in tallies) + 2
    print_line(f"{'':<{width}}{'style':<10}{'accuracy':>10}{'±':>7}{'no answer':>11}{'not extracted':>15}{'n':>7}")
    for row in tallies:
        head = f"{fit(plain(row.task), width)}{fit(plain(row.style), 10)}"
        print_line(f"{head}{row.accuracy:>10.1f}{row.error:>7.1f}{row.no_answer:>11}{row.not_extracted:>15}{row.n:>7}")
