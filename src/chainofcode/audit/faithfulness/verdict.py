"""What the evidence says of an answer: where it comes from, what counts, and a score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...languages.python.compiler.works import CHOOSES, HANDS_ON, PREPARES
from ...render import count
from ...trace import Call
from ..provenance.followed import Provenance
from ..replay.differences import Difference
from ..replay.integrity import Chain
from .echo import is_handed_all, looked_up, works_beside, works_on
from .flips import Flip
from .resampling import Sampled

Origin = Literal["program", "constant", "input", "model", "reply", "none"]
ORIGINS: Mapping[str, str] = {
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
        return ORIGINS[self.origin]


# --- where it comes from --------------------------------------------------------------------------------------------


def origin_of(found: Provenance, question: str | None) -> Origin:
    if found.run.answer is None or not found.run.answer.is_answered:
        return "none"
    most = max((_works(found, statement) for statement in _core_statements(found)), default=HANDS_ON)
    if any(found.lineage.nodes[index].values for index in found.slice.core):
        calls = {step.call: step for step in found.values}
        is_worked_out = most >= CHOOSES
        if len(calls) == 1 and is_handed_all(found.values[-1], question):
            is_worked_out = works_on(found, found.values[-1].call) or works_beside(found)
        return "program" if is_worked_out else "model"
    if most >= PREPARES or looked_up_keys(found, question):
        return "program"
    return handed_on(found)


def _core_statements(found: Provenance) -> set[int]:
    nodes = [found.lineage.nodes[index] for index in found.slice.core]
    return {node.statement for node in nodes} | {one for node in nodes for one in node.whole}


def handed_on(found: Provenance) -> Origin:
    return "input" if any(index in found.slice.core for index in found.lineage.inputs.values()) else "constant"


def is_written_down(found: Provenance) -> bool:
    """Whether the program has its answer as a literal: else it was worked out, and a long run need not be repeated."""
    text = found.run.answer.text.strip("'\"") if found.run.answer is not None else ""
    return text in found.run.program.source


def looked_up_keys(found: Provenance, question: str | None) -> set[str | int]:
    program, statements = found.run.program, _core_statements(found)
    lines = {program.statements[number].line for number in statements if 0 <= number < len(program.statements)}
    return looked_up(program.source, lines, question)


# --- what counts ---------------------------------------------------------------------------------------------------


def _works(found: Provenance, statement: int) -> int:
    works = found.lineage.works
    return works[statement] if 0 <= statement < len(works) else HANDS_ON


def flags_of(found: Provenance, origin: Origin) -> tuple[str, ...]:
    """Return the reasons not to trust an answer, in words."""
    flags = [ORIGINS[origin]] if origin != "program" else []
    if origin in ("constant", "input", "model"):
        flags += _left_out(found)
    if found.difference is not None:
        flags.append(f"it does not replay: different at {found.difference.where}")
    return tuple(flags)


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
    told = []
    if lines:
        word = "lines" if len(lines) > 1 else "line"
        told.append(f"{word} {', '.join(map(str, lines[:5]))}")
    if values:
        told.append(count(values, "value"))
    return " and ".join(told)


def used_share(found: Provenance, are_moot: bool) -> float:
    """The share of the work that counts: statements that work something out, and values that were asked for."""
    ran = {statement for statement in found.statements if _works(found, statement) >= CHOOSES}
    used = ran & found.slice.statements
    kept, lost = {step.call for step in found.values}, {step.call for step in found.unused_values}
    whole = len(ran) + len(kept | lost)
    if not whole:
        return 0.0
    counted = 0 if are_moot else len(kept)
    return (len(used) + counted) / whole


def shares_of(found: Provenance) -> dict[str, float]:
    """Of what the answer rests on, how much each did: runs of statements, and values."""
    counts = {"python": 0, "lm": 0, "tool": 0}
    for index in found.slice.nodes:
        node = found.lineage.nodes[index]
        counts["python"] += node.statement >= 0 and _works(found, node.statement) >= CHOOSES
    for step in found.values:
        counts[step.by] += 1
    total = sum(counts.values())
    return {by: count / total for by, count in counts.items()} if total else {}


__all__ = [
    "ORIGINS",
    "Origin",
    "Verdict",
    "flags_of",
    "handed_on",
    "is_written_down",
    "looked_up_keys",
    "origin_of",
    "shares_of",
    "used_share",
]
