"""The first difference between a recorded run and its replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...program import Program
from ...reasons import Reason
from ...trace import Answer, Event, Step, Trace, as_json
from .recorded import Run

STEP_FIELDS = ("by", "statement", "line", "call", "value", "error", "delta", "outcome", "output", "visit", "number")
_ANSWER_FIELDS = ("reason", "error", "text", "value", "source", "stderr", "artifacts")
_PROGRAM_FIELDS = tuple(name for name in Program.__struct_fields__ if name != "hole_places")  # follows from the source


@dataclass(frozen=True)
class Difference:
    """The first difference: in which program of the trace, at which step (None: in its text, or at its end)."""

    run: int
    step: int | None
    line: int | None
    field: str
    recorded: Any
    now: Any

    @property
    def where(self) -> str:
        place = f"step {self.step} (line {self.line})" if self.step is not None else "the end"
        place = "the program" if self.field.startswith("program") else place
        return place if self.run == 1 else f"{place} of program {self.run}"


def first_difference(run: Run, events: Sequence[Event], *, with_program: bool = True) -> Difference | None:
    return next(_differences(run, events, with_program), None)


def last_word(trace: Trace, run: Run) -> Difference | None:
    """Return how the answer of a trace differs from that of the program, if no model stated it."""
    stated, computed = trace.answer, run.answer
    if stated is None or computed is None or not stated.is_answered or stated.source == "reply":
        return None
    text = stated.said or stated.text
    own_text = (computed.said or computed.text) if computed.is_answered else computed.reason
    return Difference(run.number, None, None, "text", text, own_text) if text != own_text else None


def by_chance(run: Run) -> str:
    """Return the reason of an end that depends on the machine and its load; empty if it must always be the same."""
    return run.answer.reason if run.answer is not None and run.answer.reason.is_by_chance else ""


def _differences(run: Run, events: Sequence[Event], with_program: bool) -> Iterator[Difference]:
    program = next((event for event in events if isinstance(event, Program)), None)
    answer = next((event for event in reversed(events) if isinstance(event, Answer)), Answer(Reason.GUEST_DIED))
    steps = [event for event in events if isinstance(event, Step)]
    if with_program and program is not None:
        for name, recorded, now in _unlike(run.program, program, _PROGRAM_FIELDS):
            yield Difference(run.number, None, None, f"program.{name}", recorded, now)
    for before, after in zip(run.steps, steps, strict=False):
        for name, recorded, now in _unlike(before, after, STEP_FIELDS):
            yield Difference(run.number, before.number, before.line, name, recorded, now)
    is_open = run.answer is None or bool(by_chance(run))
    lacks = len(steps) < len(run.steps) if is_open else len(steps) != len(run.steps)
    if lacks and not answer.reason.is_by_chance:
        yield _missing(run, steps)
    if run.answer is not None and not is_open:
        yield from _of_answers(run, run.answer, answer)


def _unlike(before: object, after: object, names: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields in which two records differ, with both values."""
    for name in names:
        recorded, now = getattr(before, name), getattr(after, name)
        if as_json(recorded) != as_json(now):
            yield name, recorded, now


def _missing(run: Run, steps: Sequence[Step]) -> Difference:
    """Return the difference for a step that only one run has."""
    place = min(len(steps), len(run.steps))
    before = run.steps[place] if place < len(run.steps) else None
    after = steps[place] if place < len(steps) else None
    present = before or after
    records = [None if step is None else msgspec.to_builtins(step) for step in (before, after)]
    number, line = (present.number, present.line) if present is not None else (None, None)
    return Difference(run.number, number, line, "step", *records)


def _of_answers(run: Run, before: Answer, after: Answer) -> Iterator[Difference]:
    names: tuple[str, ...] = _ANSWER_FIELDS
    if before.type:  # the method converted the answer of the program, or failed to
        before = msgspec.structs.replace(before, reason=Reason.ANSWERED, error=None, text=before.said or before.text)
        names = tuple(name for name in names if name != "value")
    if before.error is not None and after.error is not None and before.error.statement is None:
        unplaced = msgspec.structs.replace(after.error, line=before.error.line, statement=None)
        after = msgspec.structs.replace(after, error=unplaced)  # the recorded run has no position
    if before.error is not None and after.error is not None and not before.error.code:
        uncoded = msgspec.structs.replace(after.error, code="", about="")
        after = msgspec.structs.replace(after, error=uncoded)  # recorded by a version without codes
    line = before.error.line if before.error is not None else None
    for name, recorded, now in _unlike(before, after, names):
        yield Difference(run.number, None, line, name, recorded, now)


__all__ = ["STEP_FIELDS", "Difference", "by_chance", "first_difference", "last_word"]
