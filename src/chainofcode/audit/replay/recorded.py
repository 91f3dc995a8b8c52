"""A trace, prepared for a re-run: its programs, their options, and an emulator that returns the recorded values."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from ...emulator import Answered, Emulator, Pause, Tool, Toolbox
from ...emulator.table import lookups, normal_text
from ...engine import RunOptions
from ...errors import BudgetError, EmulationError, TraceError
from ...languages.guest.requests import MAX_SHARED_BYTES, MAX_SHARED_STEPS
from ...program import Program
from ...reasons import Reason
from ...sandbox import File, Limits
from ...sandbox.frames import Failure
from ...trace import Answer, Call, Step, Trace
from ...values.codec import ValueFormatError, decode
from .changes import Changes
from .grants import check_approved, settings_of


@dataclass(frozen=True)
class Run:
    """One program of a trace and its outcome. Without an `answer`, the run was interrupted."""

    number: int
    program: Program
    steps: tuple[Step, ...] = ()
    answer: Answer | None = None
    then: str = ""  # what the method tried next


def runs_of(trace: Trace) -> list[Run]:
    """Return the programs that were run, in order, without those that a model only read."""
    runs: list[Run] = []
    program, steps = None, list[Step]()
    for event in [*trace.events, None]:
        if isinstance(event, Step):
            steps.append(event)
        elif not isinstance(event, Call):  # the end of a program, if there is one
            ended = event if isinstance(event, Answer) else None
            if program is not None and _was_run(steps, ended):
                runs.append(_run(len(runs) + 1, program, steps, ended))
            program, steps = (event if isinstance(event, Program) else None), []
    return runs


def _was_run(steps: Sequence[Step], ended: Answer | None) -> bool:
    return bool(steps) or ended is None or bool(ended.sandbox)


def _run(number: int, program: Program, steps: Sequence[Step], ended: Answer | None) -> Run:
    is_own = ended is not None and bool(ended.sandbox)  # otherwise the answer is the method's
    then = ended.then if ended is not None else ""
    return Run(number, program, tuple(steps), ended if is_own else None, then)


def answering(trace: Trace, runs: Sequence[Run]) -> Run:
    """Return the run that gave the trace's answer: the last, or an earlier one whose answer was kept."""
    answer = trace.answer
    for run in reversed(runs):
        own = run.answer
        if answer is None or own is None or not answer.is_answered or not own.is_answered:
            continue
        if (answer.said or answer.text) == (own.said or own.text):
            return run
    return runs[-1]


def recorded_options(trace: Trace) -> RunOptions:
    """Return the options that a trace recorded; its tools are only names, without functions.

    Raises GrantError for a trace with grants that need approval.
    """
    check_approved(trace)
    settings = settings_of(trace)
    limits = Limits(**cast(Any, settings.limits))
    files = tuple(_file(name, path, settings.file_kinds) for name, path in settings.files.items())
    return RunOptions(
        question=trace.question,
        inputs=trace.inputs,
        policy=settings.policy,
        packages=settings.packages,
        reads=settings.reads,
        directory=settings.directory,
        prelude=files,
        scratch=settings.scratch,
        limits=limits,
        tools=_Names({name: Tool(name, _uncallable) for name in settings.tools}),
        share=settings.share,
        in_flight=1,
        clock=settings.clock,
        seed=settings.seed,
    )


def _wanted_a_value(run: Run) -> bool:
    """Whether a run ended for lack of a value."""
    return run.answer is None or run.answer.reason is Reason.EMULATION_FAILED or run.answer.reason.is_budget


def _file(name: str, path: str, kinds: Mapping[str, tuple[str, str]]) -> File:
    kind, separator = kinds[name]
    return File(name, path, cast(Any, kind), separator)


def _uncallable() -> None:
    raise AssertionError("a replay calls no tool")


class _Names(Toolbox):
    """Tools by name alone: their calls get recorded values, as all others do."""

    def around(self, emulator: Emulator) -> Emulator:
        return emulator


@dataclass
class _Value:
    """A recorded value, and whether the program used it again when it repeated the call."""

    step: Step
    is_shared: bool = False
    is_earlier: bool = False  # it is of an earlier run: changes of steps do not apply to it


