"""Measuring: a suite of samples, each run and scored; what is right, wrong, or no answer is counted apart."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..engine import Result, arun
from ..errors import InputError
from ..guest.values import decode
from ..lm import LM
from ..methods import Ways, asolve
from ..sandbox import Sandbox

SUITES = ("emulation", "questions", "varied")


class Sample(msgspec.Struct, frozen=True):
    """A question to answer, or a program whose holes a model fills. Without targets, any answer will do."""

    id: str
    question: str | None = None
    program: str | None = None
    targets: list[Any] = []
    kind: str = ""
    split: str = ""


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a sample. `retries` are replies that did not fit and were asked for again."""

    id: str
    verdict: str  # right, wrong, no answer
    answer: str
    targets: list[Any]
    reason: str
    kind: str = ""
    split: str = ""
    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    error: str = ""


def load(suite: str) -> list[Sample]:
    """A suite by name, or a file of samples, one JSON object a line."""
    path = Path(__file__).parent / "suites" / f"{suite}.jsonl" if suite in SUITES else Path(suite)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(SUITES)
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {suite}: {why}; a suite is one of {known}, or a .jsonl file") from None
    samples = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                sample = msgspec.json.decode(line, type=Sample)
            except (msgspec.DecodeError, RecursionError) as error:
                raise InputError(f"{suite}, line {number}: not a sample: {error}") from None
            if sample.question is None and sample.program is None:
                raise InputError(f"{suite}, line {number}: a sample has a question or a program")
            samples.append(sample)
    return samples


async def evaluate(
    samples: Sequence[Sample], lm: LM, sandbox: Sandbox | str = "auto", ways: Ways | None = None
) -> AsyncIterator[Score]:
    """Run samples one after the other and score each; `ways` are how questions are answered."""
    for sample in samples:
        started = time.monotonic()
        if sample.program is not None:
            result = await arun(sample.program, lm, question=sample.question, sandbox=sandbox)
        else:
            result = await asolve(sample.question or "", lm, sandbox=sandbox, **(ways or {}))
        yield score(sample, result, time.monotonic() - started)


def score(sample: Sample, result: Result, seconds: float) -> Score:
    answered = result.reason == "answered"
    is_right = answered and (not sample.targets or any(is_same(result.answer, target) for target in sample.targets))
    calls = len(result.trace.calls)
    asked = result.trace.lm_calls + (result.reason == "emulation failed") + (sample.program is None)
    return Score(
        sample.id,
        "right" if is_right else "wrong" if answered else "no answer",
        result.trace.answer.text[:500] if result.trace.answer is not None else "",
        sample.targets,
        result.reason,
        sample.kind,
        sample.split,
        calls,
        max(calls - asked, 0),
        seconds,
        result.error.message[:500] if result.error is not None else "",
    )


def is_same(answer: Any, target: Any) -> bool:
    """Whether an answer is the target: numbers by value, text without regard to case and edges, yes as True."""
    target = decode(target) if isinstance(target, dict) else target
    if isinstance(answer, bool) or isinstance(target, bool):
        return _truth(answer) is not None and _truth(answer) == _truth(target)
    if isinstance(answer, (list, tuple)) and isinstance(target, (list, tuple)):
        return len(answer) == len(target) and all(map(is_same, answer, target))
    number, wanted = _number(answer), _number(target)
    if number is not None and wanted is not None:
        return abs(number - wanted) <= 1e-6 * max(1.0, abs(wanted))
    return _text(answer) == _text(target)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"yes": True, "true": True, "no": False, "false": False}.get(_text(value))


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(str(value).strip().rstrip(".").lstrip("$").replace(",", ""))
    except ValueError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, set)) and len(value) == 1:
        (value,) = value
    return str(value).strip().strip(".\"'").casefold()
