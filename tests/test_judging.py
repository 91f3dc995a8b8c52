"""Better judgements: reasons before a value, values shared between programs, doubts about a vote."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from test_confidence import START, reply

from chainofcode import ScriptedLM, run, solve
from chainofcode.audit import doubts
from chainofcode.emulator import Judging, asking
from chainofcode.errors import BudgetError
from chainofcode.lm import LM, Completion, Message
from chainofcode.lm.scripted import When
from chainofcode.methods import compose
from chainofcode.sandbox import Limits

UNSURE = reply(*START, (" true", {" true": 0.6, " false": 0.4}), ("}", {}))
REASONS = ('{"reasons": "It is a plain fact.", "', {})
THOUGHT = reply(REASONS, ("value", {}), ('":', {}), (" false", {" false": 0.9, " true": 0.1}), ("}", {}))
PROGRAM = "answer = 1 if is_sarcastic('Great weather.') else 0"


class Thinking(LM):
    """A model that is unsure at first, and changes its value when it gives reasons."""

    name, has_logprobs = "thinking", True

    def __init__(self, first: Completion = UNSURE, second: Completion = THOUGHT, rows: int = 1) -> None:
        self._first, self._second, self.rows = first, second, rows
        self.requests: list[dict[str, Any]] = []

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.requests.append(options)
        return [self._second if "reasons" in options["schema"]["properties"] else self._first]


def step_of(lm: LM, program: str = PROGRAM, **judging: Any) -> tuple[Any, list[str]]:
    """The value that the model gave, as a step, and its replies."""
    result = run(program, asking(lm, Judging(**judging)))
    assert result.is_answered, result.error
    (step,) = [step for step in result.trace.steps if step.by == "lm"]
    return step, [call.reply for call in result.trace.calls]


def test_unsure_model_reconsiders_its_value_with_reasons() -> None:
    lm = Thinking()
    step, replies = step_of(lm, thinks=True)
    assert step.value is False
    assert replies == [UNSURE.text, THOUGHT.text]
    assert step.confidence.probability == pytest.approx(0.65)  # the mean of 0.4 before and 0.9 after
    assert step.confidence.alternatives == {"True": 0.35}
    assert lm.requests[1]["schema"]["required"] == ["reasons", "value"]  # the reasons come first


def test_a_sure_model_is_asked_once() -> None:
    sure = reply(*START, (" true", {" true": 0.9, " false": 0.1}), ("}", {}))
    lm = Thinking(sure)
    assert step_of(lm, thinks=True)[0].value is True
    assert len(lm.requests) == 1


def test_unsure_value_is_kept_without_think() -> None:
    lm = Thinking()
    assert step_of(lm)[0].value is True
    assert len(lm.requests) == 1


def test_first_value_is_kept_if_reconsidering_fails() -> None:
    lm = Thinking(second=Completion('{"reasons": "It is', finish_reason="length"))
    step, replies = step_of(lm, thinks=True)
    assert (step.value, len(replies)) == (True, 2)
    assert step.confidence.probability == pytest.approx(0.6)


def test_a_score_is_not_reconsidered() -> None:
    score = reply(*START, (" ", {}), ("2", {"2": 0.5, "4": 0.5}), ("}", {}))
    lm = Thinking(score)
    step_of(lm, "answer = [funniness_from_0_to_10('a') + 1]", thinks=True)
    assert len(lm.requests) == 1


def test_each_unsure_value_of_a_batch_is_reconsidered() -> None:
    tokens = [
        ('{"1":', {}),
        (" true", {" true": 0.6, " false": 0.4}),
        (', "2":', {}),
        (" true", {" true": 0.99}),
        ("}", {}),
    ]
    lm = Thinking(reply(*tokens), rows=4)
    result = run("answer = [is_odd(w) for w in ['a', 'b']]", asking(lm, Judging(thinks=True)))
    assert result.answer == [False, True]
    assert len(lm.requests) == 2
    assert len(result.trace.calls) == 2


def test_budget_spent_while_thinking_keeps_paid_calls_in_trace() -> None:
    class Poor(Thinking):
        async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
            if "reasons" in options["schema"]["properties"]:
                raise BudgetError("calls", "the budget is spent")
            return await super().complete(messages, **options)

    for rows in (1, 4):
        result = run(PROGRAM, asking(Poor(rows=rows), Judging(thinks=True)))
        assert not result.is_answered
        assert len(result.trace.calls) == 1, rows


class Slow(Thinking):
    """A model whose second reply never arrives."""

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        replies = await super().complete(messages, **options)
        if len(self.requests) > 1:
            await asyncio.Event().wait()
        return replies


MISFIT = Completion('{"value": "perhaps"}')
BATCH = reply(
    ('{"1":', {}), (" true", {" true": 0.99}), (', "2":', {}), (" true", {" true": 0.6, " false": 0.4}), ("}", {})
)


@pytest.mark.parametrize(
    ("lm", "program", "first"),
    [
        (Slow(), PROGRAM, UNSURE),  # cancelled while the model thinks
        (Slow(MISFIT), PROGRAM, MISFIT),  # cancelled during the retry after a reply that does not fit
        (Slow(BATCH, rows=4), "answer = [is_odd(w) for w in ['a', 'b']]", BATCH),
    ],
)
def test_cancelled_run_keeps_paid_calls_in_trace(lm: Slow, program: str, first: Completion) -> None:
    result = run(program, asking(lm, Judging(thinks=True)), limits=Limits(wall_seconds=1))
    assert result.reason == "limit:wall"
    calls = result.trace.calls
    assert sorted((call.reply, call.is_abandoned) for call in calls) == [("", True), (first.text, False)]


def test_programs_of_a_vote_share_values_of_equal_calls() -> None:
    values = [When(f"call: is_fruit({word!r})", reply, 0.05) for word, reply in (("fig", "true"), ("saw", "false"))]
    programs = (f"```python\nanswer = {start} + sum(is_fruit(w) for w in ['fig', 'saw'])\n```" for start in (0, 0, 10))
    result = solve("How many are fruit?", ScriptedLM(programs, whens=values), method=compose("coc", votes=3))
    assert (result.answer, result.trace.answer.votes) == (1, {"1": 2, "11": 1})  # type: ignore[union-attr]
    assert len(result.trace.calls) == 5  # three programs, two values


def two_votes(programs: Sequence[str], replies: Callable[[str], str], **options: Any) -> Any:
    """The result of two programs for one question; `replies` maps each request for a value to a reply."""
    written = iter(programs)

    def reply(messages: Sequence[Message]) -> str:
        last = messages[-1].content
        return replies(last) if "delta state:" in last else f"```python\n{next(written)}\n```"

    return solve("What?", ScriptedLM(reply), method=compose("coc", votes=2), **options)


def test_functions_with_different_declarations_share_no_values() -> None:
    programs = [f"def grade(x) -> int:\n    '{what}'\n    ...\nanswer = [grade('a'), 0]" for what in ("Joy.", "Fear.")]
    result = two_votes(programs, lambda last: "1" if "Joy." in last else "2")
    assert result.trace.answer.votes == {"[1, 0]": 1, "[2, 0]": 1}


def test_objects_that_look_alike_share_no_values() -> None:
    program = "class Item: pass\nanswer = [rank(Item()) + 0, rank(Item()) + 0]"
    numbers = itertools.count()
    result = two_votes([program] * 2, lambda last: str(next(numbers)))
    assert len(result.trace.calls) == 6  # two programs, four values


def test_score_used_for_ranking_is_not_shared_with_a_comparison() -> None:
    programs = [
        "answer = [rating_from_1_to_5('a') + 0]",
        "answer = ['good' if rating_from_1_to_5('a') >= 4 else 'bad']",
    ]
    score = reply(*START, (" ", {}), ("4", {"4": 0.5, "2": 0.5}), ("}", {}))

    class Rating(Thinking):
        async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
            if "schema" not in options:
                return [Completion(f"```python\n{programs.pop(0)}\n```")]
            return [score]

    result = solve("What?", Rating(), method=compose("coc", votes=2))
    assert result.trace.answer is not None
    assert result.trace.answer.votes == {"[3.0]": 1, "['good']": 1}


def test_no_share_applies_across_votes() -> None:
    numbers = itertools.count()
    result = two_votes(["answer = [rank('a') + 0]"] * 2, lambda last: str(next(numbers)), share=False)
    assert result.trace.answer.votes == {"[0]": 1, "[1]": 1}


def test_doubtful_vote_counts_half() -> None:
    question = "How many letters has the word abc?"
    written = ["answer = [7, 7][0]", "answer = len('abc')"]  # a constant; computed

    def votes(**more: Any) -> Any:
        programs = iter(f"```python\n{program}\n```" for program in written)
        return solve(question, ScriptedLM(programs), method=compose("coc", votes=2, **more))

    assert votes().answer == 7  # a tie: the first answer
    result = votes(doubts=doubts)
    assert result.answer == 3
    recorded = [event.doubts for event in result.trace.events if hasattr(event, "doubts") and event.doubts]
    assert "a constant" in recorded[0][0]
