"""A shadow of a JavaScript program: it runs ahead of the program, in rounds, and reports the calls it meets.

Each round is a speculative run from the beginning, in a fresh engine. Calls with known values return them; other calls
return promises and are reported to the host, which requests their values for a later round. Standard library only.
"""

from __future__ import annotations

import json

from ...guest.link import GuestLink, clean
from .source_compiler import SHADOW_RUNTIME
from .value_requests import JsCall, reply_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .main import CompiledProgram, ProgramEngine

MAX_NEW_CALLS = 1000  # per round
MAX_WAITING = 1000
_MAX_ORIGIN_CHARS = 200


class SpeculativeRounds:
    """Runs the rounds of lookahead for one program."""

    def __init__(
        self, link: GuestLink, start: dict[str, Any], program: CompiledProgram, make_engine: Callable[[], ProgramEngine]
    ) -> None:
        self._link, self._program, self._make_engine = link, program, make_engine
        self._tools, self._with_state = frozenset(start["tools"]), start["with_state"]
        self._replies: dict[str, list[dict[str, Any]]] = {}
        self._reported: dict[str, tuple[int, str]] = {}  # key → number and text

    def run(self) -> NoReturn:
        while True:
            for known_value in self._link.receive()["values"]:  # a survey
                self._learn(known_value)
            self._begin()
            self._round()
            skipped = list(self._waiting.items())
            self._link.send({"type": "surveyed", "calls": list(self._met), "skipped": skipped, "error": self._error})

    def _begin(self) -> None:
        self._taken: dict[str, int] = {}
        self._met: dict[int, None] = {}  # reported calls in the order the program makes them
        self._waiting: dict[int, str] = {}  # statements, and the calls whose values they wait for
        self._error: dict[str, Any] | None = None
        self._new = 0

    def _learn(self, known_value: dict[str, Any]) -> None:
        is_known = known_value["known_by"] is not None
        key = self._link.text([known_value["text"], known_value["args"]]) if is_known else known_value["text"]
        self._replies.setdefault(key, []).append(known_value["reply"])

    def _round(self) -> None:
        engine = self._make_engine()
        nothing = {"$step": lambda step: False, "$print": lambda text, stack: None, "$finish": lambda answer: None}
        try:
            engine.load(
                {"$ask": self._reach, "$open": self._reach, "$skip": self._skip, "$fail": self._fail, **nothing},
                SHADOW_RUNTIME,
            )
            engine.start(engine.main())
            engine.run_jobs()
            while self._error is None and engine.next_timer():
                engine.run_jobs()
        except Exception as error:  # raised by the engine: the round ends here
            self._fail(json.dumps(type(error).__name__), json.dumps(str(error)[:1000]), json.dumps(""))

    def _reach(self, call_json: str) -> str:
        """Return the value of a call, or `?` and the text of the call that it waits for; see `ValueRequests.ask`."""
        called = JsCall(self._link, call_json, self._program.places, 0)
        key = called.key
        if key is not None and key not in self._replies and key in self._reported:
            number, origin = self._reported[key]
            self._met[number] = None
            return f"?{origin}"
        replies = self._replies.get(key or called.text, [])
        reply = self._next_reply(key or called.text, replies)
        if reply is not None:
            return reply_text(reply)
        origin = clean(called.text, _MAX_ORIGIN_CHARS).encode("ascii", "backslashreplace").decode()
        if key is None or replies or called.name in self._tools:
            self._note(called.statement, origin)  # requested only when the program makes the call
        elif self._with_state and "state" not in called.message:
            return ""
        elif self._new < MAX_NEW_CALLS:
            self._report(key, called, origin)
        return f"?{origin}"

    def _next_reply(self, key: str, replies: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the reply to a call, if it has arrived. A reply without `once` also answers repeated calls."""
        turn = self._taken[key] = self._taken.get(key, 0) + 1
        if replies and not replies[0].get("once"):
            return replies[0]
        return replies[turn - 1] if turn <= len(replies) else None

    def _report(self, key: str, called: JsCall, origin: str) -> None:
        number = self._link.open(called.message)
        self._reported[key] = number, origin
        self._met[number] = None
        self._new += 1
        self._link.flush()

    def _skip(self, statement: int, origin: str) -> None:
        self._note(statement, json.loads(origin))

    def _note(self, statement: int, origin: str) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.setdefault(statement, origin)

    def _fail(self, name: str, message: str, stack: str) -> None:
        if self._error is None:
            where = json.loads(stack)
            self._error = {"type": clean(json.loads(name), 200), "message": clean(json.loads(message), 4000)}
            statement = self._program.places.statement(where)
            if statement is not None:
                self._error |= {"line": self._program.places.line_in(where, statement), "statement": statement}
