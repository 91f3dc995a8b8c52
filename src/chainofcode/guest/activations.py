"""What a run is in the middle of: calls of functions under way, and loops that are followed no further.

Standard library only.
"""

from __future__ import annotations

from types import CodeType, FrameType

from .lineage import Node

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

    from ..program.lower import Mark


class Activation:
    """One call of a function (or the module) under way: what runs in it now, and what decided that it does."""

    __slots__ = ("caller", "code", "function", "iterated", "latest", "open", "serial", "sticky", "turns")

    def __init__(self, serial: int, function: int, code: CodeType, caller: Node | None) -> None:
        self.serial, self.function, self.code, self.caller = serial, function, code, caller
        self.open: Node | None = None
        self.latest: dict[int, int] = {}  # statement → its last node here
        self.sticky: dict[tuple[str, int | None], list[int]] = {}  # who could have left which loop, or the function
        self.iterated: dict[int, Any] = {}
        self.turns: dict[int, int] = {}

    @property
    def running(self) -> int:
        """The statement that runs now, or ran last."""
        if self.open is not None and self.open.statement is not None:
            return self.open.statement
        return max(self.latest, key=lambda statement: self.latest[statement], default=0)


class Coarse:
    """A loop that is one node from now on: where it runs, and below whom."""

    def __init__(self, node: Node, act: Activation, frame: FrameType, statements: range) -> None:
        self.node, self.act, self.statements, self._home = node, act, statements, id(frame)
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

    def is_below(self, frame: FrameType) -> bool:
        return id(frame) in self._below
