"""A timeline of a run, for the debugger: the state after each step, and the next step of a kind."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...emulator import Answering
from ...program import Program
from ...reasons import Reason
from ...sandbox import Sandbox
from ...trace import Answer, Kept, Step, Trace
from ...values.codec import ValueFormatError, brief, decode
from .alignment import Row, rows
from .changes import Changes
from .recorded import Run, runs_of
from .rerun import areplay

_MAX_SEARCHED = 100_000  # characters of a value


@dataclass(frozen=True)
class Variable:
    """A variable at a place; without a `text`, it was deleted. `since` is the place that set it (-1: an input)."""

    name: str
    text: str | None
    since: int
    is_changed: bool


class Timeline:
    """One run of a trace. A place is the index of a step.

    Deltas do not record the scope of a name: a variable of a function hides others with the same name.
    """

    def __init__(self, trace: Trace, run: Run, aligned: Sequence[Row] = (), missing: str = "") -> None:
        self.missing = missing  # the call without a value at which the run ended
        self.trace, self.run, self.steps = trace, run, run.steps
        self.lines = run.program.source.removesuffix("\n").split("\n")
        self._places = {step.number: place for place, step in enumerate(self.steps)}
        self._histories = _histories(trace, self.steps)
        self._ran = _ran(self.steps)
        self._rows = {self._places[row.now.number]: row for row in aligned if row.now is not None}

    def __len__(self) -> int:
        return len(self.steps)

    # --- the state --------------------------------------------------------------------------------------------

    def state(self, place: int) -> list[Variable]:
        """Return all variables after a step, the oldest first, and those that the step deleted."""
        found = []
        for name, (places, texts) in self._histories.items():
            index = bisect_right(places, place) - 1
            if index < 0 or (texts[index] is None and places[index] != place):
                continue
            is_changed = 0 <= place == places[index]
            found.append(Variable(name, texts[index], places[index], is_changed))
        return found

    def output(self, place: int, max_chars: int | None = None) -> str:
        """Return the output up to a step, or the last `max_chars` of it."""
        parts: list[str] = []
        left = max_chars
        for step in reversed(self.steps[: place + 1]):
            parts.append(step.output)
            if left is not None and (left := left - len(step.output)) <= 0:
                break
        text = "".join(reversed(parts))
        return text if max_chars is None else text[-max_chars:]

    def who(self, line: int) -> Mapping[str, int]:
        """Return who ran a line of the program (`python`, `lm`, `tool`), and the first place at which each did."""
        return self._ran.get(line, {})

    def row(self, place: int) -> Row | None:
        """Return the step paired with the recorded one, if this run was edited."""
        return self._rows.get(place)

    # --- navigation -------------------------------------------------------------------------------------------

    def place_of(self, number: int) -> int | None:
        return self._places.get(number)

    def asked(self, place: int, way: Literal[1, -1] = 1) -> int | None:
        """Return the next or previous step of the LM or of a tool."""
        return self._seek(place, way, lambda at: not self.steps[at].is_code)

    def printing(self, place: int, way: Literal[1, -1] = 1) -> int | None:
        return self._seek(place, way, lambda at: bool(self.steps[at].output))

    def differing(self, place: int, way: Literal[1, -1] = 1) -> int | None:
        return self._seek(place, way, lambda at: (row := self._rows.get(at)) is not None and not row.is_same)

    def find(self, text: str, place: int) -> int | None:
        """Return the next step that changes or mentions a string, then from the top; whole words come first."""
        size = len(self.steps)
        around = [at % size for at in range(place + 1, place + 1 + size)]
        patterns = [rf"(?<!\w){re.escape(text)}(?!\w)", re.escape(text)]
        for pattern in patterns if text else []:
            wanted = re.compile(pattern, re.IGNORECASE)
            found = next((at for at in around if any(map(wanted.search, self._mentioned(self.steps[at])))), None)
            if found is not None:
                return found
        return None

    def _mentioned(self, step: Step) -> Iterator[str]:
        for name, value in step.delta.items():
            yield name
            yield value or ""
        yield from (step.call or "", step.outcome or "", step.error or "", step.output)
        if step.call is not None:
            yield value_text(step, _MAX_SEARCHED)
        if 0 < step.line <= len(self.lines):
            yield self.lines[step.line - 1]

    def _seek(self, place: int, way: int, is_wanted: Callable[[int], bool]) -> int | None:
        ahead = range(place + 1, len(self.steps)) if way > 0 else range(place - 1, -1, -1)
        return next((at for at in ahead if is_wanted(at)), None)


def timelines(trace: Trace) -> list[Timeline]:
    """Return a timeline for each program that was run; if none was, one without steps."""
    runs = runs_of(trace) or [Run(1, trace.program or Program(""), (), trace.answer)]
    return [Timeline(_single_run(trace, run), run) for run in runs]


async def edited(
    recorded: Timeline, now: Timeline, changes: Changes, emulator: Answering = None, sandbox: Sandbox | str = "auto"
) -> Timeline:
    """Return the run with changed values, aligned with the recorded one."""
    done = await areplay(now.trace, changes=changes, emulator=emulator, sandbox=sandbox, earlier=recorded.run)
    trace = done.trace
    run = Run(recorded.run.number, trace.program or recorded.run.program, tuple(trace.steps), trace.answer)
    aligned = await asyncio.to_thread(rows, recorded.run, trace)
    is_over = trace.answer is None or trace.answer.reason is not Reason.EMULATION_FAILED
    return Timeline(trace, run, aligned, "" if is_over else done.missing)


def value_text(step: Step, max_chars: int) -> str:
    """Return the value of a step of the LM or a tool as Python prints it, cut to about `max_chars`."""
    try:
        return brief(decode(step.value), max_chars)
    except ValueFormatError:
        return "?"


def _single_run(trace: Trace, run: Run) -> Trace:
    """Return a trace with one run only, because a what-if runs the last program of a trace."""
    ended: list[Answer] = [run.answer] if run.answer is not None else []
    events: list[Kept] = [run.program, *run.steps, *ended]
    return replace(trace, events=events)


def _histories(trace: Trace, steps: Sequence[Step]) -> dict[str, tuple[list[int], list[str | None]]]:
    """Return, for each name, the places that set it, and its values: small even for many steps and names."""
    initial = dict(trace.inputs) if trace.question is None else {"question": trace.question, **trace.inputs}
    made: dict[str, tuple[list[int], list[str | None]]] = {
        name: ([-1], [brief(value)]) for name, value in initial.items()
    }
    for place, step in enumerate(steps):
        for name, text in step.delta.items():
            places, texts = made.setdefault(name, ([], []))
            places.append(place)
            texts.append(text)
    return made


def _ran(steps: Sequence[Step]) -> dict[int, dict[str, int]]:
    ran: dict[int, dict[str, int]] = {}
    for place, step in enumerate(steps):
        ran.setdefault(step.line, {}).setdefault(step.by, place)
    return ran


__all__ = ["Timeline", "Variable", "edited", "timelines", "value_text"]
