"""Reads a trace that may grow: short lines in batches, a long line in pieces when it is sent.

A line can be many megabytes long, and many clients may follow a run without reading: no line is kept in memory for
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from ..audit import parted
from ..trace import DIGEST_CHARS
from .refusal import StorageError

PIECE_BYTES = 32 * 1024
_BATCH_BYTES = 64 * 1024  # a longer line is read in pieces
_SCAN_BYTES = 64 * 1024  # of a long line, before other clients get a turn
_HEAD_BYTES = 100
_TAIL_BYTES = 2 * DIGEST_CHARS  # contains the digest, which is not part of the event


class LongLine:
    """A line that is read again, in pieces, when it is sent. Use it before the next batch is read."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self.size = file, start, size

    def head(self) -> bytes:
        return self._read(self._start, _HEAD_BYTES)

    def pieces(self) -> Iterator[bytes]:
        """The line, as it is in the file."""
        yield from self._between(self._start, self._start + self.size)

    def event_pieces(self) -> Iterator[bytes]:
        """The line without its digest."""
        end = self._start + self.size
        yield from self._between(self._start, end - _TAIL_BYTES)
        yield parted(self._read(end - _TAIL_BYTES, _TAIL_BYTES))[0]

    def _between(self, start: int, end: int) -> Iterator[bytes]:
        for place in range(start, end, PIECE_BYTES):
            yield self._read(place, min(PIECE_BYTES, end - place))

    def _read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        data = self._file.read(size)
        if len(data) < size:
            raise StorageError("the trace was cut off while it was read")
        return data


Line = bytes | LongLine


class TraceReader:
    """Reads the lines of a trace. If the trace is replaced, reading continues at the same line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._count = self._offset = 0  # what was read
        self._scanned = 0  # up to here, the file has no end of the next line

    async def batch(self) -> list[Line]:
        """The next complete lines, up to a total size. A long line comes alone. Empty when there are no new lines."""
        await self._reopen_if_replaced()
        if self._file is None:
            return []
        data = self._read(self._offset, _BATCH_BYTES)
        end = data.rfind(b"\n")
        if end >= 0:
            return self._advance(end + 1, data[:end].split(b"\n"))
        if len(data) < _BATCH_BYTES:
            return []
        size = await self._size_of_line()
        return [] if size is None else self._advance(size + 1, [LongLine(self._file, self._offset, size)])

    def _advance(self, size: int, lines: Sequence[Line]) -> list[Line]:
        self._offset += size
        self._count += len(lines)
        return [*lines]

    async def _size_of_line(self) -> int | None:
        """The size of the next line, None while it is incomplete."""
        self._scanned = max(self._scanned, self._offset)
        while True:
            data = self._read(self._scanned, _SCAN_BYTES)
            place = data.find(b"\n")
            if place >= 0:
                return self._scanned + place - self._offset
            self._scanned += len(data)
            if len(data) < _SCAN_BYTES:
                return None
            await asyncio.sleep(0)

    def _read(self, place: int, size: int) -> bytes:
        assert self._file is not None
        self._file.seek(place)
        return self._file.read(size)

    async def _reopen_if_replaced(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._file is None:
                self._file = _open_unbuffered(self._path)
            elif self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file = _open_unbuffered(self._path)
                await self._skip(self._count)

    async def _skip(self, lines: int) -> None:
        """Go to the end of a number of lines."""
        self._offset = self._scanned = 0
        while lines and (data := self._read(self._offset, _SCAN_BYTES)):
            found = data.count(b"\n")
            if found >= lines:
                self._offset += _end_of_line(data, lines)
                return
            lines -= found
            self._offset += len(data)
            await asyncio.sleep(0)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _end_of_line(data: bytes, number: int) -> int:
    """Where a line ends, counted from one."""
    place = 0
    for _ in range(number):
        place = data.index(b"\n", place) + 1
    return place


def _open_unbuffered(path: Path) -> BinaryIO:
    return cast(BinaryIO, path.open("rb", buffering=0))
