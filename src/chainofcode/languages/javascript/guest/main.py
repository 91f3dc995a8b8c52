"""Runs a JavaScript program to its end, inside the guest process: compile, run on QuickJS, report the answer.

Standard library only, and `_quickjs`. The program can reach this process only through the functions of `runtime/`,
which exchange text with it; the host trusts nothing that this process sends.
"""

from __future__ import annotations

import json
import os
import time

from ....values.codec import decode, encode
from ...guest.file_readers import FileError, read_file
from ...guest.link import GuestLink, clean
from .halting import Halting
from .source_compiler import RUNTIME, compiler, find_program, stack_bytes
from .speculation import SpeculativeRounds
from .stack_places import LINES_ABOVE, StackPlaces
from .static_lineage import lineage_of
from .step_log import StepLog
from .value_requests import ValueRequests, plain

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable
    from typing import Any

MAX_ANSWER_CHARS = 1_000_000
MAX_LINEAGE_CHARS = 12_000_000
_RESERVE_BYTES = 8 << 20
_REHEARSAL = "const f = (x) => x;\nfor (const w of ['a']) { if (isGood(w)) f(w); }\nanswer = f(1);"
_FAILED = '{"error": "the call failed", "kind": "InternalError"}'
_NO_ANSWER = "the program ended without an answer: it sets no `answer`, ends in no expression and prints nothing"
_PENDING = "the program waits for a promise that is never settled"


def rehearse() -> None:
    """Compile a program that is not run: a fork of this process has the compiler ready."""
    CompiledProgram({"source": _REHEARSAL, "is_reply": False}, [])


def serve(link: GuestLink, start: dict[str, Any]) -> dict[str, Any]:
    """Run one program and return how it ended."""
    given = GivenVariables(start)
    program = CompiledProgram(start, given.names)
    link.send({"type": "parsed", "program": program.description()})
    if start["is_shadow"]:
        SpeculativeRounds(link, start, program, lambda: ProgramEngine(start, program, given)).run()
    return _Run(link, start, program, given).run()


def describe(start: dict[str, Any]) -> dict[str, Any]:
    """Parse a program without running it, and return its description."""
    return CompiledProgram(start, ["question"]).description()


class GivenVariables:
    """The variables that a program starts with: the question, the inputs, and the data of files."""

    def __init__(self, start: dict[str, Any]) -> None:
        question = {} if start["question"] is None else {"question": start["question"]}
        self._inputs, self._files = {**question, **start["inputs"]}, start["prelude"]
        self.names = [*self._inputs, *(name for name, *_ in self._files)]
        self._text = ""

    def text(self) -> str:
        """Return them as JSON. Reads the files, once. Raises FileError."""
        if not self._text:
            values = {name: decode(value) for name, value in self._inputs.items()}
            values |= {name: read_file(*how) for name, *how in self._files}
            self._text = json.dumps(plain(values)[0])
        return self._text


class CompiledProgram:
    """A program compiled."""

    def __init__(self, start: dict[str, Any], given: list[str]) -> None:
        self.source = find_program(start["source"], is_reply=start["is_reply"])
        self.compiled = compiler().prepare(
            self.source,
            inputs=given,
            tools=list(start.get("tools", ())),
            isShadow=bool(start.get("is_shadow")),
            isRecorded=bool(start.get("is_recorded")),
            isShown=bool(start.get("with_state")),
        )
        self.places = StackPlaces(self.compiled["marks"], self.compiled["statements"])

    def description(self) -> dict[str, Any]:
        compiled = self.compiled
        return {
            "event": "program",
            "source": self.source,
            "statements": compiled["statements"],
            "holes": compiled["holes"],
            "uses": compiled["uses"],
            "is_hard_coded": compiled["isHardCoded"],
        }


