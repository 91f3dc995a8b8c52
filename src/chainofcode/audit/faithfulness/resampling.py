"""Values requested again: whether the model repeats what was recorded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...emulator import Answered, Asking, Emulator, Pause
from ...errors import EmulationError
from ...lm import LM, Around, Completion, Message
from ...trace import Call

_TEMPERATURE = 0.7


@dataclass
class Sampled:
    """A call, its recorded value, and the values that the model returns now."""

    call: str
    recorded: Any
    said: list[Any] = field(default_factory=list)
    failed: int = 0  # samples that no value could be read from

    @property
    def agreeing(self) -> int:
        return sum(is_alike(value, self.recorded) for value in self.said)

    @property
    def asked(self) -> int:
        return len(self.said) + self.failed


class Sampling(Emulator):
    """An emulator that returns recorded values, and requests each of them from a model several times."""

    reads_state = True

    def __init__(self, recorded: Emulator, lm: LM, calls: Collection[str], times: int) -> None:
        self._recorded, self._calls = recorded, calls
        self._asking = [Asking(_SamplingLM(lm)) for _ in range(times)]
        self.sampled: dict[str, Sampled] = {}
        self.calls: list[Call] = []

    async def answer(self, pause: Pause) -> Answered:
        answered = await self._recorded.answer(pause)
        if pause.text in self._calls and pause.text not in self.sampled and answered.error is None:
            found = self.sampled[pause.text] = Sampled(pause.text, answered.value)
            for asking in self._asking:
                try:
                    sample = await asking.answer(pause)
                except EmulationError as error:
                    found.failed += 1
                    self.calls += error.calls
                else:
                    found.said.append(sample.value)
                    self.calls += sample.calls
        return answered


class _SamplingLM(Around):
    """A model that is sampled at a temperature above 0."""

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **{**options, "temperature": _TEMPERATURE})


def is_alike(value: Any, other: Any) -> bool:
    """Whether two values agree: numbers by size, text regardless of case."""
    if isinstance(value, str) and isinstance(other, str):
        return value.strip().casefold() == other.strip().casefold()
    if isinstance(value, float) or isinstance(other, float):
        try:
            return bool(abs(value - other) <= 1e-6 * max(1.0, abs(value), abs(other)))
        except TypeError:
            return False
    return bool(value == other)
