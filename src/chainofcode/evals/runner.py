"""Runs samples, several at once, and scores each; what cannot be run is a result too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import msgspec

from ..engine import Given, Result, arun
from ..errors import ChainOfCodeError, LMError
from ..lm import LM
from ..methods import Ways, asolve
from ..sandbox import Sandbox
from ..trace import Answer, Call, Step, Trace
from .samples import Sample, Score
from .scoring import is_target

_HOPELESS = 3  # samples without a reply, when there was none before: so it will go on


@dataclass(frozen=True)
class Job:
    """A sample to be answered in one way; `attempt` counts repetitions."""

    sample: Sample
    method: str = ""
    ways: Ways | None = None
    attempt: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        return self.sample.id, self.method, self.attempt


async def run_jobs(
    jobs: Iterable[Job], lm: LM, sandbox: Sandbox | str, given: Given, at_once: int = 1
) -> AsyncIterator[tuple[Score, Trace | None]]:
    """Scores and traces, as they are finished. Raises LMError where the first few all bring no reply."""
    pending, todo = set[asyncio.Task[tuple[Score, Trace | None, Exception | None]]](), iter(jobs)
    failures, is_hopeful = 0, False
    try:
        while True:
            while len(pending) < at_once and (job := next(todo, None)) is not None:
                pending.add(asyncio.create_task(_run(job, lm, sandbox, given)))
            if not pending:
                return
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                score, trace, error = task.result()
                failures += isinstance(error, LMError)
                is_hopeful = is_hopeful or not isinstance(error, LMError)
                if failures >= _HOPELESS and not is_hopeful and error is not None:
                    raise error
                yield score, trace
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _run(job: Job, lm: LM, sandbox: Sandbox | str, given: Given) -> tuple[Score, Trace | None, Exception | None]:
    started, sample = time.monotonic(), job.sample
    named = {"method": job.method, "task": sample.task, "attempt": job.attempt}
    try:
        if sample.program is not None:
            result = await arun(sample.program, lm, question=sample.question, sandbox=sandbox, **given)
        else:
            result = await asolve(sample.question or "", lm, sandbox=sandbox, **(job.ways or {}), **given)
    except (ChainOfCodeError, OSError, ValueError) as error:  # one bad sample must not end the others
        told = not_run(sample, error, time.monotonic() - started)
        return msgspec.structs.replace(told, **named), None, error
    scored = score(sample, result, time.monotonic() - started)
    return msgspec.structs.replace(scored, **named), result.trace, None


def not_run(sample: Sample, error: Exception, seconds: float) -> Score:
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
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        dollars=result.usage.dollars,
        extracted=answered or result.error is None or result.error.type != "NoAnswer",
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
