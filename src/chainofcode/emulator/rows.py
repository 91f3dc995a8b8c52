"""Row batching: several calls of one function in one prompt.

Calls that wait at the same time share a request; each value that does not fit is requested again on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ..errors import BudgetError, EmulationError
from ..lm import LM, Completion
from ..trace import Call
from ..values.codec import encode
from .accounting import accounted, unshared_part
from .confidence import judged, likelihood
from .image_arguments import has_images
from .model import ONE_REPLY, Asking, Judging, requested
from .pause import Answered, Emulator, Pause
from .replies import value_in
from .types import Kind, Misfit, object_schema

_WAIT_SECONDS = 0.05  # for more calls to send along with the first
_Waiting = tuple[Pause, asyncio.Future[Answered]]


class Rows(Emulator):
    """A language model, asked for up to `rows` calls of a function at once; see Asking."""

    reads_state = gathers = True

    def __init__(self, lm: LM, rows: int, judging: Judging = ONE_REPLY) -> None:
        self._lm, self._rows, self._judging = accounted(lm), rows, judging
        self._alone = Asking(self._lm, judging)
        self.in_flight = 2 * rows * self._alone.in_flight  # the next prompts fill up meanwhile
        self._waiting: list[_Waiting] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._open = 0

    def abandoned(self) -> list[Call]:
        return self._lm.abandoned()

    def fresh(self) -> Rows:
        return Rows(self._lm, self._rows, self._judging)

    async def answer(self, pause: Pause) -> Answered:
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((pause, answer))
        # A worker that is done takes no more calls, even if it is not discarded yet.
        if sum(not worker.done() for worker in self._workers) < self._alone.in_flight:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        self._open += 1
        try:
            return await answer
        finally:
            self._open -= 1
            if not self._open:  # the run may have been cancelled
                workers = list(self._workers)
                for worker in workers:
                    worker.cancel()
                self._workers.clear()
                await asyncio.gather(*workers, return_exceptions=True)  # so that they record their cancelled requests

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
        """Take waiting calls of one function, as many as fit into a prompt."""
        waiting = [entry for entry in self._waiting if not entry[1].done()]
        chosen = [entry for entry in waiting if _is_alike(waiting[0][0], entry[0])][: self._rows]
        self._waiting = [entry for entry in waiting if entry not in chosen]
        return chosen

    async def _together(self, pauses: Sequence[Pause]) -> list[Answered | Exception]:
        found: list[Answered | None] = [None] * len(pauses)
        spent: tuple[Call, ...] = ()
        if len(pauses) > 1:
            found, spent = await self._asked(pauses)
        paid = [*spent]
        with self._lm.keep_if_cancelled(paid):
            answers = await asyncio.gather(*(self._singly(*each, paid) for each in zip(pauses, found, strict=True)))
        for pause, was_found, answered in zip(pauses, found, answers, strict=True):
            if was_found is not None and isinstance(answered, Answered):
                self._alone.remember(pause, answered.value)
        first, *others = answers
        return [_with_calls(first, spent), *others]  # one request, counted once

    async def _singly(self, pause: Pause, found: Answered | None, paid: list[Call]) -> Answered | Exception:
        """Return the value that was found, reconsidered if the model was unsure; without one, request it on its own.

        The requests are appended to `paid`.
        """
        try:
            answered = await (self._alone.answer(pause) if found is None else self._alone.considered(pause, found))
        except Exception as error:  # of this call alone
            return error
        paid += answered.calls
        return answered

    async def _asked(self, pauses: Sequence[Pause]) -> tuple[list[Answered | None], tuple[Call, ...]]:
        """Return the values in the reply, None for those that do not fit, and the request."""
        kind = self._alone.kind(pauses[0])
        names = [str(number) for number in range(1, len(pauses) + 1)]
        schema = object_schema(dict.fromkeys(names, kind.schema))
        messages = self._alone.messages_for(pauses, kind)
        room = kind.max_tokens * len(pauses)
        options = {"schema": schema, "max_tokens": room, **self._alone.logprobs}
        ((reply, call),) = await requested(self._lm, messages, unshared_part(messages), **options)
        values = _values(reply, dict(zip(names, pauses, strict=True)), kind)
        found = zip(pauses, values, strict=True)
        answers = {pause.text: encode(value.value) for pause, value in found if value is not None}
        return values, (msgspec.structs.replace(call, answers=answers),)


def _with_calls(answered: Answered | Exception, spent: tuple[Call, ...]) -> Answered | Exception:
    if isinstance(answered, Answered):
        return replace(answered, calls=(*spent, *answered.calls))
    if isinstance(answered, (EmulationError, BudgetError)):
        answered.calls = (*spent, *answered.calls)
    return answered


def _values(reply: Completion, pauses: Mapping[str, Pause], kind: Kind) -> list[Answered | None]:
    try:
        read = value_in(reply.text, False)
    except Misfit:
        read = None
    found = read if isinstance(read, dict) else {}
    values: list[Answered | None] = []
    for name, pause in pauses.items():
        try:
            value, confidence = judged(reply, name, kind.fit(found[name]), kind, pause)
            sure = likelihood(reply, name)
            values.append(Answered(value, is_batched=True, confidence=confidence, likelihood=sure))
        except (Misfit, KeyError):
            values.append(None)
    return values


def _is_alike(first: Pause, other: Pause) -> bool:
    """Whether two calls fit into one prompt."""
    return first is other or (
        first.kind == other.kind == "call"
        and (first.name, first.type, first.line, first.spec) == (other.name, other.type, other.line, other.spec)
        and len(other.text) < 1000
        and not has_images(first)
        and not has_images(other)
    )
