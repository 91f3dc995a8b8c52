"""Disk space reserved for removing runs: on a full disk, even a removal must write first."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MAX_BYTES = 1024**2
_DISK_SHARE = 8  # on a small disk, an eighth of it


class DiskReserve:
    """A file that reserves disk space; its content does not matter."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self) -> None:
        """Reserve the space, if the disk has enough."""
        disk = os.statvfs(self._path.parent)
        size = min(_MAX_BYTES, disk.f_blocks * disk.f_frsize // _DISK_SHARE)
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_blocks * 512 >= size:
                return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError:  # the disk is full: the next removal tries again
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def release(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self._path, 0)
