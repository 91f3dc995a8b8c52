"""Two runs side by side: the answers first, then the steps in which they differ, with a little of what is around."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..program import Program
from ..render import GUTTER, cut, fit, paint, plain, what
from ..trace import Answer, Step, Trace, as_json
from .recorded import Run

_MAX_MATCHED = 4_000_000  # pairs of steps that are looked at, to find out which of them belong together


@dataclass(frozen=True)
class Row:
    """A step of one run beside the one of the other that takes its place; None where there is no such step."""

    recorded: Step | None
    now: Step | None
    is_same: bool

    @property
    def mark(self) -> str:
        return "│" if self.is_same else "-" if self.now is None else "+" if self.recorded is None else "≠"


def rows(run: Run, now: Trace) -> list[Row]:
    """All steps of both, each beside its own."""
    program = now.program or run.program
    before = [_content(run.program, step) for step in run.steps]
    after = [_content(program, step) for step in now.steps]
    made: list[Row] = []
    for kind, a, b, c, d in _blocks(before, after):
        mine, theirs = run.steps[a:b], now.steps[c:d]
        if kind == "equal":
            made += [Row(one, other, True) for one, other in zip(mine, theirs, strict=True)]
        else:
            placed = [(step, _place(program, step)) for step in theirs]
            made += _changed([(step, _place(run.program, step)) for step in mine], placed)
    return made


def _changed(mine: Sequence[tuple[Step, object]], theirs: Sequence[tuple[Step, object]]) -> Iterator[Row]:
    """Steps of which none is the same: those of one statement stand beside each other."""
    for _, a, b, c, d in _blocks([place for _, place in mine], [place for _, place in theirs]):
        for one, other in itertools.zip_longest(mine[a:b], theirs[c:d]):
            yield Row(one and one[0], other and other[0], False)


def side_by_side(
    run: Run, now: Trace, *, width: int = 100, colour: bool = False, all_steps: bool = False, context: int = 1
) -> Iterator[str]:
    """Both as text, in two columns."""
    yield paint("bold", compared_answers(run.answer, now.answer), colour)
    both = rows(run, now)
    near = [both[max(place - context, 0) : place + context + 1] for place in range(len(both))]
    shown = [all_steps or not all(row.is_same for row in around) for around in near]
    if all(row.is_same for row in both):
        yield paint("dim", f"the steps are the same, all {len(both)}", colour)
    room = max((width - 3) // 2, 20)
    if any(shown):
        yield ""
        yield paint("dim", f"{fit('step line      recorded', room)}   step line      now", colour)
    hidden = 0
    for row, is_shown in zip(both, shown, strict=True):
        if not is_shown:
            hidden += 1
            continue
        if hidden:
            yield paint("dim", _skipped(hidden), colour)
        hidden = 0
        text = f"{fit(_cell(run.program, row.recorded, room), room)} {row.mark} "
        text = (text + _cell(now.program or run.program, row.now, room)).rstrip()
        yield text if row.is_same else paint("bold", text, colour)
    if hidden and any(shown):
        yield paint("dim", _skipped(hidden), colour)


def compared_answers(before: Answer | None, after: Answer | None) -> str:
    """`answer: 2 → 3`."""
    one, other = told_answer(before), told_answer(after)
    if one == other:
        return f"answer: {one} (as recorded)" if before is not None and before.reason == "answered" else other
    return f"answer: {one} → {other}"


def told_answer(answer: Answer | None) -> str:
    """An end in one line: the answer, or why there is none."""
    if answer is None:
        return "none: the run was broken off"
    if answer.reason == "answered":
        return cut(plain(answer.said or answer.text), 500)
    why = f": {answer.error.message}" if answer.error is not None else ""
    return cut(plain(f"none ({answer.reason}{why})"), 500)


def _content(program: Program, step: Step) -> bytes:
    """A step without its place: other lines of an edited program move it."""
    told = [_source(program, step), step.by, step.call, step.value, step.error]
    return as_json([*told, step.delta, step.outcome, step.output])


def _place(program: Program, step: Step) -> object:
    return step.by, _source(program, step), step.call


def _blocks(before: Sequence[object], after: Sequence[object]) -> list[tuple[str, int, int, int, int]]:
    """Stretches that are the same and that are not, as difflib gives them."""
    first = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    start = min(len(before), len(after)) if first is None else first
    if (len(before) - start) * (len(after) - start) > _MAX_MATCHED:
        middle = [("replace", start, len(before), start, len(after))]
    else:
        matcher = difflib.SequenceMatcher(None, before[start:], after[start:], autojunk=False)
        middle = [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in matcher.get_opcodes()]
    return [("equal", 0, start, 0, start), *middle]


def _source(program: Program, step: Step) -> str:
    is_known = 0 <= step.statement < len(program.statements)
    return program.text(step.statement).partition("\n")[0].strip() if is_known else ""


def _cell(program: Program, step: Step | None, width: int) -> str:
    if step is None:
        return ""
    told = what(step, width - 15) or _source(program, step)
    if step.output:
        told += f"   prints {step.output.rstrip()}"
    return cut(plain(f"{step.number:>4} {step.line:>4}  {GUTTER[step.by]}  {told.expandtabs(4)}"), width)


def _skipped(count: int) -> str:
    return f"   ⋮       {count} {'step' if count == 1 else 'steps'} the same"


__all__ = ["Row", "compared_answers", "rows", "side_by_side", "told_answer"]
