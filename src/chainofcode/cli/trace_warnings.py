"""Warnings about a trace that a command runs again."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..audit import Chain
from ..audit.replay.grants import settings_of
from ..render import cut
from ..trace import Trace
from .terminal import note

_MAX_PATHS = 5


def warnings(trace: Trace, chain: Chain) -> Iterator[str]:
    if chain.state == "broken":
        yield f"the file was changed: {chain.why}"
    if trace.answer is None:
        yield "the trace has no answer: its last lines are missing, or the run was interrupted"
    if trace.edited:
        yield f"the trace is a what-if, not the original run; edited: {cut('; '.join(trace.edited), 300)}"
    yield from grants(trace)


def grants(trace: Trace) -> Iterator[str]:
    """Yield a warning about files that the program may read again, as the trace or the user grants them."""
    settings = settings_of(trace)
    reads = [os.path.abspath(os.path.join(settings.directory, read)) for read in settings.reads]
    paths = list(dict.fromkeys([*reads, *settings.files.values()]))
    if paths:
        more = ", …" if len(paths) > _MAX_PATHS else ""
        yield f"the program may read {', '.join(paths[:_MAX_PATHS])}{more}"


def note_grants(trace: Trace) -> None:
    for warning in grants(trace):
        note(warning)
