"""`coc run`: one program and its trace, or many and one JSON line each."""

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

from ...emulator import Delayed, Emulator, First, Table, Toolbox, asking, not_json
from ...engine import Result, RunOptions, arun, execute
from ...errors import InputError
from ...lm import LM
from ...methods import files_of
from ...render import plain
from ...sandbox import Sandbox
from ...trace import Event, check_place
from ...values.codec import decode
from ..artifact_output import keep
from ..hints import hints
from ..model_options import add_model, named_model
from ..run_options import add_options, chosen_sandbox, read_options
from ..terminal import ANSWERED, COULD_NOT_RUN, NO_ANSWER, keeping, print_trace, read_text, record, say_json
from ..tool_options import add_tools, approved, chosen_tools

_MAX_DELAY_SECONDS = 3600


def add_to(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a program; undefined functions get their values from a file or a model",
        description="Run PROGRAM.py, or every record of PROGRAMS.jsonl (one JSON result a line). "
        "Exit code: 0 answered, 1 no answer, 2 could not run.",
    )
    run.add_argument(
        "program",
        metavar="PROGRAM",
        type=Path,
        help="a .py file, a model's reply as text (- for standard input), or a .jsonl file",
    )
    run.add_argument(
        "--values", metavar="FILE", type=Path, help='lines of {"call": "is_fruit(\'apple\')", "value": true}'
    )
    run.add_argument(
        "--value-delay", metavar="S", type=float, default=0.0, help="each of these values takes S seconds to come"
    )
    run.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the trace")
    run.add_argument("--trace", metavar="FILE", type=Path, help="write the trace as JSON lines")
    run.add_argument("--all", action="store_true", help="show every step, not the first few of each statement")
    add_model(run)
    add_tools(run)
    add_options(run)
    run.set_defaults(command=_command)


# --- coc run ------------------------------------------------------------------------------------------------------


def _command(given: argparse.Namespace) -> int:
    with chosen_tools(given) as tools:
        if given.program.suffix == ".jsonl":
            return asyncio.run(_run_records(given, approved(tools, given)))
        return _run(given, approved(tools, given))


def _run(given: argparse.Namespace, tools: Toolbox) -> int:
    source, options = read_text(given.program), dataclasses.replace(read_options(given), tools=tools)
    if not 0 <= given.value_delay <= _MAX_DELAY_SECONDS:
        raise InputError(f"--value-delay takes 0 to {_MAX_DELAY_SECONDS} seconds, not {given.value_delay:g}")
    if given.trace:
        check_place(given.trace)
    with named_model(given) as lm, chosen_sandbox(given, spares=0) as sandbox:
        if given.file:
            options = asyncio.run(files_of(given.file, options, sandbox)).granted(options)
        emulator = _emulator(_values(given), lm, given.value_delay)
        with keeping(given.trace) as events:
            asyncio.run(_execute(source, emulator, sandbox, options, events))
    result = Result.of(events)
    try:  # the answer first: it was paid for
        _print(result, given)
    finally:
        if given.trace:
            result.trace.write(given.trace)
    return ANSWERED if result.reason == "answered" else NO_ANSWER


async def _execute(source: str, emulator: Emulator, sandbox: Sandbox, options: RunOptions, events: list[Event]) -> None:
    async for event in execute(source, emulator, sandbox=sandbox, options=options):
        events.append(event)  # noqa: PERF401 - what came before an interruption counts


def _print(result: Result, given: argparse.Namespace) -> None:
    if given.json:
        say_json(record(result))
    else:
        print_trace(result.trace, given.all)
    sys.stdout.flush()
    keep(result, given)
    if not given.json:
        for hint in hints(result, given):
            print(f"coc: {plain(hint)}", file=sys.stderr)


def _values(given: argparse.Namespace) -> Table:
    return Table.read(given.values) if given.values else Table([])


def _emulator(table: Table, lm: LM | None, delay: float) -> Emulator:
    """The values that are known, when they have come; the model for the rest."""
    known = Delayed(table.fresh(), delay) if delay else table.fresh()
    return known if lm is None else First(known, asking(lm))


# --- many programs ------------------------------------------------------------------------------------------------


async def _run_records(given: argparse.Namespace, tools: Toolbox) -> int:
    """One JSON line per record as it finishes; a bad record is reported and does not stop the others."""
    for option in ("trace", "file", "artifacts", "value_delay"):
        if getattr(given, option):
            raise InputError(f"--{option.replace('_', '-')} takes one program; run the records one by one")
    cores = max(os.cpu_count() or 1, 1)
    with named_model(given) as lm, chosen_sandbox(given, spares=cores) as sandbox:
        return await _run_lines(given, tools, lm, sandbox, asyncio.Semaphore(cores))


async def _run_lines(
    given: argparse.Namespace, tools: Toolbox, lm: LM | None, sandbox: Sandbox, slots: asyncio.Semaphore
) -> int:
    base = dataclasses.replace(read_options(given), tools=tools)
    shared = _values(given)
    lines = read_text(given.program).split("\n")
    tasks = [
        asyncio.create_task(_run_record(n, line, base, shared, lm, sandbox, slots))
        for n, line in enumerate(lines, 1)
        if line.strip()
    ]
    worst = ANSWERED
    try:
        async for record, code in _as_finished(tasks):
            say_json(record)
            worst = max(worst, code)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return worst


async def _as_finished(
    tasks: Sequence[asyncio.Task[tuple[dict[str, Any], int]]],
) -> AsyncIterator[tuple[dict[str, Any], int]]:
    for task in asyncio.as_completed(tasks):
        yield await task


async def _run_record(
    number: int, line: str, base: RunOptions, shared: Table, lm: LM | None, sandbox: Sandbox, slots: asyncio.Semaphore
) -> tuple[dict[str, Any], int]:
    identity: Any = number
    try:
        read = json.loads(line)
        identity = read.get("id", number) if isinstance(read, dict) else number
        if not isinstance(read, dict) or not isinstance(read.get("program"), str):
            raise ValueError('expected {"id": …, "program": "…"}')
        table = Table.of_records(read["calls"], f"record {identity}") if "calls" in read else shared
        given = read.get("inputs") or {}
        if not isinstance(given, dict):
            raise ValueError('"inputs" takes an object of names and values')
        inputs = {name: decode(value) for name, value in given.items()}
        options = dataclasses.replace(base, inputs={**base.inputs, **inputs})
        if read.get("question") is not None:
            options = dataclasses.replace(options, question=str(read["question"]))
    except (ValueError, RecursionError, TypeError) as error:
        message = not_json(error) if isinstance(error, json.JSONDecodeError) else str(error)
        told = {"type": "record", "message": f"line {number}: {message}", "line": None}
        return {"id": identity, "answer": None, "reason": "not run", "error": told}, COULD_NOT_RUN
    async with slots:
        try:
            result = await arun(read["program"], _emulator(table, lm, 0), sandbox=sandbox, options=options)
        except InputError as error:
            told = {"type": "record", "message": f"line {number}: {error}", "line": None}
            return {"id": identity, "answer": None, "reason": "not run", "error": told}, COULD_NOT_RUN
    return {"id": identity, **record(result)}, ANSWERED if result.reason == "answered" else NO_ANSWER
