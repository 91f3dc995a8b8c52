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
        for one in tallies:
            data.setdefault(one.task, {})[one.style] = {
                "accuracy": round(one.accuracy, 2),
                "no_answer": one.no_answer,
                "not_extracted": one.not_extracted,
                "n": one.n,
                "standard_error": round(one.error, 2),
            }
        print_json(data)
    else:
        _print(tallies)
    return ANSWERED


def _print(tallies: list[Tally]) -> None:
    width = max(len(plain(one.task)) for one in tallies) + 2
    print_line(f"{'':<{width}}{'style':<10}{'accuracy':>10}{'±':>7}{'no answer':>11}{'not extracted':>15}{'n':>7}")
    for one in tallies:
        head = f"{fit(plain(one.task), width)}{fit(plain(one.style), 10)}"
        print_line(f"{head}{one.accuracy:>10.1f}{one.error:>7.1f}{one.no_answer:>11}{one.not_extracted:>15}{one.n:>7}")
