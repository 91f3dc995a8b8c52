"""Read whole files that a user names, including endless devices and stalled pipes."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import BinaryIO

MAX_FILE_BYTES = 1_000_000_000
MAX_STREAM_BYTES = 100_000_000  # of pipes and devices, whose size is unknown
_PIECE_BYTES = 1 << 20


def read_whole(path: str | os.PathLike[str], *, silent_seconds: float = 60) -> bytes:
    """Read a file. Raises OSError, even for a file that is too large or a pipe that times out; `strerror` says why."""
    with open(path, "rb", buffering=0, opener=_opened) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:  # the size of files in /proc is 0
            return read_stream(file, silent_seconds if stat.S_ISFIFO(found.st_mode) else None)
        if found.st_size > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"file too large: {found.st_size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
        return file.read()


def read_start(path: str | os.PathLike[str], size: int) -> bytes:
    """Read the first bytes of a regular file. Raises OSError, also for others, such as pipes, without waiting."""
    with open(path, "rb", buffering=0, opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(size)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_stream(stream: BinaryIO, seconds: float | None = None) -> bytes:
    """Read a stream to its end. Raises OSError after `seconds` without data, or if it is too large."""
    data = bytearray()
    read_once = getattr(stream, "read1", stream.read)  # `read1`: one Ctrl-D ends the input of a terminal
    while True:
        if seconds is not None and not select.select([stream], [], [], seconds)[0]:
            raise OSError(errno.ETIMEDOUT, f"no data from the pipe for {seconds:g} seconds")
        piece = read_once(_PIECE_BYTES)
        if piece is None:  # non-blocking, and no data yet
            select.select([stream], [], [], seconds)
            continue
        if piece == b"":
            return bytes(data)
        data += piece
        if len(data) > MAX_STREAM_BYTES:
            raise OSError(errno.EFBIG, f"more than {MAX_STREAM_BYTES:,} bytes in a file of unknown size")


def _opened(path: str, flags: int) -> int:
    """Open a file. Does not block on a named pipe that has no writer."""
    if sys.platform != "win32" and stat.S_ISFIFO(os.stat(path).st_mode):
        flags |= os.O_NONBLOCK
    return os.open(path, flags)
