"""Directories and files that no other user can change, for what this user trusts, such as downloaded models."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Without them (on Windows), a directory has the rights of the one above it, and links need a privilege.
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


def make_private_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory that only this user can change. Take the right to write in an existing one from others.

    Raises PermissionError if it belongs to another user (except root), or is a link that another user made: that user
    could replace every file in it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=mode)
    _check_owner(directory.lstat(), str(directory))
    found = directory.stat()
    _check_owner(found, str(directory))
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{directory} is not a directory")
    if _is_writable_for_others(found):
        directory.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)  # raises PermissionError if it is root's


def open_private(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file of this user or of root that no other user can change. Does not follow a link.

    Raises PermissionError for anything else.
    """
    try:
        fd = os.open(path, flags | _OPEN_FLAGS | getattr(os, "O_BINARY", 0), mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_a_file(path) from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _not_a_file(path)
        _check_owner(found, str(path))
        if _is_writable_for_others(found):
            os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_owner(found: os.stat_result, name: str) -> None:
    if hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"{name} belongs to another user (user id {found.st_uid})")


def _is_writable_for_others(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and bool(found.st_mode & _OTHERS_WRITE)


def _not_a_file(path: Path) -> PermissionError:
    return PermissionError(errno.EPERM, f"{path} is a link or not a regular file; remove it")
