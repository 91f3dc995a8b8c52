"""Requests to the host for the values of calls; repeated calls are requested once.

A call is identified by its function and its arguments. A call without arguments, or with an argument that has no
identity, is requested every time. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from ...values.codec import Record, decode
from .link import GuestLink
from .raised import error_to_raise

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

# Reuses of a value are reported up to a number and up to a size: each report repeats the value.
MAX_SHARED_STEPS, MAX_SHARED_BYTES = 6000, 20_000_000


def value_in(reply: dict[str, Any]) -> Any:
    """Return the value of a reply, or raise the error of the tool."""
    if "error" in reply:
        raise error_to_raise(reply["error"], reply.get("raised"))
    return decode(reply["value"], record=Record)


class Requests:
    """Requests values from the host and keeps those that may be reused."""

    def __init__(self, link: GuestLink) -> None:
        self._link = link
        self._replies: dict[str, tuple[int, dict[str, Any]]] = {}  # key → number of the pause, reply
        self._shared = self._shared_bytes = 0

    def look_at(self, value: object, statement: int) -> None:
        """Accept any argument (a shadow rejects promises here)."""

    def reach(self, key: str | None, statement: int, make_message: Callable[[], dict[str, Any]]) -> Any:
        """Return the value of a call."""
        self._link.before_pause()  # acquires the watcher's lock, then the link's: always in this order
        with self._link.lock:  # another thread may request the same call
            if key is not None and key in self._replies:
                number, reply = self._replies[key]
                self._tell_use(number, statement, reply)
                return value_in(reply)
            number, reply = self._link.pause(make_message())
            if key is not None and not reply.get("once"):
                self._replies[key] = number, reply
            return value_in(reply)

    def statement(self, message: dict[str, Any]) -> Any:
        """Return the delta of a statement that Python cannot run."""
        self._link.before_pause()
        return value_in(self._link.pause(message)[1])

    def _tell_use(self, number: int, statement: int, reply: dict[str, Any]) -> None:
        """Tell the host that the program reused a value: the step is recorded now, in program order."""
        if self._shared < MAX_SHARED_STEPS and self._shared_bytes < MAX_SHARED_BYTES:
            self._shared += 1
            self._shared_bytes += len(self._link.text(reply.get("value")))
            self._link.tell_settled(number, statement)
