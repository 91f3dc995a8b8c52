"""The last lines of a terminal, drawn again and again until they are erased."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from .terminal import erase_lines, screen_size, write_lines

_TICK_SECONDS = 0.1


class Screen:
    """Draws lines from a thread, between `start` and `stop`, which erases them.

    `picture` returns the lines for a number of columns and rows. Lines that have scrolled off cannot be erased, so no
    more are drawn than the terminal has rows, and none may be wider than its columns.
    """

    def __init__(self, stream: TextIO, picture: Callable[[int, int], list[str]]) -> None:
        self._stream, self._picture = stream, picture
        self._drawn_lines = 0
        self._pauses = 0  # several questions may wait
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._tick, args=(self._ended,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Erase the lines, and draw no more of them."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None
            self._erase()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the lines, and draw none until the block ends."""
        with self._lock:
            self._pauses += 1
            self._erase()
        try:
            yield
        finally:
            self._pauses -= 1

    def draw(self) -> None:
        with self._lock:
            if not self._pauses:
                columns, rows = screen_size(self._stream)
                rows -= 1  # for the cursor, below the last line
                lines = self._picture(columns, rows)[-rows:] if rows > 0 else []
                erase_lines(self._drawn_lines, self._stream)
                write_lines(lines, self._stream)
                self._drawn_lines = len(lines)

    def _erase(self) -> None:
        erase_lines(self._drawn_lines, self._stream)
        self._stream.flush()
        self._drawn_lines = 0

    def _tick(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self.draw()
            ended.wait(_TICK_SECONDS)
