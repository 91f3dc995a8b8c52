"""Trace files that grow while a run goes on: one writes, any number read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from ..trace import as_json, chained, linked
from .refusal import StorageError

_MAX_BATCH_BYTES = 65_536


class TraceWriter:
    """Writes a trace while the run goes on: appended events survive a crash. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None
        self._digest, self._bytes = "", 0

    def append(self, item: object) -> None:
        """Write an event as one line; a line that cannot be written whole is removed again."""
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

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.close(fd)


class TraceReader:
    """Reads the lines of a trace that may still grow."""

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, b""
        self._file: BinaryIO | None = None

    def batch(self) -> list[bytes]:
        """The next whole lines, up to a size that is sent at once; empty when there are no new ones."""
        lines, size = list[bytes](), 0
        while size < _MAX_BATCH_BYTES and (line := self._next()) is not None:
            lines.append(line)
            size += len(line)
        return lines

    def _next(self) -> bytes | None:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return None
        self._partial += self._file.readline()
        if not self._partial.endswith(b"\n"):
            return None
        line, self._partial = self._partial[:-1], b""
        return line

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def remove_partial_line(path: Path) -> None:
    """Remove the incomplete last line that a killed server left."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
