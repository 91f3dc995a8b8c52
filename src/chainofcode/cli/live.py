"""Live display of a run on standard error: what ran each line, the values, the cost.

In a terminal you watch each line of the program run; elsewhere each step is a line of text.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from ..lm import LM, Around, Completion, Message, Usage
from ..program import Program
from ..render import GUTTER, Page, count, cut, fit, paint, plain, what
from ..trace import Answer, Call, Event, Step
from .progress import ProgressBar
from .terminal import erase_lines, takes_colours, write_lines

_TICK_SECONDS = 0.1
_MIN_COLUMNS = 50  # for a program with values next to it
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveDisplay:
    """Shows each event of a run. Use it as a context manager, which ends the drawing."""

    def __init__(self, stream: TextIO, *, is_quiet: bool = False, all_steps: bool = False) -> None:
        self._stream, self._is_quiet = stream, is_quiet
        self._model = self._activity_text = ""
        self._bar = ProgressBar("weights")
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb" and not is_quiet
        size = shutil.get_terminal_size((100, 24))
        self._width, self._height = min(size.columns, 140), size.lines
        self._page = Page(self._width, takes_colours(stream), all_steps)
        self._open = 0
        self._program: Program | None = None
        self._notes: dict[int, tuple[str, str]] = {}  # line → what ran it last, and the value
        self._drawn_lines = 0
        self._held: list[str] | None = None  # lines to print when the screen is free again
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Reset the counters, for the first question or the next one."""
        self._usage, self._asked, self._started = Usage(), 0, time.monotonic()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, args=(self._ended,), daemon=True)
        if self._model and self._is_terminal:
            self._ticker.start()

    def __enter__(self) -> LiveDisplay:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop drawing. What was printed stays on the screen."""
        self._ended.set()
        if self._ticker.is_alive():
            self._ticker.join()
            with self._lock:
                self._erase()
                self._stream.flush()

    def watch(self, lm: LM) -> LM:
        """Wrap a model to count its open requests, and start drawing."""
        self._model = " + ".join(filter(None, [self._model, plain(lm.name)]))
        if self._is_terminal and not self._ticker.is_alive():
            self._ticker.start()
        return _CountedLM(lm, self)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the drawing, and hold back output until the block ends."""
        with self._lock:
            self._erase()
            self._stream.flush()
            self._held = []
        try:
            yield
        finally:
            with self._lock:
                held, self._held = self._held, None
                self._write_all(held or ())
                self._draw()

    def progress(self, done: int, total: int, source: str) -> None:
        """Show what a model does before its first reply: downloading, loading, reading its instructions."""
        if self._is_terminal:
            self._activity_text = plain(self._activity(done, total, source))
        elif not self._is_quiet or total:
            self._bar(done, total, source)

    def _activity(self, done: int, total: int, source: str) -> str:
        if done < total:
            return self._bar.text(done, total, source)
        return "" if total else source

    def show(self, event: Event) -> None:
        if self._is_quiet:
            return
        with self._lock:
            match event:
                case Call():
                    self._usage += event.usage
                    if self._program is None and not self._is_terminal and not event.is_abandoned:
                        self._write_line(f"{plain(event.model)} replied in {event.seconds:.1f} s")
                case Program():
                    self._program = event
                    self._write_all(self._page.notes(event))
                case Step():
                    self._step(event)
                case Answer():
                    self._end(event)
            self._draw()

    # --- events -----------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        if self._program is None:
            return
        if self._fits():
            shown_value = step.output.rstrip("\n").rpartition("\n")[2] if step.output else what(step, self._width // 2)
            by = self._notes.get(step.line, ("", ""))[0]
            if not step.is_code or by not in ("lm", "tool"):  # values of the model stay visible
                self._notes[step.line] = (step.by, shown_value or self._notes.get(step.line, ("", ""))[1])
        else:
            self._write_all(self._page.next(self._program, step))

    def _end(self, answer: Answer) -> None:
        if self._fits():
            self._erase()
            self._write_all(self._listing())
            self._drawn_lines = 0
        elif self._program is not None:
            self._write_all(self._page.rest(self._program))
        self._program = None
        self._notes.clear()
        if answer.then:
            self._write_all(self._page.turn(answer))
            return
        if not answer.is_answered:
            self._write_all(self._page.answer(answer))
        self._write_line(self._status(is_over=True))
        self._ended.set()

    def opened(self, number: int) -> None:
        with self._lock:
            self._open += number
            self._asked += max(number, 0)
            self._activity_text = "" if number < 0 else self._activity_text
            if not self._is_terminal and not self._is_quiet and self._asked == 1 and number > 0:
                self._write_line(f"asking {self._model} …")

    # --- drawing ----------------------------------------------------------------------------------------------

    def _fits(self) -> bool:
        """Whether the whole program fits on the screen."""
        is_roomy = self._is_terminal and self._width >= _MIN_COLUMNS
        return is_roomy and self._program is not None and len(self._lines()) + 4 < self._height

    def _lines(self) -> list[str]:
        return self._program.source.rstrip().split("\n") if self._program is not None else []

    def _listing(self) -> list[str]:
        shown = []
        room = max(24, min(64, self._width // 2))
        for number, source in enumerate(self._lines(), 1):
            by, shown_value = self._notes.get(number, ("", ""))
            mark = paint(by, GUTTER[by], self._page.colour) + "  " if by else "    "
            text = fit(plain(source.expandtabs(4)), room)
            rest = cut(plain(shown_value), self._width - room - 14)
            shown.append(f"{number:>4}  {mark}{text}  {rest}".rstrip())
        return shown

    def _status(self, is_over: bool = False) -> str:
        seconds = time.monotonic() - self._started
        usage = self._usage
        parts = [self._model, count(self._asked, "LM request")]
        if self._open and not is_over:
            parts[1] += f" ({self._open} in flight)"
        parts.append(f"{usage.prompt_tokens + usage.completion_tokens:,} tokens")
        if usage.dollars is None:
            parts.append("price unknown")
        elif usage.dollars:
            parts.append(f"${usage.dollars:.4f}")
        return "      " + " · ".join([*parts, f"{seconds:.1f} s"])

    def _draw(self) -> None:
        if not self._is_terminal or self._ended.is_set() or self._held is not None:
            return
        self._erase()
        frame = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
        activity = "running" if self._program is not None else self._activity_text or "asking"
        lines = self._listing() if self._fits() else []
        lines.append(cut(f"{frame} {activity}{self._status()[5:]}", self._width - 1))
        write_lines(lines, self._stream)
        self._drawn_lines = len(lines)

    def _erase(self) -> None:
        erase_lines(self._drawn_lines, self._stream)
        self._drawn_lines = 0

    def _write_line(self, line: str) -> None:
        if self._held is not None:
            self._held.append(line)
            return
        if self._is_terminal:
            self._erase()
        write_lines([line], self._stream)

    def _write_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._write_line(line)

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(_TICK_SECONDS):
            with self._lock:
                self._draw()


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
