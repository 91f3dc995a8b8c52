"""The running processes, read from /proc: `ps` would be one more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found], seconds: float = 60) -> Found:
    """Call `look` until it returns a true value, and return this value."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"nothing found within {seconds} seconds"
        time.sleep(0.02)
    return found


def stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, …; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    return stat(pid)[:1] not in ([], ["Z"])


def descendants(pid: int) -> list[int]:
    parents = {int(name): int(fields[1]) for name in os.listdir("/proc") if name.isdigit() and (fields := stat(name))}
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


def children(pid: int, module: str) -> list[int]:
    """The children of a process that run this module."""
    return [child for child in descendants(pid) if stat(child)[1:2] == [str(pid)] and module in command_of(child)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def variables_of(pid: int) -> list[str]:
    """The names of the environment variables with which a process started."""
    text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
    return [part.partition("=")[0] for part in text.split("\0") if part]


def resident_bytes(pid: int) -> int:
    fields = stat(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else 0
