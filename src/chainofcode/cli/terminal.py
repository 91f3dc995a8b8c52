"""Exit codes, and reading and printing for all commands.

Everything that `coc` prints goes through this module. Text may come from a trace, a guest, a model, a file or the
network, so control characters, including line breaks, are escaped here for all commands.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ..engine import Result
from ..engine.journal import Journal, remove_journal
from ..errors import ChainOfCodeError, InputError
from ..lm.deadline import not_counted
from ..platforms import discard_typed_input, read_stream, read_whole
from ..reasons import Reason
from ..render import USUAL_WIDTH, Page, cut, for_terminal, plain
from ..sandbox.frames import Failure
from ..trace import Answer, Call, Event, Step, Trace

ANSWERED, NO_ANSWER, COULD_NOT_RUN = 0, 1, 2
_MAX_NOTE_CHARS = 2000
_ROWS = 24  # of a terminal that does not state them
_TURNS = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()  # for questions at the terminal
_MAX_DIGITS = 4  # of a number of columns or rows


def read_text(path: Path) -> str:
    """The text of a file; `-` is standard input. Invalid UTF-8 is kept: the compiler reports it."""
    try:
        data = read_stream(sys.stdin.buffer) if str(path) == "-" else read_whole(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


# --- printing -----------------------------------------------------------------------------------------------------


def note(text: str) -> None:
    """Print a one-line message for the user on standard error."""
    write_lines([f"coc: {_shortened(text)}"], sys.stderr)


def note_lines(text: str) -> None:
    """Print a message of several lines; all but the first are indented, so that none looks like another message."""
    first, *more = text.split("\n")
    write_lines([f"coc: {_shortened(first)}", *(f"     {_shortened(line)}" for line in more)], sys.stderr)


def note_in_full(lines: Sequence[str]) -> None:
    """Print a message of several lines without cutting any: the user needs all of them to decide."""
    first, *more = lines
    write_lines([f"coc: {first}", *(f"     {line}" for line in more)], sys.stderr)


def _shortened(line: str) -> str:
    """Return a line of a message, cut off if it is long: it may quote a file or a reply of any size."""
    return line if len(line) <= _MAX_NOTE_CHARS else f"{line[:_MAX_NOTE_CHARS]}… ({len(line):,} characters)"


class NoteHandler(logging.Handler):
    """Prints log messages of libraries as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note_lines(self.format(record))


def print_lines(lines: Iterable[str]) -> None:
    """Print painted lines on standard output."""
    colour = takes_colours(sys.stdout)
    for line in lines:
        sys.stdout.write(for_terminal(line, colour) + "\n")


def print_line(line: str = "") -> None:
    print_lines([line])


def print_json(data: object) -> None:
    """Print data as one line of JSON, with unprintable characters escaped."""
    text = json.dumps(data, ensure_ascii=False)
    sys.stdout.write((text if text.isprintable() else _escaped(text)) + "\n")
    sys.stdout.flush()


