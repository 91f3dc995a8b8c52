"""Finds files below a granted directory that the grant does not cover: special files and kernel file systems.

A grant covers regular files and directories. A named pipe would connect a program to another process, and a `/proc`
mounted there would show it the host. Only files that exist when a program starts are found.
"""

from __future__ import annotations

import contextlib
import os
import re

_MAX_ENTRIES = 100_000  # checked in all grants together; takes a quarter of a second
_MAX_FOREIGN = 1_000
# File systems without a device that store files. File systems with a device always store files.
_STORAGE = frozenset([
    "tmpfs", "ramfs", "overlay", "aufs", "shiftfs", "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "afs",
    "fuse", "vboxsf", "vmhgfs", "zfs", "lustre", "gpfs", "beegfs", "glusterfs", "ecryptfs", "ubifs", "jffs2", "prl_fs",
])  # fmt: skip


def file_system(path: str) -> str:
    """The kind of file system that a real path is on, empty if unknown."""
    kinds = mounts()
    return kinds.get(max((mount for mount in kinds if _is_below(path, mount)), key=len, default=""), "")


def is_storage(kind: str) -> bool:
    return kind.partition(".")[0] in _STORAGE or kind in _kinds_with_device()


def foreign_below(directories: list[str]) -> list[str]:
    """The special files and kernel mounts below these real paths. Raises OSError if there are too many."""
    if not directories:
        return []
    found = {
        path
        for path, kind in mounts().items()
        if not is_storage(kind) and any(_is_below(path, directory) for directory in directories)
    }
    found |= _special_files(directories, found)
    if len(found) > _MAX_FOREIGN:
        raise OSError(0, f"over {_MAX_FOREIGN:,} named pipes, sockets and devices below {', '.join(directories)[:200]}")
    return sorted(found)


def _special_files(directories: list[str], skipped: set[str]) -> set[str]:
    special: set[str] = set()
    pending, entries = list(directories), 0
    while pending and len(special) <= _MAX_FOREIGN:
        try:
            with os.scandir(pending.pop()) as listed:
                for entry in listed:
                    entries += 1
                    if entries > _MAX_ENTRIES:
                        return special
                    if entry.is_dir(follow_symlinks=False):
                        pending += [entry.path] if entry.path not in skipped else []
                    elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                        special.add(entry.path)
        except OSError:  # a file, or a directory that this process, and so a guest, may not list
            continue
    return special


def mounts() -> dict[str, str]:
    """The kind of file system at each mount point. Later mounts hide earlier ones at the same place."""
    found: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            place, _, rest = line.partition(b" - ")
            path = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), place.split()[4])
            found[os.fsdecode(path)] = os.fsdecode(rest.split()[0])
    return found


def _kinds_with_device() -> set[str]:
    with open("/proc/filesystems") as file:
        return {line.strip() for line in file if not line.startswith("nodev")}


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
