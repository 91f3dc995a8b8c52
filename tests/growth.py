"""Measures how the time for a piece of work grows with its size."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable

_REPEATS = 5  # of a measurement above its bound


def seconds_of(work: Callable[[], object]) -> float:
    """CPU time of this process and its children, without garbage collections, which happen at random times."""
    gc.collect()
    gc.freeze()  # otherwise the next collection scans all modules again, which takes longer than most work
    gc.disable()
    before = _cpu_seconds()
    try:
        work()
        return _cpu_seconds() - before
    finally:
        gc.enable()


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def least_seconds(work: Callable[[], object], enough: float = 0.0) -> float:
    """The fastest of several measurements: other processes can only make one slower."""
    least = float("inf")
    for _ in range(_REPEATS):
        least = min(least, seconds_of(work))
        if least <= enough:
            break
    return least


def assert_linear(work_of: Callable[[int], Callable[[], object]], size: int, floor: float = 0.2) -> None:
    """Check that four times the size takes far less than sixteen times as long. Times below `floor` are noise."""
    small = least_seconds(work_of(size))
    allowed = max(floor, 9 * small)
    large = least_seconds(work_of(4 * size), allowed)
    assert large <= allowed, f"{small:.3f} s for {size:,}, {large:.3f} s for {4 * size:,}"
