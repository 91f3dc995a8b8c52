"""Sends what the statements of a JavaScript program did and printed. Standard library only."""

from __future__ import annotations

import json
import threading
import time

from ...guest.link import GuestLink
from .stack_places import StackPlaces
from .value_requests import ValueRequests

MAX_STEPS = 6_000
MAX_DELTA_CHARS = 500_000  # over the whole run
_FLUSH_STEPS, _FLUSH_SECONDS = 256, 0.05
_MAX_LINE_CHARS = 10_000


class StepLog:
    """Gathers steps and output, and posts them in order."""

    def __init__(self, link: GuestLink, places: StackPlaces, calls: ValueRequests) -> None:
        self._link, self._places, self._calls = link, places, calls
        self._steps: list[dict[str, object]] = []
        self._count = self._chars = 0
        self.visits: dict[int, int] = {}
        self._printed, self._printed_at = "", 0  # the output, and the statement that printed it
        self._flushed_at = time.monotonic()
        self._open_line = self.printed_line = ""  # the last line printed that is not empty
        self._lock = threading.RLock()  # the thread that ends the program posts, too

    def step(self, step_json: str) -> bool:
        """Record a visit of a statement. Returns whether to record further ones."""
        with self._lock:
            step = json.loads(step_json)
            self._count += 1
            self._chars += len(step_json)
            self._calls.here = step["statement"]
            self.visits[step["statement"]] = step["visit"]
            if self._printed and self._printed_at == step["statement"]:
                step["output"], self._printed = self._printed, ""
            self._add_printed()
            self._steps.append(step)
            is_late = time.monotonic() - self._flushed_at > _FLUSH_SECONDS
            if len(self._steps) >= _FLUSH_STEPS or is_late:
                self.post()
                self._link.flush()
        return self._count < MAX_STEPS and self._chars < MAX_DELTA_CHARS

    def print(self, text: str, stack: str) -> None:
        """Record what the program printed."""
        output = json.loads(text).encode("utf-8", "backslashreplace").decode()
        found = self._places.statement(json.loads(stack))
        with self._lock:
            if found is not None:
                self._calls.here = found
            if self._printed_at != self._calls.here:
                self._add_printed()
            self._printed_at = self._calls.here
            self._printed += output
            for line in output.split("\n"):
                self.printed_line = line[:_MAX_LINE_CHARS] if line.strip() else self.printed_line
            if len(self._printed) > 1 << 16:
                self.post()
                self._link.flush()

    def _add_printed(self) -> None:
        """Add a step for the output of a statement, if no visit of it was recorded."""
        if self._printed:
            here = self._printed_at
            self.visits[here] = visit = self.visits.get(here, 0) + 1
            self._steps.append({"statement": here, "visit": visit, "output": self._printed})
            self._printed = ""

    def post(self) -> None:
        """Post the steps since the last post, and the output after them."""
        with self._lock:
            self._add_printed()
            if self._steps:
                steps, self._steps = self._steps, []
                self._link.post({"type": "ran", "steps": steps})
            self._flushed_at = time.monotonic()
