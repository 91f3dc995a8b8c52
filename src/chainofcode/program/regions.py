"""Calls in a statement, and what running some statements may change. Names and paths are those of program/header.py.

Standard library only.
"""

from __future__ import annotations

from .data import Data

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    Name = tuple[str, str]
    Path = tuple[Name, tuple[tuple[str, Any], ...]]

OUTPUT: Name = ("g", "$output")  # what was printed
LAST: Name = ("g", "$last")  # the value of the last expression statement
LOOSE = ("loose", None)  # something that can be reached from there is changed
WORLD: Name = ("g", "$world")  # the state that the functions of some modules share: program/channels.py


class Called(Data):
    """A call in a statement: of a name, of a method of something, or of who knows what; and what it is handed."""

    function: Name | None  # f in f(x)
    receiver: Path | None  # xs in xs.append(x)
    method: str  # append
    handed: tuple[Path, ...]  # what the arguments are made of; of a receiver that is no path, that, too
    is_told: bool = False  # a method of the program's: its own statements say what they change
    is_super: bool = False  # of `super()`: the first that is handed is the object itself

    @property
    def is_loose(self) -> bool:
        return self.function is None and self.receiver is None and not self.is_told and not self.is_super


class Region:
    """What running some statements may change: names, and the objects that names are bound to.

    Reading changes iterators; where Python calls methods by itself, it may change objects of the program's classes,
    and where functions are handed around, anything that is read.
    """

    def __init__(self) -> None:
        self.names: dict[Name, None] = {}
        self.objects: dict[Name, None] = {}
        self.reads: dict[Name, None] = {}
        self.is_dynamic = self.opens_instances = self.opens_all = False

    def add(self, other: Region, *, from_outside: bool = False) -> None:
        """Take in another's; seen from outside of its function, that function's own names do not matter."""
        for mine, its in ((self.names, other.names), (self.objects, other.objects), (self.reads, other.reads)):
            mine.update({name: None for name in its if not from_outside or name[0] != "l"})
        self.is_dynamic |= other.is_dynamic
        self.opens_instances |= other.opens_instances
        self.opens_all |= other.opens_all

    def size(self) -> int:
        return len(self.names) + len(self.objects) + len(self.reads) + self.is_dynamic
