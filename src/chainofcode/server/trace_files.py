"""Trace files that grow during a run, and their one writer. `trace_reader` reads them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, Self

from ..trace import as_json, chained, linked
from .refusal import StorageError

PARTIAL = ".partial"  # the suffix of a trace that is to replace another


class TraceLog(Protocol):
    """The trace of an active run."""

    def append(self, item: object) -> object:
        """Write an event as one line. Raises StorageError."""

    async def flush(self) -> None:
        """Wait until another process can read what was appended."""

    @property
    def is_behind(self) -> bool:
        """Whether so much is unwritten that the run should wait."""

    def close(self) -> None: ...


class TraceWriter:
    """Writes a trace during a run: appended events survive a crash. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None
        self._digest, self._bytes = "", 0

    @classmethod
    def replacing(cls, path: Path, items: Iterable[object]) -> Self:
        """Replace a trace with these events, and continue it. A crash leaves the old trace or the new one."""
        partial = path.with_suffix(PARTIAL)
        partial.unlink(missing_ok=True)
        writer = cls(partial)
        try:
            for item in items:
                writer.append(item)
            os.fsync(writer._fd)
            partial.replace(path)
        except OSError as error:
            writer.close()
            raise StorageError(error.strerror or str(error)) from None
        except StorageError:
            writer.close()
            partial.unlink(missing_ok=True)
            raise
        return writer

    def append(self, item: object) -> bytes:
        """Write an event as one line, and return it; a line that cannot be written whole is removed again."""
        line = as_json(item)
        digest = linked(self._digest, line)
        whole = chained(line, digest) + b"\n"
        left = memoryview(whole)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            os.ftruncate(self._fd, self._bytes)
            raise StorageError(error.strerror or str(error)) from None
        self._digest, self._bytes = digest, self._bytes + len(whole)
        return whole

    is_behind = False

    async def flush(self) -> None:
        """Do nothing: the operating system already has all lines."""

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.close(fd)


def remove_partial_line(path: Path) -> None:
    """Remove the incomplete last line that a killed server left."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
