"""Records what each statement changed, for its first visits; after these, watching is free. Standard library only.

Watching never runs program code and never raises into the program: values are read only through C-level methods of
exact types (`brief.brief`), garbage collection is off meanwhile, and a visit that still fails is dropped.
"""

from __future__ import annotations

import codecs
import gc
import io
import sys
import threading
import time
from collections.abc import Collection
from itertools import islice
from types import CodeType, FrameType, TracebackType

from .....values.atoms import CONTAINERS, SCALARS
from .....values.codec import brief
from .....values.records import ids_of
from ....guest.link import GuestLink, clean
from ...compiler.library import LOCALS_READERS
from ...compiler.lower import Lowered
from ...compiler.marks import Mark
from ..recursion import headroom, is_guest_error
from .checkpoints import Jumps, Switches, nested, tried_from_the_start
from .places import CO_OPTIMIZED, Places, keeps_cells, program_frame

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable
    from typing import Any

    from ..follow.recorder import Recorder

MAX_VISITS = 64
MAX_STEPS = 6_000
MAX_DELTA_CHARS = 500_000  # over the whole run
_MAX_NAMES = 200
_FLUSH_STEPS, _FLUSH_SECONDS, _FLUSH_CHARS = 256, 0.05, 16_384
_SCALARS, _CONTAINERS = ids_of(*SCALARS), ids_of(*CONTAINERS)
# Bound early: the program may replace these functions, and its clock may be fixed.
_real_clock, _getframe = time.monotonic, sys._getframe
_is_collecting, _collect, _collect_not = gc.isenabled, gc.enable, gc.disable
# Names that CPython itself keeps in a module or a class body: no statement of the program sets them.
_BOOKKEEPING = frozenset([
    "__annotate__", "__annotate_func__", "__annotations__", "__builtins__", "__classcell__", "__classdict__",
    "__conditional_annotations__", "__doc__", "__firstlineno__", "__module__", "__qualname__", "__static_attributes__",
    "__type_params__", "__warningregistry__",
])  # fmt: skip
_TOOL = 4  # an id that no profiler, debugger or coverage tool claims
WATCH_BY_JUMP = sys.version_info >= (3, 12)


