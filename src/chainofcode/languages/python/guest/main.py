"""Runs a Python program inside the guest process: prepares it, binds its holes, executes it and returns its answer.

Standard library only. The program may tamper with everything in this process; the host trusts nothing that it sends.
"""

from __future__ import annotations

import ast
import atexit
import gc
import io
import json
import linecache
import os
import signal
import sys
import threading
from types import CodeType, FrameType, FunctionType, ModuleType

from ....values.arrays import plain
from ....values.codec import brief, decode, encode, type_name
from ...guest.file_readers import read_file
from ...guest.link import GuestLink, clean
from ...guest.requests import Requests
from ...source import NotAProgram
from ..compiler.analyse import Analysis, analyse, hole_places
from ..compiler.computation import states_its_answer
from ..compiler.expect import ExpectedType, expected
from ..compiler.flow import Flows
from ..compiler.guest_names import compiled
from ..compiler.lower import Lowered, Place, lower, lower_shadow
from ..compiler.parse import ParsedSource, parse
from .follow.recorder import Recorder
from .run.bindings import Bindings, failure
from .run.holes import shown
from .run.places import FILENAME, Places, program_frame
from .run.watch import WATCH_BY_JUMP, Output, Watcher
from .run.world import Clock, Depth, RandomGenerators
from .shadow.rounds import Shadow

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

MAX_ANSWER_CHARS = 1_000_000
MAX_LINEAGE_CHARS = 12_000_000
_NOT_ANSWERS = (type(len), FunctionType, ModuleType, type)  # `def answer(…)` defines a function, not a result
_THREAD_STACK_BYTES = 1 << 20  # Python calls use no C stack; hundreds of threads must fit into the memory limit
MAX_STDERR_CHARS = 64_000
_RESERVE_BYTES = 8 << 20
_TOO_DEEP = "the source is nested too deep for Python to compile"
# `is_good` is long enough to be looked up among the exports of the standard library.
_REHEARSAL = "def f(x):\n    return [x]\nfor i in range(3):\n    if is_good(i):\n        f(i)\nanswer = f(1)"
_ANALYSIS_DEPTH = 9_000  # frames for walking the tree in pure Python, which needs no C stack


def rehearse() -> None:
    """Prepare a program without running it, so that a fresh fork copies the memory it writes to in advance."""
    start: dict[str, Any] = {"source": _REHEARSAL, "is_reply": True, "packages": [], "policy": "strict"}
    start |= {"clock": 0, "seed": 0}
    program = Prepared(start, {})
    Prepared({**start, "is_shadow": True}, {})  # this guest may be used for a shadow
    _Run(GuestLink(0, 0), start, program, {}).rehearse()
    json.loads(json.dumps(program.description()))


def serve(link: GuestLink, start: dict[str, Any]) -> dict[str, Any]:
    """Run one program and return how it ended."""
    inputs = _inputs(start)
    try:
        program = Prepared(start, {**inputs, **{name: None for name, *_ in start["prelude"]}})
    except (RecursionError, MemoryError):
        raise NotAProgram(_TOO_DEEP) from None
    link.send({"type": "parsed", "program": program.description()})
    if start["is_shadow"]:
        Shadow(link, start, program, lambda: _inputs(start)).run()
    return _Run(link, start, program, inputs).run()


