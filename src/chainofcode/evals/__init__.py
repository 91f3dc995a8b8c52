"""Measuring: a suite of samples, each run and scored; what is right, wrong, or no answer is counted apart."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from ..engine import Given, Result, arun
from ..errors import InputError, LMError, SandboxError
from ..lm import LM
from ..methods import Ways, asolve
from ..sandbox import Sandbox
from ..trace import Answer, Call, Step, Trace
from .samples import Sample, Score
from .scoring import is_same, is_target

__all__ = ["SUITES", "Sample", "Score", "evaluate", "is_same", "load", "retries", "score"]

SUITES = ("emulation", "questions", "varied")
_HOPELESS = 3  # samples without a reply, when there was none before: so it will go on


def load(suite: str) -> list[Sample]:
    """A suite by name, or a file of samples, one JSON object a line."""
    path = Path(__file__).parent / "suites" / f"{suite}.jsonl" if suite in SUITES else Path(suite)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
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
    samples: Sequence[Sample],
    lm: LM,
    sandbox: Sandbox | str = "auto",
    ways: Ways | None = None,
    **given: Unpack[Given],
) -> AsyncIterator[Score]:
    """Run samples one after the other and score each; `ways` are how questions are answered.

    A sample that cannot be run is one without an answer. Raises LMError where the first few all bring no reply.
    """
    is_hopeful = False
    for number, sample in enumerate(samples, 1):
        started = time.monotonic()
        try:
            if sample.program is not None:
                result = await arun(sample.program, lm, question=sample.question, sandbox=sandbox, **given)
            else:
                result = await asolve(sample.question or "", lm, sandbox=sandbox, **(ways or {}), **given)
        except (LMError, SandboxError) as error:
            is_hopeful = is_hopeful or not isinstance(error, LMError)
            if number >= _HOPELESS and not is_hopeful:
                raise
            yield _not_run(sample, error, time.monotonic() - started)
        else:
            is_hopeful = True
            yield score(sample, result, time.monotonic() - started)


def _not_run(sample: Sample, error: Exception, seconds: float) -> Score:
    return Score(
        sample.id,
        "no answer",
        "",
        sample.targets,
        "not run",
        sample.kind,
        sample.split,
        seconds=seconds,
        error=str(error)[:500],
    )


def score(sample: Sample, result: Result, seconds: float) -> Score:
    answered = result.reason == "answered"
    is_right = answered and (
        not sample.targets or any(is_target(result.answer, target, sample) for target in sample.targets)
    )
    return Score(
        sample.id,
        "right" if is_right else "wrong" if answered else "no answer",
        result.trace.answer.text[:500] if result.trace.answer is not None else "",
        sample.targets,
        result.reason,
        sample.kind,
        sample.split,
        len(result.trace.calls),
        retries(result.trace),
        seconds,
        result.error.message[:500] if result.error is not None else "",
    )


def retries(trace: Trace) -> int:
    """How often a value was asked for again because the reply did not fit.

    A value's requests come right before its step, or before the end where it got none. Another vote has the same
    prompt; a second try goes on from the first one's.
    """
    count, prompts = 0, list[str]()
    for event in trace.events:
        if isinstance(event, Call):
            prompts.append(event.prompt)
            continue
        if isinstance(event, Answer) or (isinstance(event, Step) and event.by == "lm"):
            asked = dict.fromkeys(prompts)
            count += sum(any(later.startswith(f"{first}\n\n") for first in asked) for later in asked)
        prompts.clear()
    return count