class Watcher:
    """Turns visits of marks into steps and sends them in batches, with the output printed meanwhile."""

    def __init__(self, link: GuestLink, lowered: Lowered, places: Places, builtins: dict[str, Any]) -> None:
        self._link, self._places, self._builtins = link, places, builtins
        self._marks, self._checkpoints = lowered.marks, lowered.checkpoints
        self._visits = [0] * len(self._marks)
        self._returns: dict[tuple[int, int], int] = {}
        self._statement_visits: dict[int, int] = {}
        self._before: dict[tuple[int, int], dict[str, Any]] = {}
        self._steps: list[dict[str, Any]] = []
        self._recorded = self._chars = 0
        self._flushed_at = _real_clock()
        self._lock = threading.RLock()
        self._raised: list[BaseException] = []  # errors of signal handlers that ran while a visit was recorded
        self.is_off = False  # set when the program has ended
        self._printed = ""
        self.printed_line = ""  # the last line printed that is not empty
        self._open_line = ""
        self.recorder: Recorder | None = None  # records provenance, if requested
        builtins["$mark"] = self._visit_by_call

    def watch(self, code: CodeType) -> CodeType:
        """Start watching. Returns the code to run."""
        if WATCH_BY_JUMP:
            jumps = Jumps(code)
            self._checkpoint_at = jumps.at
            self._monitor(jumps.code)
            return jumps.code
        self._switches = Switches(code)  # Python 3.11
        return self._switches.code

    # --- Python ≥ 3.12: checkpoints are jumps -----------------------------------------------------------------

    def _monitor(self, code: CodeType) -> None:
        monitoring = sys.monitoring
        events, self._disable = monitoring.events, monitoring.DISABLE
        monitoring.use_tool_id(_TOOL, "chainofcode")
        tried_from_the_start(self._visit_by_jump.__func__)  # type: ignore[attr-defined]
        monitoring.register_callback(_TOOL, events.JUMP, self._visit_by_jump)
        monitoring.register_callback(_TOOL, events.PY_RETURN, self._visit_return)
        monitoring.register_callback(_TOOL, events.INSTRUCTION, self._raise)
        for current in nested(code):
            monitoring.set_local_events(_TOOL, current, self._events_of(current))

    def _events_of(self, code: CodeType) -> int:
        events = sys.monitoring.events
        return events.JUMP if code.co_name.startswith("<") else events.JUMP | events.PY_RETURN

    def _visit_by_jump(self, code: CodeType, offset: int, destination: int) -> object:
        try:
            checkpoint = self._checkpoint_at.get((id(code), offset))
            if checkpoint is None:  # a jump in the program's own code
                return self._disable
            return None if self._quietly(self._visit, checkpoint, _getframe(1), None) else self._disable
        except BaseException as error:
            self._raise_next(code, error)
            return None

    def _raise_next(self, code: CodeType, error: BaseException) -> None:
        """Raise an error of a signal handler at the next instruction.

        Up to Python 3.13, a `try` around a jump does not catch errors that are raised while the jump is reported.
        """
        self._raised.append(error)
        sys.monitoring.set_local_events(_TOOL, code, self._events_of(code) | sys.monitoring.events.INSTRUCTION)

    def _raise(self, code: CodeType, offset: int) -> None:
        sys.monitoring.set_local_events(_TOOL, code, self._events_of(code))
        if self._raised:
            error = self._raised.pop()
            raise error.with_traceback(_foreign_part(error.__traceback__))

    def _visit_return(self, code: CodeType, offset: int, value: object) -> object:
        return None if self._quietly(self._return, (code, offset), _getframe(1), value) else self._disable

    def _return(self, place: tuple[CodeType, int], frame: FrameType, value: object) -> bool:
        code, offset = place
        statement = self._places.return_at(code, offset)
        visits = self._returns[id(code), offset] = self._returns.get((id(code), offset), 0) + 1
        if statement is None or visits > MAX_VISITS or self._is_full():
            return False
        self._add(statement, {}, brief(value), frame)
        return True

    # --- Python 3.11: checkpoints are calls -------------------------------------------------------------------

    def _visit_by_call(self, checkpoint: int, returned: Any = None) -> Any:
        if not self._quietly(self._visit, checkpoint, _getframe(1), returned):
            self._switches.switch_off(checkpoint)
        return returned

    # --- both -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Switch on all marks that have been switched off."""
        if WATCH_BY_JUMP:
            sys.monitoring.restart_events()
        else:
            self._switches.switch_on()

    def _quietly(self, record: Callable[[Any, FrameType, Any], bool], place: Any, frame: FrameType, value: Any) -> bool:
        """Record a visit without affecting the program. Returns False if this place need not be watched any more."""
        if self.is_off or not self._lock.acquire(blocking=False):  # another thread is recording
            return True
        is_collecting = _is_collecting()
        _collect_not()  # the program's finalisers could change what is being read
        try:
            with headroom():
                return record(place, frame, value)
        except Exception as error:
            if not is_guest_error(error):
                raise
            return True
        finally:
            if is_collecting:
                _collect()
            self._lock.release()

    def _visit(self, checkpoint: int, frame: FrameType, returned: Any) -> bool:
        is_needed = False
        look = _Look(frame)
        for index in self._checkpoints[checkpoint]:
            mark = self._marks[index]
            if self.recorder is not None:
                is_needed |= self._call_recorder(self.recorder.hear, mark, frame)
            if mark.phase not in ("start", "enter", "leave"):
                is_needed |= self._note(index, mark, look, returned)
        return is_needed

    def _call_recorder(self, method: Callable[..., Any], *facts: Any) -> Any:
        """Call the recorder. If it fails, it stops following the run."""
        try:
            return method(*facts)
        except Exception as error:
            if not is_guest_error(error) or self.recorder is None:
                raise
            self.recorder.lose()
            return False

    def _note(self, index: int, mark: Mark, look: _Look, returned: Any) -> bool:
        self._visits[index] = visits = self._visits[index] + 1
        key = (id(look.frame), mark.statement)
        if mark.phase == "before":
            self._before.pop(key, None)  # left behind by a failed statement
            if visits > MAX_VISITS or self._is_full():
                return False
            names = {**look.globals(mark.reads), **look.names()}
            self._before[key] = {name: look.fingerprint(value) for name, value in names.items()}
            return True
        if visits > MAX_VISITS or self._is_full():
            return False
        outcome = brief(returned) if mark.phase == "return" else mark.outcome
        self._add(mark.statement, _delta(mark, look, self._before.pop(key, None)), outcome, look.frame)
        return visits < MAX_VISITS

    def _is_full(self) -> bool:
        return self._recorded >= MAX_STEPS or self._chars >= MAX_DELTA_CHARS

    def _add(self, statement: int, delta: dict[str, str | None], outcome: str | None, frame: FrameType) -> None:
        self._recorded += 1
        self._chars += len(outcome or "") + sum(len(name) + len(text or "") for name, text in delta.items())
        visit = self._statement_visits[statement] = self._statement_visits.get(statement, 0) + 1
        if self.recorder is not None:
            self._call_recorder(self.recorder.recorded, statement, visit, frame)
        step: dict[str, Any] = {"statement": statement, "visit": visit}
        if delta:
            step["delta"] = {clean(name, 200): text and clean(text, 400) for name, text in delta.items()}
        if outcome is not None:
            step["outcome"] = clean(outcome, 400)
        if self._printed:
            step["output"], self._printed = self._printed, ""
        self._steps.append(step)
        if len(self._steps) >= _FLUSH_STEPS or _real_clock() - self._flushed_at > _FLUSH_SECONDS:
            self.post()
            self._link.flush()

    def post(self) -> None:
        """Post the recorded steps. Output that belongs to no recorded step becomes a step of its own."""
        with self._lock:
            if self._printed:
                statement = self._places.current_statement(program_frame())
                self._steps.append({"statement": statement, "visit": 0, "output": self._printed})
                self._printed = ""
            if self._steps:
                self._link.post({"type": "ran", "steps": self._steps})
                self._steps = []
            self._flushed_at = _real_clock()

    def print(self, text: str) -> None:
        """Record text that the program wrote to standard output."""
        if len(text) > _FLUSH_CHARS:  # no frame may grow too large
            for start in range(0, len(text), _FLUSH_CHARS):
                self.print(text[start : start + _FLUSH_CHARS])
            return
        with self._lock:
            if self.recorder is not None:
                self._call_recorder(self.recorder.printed, text)
            self._printed += text
            lines = (self._open_line + text).split("\n")
            self._open_line = lines.pop()[-100_000:]
            self.printed_line = next(
                (line for line in (self._open_line, *reversed(lines)) if line.strip()), self.printed_line
            )
            if len(self._printed) >= _FLUSH_CHARS:
                self.post()
                self._link.flush()


