"""Runs samples, several at once, and scores each; a sample that cannot be run has a score, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..audit import averify
from ..emulator import Answering
from ..emulator.value_cache import Layer
from ..engine import Result, RunOptions, arun
from ..errors import BudgetError, ChainOfCodeError, LMError
from ..lm import LM, Usage
from ..methods import Ways, asolve
from ..reasons import Reason
from ..sandbox import Sandbox
from ..trace import Answer, Call, Kept, Step, Trace
from .samples import NOT_RUN, Sample, Score, Verdict
from .scoring import judge

_HOPELESS = 3  # samples that fail before any has run
_MAX_TEXT, _MAX_ADVICE = 500, 4000  # characters; the longer one is for errors that say what to do
Ran = tuple[Score, Trace | None, Exception | None]


@dataclass(frozen=True)
class EvalJob:
    """A sample to be answered by one method."""

    sample: Sample
    method: str = ""
    ways: Ways | None = None
    is_verified: bool = False  # whether the faithfulness of the answer is checked

    @property
    def key(self) -> tuple[str, str]:
        return self.sample.id, self.method


class EarlyStop:
    """Ends an evaluation if its first samples all fail with an error of the model: the rest would, too."""

    def __init__(self) -> None:
        self._failures, self._has_run = 0, False

    def note(self, error: Exception | None) -> None:
        """Record the outcome of a sample. Raises its error if the first few all failed."""
        self._has_run = self._has_run or not isinstance(error, LMError)
        self._failures += error is not None
        if error is not None and self._failures >= _HOPELESS and not self._has_run:
            raise error


async def run_jobs(
    jobs: Iterable[EvalJob],
    lm: LM,
    sandbox: Sandbox | str,
    options: RunOptions,
    at_once: int = 1,
    *,
    emulator: Answering = None,
    cache: Layer | None = None,
) -> AsyncIterator[tuple[Score, Trace | None]]:
    """Yield scores and traces as samples finish. Raises LMError if the model replies to none of the first few.

    `emulator` answers the calls of programs (None: `lm`); a `cache` keeps the replies of models for later evaluations.
    Raises BudgetError when a budget is spent: samples that it stopped or prevented have no score.
    """
    pending, todo, early_stop = set[asyncio.Task[Ran]](), iter(jobs), EarlyStop()
    spent: Score | None = None
    try:
        while True:
            while spent is None and len(pending) < at_once and (job := next(todo, None)) is not None:
                pending.add(asyncio.create_task(run_job(job, lm, sandbox, options, emulator=emulator, cache=cache)))
            if not pending:
                break
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                score, trace, error = task.result()
                early_stop.note(error)
                if is_cut_short(score):
                    spent = score
                else:
                    yield score, trace
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    if spent is not None:
        raise spending(spent)


async def run_job(
    job: EvalJob,
    lm: LM,
    sandbox: Sandbox | str,
    options: RunOptions,
    *,
    emulator: Answering = None,
    cache: Layer | None = None,
) -> Ran:
    """Return one sample's score and trace, and why it could not be run."""
    started, sample = time.monotonic(), job.sample
    try:
        if sample.program is not None:
            answering: Answering = lm if emulator is None else emulator
            answering = answering if cache is None else cache.emulator(answering)
            result = await arun(sample.program, answering, question=sample.question, sandbox=sandbox, options=options)
        else:
            ways = Ways(**{"emulator": emulator, "cache": cache, **(job.ways or {})})
            result = await asolve(sample.question or "", lm, sandbox=sandbox, options=options, **ways)
    except (ChainOfCodeError, OSError, ValueError) as error:  # one bad sample must not end the others
        return not_run(job, error, time.monotonic() - started), None, error
    scored = score(sample, result, time.monotonic() - started)
    faithful = await _faithfulness(result, sandbox) if job.is_verified else None
    return msgspec.structs.replace(scored, method=job.method, faithful=faithful), result.trace, None


