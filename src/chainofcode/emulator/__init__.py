"""The LMulator: a pause in, a typed value out. The value comes from a table, a function or a language model."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import EmulationError
from ..lm import LM
from .model import Asking
from .pause import Answered, Emulator, Pause
from .rows import Rows
from .table import Table, not_json
from .tools import Tool, Toolbox, read_only, tool

__all__ = [
    "Answered",
    "Answering",
    "Asking",
    "Delayed",
    "Emulator",
    "First",
    "Function",
    "Pause",
    "Rows",
    "Table",
    "Tool",
    "Toolbox",
    "as_emulator",
    "asking",
    "not_json",
    "read_only",
    "tool",
]

Answering = Emulator | LM | Mapping[str, Any] | Callable[[Pause], Any] | None


def as_emulator(given: Answering) -> Emulator:
    """A table of call texts, a plain (or async) function of the pause, a model, or nobody."""
    if given is None:
        return Table([])
    if isinstance(given, (Table, Asking, Rows)):
        return given.fresh()
    if isinstance(given, Emulator):
        return given
    if isinstance(given, Mapping):
        return Table(given.items())
    if isinstance(given, LM):
        return asking(given)
    if callable(given):
        return Function(given)
    raise TypeError(f"cannot emulate with a {type(given).__name__}: give a mapping, a function or a model")


def asking(lm: LM, votes: int = 1, seen: Sequence[tuple[str, Any]] = ()) -> Emulator:
    """A model as an emulator, with as many calls in a prompt as it is good for; `seen` are calls as examples."""
    rows: int = getattr(lm, "rows", 1)
    return Rows(lm, rows, seen) if rows > 1 and votes == 1 else Asking(lm, votes, seen)


class First:
    """Several emulators, asked in turn: the first that has a value gives it."""

    def __init__(self, *emulators: Emulator) -> None:
        self._emulators = emulators
        self.reads_state = any(getattr(emulator, "reads_state", False) for emulator in emulators)
        # Those before the last only look something up: the last says how much it takes.
        self.in_flight = getattr(emulators[-1], "in_flight", 1)
        self.is_ordered = any(getattr(emulator, "is_ordered", False) for emulator in emulators)
        self.gathers = getattr(emulators[-1], "gathers", False)

    async def answer(self, pause: Pause) -> Answered:
        for emulator in self._emulators[:-1]:
            with contextlib.suppress(EmulationError):
                return await emulator.answer(pause)
        return await self._emulators[-1].answer(pause)


class Delayed:
    """Another emulator, each of whose values takes so long to come; many may be on their way at once."""

    def __init__(self, emulator: Emulator, seconds: float) -> None:
        self._emulator, self._seconds = emulator, seconds
        self.reads_state = getattr(emulator, "reads_state", False)
        self.in_flight = 32
        self.is_ordered = getattr(emulator, "is_ordered", False)
        self.gathers = getattr(emulator, "gathers", False)

    async def answer(self, pause: Pause) -> Answered:
        await asyncio.sleep(self._seconds)
        return await self._emulator.answer(pause)


class Function:
    """A plain Python function of the pause, sync or async."""

    def __init__(self, function: Callable[[Pause], Any]) -> None:
        self._function = function

    async def answer(self, pause: Pause) -> Answered:
        value = self._function(pause)
        return Answered(await value if inspect.isawaitable(value) else value)
