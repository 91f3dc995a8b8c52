"""What a run is in the middle of: calls of functions under way, and loops that are followed no further.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType

from ..run.places import FILENAME, program_frame
from ..run.watch import hides_names, names_of
from .lineage import Lineage
from .nodes import Log, Node

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from ...compiler.flow import Flows
    from ...compiler.lower import Mark

BY_TURNS = 0x20 | 0x80 | 0x200  # code flags of generators and coroutines, which run in turns with their consumer
_MAKERS = frozenset(["__init__", "__post_init__"])


class Activation:
    """One call of a function (or the module) under way: what runs in it now, and what decided that it does."""

    __slots__ = (
        "caller", "code", "function", "is_blind", "iterated", "latest", "open", "serial", "sticky", "turns", "yielded"
    )  # fmt: skip

    def __init__(self, serial: int, function: int, code: CodeType, caller: Node | None) -> None:
        self.serial, self.function, self.code, self.caller = serial, function, code, caller
        self.is_blind = hides_names(code)  # its variables cannot be read
        self.open: Node | None = None
        self.latest: dict[int, int] = {}  # statement → its last node here
        self.sticky: dict[tuple[str, int | None], Log] = {}  # who could have left which loop, or the function
        self.iterated: dict[int, Any] = {}
        self.turns: dict[int, int] = {}
        self.yielded: int | None = None  # the last node that gave something away, of code that runs by turns

    def may_leave(self, way: tuple[str, int | None], index: int) -> None:
        self.sticky.setdefault(way, Log()).perhaps.append(index)

    @property
    def running(self) -> int:
        """The statement that runs now, or ran last."""
        if self.open is not None and self.open.statement is not None:
            return self.open.statement
        return max(self.latest, key=lambda statement: self.latest[statement], default=0)


class Coarse:
    """A loop that is one node from now on: where it runs, and below whom."""

    def __init__(self, node: Node, act: Activation, frame: FrameType, statements: range, around: set[int]) -> None:
        self.node, self.act, self.statements, self._home = node, act, statements, id(frame)
        self._around = around  # functions that are under way around it
        self._below = set[int]()
        below = frame.f_back
        while below is not None:
            self._below.add(id(below))
            below = below.f_back

    def is_over(self, mark: Mark, frame: FrameType) -> bool:
        if id(frame) != self._home:
            return self.is_below(frame)
        is_inside = mark.statement in self.statements and mark.phase != "start"
        return not is_inside or (mark.statement == self.statements.start and mark.phase == "leave")

    def needs(self, mark: Mark, function: int) -> bool:
        """Whether a mark must go on to be told: code that is under way when the loop is over would not wake up."""
        is_end = mark.statement == self.statements.start and mark.phase == "leave"
        is_inside = mark.statement in self.statements and not is_end
        return function in self._around or (function == self.act.function and not is_inside)

    def is_below(self, frame: FrameType) -> bool:
        return id(frame) in self._below


class Calls:
    """The calls under way, and the statement that runs in each."""

    def __init__(self, flows: Flows, lineage: Lineage) -> None:
        self._flows, self.lineage = flows, lineage
        self._activations: dict[int, Activation] = {}
        self._unfinished: list[Node] = []
        self._serial = 0
        self._coarse: Coarse | None = None
        self._lost: Node | None = None  # set when the run can no longer be followed, e.g. because of a second thread

    def _start(self, function: int, frame: FrameType) -> Activation:
        caller = self._current(frame.f_back)
        if caller is None and function >= 0:
            self._lost = self._new(None)
        act = self._activations[id(frame)] = Activation(self._serial, function, frame.f_code, caller)
        if function in self._flows.classes:  # a class body sees the names of the enclosing scopes
            act.is_blind |= any(around.is_blind for _, around in self._under_way(frame.f_back))
        self._serial += 1
        if caller is not None:
            for text, home in self._flows.shared.get(function, {}).items():
                self.lineage.bind_too((home, text), caller.index)
        if frame.f_code.co_name in _MAKERS and self.lineage.holds:
            self._make(names_of(frame).get(frame.f_code.co_varnames[0]), frame.f_back)
        return act

    def _make(self, value: Any, frame: FrameType | None) -> None:
        """Add a new object to the roots of the statement that uses it at once: it may have no name."""
        for _, act in self._under_way(frame):
            flow = (
                self._flows.of[act.open.statement] if act.open is not None and act.open.statement is not None else None
            )
            if act.open is not None and (flow is None or flow.consumes):
                act.open.roots.append(value)
            if flow is None or flow.kind != "Return":
                return

    def _give(self, values: list[Any], frame: FrameType | None) -> None:
        """Add returned values to the roots of the statements that use them, up through chains of `return f(…)`.

        They may still be changed before the caller's statement ends.
        """
        for _, act in self._under_way(frame) if self.lineage.holds else ():
            if act.open is None:
                return
            act.open.roots += values
            if act.open.statement is None or self._flows.of[act.open.statement].kind != "Return":
                return

    def _activation(self, frame: FrameType) -> Activation | None:
        act = self._activations.get(id(frame))
        if act is not None and act.code is frame.f_code:
            return act
        return self._start(-1, frame) if frame.f_code.co_name == "<module>" else None

    def _running(self) -> Node | None:
        if self._lost is not None:
            return self._lost
        return self._coarse.node if self._coarse is not None else self._current(program_frame())

    def _under_way(self, frame: FrameType | None) -> Iterator[tuple[FrameType, Activation]]:
        """The calls that are watched, from the innermost out."""
        while frame is not None:
            act = self._activations.get(id(frame)) if frame.f_code.co_filename == FILENAME else None
            if act is not None and act.code is frame.f_code:
                yield frame, act
            frame = frame.f_back

    def _current(self, frame: FrameType | None) -> Node | None:
        """The statement that runs in a frame, or in the nearest below it that is watched."""
        for _, act in self._under_way(frame):
            if act.open is None:  # a loop's header, evaluated again: it says later what it is
                act.open = self._new(None)
            return act.open
        return None

    def _new(self, statement: int | None) -> Node:
        node = self.lineage.new(statement)
        self._unfinished.append(node)
        return node
