"""What a walk ahead works with: names and what is known of them, pieces of the program, loops.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..program.ahead import Loop as LoopSyntax
from .iterations import left
from .requests import NotYet

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

_MAX_BARREN = 200  # turns without a call; then a loop is not looked at any more


class Env:
    """Names and what is known of their values, over those of an outer one; outermost are the program's globals."""

    class _Unknown:
        def __bool__(self) -> bool:
            raise NotYet

    UNKNOWN = _Unknown()
    __slots__ = ("is_local", "names", "outer", "real")

    def __init__(self, names: dict[str, Any], outer: Env | None, *, is_local: bool = False, real: Any = None) -> None:
        self.names, self.outer, self.is_local, self.real = names, outer, is_local, real

    def get(self, name: str) -> Any:
        env: Env | None = self
        while env is not None:
            if name in env.names:
                return env.names[name]
            if env.real is not None:
                return env.real.get(name, Env.UNKNOWN)
            env = env.outer
        return Env.UNKNOWN

    def module(self) -> Env:
        """Without the names of functions."""
        env: Env | None = self
        outside = self
        while env is not None:
            if env.is_local and env.outer is not None:
                outside = env.outer
            env = env.outer
        return outside

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.names[name] = Env.UNKNOWN


class Unit:
    """Statements (or one turn of a loop) to be walked, again whenever a value comes that it lacked."""

    __slots__ = ("env", "is_ready", "keys", "loop", "loops", "owner", "statements")

    def __init__(self, statements: list[ast.stmt], env: Env, loop: Loop | None = None) -> None:
        self.statements, self.env, self.loop = statements, env, loop
        self.owner = loop.owner if loop is not None else 0  # the frame that it belongs to
        self.is_ready = False
        self.keys: set[str] = set()  # calls whose values it waits for
        self.loops: dict[tuple[ast.AST, tuple[ast.AST, ...]], Loop] = {}  # those in it


class Loop:
    """A loop ahead of the program: its turns are units. `real` is the program's own iterator, if it is in the loop."""

    def __init__(self, syntax: LoopSyntax, items: Iterator[Any], env: Env, may_leave: bool) -> None:
        self.syntax, self.items, self.env, self.may_leave = syntax, items, env, may_leave
        self.real: Any = None
        self.parent: Unit | None = None
        self.length = left(items)
        self.is_known = False
        self.owner = 0
        self._open, self._is_through, self._barren = 0, False, 0

    def turn(self) -> Unit | None:
        """The next turn; None at the end, and where turns bring nothing."""
        if self._is_through or self._barren > _MAX_BARREN:
            return None
        try:
            item = next(self.items)
        except (StopIteration, RuntimeError):  # a dict that has changed its size
            self._is_through = True
            return None
        self._open += 1
        self._barren += 1
        return Unit([], Env({"$item": item}, self.env), self)

    def end_turn(self, unit: Unit) -> Unit | None:
        """A turn waits for nothing any more. Gives the unit that waits for the whole loop, if this was the last."""
        self._open -= 1
        unit.loop = None
        return self.parent if self._is_through and not self._open else None

    def is_fruitful(self) -> None:
        self._barren = 0
