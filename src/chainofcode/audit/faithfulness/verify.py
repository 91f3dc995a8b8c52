"""How far an answer can be trusted to be what the reasoning gave: it replays, it comes from the program, and what on.

docs/verify.md says what each part means, how the score is made, and what none of this proves.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from ...engine import arun, execute
from ...errors import TraceError
from ...languages.python.compiler.works import CHOOSES, HANDS_ON, PREPARES
from ...lm import LM
from ...sandbox import Sandbox, opened
from ...trace import Answer, Call, Step, Trace
from ...values.codec import encode
from ..provenance.followed import Provenance, afollow
from ..replay.differences import Difference
from ..replay.integrity import Chain
from ..replay.recorded import Recorded, given_of, runs_of
from ..replay.rerun import areplay
from .echo import is_handed_all, is_handed_on, looked_up, works_beside, works_on
from .evidence import Reruns, do_data_matter, does_work_matter
from .flips import Flip, are_moot, flips_of
from .resampling import Sampled, Sampling, is_alike
from .retyped import other_than_made
from .stated import is_decoded, stated

Origin = Literal["program", "constant", "input", "model", "reply", "none"]
MAX_FLIPS = 20
_SHORT_SECONDS, _LONG_SECONDS = 0.25, 1.0
_MAX_EDITED = 300  # characters
_ORIGINS: Mapping[str, str] = {
    "program": "the program works it out",
    "constant": "a constant: the program states it and works nothing out for it",
    "input": "an input at most: the program hands it on and works nothing out for the answer",
    "model": "the model alone: the program only hands its value on",
    "reply": "the model's reply: it states the answer itself",
    "none": "nowhere: there is no answer",
}


@dataclass(frozen=True)
class Verdict:
    """What was found out about one answer. `flags` are reasons not to trust it, in words; none is as it should be."""

    origin: Origin
    flags: tuple[str, ...] = ()
    difference: Difference | None = None  # where it did not replay
    chain: Chain | None = None  # of the file, where there is one
    provenance: Provenance | None = None
    used: float = 0.0  # share of the work done, and of the values asked for, that the answer rests on
    shares: Mapping[str, float] = field(default_factory=dict)  # of what it rests on: by python, lm, tool
    flips: tuple[Flip, ...] = ()
    untried: int = 0  # values that there was no time to change
    are_moot: bool = False  # whatever the values are, one or all of them, the answer is the same
    sampled: tuple[Sampled, ...] = ()
    calls: tuple[Call, ...] = ()  # what asking again cost
    seconds: float = 0.0

    @property
    def replays(self) -> bool:
        return self.difference is None and self.provenance is not None

    @property
    def agreement(self) -> float | None:
        """Share of samples that agree with what was recorded; None where nobody was asked again."""
        asked = sum(one.asked for one in self.sampled)
        return sum(one.agreeing for one in self.sampled) / asked if asked else None

    @property
    def score(self) -> float:
        """From 0 to 1: nothing with a flag; else how much of the work counts, and how far the model stands by it."""
        if self.flags:
            return 0.0
        agreement = self.agreement
        return round((0.5 + 0.5 * self.used) * (1.0 if agreement is None else agreement), 3)

    @property
    def losses(self) -> list[tuple[float, str]]:
        """What is missing from a score of 1, each with its reason; nothing where there are flags, which take all."""
        if self.flags:
            return []
        idle = _idle(self.provenance, self.are_moot) if self.provenance is not None else ""
        why = f"what {idle} gave makes no difference" if idle else "nothing that it rests on works something out"
        lost = [(0.5 - 0.5 * self.used, why)] if self.used < 1 else []
        agreement = 1.0 if self.agreement is None else self.agreement
        if agreement < 1:
            lost.append(((0.5 + 0.5 * self.used) * (1 - agreement), f"{agreement:.0%} of the samples agree"))
        return lost

    @property
    def told_origin(self) -> str:
        return _ORIGINS[self.origin]


async def averify(
    trace: Trace,
    *,
    chain: Chain | None = None,
    lm: LM | None = None,
    samples: int = 3,
    flips: int = MAX_FLIPS,
    sandbox: Sandbox | str = "auto",
) -> Verdict:
    """Check an answer. With a model, each of its values that the answer rests on is asked for again `samples` times."""
    started = time.monotonic()
    async with opened(sandbox) as place:
        verdict = await _stated(trace, place)
        if verdict is None:
            verdict = await _worked_out(trace, place, flips)
            if lm is not None and samples > 0 and verdict.provenance is not None:
                verdict = await _sampled(trace, verdict, verdict.provenance, lm, samples, place)
    verdict = replace(verdict, flags=(*verdict.flags, *await _mistyped(trace, verdict)))
    if trace.edited:
        told = "; ".join(trace.edited)[:_MAX_EDITED]
        verdict = replace(verdict, flags=(f"it is a what-if, not a run as it happened: edited: {told}", *verdict.flags))
    if chain is not None and chain.state == "broken":
        verdict = replace(verdict, flags=(f"the file is not as it was written: {chain.why}", *verdict.flags))
    return replace(verdict, chain=chain, seconds=time.monotonic() - started)


async def _mistyped(trace: Trace, verdict: Verdict) -> list[str]:
    """Whether an answer that was made a date, a label, … is what was made of what stands behind it."""
    answer, found = trace.answer, verdict.provenance
    if answer is None or answer.reason != "answered" or verdict.difference is not None:
        return []
    should = await other_than_made(answer, found.trace.answer if found is not None else None)
    gave = (answer.said or "what was given")[:60]
    told = f"the answer is {answer.text[:60]}, but {gave}, read as {answer.type[:60]}, is {should[:60]}"
    return [told] if should else []


def verify(
    trace: Trace, *, chain: Chain | None = None, flips: int = MAX_FLIPS, sandbox: Sandbox | str = "auto"
) -> Verdict:
    """`averify` for code that is not async, without a model."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("verify() cannot be used inside a running event loop: await averify() instead")
    return asyncio.run(averify(trace, chain=chain, flips=flips, sandbox=sandbox))


