"""Emulators: they answer a pause with a typed value, from a table, a function, a tool or a language model."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import EmulationError
from ..lm import LM, as_lm
from .cascade import Cascade, asking
from .model import ONE_REPLY, Asking, Judging
from .pause import Answered, AroundEmulator, Emulator, Pause, declared
from .rows import Rows
from .table import Table, not_json
from .tools import Tool, Toolbox, read_only, tool

__all__ = [
    "Answered",
    "Answering",
    "AroundEmulator",
    "Asking",
    "Cascade",
    "Delayed",
    "Emulator",
    "First",
    "Function",
    "Judging",
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


def as_emulator(given: Answering, judging: Judging = ONE_REPLY) -> Emulator:
    """Return an emulator for a run, from an emulator, a mapping, a model, a function of the pause, or None.

    `judging` applies to models and cascades; other emulators have their own settings.
    """
    if given is None:
        return Table([])
    if isinstance(given, Cascade):
        return given.fresh() if judging is ONE_REPLY else given.judged_by(judging)
    if hasattr(given, "answer"):
        return declared(given).fresh()
    if isinstance(given, Mapping):
        return Table(given.items())
    if hasattr(given, "complete"):
        return asking(as_lm(given), judging)
    if callable(given):
        return Function(given)
    raise TypeError(f"cannot emulate with a {type(given).__name__}: give a mapping, a function or a model")


class First(AroundEmulator):
    """Several emulators in order: the first that has a value supplies it.

    All but the last only look values up, so the last one determines how many pauses may be open at once.
    """

    def __init__(self, *emulators: Emulator) -> None:
        super().__init__(emulators[-1])
        self._before = [declared(emulator) for emulator in emulators[:-1]]
        for emulator in self._before:
            self.reads_state = self.reads_state or emulator.reads_state
            self.is_ordered = self.is_ordered or emulator.is_ordered

    async def answer(self, pause: Pause) -> Answered:
        for emulator in self._before:
            with contextlib.suppress(EmulationError):
                return await emulator.answer(pause)
        return await self._emulator.answer(pause)


class Delayed(AroundEmulator):
    """Delays each value of another emulator by `seconds`; many pauses may be open at once."""

    def __init__(self, emulator: Emulator, seconds: float) -> None:
        super().__init__(emulator)
        self._seconds, self.in_flight = seconds, 32

    async def answer(self, pause: Pause) -> Answered:
        await asyncio.sleep(self._seconds)
        return await self._emulator.answer(pause)


class Function(Emulator):
    """A plain Python function of the pause, sync or async."""

    def __init__(self, function: Callable[[Pause], Any]) -> None:
        self._function = function

    async def answer(self, pause: Pause) -> Answered:
        value = self._function(pause)
        return Answered(await value if inspect.isawaitable(value) else value)
