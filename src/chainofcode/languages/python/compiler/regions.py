"""Calls in a statement, and regions: what running some statements may change. For names and paths see header.py.

Standard library only.
"""

from __future__ import annotations

from .record import Data

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    Name = tuple[str, str]
    Path = tuple[Name, tuple[tuple[str, Any], ...]]

OUTPUT: Name = ("g", "$output")  # what was printed
LAST: Name = ("g", "$last")  # the value of the last expression statement
LOOSE = ("loose", None)  # some object reachable from there is changed
WORLD: Name = (
    "g",
    "$world",
)  # state shared by the functions of a module, such as the clock (compiler/channels.py)


class Called(Data):
    """A call in a statement: of a name, a method, or an unknown function; and its arguments."""

    function: Name | None  # f in f(x)
    receiver: Path | None  # xs in xs.append(x)
    method: str  # append
    handed: tuple[Path, ...]  # paths in the arguments, and in a receiver that is not itself a path
    is_told: bool = False  # a method of the program: its own statements record their changes
    is_super: bool = False  # called on `super()`: the first argument is the object itself

    @property
    def is_loose(self) -> bool:
        return self.function is None and self.receiver is None and not self.is_told and not self.is_super


class Region:
    """What running some statements may change: names, and the objects that names are bound to.

    Reading advances iterators. An implicit method call may change instances of the program's classes
    (`opens_instances`), and a function passed as a value may change anything that is read (`opens_all`).
    """

    def __init__(self) -> None:
        self.names: dict[Name, None] = {}
        self.objects: dict[Name, None] = {}
        self.reads: dict[Name, None] = {}
        self.is_dynamic = self.opens_instances = self.opens_all = False

    def add(self, other: Region, *, from_outside: bool = False) -> None:
        """Merge another region; `from_outside` of its function, without the function's local names."""
        for mine, its in ((self.names, other.names), (self.objects, other.objects), (self.reads, other.reads)):
            mine.update({name: None for name in its if not from_outside or name[0] != "l"})
        self.is_dynamic |= other.is_dynamic
        self.opens_instances |= other.opens_instances
        self.opens_all |= other.opens_all

    def size(self) -> int:
        return len(self.names) + len(self.objects) + len(self.reads) + self.is_dynamic
