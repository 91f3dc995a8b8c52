"""Flips: re-runs with other values, for each value that an answer rests on, and for all of them at once."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import InputError
from ...program import Program
from ...reasons import Reason
from ...sandbox import Sandbox
from ...trace import Step, Trace
from ..replay.changes import Changes
from ..replay.rerun import areplay
from .mutations import UNREADABLE, first_other, function_of, texts_in, value_of

_FAR = 10**6  # larger than most numbers that a program compares with
_TOO_LARGE = 10**300
_MAX_TEXTS = 8
_NO_ANSWER = "no answer: "
_LEAST_FLIPS, _SHORT_SECONDS = 4, 1.0  # flips of a short program, even on a slow machine
_AT_ONCE, _LONG_SECONDS = 2, 0.25  # longer runs go one by one: together they would slow each other down


Outcome = Literal["changes", "keeps", "unknown"]


@dataclass(frozen=True)
class Flip:
    """A changed value: whether the answer changes with it, stays, or is unknown.

    It is unknown if the program then makes a call without a recorded value.
    """

    step: Step
    value: Any
    outcome: Outcome
    answer: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether the program still answers with the other value."""
        return not self.answer.startswith(_NO_ANSWER)


def sureness(step: Step) -> tuple[float, float]:
    """Sort key: the least sure values first, then scores by their spread."""
    confidence = step.confidence
    if confidence is None:
        return 1.0, 0.0
    return (confidence.probability, 0.0) if confidence.spread is None else (1.0, -confidence.spread)


async def flips_of(
    trace: Trace, program: Program, values: Sequence[Step], sandbox: Sandbox, *, most: int, seconds: float
) -> tuple[list[Flip], int]:
    """Change values one at a time, at most `most` of them and for `seconds`. Returns the flips, and how many are left.

    Values that the model was least sure of come first.
    """
    wanted = sorted(_others(program, values), key=lambda pair: sureness(pair[0]))
    is_short = trace.answer is not None and trace.answer.seconds < _SHORT_SECONDS
    least = _LEAST_FLIPS if is_short else 1
    tried, spent, last = list[Flip](), 0.0, 0.0
    while wanted and len(tried) < most and (len(tried) < least or spent + last <= seconds):  # the next takes as long
        started = time.monotonic()
        turn = 1 if trace.answer is not None and trace.answer.seconds > _LONG_SECONDS else _AT_ONCE
        turn = min(turn, most - len(tried))
        now, wanted = wanted[:turn], wanted[turn:]
        outcomes = await asyncio.gather(*(_try(trace, [(step, other)], sandbox) for step, other in now))
        tried += [Flip(step, other, *outcome) for (step, other), outcome in zip(now, outcomes, strict=True)]
        last = time.monotonic() - started
        spent += last
    return tried, len(wanted)


async def are_moot(trace: Trace, program: Program, values: Sequence[Step], sandbox: Sandbox, *, seconds: float) -> bool:
    """Whether the answer stays the same when all values are changed at once, as far as time allows.

    False if that is unknown: if the program then makes a call without a recorded value.
    """
    ends = time.monotonic() + seconds
    for changes in joint_changes(program, values):
        if time.monotonic() > ends or (await _try(trace, changes, sandbox))[0] != "keeps":
            return False
    return True


async def _try(trace: Trace, others: Sequence[tuple[Step, Any]], sandbox: Sandbox) -> tuple[Outcome, str]:
    """Return the effect of other values on the answer, and the new answer."""
    steps = {step.number: other for step, other in others if step.delta}
    calls = {step.call or "": other for step, other in others if not step.delta}
    try:
        done = await areplay(trace, changes=Changes(steps=steps, calls=calls), sandbox=sandbox)
    except InputError:  # the text of a call cannot be parsed
        return "unknown", ""
    now = done.trace.answer
    if now is None or now.reason is Reason.EMULATION_FAILED:
        return "unknown", ""
    if not now.is_answered:
        return "changes", f"{_NO_ANSWER}{now.reason}"
    recorded = trace.answer.said or trace.answer.text if trace.answer is not None else ""
    return "keeps" if now.text == recorded else "changes", now.text


def joint_changes(program: Program, values: Sequence[Step]) -> Iterator[list[tuple[Step, Any]]]:
    """Yield changes of all values at once: each to another value, all to an extreme or the middle, all to equal values,
    all mirrored, and all to a string that the program contains.
    """
    each = {step.call: other for step, other in _others(program, values)}
    known = {step.call: (step, value_of(step)) for step in values if step.call in each}
    first = {function_of(step): value for step, value in reversed(known.values())}
    numbers = [value for _, value in known.values() if _is_number(value)]
    turn = max(numbers) + min(numbers) if numbers else 0
    texts = [text for text in texts_in(program.source) if text][:_MAX_TEXTS]  # it may compare values with them
    ways: list[Callable[[Step, Any], Any]] = [
        lambda step, value: each[step.call],
        *(lambda step, value, end=end: _at(value, end) for end in (-1, 0, 1)),
        lambda step, value: first[function_of(step)],
        lambda step, value: turn - value if _is_number(value) else value,
        *(lambda step, value, text=text: text if isinstance(value, str) else value for text in texts),
    ]
    for way in ways:
        changed = [(step, way(step, value), value) for step, value in known.values()]
        if any(other != value for _, other, value in changed):
            yield [(step, other) for step, other, _ in changed]


def _is_number(value: Any) -> bool:
    """Whether it is a number to compare: no bool, and not too large for a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _TOO_LARGE


def _at(value: Any, end: int) -> Any:
    """Return a value of the same kind at an extreme (-1, 1) or in the middle (0)."""
    match value:
        case bool():
            return end > 0
        case int() | float():
            return type(value)(end * _FAR)
        case str():
            return "something else" if end > 0 else ""
        case list():
            return [*value, *value] if end > 0 else []
    return other_value(value)


def _others(program: Program, values: Sequence[Step]) -> list[tuple[Step, Any]]:
    """Return each call once, with another value: the next likeliest label, a label that the program compares it with,
    or a value that the function gave in another call.
    """
    recorded: dict[str, list[Any]] = {}
    found: dict[str, tuple[Step, Any]] = {}
    for step in values:
        recorded.setdefault(function_of(step), []).append(value_of(step))
    for step in values:
        if step.error is None and step.call not in found:
            value = value_of(step)
            likeliest = step.confidence.alternatives if step.confidence is not None else ()
            other = other_value(value, [*likeliest, *_labels(program, step), *recorded[function_of(step)]])
            if other != value or type(other) is not type(value):
                found[step.call or ""] = (step, other)
    return list(found.values())


def other_value(value: Any, known: Sequence[Any] = ()) -> Any:
    """Return another value of the same kind; `known` are plausible ones."""
    for candidate in known:
        if type(candidate) is type(value) and candidate != value:
            return candidate
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return {**value, last: other_value(value[last])}
    if isinstance(value, str) and value:
        return f"not {value}"
    return first_other(value)


def _labels(program: Program, step: Step) -> list[Any]:
    """Return the literals that the program compares a call's value with."""
    types = (use.type for use in program.uses if use.name == function_of(step))
    labels = next((kind.removeprefix("Literal") for kind in types if kind.startswith("Literal[")), "[]")
    try:
        return list(ast.literal_eval(labels))
    except UNREADABLE:  # a guest may report anything
        return []