class Output(io.RawIOBase):
    """The program's standard output or error: bytes go to `take` as text."""

    def __init__(self, take: Any) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with headroom():
            text = self._decoder.decode(bytes(data))
            if text:
                self._take(text)
        return len(data)


_ABSENT = object()
_LOCALS = type((lambda: sys._getframe().f_locals)())  # not a dict since Python 3.13


def hides_names(code: CodeType) -> bool:
    """Whether a frame's variables must not be read: before 3.13, that could update a dict that the program holds."""
    is_shared = sys.version_info < (3, 13) and code.co_flags & CO_OPTIMIZED
    return bool(is_shared and not LOCALS_READERS.isdisjoint(code.co_names))


def _foreign_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback from the first frame of the program on."""
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<"):
        trace = trace.tb_next
    return trace


def names_of(frame: FrameType) -> dict[str, Any]:
    """Return a frame's variables, without side effects: before 3.13, `f_locals` keeps the values alive."""
    code = frame.f_code
    is_shared = sys.version_info < (3, 13) and code.co_flags & CO_OPTIMIZED
    if keeps_cells(code) or hides_names(code):
        return {}
    live = frame.f_locals
    names = named(live)
    if is_shared:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            live.pop(name, None)
    return names


def named(live: Any, most: int | None = _MAX_NAMES) -> dict[str, Any]:
    """Return the last entries of a namespace; none if a class uses another mapping type, whose methods must not run.

    Keys that are not strings are skipped, and no key is looked up: comparing keys could run program code.
    """
    kind = type(live)
    if issubclass(kind, dict):
        pairs = list(islice(reversed(dict.items(live)), most))
        pairs.reverse()
    elif kind is _LOCALS:
        pairs = live.items()[-most:] if most is not None else live.items()
    else:
        return {}
    return {name: value for name, value in pairs if type(name) is str}


