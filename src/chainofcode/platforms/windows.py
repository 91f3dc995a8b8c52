"""The functions of this package on Windows.

Not covered: limits on memory and CPU time, for which Windows has other interfaces. The parent kills a process that
takes too long.
"""

from __future__ import annotations

import contextlib
import errno
import msvcrt
import os
import re
import signal
import sys
import time
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from pathlib import Path
    from typing import TextIO

assert sys.platform == "win32"
OUT_OF_TIME = (-14,)  # stands for a process that the parent killed; no process exits with it
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)  # device names, with any suffix
_LOCK_SECONDS = 0.05


def lock(fd: int, *, waits: bool) -> None:
    """Lock an open file until it is closed. Raises BlockingIOError if it is locked, unless `waits`."""
    while True:
        try:
            os.lseek(fd, 0, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
            return
        except PermissionError as error:
            if not waits:
                raise BlockingIOError(errno.EWOULDBLOCK, error.strerror) from None
        time.sleep(_LOCK_SECONDS)


def lock_directory(directory: Path) -> int:
    """Open the lock file of a directory, to `lock` it."""
    return os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)


def environment() -> dict[str, str]:
    """The environment variables that every process needs: Python does not start without SYSTEMROOT."""
    return {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def limit_process(seconds: float, memory: int, *, file_bytes: int, is_inherited: bool) -> None:
    """Do nothing: the parent limits the time."""


@contextlib.contextmanager
def end_after(seconds: float, *, counts_cpu: bool = False) -> Iterator[None]:
    """Do nothing: the parent limits the time."""
    yield


def parent_timeout(seconds: float) -> float | None:
    """How long a parent waits for a process before it kills the process."""
    return seconds


def kill_group(pid: int) -> None:
    """Kill a process; Windows has no process groups to kill."""
    os.kill(pid, signal.SIGTERM)


def usable_cores() -> int:
    """How many cores this process may use."""
    return os.cpu_count() or 1


def discard_typed_input(stream: TextIO) -> None:
    """Discard what the user has typed so far."""
    while msvcrt.kbhit():
        msvcrt.getwch()


def is_own(found: os.stat_result) -> bool:
    """Return True: the owner is not in the result of `stat`."""
    return True


def why_not_private(found: os.stat_result, *, is_directory: bool = False) -> str:
    """Return nothing: Windows protects the files of a user by default, and their modes say nothing about it."""
    return ""


def make_directory_private(directory: Path, mode: int = 0o700, *, may_be_roots: bool = False) -> None:
    """Create a directory. Its access rights come from the directory above."""
    directory.mkdir(parents=True, exist_ok=True)


def open_private(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file. Its access rights come from the directory above, and links need a privilege."""
    return os.open(path, flags | os.O_BINARY, mode)


class WindowsDirectory:
    """A directory, by its path. Links that are already in it are not followed."""

    def __init__(self, path: str | Path) -> None:
        self._path = os.path.abspath(path)
        if not os.path.isdir(self._path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def close(self) -> None:
        """Do nothing: there is no open handle."""

    def create(self, name: str) -> int:
        """Create a file. Raises FileExistsError if the name is taken."""
        if _RESERVED.fullmatch(name):
            raise OSError(errno.EINVAL, "the name is reserved for a device")
        return os.open(os.path.join(self._path, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_BINARY, 0o644)

    def enter(self, name: str) -> None:
        """Enter a subdirectory, and create it if necessary. Raises OSError if a file or a link has its name."""
        if _RESERVED.fullmatch(name):
            raise OSError(errno.EINVAL, "the name is reserved for a device")
        below = os.path.join(self._path, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(below, 0o755)
        is_link = os.path.realpath(below) != os.path.join(os.path.realpath(self._path), name)
        if is_link or not os.path.isdir(below):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        self._path = below
