"""Check whether an answer follows from its reasoning: whether it replays, where it comes from, what it rests on.

docs/verify.md defines each part and the score, and lists what this does not prove.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import msgspec

from ...engine import arun, execute
from ...engine.blocking import blocking
from ...errors import ChainOfCodeError, TraceError
from ...lm import LM
from ...sandbox import Sandbox, opened
from ...trace import Trace
from ...values.codec import encode
from ..provenance.followed import Provenance, afollow
from ..replay.grants import Grants, approve
from ..replay.integrity import Chain
from ..replay.recorded import Recorded, recorded_options, runs_of
from ..replay.rerun import areplay
from .consistency import mismatch_with_last_step, mismatch_with_type
from .echo import is_echoed
from .evidence import Reruns, do_data_matter, does_work_matter
from .flips import Flip, are_moot, flips_of
from .resampling import Sampling, is_alike
from .stated import is_decoded, stated
from .verdict import (
    ORIGINS,
    Origin,
    Verdict,
    flags_of,
    is_written_down,
    looked_up_keys,
    origin_of,
    passed_on_origin,
    shares_of,
    used_share,
)

MAX_FLIPS = 20
_SHORT_SECONDS, _LONG_SECONDS = 0.25, 1.0
_MAX_EDITED = 300  # characters


async def averify(
    trace: Trace,
    *,
    chain: Chain | None = None,
    lm: LM | None = None,
    samples: int = 3,
    flips: int = MAX_FLIPS,
    sandbox: Sandbox | str = "auto",
    grant_recorded: bool = False,
) -> Verdict:
    """Check an answer. With a model, request each of its values that the answer rests on again, `samples` times.

    Raises GrantError if someone else's trace has grants, unless `grant_recorded`.
    """
    trace = approve(trace, Grants(recorded=grant_recorded))
    started = time.monotonic()
    async with opened(sandbox) as place:
        verdict = await _stated(trace, place)
        if verdict is None:
            verdict = await _computed_verdict(trace, place, flips)
            if lm is not None and samples > 0 and verdict.provenance is not None:
                verdict = await _sampled(verdict, verdict.provenance, lm, samples, place)
    verdict = replace(verdict, flags=(*verdict.flags, *await _mistyped(trace, verdict)))
    if trace.edited:
        edits = "; ".join(trace.edited)[:_MAX_EDITED]
        verdict = replace(verdict, flags=(f"it is a what-if, not the original run; edited: {edits}", *verdict.flags))
    if chain is not None and chain.state == "broken":
        verdict = replace(verdict, flags=(f"the file was changed: {chain.why}", *verdict.flags))
    return replace(verdict, chain=chain, seconds=time.monotonic() - started)


async def _mistyped(trace: Trace, verdict: Verdict) -> list[str]:
    """Check whether a typed answer (a date, a label, …) is the original one, converted to its type."""
    answer, found = trace.answer, verdict.provenance
    if answer is None or not answer.is_answered or verdict.difference is not None:
        return []
    should = await mismatch_with_type(answer, found.trace.answer if found is not None else None)
    original = (answer.said or "the original answer")[:60]
    mismatch = f"the answer is {answer.text[:60]}, but {original}, converted to {answer.type[:60]}, is {should[:60]}"
    return [mismatch] if should else []


def verify(
    trace: Trace,
    *,
    chain: Chain | None = None,
    flips: int = MAX_FLIPS,
    sandbox: Sandbox | str = "auto",
    grant_recorded: bool = False,
) -> Verdict:
    """Check an answer without a model; in async code, use `averify`."""
    return blocking(averify(trace, chain=chain, flips=flips, sandbox=sandbox, grant_recorded=grant_recorded))


async def doubts(trace: Trace, sandbox: Sandbox | str = "auto") -> tuple[str, ...]:
    """Return the reasons not to trust an answer, as text, without trying other values of the model."""
    try:
        return (await averify(trace, flips=0, sandbox=sandbox)).flags
    except ChainOfCodeError:  # the run cannot be followed: the answer is kept, without doubts
        return ()


def verify_data(found: Verdict) -> dict[str, Any]:
    """Return a verdict as one JSON object."""
    provenance, chain, hangs_on = found.provenance, found.chain, found.hangs_on
    return {
        "score": found.score,
        "losses": [{"lost": round(lost, 3), "why": why} for lost, why in found.losses],
        "flags": list(found.flags),
        "origin": found.origin,
        "replays": found.replays,
        "chain": {"state": chain.state, "head": chain.head, "line": chain.line} if chain is not None else None,
        "used": round(found.used, 3),
        "shares": {by: round(share, 3) for by, share in found.shares.items()},
        "needed": sorted(provenance.slice.statements) if provenance is not None else [],
        "inputs": sorted(provenance.slice.inputs) if provenance is not None else [],
        "flips": [_flip_data(flip) for flip in found.flips],
        "hangs_on": _flip_data(hangs_on) | {"text": found.hangs_on_text} if hangs_on is not None else None,
        "untried": found.untried,
        "moot": found.are_moot,
        "agreement": found.agreement,
        "sampled": [
            {"call": sample.call, "recorded": encode(sample.recorded), "said": [encode(value) for value in sample.said]}
            for sample in found.sampled
        ],
        "usage": msgspec.to_builtins([call.usage for call in found.calls]),
        "seconds": round(found.seconds, 3),
    }


def _flip_data(flip: Flip) -> dict[str, Any]:
    return {
        "step": flip.step.number,
        "line": flip.step.line,
        "call": flip.step.call,
        "value": flip.step.value,
        "confidence": msgspec.to_builtins(flip.step.confidence),
        "instead": encode(flip.value),
        "outcome": flip.outcome,
        "answer": flip.answer,
    }


# --- answers that a program computed ------------------------------------------------------------------------------


async def _computed_verdict(trace: Trace, place: Sandbox, most: int) -> Verdict:
    started = time.monotonic()
    try:
        found = await afollow(trace, sandbox=place)
    except TraceError as error:
        return await _not_followed(trace, place, error)
    ended = [answer for answer in (found.run.answer, found.trace.answer) if answer is not None]
    seconds = min([time.monotonic() - started, *(answer.seconds for answer in ended)])
    origin = origin_of(found, trace.question)
    if found.difference is None and found.run.program.language == "python":  # the tests change its syntax tree
        origin = await _tested(trace, found, origin, place, seconds)
    flags, program = flags_of(found, origin, await mismatch_with_last_step(found, place)), found.run.program
    tried, untried, is_moot = list[Flip](), 0, False
    if most and origin != "none" and found.difference is None:
        budget = _budget(seconds)
        tried, untried = await flips_of(trace, program, found.values, place, most=most, seconds=budget)
        if tried and not flags and not untried and all(flip.outcome == "keeps" for flip in tried):
            is_moot = await are_moot(trace, program, found.values, place, seconds=budget)
    return Verdict(
        origin=origin,
        flags=flags,
        difference=found.difference,
        provenance=found,
        used=used_share(found, is_moot),
        shares=shares_of(found),
        flips=tuple(tried),
        untried=untried,
        are_moot=is_moot,
    )


async def _not_followed(trace: Trace, place: Sandbox, error: TraceError) -> Verdict:
    if trace.answer is None or not trace.answer.is_answered:
        return Verdict("none", (ORIGINS["none"], str(error)))
    again = (await areplay(trace, sandbox=place)).difference
    if again is None:
        raise error
    return Verdict("none", (f"it does not replay: different at {again.where}", str(error)), again)


async def _tested(trace: Trace, found: Provenance, origin: Origin, place: Sandbox, seconds: float) -> Origin:
    """Return the origin, corrected by re-runs."""

    def reruns() -> Reruns:
        return Reruns(trace, found, place, _budget(seconds))

    if seconds < _LONG_SECONDS or is_written_down(found):
        origin = await _tried(trace, found, origin, reruns())
    if origin == "constant" and await is_decoded(trace, found, reruns()):
        origin = "program"
    elif origin == "program" and await is_echoed(trace, found, reruns()):
        origin = "model"
    if origin == "program" and seconds < _LONG_SECONDS:
        origin = await stated(trace, found, reruns()) or origin
    return origin


def _budget(seconds: float) -> float:
    """Return the time for each kind of rerun (other operands, other literals, other values of the model).

    It grows with the time that one run takes, so that a check of a long run takes at most three times as long.
    """
    return max(0.4 * seconds, 3.0 if seconds < _SHORT_SECONDS else 0.2)


async def _tried(trace: Trace, found: Provenance, origin: Origin, reruns: Reruns) -> Origin:
    """Return the origin after re-runs with other operands and other data."""
    if origin not in ("program", "constant", "input"):
        return origin
    statements = found.slice.statements if origin == "program" else found.statements
    matters = await does_work_matter(reruns, found, statements, looked_up_keys(found, trace.question))
    if origin != "program":
        return "program" if matters == "yes" else origin
    if matters == "no":
        matters = await do_data_matter(reruns, trace, found)
    return passed_on_origin(found) if matters == "no" else "program"


async def _sampled(verdict: Verdict, found: Provenance, lm: LM, samples: int, place: Sandbox) -> Verdict:
    calls = {step.call or "" for step in found.values if step.by == "lm" and not step.delta}
    sampling = Sampling(Recorded(found.run), lm, calls, samples)
    options = replace(recorded_options(found.trace), share=True)
    async for _ in execute(found.run.program, sampling, sandbox=place, options=options):
        pass
    return replace(verdict, sampled=tuple(sampling.sampled.values()), calls=tuple(sampling.calls))


# --- answers that the model states itself -------------------------------------------------------------------------


async def _stated(trace: Trace, place: Sandbox) -> Verdict | None:
    """Check an answer that the model stated against the code that it wrote. None if a program computed the answer."""
    answer, program, runs = trace.answer, trace.program, runs_of(trace)
    if answer is None or not answer.is_answered or answer.source != "reply":
        return None if runs else Verdict("none", (ORIGINS["none"],))
    answer_text = answer.said or answer.text
    if program is None:
        return Verdict("reply", (f"{ORIGINS['reply']}; there is no program to check it",))
    if runs:  # the code was run, then the model stated the answer
        shown = [run.answer.text for run in runs if run.answer is not None]
        for step in (step for run in runs for step in run.steps):
            shown += [*step.output.splitlines(), *filter(None, step.delta.values()), step.outcome or ""]
        if any(_shows_answer(text, answer_text) for text in shown):
            return Verdict("reply", used=1.0)
        return Verdict("reply", (f"code ignored: none of its results is {answer_text[:60]}",))
    result = await arun(program, None, sandbox=place, options=recorded_options(trace))
    if not result.is_answered or result.trace.answer is None:
        return Verdict("reply", (f"{ORIGINS['reply']}; its program cannot be run to check it",))
    if _shows_answer(result.trace.answer.text, answer_text):
        return Verdict("reply", used=1.0)
    program_text = result.trace.answer.text[:60]
    return Verdict("reply", (f"code ignored: the answer of the program is {program_text}, not {answer_text[:60]}",))


def _shows_answer(output: str, answer: str) -> bool:
    """Whether the output of code is the stated answer, or ends with it."""
    shown, wanted = (part.strip().strip("'\"().").casefold() for part in (output, answer))
    if not wanted:
        return False
    try:
        return is_alike(float(shown), float(wanted))
    except ValueError:
        return shown == wanted or shown.endswith((f" {wanted}", f":{wanted}", f"= {wanted}"))
