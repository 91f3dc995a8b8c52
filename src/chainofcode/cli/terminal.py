"""What the commands share: exit codes, reading what a person names, showing a trace."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
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
    """A program's text; `-` is standard input. Bytes that are not UTF-8 are the program's fault; the parser says so."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def say(text: str) -> None:
    """What is not ours, on standard output: word for word, but nothing that a terminal would obey."""
    print("\n".join(map(plain, text.split("\n"))) if sys.stdout.isatty() else text, flush=True)


def say_json(data: object) -> None:
    say(json.dumps(data, ensure_ascii=False))


def page() -> tuple[int, bool]:
    """How wide standard output is, and whether it takes colours."""
    terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size((100, 24)).columns, 140) if terminal else 100
    return width, terminal and "NO_COLOR" not in os.environ


def print_trace(trace: Trace, all_steps: bool, *, has_numbers: bool = False) -> None:
    width, colour = page()
    for line in Page(width, colour, all_steps, has_numbers).trace(trace):
        print(line)


@contextmanager
def keeping(path: Path | None) -> Iterator[list[Event]]:
    """A list for the events of a run; they are written as a trace if the run is interrupted or fails."""
    events: list[Event] = []
    started = time.monotonic()
    try:
        yield events
    except (KeyboardInterrupt, asyncio.CancelledError, ChainOfCodeError) as error:
        trace = Trace.of(events)
        if path is not None and trace.events:
            why = Failure(type(error).__name__, str(error)) if isinstance(error, ChainOfCodeError) else None
            trace.add(Answer(Reason.INTERRUPTED, error=why, seconds=time.monotonic() - started))
            trace.write(path)
            print(f"coc: the trace as far as it came: {plain(str(path))}", file=sys.stderr)
        raise


def record(result: Result) -> dict[str, Any]:
    """A result as one JSON object."""
    answer = result.trace.answer or Answer(Reason.GUEST_DIED)
    told: dict[str, Any] = {
        "answer": answer.text if answer.is_answered else None,
        "value": answer.value,
        "reason": answer.reason,
        "steps": len(result.trace.steps),
        "lm_calls": result.trace.lm_calls,
        "ahead": sum(step.how == "ahead" for step in result.trace.steps),
        "shared": sum(step.how == "shared" for step in result.trace.steps),
        "batched": sum(step.how == "batched" for step in result.trace.steps),
        "wasted": result.trace.wasted,
        "seconds": round(answer.seconds, 6),
        "sandbox": answer.sandbox,
    }
    if result.trace.calls:
        told["model"] = result.trace.calls[0].model
        told["usage"] = msgspec.to_builtins(result.usage)
    if answer.artifacts:
        told["artifacts"] = msgspec.to_builtins(answer.artifacts)
    if answer.error is not None:
        told["error"] = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
    return told
