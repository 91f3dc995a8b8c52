"""What if a value had been another: each value that an answer rests on, changed by itself."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from ..guest.values import ValueFormatError, decode
from ..program import Program
from ..sandbox import Sandbox
from ..trace import Step, Trace
from .changes import Changes
from .replay import areplay

_AT_ONCE, _LONG_SECONDS = 2, 0.25  # runs that take longer go one by one: at once they would only slow each other down


@dataclass(frozen=True)
class Flip:
    """One value and another in its place: whether the answer changes with it, stays, or nobody can tell.

    Nobody can where the program then asks for something that the trace has no value for.
    """

    step: Step
    value: Any
    outcome: Literal["changes", "keeps", "unknown"]
    answer: str = ""


async def flips_of(
    trace: Trace, program: Program, values: Sequence[Step], sandbox: Sandbox, *, most: int, seconds: float
) -> tuple[list[Flip], int]:
    """Try the values one by one, within a number and a time; gives what came of it, and how many were not tried."""
    wanted = _others(program, values)
    tried, spent, last = list[Flip](), 0.0, 0.0
    recorded = trace.answer.said or trace.answer.text if trace.answer is not None else ""
    while wanted and len(tried) < most and (not tried or spent + last <= seconds):  # the next takes as long again
        started = time.monotonic()
        turn = 1 if trace.answer is not None and trace.answer.seconds > _LONG_SECONDS else _AT_ONCE
        now, wanted = wanted[:turn], wanted[turn:]
        tried += await asyncio.gather(*(_try(trace, step, other, recorded, sandbox) for step, other in now))
        last = time.monotonic() - started
        spent += last
    return tried, len(wanted)


async def _try(trace: Trace, step: Step, other: Any, recorded: str, sandbox: Sandbox) -> Flip:
    changes = Changes(steps={step.number: other}) if step.delta else Changes(calls={step.call or "": other})
    try:
        done = await areplay(trace, changes=changes, sandbox=sandbox)
    except InputError:  # its text is one that nobody can look up
        return Flip(step, other, "unknown")
    now = done.trace.answer
    if now is None or now.reason == "emulation failed":
        return Flip(step, other, "unknown")
    text = now.text if now.reason == "answered" else f"no answer: {now.reason}"
    return Flip(step, other, "keeps" if now.reason == "answered" and now.text == recorded else "changes", text)


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
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.1 + 0.1
        case str():
            return f"not {value}" if value else "something"
        case list():
            return value[:-1] if value else ["something"]
        case tuple():
            return value[:-1]
        case set():
            return set(list(value)[:-1])
        case dict() if value:
            last = list(value)[-1]
            return {**value, last: another(value[last])}
    return value


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
