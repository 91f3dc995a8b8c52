"""The parts that a lineage is made of: runs of statements, logs of who set what, and views of a frame's names.

Standard library only.
"""

from __future__ import annotations

from types import FrameType

from .places import CO_OPTIMIZED
from .reach import ABSENT, step
from .watch import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

    from ..program.regions import Name, Path


class Log:
    """The nodes that set something, in order; and those that might have. It only grows: a length is a moment.

    `varies`: one of them depends on what the program was given; `seen` is how far that was looked for.
    """

    __slots__ = ("perhaps", "seen", "sure", "varies")

    def __init__(self, *sure: int) -> None:
        self.sure, self.perhaps = list(sure), list[int]()
        self.varies, self.seen = False, (0, 0)


class Thing:
    """An object that was changed: by whom at all, by whom under which key, and under who knows which.

    It is held, so that no other object gets its address; where the program would notice that, it is not, and the next
    one there depends on more than it needs to.
    """

    __slots__ = ("all", "any", "keys", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.all, self.any = value, Log(), Log()
        self.keys: dict[Any, Log] = {}


class Node:
    """One run of a statement; `read` are logs with how long they were, `whole` further statements it stands for."""

    __slots__ = (
        "control", "data", "index", "is_done", "places", "read", "roots", "statement", "values", "varies", "visits",
        "whole",
    )  # fmt: skip

    def __init__(self, index: int, statement: int | None) -> None:
        self.index, self.statement = index, statement
        self.data, self.control = list[int](), list[int]()
        self.read: dict[int, tuple[Log, int, int]] = {}
        self.visits, self.values = list[int](), list[int]()  # steps of the trace: Python's, and those asked for
        self.whole: list[int] = []
        self.varies = self.is_done = False  # `varies`: it depends on an input, or on a value asked for
        self.places: list[Any] = []  # the names it read
        self.roots: list[Any] = []  # and their values


class View:
    """The names that a frame sees at one moment. `serial` tells calls of the same function apart."""

    __slots__ = ("_names", "_own", "frame", "serial")

    def __init__(self, frame: FrameType, serial: int, names: dict[str, Any]) -> None:
        self.frame, self.serial, self._names = frame, serial, names
        self._own: dict[str, Any] | None = None

    def place(self, name: Name) -> Any:
        """Where a name's value is kept: its own for every call of a function."""
        return (self.serial, name[1]) if name[0] == "l" else name

    def value(self, name: Name) -> Any:
        if name[0] == "g":
            return self._names.get(name[1], ABSENT)
        return self.own.get(name[1], ABSENT)

    def function(self, name: Name) -> Any:
        """What a name means that is called: holes are among the builtins."""
        value = self.value(name)
        return vars(self._names["__builtins__"]).get(name[1], ABSENT) if value is ABSENT else value

    @property
    def own(self) -> dict[str, Any]:
        if self._own is None:
            self._own = _visible(self.frame)
        return self._own

    def key(self, how: str, key: Any) -> Any:
        return self.value(key) if how == "var" else key

    def follow(self, path: Path) -> Any:
        """The object at the end of a path; the last one that can be told where it cannot be followed."""
        value = self.value(path[0])
        for how, key in path[1]:
            part = step(value, how, self.key(how, key))[0]
            if part is ABSENT:
                return value
            value = part
        return value


def _visible(frame: FrameType) -> dict[str, Any]:
    """A frame's variables; the frame of a class does not show those of the function around it."""
    around = frame.f_back
    if frame.f_code.co_flags & CO_OPTIMIZED or frame.f_code.co_name == "<module>" or around is None:
        return names_of(frame)
    return {**_visible(around), **names_of(frame)}
