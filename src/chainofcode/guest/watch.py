"""What each statement changed: bounded, and free once a place has been seen often enough. Standard library only.

The watcher never runs the program's code: values are shown by `values.brief`.
"""

from __future__ import annotations

import codecs
import io
import sys
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from types import CodeType, FrameType

from ..program.lower import Lowered, Mark
from .checkpoints import Jumps, Switches, nested
from .link import Link, clean, headroom
from .places import CO_OPTIMIZED, Places, program_frame
from .values import Record, brief

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

    from .recorder import Recorder

MAX_VISITS = 64
MAX_STEPS = 6_000
MAX_DELTA_CHARS = 500_000  # over the whole run
_MAX_NAMES = 200
_FLUSH_STEPS, _FLUSH_SECONDS, _FLUSH_CHARS = 256, 0.05, 16_384
_ATOMS = (int, float, str, bytes, bool, complex, type(None))
_CONTAINERS = (list, dict, set, tuple, frozenset, Record, Counter, OrderedDict, defaultdict, deque)
_real_clock = time.monotonic  # the program's own clock may be fixed
_TOOL = 4  # one that no profiler, debugger or coverage tool claims
WATCH_BY_JUMP = sys.version_info >= (3, 12)


class Watcher:
    """Turns visits of marks into steps and sends them in batches, together with what was printed meanwhile."""

    def __init__(self, link: Link, lowered: Lowered, places: Places, builtins: dict[str, Any]) -> None:
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
        self.is_off = False  # what runs now is not the program's own doing
        self._printed = ""
        self.printed_line = ""  # the last line printed that is not empty
        self._open_line = ""
        self.recorder: Recorder | None = None  # who is told of everything, where that is wanted

    def watch(self, code: CodeType) -> CodeType:
        """Begin to watch; gives the code to run."""
        if WATCH_BY_JUMP:
            jumps = Jumps(code)
            self._checkpoint_at = jumps.at
            self._monitor(jumps.code)
            return jumps.code
        self._switches = Switches(code)
        self._builtins.update({"$mark": self._visit_by_call, "$on": True})
        return self._switches.code

    # --- Python ≥ 3.12: checkpoints are jumps -----------------------------------------------------------------

    def _monitor(self, code: CodeType) -> None:
        monitoring = sys.monitoring
        events = monitoring.events
        monitoring.use_tool_id(_TOOL, "chainofcode")
        monitoring.register_callback(_TOOL, events.JUMP, self._visit_by_jump)
        monitoring.register_callback(_TOOL, events.PY_RETURN, self._visit_return)
        for current in nested(code):
            returns = 0 if current.co_name.startswith("<") else events.PY_RETURN
            monitoring.set_local_events(_TOOL, current, events.JUMP | returns)

    def _visit_by_jump(self, code: CodeType, offset: int, destination: int) -> object:
        checkpoint = self._checkpoint_at.get((id(code), offset))
        if checkpoint is None:  # a jump of the program's own
            return sys.monitoring.DISABLE
        return None if self._visit(checkpoint, sys._getframe(1)) else sys.monitoring.DISABLE

    def _visit_return(self, code: CodeType, offset: int, value: object) -> object:
        if self.is_off:
            return None
        statement = self._places.return_at(code, offset)
        visits = self._returns[id(code), offset] = self._returns.get((id(code), offset), 0) + 1
        if statement is None or visits > MAX_VISITS or self._is_full():
            return sys.monitoring.DISABLE
        if self._lock.acquire(blocking=False):
            try:
                with headroom():
                    self._add(statement, {}, brief(value), sys._getframe(1))
            finally:
                self._lock.release()
        return None

    # --- Python 3.11: checkpoints are calls -------------------------------------------------------------------

    def _visit_by_call(self, checkpoint: int, returned: Any = None) -> Any:
        if not self._visit(checkpoint, sys._getframe(1), returned):
            self._switches.switch_off(checkpoint)
        return returned

    # --- both -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let marks speak again that have been switched off."""
        if WATCH_BY_JUMP:
            sys.monitoring.restart_events()
        else:
            self._switches.switch_on()

    def _visit(self, checkpoint: int, frame: FrameType, returned: Any = None) -> bool:
        """Record one visit; False when this checkpoint need not call again."""
        if self.is_off:
            return True
        if not self._lock.acquire(blocking=False):
            return True  # another thread records
        try:
            with headroom():
                is_needed = False
                for index in self._checkpoints[checkpoint]:
                    is_needed |= self._record(index, frame, returned)
                return is_needed
        finally:
            self._lock.release()

    def _record(self, index: int, frame: FrameType, returned: Any) -> bool:
        mark = self._marks[index]
        is_recorded = self.recorder is not None and self.recorder.hear(mark, frame)
        if mark.phase in ("start", "enter", "leave"):
            return is_recorded
        return self._note(index, mark, frame, returned) or is_recorded

    def _note(self, index: int, mark: Mark, frame: FrameType, returned: Any) -> bool:
        self._visits[index] = visits = self._visits[index] + 1
        key = (id(frame), mark.statement)
        if mark.phase == "before":
            self._before.pop(key, None)  # one a failed statement left behind
            if visits > MAX_VISITS or self._is_full():
                return False
            names = {name: frame.f_globals[name] for name in mark.reads if name in frame.f_globals}
            names.update(names_of(frame))
            self._before[key] = {name: _fingerprint(value) for name, value in names.items()}
            return True
        if visits > MAX_VISITS or self._is_full():
            return False
        outcome = brief(returned) if mark.phase == "return" else mark.outcome
        self._add(mark.statement, self._delta(mark, frame, self._before.pop(key, None)), outcome, frame)
        return visits < MAX_VISITS

    def _delta(self, mark: Mark, frame: FrameType, before: dict[str, Any] | None) -> dict[str, str | None]:
        if not mark.written and not mark.changed and before is None:
            return {}
        names = names_of(frame)
        if before is not None:  # which may have looked at globals too
            names = {**{name: frame.f_globals[name] for name in before if name in frame.f_globals}, **names}
        delta: dict[str, str | None] = {}
        for name in mark.written:
            if name in names:
                delta[name] = brief(names[name])
            elif name in frame.f_globals:
                delta[name] = brief(frame.f_globals[name])
            else:
                delta[name] = None
        for name in mark.changed:  # `d[k] = v` says itself that d changed; its text may be too short to show it
            value = names.get(name, frame.f_globals.get(name))
            if type(value) in _CONTAINERS:
                delta[name] = brief(value)
        if before is not None:
            for name, value in names.items():
                if name not in delta and not _same(before.get(name, _ABSENT), _fingerprint(value)):
                    delta[name] = brief(value)
            delta.update({name: None for name in before if name not in names and name not in delta})
        return delta

    def _is_full(self) -> bool:
        return self._recorded >= MAX_STEPS or self._chars >= MAX_DELTA_CHARS

    def _add(self, statement: int, delta: dict[str, str | None], outcome: str | None, frame: FrameType) -> None:
        self._recorded += 1
        self._chars += sum(len(name) + len(text or "") for name, text in delta.items()) + len(outcome or "")
        visit = self._statement_visits[statement] = self._statement_visits.get(statement, 0) + 1
        if self.recorder is not None:
            self.recorder.told(statement, visit, frame)
        step: dict[str, Any] = {"statement": statement, "visit": visit}
        if delta:
            step["delta"] = {
                clean(name, 200): None if text is None else clean(text, 400) for name, text in delta.items()
            }
        if outcome is not None:
            step["outcome"] = clean(outcome, 400)
        if self._printed:
            step["output"], self._printed = self._printed, ""
        self._steps.append(step)
        if len(self._steps) >= _FLUSH_STEPS or _real_clock() - self._flushed_at > _FLUSH_SECONDS:
            self.post()
            self._link.flush()

    def post(self) -> None:
        """Hand over what has been recorded; output that belongs to no recorded step makes one of its own."""
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
        """Take what the program wrote to its standard output."""
        if len(text) > _FLUSH_CHARS:  # no frame may grow too large
            for start in range(0, len(text), _FLUSH_CHARS):
                self.print(text[start : start + _FLUSH_CHARS])
            return
        with self._lock:
            if self.recorder is not None:
                self.recorder.printed(text)
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
        text = self._decoder.decode(bytes(data))
        if text:
            self._take(text)
        return len(data)


_ABSENT = object()
_HOLDS_LOCALS = frozenset({"locals", "vars", "eval", "exec", "f_locals", "_getframe"})


def names_of(frame: FrameType) -> dict[str, Any]:
    """A frame's variables. Leaves no trace in the frame: before 3.13 `f_locals` keeps what it shows alive."""
    code = frame.f_code
    is_shared = sys.version_info < (3, 13) and code.co_flags & CO_OPTIMIZED
    if is_shared and not _HOLDS_LOCALS.isdisjoint(code.co_names):  # the program may hold the very dict we would fill
        return {}
    live = frame.f_locals
    if not is_shared:
        if len(live) <= _MAX_NAMES:
            return dict(live)
        return {name: live[name] for name in list(live)[-_MAX_NAMES:]}
    names = dict(live)
    for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        live.pop(name, None)
    return names


def _fingerprint(value: Any) -> Any:
    """Enough to tell later whether a name was rebound or its container changed, without keeping objects alive."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    return (brief(value),) if kind in _CONTAINERS else (id(value),)


def _same(before: Any, now: Any) -> bool:
    return before is now or (type(before) is tuple and type(now) is tuple and before == now)