def _escaped(text: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def print_result(text: str) -> None:
    """Print a result, such as an answer: unchanged into a pipe or a file, escaped in a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(plain, text.split("\n")))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write painted lines to a stream."""
    colour = takes_colours(stream)
    stream.write("".join(for_terminal(line, colour) + "\n" for line in lines))
    stream.flush()


def overwrite_line(line: str, stream: TextIO, *, is_last: bool = False) -> None:
    """Overwrite the current line of a terminal, cut to its width."""
    shown = cut(plain(line), screen_size(stream).columns - 1)
    stream.write(f"\r{shown}\x1b[K" + ("\n" if is_last else ""))
    stream.flush()


def erase_lines(number: int, stream: TextIO) -> None:
    """Erase the last lines of a terminal, and what was typed below them."""
    if number:
        stream.write(f"\r\x1b[{number}A\x1b[J")


def write_question(question: str) -> None:
    """Write a question to the terminal, without a line break."""
    sys.stderr.write(f"coc: {plain(question)} ")
    sys.stderr.flush()


async def ask_in_terminal(question: str) -> str:
    """Ask a question at the terminal, after those that wait. Unlike a thread that reads, this can be cancelled."""
    turn = _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    with not_counted():
        async with turn:
            discard_typed_input(sys.stdin)
            write_question(question)
            return await _typed_line()


async def _typed_line() -> str:
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    if sys.platform == "win32":  # its event loop cannot wait for standard input
        return (await asyncio.to_thread(sys.stdin.readline)).strip()
    loop.add_reader(sys.stdin, answered.set)
    try:
        await answered.wait()
        return sys.stdin.readline().strip()
    except asyncio.CancelledError:
        write_lines([""], sys.stderr)
        raise
    finally:
        loop.remove_reader(sys.stdin)


def write_picture(codes: str, stream: TextIO) -> None:
    """Write an image: escape sequences around base64, both made by this package."""
    stream.write(codes + "\n")
    stream.flush()


def takes_colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def can_draw(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can erase lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def screen_size(stream: TextIO) -> os.terminal_size:
    """The columns and rows of the terminal behind this stream, which need not be that of standard output."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except OSError:
        columns = rows = 0
    return os.terminal_size((columns or _number("COLUMNS") or USUAL_WIDTH, rows or _number("LINES") or _ROWS))


def text_width(stream: TextIO) -> int:
    """The width of text for a stream: COLUMNS if it is set, that of the terminal, or 100 columns."""
    return _number("COLUMNS") or (screen_size(stream).columns if stream.isatty() else USUAL_WIDTH)


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def output_style() -> tuple[int, bool]:
    """The width of standard output, and whether it shows colours."""
    return text_width(sys.stdout), takes_colours(sys.stdout)


def print_trace(trace: Trace, all_steps: bool, *, has_numbers: bool = False) -> None:
    width, colour = output_style()
    print_lines(Page(width, colour, all_steps, has_numbers).trace(trace))


@contextmanager
def saving_partial_trace(path: Path | None, least: int = 0) -> Iterator[list[Event]]:
    """Yield a list for the events of a run; write them as a trace if the run is interrupted or fails.

    Until `write_trace`, a journal next to the trace has the events so far.
    """
    journal = Journal(path, note) if path is not None else None
    events = _Recording(journal)
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
            write_trace(trace, path, least)
            note(f"partial trace: {path} ('coc resume' continues the run)")
        raise
    finally:
        if journal is not None:
            journal.close()


class _Recording(list[Event]):
    """Events of a run; each is also written to a journal."""

    def __init__(self, journal: Journal | None) -> None:
        super().__init__()
        self._journal = journal

    def append(self, event: Event) -> None:
        super().append(event)
        if self._journal is not None:
            self._journal.add(event)


def write_trace(trace: Trace, path: Path, least: int = 0) -> None:
    """Write a trace, unless it has fewer than `least` reusable events, and remove its journal."""
    if reusable_events(trace) >= least:
        trace.write(path)
    remove_journal(path)


def reusable_events(trace: Trace) -> int:
    """Return how many events of a trace a resumed run can reuse: all but cancelled requests and ends of attempts."""
    return sum(
        not isinstance(event, Answer) and not (isinstance(event, Call) and event.is_abandoned and not event.tool)
        for event in trace.events
    )


def result_data(result: Result) -> dict[str, Any]:
    """A result as a JSON object."""
    answer = result.trace.answer or Answer(Reason.GUEST_DIED)
    step_counts = Counter(step.how for step in result.trace.steps)
    data: dict[str, Any] = {
        "answer": answer.text if answer.is_answered else None,
        "value": answer.value,
        "reason": answer.reason,
        "steps": len(result.trace.steps),
        "lm_calls": result.trace.lm_calls,
        "ahead": step_counts["ahead"],
        "shared": step_counts["shared"],
        "batched": step_counts["batched"],
        "cached": step_counts["cached"] + sum(call.is_cached for call in result.trace.calls),
        "wasted": result.trace.wasted,
        "seconds": round(answer.run_seconds, 6),
        "sandbox": answer.sandbox,
    }
    if result.confidence is not None:
        data["confidence"] = result.confidence
    if result.judgements:
        data["judgements"] = [_judgement_data(step) for step in result.judgements]
    if result.trace.calls:
        data["model"] = result.trace.calls[0].model
        data["usage"] = msgspec.to_builtins(result.usage)
    if answer.artifacts:
        data["artifacts"] = msgspec.to_builtins(answer.artifacts)
    if answer.error is not None:
        data["error"] = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
    return data


def _judgement_data(step: Step) -> dict[str, Any]:
    confidence = msgspec.to_builtins(step.confidence)
    return {"step": step.number, "line": step.line, "call": step.call, "value": step.value, "confidence": confidence}
