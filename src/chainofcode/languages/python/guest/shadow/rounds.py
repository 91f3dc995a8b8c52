"""A shadow of the program: a throw-away copy that runs ahead of it, in rounds, to find the calls it will make.

Each round is a speculative run of the program from its beginning. Calls with known values return them, other calls
return promises and are reported to the host, which requests their values for a later round. Effects stay in this
process, which the host may kill at any time. Standard library only.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import threading
from types import ModuleType

from .....values.codec import show_as
from ....guest.file_readers import read_file
from ....guest.link import GuestLink, clean
from ....guest.requests import value_in
from ..run.bindings import Bindings, failure
from ..run.places import FILENAME, Places
from ..run.watch import Output
from ..run.world import Clock, RandomGenerators
from . import promises
from .promises import Promise, Unknown, is_promise

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from ..main import Prepared

MAX_NEW_CALLS = 1000  # per round
MAX_WAITING = 1000
_MAX_ORIGIN_CHARS = 200
_MORE_FRAMES = 4  # factor on the recursion limit: a call takes more frames in speculative code


class RoundOver(BaseException):
    """Raised to end a round that has found enough calls."""


class Foresight:
    """The values that a shadow knows, and the calls that it reports to the host."""

    def __init__(self, link: GuestLink, tools: Any) -> None:
        self._link, self._tools = link, frozenset(tools)
        self._replies: dict[str, list[dict[str, Any]]] = {}
        self._reported: dict[str, tuple[int, str]] = {}  # key → number and text
        self.begin()

    def begin(self) -> None:
        """Begin a new round."""
        self._taken: dict[str, int] = {}
        self.met: dict[int, None] = {}  # reported calls in the order the program makes them
        self.waiting: dict[int, str] = {}  # statements, and the calls whose values they wait for
        self._new = self._unsent = 0

    def learn(self, known_value: dict[str, Any]) -> None:
        """Take a value from the host."""
        if known_value["kind"] == "statement":
            key = _statement_key(known_value["statement"])
        elif known_value["known_by"] is not None:
            key = self._link.text(
                [known_value["text"], known_value["args"], known_value["kwargs"], known_value["known_by"]]
            )
        else:
            key = known_value["text"]
        self._replies.setdefault(key, []).append(known_value["reply"])

    def look_at(self, value: object, statement: int) -> None:
        """Reject an argument that is a promise: the result of the call is unknown, too."""
        if is_promise(value):
            self.note(statement, value.origin)
            raise Unknown(value.origin)

    def note(self, statement: int, origin: str) -> None:
        """Note the call whose value a statement waits for."""
        if len(self.waiting) < MAX_WAITING:
            self.waiting.setdefault(statement, origin)

    def reach(self, key: str | None, statement: int, make_message: Callable[[], dict[str, Any]]) -> Any:
        """Return the value of a call, or a promise."""
        if key is not None and key not in self._replies and key in self._reported:
            number, origin = self._reported[key]
            self.met[number] = None
            return Promise(origin)
        message: dict[str, Any] | None = None
        known = key
        if known is None:
            message = make_message()
            known = str(message["text"])
        replies = self._replies.get(known, ())
        reply = self._next_reply(known, replies)
        if reply is not None:
            return value_in(reply)
        message = message or make_message()
        origin = clean(message["text"], _MAX_ORIGIN_CHARS)
        if key is None or replies or message["name"] in self._tools:
            self.note(statement, origin)  # requested only when the program makes the call
        else:
            self._report(key, message, origin)
        return Promise(origin)

    def _next_reply(self, key: str, replies: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the reply to a call, if it has arrived. A reply without `once` also answers repeated calls."""
        turn = self._taken[key] = self._taken.get(key, 0) + 1
        if replies and not replies[0].get("once"):
            return replies[0]
        return replies[turn - 1] if turn <= len(replies) else None

    def statement(self, message: dict[str, Any]) -> Any:
        """Return the delta of a statement that Python cannot run, if it is known."""
        key = _statement_key(message["statement"])
        turn = self._taken[key] = self._taken.get(key, 0) + 1
        if turn > len(self._replies.get(key, ())):
            raise Unknown(clean(message["text"], _MAX_ORIGIN_CHARS))
        return value_in(self._replies[key][turn - 1])

    def _report(self, key: str, message: dict[str, Any], origin: str) -> None:
        number = self._link.open(message)
        self._reported[key] = number, origin
        self.met[number] = None
        self._new += 1
        self._unsent += 1
        if 4 * self._unsent >= self._new:  # early, since the code after it may never end; but each write wakes the host
            self._link.flush()
            self._unsent = 0
        if self._new >= MAX_NEW_CALLS:
            raise RoundOver


