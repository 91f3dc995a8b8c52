"""`coc run`: runs one program and prints its trace, or many and prints one JSON line each."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ...emulator import Answering, Table, Tool, Toolbox, not_json
from ...engine import Result, RunOptions, arun, execute
from ...engine.closing import close_after
from ...errors import InputError
from ...languages import language_of_file
from ...sandbox import Sandbox
from ...trace import Event, check_place
from ...values.codec import decode
from ..artifact_output import keep_artifacts
from ..asked_options import asked_options
from ..hints import hints
from ..live import LiveDisplay
from ..model_options import add_person
from ..parser import check_range
from ..program_files import read_program
from ..query_options import with_files
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import (
    ANSWERED,
    COULD_NOT_RUN,
    NO_ANSWER,
    note,
    print_json,
    print_trace,
    read_text,
    result_data,
    saving_partial_trace,
    write_trace,
)
from ..tool_options import add_tools, chosen_tools, toolbox_of
from ..value_sources import add_value_sources, chosen_answering, first_known, known_values

_MAX_DELAY_SECONDS = 3600


def add_to(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a program; functions it does not define get their values from a file or a model",
        description="Run a program in Python, JavaScript or SQL (by the suffix of the file), or every record of "
        "PROGRAMS.jsonl (one JSON result per line). "
        "Exit code: 0 answered, 1 no answer, 2 could not run.",
        examples=(
            "coc run program.py --values values.jsonl",
            "coc run program.py --model ollama:llama3.2 --trace run.jsonl",
            "coc run program.js --model openai:gpt-4o-mini --input limit=3",
        ),
    )
    run.add_argument(
        "program",
        metavar="PROGRAM",
        type=Path,
        help="a program, a model's reply that contains one (- for standard input), or a .jsonl file of records",
    )
    run.add_argument(
        "--value-delay", metavar="S", type=float, default=0.0, help="delay each value of --values by S seconds"
    )
    run.add_argument("--json", action="store_true", help="print one JSON object instead of the trace")
    run.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write a trace of the run to FILE, for coc show, why, verify and replay",
    )
    run.add_argument("--all", action="store_true", help="print every step, not only the first three of each statement")
    add_value_sources(run)
    add_person(run)
    add_tools(run)
    add_options(run)
    run.set_defaults(command=_command)


# --- one program --------------------------------------------------------------------------------------------------


def _command(given: argparse.Namespace) -> int:
    with chosen_tools(given) as tools:
        if given.program.suffix == ".jsonl":
            return asyncio.run(_run_records(given, toolbox_of(tools, given)))
        return _run(given, tools)


def _run(given: argparse.Namespace, available: Sequence[Tool]) -> int:
    source = read_program(given.program)
    live = LiveDisplay(sys.stderr, writes_steps=False)
    tools = toolbox_of(available, given, live.paused)
    options = dataclasses.replace(read_options(given), tools=tools, language=language_of_file(given.program))
    options = dataclasses.replace(options, asked=asked_options(given))
    check_range(given, "value-delay", 0, _MAX_DELAY_SECONDS)
    if given.trace:
        check_place(given.trace)
    with live, chosen_answering(given, live) as answering, chosen_sandbox(given, spares=0) as sandbox:
        options = with_files(given, options, language_of_file(given.program), sandbox)
        emulator = first_known(known_values(given), answering, given.value_delay)
        with saving_partial_trace(given.trace) as events:
            asyncio.run(_execute(live, events, execute(source, emulator, sandbox=sandbox, options=options)))
    result = Result.of(events)
    try:  # print the answer even if the trace cannot be written
        _print(result, given)
    finally:
        if given.trace:
            write_trace(result.trace, given.trace)
    return ANSWERED if result.is_answered else NO_ANSWER


async def _execute(live: LiveDisplay, events: list[Event], run: AsyncIterator[Event]) -> None:
    async with close_after(run) as made:
        async for event in made:
            events.append(event)
            live.show(event)


def _print(result: Result, given: argparse.Namespace) -> None:
    if given.json:
        print_json(result_data(result))
    else:
        print_trace(result.trace, given.all)
    sys.stdout.flush()
    keep_artifacts(result, given)
    if not given.json:
        for hint in hints(result, given):
            note(hint)


# --- many programs ------------------------------------------------------------------------------------------------


async def _run_records(given: argparse.Namespace, tools: Toolbox) -> int:
    """Print one JSON line per record as it finishes; a bad record does not stop the others."""
    for option in ("trace", "file", "artifacts", "value_delay"):
        if getattr(given, option):
            raise InputError(f"--{option.replace('_', '-')} works with one program; run the records one by one")
    cores = max(os.cpu_count() or 1, 1)
    with chosen_answering(given) as answering, chosen_sandbox(given, spares=cores) as sandbox:
        options = dataclasses.replace(read_options(given), tools=tools)
        runner = _RecordRunner(options, known_values(given), answering, sandbox, asyncio.Semaphore(cores))
        lines = read_text(given.program).split("\n")
        tasks = [asyncio.create_task(runner.run(n, line)) for n, line in enumerate(lines, 1) if line.strip()]
        worst = ANSWERED
        try:
            for finished in asyncio.as_completed(tasks):
                data, code = await finished
                print_json(data)
                worst = max(worst, code)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return worst


class _RecordRunner:
    """Runs lines of a .jsonl file: {"id": …, "program": …, "calls": …, "inputs": …, "question": …}."""

    def __init__(
        self, options: RunOptions, values: Table, answering: Answering, sandbox: Sandbox, slots: asyncio.Semaphore
    ) -> None:
        self._options, self._values, self._answering = options, values, answering
        self._sandbox, self._slots = sandbox, slots

    async def run(self, number: int, line: str) -> tuple[dict[str, Any], int]:
        """Return the result of a record as JSON data, and the exit code."""
        id: Any = number
        try:
            record = json.loads(line)
            id = record.get("id", number) if isinstance(record, dict) else number
            source, table, options = self._parsed(record, id)
        except (ValueError, RecursionError, TypeError) as error:
            return _not_run(id, number, error)
        async with self._slots:
            try:
                emulator = first_known(table, self._answering)
                result = await arun(source, emulator, sandbox=self._sandbox, options=options)
            except InputError as error:
                return _not_run(id, number, error)
        return {"id": id, **result_data(result)}, ANSWERED if result.is_answered else NO_ANSWER

    def _parsed(self, record: Any, id: Any) -> tuple[str, Table, RunOptions]:
        if not isinstance(record, dict) or not isinstance(record.get("program"), str):
            raise ValueError('expected {"id": …, "program": "…"}')
        table = Table.of_records(record["calls"], f"record {id}") if "calls" in record else self._values
        given = record.get("inputs") or {}
        if not isinstance(given, dict):
            raise ValueError('"inputs" must be an object of names and values')
        inputs = {name: decode(value) for name, value in given.items()}
        options = dataclasses.replace(self._options, inputs={**self._options.inputs, **inputs})
        if record.get("question") is not None:
            options = dataclasses.replace(options, question=str(record["question"]))
        return record["program"], table, options


def _not_run(id: Any, number: int, error: Exception) -> tuple[dict[str, Any], int]:
    message = not_json(error) if isinstance(error, json.JSONDecodeError) else str(error)
    failure = {"type": "record", "message": f"line {number}: {message}", "line": None}
    return {"id": id, "answer": None, "reason": "not run", "error": failure}, COULD_NOT_RUN
