"""Evidence: re-runs of a recorded program with one change each, and whether the answer changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from ...emulator import Answered, Emulator, Pause
from ...errors import ChainOfCodeError, EmulationError
from ...sandbox import Sandbox
from ...trace import Step, Trace
from ..provenance.followed import Provenance
from ..replay.changes import Changes
from ..replay.rerun import areplay
from .flips import joint_changes, other_value
from .mutations import Mutation, function_of, value_of
from .operands import operands_of

Matters = Literal["yes", "no", "unknown"]
_LEAST_SECONDS, _TIMES_LONGER = 0.5, 10  # a mutant may loop forever
_LEAST_RUNS = 40
OTHER_QUESTIONS = (
    "Name a colour.",
    "Is the sky blue?",
    "A train leaves at 9 and arrives at 17, and another one leaves an hour later. They meet after 90 kilometres, in a "
    "small town with two bridges. Every passenger has one ticket. How long does the second one take for the whole way?",
)


class Reruns:
    """Runs a recorded program with changes, for a limited time; counts how often the answer stayed and was missing.

    Calls get their recorded value, or the last value of the same function if their arguments changed.
    """

    def __init__(self, trace: Trace, found: Provenance, sandbox: Sandbox, seconds: float) -> None:
        self._trace, self._source, self._sandbox = trace, found.run.program.source, sandbox
        self._steps = found.trace.steps
        answer = found.run.answer
        self.answer = bare(answer.text) if answer is not None else ""
        self._each = max(_LEAST_SECONDS, _TIMES_LONGER * (answer.seconds if answer is not None else 0.0))
        self._ends = time.monotonic() + seconds
        self._left = _LEAST_RUNS if seconds >= 1 else 0  # runs that are made even on a slow machine
        self.kept = self.failed = 0
        self.is_unanswered = False  # some run made a call that the trace has no value for

    @property
    def has_time(self) -> bool:
        return self._left > 0 or time.monotonic() < self._ends

    async def answer_with(
        self, mutation: Mutation | None = None, question: str | None = None, changes: Changes | None = None
    ) -> str | None:
        """Return the answer of a changed run without its quotes; None without an answer."""
        source = mutation.applied_to(self._source) if mutation is not None else None
        if mutation is not None and source is None:
            return None
        if question is not None:
            changes = Changes(inputs={"question": question})
        known = _LastValues(self._steps, changes)
        rerun = areplay(self._trace, changes=changes, program=source, emulator=known, sandbox=self._sandbox)
        seconds = max(_LEAST_SECONDS, min(self._each, self._ends - time.monotonic()))
        try:
            answer = (await asyncio.wait_for(rerun, seconds)).trace.answer
        except TimeoutError:
            self._left = 0
            return None
        except ChainOfCodeError:
            return None
        self._left -= 1
        self.is_unanswered |= known.is_unanswered
        return bare(answer.text) if answer is not None and answer.is_answered else None

    async def changes(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a changed run gives another answer. A run without an answer is no evidence."""
        now = await self.answer_with(*args, **kwargs)
        self.kept += now == self.answer
        self.failed += now is None
        return now is not None and now != self.answer


class _LastValues(Emulator):
    """Answers each call with the last recorded value of its function, for any arguments."""

    def __init__(self, steps: Iterable[Step], changes: Changes | None = None) -> None:
        others = changes.steps if changes is not None else {}
        requested = [step for step in steps if not step.is_code]
        self._values = {function_of(step): others.get(step.number, value_of(step)) for step in requested}
        self.is_unanswered = False  # a function was called that has no recorded value

    async def answer(self, pause: Pause) -> Answered:
        if pause.name not in self._values:
            self.is_unanswered |= pause.kind == "call"
            raise EmulationError(f"no recorded value for {pause.name}")
        return Answered(self._values[pause.name])


async def does_work_matter(
    reruns: Reruns, found: Provenance, statements: Collection[int], tables: Collection[str | int]
) -> Matters:
    """Whether the answer changes with some operand of the operations in these statements."""
    operands = operands_of(found, statements, tables)
    if operands is None:
        return "unknown"
    kept: dict[int, bool] = {operand.statement: False for operand in operands if not operand.may_fail}
    for turn in range(max((len(operand.mutations) for operand in operands), default=0)):
        for operand in operands:
            if not reruns.has_time:
                return "unknown"
            before = reruns.kept
            if turn < len(operand.mutations) and await reruns.changes(operand.mutations[turn]):
                return "yes"
            kept[operand.statement] = kept.get(operand.statement, True) or reruns.kept > before
    return "no" if all(kept.values()) and not reruns.is_unanswered else "unknown"


async def do_data_matter(reruns: Reruns, trace: Trace, found: Provenance) -> Matters:
    """Whether the answer changes with the question, the inputs, or the values of the model."""
    if "question" in found.slice.inputs:
        for question in OTHER_QUESTIONS:
            if await reruns.changes(question=question):
                return "yes"
    all_changes = _data_changes(trace, found)
    failed = reruns.failed
    for place, changes in enumerate(all_changes):
        if not reruns.has_time:
            return "unknown"
        if await reruns.changes(changes=changes):
            return "yes"
        if 2 * (reruns.failed - failed) > place + 1 == len(all_changes):  # most of them failed
            return "unknown"
    return "no" if reruns.kept or not reruns.failed else "unknown"


def _data_changes(trace: Trace, found: Provenance) -> Sequence[Changes]:
    inputs = {name: other_value(value) for name, value in trace.inputs.items() if name in found.slice.inputs}
    changes = [Changes(inputs=inputs)] if inputs else []
    for joint in joint_changes(found.run.program, found.values):
        others = {step.call: other for step, other in joint}
        changes.append(Changes(steps={step.number: others[step.call] for step in found.values if step.call in others}))
    return changes


def bare(text: str) -> str:
    """Return an answer without quotes, in lower case."""
    return text.strip().strip("'\"").casefold()
