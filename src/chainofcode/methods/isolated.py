"""Work that might take for ever, or all memory, in a process of its own, which the kernel ends: JSON in, JSON out.

Both ends of it. The process starts with `boot.py` and imports the standard library, and what the work needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator

from .. import boot

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take longer than all of ours
    from typing import Any

_MAX_FILE_BYTES = 1024**2  # whatever is sorted stays in memory; SQLite keeps an index of a log beside some databases


def carried_out(module: str, job: dict[str, Any], *, seconds: float, memory: int) -> dict[str, Any]:
    """What `main` of a module makes of a job; `{"error": why}` where it came to no end."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-P", "-X", "utf8", boot.__file__, module],
        input=json.dumps({**job, "seconds": seconds, "memory": memory}).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode in (-signal.SIGALRM, -signal.SIGPROF):
        return {"error": f"it took over {seconds:g} seconds"}
    if done.returncode != 0:
        return {"error": "it takes too much memory, or breaks what carries it out"}
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def carry_out(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """In the process: does what standard input says. Its time is bounded where it counts, by `timed`."""
    job = json.load(sys.stdin)
    for which, most in (
        (resource.RLIMIT_DATA, job["memory"]),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (allowed, allowed))
    try:
        told = work(job)
    except MemoryError:
        told = {"error": "it takes too much memory"}
    json.dump(told, sys.stdout)


@contextlib.contextmanager
def timed(seconds: float, timer: int = signal.ITIMER_REAL) -> Iterator[None]:
    """The kernel ends us when the time is over, whatever we are doing."""
    signal.setitimer(timer, seconds)
    yield
    signal.setitimer(timer, 0)