class ProgramEngine:
    """The engine that a program runs in. Errors of the program become data: none is raised here."""

    def __init__(self, start: dict[str, Any], program: CompiledProgram, given: GivenVariables) -> None:
        import _quickjs

        self._error_type = _quickjs.JSException
        os.environ["TZ"] = "UTC"
        time.tzset()
        self._context = _quickjs.Context()
        self._context.set_max_stack_size(stack_bytes())
        self._program, self._given = program, given
        self.failures: list[BaseException] = []  # raised by guest functions that the program called
        self._settings = {
            "seed": int(start["seed"]) & 0xFFFFFFFF,
            "clock": 1000 * start["clock"],
            "probes": program.compiled["probes"],
            "views": program.compiled["views"],
            "isShadow": bool(start.get("is_shadow")),
        }

    def load(self, functions: dict[str, Any], before: str = "") -> None:
        """Give the program its environment: `functions` are the guest functions that it can reach."""
        for name, function in functions.items():
            self._context.add_callable(name, self._safe(function))
        runtime = self._context.eval(RUNTIME)
        settings = self._context.parse_json(json.dumps(self._settings))
        if before:
            self._context.eval(before)(settings)
        self._context.set("$made", runtime(settings, self._given.text()))
        self.start, self.end, self.arrived, self.next_timer = (
            self._context.eval(f"$made.{name}") for name in ("start", "end", "arrived", "nextTimer")
        )
        self._context.eval("delete globalThis.$made")

    def _safe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that raises nothing: the binding cannot pass an exception through the engine."""

        def called(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                self.failures.append(error)
                return _FAILED

        return called

    def main(self) -> Any:
        """Return the program as a function."""
        return self._context.eval("\n" * (LINES_ABOVE - 1) + self._program.compiled["code"])

    def run_jobs(self) -> None:
        """Run the jobs that promises have queued."""
        while self._context.execute_pending_job():
            pass


class _Run:
    """One execution: the engine, and the messages from it."""

    def __init__(self, link: GuestLink, start: dict[str, Any], program: CompiledProgram, given: GivenVariables) -> None:
        self._link, self._program, self._given = link, program, given
        self._calls = ValueRequests(link, program.places, with_state=start["with_state"])
        self._watch = StepLog(link, program.places, self._calls)
        self._engine = ProgramEngine(start, program, given)
        self._error: dict[str, Any] | None = None
        self._answer: dict[str, Any] | None = None

    def run(self) -> dict[str, Any]:
        self._link.before_pause = self._watch.post
        self._link.exceeded = self._exceed
        Halting(self._stop).begin()
        reserve = bytes(_RESERVE_BYTES)
        try:
            self._execute()
        except MemoryError:
            del reserve
            self._take_error("limit:memory", "", "")
        except FileError as error:
            self._take_error("FileError", str(error), "")
        except Exception as error:  # raised by the engine itself: the program exceeds its limits
            del reserve
            self._take_engine_error(error)
        self._watch.post()
        return {**self._ending(), **self._lineage()}

    def _execute(self) -> None:
        engine = self._engine
        engine.load(
            {
                "$ask": self._calls.ask,
                "$open": self._calls.open,
                "$step": self._watch.step,
                "$print": self._watch.print,
                "$fail": self._fail,
                "$finish": self._finish,
            }
        )
        engine.start(engine.main())
        self._drain()
        if self._error is None:
            engine.end()
            self._drain()
        for failure in engine.failures:
            raise failure

    def _drain(self) -> None:
        """Run until nothing is left: jobs first, then awaited values, then timers."""
        engine = self._engine
        while self._error is None:
            engine.run_jobs()
            awaited = self._calls.next_awaited() if self._error is None else None
            if awaited is not None:
                engine.arrived(*awaited)
            elif self._error is not None or not engine.next_timer():
                return

    # --- reports from the program's engine ------------------------------------------------------------------------

    def _fail(self, name: str, message: str, stack: str) -> None:
        if self._error is None:
            self._take_error(json.loads(name), json.loads(message), json.loads(stack))

    def _finish(self, answer: str) -> None:
        self._answer = json.loads(answer) if answer else None

    def _take_engine_error(self, error: Exception) -> None:
        text = str(error)
        kind, _, rest = text.partition(": ")
        message, _, stack = rest.partition("\n")
        if "out of memory" in text:
            kind = "limit:memory"
        self._take_error(kind or type(error).__name__, message, stack)

    def _take_error(self, name: str, message: str, stack: str) -> None:
        is_memory = name == "limit:memory" or (name == "InternalError" and message == "out of memory")
        if is_memory:
            name, message = "limit:memory", "the program needed more memory than it may use"
        data: dict[str, Any] = {"type": clean(name, 200), "message": clean(message, 4000)}
        statement = self._program.places.statement(stack)
        if statement is not None:
            data |= {"line": self._program.places.line_in(stack, statement), "statement": statement}
        if name == "ReferenceError" and message.endswith(" is not defined"):
            data |= {"code": "undefined name", "about": clean(message.removesuffix(" is not defined"), 200)}
        self._error = data

    def _exceed(self, reason: str, message: str) -> None:
        self._stop(reason, message)

    def _stop(self, reason: str, message: str) -> None:
        """Report what has been recorded and end the process: a limit is reached."""
        self._watch.post()
        statement = self._calls.here
        error = {
            "type": reason,
            "message": message,
            "line": self._program.places.line(statement),
            "statement": statement,
        }
        self._link.finish({"type": "ended", "reason": reason, "error": error})

    def _lineage(self) -> dict[str, Any]:
        found = self._program.compiled["lineage"]
        if found is None:
            return {}
        lineage = lineage_of(
            found,
            self._program.compiled["statements"],
            visits=self._watch.visits,
            values=self._calls.taken,
            inputs=self._given.names,
            failed=self._error.get("statement") if self._error is not None else None,
        )
        return {"lineage": lineage} if len(self._link.text(lineage)) <= MAX_LINEAGE_CHARS else {}

    # --- the end --------------------------------------------------------------------------------------------------

    def _ending(self) -> dict[str, Any]:
        if self._error is not None:
            return {
                "reason": "limit:memory" if self._error["type"] == "limit:memory" else "error",
                "error": self._error,
            }
        answer, is_pending = self._answer, self._answer == {"pending": True}
        if (answer is None or is_pending) and self._watch.printed_line:
            answer = {"source": "output", "value": self._watch.printed_line}
        elif answer is None or is_pending:
            message = _PENDING if is_pending else _NO_ANSWER
            return {"reason": "error", "error": {"type": "NoAnswer", "message": message}}
        return self._answered(answer)

    def _answered(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "value" in answer:
            text = json.dumps(answer["value"], ensure_ascii=False)
            data = encode(answer["value"])
        if "value" not in answer or not self._link.has_room(data):
            text = answer.get("brief", "a value that is too large to show")
            data = {"$object": {"type": clean(answer.get("type", "object"), 200), "text": clean(text, 1000)}}
        return {"reason": "answered", "answer": data, "text": clean(text, MAX_ANSWER_CHARS), "source": answer["source"]}
