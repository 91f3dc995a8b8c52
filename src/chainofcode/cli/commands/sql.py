"""`coc sql`: runs a query over files or a database; undefined functions get their values from a file or a model."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from ...emulator import Emulator
from ...engine import RunOptions
from ...engine.closing import close_after
from ...languages import SQL
from ...methods.queries import QueryResult, RecordingEmulator, execute_query, known_rows
from ...sandbox import Sandbox
from ...trace import Event, check_place
from ..hints import hints
from ..parser import add_list
from ..query_options import with_files
from ..query_output import check_output, print_csv, print_table, write_output
from ..run_options import add_limits, add_overlap, add_sandbox, chosen_sandbox, read_options
from ..terminal import (
    ANSWERED,
    NO_ANSWER,
    note,
    print_json,
    print_trace,
    read_text,
    result_data,
    saving_partial_trace,
    write_trace,
)
from ..value_sources import add_value_sources, chosen_answering, first_known, known_values

# Options of other commands that a query does not use.
_UNUSED: dict[str, Any] = {
    "question": None, "input": [], "policy": "strict", "allow_package": [], "allow_read": [], "scratch": False,
    "clock": None, "seed": None, "artifacts": None, "ask_me": None,
}  # fmt: skip


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "sql",
        help="run an SQL query over files; undefined functions get their values from a file or a model",
        description="Run a query over CSV, JSON, JSON lines and Parquet files, or a database. A table is named after "
        "its file. Exit code: 0 answered, 1 no answer, 2 could not run.",
        examples=(
            'coc sql "SELECT count(*) FROM reviews WHERE is_sarcastic(text)" --file reviews.csv --model ollama:mistral',
            "coc sql query.sql --file shop.sqlite --values values.jsonl --csv",
        ),
    )
    parser.add_argument("query", metavar="QUERY", help="the query, a .sql file, or - for standard input")
    add_list(parser, "--file", "FILE", "a table: CSV, TSV, JSON, JSON lines or Parquet; one may be a database")
    add_value_sources(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--csv", action="store_true", help="print the rows as CSV")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the rows to a .csv, .jsonl or .parquet file")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write a trace of the run to FILE, for coc show, why, verify and replay",
    )
    parser.add_argument("--show", action="store_true", help="also print the steps of the run")
    add_overlap(parser)
    add_sandbox(parser)
    add_limits(parser)
    parser.set_defaults(command=_command, all=False, **_UNUSED)


def query_text(given: str) -> str:
    """Return the text of a query: from standard input, from a .sql file, or as given."""
    if given == "-" or (given.lower().endswith(".sql") and not any(letter.isspace() for letter in given.strip())):
        return read_text(Path(given))
    return given


def _command(given: argparse.Namespace) -> int:
    query, options = query_text(given.query), read_options(given)
    for path in (given.trace, given.out):
        if path:
            check_place(path)
    check_output(given)
    with chosen_answering(given) as answering, chosen_sandbox(given, spares=0) as sandbox:
        options = with_files(given, options, SQL, sandbox)
        with saving_partial_trace(given.trace) as events:
            emulator = RecordingEmulator(first_known(known_values(given), answering))
            asyncio.run(_execute(query, emulator, sandbox, options, events))
        result = QueryResult.of(events)
        partial = _partial(query, result, emulator, sandbox, options)
    try:
        _print(result, partial, given)
    finally:
        if given.trace:
            write_trace(result.trace, given.trace)
    return ANSWERED if result.is_answered else NO_ANSWER


async def _execute(query: str, emulator: Emulator, sandbox: Sandbox, options: RunOptions, events: list[Event]) -> None:
    async with close_after(execute_query(query, emulator, sandbox, options)) as run:
        async for event in run:
            events.append(event)  # noqa: PERF401 - an interruption must not lose earlier events


def _partial(
    query: str, result: QueryResult, emulator: RecordingEmulator, sandbox: Sandbox, options: RunOptions
) -> QueryResult | None:
    """Return the rows that are known if the budget ended the run."""
    if not result.reason.is_budget:
        return None
    return asyncio.run(known_rows(query, emulator.values, sandbox, options))


def _print(result: QueryResult, partial: QueryResult | None, given: argparse.Namespace) -> None:
    shown = result if partial is None else partial
    if given.json:
        data = result_data(result)
        print_json({**data, "partial": shown.rows} if partial is not None else data)
    elif given.csv:
        print_csv(shown)
    elif shown.is_answered:
        print_table(shown)
    if given.show or (not given.json and not shown.is_answered):
        print_trace(result.trace, given.all)
    sys.stdout.flush()
    if given.out and shown.is_answered:
        write_output(shown, given.out)
    if partial is not None:
        note(f"the run ended early ({result.reason}): these are the rows known so far")
    if not given.json:
        for hint in hints(result, given):
            note(hint)
