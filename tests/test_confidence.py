"""Confidence of emulated values: from the log probabilities of tokens, or from several replies."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judging import START, Certain, Judge, openai_logprobs, reply

from chainofcode import run
from chainofcode.audit import Changes, replay, verify, verify_data
from chainofcode.cli.terminal import result_data
from chainofcode.emulator.confidence import distribution, sampled, score_bounds
from chainofcode.emulator.pause import Pause
from chainofcode.emulator.types import NUMBER
from chainofcode.lm import LM, Completion, Message, Token
from chainofcode.lm.chat_reply import MAX_ALTERNATIVES, ChatReply
from chainofcode.lm.wrappers import Cached
from chainofcode.program import Program
from chainofcode.reasons import Reason
from chainofcode.render import Page, how_sure, otherwise, what
from chainofcode.trace import Answer, Confidence, Step, Trace


def test_booleans_have_the_probability_of_their_word() -> None:
    completion = reply(*START, (" true", {" true": 0.6, " false": 0.2, " maybe": 0.2}), ("}", {}))
    assert distribution(completion, "value", ["true", "false"]) == pytest.approx({"true": 0.75, "false": 0.25})


def test_spaces_before_a_value_make_no_difference() -> None:
    completion = reply(*START, (" true", {" true": 0.5, "true": 0.1, "false": 0.2, " false": 0.2}), ("}", {}))
    assert distribution(completion, "value", ["true", "false"]) == pytest.approx({"true": 0.6, "false": 0.4})


def test_labels_with_a_common_prefix_are_distinguished() -> None:
    labels = [json.dumps(label) for label in ("positive", "possible", "negative")]
    completion = reply(
        *START,
        (' "', {}),
        ("pos", {"pos": 0.8, "neg": 0.2}),
        ("itive", {"itive": 0.75, "sible": 0.25}),
        ('"', {}),
    )
    expected = {'"positive"': 0.6, '"possible"': 0.2, '"negative"': 0.2}
    assert distribution(completion, "value", labels) == pytest.approx(expected)


def test_one_and_ten_are_different_numbers() -> None:
    completion = reply(*START, (" ", {}), ("1", {"1": 0.5, "7": 0.5}), ("0", {"0": 0.6, "}": 0.4}), ("}", {}))
    numbers = [str(number) for number in range(11)]
    assert distribution(completion, "value", numbers) == pytest.approx({"1": 0.2, "10": 0.3, "7": 0.5})


def test_the_confidence_of_a_judgement_is_in_the_trace() -> None:
    lm = Certain((" true", {" true": 0.6, " false": 0.4}))
    result = run("answer = 1 if is_funny('a joke') else 0", lm)
    (step,) = [step for step in result.trace.steps if step.by == "lm"]
    assert step.confidence is not None
    assert step.confidence.probability == pytest.approx(0.6)
    assert step.confidence.alternatives == {"False": 0.4}
    assert result.judgements == [step]
    assert result.confidence == pytest.approx(0.6)


def test_a_huge_program_is_not_searched_for_comparisons() -> None:
    """Python's parser would hold up the event loop for minutes."""
    source = "answer = funniness_from_0_to_10('a')\n"
    pauses = [
        Pause("call", "", "funniness_from_0_to_10", (), {}, (), 1, None, Program(source + "x\n" * lines), None)
        for lines in (1, 100_000)
    ]
    assert [score_bounds(pause, NUMBER) for pause in pauses] == [range(11), None]


def test_score_for_ranking_is_the_expected_value() -> None:
    lm = Certain((" ", {}), ("2", {"2": 0.5, "4": 0.5}))
    program = "scores = {'a': funniness_from_0_to_10('a') + 1}\nanswer = scores['a']"
    result = run(program, lm)
    assert result.answer == pytest.approx(4.0)
    (score,) = result.judgements
    assert score.confidence == Confidence(0.5, {"4": 0.5, "2": 0.5}, spread=1.0)
    assert result.confidence is None  # scores do not count


def test_score_compared_with_a_number_is_the_reply_of_the_model() -> None:
    lm = Certain((" ", {}), ("4", {"4": 0.9, "1": 0.1}))
    assert run("stars = rating_from_1_to_5('fine')\nanswer = stars >= 4", lm).answer is True
    assert run("answer = [rating_from_1_to_5('fine') >= 4]", lm).answer == [True]


def test_number_that_is_not_a_score_is_the_reply_of_the_model() -> None:
    lm = Certain((" ", {}), ("2", {"2": 0.5, "4": 0.5}))
    assert run("answer = wheels_of('bicycle') + 0", lm).answer == 2


def test_replies_without_tokens_have_no_confidence() -> None:
    assert distribution(Completion('{"value": true}'), "value", ["true", "false"]) == {}


