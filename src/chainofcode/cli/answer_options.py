"""The options that say what the answer must be."""

from __future__ import annotations

import argparse

from ..methods import AnswerType, answer_type_of


def add_answer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type",
        metavar="TYPE",
        help="what the answer must be: int, float, bool, str, date, list[int]…, json, yaml, sql, choice:A,B,C or "
        "SCHEMA.json",
    )
    parser.add_argument(
        "--database", metavar="FILE", help="with --type sql: a SQLite or DuckDB file to query, read-only; its rows come"
    )


def chosen_answer(given: argparse.Namespace) -> AnswerType | None:
    return answer_type_of(given.type, given.database)
