"""The verdict on an answer: its origin, the share of the work that counts, and a score."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...languages.python.compiler.computation import CHOOSES, PASSES_ON, PREPARES, WORKS
from ...render import count, cut, how_sure, plain, shown
from ...sandbox.frames import LineageNode
from ...trace import Call
from ...values.codec import brief
from ..provenance.followed import Provenance
from ..provenance.slices import depends_on
from ..replay.differences import Difference
from ..replay.integrity import Chain
from .echo import WholeQuestion, shown_words
from .flips import Flip, sureness
from .mutations import nodes_of
from .resampling import Sampled

Origin = Literal["program", "constant", "input", "model", "reply", "none"]
ORIGINS: Mapping[str, str] = {
    "program": "the program computes it",
    "constant": "a constant: the program states it and computes nothing for it",
    "input": "an input: the program passes it on and computes nothing for the answer",
    "model": "the model alone: the program only passes its value on",
    "reply": "the model's reply: it states the answer itself",
    "none": "nowhere: there is no answer",
}
_MAX_SHOWN = 60  # characters of a call or a value in a sentence


@dataclass(frozen=True)
class Verdict:
    """The verdict on one answer. `flags` are reasons not to trust it, in words; a trustworthy answer has none."""

    origin: Origin
    flags: tuple[str, ...] = ()
    difference: Difference | None = None  # where it did not replay
    chain: Chain | None = None  # of the file, where there is one
    provenance: Provenance | None = None
    used: float = 0.0  # share of the work done, and of the values asked for, that the answer rests on
    shares: Mapping[str, float] = field(default_factory=dict)  # of what it rests on: by python, lm, tool
    flips: tuple[Flip, ...] = ()
    untried: int = 0  # values that there was no time to change
    are_moot: bool = False  # changing the values, one or all of them, does not change the answer
    sampled: tuple[Sampled, ...] = ()
    calls: tuple[Call, ...] = ()  # the requests for samples
    seconds: float = 0.0

    @property
    def replays(self) -> bool:
        return self.difference is None and self.provenance is not None

    @property
    def agreement(self) -> float | None:
        """Share of samples that agree with what was recorded; None if nothing was requested again."""
        requested = sum(sample.asked for sample in self.sampled)
        return sum(sample.agreeing for sample in self.sampled) / requested if requested else None

    @property
    def score(self) -> float:
        """From 0 to 1: 0 with any flag; otherwise by the share of work that counts and the agreement of samples."""
        if self.flags:
            return 0.0
        agreement = self.agreement
        return round((0.5 + 0.5 * self.used) * (1.0 if agreement is None else agreement), 3)

    @property
    def losses(self) -> list[tuple[float, str]]:
        """The deductions from a score of 1, each with its reason; empty with flags, which make the score 0."""
        if self.flags:
            return []
        idle = _idle(self.provenance, self.are_moot) if self.provenance is not None else ""
        why = f"{idle} had no effect on the answer" if idle else "no statement that it rests on computes anything"
        lost = [(0.5 - 0.5 * self.used, why)] if self.used < 1 else []
        agreement = 1.0 if self.agreement is None else self.agreement
        if agreement < 1:
            lost.append(((0.5 + 0.5 * self.used) * (1 - agreement), f"{agreement:.0%} of the samples agree"))
        return lost

    @property
    def origin_text(self) -> str:
        return ORIGINS[self.origin]

    @property
    def hangs_on(self) -> Flip | None:
        """Of the model's values that decide the answer, the one that it was least sure of."""
        return min(self._decisive, key=lambda flip: sureness(flip.step), default=None)

    @property
    def hangs_on_text(self) -> str:
        """A sentence about the value that the answer depends on most; empty if there is none."""
        flip, decisive = self.hangs_on, self._decisive
        if flip is None:
            return ""
        step = flip.step
        sure = f", {how_sure(step.confidence)}" if step.confidence is not None else ""
        judged = f"{_short(step.call or '')} → {shown(step.value, _MAX_SHOWN)} (line {step.line}{sure})"
        if len(decisive) > 1 and all(other.step.confidence is not None for other in decisive):
            judged = f"most on {judged}"
        else:
            judged = f"on {judged}" + (f" and {count(len(decisive) - 1, 'other value')}" if decisive[1:] else "")
        then = f"it would be {_short(flip.answer)}" if flip.is_answered else "there would be no answer"
        return f"The answer depends {judged}: with {brief(flip.value, _MAX_SHOWN)} {then}."

    @property
    def _decisive(self) -> list[Flip]:
        return [flip for flip in self.flips if flip.outcome == "changes" and flip.step.by == "lm"]


def _short(text: str) -> str:
    return cut(plain(text.replace("\n", "⏎")), _MAX_SHOWN)


# --- where it comes from --------------------------------------------------------------------------------------------


def origin_of(found: Provenance, question: str | None) -> Origin:
    if found.run.answer is None or not found.run.answer.is_answered:
        return "none"
    most = max((_works(found, statement) for statement in core_statements(found)), default=PASSES_ON)
    if any(found.lineage.nodes[index].values for index in found.slice.core):
        calls = {step.call: step for step in found.values}
        is_worked_out = most >= CHOOSES
        if len(calls) == 1 and WholeQuestion(question).is_in(found.values[-1]):
            is_worked_out = _works_on(found, found.values[-1].call) or _works_elsewhere(found)
        return "program" if is_worked_out else "model"
    if most >= PREPARES or looked_up_keys(found, question):
        return "program"
    return passed_on_origin(found)


