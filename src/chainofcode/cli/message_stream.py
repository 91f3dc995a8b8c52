"""Standard error as `coc` uses it: a message that cannot be written does not end a run."""

from __future__ import annotations

import io
import sys
from typing import Any


class _MessageFile(io.FileIO):
    """A file that drops what cannot be written, because the disk is full or the reader has gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


def drop_unwritable_messages() -> None:
    """Replace standard error, unless it was replaced before or is a console of Windows."""
    stream = sys.stderr
    if stream is not sys.__stderr__ or not isinstance(stream, io.TextIOWrapper):
        return
    if type(getattr(stream.buffer, "raw", stream.buffer)) is not io.FileIO:  # it has no `raw` with PYTHONUNBUFFERED
        return
    file = io.BufferedWriter(_MessageFile(stream.fileno(), "w", closefd=False))
    sys.stderr = io.TextIOWrapper(file, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
