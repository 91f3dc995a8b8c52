"""The command `coc`: everything a person does with a program, in one place."""

from __future__ import annotations

import argparse
import ast
import asyncio
import datetime
import io
import json
import keyword
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .emulator import Table, not_json
from .engine import Options, Result, arun, run
from .errors import ChainOfCodeError, InputError
from .guest.values import decode
from .render import Page
from .sandbox import Limits
from .trace import Answer, Trace

ANSWERED, NO_ANSWER, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130
_LIMITS = {
    "cpu": "cpu_seconds",
    "run": "run_seconds",
    "wall": "wall_seconds",
    "memory": "memory_bytes",
    "output": "output_bytes",
    "calls": "lm_calls",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `coc`; the exit code is 0 answered, 1 no answer, 2 could not run."""
    for stream in (sys.stdout, sys.stderr):  # odd text from a program must not stop us; in JSON it is an escape
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except ChainOfCodeError as error:
        print(f"coc: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        print("coc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _forget_stdout()
        return ANSWERED
    except OSError as error:
        _forget_stdout()
        print(f"coc: cannot write: {error.strerror}", file=sys.stderr)
        return COULD_NOT_RUN


def _forget_stdout() -> None:
    """Whatever is still buffered has nowhere to go; Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script() -> NoReturn:
    sys.exit(main())


# --- arguments ----------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coc", description="Reason in code: Python runs what it can, a language model runs the rest."
    )
    from . import __version__

    parser.add_argument("--version", action="version", version=f"coc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    show = commands.add_parser("show", help="show a trace that was written with --trace")
    show.add_argument("trace", metavar="TRACE", type=Path)
    show.add_argument("--all", action="store_true", help="every step, not the first few of each statement")
    show.set_defaults(command=_show)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a program; undefined functions get their values from a file",
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
        "--input",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable for the program: a Python literal, else text",
    )
    run.add_argument("--question", metavar="TEXT", help="the variable `question`")
    run.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the trace")
    run.add_argument("--trace", metavar="FILE", type=Path, help="write the trace as JSON lines")
    run.add_argument("--all", action="store_true", help="show every step, not the first few of each statement")
    run.add_argument(
        "--allow-package",
        metavar="NAME",
        action="append",
        default=[],
        help="let the program import an installed package",
    )
    run.add_argument(
        "--limit", metavar="WHICH=N", action="append", default=[], help=f"{', '.join(_LIMITS)} (seconds, bytes, count)"
    )
    run.add_argument(
        "--policy",
        choices=["strict", "paper"],
        default="strict",
        help="paper: emulate every failing statement, as published",
    )
    run.add_argument(
        "--clock", metavar="WHEN", help="the program's date and time: `now`, or as in 2025-01-31T12:00 (UTC)"
    )
    run.add_argument("--seed", metavar="N", type=int, help="the seed of the program's random numbers")
    run.set_defaults(command=_run)


def _options(given: argparse.Namespace) -> Options:
    options = Options(
        question=given.question,
        inputs=dict(_input(text) for text in given.input),
        policy=given.policy,
        packages=tuple(name for text in given.allow_package for name in text.split(",")),
        limits=_limits(given.limit),
    )
    if given.clock is not None:
        options["clock"] = _clock(given.clock)
    if given.seed is not None:
        options["seed"] = given.seed
    return options


