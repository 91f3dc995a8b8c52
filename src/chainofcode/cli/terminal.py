"""Exit codes, and reading and printing for all commands."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..engine import Result
from ..errors import ChainOfCodeError, InputError
from ..reasons import Reason
from ..render import Page, plain
from ..sandbox.frames import Failure
from ..trace import Answer, Event, Trace

ANSWERED, NO_ANSWER, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


def read_text(path: Path) -> str:
    """The text of a file; `-` is standard input. Invalid UTF-8 is kept: the compiler reports it."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def note(text: str) -> None:
    """Print a message for the user on standard error."""
    print(f"coc: {plain(text)}", file=sys.stderr, flush=True)


def print_text(text: str) -> None:
    """Print text of a program or a model. In a terminal, control characters are written out."""
    if sys.stdout.isatty():
        text = "\n".join(map(plain, text.split("\n")))
    print(text, flush=True)


def print_json(data: object) -> None:
    print_text(json.dumps(data, ensure_ascii=False))


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def output_style() -> tuple[int, bool]:
    """The width of standard output, and whether it takes colours."""
    terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size((100, 24)).columns, 140) if terminal else 100
    return width, terminal and "NO_COLOR" not in os.environ


def print_trace(trace: Trace, all_steps: bool, *, has_numbers: bool = False) -> None:
    width, colour = output_style()
    print_lines(Page(width, colour, all_steps, has_numbers).trace(trace))


@contextmanager
def saving_partial_trace(path: Path | None) -> Iterator[list[Event]]:
    """A list for the events of a run; they are written as a trace if the run is interrupted or fails."""
    events: list[Event] = []
    started = time.monotonic()
    try:
        yield events
    except (KeyboardInterrupt, asyncio.CancelledError, ChainOfCodeError) as error:
        trace = Trace.of(events)
        if path is not None and trace.events:
            why = None
            if isinstance(error, ChainOfCodeError):
                why = Failure(type=type(error).__name__, message=str(error))
            trace.add(Answer(Reason.INTERRUPTED, error=why, seconds=time.monotonic() - started))
            trace.write(path)
            note(f"the trace as far as it came: {path}")
        raise


def result_data(result: Result) -> dict[str, Any]:
    """A result as a JSON object."""
    answer = result.trace.answer or Answer(Reason.GUEST_DIED)
    hows = Counter(step.how for step in result.trace.steps)
    data: dict[str, Any] = {
        "answer": answer.text if answer.is_answered else None,
        "value": answer.value,
        "reason": answer.reason,
        "steps": len(result.trace.steps),
        "lm_calls": result.trace.lm_calls,
        "ahead": hows["ahead"],
        "shared": hows["shared"],
        "batched": hows["batched"],
        "wasted": result.trace.wasted,
        "seconds": round(answer.seconds, 6),
        "sandbox": answer.sandbox,
    }
    if result.trace.calls:
        data["model"] = result.trace.calls[0].model
        data["usage"] = msgspec.to_builtins(result.usage)
    if answer.artifacts:
        data["artifacts"] = msgspec.to_builtins(answer.artifacts)
    if answer.error is not None:
        data["error"] = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
    return data
