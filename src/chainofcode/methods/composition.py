"""Wrappers of methods: an answer type, a ladder of fallbacks, votes. Everything they do is in the events."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..emulator.common_values import SharedValues
from ..engine.closing import close_after
from ..errors import BudgetError, InputError, LMError
from ..lm import LM, Around, Completion, Message
from ..lm.deadline import Deadline, shared_clock
from ..program import Program
from ..reasons import Reason
from ..sandbox import Sandbox
from ..trace import Answer, Call, Event, Step, Trace, least_sure
from ..values.codec import decode
from .answers import fitted, is_misfit
from .multiple_choice import chosen, options_in
from .prompting import Inquiry, Method, failed, last_answer, prompt, repeated, stepping

_VOTING_TEMPERATURE = 0.7
_UNKNOWN_CONFIDENCE = 0.5
_DOUBTED_WEIGHT = 0.5
_MIN_LABELS = 3  # from this many labels on, an answer counts as computed


def typed(method: Method) -> Method:
    """Check the answer of a method against the answer type; if it does not fit, ask once more, in words."""

    async def checked(inquiry: Inquiry) -> AsyncIterator[Event]:
        reply = ""
        async with close_after(method(inquiry)) as events:
            async for event in events:
                if isinstance(event, Call) and not event.tool:
                    reply = event.reply
                if not isinstance(event, Answer) or event.then:
                    yield event
                    continue
                answer = await fitted(event, inquiry.answer_type)
                if answer.error is not None and is_misfit(answer) and not event.type:
                    yield stepping(answer, "repair")
                    call = await inquiry.complete(
                        prompt("restate"), inquiry.text, reply or event.text, answer.error.message
                    )
                    yield call
                    again = await fitted(inquiry.stated(call.reply), inquiry.answer_type)
                    left = {"artifacts": event.artifacts, "unsent": event.unsent}
                    answer = msgspec.structs.replace(again, **left) if again.type else answer
                yield answer

    return checked


def ladder(rungs: Mapping[str, Method]) -> Method:
    """Try methods in turn until one answers; the trace records why the others failed.

    A program that one method wrote is passed on to the next. After a method that took too long, only the last one is
    tried, which is the quickest. A spent budget ends the ladder, and so does a model that has never replied.
    """

    async def method(inquiry: Inquiry) -> AsyncIterator[Event]:
        inquiry = inquiry.remembering()
        last_call: Call | None = None
        left = list(rungs)
        while left:
            name, *left = left
            last = failed(Reason.ERROR, f"{name} ended without an answer")
            try:
                async with close_after(rungs[name](inquiry)) as events:
                    async for event in events:
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
                if last_call is None or not left:
                    raise
                last = failed(Reason.ERROR, str(error))
            if last.is_answered or last.reason.is_final or not left:
                yield last
                return
            left = left[-1:] if last.reason is Reason.METHOD_LIMIT else left
            yield stepping(last, left[0])

    return method


def timed(name: str, method: Method, seconds: float) -> Method:
    """End a method after this time. What it did until then stays in the trace."""

    async def checked(inquiry: Inquiry) -> AsyncIterator[Event]:
        deadline = Deadline(seconds)
        async with close_after(method(inquiry)) as events:
            while True:
                try:
                    event = await deadline.limit(anext(events, None))
                except (TimeoutError, asyncio.CancelledError):
                    task = asyncio.current_task()
                    if not deadline.has_passed or (task is not None and task.cancelling()):
                        raise
                    event = None
                if event is None and deadline.has_passed:
                    yield failed(Reason.METHOD_LIMIT, f"{name} took over {seconds:g} seconds")
                if event is None:
                    return
                yield event  # after the deadline: the cancelled method still reports its requests

    return checked


def skipped_with_files(name: str, method: Method) -> Method:
    """Skip a method in which the model runs the program, if the program reads files: the model does not see them."""

    async def checked(inquiry: Inquiry) -> AsyncIterator[Event]:
        if inquiry.options.prelude:
            yield failed(Reason.ERROR, f"{name} was skipped: the model cannot read the input files")
            return
        async with close_after(method(inquiry)) as events:
            async for event in events:
                yield event

    return checked


def judged(first: Method, others: Mapping[str, Method]) -> Method:
    """Put a choice that rests on the model's judgement to a vote with other methods.

    An answer stands if it is not a choice between options, or if Python computed it: alone, or from several labels,
    which are easier than an answer. Otherwise each method has a vote; in a tie, the more confident side wins.
    The other methods see only the question, so there is no vote if the program has files, inputs or tools.
    """

    async def method(inquiry: Inquiry) -> AsyncIterator[Event]:
        inquiry = inquiry.remembering()
        seen: list[Event] = []
        async with close_after(first(inquiry)) as events:
            async for event in events:
                seen.append(event)
                if not isinstance(event, Answer) or event.then:
                    yield event
        own = last_answer(seen) or failed(Reason.ERROR, "the method ended without an answer")
        is_computed = own.is_answered and own.source != "reply" and _is_computed(seen)
        if own.reason.is_final or is_computed or not inquiry.is_in_words or not _is_choice(own, inquiry):
            yield own
            return
        yield stepping(own, "vote")
        found: list[list[Event]] = [[] for _ in others]
        try:
            votes = [_collected(*vote, inquiry) for vote in zip(found, others.values(), strict=True)]
            runs = await _all_of(votes, may_fail=own.is_answered)
        except asyncio.CancelledError:
            for call in _calls(found):
                yield call
            raise
        for run in runs:
            for event in run:
                yield stepping(event, "vote") if isinstance(event, Answer) else event
        answers = [own, *(answer for run in runs if (answer := last_answer(run)) is not None)]
        sure = functools.reduce(least_sure, _values(seen), None)
        weights = [_weight(sure), *(_weight(answer.confidence) for answer in answers[1:])]
        winner, counted = _count(answers, weights, inquiry)
        yield repeated(answers[winner], votes=counted)

    return method


def _is_choice(answer: Answer, inquiry: Inquiry) -> bool:
    """Whether the question offers options, or the answer is yes or no."""
    return bool(options_in(inquiry.question)) or _key(answer) in ("yes", "no", "true", "false")


def _values(events: Sequence[Event]) -> list[Step]:
    """Return the values from the model in the last attempt, one per call."""
    last = Trace.of(events).attempts[-1]
    return list({step.call: step for step in last if isinstance(step, Step) and step.by == "lm"}.values())


def _is_computed(events: Sequence[Event]) -> bool:
    values = _values(events)
    are_labels = all(isinstance(step.value, (bool, str)) for step in values)
    return not values or (are_labels and len(values) >= _MIN_LABELS)


def _weight(confidence: float | None) -> float:
    """Return the weight of a vote. Confidence only breaks ties."""
    return 1 + (_UNKNOWN_CONFIDENCE if confidence is None else confidence) / 10


def _count(answers: Sequence[Answer], weights: Sequence[float], inquiry: Inquiry) -> tuple[int, dict[str, int]]:
    """Return the index of the answer with the most weight (0 without any answer), and all votes."""
    options = options_in(inquiry.question)
    keys: dict[int, str] = {}
    for place, answer in enumerate(answers):
        if answer.is_answered:
            keys[place] = (options and chosen(decode(answer.value), options)) or _key(answer)
    sums: dict[str, float] = collections.defaultdict(float)
    for place, key in keys.items():
        sums[key] += weights[place]
    first = {key: place for place, key in reversed(keys.items())}
    winner = first[max(sums, key=sums.__getitem__)] if sums else 0
    return winner, dict(collections.Counter(keys.values()))


Doubts = Callable[[Trace, Sandbox | str], Awaitable[Sequence[str]]]  # reasons not to trust the answer of a trace


def voted(method: Method, votes: int, doubts: Doubts | None = None) -> Method:
    """Run a method several times at once, each with its own seed, and take the most frequent answer.

    The programs share values from the model, unless sharing is turned off. An answer with doubts has half a vote.
    """

    async def voting(inquiry: Inquiry) -> AsyncIterator[Event]:
        if inquiry.options.toolbox.has_effects:
            raise InputError("votes run programs several times, which is not possible with tools that have effects")
        if inquiry.options.share:
            inquiry = dataclasses.replace(inquiry, shared=SharedValues(inquiry.emulator, votes))
        found: list[list[Event]] = [[] for _ in range(votes)]
        collecting = [_collected(run, method, _seeded(inquiry, seed)) for seed, run in enumerate(found)]
        try:
            with shared_clock():
                runs = await _all_of(collecting)
        except asyncio.CancelledError:
            for call in _calls(found):
                yield call
            raise
        if doubts is not None:
            runs = await asyncio.gather(*(_doubted(run, doubts, inquiry) for run in runs))
        answers = [last_answer(run) or failed(Reason.ERROR, "a vote ended without an answer") for run in runs]
        weights = [_DOUBTED_WEIGHT if answer.doubts else 1.0 for answer in answers]
        winner, counted = _count(answers, weights, inquiry)
        runs.append(runs.pop(winner))  # last, because the answer belongs to the last program of a trace
        for *events, last in runs:
            for event in events:
                yield event
            yield stepping(last, "vote") if isinstance(last, Answer) else last
        yield repeated(answers[winner], votes=counted)

    return voting


async def _doubted(run: list[Event], doubts: Doubts, inquiry: Inquiry) -> list[Event]:
    """Return the events of a vote, with the doubts about its answer."""
    answer = run[-1]
    if not isinstance(answer, Answer) or not answer.is_answered:
        return run
    found = await doubts(Trace.of([inquiry.options.header(), *run]), inquiry.sandbox)
    return [*run[:-1], msgspec.structs.replace(answer, doubts=tuple(found))]


async def _all_of(
    runs: list[Coroutine[Any, Any, tuple[list[Event], LMError | None]]], *, may_fail: bool = False
) -> list[list[Event]]:
    """Run all at once. Raises the last error if all failed, unless `may_fail`."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        done = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for _, error in done if error is not None]
    if len(errors) == len(done) and not may_fail:
        raise errors[-1]
    return [events for events, _ in done]


