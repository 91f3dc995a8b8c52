"""Resource usage of a process, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessUsage:
    """CPU time, threads and memory of one process."""

    cpu_seconds: float
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, pid: int) -> ProcessUsage | None:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # the process has ended, or there is no /proc
            return None
        user, system, threads, pages = (int(fields[place]) for place in (11, 12, 17, 21))
        return cls(cpu_seconds=(user + system) / _TICKS, threads=threads, memory_bytes=pages * _PAGE_BYTES)
