"""Around any method: what its answer must be, a ladder of them, votes.

What they do is in the events; none of them ends in silence.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import BudgetError, InputError, LMError
from ..lm import LM, Around, Completion, Message
from ..program import Program
from ..reasons import Reason
from ..trace import Answer, Call, Event
from .answers import fitted, is_misfit
from .prompting import Asked, Method, failed, last_answer, prompt, stepping

_VOTING_TEMPERATURE = 0.7


def typed(method: Method) -> Method:
    """The method, whose answer is what it must be; one that is not is asked for once more, in words."""

    async def typing(asked: Asked) -> AsyncIterator[Event]:
        said = ""
        async for event in method(asked):
            said = event.reply if isinstance(event, Call) else said
            if not isinstance(event, Answer) or event.then:
                yield event
                continue
            answer = await fitted(event, asked.answer_type)
            if answer.error is not None and is_misfit(answer) and not event.type:
                yield stepping(answer, "repair")
                call = await asked.complete(prompt("restate"), asked.text, said or event.text, answer.error.message)
                yield call
                again = await fitted(asked.stated(call.reply), asked.answer_type)
                left = {"artifacts": event.artifacts, "unsent": event.unsent}
                answer = msgspec.structs.replace(again, **left) if again.type else answer
            yield answer

    return typing


def ladder(rungs: Mapping[str, Method]) -> Method:
    """The first method and, where it brings no answer, the next: each reason stays in the trace.

    The program that was written goes along. A budget that is spent ends it; so does a model that never answered.
    """

    async def method(asked: Asked) -> AsyncIterator[Event]:
        names, asked = list(rungs), asked.remembering()
        has_answered, written = False, None  # whether the model did, at all; its last reply
        for number, name in enumerate(names):
            following = names[number + 1] if number + 1 < len(names) else ""
            last = failed(Reason.ERROR, f"{name} ended without an answer")
            try:
                async for event in rungs[name](asked):
                    has_answered = has_answered or isinstance(event, Call)
                    if isinstance(event, Program) and written is not None:
                        asked = dataclasses.replace(asked, written=written)
                    written = event if isinstance(event, Call) else written
                    if isinstance(event, Answer) and not event.then:
                        last = event
                    else:
                        yield event
            except BudgetError as error:
                last = failed(error.reason, str(error))
            except LMError as error:
                if not has_answered or not following:
                    raise
                last = failed(Reason.ERROR, str(error))
            if last.is_answered or last.reason.is_final or not following:
                yield last
                return
            yield stepping(last, following)

    return method


def voted(method: Method, votes: int) -> Method:
    """The method several times, at the same time, each with its own dice; the answer that most of them give."""

    async def voting(asked: Asked) -> AsyncIterator[Event]:
        if asked.options.toolbox.has_effects:
            raise InputError("votes run programs several times: not with tools that have effects")
        runs = await _all_of([_collected(method, asked, seed) for seed in range(votes)])
        answers = [answer for run in runs if (answer := last_answer(run)) is not None]
        counted = collections.Counter(_key(answer) for answer in answers if answer.is_answered)
        best = counted.most_common(1)[0][0] if counted else ""
        is_best = [bool(counted) and _key(answer) == best and answer.is_answered for answer in answers]
        winner = is_best.index(True) if counted else len(answers) - 1
        runs.append(runs.pop(winner))  # its program is the one that the answer comes from
        for run in runs:
            for event in run:
                is_last = event is run[-1] and isinstance(event, Answer)
                yield stepping(event, "vote") if is_last and isinstance(event, Answer) else event
        yield msgspec.structs.replace(answers[winner], votes=dict(counted))

    return voting


async def _all_of(runs: list[Coroutine[Any, Any, tuple[list[Event], LMError | None]]]) -> list[list[Event]]:
    """All at the same time; when one of them fails for good, none goes on."""
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


async def _collected(method: Method, asked: Asked, seed: int) -> tuple[list[Event], LMError | None]:
    """One vote. A model that fails casts none."""
    own = dataclasses.replace(asked, lm=Seeded(asked.lm, _VOTING_TEMPERATURE, seed))
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
    """Answers that are the same are written the same: 2.0 as 2, text without regard to case."""
    if isinstance(answer.value, float) and answer.value.is_integer():
        return str(int(answer.value))
    return str(answer.value).strip().casefold() if isinstance(answer.value, (str, int)) else answer.text


class Seeded(Around):
    """A model with a temperature and a seed for requests that name none. One request at a time: votes run together."""

    def __init__(self, lm: LM, temperature: float, seed: int) -> None:
        super().__init__(lm)
        self.in_flight = self.rows = 1
        self._options = {"temperature": temperature, "seed": seed}

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **{**self._options, **options})