def test_confidence_of_answer_is_that_of_its_least_sure_judgement() -> None:
    lm = Judge({"is_big('ant')": 0.1, "is_big('bee')": 0.3, "is_big('cow')": 0.8})
    result = run("big = [n for n in ['ant', 'bee', 'cow', 'bee'] if is_big(n)]\nanswer = len(big)", lm)
    confidences = [
        (step.call, step.value, step.confidence and step.confidence.probability) for step in result.judgements
    ]
    assert confidences == [("is_big('ant')", False, 0.9), ("is_big('bee')", False, 0.7), ("is_big('cow')", True, 0.8)]
    assert result.confidence == pytest.approx(0.7)


def test_values_that_the_model_did_not_judge_have_no_confidence() -> None:
    result = run("answer = is_big('ant')", {"is_big('ant')": True})
    assert (result.confidence, result.judgements) == (None, [])


def test_a_stated_answer_has_its_own_confidence() -> None:
    judged = Step(1, "lm", 0, 1, call="f()", value=True, confidence=Confidence(0.6))
    stated = Answer(Reason.ANSWERED, "yes", "'yes'", "reply", confidence=0.8)
    failed = Answer(Reason.ERROR)
    assert Trace(events=[Program("f()"), judged, stated]).confidence == 0.8
    assert Trace(events=[Program("f()"), judged, failed]).confidence is None


def test_tokens_that_end_before_the_value_give_no_confidence() -> None:
    cut = Completion('{"value": true}', tokens=reply(*START).tokens[:2])
    assert distribution(cut, "value", ["true", "false"]) == {}


# --- unusual replies ----------------------------------------------------------------------------------------------


class Fixed(LM):
    """A model that always sends the same reply."""

    name, has_logprobs = "fixed", True

    def __init__(self, text: str, *tokens: Token) -> None:
        self._reply = Completion(text, tokens=tokens)

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return [self._reply]


def judged(lm: LM, program: str = "answer = [is_big('cow')]") -> tuple[Any, Confidence | None]:
    """The value of the only call of a program, and its confidence."""
    (step,) = [step for step in run(program, lm).trace.steps if step.by == "lm"]
    return step.value, step.confidence


TRUE = '{"value": true}'


@pytest.mark.parametrize("logprob", [1000.0, math.inf, 1e-6])
def test_positive_log_probabilities_give_valid_confidence(logprob: float) -> None:
    lm = Fixed(TRUE, Token('{"value": '), Token("true", {"true": -0.1, "false": logprob}), Token("}"))
    value, confidence = judged(lm)
    assert value is True
    assert confidence is not None and 0 < confidence.probability <= 1


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_a_value_without_a_log_probability_has_no_confidence(logprob: float) -> None:
    lm = Fixed(TRUE, Token('{"value": '), Token("true", {"true": logprob, "false": -1.0}), Token("}"))
    assert judged(lm) == (True, None)


def test_infinite_log_probabilities_do_not_damage_the_cache(tmp_path: Path) -> None:
    lm = Cached(Fixed(TRUE, Token("true", {"true": -0.1, "false": -math.inf})), tmp_path / "replies.sqlite")
    (first,) = asyncio.run(lm.complete([Message("user", "?")]))
    (again,) = asyncio.run(lm.complete([Message("user", "?")]))
    lm.close()
    assert (again.tokens, again.usage.requests) == (first.tokens, 0)
    assert not list(tmp_path.glob("*.damaged*"))


def test_tokens_outside_the_reply_do_not_affect_confidence() -> None:
    """Some endpoints also list tokens of the model's reasoning, and a token may contain half a character."""
    thoughts = Token('It is small: "value": false. So \ufffd\ufffd', {})
    word = Token("true", {"true": math.log(0.7), "false": math.log(0.3)})
    _, confidence = judged(Fixed(TRUE, thoughts, Token(TRUE[:10]), word, Token("}")))
    assert confidence == Confidence(0.7, {"False": 0.3})


def test_last_of_duplicate_keys_counts() -> None:
    first = Token("true", {"true": math.log(0.9), "false": math.log(0.1)})
    last = Token("false", {"false": math.log(0.8), "true": math.log(0.2)})
    lm = Fixed('{"value": true, "value": false}', Token('{"value": '), first, Token(', "value": '), last, Token("}"))
    assert judged(lm) == (False, Confidence(0.8, {"True": 0.2}))


def test_label_in_another_case_has_no_confidence() -> None:
    """Its tokens spell `Good`; the log probabilities know `good` only as an alternative."""
    lm = Certain((' "', {}), ("Good", {"Good": 0.9, "bad": 0.08, "good": 0.02}), ('"', {}))
    assert judged(lm, "answer = [1 if mood_of('fine') == 'good' else 2 if mood_of('fine') == 'bad' else 3]") == (
        "good",
        None,
    )


