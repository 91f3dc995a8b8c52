"""Progress bars on standard error."""

from __future__ import annotations

import sys
import time

from .terminal import note, overwrite_line, write_lines

_BAR = 30
_SILENCE_SECONDS = 10  # between lines, without a terminal


class BatchProgress:
    """Progress of batches: one line that changes in a terminal, elsewhere a line from time to time."""

    def __init__(self) -> None:
        self._shown_at = 0.0

    def __call__(self, text: str, is_progress: bool) -> None:
        if not is_progress:
            note(text)
        elif sys.stderr.isatty():
            overwrite_line(text, sys.stderr)
        elif time.monotonic() - self._shown_at > _SILENCE_SECONDS:
            self._shown_at = time.monotonic()
            note(text)


class ProgressBar:
    """Progress of a download: a bar in a terminal, elsewhere a line from time to time."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._shown_at = 0.0

    def __call__(self, done: int, total: int, source: str) -> None:
        if total == 0:  # the amount of work is unknown
            note(source)
            return
        now = time.monotonic()
        is_terminal, is_end = sys.stderr.isatty(), done >= total
        if not is_end and now - self._shown_at < (0.1 if is_terminal else _SILENCE_SECONDS):
            return
        self._shown_at = now
        if is_terminal:
            overwrite_line(self.text(done, total, source), sys.stderr, is_last=is_end)
        else:
            write_lines([f"{self._what}: {self._numbers(done, total, source)}"], sys.stderr)

    def text(self, done: int, total: int, source: str) -> str:
        filled = _BAR * done // total
        return f"{self._what} {'█' * filled}{'░' * (_BAR - filled)} {self._numbers(done, total, source)}"

    def _numbers(self, done: int, total: int, source: str) -> str:
        seconds = time.monotonic() - self._started
        return f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB from {source}, {seconds:.0f} s"
