"""Wrappers of methods: an answer type, a ladder of fallbacks, votes. All they do is in the events."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import BudgetError, InputError, LMError
from ..lm import LM, Around, Completion, Message
from ..program import Program
from ..reasons import Reason
from ..trace import Answer, Call, Event
from .answers import fitted, is_misfit
from .prompting import Inquiry, Method, failed, last_answer, prompt, stepping

_VOTING_TEMPERATURE = 0.7


def typed(method: Method) -> Method:
    """Check the answer of a method against the answer type; ask once more, in words, for one that does not fit."""

    async def checked(inquiry: Inquiry) -> AsyncIterator[Event]:
        said = ""
        async for event in method(inquiry):
            if isinstance(event, Call):
                said = event.reply
            if not isinstance(event, Answer) or event.then:
                yield event
                continue
            answer = await fitted(event, inquiry.answer_type)
            if answer.error is not None and is_misfit(answer) and not event.type:
                yield stepping(answer, "repair")
                call = await inquiry.complete(prompt("restate"), inquiry.text, said or event.text, answer.error.message)
                yield call
                again = await fitted(inquiry.stated(call.reply), inquiry.answer_type)
                left = {"artifacts": event.artifacts, "unsent": event.unsent}
                answer = msgspec.structs.replace(again, **left) if again.type else answer
            yield answer

    return checked


def ladder(rungs: Mapping[str, Method]) -> Method:
    """Try methods in turn until one answers; the trace keeps each reason.

    A program that one of them wrote is passed on. A spent budget ends the ladder; so does a model that never replied.
    """

    async def method(inquiry: Inquiry) -> AsyncIterator[Event]:
        inquiry = inquiry.remembering()
        last_call: Call | None = None
        for name, following in itertools.zip_longest(rungs, list(rungs)[1:], fillvalue=""):
            last = failed(Reason.ERROR, f"{name} ended without an answer")
            try:
                async for event in rungs[name](inquiry):
                    if isinstance(event, Answer) and not event.then:
                        last = event
                        continue
                    last_call = event if isinstance(event, Call) else last_call
                    if isinstance(event, Program) and last_call is not None:
                        inquiry = dataclasses.replace(inquiry, written=last_call)
                    yield event
            except BudgetError as error:
                last = failed(error.reason, str(error))
            except LMError as error:
                if last_call is None or not following:
                    raise
                last = failed(Reason.ERROR, str(error))
            if last.is_answered or last.reason.is_final or not following:
                yield last
                return
            yield stepping(last, following)

    return method


def voted(method: Method, votes: int) -> Method:
    """Run a method several times at once, each with its own seed, and take the most frequent answer."""

    async def voting(inquiry: Inquiry) -> AsyncIterator[Event]:
        if inquiry.options.toolbox.has_effects:
            raise InputError("votes run programs several times: not with tools that have effects")
        runs = await _all_of([_collected(method, inquiry, seed) for seed in range(votes)])
        answers = [answer for run in runs if (answer := last_answer(run)) is not None]
        keys = [_key(answer) if answer.is_answered else None for answer in answers]
        counted = collections.Counter(key for key in keys if key is not None)
        winner = keys.index(counted.most_common(1)[0][0]) if counted else len(answers) - 1
        runs.append(runs.pop(winner))  # its program is the one that the answer comes from
        for *events, last in runs:
            for event in events:
                yield event
            yield stepping(last, "vote") if isinstance(last, Answer) else last
        yield msgspec.structs.replace(answers[winner], votes=dict(counted))

    return voting


async def _all_of(runs: list[Coroutine[Any, Any, tuple[list[Event], LMError | None]]]) -> list[list[Event]]:
    """Run all at once. Raises the last error where all failed."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        done = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for _, error in done if error is not None]
    if len(errors) == len(done):
        raise errors[-1]
    return [events for events, _ in done]


async def _collected(method: Method, inquiry: Inquiry, seed: int) -> tuple[list[Event], LMError | None]:
    """Return the events of one vote, and the error of a model that failed: it casts none."""
    own = dataclasses.replace(inquiry, lm=Seeded(inquiry.lm, _VOTING_TEMPERATURE, seed))
    events: list[Event] = []
    try:
        async for event in method(own):
            events.append(event)  # noqa: PERF401 - what came before a failure counts
    except BudgetError as error:
        events.append(failed(error.reason, str(error)))
    except LMError as error:
        return [*events, failed(Reason.ERROR, str(error))], error
    return events, None


def _key(answer: Answer) -> str:
    """Return the same text for equal answers: 2.0 is 2, and case does not matter."""
    match answer.value:
        case float() as number if number.is_integer():
            return str(int(number))
        case str() | int() as value:
            return str(value).strip().casefold()
    return answer.text


class Seeded(Around):
    """A model with a temperature and a seed for requests that name none. One request at a time: votes run together."""

    def __init__(self, lm: LM, temperature: float, seed: int) -> None:
        super().__init__(lm)
        self.in_flight = self.rows = 1
        self._options = {"temperature": temperature, "seed": seed}

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **{**self._options, **options})
