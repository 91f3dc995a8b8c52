"""Two runs side by side: the answers first, then the steps in which they differ, with some context."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...program import Program
from ...render import GUTTER, count, cut, fit, paint, plain, what
from ...trace import Answer, Step, Trace, as_json
from .recorded import Run

_MAX_MATCHED = 1000  # steps that are aligned at a time
_MAX_ON_A_LINE = 20
_MAX_REWRITTEN, _ALIKE = 50, 0.6  # lines that are compared; the similarity from which two belong together


@dataclass(frozen=True)
class Row:
    """A pair of corresponding steps of two runs; None if one run has no such step."""

    recorded: Step | None
    now: Step | None
    is_same: bool

    @property
    def mark(self) -> str:
        if self.is_same:
            return "│"
        if self.now is None:
            return "-"
        return "+" if self.recorded is None else "≠"


def rows(run: Run, now: Trace) -> list[Row]:
    """Align all steps of two runs. Steps of different statements are never paired."""
    program = now.program or run.program  # looked up once: a trace searches its events
    lines = _same_lines(run.program, program)
    before = [_Placed(step, lines.get(step.line, -step.line), _turn(run.program, step)) for step in run.steps]
    after = [_Placed(step, step.line, _turn(program, step)) for step in now.steps]
    return list(_aligned(before, after, [_Placed.content, _Placed.call, _Placed.statement]))


@dataclass(frozen=True)
class _Placed:
    """A step, and its line in the program now (below 0: removed).

    The methods are the keys by which steps are aligned, the strictest first.
    """

    step: Step
    line: int
    turn: int  # the position of the statement among those that begin on the line

    def content(self) -> object:
        step = self.step
        results = [step.call, step.value, step.error, step.delta, step.outcome, step.output]
        return (*self.statement(), as_json(results))

    def call(self) -> object:
        return (*self.statement(), self.step.call)

    def statement(self) -> tuple[str, int, int]:
        return self.step.by, self.line, self.turn


def _aligned(
    before: Sequence[_Placed], after: Sequence[_Placed], keys: Sequence[Callable[[_Placed], object]]
) -> Iterator[Row]:
    """Align steps by the first key, then those left in between by the next; the rest have no counterpart."""
    if not keys or not before or not after:
        yield from (Row(one.step, None, False) for one in before)
        yield from (Row(None, other.step, False) for other in after)
        return
    for kind, a, b, c, d in _blocks(list(map(keys[0], before)), list(map(keys[0], after))):
        if kind != "equal":
            yield from _aligned(before[a:b], after[c:d], keys[1:])
            continue
        for one, other in zip(before[a:b], after[c:d], strict=True):
            yield Row(one.step, other.step, one.content() == other.content())


def _turn(program: Program, step: Step) -> int:
    earlier = program.statements[max(step.statement - _MAX_ON_A_LINE, 0) : max(step.statement, 0)]
    return sum(statement.line == step.line for statement in earlier)


def _same_lines(before: Program, after: Program) -> dict[int, int]:
    """Map the lines of a program to those of an edited one; a rewritten line is mapped to a similar one."""
    old, new = ([line.strip() for line in program.source.split("\n")] for program in (before, after))
    same: dict[int, int] = {}
    for _, a, b, c, d in _blocks(old, new):
        if b - a == d - c:
            same |= {a + n + 1: c + n + 1 for n in range(b - a)}
        else:
            same |= {a + one + 1: c + other + 1 for one, other in _alike(old[a:b], new[c:d])}
    return same


def _alike(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of similar lines, in order."""
    start = 0
    for one, line in enumerate(old[:_MAX_REWRITTEN]):
        near = range(start, min(start + _MAX_REWRITTEN, len(new)))
        ratios = {other: difflib.SequenceMatcher(None, line[:200], new[other][:200]).ratio() for other in near}
        best = max(ratios, key=lambda other: ratios[other], default=None)
        if best is not None and ratios[best] >= _ALIKE:
            yield one, best
            start = best + 1


def side_by_side(
    run: Run, now: Trace, *, width: int = 100, colour: bool = False, all_steps: bool = False, context: int = 1
) -> Iterator[str]:
    """Return both runs as text, in two columns."""
    yield paint("bold", compared_answers(run.answer, now.answer), colour)
    both, program = rows(run, now), now.program or run.program
    near = [both[max(place - context, 0) : place + context + 1] for place in range(len(both))]
    shown = [all_steps or not all(row.is_same for row in around) for around in near]
    if all(row.is_same for row in both):
        yield paint("dim", f"no differences in {count(len(both), 'step')}", colour)
    room = max((width - 3) // 2, 20)
    if any(shown):
        yield ""
        yield paint("dim", f"{fit('step line      recorded', room)}   step line      now", colour)
    for is_shown, group in itertools.groupby(zip(shown, both, strict=True), key=lambda pair: pair[0]):
        together = [row for _, row in group]
        if not is_shown and any(shown):
            yield paint("dim", _skipped(len(together)), colour)
        for row in together if is_shown else ():
            text = f"{fit(_cell(run.program, row.recorded, room), room)} {row.mark} "
            text = (text + _cell(program, row.now, room)).rstrip()
            yield text if row.is_same else paint("bold", text, colour)


def compared_answers(before: Answer | None, after: Answer | None) -> str:
    """Return a line such as `answer: 2 → 3`."""
    one, other = outcome_text(before), outcome_text(after)
    if one == other:
        return f"answer: {one} (as recorded)" if before is not None and before.is_answered else other
    return f"answer: {one} → {other}"


def outcome_text(answer: Answer | None) -> str:
    """Return the end of a run in one line: the answer, or why there is none."""
    if answer is None:
        return "none: the run was interrupted"
    if answer.is_answered:
        return cut(plain(answer.said or answer.text), 500)
    why = f": {answer.error.message}" if answer.error is not None else ""
    return cut(plain(f"none ({answer.reason}{why})"), 500)


def _blocks(before: Sequence[object], after: Sequence[object]) -> list[tuple[str, int, int, int, int]]:
    """Return equal and different blocks as difflib does; long sequences are compared piece by piece."""
    a = c = _same_at_first(before, after)
    made = [("equal", 0, a, 0, c)]
    while a < len(before) or c < len(after):
        pieces = before[a : a + _MAX_MATCHED], after[c : c + _MAX_MATCHED]
        codes = difflib.SequenceMatcher(None, *pieces, autojunk=False).get_opcodes()
        is_end = a + len(pieces[0]) == len(before) and c + len(pieces[1]) == len(after)
        if not is_end and len(codes) > 1 and codes[-1][0] != "equal":
            codes.pop()  # the next piece may have its counterpart
        made += [(kind, a + i, a + j, c + k, c + m) for kind, i, j, k, m in codes]
        a, c = made[-1][2], made[-1][4]
    return made


def _same_at_first(before: Sequence[object], after: Sequence[object]) -> int:
    pairs = zip(before, after, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _source(program: Program, step: Step) -> str:
    is_known = 0 <= step.statement < len(program.statements)
    return program.first_line(step.statement).strip() if is_known else ""


def _cell(program: Program, step: Step | None, width: int) -> str:
    if step is None:
        return ""
    result = what(step, width - 15) or _source(program, step)
    if step.output:
        result += f"   prints {step.output.rstrip()}"
    return cut(plain(f"{step.number:>4} {step.line:>4}  {GUTTER[step.by]}  {result.expandtabs(4)}"), width)


def _skipped(count: int) -> str:
    return f"   ⋮       {count} {'step' if count == 1 else 'steps'} the same"


__all__ = ["Row", "compared_answers", "outcome_text", "rows", "side_by_side"]