def _works_on(found: Provenance, call: str | None) -> bool:
    """Whether Python computes something from the value of a call, and does not only choose by it."""
    sources = {index for index, steps in found.steps.items() if any(step.call == call for step in steps)}
    workers: dict[int, list[int]] = {}
    for index in found.slice.core:
        for statement in _statements_of(found.lineage.nodes[index]):
            if _works(found, statement) == WORKS:
                workers.setdefault(statement, []).append(index)
    return any(sources & depends_on(found.lineage, own) for own in workers.values())


def _works_elsewhere(found: Provenance) -> bool:
    """Whether Python computes a part of the answer, or the alternative that is chosen."""
    parts = [found.lineage.nodes[index] for index in found.slice.core & found.slice.by_data]
    return any(_works(found, statement) == WORKS for node in parts for statement in _statements_of(node))


def core_statements(found: Provenance) -> set[int]:
    return {statement for index in found.slice.core for statement in _statements_of(found.lineage.nodes[index])}


def _statements_of(node: LineageNode) -> set[int]:
    return {node.statement, *node.whole}


def passed_on_origin(found: Provenance) -> Origin:
    return "input" if any(index in found.slice.core for index in found.lineage.inputs.values()) else "constant"


def is_written_down(found: Provenance) -> bool:
    """Whether the program has its answer as a literal; otherwise a long run need not be repeated."""
    text = found.run.answer.text.strip("'\"") if found.run.answer is not None else ""
    return text in found.run.program.source


def looked_up_keys(found: Provenance, question: str | None) -> set[str | int]:
    """Return the literal keys with which the program looks up a word of the question in its own table."""
    program, keys = found.run.program, set[str | int]()
    if program.language != "python":
        return keys
    core = [number for number in core_statements(found) if 0 <= number < len(program.statements)]
    lines = {program.statements[number].line for number in core}
    nodes, question_words = nodes_of(program.source), f" {' '.join(shown_words(question or ''))} "
    if not any(isinstance(node, ast.Dict) and len(node.keys) > 1 for node in nodes):
        return keys
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name() | ast.Subscript(), slice=ast.Constant(value=str() | int() as key)):
                named = " ".join(shown_words(str(key)))
                is_label = len(named) < 2 and isinstance(key, str)  # an option letter is the answer, not a lookup
                if node.lineno in lines and not is_label and named and f" {named} " in question_words:
                    keys.add(key)
    return keys


# --- what counts ---------------------------------------------------------------------------------------------------


def _works(found: Provenance, statement: int) -> int:
    works = found.lineage.works
    return works[statement] if 0 <= statement < len(works) else PASSES_ON


def flags_of(found: Provenance, origin: Origin, shown: str) -> tuple[str, ...]:
    """Return the reasons not to trust an answer, in words; `shown` is a different answer in the last step, if any."""
    flags = [ORIGINS[origin]] if origin != "program" else []
    if shown:
        flags.append(f"the answer is not what the last step shows: {shown}")
    if origin in ("constant", "input", "model"):
        flags += _left_out(found)
    if found.difference is not None:
        flags.append(f"it does not replay: different at {found.difference.where}")
    return tuple(flags)


def _left_out(found: Provenance) -> list[str]:
    """Return flags for work that the answer does not rest on."""
    idle = _idle(found)
    flags = [f"ignored: {idle} had no effect on the answer"] if idle else []
    core = {step.number for index in found.slice.core for step in found.steps.get(index, ())}
    other = [step for step in found.trace.steps if "answer" in step.delta and step.number not in core]
    lost = [step for step in other if _works(found, step.statement) >= PASSES_ON]
    if lost:
        flags.append(f"overwritten: line {lost[-1].line} had computed an answer")
    return flags


def _idle(found: Provenance, are_moot: bool = False) -> str:
    """Return the work that does not count, in words: `lines 3, 4 and 2 values`."""
    ignored = [n for n in found.statements - found.slice.statements if _works(found, n) >= CHOOSES]
    lines = sorted({found.run.program.statements[number].line for number in ignored})
    values = len({step.call for step in (*found.unused_values, *(found.values if are_moot else ()))})
    parts = []
    if lines:
        word = "lines" if len(lines) > 1 else "line"
        parts.append(f"{word} {', '.join(map(str, lines[:5]))}")
    if values:
        parts.append(count(values, "value"))
    return " and ".join(parts)


def used_share(found: Provenance, are_moot: bool) -> float:
    """Return the share of the work that counts: statements that compute something, and requested values."""
    ran = {statement for statement in found.statements if _works(found, statement) >= CHOOSES}
    used = ran & found.slice.statements
    kept, lost = {step.call for step in found.values}, {step.call for step in found.unused_values}
    whole = len(ran) + len(kept | lost)
    if not whole:
        return 0.0
    counted = 0 if are_moot else len(kept)
    return (len(used) + counted) / whole


def shares_of(found: Provenance) -> dict[str, float]:
    """Return the shares of Python, the LM and tools in what the answer rests on: runs of statements, and values."""
    counts = {"python": 0, "lm": 0, "tool": 0}
    for index in found.slice.nodes:
        node = found.lineage.nodes[index]
        counts["python"] += node.statement >= 0 and _works(found, node.statement) >= CHOOSES
    for step in found.values:
        counts[step.by] += 1
    total = sum(counts.values())
    return {by: count / total for by, count in counts.items()} if total else {}