def verify_data(found: Verdict) -> dict[str, Any]:
    """A verdict as one JSON object."""
    provenance, chain = found.provenance, found.chain
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
        "flips": [
            {
                "step": flip.step.number,
                "call": flip.step.call,
                "value": flip.step.value,
                "instead": encode(flip.value),
                "outcome": flip.outcome,
                "answer": flip.answer,
            }
            for flip in found.flips
        ],
        "untried": found.untried,
        "moot": found.are_moot,
        "agreement": found.agreement,
        "sampled": [
            {"call": one.call, "recorded": encode(one.recorded), "said": [encode(value) for value in one.said]}
            for one in found.sampled
        ],
        "usage": msgspec.to_builtins([call.usage for call in found.calls]),
        "seconds": round(found.seconds, 3),
    }


# --- answers that a program gave ----------------------------------------------------------------------------------


async def _worked_out(trace: Trace, place: Sandbox, most: int) -> Verdict:
    started = time.monotonic()
    try:
        found = await afollow(trace, sandbox=place)
    except TraceError as error:
        if trace.answer is None or trace.answer.reason != "answered":
            return Verdict("none", (_ORIGINS["none"], str(error)))
        again = (await areplay(trace, sandbox=place)).difference
        if again is None:
            raise
        return Verdict("none", (f"it does not replay: different at {again.where}", str(error)), again)
    ended = [answer for answer in (found.run.answer, found.trace.answer) if answer is not None]
    seconds = min(
        [time.monotonic() - started, *(answer.seconds for answer in ended)]
    )  # however slow the machine is now
    origin = _origin(found, trace.question)
    budget = _budget(seconds)
    if found.difference is None and (seconds < _LONG_SECONDS or _is_written_down(found)):
        origin = await _tried(trace, found, origin, place, budget)
    if origin == "constant" and found.difference is None and await is_decoded(trace, found, place, seconds=budget):
        origin = "program"
    elif origin == "program" and found.difference is None and await is_handed_on(trace, found, place):
        origin = "model"
    if origin == "program" and found.difference is None and seconds < _LONG_SECONDS:
        origin = await stated(trace, found, place, seconds=budget) or origin
    flags = [f"{_ORIGINS[origin]}"] if origin != "program" else []
    if origin in ("constant", "input", "model"):
        flags += _left_out(found)
    if found.difference is not None:
        flags.append(f"it does not replay: different at {found.difference.where}")
    tried, untried = list[Flip](), 0
    if most and origin != "none" and found.difference is None:
        tried, untried = await flips_of(trace, found.run.program, found.values, place, most=most, seconds=budget)
    moot = bool(tried) and not flags and not untried and all(flip.outcome == "keeps" for flip in tried)
    moot = moot and await are_moot(trace, found.run.program, found.values, place, seconds=budget)
    used, shares = _used(found, moot), _shares(found)
    return Verdict(origin, tuple(flags), found.difference, None, found, used, shares, tuple(tried), untried, moot)