class Recorded(Emulator):
    """Returns the recorded values of a run, for each call in order; another emulator, if any, answers new calls.

    Without changes, it fails where the recorded run failed, with the same error.
    """

    def __init__(
        self,
        run: Run,
        changes: Changes | None = None,
        other: Emulator | None = None,
        tools: Mapping[str, Any] = {},
        earlier: Run | None = None,
    ) -> None:
        self._run, self._changes, self._other, self._tools = run, changes, other, tools
        self.reads_state = other is not None and other.reads_state
        self._calls = {normal_text(text): value for text, value in changes.calls.items()} if changes else {}
        self._values = _queues(run.steps, changes.steps if changes else {})
        if earlier is not None:
            self._add_earlier(earlier)
        # The last value of a call also serves later uses, as most values do: the guest records only so many shared
        # steps. If the run ended for lack of a value, the last one may have been for one use only.
        self._may_go_on = changes is not None or not _wanted_a_value(run) or _is_cut(run.steps)
        self._left = sum(map(len, self._values.values()))
        self._turns: collections.Counter[str] = collections.Counter()
        self.used: set[str] = set()  # changed calls that the program made
        self.missing = ""  # the last call without a value

    def _add_earlier(self, earlier: Run) -> None:
        """Append the values of an earlier run to those of this one."""
        for call, values in _queues(earlier.steps, {}).items():
            own = self._values.setdefault(call, [])
            own += [_Value(value.step, value.is_shared, True) for value in values[len(own) :]]

    async def answer(self, pause: Pause) -> Answered:
        is_tool = pause.kind == "call" and pause.name in self._tools
        changed = next((text for text in lookups(pause) if text in self._calls), None)
        if changed is not None:
            self.used.add(changed)
            return Answered(self._calls[changed], by="tool" if is_tool else "lm")
        values, turn = self._values.get(pause.text, []), self._turns[pause.text]
        self._turns[pause.text] += 1
        if turn < len(values):
            self._left -= 1
            return self._again(values[turn], is_last=turn + 1 == len(values))
        if self._changes is None and not self._left:
            self._give_up()
        if values:
            return self._again(values[-1], is_last=True)
        return await self._from_other(pause, is_tool=is_tool)

    async def _from_other(self, pause: Pause, *, is_tool: bool) -> Answered:
        self.missing = pause.text
        if self._other is None or is_tool:
            more = "" if is_tool else ", or a model with --model"
            raise EmulationError(f"the trace has no value for the {pause.kind} {pause.text}: give one with --set{more}")
        answered = await self._other.answer(pause)
        self.missing = ""
        return answered

    def _again(self, value: _Value, is_last: bool) -> Answered:
        step = value.step
        by: Literal["lm", "tool"] = "tool" if step.by == "tool" else "lm"
        is_once = not value.is_shared and not (is_last and self._may_go_on)
        if self._changes is not None and step.number in self._changes.steps and not value.is_earlier:
            return Answered(self._changes.steps[step.number], by=by, is_once=is_once)
        try:
            recorded = decode(step.value)
        except ValueFormatError as error:
            raise TraceError(f"the value of step {step.number} cannot be read: {error}") from None
        return Answered(
            recorded,
            by=by,
            error=step.error,
            raised=step.raised,
            is_once=is_once,
            confidence=step.confidence,
            model=step.model,
        )

    def _give_up(self) -> None:
        ended = self._run.answer
        if ended is None:
            raise EmulationError("the recorded run was interrupted here")
        error = ended.error or Failure(ended.reason, "")
        if ended.reason is Reason.EMULATION_FAILED:
            raise EmulationError(error.message, code=error.code, about=error.about)
        if ended.reason.is_budget:
            raise BudgetError(ended.reason.limit, error.message)


def _is_cut(steps: Sequence[Step]) -> bool:
    """Whether a run reused values more often than the guest records."""
    shared = [step.value for step in steps if step.how == "shared"]
    size = sum(len(json.dumps(value, separators=(",", ":"))) for value in shared)  # as the guest counts it
    return len(shared) >= MAX_SHARED_STEPS or size >= MAX_SHARED_BYTES


def _queues(steps: Sequence[Step], changed: Mapping[int, Any]) -> dict[str, list[_Value]]:
    """Return the values of each call, in the order in which it got them."""
    requested = [step for step in steps if step.call is not None]
    unshared = {step.call for step in requested if step.number in changed}  # each use has a value of its own
    queues: dict[str, list[_Value]] = {}
    for step in requested:
        queue = queues.setdefault(step.call or "", [])
        if step.how == "shared" and queue and step.call not in unshared:
            queue[-1].is_shared = True
        else:
            queue.append(_Value(step))
    return queues


__all__ = ["Recorded", "Run", "answering", "recorded_options", "runs_of"]
