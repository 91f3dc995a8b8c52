"""The inside of a process for one job: sets limits, reads a JSON job from stdin, writes a JSON result to stdout.

`isolated` is the parent's side. Standard library only, for start-up time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_MAX_FILE_BYTES = 1024**2  # sorting stays in memory; SQLite writes a small index file beside some databases
_MAX_RESULT_BYTES = 64 * 1024**2
_NICENESS = 5  # the process that waits for the result has priority


def carry_out(
    work: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    starts_guests: bool = False,
    write: Callable[[dict[str, Any]], str] = json.dumps,
) -> None:
    """Run the job on standard input; `write` turns the result into JSON. Use `timed` for a stricter time limit.

    With `starts_guests`, the limits are not inherited by child processes: guests have their own.
    """
    job = json.load(sys.stdin)
    _limit(job["seconds"], job["memory"], is_inherited=not starts_guests)
    try:
        text = write(work(job))
        if len(text) > _MAX_RESULT_BYTES:
            text = json.dumps({"error": "its result is too large"})
    except MemoryError:
        text = json.dumps({"error": "it used too much memory"})
    sys.stdout.write(text)


def _limit(seconds: float, memory: int, *, is_inherited: bool) -> None:
    os.nice(_NICENESS)
    limits = [(resource.RLIMIT_DATA, memory), (resource.RLIMIT_CORE, 0)]
    if is_inherited:
        limits += [(resource.RLIMIT_FSIZE, _MAX_FILE_BYTES), (resource.RLIMIT_CPU, math.ceil(seconds) + 1)]
    for which, most in limits:
        hard = resource.getrlimit(which)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (allowed, allowed if is_inherited else hard))


@contextlib.contextmanager
def timed(seconds: float, timer: int = signal.ITIMER_REAL) -> Iterator[None]:
    """Have the kernel end this process after `seconds`."""
    signal.setitimer(timer, seconds)
    yield
    signal.setitimer(timer, 0)
