"""Runs work that may take too much time or memory in a process with limits: JSON in, JSON out.

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
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_MAX_FILE_BYTES = 1024**2  # sorting stays in memory; SQLite writes a small index file beside some databases


def carried_out(module: str, job: dict[str, Any], *, seconds: float, memory: int) -> dict[str, Any]:
    """Return what `main` of a module makes of a job; `{"error": why}` where it ran into a limit."""
    import subprocess  # on use, for start-up time

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
    """Run the job on standard input, inside the process. `timed` bounds its time."""
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
    """Have the kernel end this process when the time is over."""
    signal.setitimer(timer, seconds)
    yield
    signal.setitimer(timer, 0)
