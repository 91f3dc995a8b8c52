"""What if a value had been another: each value that an answer rests on, by itself; and all of them at once."""

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
from ...values.codec import ValueFormatError, decode
from ..replay.changes import Changes
from ..replay.rerun import areplay
from .mutations import first_other

_FAR = 10**6  # from any number that a program asks for, mostly
_TOO_LARGE = 10**300
_MAX_TEXTS, _MAX_TEXT = 8, 60
_AT_ONCE, _LONG_SECONDS = 2, 0.25  # runs that take longer go one by one: at once they would only slow each other down


Outcome = Literal["changes", "keeps", "unknown"]


@dataclass(frozen=True)
class Flip:
    """One value and another in its place: whether the answer changes with it, stays, or nobody can tell.

    Nobody can where the program then asks for something that the trace has no value for.
    """

    step: Step
    value: Any
    outcome: Outcome
    answer: str = ""


async def flips_of(
    trace: Trace, program: Program, values: Sequence[Step], sandbox: Sandbox, *, most: int, seconds: float
) -> tuple[list[Flip], int]:
    """Try the values one by one, within a number and a time; gives what came of it, and how many were not tried."""
    wanted = _others(program, values)
    tried, spent, last = list[Flip](), 0.0, 0.0
    while wanted and len(tried) < most and (not tried or spent + last <= seconds):  # the next takes as long again
        started = time.monotonic()
        turn = 1 if trace.answer is not None and trace.answer.seconds > _LONG_SECONDS else _AT_ONCE
        now, wanted = wanted[:turn], wanted[turn:]
        outcomes = await asyncio.gather(*(_try(trace, [(step, other)], sandbox) for step, other in now))
        tried += [Flip(step, other, *outcome) for (step, other), outcome in zip(now, outcomes, strict=True)]
        last = time.monotonic() - started
        spent += last
    return tried, len(wanted)


async def are_moot(trace: Trace, program: Program, values: Sequence[Step], sandbox: Sandbox, *, seconds: float) -> bool:
    """Whether the answer is the same whatever all the values are, as far as that can be tried in the time.

    Not where it cannot be told: where the program then asks for something that nobody has a value for.
    """
    ends = time.monotonic() + seconds
    for world in worlds_of(program, values):
        if time.monotonic() > ends or (await _try(trace, world, sandbox))[0] != "keeps":
            return False
    return True


async def _try(trace: Trace, others: Sequence[tuple[Step, Any]], sandbox: Sandbox) -> tuple[Outcome, str]:
    """What becomes of the answer with other values; its text."""
    steps = {step.number: other for step, other in others if step.delta}
    calls = {step.call or "": other for step, other in others if not step.delta}
    try:
        done = await areplay(trace, changes=Changes(steps=steps, calls=calls), sandbox=sandbox)
    except InputError:  # the text of a call is one that nobody can look up
        return "unknown", ""
    now = done.trace.answer
    if now is None or now.reason is Reason.EMULATION_FAILED:
        return "unknown", ""
    if not now.is_answered:
        return "changes", f"no answer: {now.reason}"
    recorded = trace.answer.said or trace.answer.text if trace.answer is not None else ""
    return "keeps" if now.text == recorded else "changes", now.text


def worlds_of(program: Program, values: Sequence[Step]) -> Iterator[list[tuple[Step, Any]]]:
    """All values at once, otherwise: each as another, all at one end or in the middle, all alike, all in reverse, and
    whatever the program has as text.
    """
    each = {step.call: other for step, other in _others(program, values)}
    known = {step.call: (step, decode(step.value)) for step in values if step.call in each}
    first: dict[str, Any] = {}
    for step, value in known.values():
        first.setdefault(_name(step), value)
    numbers = [value for _, value in known.values() if _is_number(value)]
    turn = max(numbers) + min(numbers) if numbers else 0
    ways: list[Callable[[Step, Any], Any]] = [
        lambda step, value: each[step.call],
        *(lambda step, value, end=end: _at(value, end) for end in (-1, 0, 1)),
        lambda step, value: first[_name(step)],
        lambda step, value: turn - value if _is_number(value) else value,
        *(lambda step, value, text=text: text if isinstance(value, str) else value for text in _texts(program.source)),
    ]
    for way in ways:
        world = [(step, way(step, value)) for step, value in known.values()]
        if any(other != decode(step.value) for step, other in world):
            yield world


def _is_number(value: Any) -> bool:
    """One that can be reckoned with: no bool, none that is too large to be held against a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _TOO_LARGE


def _at(value: Any, end: int) -> Any:
    """A value of the same kind at an end (-1, 1) or in the middle of what there is."""
    match value:
        case bool():
            return end > 0
        case int() | float():
            return type(value)(end * _FAR)
        case str():
            return "something else" if end > 0 else ""
        case list():
            return [*value, *value] if end > 0 else []
    return another(value)


def _texts(source: str) -> list[str]:
    """Texts that the program may hold values against."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # prose, or anything
        return []
    found = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [text for text in dict.fromkeys(found) if 0 < len(text) <= _MAX_TEXT][:_MAX_TEXTS]


def _others(program: Program, values: Sequence[Step]) -> list[tuple[Step, Any]]:
    """Each call once, with another value: of those that the program tells apart, or that the function gave before."""
    said: dict[str, list[Any]] = {}
    found: dict[str, tuple[Step, Any]] = {}
    for step in values:
        try:
            said.setdefault(_name(step), []).append(decode(step.value))
        except ValueFormatError:
            continue
    for step in values:
        if step.error is None and step.call not in found and (own := said.get(_name(step))):
            value = decode(step.value)
            other = another(value, [*_labels(program, step), *own])
            if other != value or type(other) is not type(value):
                found[step.call or ""] = (step, other)
    return list(found.values())


def another(value: Any, known: Sequence[Any] = ()) -> Any:
    """Another value of the same kind; `known` are values that make sense in its place."""
    for candidate in known:
        if type(candidate) is type(value) and candidate != value:
            return candidate
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return {**value, last: another(value[last])}
    if isinstance(value, str) and value:
        return f"not {value}"
    return first_other(value)


def _labels(program: Program, step: Step) -> list[Any]:
    """The literals that the program compares a call's value with."""
    for use in program.uses:
        if use.name == _name(step) and use.type.startswith("Literal["):
            try:
                return list(ast.literal_eval(use.type.removeprefix("Literal")))
            except (ValueError, SyntaxError, RecursionError, MemoryError):  # what a guest says may be anything
                return []
    return []


def _name(step: Step) -> str:
    return (step.call or "").partition("(")[0]
