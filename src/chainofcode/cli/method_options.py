"""Options for how a question is answered, and what the answer must be."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..methods import METHODS, AnswerType, Ways, answer_type_of, compose
from .parser import check_range
from .terminal import read_text


def add_method(parser: argparse.ArgumentParser, *, has_shots: bool = True) -> None:
    parser.add_argument("--method", metavar="NAME", default="coc", help=f"{', '.join(METHODS)} (coc methods explains)")
    if has_shots:
        parser.add_argument(
            "--shots", metavar="N", type=int, help="how many examples the model sees before it writes (0: none)"
        )
    parser.add_argument(
        "--examples", metavar="FILE", type=Path, help="examples of your own: `Question: …` and what to reply"
    )
    parser.add_argument(
        "--repairs", metavar="N", type=int, default=2, help="how often a program that fails goes back to the model (2)"
    )
    parser.add_argument(
        "--no-fallback", action="store_true", help="end where the method does, instead of trying a plainer one"
    )
    parser.add_argument("--votes", metavar="K", type=int, default=1, help="answer K times; what most say counts")
    parser.add_argument("--value-votes", metavar="K", type=int, default=1, help="the same for each emulated value")
    parser.add_argument(
        "--critique", action="store_true", help="have the model read program and trace before the answer counts"
    )


def read_method(given: argparse.Namespace) -> Ways:
    for option, least in (("shots", 0), ("repairs", 0), ("votes", 1), ("value-votes", 1)):
        check_range(given, option, least)
    method = compose(
        given.method,
        repairs=given.repairs,
        critique=given.critique,
        fallback=not given.no_fallback,
        votes=given.votes,
    )
    examples = read_text(given.examples) if given.examples else None
    return Ways(method=method, shots=given.shots, examples=examples, value_votes=given.value_votes)


def add_answer_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type",
        metavar="TYPE",
        help="what the answer must be: int, float, bool, str, date, list[int]…, json, yaml, sql, choice:A,B,C or "
        "SCHEMA.json",
    )
    parser.add_argument(
        "--database", metavar="FILE", help="with --type sql: a SQLite or DuckDB file to query, read-only; its rows come"
    )


def read_answer_type(given: argparse.Namespace) -> AnswerType | None:
    return answer_type_of(given.type, given.database)
