"""The parts of a lineage: nodes (runs of statements), logs of changes, and views of a frame's names.

Standard library only.
"""

from __future__ import annotations

from types import FrameType

from ..run.places import CO_OPTIMIZED
from ..run.watch import names_of
from .reachable import ABSENT, step

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from ...compiler.effects import Name, Path


class Log:
    """The nodes that set a name or object, in order, and those that might have. Append-only: a length marks a moment.

    `varies`: one of them depends on an input or on a value of the host; `seen` is how far that was checked.
    """

    __slots__ = ("perhaps", "seen", "sure", "varies")

    def __init__(self, *sure: int) -> None:
        self.sure, self.perhaps = list(sure), list[int]()
        self.varies, self.seen = False, (0, 0)


class Thing:
    """The changes to one object: all of them, those under each key, and those under an unknown key.

    The object is kept alive so that its address is not reused. Where the program could notice that, it is not kept,
    and a new object at the same address gets extra dependences.
    """

    __slots__ = ("all", "any", "keys", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.all, self.any = value, Log(), Log()
        self.keys: dict[Any, Log] = {}


class Node:
    """One run of a statement; `read`: logs and their lengths then; `whole`: other statements it stands for."""

    __slots__ = (
        "control", "data", "index", "is_done", "places", "read", "roots", "statement", "values", "varies", "visits",
        "whole",
    )  # fmt: skip

    def __init__(self, index: int, statement: int | None) -> None:
        self.index, self.statement = index, statement
        self.data, self.control = list[int](), list[int]()
        self.read: dict[int, tuple[Log, int, int]] = {}
        self.visits, self.values = list[int](), list[int]()  # steps of the trace: by Python; by the model or a tool
        self.whole: list[int] = []
        self.varies = self.is_done = False  # `varies`: it depends on an input or a value of the host
        self.places: list[Any] = []  # the names it read
        self.roots: list[Any] = []  # the values of those names


class View:
    """The names that a frame sees at one moment. `serial` tells calls of the same function apart."""

    __slots__ = ("_names", "_own", "frame", "serial")

    def __init__(self, frame: FrameType, serial: int, names: dict[str, Any]) -> None:
        self.frame, self.serial, self._names = frame, serial, names
        self._own: dict[str, Any] | None = None

    def place(self, name: Name) -> Any:
        """Return the key of a name's log: local names have one per call of the function."""
        return (self.serial, name[1]) if name[0] == "l" else name

    def value(self, name: Name) -> Any:
        if name[0] == "g":
            return self._names.get(name[1], ABSENT)
        return self.own.get(name[1], ABSENT)

    def function(self, name: Name) -> Any:
        """Return the value of a called name: holes are builtins."""
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
        """Return the object at the end of a path, or the last one on it that can be read."""
        value = self.value(path[0])
        for how, key in path[1]:
            part = step(value, how, self.key(how, key))[0]
            if part is ABSENT:
                return value
            value = part
        return value


def _visible(frame: FrameType) -> dict[str, Any]:
    """Return a frame's variables; for a class body, those of the enclosing function too."""
    around = frame.f_back
    if frame.f_code.co_flags & CO_OPTIMIZED or frame.f_code.co_name == "<module>" or around is None:
        return names_of(frame)
    return {**_visible(around), **names_of(frame)}
