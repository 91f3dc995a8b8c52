"""Calls whose values the host was asked for: each once, some before the program gets to them.

A call is known by its function and its arguments. One without arguments, or with arguments that are not plain data,
is asked for every time. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from .link import Link

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_SHARED_STEPS = 6000  # uses of a value that was there already; beyond them they are no news


class NotYet(BaseException):
    """A value that is on its way, met while looking ahead."""


class Request:
    """A call under way, or answered."""

    __slots__ = ("is_failed", "is_taken", "number", "reply")

    def __init__(self, number: int) -> None:
        self.number = number
        self.reply: dict[str, Any] | None = None
        self.is_failed = self.is_taken = False


class Requests:
    """Asks for calls and keeps their values; `width` is how many may be under way before the program waits."""

    def __init__(self, link: Link, width: int) -> None:
        self._link, self.width = link, width
        self._by_key: dict[str, Request] = {}
        self._keys: dict[int, str | None] = {}  # under way
        self.once: set[str] = set()  # calls whose value holds for one use: whether there is a next one, nobody knows
        self._shared = self.sent = 0
        self._is_over = False  # nothing that is asked for ahead will be answered any more
        self.is_surprised = False  # the program got to a call that nobody had asked for ahead
        self.heard: Callable[[str], None] = lambda key: None  # a value came for a call that was sent ahead
        link.heard = self._hear

    @property
    def has_room(self) -> bool:
        return len(self._keys) < self.width and not self._is_over

    def reach(self, key: str | None, statement: int, tell: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The value of a call that the program has got to: asked for now, unless it was before."""
        self._link.before_pause()  # takes the watcher's lock, and then the link's: never the other way round
        with self._link.lock:
            request = self._by_key.get(key) if key is not None else None
            if request is None:
                self.is_surprised = True
                request = self._open(key, tell())
                self._link.flush()
            elif request.reply is None:
                self._link.send({"type": "waiting", "id": request.number, "statement": statement})
            elif 2 * len(self._keys) < self.width:
                self._link.while_waiting()  # it need not wait, but others should be under way
            self._link.wait(lambda: request.reply is not None)
            self._settle(request, statement)
            reply: dict[str, Any] = request.reply  # type: ignore[assignment]
            if key is not None and reply.get("once"):
                self._by_key.pop(key, None)
                self.once.add(key)
            return reply

    def _settle(self, request: Request, statement: int) -> None:
        """Say that the program took a value: the step comes now, in the program's order."""
        if request.is_taken:
            self._shared += 1
            if self._shared > MAX_SHARED_STEPS:
                return
        request.is_taken = True
        self._link.post({"type": "settled", "id": request.number, "statement": statement})
        self._link.settled()

    def ahead(self, key: str, message: dict[str, Any]) -> None:
        """Ask for a call that the program will probably get to."""
        self.sent += 1
        self._open(key, {**message, "ahead": True})

    def known(self, key: str) -> Request | None:
        return self._by_key.get(key)

    def _open(self, key: str | None, message: dict[str, Any]) -> Request:
        request = Request(self._link.open(message))
        self._keys[request.number] = key
        self._link.asked[request.number] = request
        if key is not None:
            self._by_key[key] = request
        return request

    def _hear(self, request: Request, reply: dict[str, Any]) -> None:
        key = self._keys.pop(request.number, None)
        if reply.get("failed"):  # that matters when the program gets there: then the host says so
            request.is_failed = True
            self._is_over = self._is_over or reply.get("last", False)
        else:
            request.reply = reply
        if key is not None:
            self.heard(key)
