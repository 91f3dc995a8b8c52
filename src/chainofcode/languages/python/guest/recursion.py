"""Stack headroom for guest code that the program calls, and recognition of its errors. Standard library only."""

from __future__ import annotations

import builtins
import re
import sys

_OVERSHOOT = 1  # stack frames that a program may get beyond its recursion limit
_AT_DEPTH = re.compile(r"recursion depth (\d+)")
_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit  # world.py replaces those in `sys`


class headroom:
    """Raise the recursion limit while guest code runs, so that its frames do not count against the program's limit.

    If the stack is too deep to restore the old limit, the lowest possible limit is set, and the next use restores it.
    """

    __slots__ = ("_frames", "_usual")
    _raised_to = 0  # the limit while a `headroom` is active
    _owed = _kept = 0  # the limit that could not be restored, and the one set instead

    def __init__(self, frames: int = 120) -> None:
        self._frames, self._usual = frames, 0

    def __enter__(self) -> None:
        limit = _get_limit()
        if limit == headroom._raised_to:  # nested
            return
        if headroom._owed and limit == headroom._kept:
            limit = headroom._owed
            try:
                _set_limit(limit + _OVERSHOOT)
            except RecursionError:  # the program is deeper than its own limit
                raise RecursionError("maximum recursion depth exceeded") from None
        headroom._owed, self._usual = 0, limit
        headroom._raised_to = min(limit + self._frames, 2**31 - 1)
        _set_limit(headroom._raised_to)

    def __exit__(self, *exc: object) -> None:
        if not self._usual or _get_limit() != headroom._raised_to:  # the program may have changed it in a `__repr__`
            return
        try:
            _set_limit(self._usual)
        except RecursionError as error:
            if not is_guest_error(error):
                raise
            headroom._owed, headroom._kept = self._usual, depth_of(error) + 1
            _set_limit(headroom._kept)
        headroom._raised_to = 0


def depth_of(error: RecursionError) -> int:
    """Return the stack depth that a failed `sys.setrecursionlimit` reported."""
    found = _AT_DEPTH.search(str(error))
    return int(found[1]) if found is not None else 0


_FAILURES = frozenset(
    id(kind)
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, TimeoutError)
)


def is_guest_error(error: BaseException) -> bool:
    """Whether an error was raised by guest code itself: such an error must not reach the program.

    Other errors came from outside while guest code ran: from a signal handler of the program, or another thread.
    """
    if id(type(error)) not in _FAILURES:
        return False
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<"):  # the program, or text it runs with `exec`
            return False
        trace = trace.tb_next
    return True
