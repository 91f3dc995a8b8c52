"""Several calls of one function in one prompt: a model that does one thing at a time then does more per prompt.

Calls that wait together are asked for together; what does not fit of the reply is asked for alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..lm import LM, Completion
from ..trace import Call
from .asking import Asking, as_text
from .pause import Answered, Pause
from .replies import value_in
from .types import Kind, Misfit

_WAIT_SECONDS = 0.05  # for the calls that are sent along with the first


class Rows:
    """A language model, asked for up to `rows` calls of a function at once; see Asking."""

    reads_state = True

    def __init__(self, lm: LM, rows: int, votes: int = 1) -> None:
        self._lm, self._rows, self._votes = lm, rows, votes
        self._alone = Asking(lm, votes)
        self.in_flight = 2 * rows  # the next prompt is full when this one is done
        self._waiting: list[tuple[Pause, asyncio.Future[Answered]]] = []
        self._worker: asyncio.Task[None] | None = None

    def fresh(self) -> Rows:
        return Rows(self._lm, self._rows, self._votes)

    async def answer(self, pause: Pause) -> Answered:
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((pause, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            return await answer
        except asyncio.CancelledError:
            if all(other.done() for _, other in self._waiting):
                self._worker.cancel()
            raise

    async def _work(self) -> None:
        await asyncio.sleep(_WAIT_SECONDS)
        while self._waiting:
            self._waiting = [waiting for waiting in self._waiting if not waiting[1].done()]
            first = self._waiting[0][0] if self._waiting else None
            chosen = [waiting for waiting in self._waiting if first is not None and _is_alike(first, waiting[0])]
            chosen = chosen[: self._rows]
            self._waiting = [waiting for waiting in self._waiting if waiting not in chosen]
            try:
                answers = await self._together([pause for pause, _ in chosen])
            except Exception as error:  # for whoever asked
                answers = [error] * len(chosen)
            for (_, answer), answered in zip(chosen, answers, strict=True):
                if answer.done():
                    continue
                if isinstance(answered, Exception):
                    answer.set_exception(answered)
                else:
                    answer.set_result(answered)

    async def _together(self, pauses: Sequence[Pause]) -> list[Answered | Exception]:
        values, spent = [_MISSING] * len(pauses), tuple[Call, ...]()
        if len(pauses) > 1 and self._votes == 1:
            values, spent = await self._asked(pauses)
        answers: list[Answered | Exception] = []
        for pause, value in zip(pauses, values, strict=True):
            if value is not _MISSING:
                self._alone.remember(pause, value)
                answers.append(Answered(value, spent, is_batched=True))
            else:
                try:
                    alone = await self._alone.answer(pause)
                    answers.append(replace(alone, calls=(*spent, *alone.calls)))
                except Exception as error:  # of this one alone
                    answers.append(error)
            spent = () if isinstance(answers[-1], Answered) else spent  # one request, told once
        return answers

    async def _asked(self, pauses: Sequence[Pause]) -> tuple[list[Any], tuple[Call, ...]]:
        """The values that the reply has a fitting one for, and the request."""
        kind = self._alone.kind(pauses[0])
        names = [str(number) for number in range(1, len(pauses) + 1)]
        schema = {
            "type": "object",
            "properties": {name: dict(kind.schema) for name in names},
            "required": names,
            "additionalProperties": False,
        }
        messages = self._alone.messages_for(pauses, kind)
        started = time.monotonic()
        (said,) = await self._lm.complete(messages, schema=schema, max_tokens=kind.max_tokens * len(pauses))
        call = Call(as_text(messages), said.text, self._lm.name, said.usage, time.monotonic() - started)
        return _values(said, names, kind), (call,)


_MISSING = object()


def _values(said: Completion, names: Sequence[str], kind: Kind) -> list[Any]:
    try:
        read = value_in(said.text, False)
    except Misfit:
        return [_MISSING] * len(names)
    values = []
    for name in names:
        try:
            values.append(kind.fit(read[name]) if isinstance(read, dict) and name in read else _MISSING)
        except Misfit:
            values.append(_MISSING)
    return values


def _is_alike(first: Pause, other: Pause) -> bool:
    """Whether two calls can stand in one list."""
    return first is other or (
        first.kind == other.kind == "call"
        and (first.name, first.type, first.line, first.spec) == (other.name, other.type, other.line, other.spec)
        and len(other.text) < 1000
    )
