"""Metrics in the text format of Prometheus, and the log: one line per event."""

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
from .trace_context import TRACE_ID

_HELP = {
    "coc_http_requests_total": ("counter", "Requests by route and status."),
    "coc_http_request_seconds": ("histogram", "Duration of a request until the end of its response, streams included."),
    "coc_runs_total": ("counter", "Finished runs by method and state."),
    "coc_run_seconds": ("histogram", "Duration of a run, without its time in the queue."),
    "coc_runs_running": ("gauge", "Active runs."),
    "coc_runs_queued": ("gauge", "Runs in the queue."),
    "coc_streams": ("gauge", "Clients that follow events."),
    "coc_refused_total": ("counter", "Requests refused by a limit, a token, a host or an origin."),
    "coc_lm_requests_total": ("counter", "Requests to models by outcome."),
    "coc_lm_seconds": ("histogram", "Duration of requests to models."),
    "coc_lm_tokens_total": ("counter", "Tokens by model and kind."),
    "coc_lm_dollars_total": ("counter", "Cost by model in dollars, where prices are known."),
}
_BOUNDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_AGAIN_SECONDS = 1.0
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms by name; `gauges` are functions, read on request."""

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


class ServerLog:
    """Lines on standard error, as JSON or as short text. `content` is written only if the settings allow it."""

    def __init__(self, kind: str, with_content: bool, stream: TextIO | None = None) -> None:
        self._is_json, self._with_content, self._stream = kind == "json", with_content, stream or sys.stderr

    def write(self, event: str, content: dict[str, Any] | None = None, **fields: Any) -> None:
        if self._with_content and content:
            fields |= content
        if trace := TRACE_ID.get():
            fields["trace_id"] = trace
        if self._is_json:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"time": now, "event": event, **fields}, default=str)
        else:
            parts = [f"{name}={value}" for name, value in fields.items() if value not in (None, "")]
            line = plain(" ".join(["coc:", event, *parts]))
        try:
            print(line, file=self._stream, flush=True)
        except (OSError, ValueError):  # the log is closed: continue without it
            return


class LibraryLog(logging.Handler):
    """Passes on warnings of libraries. Their messages are content: they may contain what clients sent.

    Repeated warnings from one place are written once a second: when descriptors run out, asyncio logs thousands.
    """

    def __init__(self, log: ServerLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._last: dict[tuple[str, int, str | None], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kind = type(error).__name__ if error is not None else None
        place = (record.name, record.lineno, kind)
        written_at, skipped = self._last.get(place, (-math.inf, 0))
        if record.created - written_at < _AGAIN_SECONDS:
            self._last[place] = (written_at, skipped + 1)
            return
        self._last[place] = (record.created, 0)
        content = {"message": record.getMessage()} | ({"error": str(error)} if error is not None else {})
        more = {"omitted": skipped} if skipped else {}
        self._log.write("library", content, level=record.levelname.lower(), logger=record.name, error_type=kind, **more)
