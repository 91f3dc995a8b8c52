"""Progress bars on standard error."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from .terminal import note, overwrite_line, write_lines

_BAR = 10  # short, so that speed and time left fit into 80 columns
_SILENCE_SECONDS = 10  # between lines, without a terminal
_SPEED_SECONDS = 10  # over which the speed is the mean, or longer if the bytes arrive in large parts


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
    """Progress of a download, with speed and time left: a bar in a terminal, elsewhere a line from time to time."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._shown_at = float(-_SILENCE_SECONDS)
        self._recent: deque[tuple[float, int]] = deque()  # time and bytes, of the last seconds

    def __call__(self, done: int, total: int, source: str) -> None:
        if total == 0:  # the amount of work is unknown
            note(source)
            return
        text, now = self.text(done, total, source), self._clock()
        is_terminal, is_end = sys.stderr.isatty(), done >= total
        if not is_end and now - self._shown_at < (0.1 if is_terminal else _SILENCE_SECONDS):
            return
        self._shown_at = now
        if is_terminal:
            overwrite_line(text, sys.stderr, is_last=is_end)
        else:
            write_lines([f"{self._what}: {self._numbers(done, total, source)}"], sys.stderr)

    def text(self, done: int, total: int, source: str) -> str:
        """Take note of the progress, and return it as a line with a bar."""
        self._add(self._clock(), done)
        filled = _BAR * done // total
        return f"{self._what} {'█' * filled}{'░' * (_BAR - filled)} {self._numbers(done, total, source)}"

    def _add(self, now: float, done: int) -> None:
        if self._recent and done < self._recent[-1][1]:  # another source starts again
            self._recent.clear()
        self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[1][0] >= _SPEED_SECONDS:
            self._recent.popleft()

    def _numbers(self, done: int, total: int, source: str) -> str:
        (began, first), (now, last) = self._recent[0], self._recent[-1]
        speed = (last - first) / (now - began) if now > began else 0.0
        numbers = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if not speed or done >= total:
            return f"{numbers} from {source}"
        # The source comes last, because a narrow terminal cuts off the end.
        return f"{numbers}, {speed / 1e6:,.1f} MB/s, {duration_text((total - done) / speed)} left, from {source}"


def duration_text(seconds: float) -> str:
    """A duration to the second: 42 s, 3 min 5 s, 2 h 10 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
