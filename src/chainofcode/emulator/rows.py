"""Row batching: several calls of one function in one prompt.

Calls that wait at the same time share a request; each value that does not fit is requested again by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import BudgetError, EmulationError
from ..lm import LM, Completion, as_lm
from ..trace import Call
from .model import Asking, as_text, requested
from .pause import Answered, Emulator, Pause
from .replies import value_in
from .types import Kind, Misfit, object_schema

_WAIT_SECONDS = 0.05  # for the calls that are sent along with the first
_Waiting = tuple[Pause, asyncio.Future[Answered]]


class Rows(Emulator):
    """A language model, asked for up to `rows` calls of a function at once; see Asking."""

    reads_state = gathers = True

    def __init__(self, lm: LM, rows: int, seen: Sequence[tuple[str, Any]] = ()) -> None:
        self._lm, self._rows, self._seen = as_lm(lm), rows, seen
        self._alone = Asking(lm, 1, seen)
        self.in_flight = 2 * rows * self._alone.in_flight  # the next prompts fill up meanwhile
        self._waiting: list[_Waiting] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._open = 0

    def fresh(self) -> Rows:
        return Rows(self._lm, self._rows, self._seen)

    async def answer(self, pause: Pause) -> Answered:
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((pause, answer))
        if sum(not worker.done() for worker in self._workers) < self._alone.in_flight:  # a finished one takes no more
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        self._open += 1
        try:
            return await answer
        finally:
            self._open -= 1
            if not self._open:  # the run may have been cancelled
                for worker in self._workers:
                    worker.cancel()
                self._workers.clear()

    async def _work(self) -> None:
        await asyncio.sleep(_WAIT_SECONDS)
        while chosen := self._chosen():
            try:
                answers = await self._together([pause for pause, _ in chosen])
            except Exception as error:  # raised where the call is awaited
                answers = [error] * len(chosen)
            for (_, answer), answered in zip(chosen, answers, strict=True):
                if answer.done():
                    continue
                if isinstance(answered, Exception):
                    answer.set_exception(answered)
                else:
                    answer.set_result(answered)

    def _chosen(self) -> list[_Waiting]:
        """Take calls of one function that wait, as many as fit into a prompt."""
        waiting = [one for one in self._waiting if not one[1].done()]
        chosen = [one for one in waiting if _is_alike(waiting[0][0], one[0])][: self._rows]
        self._waiting = [one for one in waiting if one not in chosen]
        return chosen

    async def _together(self, pauses: Sequence[Pause]) -> list[Answered | Exception]:
        values, spent = [_MISSING] * len(pauses), tuple[Call, ...]()
        if len(pauses) > 1:
            values, spent = await self._asked(pauses)
        answers: list[Answered | Exception] = []
        for pause, value in zip(pauses, values, strict=True):
            if value is not _MISSING:
                self._alone.remember(pause, value)
                answers.append(Answered(value, spent, is_batched=True))
            else:
                answers.append(await self._singly(pause, spent))
            spent = ()  # one request, counted once
        return answers

    async def _singly(self, pause: Pause, spent: tuple[Call, ...]) -> Answered | Exception:
        try:
            alone = await self._alone.answer(pause)
            return replace(alone, calls=(*spent, *alone.calls))
        except (EmulationError, BudgetError) as error:
            error.calls = (*spent, *error.calls)
            return error
        except Exception as error:  # of this one alone
            return error

    async def _asked(self, pauses: Sequence[Pause]) -> tuple[list[Any], tuple[Call, ...]]:
        """Return the fitting values in the reply, and the request."""
        kind = self._alone.kind(pauses[0])
        names = [str(number) for number in range(1, len(pauses) + 1)]
        schema = object_schema(dict.fromkeys(names, kind.schema))
        messages = self._alone.messages_for(pauses, kind)
        room = kind.max_tokens * len(pauses)
        ((said, call),) = await requested(self._lm, messages, as_text(messages), schema=schema, max_tokens=room)
        return _values(said, names, kind), (call,)


_MISSING = object()


def _values(said: Completion, names: Sequence[str], kind: Kind) -> list[Any]:
    try:
        read = value_in(said.text, False)
    except Misfit:
        return [_MISSING] * len(names)
    found = read if isinstance(read, dict) else {}
    values = [_MISSING] * len(names)
    for place, name in enumerate(names):
        with contextlib.suppress(Misfit, KeyError):
            values[place] = kind.fit(found[name])
    return values


def _is_alike(first: Pause, other: Pause) -> bool:
    """Whether two calls fit into one prompt."""
    return first is other or (
        first.kind == other.kind == "call"
        and (first.name, first.type, first.line, first.spec) == (other.name, other.type, other.line, other.spec)
        and len(other.text) < 1000
    )
