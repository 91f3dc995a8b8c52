"""The events of a run, as clients that follow it receive them."""

from __future__ import annotations

from collections.abc import Sequence

from ..audit import parted
from .trace_reader import Line, LongLine

StreamEvent = tuple[int | None, str, Line]  # number, kind, data


def stream_events(lines: Sequence[Line], first: int, after: int) -> list[StreamEvent]:
    """Lines of a trace as events with the numbers from `first`, except those up to the number `after`."""
    return [(number, *_event(line)) for number, line in enumerate(lines, first) if number > after]


def _event(line: Line) -> tuple[str, Line]:
    if isinstance(line, LongLine):
        return _kind(line.head()), line
    return _kind(line), parted(line)[0]


def _kind(line: bytes) -> str:
    """The kind of an event: the first member of its line."""
    return line[10 : line.index(b'"', 10)].decode() if line.startswith(b'{"event":"') else "step"
