"""Warnings about a trace that a command runs again."""

from __future__ import annotations

from collections.abc import Iterator

from ..audit import Chain
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
    """Yield a warning about files that the program may read again, as the author of the trace granted them."""
    reads, files = trace.settings.get("reads"), trace.settings.get("files")
    paths = [*(reads if isinstance(reads, list) else []), *(files.values() if isinstance(files, dict) else [])]
    if paths:
        more = ", …" if len(paths) > _MAX_PATHS else ""
        yield f"the program may read {', '.join(map(str, paths[:_MAX_PATHS]))}{more}, as in the recorded run"


def note_grants(trace: Trace) -> None:
    for warning in grants(trace):
        note(warning)