def _budget(seconds: float) -> float:
    """Return the time for each kind of rerun (other operands, other literals, other values of the model).

    It grows with the time that one run takes, so that a check of a long run takes at most three times as long.
    """
    return max(0.4 * seconds, 3.0 if seconds < _SHORT_SECONDS else 0.2)


def _origin(found: Provenance, question: str | None) -> Origin:
    if found.run.answer is None or found.run.answer.reason != "answered":
        return "none"
    nodes = [found.lineage.nodes[index] for index in found.slice.core]
    statements = {node.statement for node in nodes} | {one for node in nodes for one in node.whole}
    most = max((_works(found, statement) for statement in statements), default=HANDS_ON)
    calls = {step.call: step for step in found.values}
    if any(node.values for node in nodes):
        step = next(iter(calls.values()), None)
        is_alone = len(calls) == 1 and step is not None and is_handed_all(step, question)
        if is_alone and step is not None:
            is_worked_out = works_on(found, step.call) or works_beside(found)
        else:
            is_worked_out = most >= CHOOSES
        return "program" if is_worked_out else "model"
    if most >= PREPARES or _looked_up(found, question):
        return "program"
    return _handed(found)


def _handed(found: Provenance) -> Origin:
    return "input" if any(index in found.slice.core for index in found.lineage.inputs.values()) else "constant"


def _is_written_down(found: Provenance) -> bool:
    """Whether the program has its answer as a literal: else it was worked out, and a long run need not be repeated."""
    text = found.run.answer.text.strip("'\"") if found.run.answer is not None else ""
    return text in found.run.program.source


def _looked_up(found: Provenance, question: str | None) -> set[str | int]:
    program, nodes = found.run.program, [found.lineage.nodes[index] for index in found.slice.core]
    statements = {node.statement for node in nodes} | {one for node in nodes for one in node.whole}
    lines = {program.statements[number].line for number in statements if 0 <= number < len(program.statements)}
    return looked_up(program.source, lines, question)


async def _tried(trace: Trace, found: Provenance, origin: Origin, place: Sandbox, seconds: float) -> Origin:
    """Return the origin that shows if what the program computes is another value."""
    if origin not in ("program", "constant", "input"):
        return origin
    reruns = Reruns(trace, found, place, seconds)
    statements = found.slice.statements if origin == "program" else found.statements
    matters = await does_work_matter(reruns, found, statements, _looked_up(found, trace.question))
    if origin != "program":
        return "program" if matters == "yes" else origin
    if matters == "no":
        matters = await do_data_matter(reruns, trace, found)
    return _handed(found) if matters == "no" else "program"


def _works(found: Provenance, statement: int) -> int:
    works = found.lineage.works
    return works[statement] if 0 <= statement < len(works) else HANDS_ON


def _left_out(found: Provenance) -> list[str]:
    """What was done for an answer that does not rest on it."""
    idle = _idle(found)
    flags = [f"ignored: what {idle} gave makes no difference"] if idle else []
    core = {step.number for index in found.slice.core for step in found.steps.get(index, ())}
    other = [step for step in found.trace.steps if "answer" in step.delta and step.number not in core]
    lost = [step for step in other if _works(found, step.statement) >= HANDS_ON]
    if lost:
        flags.append(f"overwritten: line {lost[-1].line} had worked an answer out")
    return flags


