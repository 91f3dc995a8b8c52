"""Calls whose values the host is asked for: the same call once.

A call is known by its function and its arguments. One without arguments, or with arguments that cannot be known again,
is asked for every time. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from .link import Link
from .raised import made
from .values import Record, decode

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_SHARED_STEPS = 6000  # uses of a value that was there already; beyond them they are no news


def given(reply: dict[str, Any]) -> Any:
    """The value of a reply; raises the error that a tool answered with."""
    if "error" in reply:
        raise made(reply["error"], reply.get("raised"))
    return decode(reply["value"], record=Record)


class Requests:
    """Asks the host for values, and keeps those that may be used again."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._replies: dict[str, tuple[int, dict[str, Any]]] = {}  # key → number of the pause, reply
        self._shared = 0

    def look_at(self, value: object, statement: int) -> None:
        """An argument of a call: every value will do."""

    def reach(self, key: str | None, statement: int, tell: Callable[[], dict[str, Any]]) -> Any:
        """The value of a call."""
        self._link.before_pause()  # takes the watcher's lock, and then the link's: never the other way round
        with self._link.lock:  # another thread may be about to ask for the same
            if key is not None and key in self._replies:
                number, reply = self._replies[key]
                self._tell_use(number, statement)
                return given(reply)
            number, reply = self._link.pause(tell())
            if key is not None and not reply.get("once"):
                self._replies[key] = number, reply
            return given(reply)

    def statement(self, message: dict[str, Any]) -> Any:
        """The delta of a statement that Python cannot run."""
        self._link.before_pause()
        return given(self._link.pause(message)[1])

    def _tell_use(self, number: int, statement: int) -> None:
        """Say that the program took a value again: the step comes now, in the program's order."""
        self._shared += 1
        if self._shared <= MAX_SHARED_STEPS:
            self._link.tell_settled(number, statement)
