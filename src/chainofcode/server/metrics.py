"""What a server counts, in the text format that Prometheus reads; and what it writes down, a line for each thing."""

from __future__ import annotations

import bisect
import datetime
import json
import logging
import math
import sys
from collections.abc import Callable
from typing import Any, TextIO

from ..render import plain

_HELP = {
    "coc_http_requests_total": ("counter", "Requests by route and status."),
    "coc_http_request_seconds": ("histogram", "From a request to the end of its response, streams included."),
    "coc_runs_total": ("counter", "Runs that are over, by method and state."),
    "coc_run_seconds": ("histogram", "From the start of a run (not of its waiting) to its end."),
    "coc_runs_running": ("gauge", "Runs under way."),
    "coc_runs_queued": ("gauge", "Runs that wait for their turn."),
    "coc_streams": ("gauge", "Clients that listen to events."),
    "coc_refused_total": ("counter", "Requests refused by a limit, a token, a host or an origin."),
    "coc_lm_requests_total": ("counter", "Requests to models by outcome."),
    "coc_lm_seconds": ("histogram", "How long models took."),
    "coc_lm_tokens_total": ("counter", "Tokens by model and kind."),
    "coc_lm_dollars_total": ("counter", "Money by model, where prices are known."),
}
_BOUNDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_AGAIN_SECONDS = 1.0
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms by name; `gauges` are looked at when somebody asks."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[_Labels, float]] = {}
        self._seen: dict[str, tuple[list[int], float]] = {}
        self.gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        counts = self._counts.setdefault(name, {})
        key = tuple(sorted(labels.items()))
        counts[key] = counts.get(key, 0) + amount

    def observe(self, name: str, seconds: float) -> None:
        counts, total = self._seen.get(name, ([0] * (len(_BOUNDS) + 1), 0.0))
        counts[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self._seen[name] = (counts, total + seconds)

    def text(self) -> str:
        lines = []
        for name, (kind, help) in _HELP.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            if name in self.gauges:
                lines.append(f"{name} {self.gauges[name]():g}")
            lines += [f"{name}{_labels(labels)} {count:.17g}" for labels, count in self._counts.get(name, {}).items()]
            if kind == "histogram":
                lines += self._histogram(name)
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        counts, total = self._seen.get(name, ([0] * (len(_BOUNDS) + 1), 0.0))
        lines, so_far = [], 0
        for bound, count in zip([*map(str, _BOUNDS), "+Inf"], counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {so_far}')
        return [*lines, f"{name}_sum {total:.17g}", f"{name}_count {so_far}"]


def _labels(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels) + "}"


class Log:
    """Lines on standard error: JSON for machines, short ones for people. `content` is told only where wanted."""

    def __init__(self, kind: str, with_content: bool, stream: TextIO | None = None) -> None:
        self._is_json, self._with_content, self._stream = kind == "json", with_content, stream or sys.stderr

    def say(self, event: str, content: dict[str, Any] | None = None, **told: Any) -> None:
        if self._with_content and content:
            told |= content
        if self._is_json:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"time": now, "event": event, **told}, default=str)
        else:
            parts = [f"{name}={value}" for name, value in told.items() if value not in (None, "")]
            line = plain(" ".join(["coc:", event, *parts]))
        try:
            print(line, file=self._stream, flush=True)
        except (OSError, ValueError):  # nobody reads it any more: that is no reason to stop
            return


class Heard(logging.Handler):
    """What the libraries below us log, told as everything else is: their words may hold what clients sent.

    The same from the same place is told once a second: without descriptors, asyncio has thousands of lines to say.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._told: dict[tuple[str, int, str | None], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kind = type(error).__name__ if error is not None else None
        place = (record.name, record.lineno, kind)
        told_at, untold = self._told.get(place, (-math.inf, 0))
        if record.created - told_at < _AGAIN_SECONDS:
            self._told[place] = (told_at, untold + 1)
            return
        self._told[place] = (record.created, 0)
        said = {"message": record.getMessage()} | ({"error": str(error)} if error is not None else {})
        more = {"untold": untold} if untold else {}
        self._log.say("library", said, level=record.levelname.lower(), logger=record.name, error_type=kind, **more)