def _clock(text: str) -> float:
    if text == "now":
        return time.time()
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--clock takes `now` or a time as in 2025-01-31T12:00, not {text!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"--input takes NAME=VALUE, not {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return name, value


def _limits(given: Sequence[str]) -> Limits:
    chosen: dict[str, Any] = {}
    for text in given:
        which, _, number = text.partition("=")
        try:
            field = _LIMITS[which]
            value = float(number)
            if not 0 < value < 1e18:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(
                f"--limit takes one of {', '.join(_LIMITS)} and a number above 0, as in run=5; not {text!r}"
            ) from None
        chosen[field] = value if field.endswith("seconds") else int(value)
    return Limits(**chosen)


# --- coc run ------------------------------------------------------------------------------------------------------


def _run(given: argparse.Namespace) -> int:
    if given.program.suffix == ".jsonl":
        return asyncio.run(_run_records(given))
    source = _read(given.program)
    table = Table.read(given.values) if given.values else Table([])
    result = run(source, table, **_options(given))
    if given.trace:
        result.trace.write(given.trace)
    if given.json:
        print(json.dumps(_record(result), ensure_ascii=False))
    else:
        _print_trace(result.trace, given.all)
        sys.stdout.flush()
        for hint in _hints(result):
            print(f"coc: {hint}", file=sys.stderr)
    return ANSWERED if result.reason == "answered" else NO_ANSWER


def _hints(result: Result) -> Iterator[str]:
    """What to do next about a run that has no answer."""
    error = result.error
    if error is None:
        return
    call = re.fullmatch(
        r"no value for the (?:call|statement) (.*?)(?:; (?:the values have|did you mean) .*)?", error.message, re.DOTALL
    )
    if result.reason == "emulation failed" and call:
        yield f'give it a value, as a line of the file for --values: {json.dumps({"call": call[1]})[:-1]}, "value": …}}'
    elif result.reason.startswith("limit:") and (which := result.reason.partition(":")[2]) in _LIMITS:
        yield f"the limit is an option: --limit {which}={getattr(Limits(), _LIMITS[which]) * 10:g}"
    elif error.type == "NameError" and "did you mean" not in error.message:
        name = error.message.split("'")[1] if error.message.count("'") >= 2 else "NAME"
        yield (
            "give the question with --question TEXT" if name == "question" else f"is it an input? --input {name}=VALUE"
        )
    elif error.type == "EOFError":
        yield "a program has no standard input: give it what it needs with --input NAME=VALUE"


def _record(result: Result) -> dict[str, Any]:
    """A result as one JSON object."""
    answer = result.trace.answer or Answer("guest died")
    record: dict[str, Any] = {
        "answer": answer.text if answer.reason == "answered" else None,
        "value": answer.value,
        "reason": answer.reason,
        "steps": len(result.trace.steps),
        "lm_calls": result.trace.lm_calls,
        "seconds": round(answer.seconds, 6),
    }
    if answer.error is not None:
        record["error"] = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
    return record


def _read(path: Path) -> str:
    """A program's text; `-` is standard input. Bytes that are not UTF-8 are the program's fault; the parser says so."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def _print_trace(trace: Trace, all_steps: bool) -> None:
    terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size((100, 24)).columns, 140) if terminal else 100
    colour = terminal and "NO_COLOR" not in os.environ
    for line in Page(width, colour, all_steps).trace(trace):
        print(line)


# --- many programs ------------------------------------------------------------------------------------------------


async def _run_records(given: argparse.Namespace) -> int:
    """One JSON line per record as it finishes; a bad record is reported and does not stop the others."""
    if given.trace:
        raise InputError("--trace takes one program; run the records one by one")
    base = _options(given)
    shared = Table.read(given.values) if given.values else None
    lines = _read(given.program).split("\n")
    slots = asyncio.Semaphore(max(os.cpu_count() or 1, 1))
    tasks = [
        asyncio.create_task(_run_record(n, line, base, shared, slots))
        for n, line in enumerate(lines, 1)
        if line.strip()
    ]
    worst = ANSWERED
    try:
        async for record, code in _as_finished(tasks):
            print(json.dumps(record, ensure_ascii=False), flush=True)
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
    number: int, line: str, base: Options, shared: Table | None, slots: asyncio.Semaphore
) -> tuple[dict[str, Any], int]:
    identity: Any = number
    try:
        record = json.loads(line)
        identity = record.get("id", number) if isinstance(record, dict) else number
        if not isinstance(record, dict) or not isinstance(record.get("program"), str):
            raise ValueError('expected {"id": …, "program": "…"}')
        table = Table.of_records(record["calls"], f"record {identity}") if "calls" in record else shared or Table([])
        given = record.get("inputs") or {}
        if not isinstance(given, dict):
            raise ValueError('"inputs" takes an object of names and values')
        inputs = {name: decode(value) for name, value in given.items()}
        options = Options(**{**base, "inputs": {**base["inputs"], **inputs}})
        if record.get("question") is not None:
            options["question"] = str(record["question"])
    except (ValueError, RecursionError, TypeError) as error:
        message = not_json(error) if isinstance(error, json.JSONDecodeError) else str(error)
        told = {"type": "record", "message": f"line {number}: {message}", "line": None}
        return {"id": identity, "answer": None, "reason": "not run", "error": told}, COULD_NOT_RUN
    async with slots:
        try:
            result = await arun(record["program"], table, **options)
        except InputError as error:
            told = {"type": "record", "message": f"line {number}: {error}", "line": None}
            return {"id": identity, "answer": None, "reason": "not run", "error": told}, COULD_NOT_RUN
    return {"id": identity, **_record(result)}, ANSWERED if result.reason == "answered" else NO_ANSWER


# --- coc show -----------------------------------------------------------------------------------------------------


def _show(given: argparse.Namespace) -> int:
    trace = Trace.read(given.trace)
    _print_trace(trace, given.all)
    return ANSWERED if trace.answer is not None and trace.answer.reason == "answered" else NO_ANSWER


if __name__ == "__main__":
    script()