class _Look:
    """The names and texts that one visit sees, read once for all marks of the checkpoint."""

    __slots__ = ("_globals", "_names", "_texts", "frame")

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self._names: dict[str, Any] | None = None
        self._globals: dict[str, Any] | None = None
        self._texts: dict[int, str] = {}

    def names(self) -> dict[str, Any]:
        if self._names is None:
            self._names = names_of(self.frame)
        return self._names

    def globals(self, names: Collection[str]) -> dict[str, Any]:
        """Return the given globals, as far as they exist."""
        if not names:
            return {}
        live = self.frame.f_globals
        if dict.__len__(live) > _MAX_NAMES:  # too many to copy
            return {name: dict.__getitem__(live, name) for name in names if dict.__contains__(live, name)}
        if self._globals is None:
            self._globals = self.names() if self.frame.f_code.co_name == "<module>" else named(live)
        return {name: self._globals[name] for name in names if name in self._globals}

    def text(self, value: Any) -> str:
        if id(type(value)) not in _CONTAINERS:
            return brief(value)
        text = self._texts.get(id(value))
        if text is None:
            text = self._texts[id(value)] = brief(value)
        return text

    def fingerprint(self, value: Any) -> Any:
        """Return a fingerprint that shows later whether a name was rebound or its container changed.

        It keeps no objects alive except atoms.
        """
        kind = id(type(value))
        if kind in _SCALARS:
            return value
        return (self.text(value),) if kind in _CONTAINERS else (id(value),)


def _delta(mark: Mark, look: _Look, before: dict[str, Any] | None) -> dict[str, str | None]:
    """Return the names that a statement changed, with their values."""
    if not mark.written and not mark.changed and before is None:
        return {}
    names = look.names()
    if before is not None:  # `before` may hold globals, too
        names = {**look.globals(before), **names}
    elsewhere = look.globals([name for name in (*mark.written, *mark.changed) if name not in names])
    delta: dict[str, str | None] = {}
    for name in mark.written:
        value = names.get(name, elsewhere.get(name, _ABSENT))
        delta[name] = None if value is _ABSENT else look.text(value)
    for name in mark.changed:  # `d[k] = v` changes d, even if its short text stays the same
        value = names.get(name, elsewhere.get(name))
        if id(type(value)) in _CONTAINERS:
            delta[name] = look.text(value)
    if before is not None:
        _add_changed(delta, names, before, look)
    return delta


def _add_changed(delta: dict[str, str | None], names: dict[str, Any], before: dict[str, Any], look: _Look) -> None:
    """Add the names whose values changed or that are gone."""
    known = _BOOKKEEPING.union(delta)  # a name that the statement itself sets is in the delta already
    for name, value in names.items():
        if name not in known and not _same(before.get(name, _ABSENT), look.fingerprint(value)):
            delta[name] = look.text(value)
    delta.update({name: None for name in before if name not in names and name not in known})


def _same(before: Any, now: Any) -> bool:
    return before is now or (type(before) is tuple and type(now) is tuple and before == now)
