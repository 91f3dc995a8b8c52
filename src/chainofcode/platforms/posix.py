"""The functions of this package on Linux and macOS."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import resource
import signal
import stat
import sys
import termios
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from pathlib import Path
    from typing import TextIO

OUT_OF_TIME = (-signal.SIGALRM, -signal.SIGPROF, -signal.SIGXCPU)  # exit codes of processes that took too long
_NICENESS = 5  # the process that waits for the result has priority
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def lock(fd: int, *, waits: bool) -> None:
    """Lock an open file until it is closed. Raises BlockingIOError if it is locked, unless `waits`."""
    fcntl.flock(fd, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_directory(directory: Path) -> int:
    """Open a directory, to `lock` it."""
    return os.open(directory, _DIRECTORY)


def environment() -> dict[str, str]:
    """The environment variables that every process needs."""
    return {}


def limit_process(seconds: float, memory: int, *, file_bytes: int, is_inherited: bool) -> None:
    """Limit the memory of this process; if limits are inherited, also its CPU time and the size of files it writes."""
    os.nice(_NICENESS)
    limits = [(resource.RLIMIT_DATA, memory), (resource.RLIMIT_CORE, 0)]
    if is_inherited:
        limits += [(resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_CPU, math.ceil(seconds) + 1)]
    for which, most in limits:
        hard = resource.getrlimit(which)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (allowed, allowed if is_inherited else hard))


@contextlib.contextmanager
def end_after(seconds: float, *, counts_cpu: bool = False) -> Iterator[None]:
    """Have the kernel end this process after some real time or, with `counts_cpu`, some CPU time."""
    timer = signal.ITIMER_PROF if counts_cpu else signal.ITIMER_REAL
    signal.setitimer(timer, seconds)
    yield
    signal.setitimer(timer, 0)


def parent_timeout(seconds: float) -> float | None:
    """How long a parent waits for a process with these limits: no timeout, because the kernel ends the process."""
    return None


def kill_group(pid: int) -> None:
    """Kill a process group, given its leader."""
    os.killpg(pid, signal.SIGKILL)


def usable_cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def discard_typed_input(stream: TextIO) -> None:
    """Discard what the user has typed so far."""
    termios.tcflush(stream, termios.TCIFLUSH)


def is_own(found: os.stat_result) -> bool:
    """Whether a file belongs to this user."""
    return found.st_uid == os.geteuid()


def why_not_private(found: os.stat_result, *, is_directory: bool = False) -> str:
    """Why other users may have read or changed a file; empty if only this user can. In a directory, they may read."""
    if not is_own(found):
        return "belongs to another user"
    others = _OTHERS_WRITE if is_directory else stat.S_IRWXG | stat.S_IRWXO
    return f"is open to other users (mode {stat.S_IMODE(found.st_mode):o})" if found.st_mode & others else ""


def make_directory_private(directory: Path, mode: int = 0o700, *, may_be_roots: bool = False) -> None:
    """Create a directory, or take rights that are not in `mode` from other users of an existing one.

    Raises PermissionError if it belongs to another user, who could replace every file in it, or if another user has put
    a link in its place. With `may_be_roots`, root may own it, as a cache that an administrator provides.
    """
    owners = {os.geteuid(), 0} if may_be_roots else {os.geteuid()}
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    place = directory.lstat()
    if stat.S_ISLNK(place.st_mode) and place.st_uid not in {os.geteuid(), 0}:
        raise PermissionError(
            errno.EPERM, f"{directory} is a link that belongs to another user (user id {place.st_uid})"
        )
    opened = os.open(directory, _DIRECTORY)  # what is checked is what is changed, even if a link changes meanwhile
    try:
        found = os.fstat(opened)
        if found.st_uid not in owners:
            raise _not_own(directory, found)
        if stat.S_IMODE(found.st_mode) & ~mode:
            os.fchmod(opened, stat.S_IMODE(found.st_mode) & mode)
    finally:
        os.close(opened)


def open_private(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file of this user or of root, and take the right to write from others. Does not follow a link.

    Raises PermissionError for anything else.
    """
    try:
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_a_file(path) from None
        raise
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise _not_a_file(path)
        if found.st_uid not in {os.geteuid(), 0}:
            raise _not_own(path, found)
        if found.st_mode & _OTHERS_WRITE:
            os.fchmod(opened, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _not_own(path: Path, found: os.stat_result) -> PermissionError:
    return PermissionError(errno.EPERM, f"{path} belongs to another user (user id {found.st_uid})")


def _not_a_file(path: Path) -> PermissionError:
    return PermissionError(errno.EPERM, f"{path} is a link or not a regular file; remove it")


class PosixDirectory:
    """An open directory. Links in it are not followed, even if they are created while it is open."""

    def __init__(self, path: str | Path) -> None:
        self._fd = os.open(path, _DIRECTORY)

    def close(self) -> None:
        os.close(self._fd)

    def create(self, name: str) -> int:
        """Create a file. Raises FileExistsError if the name is taken."""
        return os.open(name, _NEW_FILE, 0o644, dir_fd=self._fd)

    def enter(self, name: str) -> None:
        """Enter a subdirectory, and create it if necessary. Raises OSError if a file or a link has its name."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=self._fd)
        below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = below