async def _faithfulness(result: Result, sandbox: Sandbox | str) -> float | None:
    """Return the faithfulness of an answer; None without an answer, or if it cannot be checked."""
    if not result.is_answered:
        return None
    try:
        return (await averify(result.trace, flips=0, sandbox=sandbox)).score
    except ChainOfCodeError:
        return None


def is_cut_short(score: Score) -> bool:
    """Whether the budget of all samples ended this one."""
    return score.reason in (Reason.TOKENS_LIMIT, Reason.MONEY_LIMIT)


def spending(score: Score) -> BudgetError:
    return BudgetError(score.reason.partition(":")[2], score.error)


def not_run(job: EvalJob, error: Exception, seconds: float = 0.0) -> Score:
    """Return the score of a sample that could not be run."""
    text = _clean(str(error), _MAX_ADVICE)
    return _score(job.sample, "no answer", NOT_RUN, seconds=seconds, error=text, method=job.method)


def score(sample: Sample, result: Result, seconds: float) -> Score:
    """Score the result of a sample."""
    verdict = judge(result.answer, sample) if result.is_answered else "no answer"
    is_unread = verdict == "no answer" if result.is_answered else _is_unread(result)
    return _score(
        sample,
        verdict,
        result.reason,
        answer=_clean(result.trace.answer.text) if result.trace.answer is not None else "",
        calls=sum(not call.is_cached for call in result.trace.calls),
        retries=retries(result.trace),
        repairs=sum(isinstance(event, Answer) and event.then == "repair" for event in result.trace.events),
        seconds=seconds,
        error=_clean(result.error.message) if result.error is not None else "",
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        cached_tokens=result.usage.cached_tokens,
        dollars=result.usage.dollars,
        extracted=not is_unread,
        usage=usage_by_model(result.trace),
    )


def usage_by_model(trace: Trace) -> dict[str, Usage]:
    """Return the requests, tokens and cost of each model."""
    used: dict[str, Usage] = {}
    for call in trace.calls:
        used[call.model] = used.get(call.model, Usage()) + call.usage
    return used


def _score(sample: Sample, verdict: Verdict, reason: str, *, answer: str = "", **more: Any) -> Score:
    return Score(
        id=sample.id,
        verdict=verdict,
        answer=answer,
        targets=sample.targets,
        reason=reason,
        kind=sample.kind,
        split=sample.split,
        task=sample.task,
        **more,
    )


def _is_unread(result: Result) -> bool:
    """Whether the model replied, but no answer was found in the reply."""
    has_reply = bool(result.trace.calls) and bool(result.trace.calls[-1].reply.strip())
    return has_reply and result.error is not None and result.error.type == "NoAnswer"


def _clean(text: str, most: int = _MAX_TEXT) -> str:
    """Return the beginning of a string, without lone surrogates, which UTF-8 cannot encode."""
    return text[:most].encode("utf-8", "backslashreplace").decode()


def tries(sample: Sample, whole: Score, trace: Trace) -> list[Score]:
    """Score each vote separately; return nothing if there was no vote."""
    scores, events = list[Score](), list[Kept]()
    for event in trace.events:
        events.append(event)
        if isinstance(event, Answer) and event.then == "vote":
            vote = Trace(trace.question, trace.inputs, trace.settings, events, trace.python)
            scored = score(sample, Result.of_trace(vote, {}), sum(call.seconds for call in vote.calls))
            scores.append(msgspec.structs.replace(scored, method=whole.method, attempt=len(scores) + 1))
            events = []
    return scores


def retries(trace: Trace) -> int:
    """Count how often a value was requested again because the reply did not fit.

    The requests for a value come right before its step, or before the end if it got no value. Another vote has the same
    prompt; the prompt of a retry begins with the first one.
    """
    count, prompts = 0, list[str]()
    for event in trace.events:
        if isinstance(event, Call):
            prompts.append(event.prompt)
            continue
        if isinstance(event, Answer) or (isinstance(event, Step) and event.by == "lm"):
            distinct = dict.fromkeys(prompts)
            count += sum(any(later.startswith(f"{first}\n\n") for first in distinct) for later in distinct)
        prompts.clear()
    return count
