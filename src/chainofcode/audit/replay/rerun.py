"""Replay: a trace is run again with its recorded values, without model, network and tools. The result must be the same.

With changes, it is a what-if: everything downstream of them is recomputed.
"""

from __future__ import annotations

import dataclasses
import platform
from dataclasses import dataclass

import msgspec

from ...emulator import Answering, Emulator, as_emulator
from ...engine import Result, RunOptions, execute_program
from ...engine.blocking import blocking
from ...errors import InputError
from ...languages import language_named
from ...program import Program
from ...sandbox import Sandbox, opened
from ...trace import Answer, Kept, Produced, Step, Trace
from .changes import Changes
from .differences import Difference, by_chance, first_difference, last_word
from .grants import Grants, approve
from .recorded import Recorded, Run, answering, recorded_options, runs_of


@dataclass(frozen=True)
class Replay:
    """The outcome of a replay. `trace` is that of the new run: of every program, or of the changed one."""

    recorded: Trace
    trace: Trace
    runs: tuple[Run, ...]  # those of the recorded trace that were run again
    difference: Difference | None = None  # the first
    notes: tuple[str, ...] = ()  # on its comparability
    artifacts: dict[str, bytes] | None = None  # by SHA-256
    missing: str = ""  # the call that had no value

    @property
    def is_same(self) -> bool:
        return self.difference is None

    @property
    def result(self) -> Result:
        """The result of the (last) program now."""
        return Result.of_trace(self.trace, self.artifacts or {})

    @property
    def steps(self) -> list[Step]:
        """The recorded steps that were run again."""
        return [step for run in self.runs for step in run.steps]


async def areplay(
    trace: Trace,
    *,
    changes: Changes | None = None,
    program: str | None = None,
    emulator: Answering = None,
    sandbox: Sandbox | str = "auto",
    earlier: Run | None = None,
    grant_recorded: bool = False,
) -> Replay:
    """Run every program of a trace again and compare. With changes, another program or an emulator, run a what-if.

    A what-if runs only the program that gave the answer. A call without a recorded value gets one from the `earlier`
    run or from the emulator; otherwise the run ends with `emulation failed`. Raises InputError for a trace in which
    nothing was run, and GrantError if someone else's trace has grants, unless `grant_recorded`.
    """
    trace = approve(trace, Grants(recorded=grant_recorded))
    runs = runs_of(trace)
    if not runs:
        raise InputError("the trace has nothing to run again: no program of it was run")
    is_changed = changes is not None or program is not None or emulator is not None
    async with opened(sandbox) as place:
        if is_changed:
            return await _what_if(
                trace,
                answering(trace, runs),
                changes or Changes(),
                place,
                program=program,
                emulator=as_emulator(emulator) if emulator is not None else None,
                earlier=earlier,
            )
        events: list[Kept] = []
        difference, notes, store = None, _notes(trace), dict[str, bytes]()
        options = recorded_options(trace)
        for run in runs:
            now, files = await _again(run.program, Recorded(run), options, place)
            store |= files
            difference = difference or first_difference(run, now)
            notes += _ended(run, now)
            events += _with_then(now, run.then)
        difference = difference or last_word(trace, answering(trace, runs))
    again = Trace(trace.question, trace.inputs, trace.settings, events)
    return Replay(trace, again, tuple(runs), difference, tuple(notes), store)


def replay(
    trace: Trace,
    *,
    changes: Changes | None = None,
    program: str | None = None,
    emulator: Answering = None,
    sandbox: Sandbox | str = "auto",
    grant_recorded: bool = False,
) -> Replay:
    """`areplay` for code that is not async."""
    return blocking(
        areplay(
            trace,
            changes=changes,
            program=program,
            emulator=emulator,
            sandbox=sandbox,
            grant_recorded=grant_recorded,
        )
    )


async def _what_if(
    trace: Trace,
    run: Run,
    changes: Changes,
    place: Sandbox,
    *,
    program: str | None,
    emulator: Emulator | None,
    earlier: Run | None,
) -> Replay:
    changes.check_steps(run.steps)
    inputs = {**trace.inputs, **changes.inputs}
    question = inputs.pop("question", trace.question) if "question" not in trace.inputs else trace.question
    language = language_named(run.program.language)
    options = dataclasses.replace(recorded_options(trace), inputs=inputs, question=question, language=language)
    recorded = Recorded(run, changes, emulator, options.toolbox.tools, earlier)
    events, store = await _again(run.program if program is None else program, recorded, options, place)
    changes.check_calls(recorded.used, [step.call for step in run.steps if step.call is not None])
    edited = [*trace.edited, *changes.described(run.steps), *(["another program"] if program is not None else [])]
    settings = {**trace.settings, "edited": edited} if edited else trace.settings
    again = Trace(question, inputs, settings, events)
    difference = first_difference(run, events, with_program=program is None)
    return Replay(trace, again, (run,), difference, tuple(_notes(trace)), store, recorded.missing)


async def _again(
    program: str | Program, emulator: Recorded, options: RunOptions, place: Sandbox
) -> tuple[list[Kept], dict[str, bytes]]:
    """Run a program; return the events for the trace, and the files it left by their SHA-256."""
    events = [event async for event in execute_program(program, emulator, place, options)]
    files = {name: data for event in events if isinstance(event, Produced) for name, data in event.files.items()}
    return Trace.of(events).events, files


def _with_then(events: list[Kept], then: str) -> list[Kept]:
    return [msgspec.structs.replace(event, then=then) if isinstance(event, Answer) else event for event in events]


def _notes(trace: Trace) -> list[str]:
    if trace.python == platform.python_version():
        return []
    return [f"recorded with Python {trace.python}, run again with {platform.python_version()}"]


def _ended(run: Run, events: list[Kept]) -> list[str]:
    """Return notes on an end that may differ from run to run."""
    now = next((event.reason for event in reversed(events) if isinstance(event, Answer)), "guest died")
    which = f"program {run.number}" if run.number > 1 else "the program"
    if run.answer is None:
        return [f"{which} was interrupted when it was recorded: compared up to that point"]
    if not by_chance(run):
        return []
    this_time = "now too" if now == run.answer.reason else f"now {now}"
    return [
        f"{which} ended as {run.answer.reason} ({this_time}), which varies from run to run: compared up to that point"
    ]


__all__ = ["Replay", "areplay", "replay"]
