"""Live display of a run on standard error: what ran each line, the values, the cost.

In a terminal you watch each line of the program run, and the trace follows the answer; elsewhere each step is a line
of text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TextIO

from ..lm import LM, Around, Completion, Message, Usage
from ..program import Program
from ..render import GUTTER, Page, count, cut, fit, paint, plain, what
from ..trace import Answer, Call, Event, Header, Step, Trace
from .progress import ProgressBar
from .screen import Screen
from .terminal import can_draw, takes_colours, text_width, write_lines

_PREFIX = 11  # columns before and after the source
_LEAST_SOURCE = 24  # columns
_LEAST_VALUE = 10  # columns; a narrower terminal shows the program without values
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveDisplay:
    """Shows a run: in a terminal as a picture, which is erased at the end, elsewhere as a line for each step.

    Use it as a context manager around each run. After the answer, `write_trace` writes the trace to a terminal.
    Without `writes_steps`, nothing is written elsewhere, for a command that prints the trace itself.
    """

    def __init__(
        self, stream: TextIO, *, is_quiet: bool = False, all_steps: bool = False, writes_steps: bool = True
    ) -> None:
        self._stream, self._is_quiet, self._all_steps = stream, is_quiet, all_steps
        self._writes_steps = writes_steps and not is_quiet
        self._is_terminal = can_draw(stream) and not is_quiet
        self._model = self._activity = ""
        self._open = 0
        self._bar = ProgressBar("weights")
        self._screen = Screen(stream, self._picture)
        self._reset()

    def _reset(self) -> None:
        self._usage, self._asked, self._started = Usage(), 0, time.monotonic()
        self._events: list[Event] = []
        self._page = self._new_page()
        self._view: _ProgramView | None = None  # of the program that runs now
        self._before: Answer | None = None  # the end of the attempt before

    def _new_page(self) -> Page:
        return Page(text_width(self._stream), takes_colours(self._stream), self._all_steps)

    def __enter__(self) -> LiveDisplay:
        self._reset()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        self._screen.stop()
        if kind is not None:  # no answer will follow
            self.write_trace()

    def write_trace(self) -> None:
        """Write the steps of the run, and its cost, to a terminal; elsewhere, they were written as they happened."""
        events, self._events = self._events, []
        if self._is_terminal:
            write_lines(self._trace(Trace.of(events)), self._stream)

    def watch(self, lm: LM) -> LM:
        """Wrap a model to count its requests."""
        self._model = " + ".join(filter(None, [self._model, plain(lm.name)]))
        return _CountedLM(lm, self)

    def paused(self) -> AbstractContextManager[None]:
        """Draw nothing until the block ends."""
        return self._screen.paused()

    def progress(self, done: int, total: int, source: str) -> None:
        """Show what a model does before its first reply: downloading, loading, reading its instructions."""
        if not self._is_terminal:
            if not self._is_quiet or total:
                self._bar(done, total, source)
        elif done < total:
            self._activity = plain(self._bar.text(done, total, source))
        else:
            self._activity = "" if total else plain(source)

    def show(self, event: Event) -> None:
        self._events.append(event)
        if self._is_terminal:
            self._screen.start()
        elif self._writes_steps:
            write_lines(self._text(event), self._stream)
        match event:
            case Header():
                self._started = time.monotonic()
            case Call():
                self._usage += event.usage
            case Program():
                self._view = _ProgramView(event)
            case Step() if self._view is not None:
                self._view.note(event)
            case Answer():
                self._view, self._before = None, event

    def opened(self, number: int) -> None:
        """Count requests that were sent, or, with a negative number, received."""
        self._open += number
        self._asked += max(number, 0)
        self._activity = "" if number < 0 else self._activity
        if self._writes_steps and not self._is_terminal and self._asked == 1 and number > 0:
            write_lines([f"asking {self._model} …"], self._stream)

    # --- text -------------------------------------------------------------------------------------------------

    def _text(self, event: Event) -> Iterator[str]:
        """Return an event as lines, where nothing can be drawn."""
        program = self._view.program if self._view is not None else None
        match event:
            case Call() if program is None and not event.is_abandoned:
                yield f"{plain(event.model)} replied in {event.seconds:.1f} s"
            case Program():
                yield from self._page.begin(event)
            case Step() if program is not None:
                yield from self._page.next(program, event)
            case Answer():
                if program is not None:
                    yield from self._page.rest(program)
                yield from self._page.turn(event) if event.then else self._end(event)

    def _end(self, answer: Answer) -> Iterator[str]:
        if not answer.is_answered:
            yield from self._page.answer(answer)
        yield self._status(answer.run_seconds)

    def _trace(self, trace: Trace) -> Iterator[str]:
        """Return a run as lines, after its answer. A run that was interrupted has no status."""
        page, answer = self._new_page(), trace.answer
        if answer is None or answer.then:
            yield from page.attempts(trace)
            return
        if not answer.is_answered:
            yield from page.answer(answer)
        yield from page.attempts(trace)
        yield self._status(answer.run_seconds)

    def _status(self, seconds: float, in_flight: int = 0) -> str:
        parts = self._cost(in_flight) if self._model else []
        return "      " + " · ".join([*parts, f"{seconds:.1f} s"])

    def _cost(self, in_flight: int) -> Iterator[str]:
        usage = self._usage
        yield self._model
        yield count(self._asked, "LM request") + (f" ({in_flight} in flight)" if in_flight else "")
        yield f"{usage.prompt_tokens + usage.completion_tokens:,} tokens"
        if usage.dollars is None:
            yield "price unknown"
        elif usage.dollars:
            yield f"${usage.dollars:.4f}"

    # --- the picture ------------------------------------------------------------------------------------------

    def _picture(self, columns: int, rows: int) -> list[str]:
        view, before, seconds = self._view, self._before, time.monotonic() - self._started
        frame = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
        activity = self._activity or ("asking" if view is None and self._model else "running")
        status = cut(f"{frame} {activity}{self._status(seconds, self._open)[5:]}", columns - 1)
        if columns <= _PREFIX:
            return [status]
        turn = list(Page(columns, self._page.colour).turn(before)) if before is not None and before.then else []
        program = view.rows(columns, rows - 2, self._page.colour) if view is not None else []
        return [*turn, *program, status]


class _ProgramView:
    """A program that runs, a row for each line: what ran it last, and the value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lines = [plain(line.expandtabs(4)) for line in program.source.rstrip().split("\n")]
        self._line = 0  # that ran last
        self._notes: dict[int, tuple[str, Step]] = {}  # line → what ran it last, and the step with its value

    def note(self, step: Step) -> None:
        self._line = step.line
        by, valued = self._notes.get(step.line, (step.by, step))
        if not step.is_code or by not in ("lm", "tool"):  # values of the model stay visible
            self._notes[step.line] = (step.by, step if _value(step, 1) else valued)

    def rows(self, columns: int, most: int, colour: bool) -> list[str]:
        """Return at most this many rows, those around the line that ran last."""
        first = max(min(self._line - 1 - most // 2, len(self._lines) - most), 0)
        numbers = range(first, min(first + most, len(self._lines)))
        return [self._row(number + 1, columns, colour) for number in numbers]

    def _row(self, number: int, columns: int, colour: bool) -> str:
        by, step = self._notes.get(number, ("", None))
        mark = paint(by, GUTTER[by], colour) if by else "  "
        room = max(min(64, columns // 2), _LEAST_SOURCE)
        text = fit(self._lines[number - 1], min(room, columns - _PREFIX))
        rest = columns - room - 13
        value = cut(_value(step, rest), rest) if step is not None and rest >= _LEAST_VALUE else ""
        return f"{number:>4}  {mark}  {text}  {value}".rstrip()


def _value(step: Step, width: int) -> str:
    """Return the result of a step: the last line that it printed, or its value."""
    return plain(step.output.rstrip("\n").rpartition("\n")[2] if step.output else what(step, width))


class _CountedLM(Around):
    """A model whose open requests are counted."""

    def __init__(self, lm: LM, display: LiveDisplay) -> None:
        super().__init__(lm)
        self._display = display

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self._display.opened(1)
        try:
            return await self._lm.complete(messages, **options)
        finally:
            self._display.opened(-1)
