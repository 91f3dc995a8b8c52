"""The files in which a process finds the limits of its control group. Standard library only: this runs in guests.

DuckDB aborts if these files exist and cannot be opened, as in tier B. Each contains a number, or the names of the
process's groups.
"""

from __future__ import annotations

import os

_OWN = "/proc/self/cgroup"
_ROOT = "/sys/fs/cgroup"
_FILES = ("cpu.max", "memory.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes")


def find_limit_files() -> list[str]:
    """Return the files that exist."""
    try:
        with open(_OWN) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    groups = [f"{_ROOT}/{names}".rstrip("/") + place.rstrip("/") for _, names, place in lines]
    roots = [f"{_ROOT}/{names}".rstrip("/") for _, names, _ in lines]  # a container sees its own group there
    files = [f"{group}/{name}" for group in dict.fromkeys((*groups, *roots)) for name in _FILES]
    return [_OWN, *filter(os.path.exists, files)]