def _inputs(start: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that the program starts with."""
    inputs: dict[str, Any] = {name: decode(value) for name, value in start["inputs"].items()}
    return inputs if start["question"] is None else {"question": decode(start["question"]), **inputs}


def describe(start: dict[str, Any]) -> dict[str, Any]:
    """Parse a program without running it, and return its description."""
    try:
        return Prepared({"packages": [], "policy": "strict", **start}, {"question": ""}).description()
    except (RecursionError, MemoryError):
        raise NotAProgram(_TOO_DEEP) from None


def _call_name(hole: ast.expr, found: Analysis) -> str:
    """Return the name of a hole in requests: a method's plain name, a module's function with its module."""
    if isinstance(hole, ast.Attribute) and hole in found.methods:
        return hole.attr
    parent = found.syntax.parents.get(hole)
    while isinstance(parent, ast.Attribute):
        hole, parent = parent, found.syntax.parents.get(parent)
    return ast.unparse(hole)


def _flows(found: Analysis) -> Flows | None:
    try:
        return Flows(found)
    except RecursionError:
        return None


def _is_success(error: BaseException) -> bool:
    """Whether a program ended with `exit()` or `exit(0)`."""
    is_zero = isinstance(error, SystemExit) and type(error.code) is int and error.code == 0
    return is_zero or (isinstance(error, SystemExit) and error.code is None)


class Prepared:
    """A program parsed, analysed, lowered and compiled."""

    def __init__(self, start: dict[str, Any], inputs: dict[str, Any]) -> None:
        self.flows: Flows | None = None  # set if provenance is recorded
        self.hole_places: list[list[int]] = []
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(_ANALYSIS_DEPTH)
        gc.disable()  # trees are all live; scanning them for garbage takes longer than making them
        try:
            self.parsed: ParsedSource = parse(start["source"], is_reply=start["is_reply"])
            try:
                self.found: Analysis = analyse(
                    self.parsed.tree, defined=inputs, packages=start["packages"], tools=start.get("tools", ())
                )
                if start.get("is_shadow"):
                    self._prepare_shadow()
                    return
                self.uses: list[ExpectedType] = expected(self.found)
                self.hole_places = hole_places(self.found, self.parsed.source)
                self.is_hard_coded = states_its_answer(self.parsed.tree)
                if start.get("is_recorded"):
                    self.flows = _flows(self.found)
                self.lowered: Lowered = lower(
                    self.found,
                    self.parsed.prose,
                    watch_by_jump=WATCH_BY_JUMP,
                    policy=start["policy"],
                    is_recorded=self.flows is not None,
                )
                sys.setrecursionlimit(usual)
                self.code = compiled(self.lowered.tree, FILENAME)
            except (RecursionError, SyntaxError):
                self._fall_back()
        finally:
            sys.setrecursionlimit(usual)
            gc.enable()

    def _prepare_shadow(self) -> None:
        holes = {hole: _call_name(hole, self.found) for hole in self.found.hole_names()}
        self.lowered = lower_shadow(self.found, self.parsed.prose)
        self.code = compile(self.lowered.tree, FILENAME, "exec", dont_inherit=True)
        places, self.is_hard_coded = Places(self.lowered.places, (), ()), False
        at = {hole: places.statement_at((hole.lineno, hole.col_offset)) for hole in holes}
        self.uses = [ExpectedType(at[hole], name, "") for hole, name in holes.items()]

    def _fall_back(self) -> None:
        """Compile the source unchanged, to run it unwatched: CPython accepts deeper nesting in text than in a tree."""
        if self.parsed.prose:
            raise NotAProgram(_TOO_DEEP)
        empty, self.flows = ast.Module([], []), None
        self.found, self.uses, self.is_hard_coded = analyse(empty), [], False
        self.lowered = Lowered(empty, (Place((1, 0), (10**9, 0), "Module"),), (), (), {}, (), {}, "strict")
        self.code = compile(self.parsed.source, FILENAME, "exec", dont_inherit=True)

    def description(self) -> dict[str, Any]:
        names = self.found.names.module.bindings
        return {
            "event": "program",
            "source": self.parsed.source,
            "statements": [
                [place.start[0], place.start[1], place.end[0], place.end[1], place.kind]
                for place in self.lowered.places
            ],
            "holes": sorted(
                self.found.holes
                | self.found.module_holes
                | {name.id.removeprefix("$") for name in self.found.shadowed}
                | {method.attr for method in self.found.methods}
                | set(self.lowered.stubs)
                | {name for name in self.found.unknown_modules if name in names}
            ),
            "uses": [[use.statement, use.name, use.type, use.spec] for use in self.uses],
            "prose": [prose.text for prose in self.parsed.prose],
            "imports": [str(missing) for missing in self.found.imports],
            "is_hard_coded": self.is_hard_coded,
            "hole_places": self.hole_places,
        }


class _Run:
    """One execution: the program's module, its builtins, and what records its steps and output."""

    def __init__(self, link: GuestLink, start: dict[str, Any], program: Prepared, inputs: dict[str, Any]) -> None:
        self._link, self._program, self._inputs = link, program, inputs
        self._files = start.get("prelude", ())
        self._stderr = ""
        self._module = ModuleType("__main__")
        self._module.__dict__.update(inputs)
        places = Places(program.lowered.places, program.found.guards, program.lowered.hole_ranges)
        self._clock, self._generators, self._recursion = Clock(start["clock"]), RandomGenerators(start["seed"]), Depth()
        with_state = start.get("with_state", False)
        self._bindings = Bindings(
            link, program, places, Requests(link), after_import=self._settle, with_state=with_state
        )
        self._watcher = Watcher(link, program.lowered, places, self._bindings.builtins.__dict__)
        self._places = places
        self._recorder = self._follow(program.flows) if program.flows is not None else None

    def _follow(self, flows: Flows) -> Recorder:
        given = [*self._inputs, *(name for name, *_ in self._files)]
        recorder = Recorder(flows, self._module.__dict__, given, self._program.lowered.prose_of)
        recorder.wake = self._watcher.wake
        self._watcher.recorder = self._bindings.recorder = recorder
        self._link.settled = recorder.settled
        return recorder

    def run(self) -> dict[str, Any]:
        error: BaseException | None = None
        # Freed to report that memory ran out. Zero pages that are never read use address space, but no memory.
        reserve = bytes(_RESERVE_BYTES)
        code = self._enter_world()
        try:
            self._module.__dict__.update({name: read_file(*how) for name, *how in self._files})
            self._settle()
            self._recursion.install()
            exec(code, self._module.__dict__)
        except BaseException as raised:  # any exception of the program
            del reserve
            error = raised
        self._recursion.lift()
        try:
            self._finish_threads()
        except BaseException as raised:  # by the program's `atexit` functions
            error = error or raised
        ended = self._ending(error)
        self._watcher.post()
        if self._recorder is not None:
            ended["lineage"] = self._lineage(self._recorder)
        return {**ended, "stderr": clean(self._stderr, MAX_STDERR_CHARS)}

    def _lineage(self, recorder: Recorder) -> dict[str, Any] | None:
        self._watcher.is_off = True
        graph = recorder.graph({"$last": self._bindings.last, "$output": None})
        return graph if len(self._link.text(graph)) <= MAX_LINEAGE_CHARS else None

    def rehearse(self) -> None:
        self._bindings.rehearse()

    def _settle(self) -> None:
        self._clock.settle()
        self._generators.settle()

    def _enter_world(self) -> CodeType:
        self._link.before_pause = self._watcher.post
        self._link.exceeded = self._exceed
        self._clock.install()
        self._generators.install()
        self._module.__dict__["__builtins__"] = self._bindings.builtins
        source = self._program.parsed.source
        linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
        sys.stdout = io.TextIOWrapper(Output(self._watcher.print), encoding="utf-8", write_through=True)
        sys.stderr = io.TextIOWrapper(
            Output(self._take_stderr), encoding="utf-8", errors="backslashreplace", write_through=True
        )
        sys.argv = ["program.py"]
        threading.stack_size(_THREAD_STACK_BYTES)
        signal.signal(signal.SIGUSR1, self._halt)  # sent by the host to halt the program
        signal.signal(signal.SIGXCPU, self._halt)
        os._exit = self._exit  # type: ignore[assignment]
        sys.modules["__main__"] = self._module
        code = self._watcher.watch(self._bindings.built_into(self._program.code))
        for name in [name for name in sys.modules if name.partition(".")[0] == "chainofcode"]:
            del sys.modules[name]
        gc.freeze()  # the program's collections need not scan the guest's own objects
        return code

    def _halt(self, number: int, frame: FrameType | None) -> None:
        """Send the recorded steps and the current statement, then end: the host is about to kill this process."""
        self._watcher.post()
        reason = "limit:cpu" if number == signal.SIGXCPU else "halted"
        self._stop(reason, "the program used up its CPU seconds", frame)

    def _exceed(self, reason: str, message: str) -> None:
        self._stop(reason, message, program_frame())

    def _stop(self, reason: str, message: str, frame: FrameType | None) -> NoReturn:
        statement = self._places.current_statement(frame)
        line = self._program.lowered.places[statement].start[0] if self._program.lowered.places else 0
        error = {"type": reason, "message": message, "line": line, "statement": statement}
        self._link.finish({"type": "ended", "reason": reason, "error": error})

    def _exit(self, code: int) -> NoReturn:
        self._watcher.post()
        self._link.flush()
        self._link.leave(code)

    def _take_stderr(self, text: str) -> None:
        self._stderr = (self._stderr + text)[-MAX_STDERR_CHARS:]

    def _finish_threads(self) -> None:
        """Wait for the program's threads, then run its `atexit` functions, as the interpreter does when it exits."""
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()

    # --- the end ----------------------------------------------------------------------------------------------

    def _ending(self, error: BaseException | None) -> dict[str, Any]:
        names = self._module.__dict__
        if error is not None and not _is_success(error):
            reason = "limit:memory" if isinstance(error, MemoryError) else "error"
            known = [name for name in (*names, *self._bindings.defined) if type(name) is str]
            return {"reason": reason, "error": failure(error, self._places, known)}
        answer = names.get("answer", len)
        if type(answer) not in _NOT_ANSWERS and answer is not self._inputs.get("answer", names):
            return self._answered(answer, "variable")
        if self._bindings.last is not None:
            return self._answered(self._bindings.last, "expression")
        if self._watcher.printed_line:
            return self._answered(self._watcher.printed_line, "output")
        message = "the program ended without an answer: it sets no `answer`, ends in no expression and prints nothing"
        return {"reason": "error", "error": {"type": "NoAnswer", "message": message}}

    def _answered(self, value: Any, source: str) -> dict[str, Any]:
        plain_value = plain(value)
        text = clean(shown(value if type(plain_value) in (list, dict) else plain_value), MAX_ANSWER_CHARS)
        data = encode(value, brief=brief)
        if not self._link.has_room(data):
            data = {"$object": {"type": type_name(value), "text": brief(value)}}
        return {"reason": "answered", "answer": data, "text": text, "source": source}