def test_alternatives_to_the_end_of_the_key_are_not_values() -> None:
    completion = reply(('{"value', {}), ('":"', {'":"': 0.6, '"': 0.4}), ("yes", {"yes": 0.9, "no": 0.1}), ('"}', {}))
    assert distribution(completion, "value", ['"yes"', '"no"']) == pytest.approx({'"yes"': 0.9, '"no"': 0.1})


def test_replies_with_malformed_log_probabilities_are_kept() -> None:
    good = openai_logprobs(reply(("true", {"true": 0.9})))
    lists: list[Any] = [
        {"content": [{"token": 1}]},
        {"content": "x"},
        [],
        7,
        {"tokens": ["a"]},
        {"content": None},
        None,
    ]
    for logprobs in lists:
        body = msgspec.json.encode({"choices": [{"message": {"content": TRUE}, "logprobs": logprobs}]})
        (choice,) = msgspec.json.decode(body, type=ChatReply).choices
        assert (choice.message.content, choice.tokens) == (TRUE, ())
    good["content"][0]["top_logprobs"] = [{"token": str(n), "logprob": -n} for n in range(1000)]
    (choice,) = msgspec.convert({"choices": [{"message": {}, "logprobs": good}]}, ChatReply).choices
    assert len(choice.tokens[0].alternatives) == MAX_ALTERNATIVES + 1
    good["content"][0]["top_logprobs"] = None
    (choice,) = msgspec.convert({"choices": [{"message": {}, "logprobs": good}]}, ChatReply).choices
    assert list(choice.tokens[0].alternatives) == ["true"]


SCORED = "def risk_from_0_to_{most}(text) -> {type}: ...\nanswer = max([risk_from_0_to_{most}('x')])"


def test_a_score_as_a_float_has_the_probability_of_its_digit() -> None:
    lm = Certain((" ", {}), ("7", {"7": 0.8, "5": 0.2}))
    value, confidence = judged(lm, SCORED.format(most=10, type="float"))
    assert value == pytest.approx(6.6)
    assert confidence == Confidence(0.8, {"7": 0.8, "5": 0.2}, spread=0.8)


def test_number_outside_the_scores_is_the_reply_of_the_model() -> None:
    lm = Certain((" ", {}), ("0", {"0": 0.9, "1": 0.1}), (".", {}), ("8", {}))
    assert judged(lm, SCORED.format(most=1, type="float")) == (0.8, None)
    assert judged(Certain((" 40", {" 40": 0.9, " 4": 0.1})), SCORED.format(most=10, type="float")) == (40.0, None)


def test_a_score_of_another_type_keeps_its_type() -> None:
    program = f"from decimal import Decimal\n{SCORED.format(most=10, type='Decimal')} + Decimal(1)"
    assert run(program, Certain((" ", {}), ("7", {"7": 0.8, "5": 0.2}))).answer == Decimal(8)


def test_equal_values_of_several_replies_count_together() -> None:
    assert sampled([2, 1, 1.0]) == (1, Confidence(0.667, {"2": 0.333}, samples=3))
    value, confidence = sampled(["1", 1, 1])
    assert value == 1 and confidence is not None


# --- which judgement an answer depends on ---------------------------------------------------------------------------

COUNT = "big = 0\nfor name in ['ant', 'bee', 'cow']:\n    if is_big(name):\n        big += 1\nanswer = big"
TRUTHS = {"is_big('ant')": 0.02, "is_big('bee')": 0.45, "is_big('cow')": 0.61}


def test_answer_depends_most_on_its_least_sure_decisive_value() -> None:
    found = verify(run(COUNT, Judge(TRUTHS)).trace)
    text = "The answer depends most on is_big('bee') → False (line 3, 55% sure): with True it would be 2."
    assert found.hangs_on_text == text
    assert [flip.step.call for flip in found.flips] == ["is_big('bee')", "is_big('cow')", "is_big('ant')"]
    data = verify_data(found)["hangs_on"]
    assert data["text"] == text
    assert (data["call"], data["value"], data["instead"], data["answer"]) == ("is_big('bee')", False, True, "2")
    assert data["confidence"] == {"probability": 0.55, "alternatives": {"True": 0.45}}


