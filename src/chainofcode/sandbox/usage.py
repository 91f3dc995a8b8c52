"""Resource usage of a process, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .job import Limits

LOW_PRIORITY = 10
_MAX_NAME_BYTES = 512 << 20
_NAME_BYTES = 768  # kernel memory for a long name that does not exist
_NAMES_PER_SECOND = 400_000  # that a process can add to the cache per second of system time
_LAST_CPU_SECONDS = 2.0  # the kernel's limit, in whole seconds, applies first, so that the guest can report the line


@dataclass(frozen=True)
class ProcessUsage:
    """CPU time (all, and in the kernel), threads and memory of one process."""

    cpu_seconds: float
    system_seconds: float
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, pid: int) -> ProcessUsage | None:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # the process has ended, or there is no /proc
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        user, system, threads, pages = (int(fields[place]) for place in (11, 12, 17, 21))
        return cls(
            cpu_seconds=(user + system) / ticks,
            system_seconds=system / ticks,
            threads=threads,
            memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        )


class NameCache:
    """Estimates the kernel memory for names of missing files that a process looked up.

    The kernel caches these names without charging a process, so a program can fill gigabytes. The kernel only counts
    them for the whole machine, so a process is charged for all growth, up to what its system time allows.
    """

    def __init__(self) -> None:
        self._names, self._system_seconds, self._bytes = _missing_names(), 0.0, 0

    def look(self, use: ProcessUsage) -> int:
        """Return the bytes so far. Call this regularly."""
        names, seconds = _missing_names(), use.system_seconds - self._system_seconds
        added = min(names - self._names, int(seconds * _NAMES_PER_SECOND))
        self._bytes += max(0, added) * _NAME_BYTES
        self._names, self._system_seconds = names, use.system_seconds
        return self._bytes


class UsageCheck:
    """Checks the resource limits of a guest from outside, in addition to the kernel."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._names = limits, NameCache()

    def exceeded(self, use: ProcessUsage) -> tuple[str, str] | None:
        """Return the reason to end the guest, and a message; None within the limits. Call this regularly."""
        limits = self._limits
        if use.cpu_seconds > limits.cpu_seconds + _LAST_CPU_SECONDS:
            return "limit:cpu", f"the program used over {seconds_of(limits.cpu_seconds)} of CPU"
        if use.memory_bytes > limits.memory_bytes:
            return "limit:memory", f"the program used over {limits.memory_bytes:,} bytes of memory"
        if self._names.look(use) > min(_MAX_NAME_BYTES, limits.memory_bytes):
            return "limit:memory", "the program looked up too many files that do not exist"
        if use.threads > limits.processes:
            return "limit:processes", f"the program started over {limits.processes:,} threads"
        return None


def _missing_names() -> int:
    try:
        with open("/proc/sys/fs/dentry-state", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, IndexError):
        return 0


def seconds_of(number: float) -> str:
    """A time as text."""
    return f"{number:g} second" + ("" if number == 1 else "s")