def _seeded(inquiry: Inquiry, seed: int) -> Inquiry:
    emulating = inquiry.emulating
    if isinstance(emulating, LM):
        emulating = Seeded(emulating, _VOTING_TEMPERATURE, seed)
    return dataclasses.replace(inquiry, lm=Seeded(inquiry.lm, _VOTING_TEMPERATURE, seed), emulating=emulating)


async def _collected(events: list[Event], method: Method, inquiry: Inquiry) -> tuple[list[Event], LMError | None]:
    """Append the events of one vote. Return them, and the error if the model failed: then there is no vote."""
    try:
        async with close_after(method(inquiry)) as made:
            async for event in made:
                events.append(event)  # noqa: PERF401 - events before a failure count
    except BudgetError as error:
        events.append(failed(error.reason, str(error)))
    except LMError as error:
        return [*events, failed(Reason.ERROR, str(error))], error
    return events, None


def _calls(runs: Iterable[Sequence[Event]]) -> list[Call]:
    """Return the requests of cancelled votes: they may have cost something, so they belong in the trace."""
    return [event for run in runs for event in run if isinstance(event, Call)]


def _key(answer: Answer) -> str:
    """Return a string that is the same for equal answers: 2.0 is 2, and case does not matter."""
    match answer.value:
        case float() as number if number.is_integer():
            return str(int(number))
        case str() | int() as value:
            return str(value).strip().casefold()
    return answer.text


class Seeded(Around):
    """A model with a temperature and a seed for requests that set none. One request at a time: votes run together."""

    def __init__(self, lm: LM, temperature: float, seed: int) -> None:
        super().__init__(lm)
        self.in_flight = self.rows = 1
        self._options = {"temperature": temperature, "seed": seed}
        self.version = f"{lm.version} temperature {temperature} seed {seed}"

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **{**self._options, **options})
