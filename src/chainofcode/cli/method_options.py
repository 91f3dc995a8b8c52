"""Options for how a question is answered, and for the type of the answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..audit import doubts
from ..errors import InputError
from ..languages import PYTHON, SQL, Language, language_named
from ..methods import METHODS, AnswerType, Ways, answer_type_of, compose
from ..methods.queries import are_large_tables, needs_sql
from ..sandbox import Sandbox
from .parser import check_range, option_group
from .terminal import note, read_text

METHOD_SECONDS = 600.0  # as long as a person may want to wait


def add_method(parser: argparse.ArgumentParser, *, has_shots: bool = True) -> None:
    options = option_group(parser, "Method options")
    options.add_argument("--method", metavar="NAME", default="coc", help=f"{', '.join(METHODS)} (coc; see coc methods)")
    if has_shots:
        options.add_argument("--shots", metavar="N", type=int, help="put N worked examples into the prompt (0: none)")
    options.add_argument(
        "--examples",
        metavar="FILE",
        type=Path,
        help="use the examples in FILE: `Question: …` lines, each followed by the reply",
    )
    options.add_argument(
        "--repairs", metavar="N", type=int, default=2, help="send a failing program back to the model up to N times (2)"
    )
    options.add_argument(
        "--no-fallback", action="store_true", help="do not try a simpler method if this one gives no answer"
    )
    options.add_argument(
        "--votes", metavar="K", type=int, default=1, help="answer K times and return the majority answer (1)"
    )
    options.add_argument(
        "--value-votes", metavar="K", type=int, default=1, help="request each value K times and use the majority (1)"
    )
    options.add_argument(
        "--think", action="store_true", help="request values that the model is unsure of again, with reasons first"
    )
    options.add_argument(
        "--critique",
        action="store_true",
        help="let the model review the program and its trace before the answer is accepted",
    )


def add_method_seconds(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Method options")
    options.add_argument(
        "--method-seconds",
        metavar="S",
        type=float,
        default=METHOD_SECONDS,
        help=f"end a method after S seconds, and try the quickest one instead, unless --no-fallback is given "
        f"({METHOD_SECONDS:g}; 0: no limit)",
    )


def add_language(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Method options")
    options.add_argument(
        "--language",
        choices=("auto", "python", "sql", "js"),
        default="auto",
        help="the language that the model writes the program in (auto: SQL for a DuckDB database and for large tables, "
        "else Python)",
    )


def read_language(given: argparse.Namespace) -> Language | None:
    """Return the language of programs; None to leave it open. Raises InputError if it is not installed."""
    if given.language == "auto":
        return SQL if _is_better_in_sql(given) else None
    language = language_named({"js": "javascript"}.get(given.language, given.language))
    language.package_paths()
    if given.method == "react" and language is not PYTHON:
        raise InputError(f"the method react runs Python only; use another --method with --language {given.language}")
    return language


def _is_better_in_sql(given: argparse.Namespace) -> bool:
    """Whether the files suggest SQL: Python cannot read one, or all are large tables and no option needs Python."""
    if given.method == "react" or not given.file:
        return False
    why = needs_sql(given.file)
    is_plain = not (given.type or getattr(given, "allow_package", None) or getattr(given, "input", None))
    if not why and is_plain and are_large_tables(given.file):
        why = "the tables are large"
    if why:
        note(f"the model writes SQL: {why} (use --language python for Python)")
    return bool(why)


def read_method(given: argparse.Namespace) -> Ways:
    for option, least in (("shots", 0), ("repairs", 0), ("votes", 1), ("value-votes", 1)):
        check_range(given, option, least)
    if hasattr(given, "method_seconds"):
        check_range(given, "method-seconds", 0)
    method = compose(
        given.method,
        repairs=given.repairs,
        critique=given.critique,
        fallback=not given.no_fallback,
        votes=given.votes,
        doubts=doubts,
        seconds=getattr(given, "method_seconds", 0) or None,  # coc eval has no limit
    )
    examples = read_text(given.examples) if given.examples else None
    return Ways(method=method, shots=given.shots, examples=examples, value_votes=given.value_votes, think=given.think)


def add_answer_type(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Answer options")
    options.add_argument(
        "--type",
        metavar="TYPE",
        help="the type of the answer: int, float, bool, str, date, list[int]…, json, yaml, sql, choice:A,B,C or "
        "SCHEMA.json",
    )
    options.add_argument(
        "--database",
        metavar="FILE",
        help="with --type sql: the SQLite or DuckDB file to query, read-only; the answer is the rows",
    )


def read_answer_type(given: argparse.Namespace, sandbox: Sandbox) -> AnswerType | None:
    return answer_type_of(given.type, given.database, sandbox)