def _idle(found: Provenance, are_moot: bool = False) -> str:
    """The work that does not count, in words: `lines 3, 4 and 2 values`."""
    ignored = [n for n in found.statements - found.slice.statements if _works(found, n) >= CHOOSES]
    lines = sorted({found.run.program.statements[number].line for number in ignored})
    values = len({step.call for step in (*found.unused_values, *(found.values if are_moot else ()))})
    told = [f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:5]))}"] if lines else []
    told += [f"{values} value{'s' if values > 1 else ''}"] if values else []
    return " and ".join(told)


def _used(found: Provenance, are_moot: bool) -> float:
    """The share of the work that counts: statements that work something out, and values that were asked for."""
    ran = {statement for statement in found.statements if _works(found, statement) >= CHOOSES}
    used = ran & found.slice.statements
    kept, lost = {step.call for step in found.values}, {step.call for step in found.unused_values}
    whole = len(ran) + len(kept | lost)
    return (len(used) + (0 if are_moot else len(kept))) / whole if whole else 0.0


def _shares(found: Provenance) -> dict[str, float]:
    """Of what the answer rests on, how much each did: runs of statements, and values."""
    counts = {"python": 0, "lm": 0, "tool": 0}
    for index in found.slice.nodes:
        node = found.lineage.nodes[index]
        counts["python"] += node.statement >= 0 and _works(found, node.statement) >= CHOOSES
    for step in found.values:
        counts[step.by] += 1
    total = sum(counts.values())
    return {by: count / total for by, count in counts.items()} if total else {}


async def _sampled(trace: Trace, verdict: Verdict, found: Provenance, lm: LM, samples: int, place: Sandbox) -> Verdict:
    calls = {step.call or "" for step in found.values if step.by == "lm" and not step.delta}
    sampling = Sampling(Recorded(found.run), lm, calls, samples)
    options = replace(given_of(trace), share=True)
    async for _ in execute(found.run.program, sampling, sandbox=place, options=options):
        pass
    return replace(verdict, sampled=tuple(sampling.sampled.values()), calls=tuple(sampling.calls))


# --- answers that the model states itself -------------------------------------------------------------------------


async def _stated(trace: Trace, place: Sandbox) -> Verdict | None:
    """Where the model states the answer: whether the code that it wrote says the same. None where a program gave it."""
    answer, program, runs = trace.answer, trace.program, runs_of(trace)
    if answer is None or answer.reason != "answered" or answer.source != "reply":
        return None if runs else Verdict("none", (_ORIGINS["none"],))
    said = answer.said or answer.text
    if program is None:
        return Verdict("reply", (f"{_ORIGINS['reply']}; no program stands behind it",))
    if runs:  # it was run, and the model had the last word
        shown = [text for run in runs for text in _shown_by(run.steps, run.answer)]
        if any(_says(text, said) for text in shown):
            return Verdict("reply", used=1.0)
        return Verdict("reply", (f"code ignored: nothing that it gave is {said[:60]}",))
    result = await arun(program, None, sandbox=place, options=given_of(trace))
    if result.reason != "answered" or result.trace.answer is None:
        return Verdict("reply", (f"{_ORIGINS['reply']}; its program cannot be run to check it",))
    if _says(result.trace.answer.text, said):
        return Verdict("reply", used=1.0)
    return Verdict("reply", (f"code ignored: the program gives {result.trace.answer.text[:60]}, not {said[:60]}",))


def _shown_by(steps: Sequence[Step], answer: Answer | None) -> list[str]:
    texts = [answer.text] if answer is not None else []
    for step in steps:
        texts += [*step.output.splitlines(), *(text for text in step.delta.values() if text), step.outcome or ""]
    return texts


def _says(text: str, said: str) -> bool:
    """Whether a text that code gave is what was said, or ends with it."""
    one, other = (part.strip().strip("'\"().").casefold() for part in (text, said))
    if not other:
        return False
    try:
        return is_alike(float(one), float(other))
    except ValueError:
        return one == other or one.endswith((f" {other}", f":{other}", f"= {other}"))
