"""Calls that a person answers: the program waits until a person types a value."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import EmulationError, InputError
from ..lm import LM
from . import Answering, as_emulator
from .lookalikes import make_visible
from .model import ONE_REPLY, Judging, wanted_type
from .pause import Answered, AroundEmulator, Emulator, Pause
from .replies import value_in
from .table import Table
from .types import Misfit, kind_of
from .value_cache import Layer

PERSON = "you"  # in the trace, in place of the name of a model
_MAX_CALL_CHARS = 2000


@dataclass(frozen=True)
class Question:
    """A call that waits for a person: its text, the type of its value, and what was wrong with the last answer."""

    call: str
    type: str = ""  # as the text of an annotation
    line: int = 0
    fault: str = ""

    @property
    def wants(self) -> str:
        """The type in words."""
        return kind_of(self.type).words

    def __str__(self) -> str:
        fault = f"{self.fault}: " if self.fault else ""
        return f"{fault}{self.call[:_MAX_CALL_CHARS]} = ? ({self.wants})"

    def value_in(self, reply: str) -> Any:
        """Return the value in an answer as a person typed it, or as JSON. Raises Misfit."""
        kind = kind_of(self.type)
        return kind.fit(value_in(reply, kind.is_text))


Asked = Callable[[Question], Awaitable[str | None]]  # returns the answer as typed, None if no person can answer


class AskMe:
    """A layer in which a person answers some calls, and another layer or the models answer the rest."""

    def __init__(self, pattern: str, asked: Asked, inner: Layer | None = None) -> None:
        self._pattern, self._asked, self._inner = pattern, asked, inner
        AskPerson(Table([]), pattern, asked)  # reports an invalid pattern before any request is made

    def model(self, lm: LM) -> LM:
        return lm if self._inner is None else self._inner.model(lm)

    def emulator(self, given: Answering, judging: Judging = ONE_REPLY) -> Emulator:
        inner = as_emulator(given, judging) if self._inner is None else self._inner.emulator(given, judging)
        return AskPerson(inner, self._pattern, self._asked)


class AskPerson(AroundEmulator):
    """Asks a person about calls of functions whose names match a pattern, and another emulator about all others.

    Such calls are not requested ahead of the program. Without a terminal, the run ends, and can be resumed.
    """

    def __init__(self, emulator: Emulator, pattern: str, asked: Asked) -> None:
        super().__init__(emulator)
        try:
            self._names = re.compile(pattern)
        except (re.error, RecursionError) as error:
            raise InputError(f"invalid pattern {pattern!r}: {error}") from None
        self._pattern, self._asked = pattern, asked

    def fresh(self) -> AskPerson:
        return AskPerson(self._emulator.fresh(), self._pattern, self._asked)

    def asks_ahead(self, name: str) -> bool:
        return self._names.fullmatch(name) is None and super().asks_ahead(name)

    async def answer(self, pause: Pause) -> Answered:
        if pause.kind != "call" or self._names.fullmatch(pause.name) is None:
            return await super().answer(pause)
        question = Question(make_visible(pause.text)[0], wanted_type(pause), pause.line)
        while True:
            reply = await self._asked(question)
            if reply is None:
                raise EmulationError(f"the call {pause.text[:_MAX_CALL_CHARS]} waits for a person")
            try:
                return Answered(question.value_in(reply), model=PERSON)
            except Misfit as error:
                question = replace(question, fault=str(error))