def test_answer_does_not_depend_on_values_without_effect() -> None:
    program = "a = is_big('bee')\nb = is_big('cow')\nanswer = [a and b, b][0] or len('x')"
    found = verify(run(program, Judge({"is_big('bee')": 0.45, "is_big('cow')": 0.8})).trace)
    assert [(flip.step.call, flip.outcome) for flip in found.flips] == [
        ("is_big('bee')", "changes"),
        ("is_big('cow')", "keeps"),
    ]
    assert found.hangs_on_text == (
        "The answer depends on is_big('bee') → False (line 1, 55% sure): with True it would be True."
    )


def test_least_sure_values_are_tried_first() -> None:
    found = verify(run(COUNT, Judge(TRUTHS)).trace, flips=1)
    assert (len(found.flips), found.untried) == (1, 2)
    assert found.hangs_on is not None and found.hangs_on.step.call == "is_big('bee')"


def test_label_is_replaced_by_its_likeliest_alternative() -> None:
    program = "mood = mood_of('fine')\nanswer = 1 * (mood == 'good') + 2 * (mood == 'bad') + 3 * (mood == 'mixed')"
    lm = Certain((' "', {}), ("good", {"good": 0.5, "mixed": 0.4, "bad": 0.1}), ('"', {}))
    text = verify(run(program, lm).trace).hangs_on_text
    assert text == "The answer depends on mood_of('fine') → 'good' (line 1, 50% sure): with 'mixed' it would be 3."


def test_without_log_probabilities_no_confidence_is_shown() -> None:
    values = {"is_big('ant')": False, "is_big('bee')": False, "is_big('cow')": True}
    text = verify(run(COUNT, values).trace).hangs_on_text
    assert text == "The answer depends on is_big('ant') → False (line 3) and 2 other values: with True it would be 2."
    assert verify(run("answer = sum(range(5))").trace).hangs_on_text == ""


def test_flip_that_leaves_no_answer_is_reported() -> None:
    program = "if is_big('cow'):\n    answer = 6 * 7\nelse:\n    raise ValueError('too small')"
    text = verify(run(program, Judge(TRUTHS)).trace).hangs_on_text
    assert text.endswith("(line 1, 61% sure): with False there would be no answer.")


def test_replay_keeps_confidences() -> None:
    trace = run(COUNT, Judge(TRUTHS)).trace
    again = replay(trace).result.judgements
    assert [(step.call, step.confidence) for step in again] == [
        (step.call, step.confidence) for step in trace.judgements
    ]
    changed = replay(trace, changes=Changes(calls={"is_big('bee')": True})).result
    assert [step.call for step in changed.judgements] == [
        "is_big('ant')",
        "is_big('cow')",
    ]  # the changed value is not a judgement


# --- in words -----------------------------------------------------------------------------------------------------


def test_confidence_is_rounded_in_words() -> None:
    assert how_sure(Confidence(0.73)) == "73% sure"
    assert how_sure(Confidence(0.997)) == ">99% sure"
    assert how_sure(Confidence(1.0)) == "100% sure"
    assert how_sure(Confidence(0.004)) == "<1% sure"
    assert how_sure(Confidence(0.3, spread=1.24)) == "± 1.2"
    assert how_sure(Confidence(0.6, samples=5)) == "60% of 5 replies"
    assert otherwise(Confidence(0.7, {"False": 0.298, "None": 0.002})) == "False 30%, None <1%"


def test_stated_answer_is_shown_with_its_confidence() -> None:
    stated = Answer(Reason.ANSWERED, "yes", "'yes'", "reply", confidence=0.8)
    assert list(Page().answer(stated)) == ["answer: 'yes'   (the model states it, 80% sure)"]


def test_json_has_the_confidence_of_the_answer_and_of_each_judgement() -> None:
    data = result_data(run(COUNT, Judge(TRUTHS)))
    assert data["confidence"] == 0.55
    assert data["judgements"][1] == {
        "step": 6,
        "line": 3,
        "call": "is_big('bee')",
        "value": False,
        "confidence": {"probability": 0.55, "alternatives": {"True": 0.45}},
    }
    assert not {"confidence", "judgements"} & result_data(run("answer = 1")).keys()


@pytest.mark.parametrize("width", [20, 48, 60, 100, 200])
@pytest.mark.parametrize("text", ["fig", "fig " * 30])
def test_note_of_a_value_is_never_cut(width: int, text: str) -> None:
    """A reader needs the confidence more than the end of a long value."""
    sure = Confidence(0.734)
    step = Step(1, "lm", 0, 1, 1, call=f"review_of({text!r})", value=text, how="batched", confidence=sure)
    note = "  (batched, 73% sure)"
    shown = what(step, width)
    assert shown.endswith(note) and " → " in shown
    assert len(shown) <= max(width, len(note) + 20)
    program = Program.parse(f"answer = review_of({text!r}) + review_of({text!r})")
    assert [line for line in Page(width).steps(program, [step]) if line.endswith(note)]