def _statement_key(number: int) -> str:
    return f"statement {number}"


class Shadow:
    """Runs the rounds of lookahead for one program."""

    def __init__(
        self, link: GuestLink, start: dict[str, Any], program: Prepared, make_inputs: Callable[[], dict[str, Any]]
    ) -> None:
        self._link, self._start, self._program, self._make_inputs = link, start, program, make_inputs
        self._clock, self._generators = Clock(start["clock"], sleeps=False), RandomGenerators(start["seed"])
        self._foresight = Foresight(link, start["tools"])
        self._places = Places(program.lowered.places, program.found.guards, program.lowered.hole_ranges)
        show_as(Promise, "…")
        self._origin = ""
        self._names: dict[str, Any] = {}

    def run(self) -> NoReturn:
        self._enter_world()
        while True:
            for known_value in self._link.receive()["values"]:  # a survey
                self._foresight.learn(known_value)
            error = self._round()
            met, waiting = list(self._foresight.met), list(self._foresight.waiting.items())
            self._link.send({"type": "surveyed", "calls": met, "skipped": waiting, "error": error})

    def _enter_world(self) -> None:
        self._clock.install()
        self._generators.install()
        source = self._program.parsed.source
        linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
        sys.argv = ["program.py"]
        threading.stack_size(1 << 20)
        sys.setrecursionlimit(_MORE_FRAMES * sys.getrecursionlimit())
        self._exit = os._exit
        os._exit = self._leave  # type: ignore[assignment]

    def _leave(self, code: int) -> NoReturn:
        self._link.flush()
        self._exit(code)

    def _round(self) -> dict[str, Any] | None:
        """Run the program once. Returns the error that it ended with, if any."""
        self._foresight.begin()
        self._clock.restart()
        self._generators.restart()
        sys.stdout = sys.stderr = io.TextIOWrapper(Output(lambda text: None), encoding="utf-8", errors="replace")
        module = sys.modules["__main__"] = ModuleType("__main__")
        names = self._names = module.__dict__
        try:
            names.update(self._make_inputs())
            names.update({name: read_file(*how) for name, *how in self._start["prelude"]})
            names["__builtins__"] = self._builtins()
            exec(self._program.code, names)
        except (Unknown, RoundOver, SystemExit):
            return None
        except BaseException as error:  # raised by the program
            return failure(error, self._places, ())
        return None

    def _builtins(self) -> ModuleType:
        with_state = self._start["with_state"]
        bindings = Bindings(
            self._link, self._program, self._places, self._foresight, after_import=self._settle, with_state=with_state
        )
        bindings.builtins.__dict__.update(
            {
                "$call": promises.call,
                "$item": promises.item,
                "$same": promises.same,
                "$need": promises.need,
                "$guard": promises.guard,
                "$test": promises.test,
                "$collect": promises.collect,
                "$read_all": promises.read_all,
                "$fstring": promises.text,
                "$Lazy": promises.Lazy,
                "$Loop": promises.Loop,
                "$list": list,
                "$set": set,
                "$dict": dict,
                "$slice": slice,
                "$Unknown": Unknown,
                "$Leaving": (Unknown, RoundOver),
                "$BaseException": BaseException,
                "$unknown": self._unknown,
                "$forget": self._forget,
                "$skipped": self._skip,
            }
        )
        return bindings.builtins

    def _settle(self) -> None:
        self._clock.settle()
        self._generators.settle()

    def _skip(self, statement: int) -> None:
        error = sys.exc_info()[1]
        self._origin = error.origin if isinstance(error, Unknown) else ""
        self._foresight.note(statement, self._origin)

    def _unknown(self) -> Promise:
        return Promise(self._origin)

    def _forget(self, name: str) -> None:
        self._names[name] = Promise(self._origin)
