"""Requests of a JavaScript program for the values of calls: one at a time, or several in flight. Standard library only.

Awaited values are passed to the program in the order in which they were requested, regardless of the order in which
they arrive, so that a run can be repeated.
"""

from __future__ import annotations

import json
import math
from collections import deque

from ....values.codec import Opaque, brief, decode, encode
from ...guest.link import GuestLink, clean
from ...guest.requests import MAX_SHARED_BYTES, MAX_SHARED_STEPS
from .stack_places import StackPlaces

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_CALL_CHARS = 200_000
MAX_SHOWN_CHARS = 500  # of a variable


class JsCall:
    """A call that the program makes: its message for the host, and its key, if its value can be reused."""

    def __init__(self, link: GuestLink, call_json: str, places: StackPlaces, here: int) -> None:
        call = json.loads(call_json)
        found = places.statement(call["stack"])
        self.statement = here if found is None else found
        self.name = clean(call["name"], 1000)
        self.text = clean(call["text"], MAX_CALL_CHARS)
        args = [encode(arg) for arg in call["args"]]
        # No key for calls without arguments, nor for arguments that JSON cannot express: requested every time.
        self.key = link.text([self.text, args]) if args and not call["opaque"] else None
        self.message: dict[str, Any] = {
            "kind": "call",
            "name": self.name,
            "text": self.text,
            "args": args,
            "kwargs": {},
            "known_by": [] if self.key is not None else None,
            "statement": self.statement,
        }
        if "state" in call:
            self.message["state"] = {
                clean(name, 1000): clean(text, MAX_SHOWN_CHARS) for name, text in call["state"].items()
            }


def reply_text(reply: dict[str, Any]) -> str:
    """Return a reply of the host as JSON for the program: its value, or an error to throw."""
    if "error" in reply:
        raised = reply.get("raised")
        kind, text = raised if isinstance(raised, list) and len(raised) == 2 else ("ToolError", reply["error"])
        return json.dumps({"error": str(text), "kind": str(kind)})
    value, is_special = plain(decode(reply["value"]))
    return json.dumps({"value": value, "special": is_special}, ensure_ascii=True)


def plain(value: Any) -> tuple[Any, bool]:
    """Convert a value to data for JSON; also return whether some numbers are written as `{"$number": …}`."""
    special = False

    def converted(part: Any) -> Any:
        nonlocal special
        if isinstance(part, float) and not math.isfinite(part):
            special = True
            return {"$number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(part, "NaN")}
        if part is None or isinstance(part, (bool, int, float, str)):
            return part
        if isinstance(part, dict):
            return {key if isinstance(key, str) else brief(key): converted(item) for key, item in part.items()}
        if isinstance(part, (list, tuple, set, frozenset, range)):
            return [converted(item) for item in part]
        if isinstance(part, Opaque):
            return part.text
        return part.isoformat() if hasattr(part, "isoformat") else str(part)

    return converted(value), special


class ValueRequests:
    """Requests values from the host and keeps those that may be reused."""

    def __init__(self, link: GuestLink, places: StackPlaces, *, with_state: bool) -> None:
        self._link, self._places, self._with_state = link, places, with_state
        self.here = 0  # the statement that was seen last
        self._replies: dict[int, dict[str, Any]] = {}  # by the number of the pause
        self._known: dict[str, int] = {}  # key → number of the pause
        self._settled: set[int] = set()
        self.taken: dict[
            int, list[int]
        ] = {}  # statement → the values it took, by their place among all steps of values
        self._steps = 0
        self._open: deque[tuple[int, int, JsCall]] = deque()  # awaited: number of the promise, of the pause, the call
        self._promises = self._shared = self._shared_bytes = 0

    def ask(self, call_json: str) -> str:
        """Return the value of a call; the program waits. Returns "" if the request lacks the variables."""
        called = self._called(call_json)
        if self._lacks_state(called):
            return ""
        number = self._number(called)
        return self._take(number, called.statement)

    def open(self, call_json: str) -> int:
        """Request the value of a call that the program awaits. Returns the number of its promise, or 0: see `ask`."""
        called = self._called(call_json)
        if self._lacks_state(called):
            return 0
        self._promises += 1
        self._open.append((self._promises, self._number(called), called))
        return self._promises

    def next_awaited(self) -> tuple[int, str] | None:
        """Wait for the first awaited call without a value. Returns the number of its promise, and its value."""
        if not self._open:
            return None
        promise, number, called = self._open.popleft()
        if number in self._settled and self._replies[number].get("once"):  # the value was for one other call only
            number = self._number(called)
        return promise, self._take(number, called.statement)

    def _called(self, call_json: str) -> JsCall:
        called = JsCall(self._link, call_json, self._places, self.here)
        self.here = called.statement
        return called

    def _lacks_state(self, called: JsCall) -> bool:
        return self._with_state and "state" not in called.message and self._earlier(called) is None

    def _earlier(self, called: JsCall) -> int | None:
        """Return the pause of an earlier identical call, if its value may be reused."""
        known = self._known.get(called.key) if called.key is not None else None
        return None if known is None or self._replies.get(known, {}).get("once") else known

    def _number(self, called: JsCall) -> int:
        """Return the pause of a call: that of an earlier identical call, or a new one."""
        known = self._earlier(called)
        if known is not None:
            return known
        self._link.before_pause()
        number = self._link.open(called.message)
        if called.key is not None:
            self._known[called.key] = number
        return number

    def _take(self, number: int, statement: int) -> str:
        self._link.before_pause()
        self._link.flush()
        while number not in self._replies:
            reply = self._link.receive()
            if reply.get("type") != "resume":
                raise EOFError("the host sent no value")
            self._replies[reply["id"]] = reply
        reply = self._replies[number]
        self._tell_use(number, statement, reply)
        return reply_text(reply)

    def _tell_use(self, number: int, statement: int, reply: dict[str, Any]) -> None:
        """Tell the host that the program took a value; repeated uses up to a bound."""
        if number not in self._settled:
            self._settled.add(number)
            self._settle(number, statement)
        elif self._shared < MAX_SHARED_STEPS and self._shared_bytes < MAX_SHARED_BYTES and not reply.get("once"):
            self._shared += 1
            self._shared_bytes += len(self._link.text(reply.get("value")))
            self._settle(number, statement)

    def _settle(self, number: int, statement: int) -> None:
        self.taken.setdefault(statement, []).append(self._steps)
        self._steps += 1
        self._link.tell_settled(number, statement)
