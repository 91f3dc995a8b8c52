"""Values shared by several programs for one question: each call is requested once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from .confidence import score_bounds
from .pause import Answered, AroundEmulator, Emulator, Pause, holds_object
from .types import kind_of

_Key = tuple[str, str, str, bool]


class SharedValues:
    """Shares values between programs that run at the same time. Each program has its own emulator."""

    def __init__(self, new_emulator: Callable[[], Emulator], programs: int) -> None:
        """`new_emulator` returns the emulator of one program."""
        self._new_emulator, self._programs = new_emulator, programs
        self.known: dict[_Key, Answered] = {}
        self.asking: defaultdict[_Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def emulator(self) -> Emulator:
        emulator = _Sharing(self._new_emulator(), self)
        emulator.in_flight = max(1, emulator.in_flight // self._programs)
        return emulator


class _Sharing(AroundEmulator):
    def __init__(self, emulator: Emulator, shared: SharedValues) -> None:
        super().__init__(emulator)
        self._shared = shared

    async def answer(self, pause: Pause) -> Answered:
        key = _key(pause)
        if key is None:
            return await super().answer(pause)
        async with self._shared.asking[key]:  # if this program is cancelled, the next one asks
            if (known := self._shared.known.get(key)) is not None:
                return replace(known, calls=())  # the requests are counted in the program that asked first
            answered = await super().answer(pause)
            if not answered.is_once:
                self._shared.known[key] = answered
            return answered


def _key(pause: Pause) -> _Key | None:
    """Return the key of a call for all programs: its text, its type and declaration, and whether it only ranks.

    None if the text does not identify the call: without arguments, or with objects as arguments.
    """
    if pause.kind != "call" or pause.text.endswith("()") or holds_object([pause.args, pause.kwargs]):
        return None
    return pause.text, pause.type, pause.spec, score_bounds(pause, kind_of(pause.type)) is not None
