"""Continues an interrupted run: values in its trace are reused, and only missing ones are requested."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ...emulator import Answered, Pause, Toolbox
from ...engine import RunOptions
from ...engine.journal import BEGUN
from ...errors import InputError, TraceError
from ...lm import LM, Completion, Message
from ...lm.interface import Around
from ...methods.react import NEXT_ACTION
from ...program import Program
from ...reasons import Reason
from ...trace import Call, Step, Trace
from ...values.codec import ValueFormatError, decode
from .grants import Grants, approve
from .recorded import recorded_options

OVER = (Reason.ANSWERED, Reason.ERROR)  # ends after which nothing is left to do


class Resumed:
    """What a trace supplies to the continued run: replies for requests, values for the calls of programs.

    Raises GrantError if someone else's trace has grants, unless `grant_recorded`.
    """

    def __init__(self, trace: Trace, *, grant_recorded: bool = False) -> None:
        check_unfinished(trace)
        trace = approve(trace, Grants(recorded=grant_recorded))
        self.trace = trace
        self._runs = _recorded_runs(trace)

    @property
    def program(self) -> Program | None:
        """The program of a run that was given one; None if a model wrote it, or was asked to."""
        return find_given_program(self.trace)

    @property
    def requests(self) -> list[Call]:
        """The requests for programs and stated answers, in order: those that gave no value of a call."""
        return [call for call in self.trace.calls if not call.answers and not call.is_abandoned]

    @property
    def question(self) -> str:
        """The question of a run whose program a model writes."""
        if not self.trace.question:
            raise InputError("the trace has nothing to resume: neither a program nor a question")
        return self.trace.question

    def options(self, box: Toolbox) -> RunOptions:
        """Return the options that the run had, with tools that do not repeat calls that were begun."""
        options = recorded_options(self.trace)
        missing = sorted(set(options.toolbox.tools) - set(box.tools))
        if missing:
            raise InputError(f"the run had the tool {missing[0]!r}: grant it again with --tool, --openapi or --mcp")
        tools, asked = dataclasses.replace(box, recall=self.recall), self.trace.settings.get("asked", {})
        return dataclasses.replace(options, tools=tools, in_flight=None, asked=asked)

    def model(self, lm: LM) -> LM:
        """Return a model that returns recorded replies to the requests that have one."""
        return _Replying(lm, self.requests)

    def recall(self) -> Callable[[Pause], Answered | None]:
        """Return the function that looks up the recorded values of the next program."""
        return _Recalling(self._runs).value


def check_unfinished(trace: Trace) -> None:
    """Raise InputError for a run that cannot be continued, or need not be."""
    ended = trace.answer
    if ended is not None and not ended.then and ended.reason in OVER:
        raise InputError(f"nothing is left to do: the run ended ({ended.reason}); coc replay runs it again")
    if trace.edited:
        raise InputError("the trace is a what-if, not a run: there is nothing to resume")
    if any(NEXT_ACTION in run.program.holes for run in _recorded_runs(trace)):
        raise InputError("a run of the method react cannot be resumed: its conversation would start again")


def find_given_program(trace: Trace) -> Program | None:
    """Return the program of a run that was given one; None if a model wrote it, or was asked to."""
    for event in trace.events:
        if isinstance(event, Program):
            return event
        if isinstance(event, Call) and not event.tool and not event.answers:
            return None
    return None


class _RecordedRun:
    """The recorded values of one program, by call, in the order in which it got them."""

    def __init__(self, program: Program) -> None:
        self.program, self.is_taken = program, False
        self.values: dict[str, list[Answered]] = {}
        self.begun: collections.Counter[str] = collections.Counter()  # tool calls whose outcome is not known
        self._cancelled: collections.Counter[str] = collections.Counter()
        self._sources: dict[str, list[tuple[Call, Any]]] = {}  # values whose step may be missing

    def add_call(self, call: Call) -> None:
        if call.tool and call.is_abandoned and call.reply == BEGUN:
            self.begun[call.prompt] += 1
        elif call.tool and call.is_abandoned:  # cancelled: it may have run, and is not repeated
            self._cancelled[call.prompt] += 1
        for text, value in call.answers.items():
            self._sources.setdefault(text, []).append((call, value))

    def add_step(self, step: Step) -> None:
        self._check(step)
        if step.call is None or step.how == "shared":
            return
        answered = Answered(
            _decoded(step.value, step),
            by="tool" if step.by == "tool" else "lm",
            error=step.error,
            raised=step.raised,
            confidence=step.confidence,
            model=step.model,
        )
        self.values.setdefault(step.call, []).append(answered)

    def _check(self, step: Step) -> None:
        """Raise InputError for a step of another program: its values, already paid for, would be dropped."""
        statements = self.program.statements
        place = statements[step.statement] if 0 <= step.statement < len(statements) else None
        if place is None or not place.line <= step.line <= place.end_line:
            raise InputError(
                f"the trace is of another program: step {step.number} at line {step.line} does not fit the program in "
                "the trace; the file was not changed"
            )

    def finish(self) -> None:
        """Add the requests to their values, and values that the program had not used yet."""
        spent: set[int] = set()
        for text, sources in self._sources.items():
            own = self.values.setdefault(text, [])
            for turn, (call, value) in enumerate(sources):
                by: Any = "tool" if call.tool else "lm"
                if turn >= len(own):
                    own.append(Answered(_decoded(value, call), by=by))
                if id(call) not in spent:  # of several values in one reply, the first has the request
                    own[turn] = dataclasses.replace(own[turn], calls=(call,))
                    spent.add(id(call))
        for text in self.begun:
            done = sum(answered.by == "tool" for answered in self.values.get(text, ()))
            self.begun[text] = max(0, self.begun[text] - done)
        self.begun += self._cancelled


def _recorded_runs(trace: Trace) -> list[_RecordedRun]:
    runs: list[_RecordedRun] = []
    for event in trace.events:
        if isinstance(event, Program):
            runs.append(_RecordedRun(event))
        elif isinstance(event, Call) and runs:
            runs[-1].add_call(event)
        elif isinstance(event, Step) and runs:
            runs[-1].add_step(event)
    for run in runs:
        run.finish()
    return runs


def _decoded(value: Any, where: Step | Call) -> Any:
    try:
        return decode(value)
    except ValueFormatError as error:
        place = f"step {where.number}" if isinstance(where, Step) else "a request"
        raise TraceError(f"the value of {place} cannot be read: {error}") from None


class _Recalling:
    """Looks up the recorded values of one program, for each call in order."""

    def __init__(self, runs: Sequence[_RecordedRun]) -> None:
        self._runs = runs
        self._run: _RecordedRun | None = None
        self._has_looked = False
        self._turns: collections.Counter[str] = collections.Counter()

    def value(self, pause: Pause) -> Answered | None:
        """Return a recorded value; for an unfinished tool call, an error, because the tool may have run."""
        if not self._has_looked:
            self._has_looked = True
            source = pause.program.source
            self._run = next((run for run in self._runs if not run.is_taken and run.program.source == source), None)
            if self._run is not None:
                self._run.is_taken = True
        if self._run is None:
            return None
        turn, known = self._turns[pause.text], self._run.values.get(pause.text, [])
        self._turns[pause.text] += 1
        if turn < len(known):
            return known[turn]
        if turn < len(known) + self._run.begun[pause.text]:
            when = "in progress when the run was interrupted"
            text = f"{pause.name} was {when}; it may have taken effect, so it is not called again"
            return Answered(None, by="tool", error=text, is_once=True)
        return None


class _Replying(Around):
    """Returns recorded replies for repeated requests, in order."""

    def __init__(self, lm: LM, recorded: Sequence[Call]) -> None:
        super().__init__(lm)
        self._left = list(recorded)
        self._is_checked = not recorded

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        text = "\n\n".join(message.content for message in messages)
        wanted = int(options.get("n", 1))
        found = [call for call in self._left if call.prompt and text.endswith(call.prompt)][:wanted]
        if len(found) == wanted:
            self._is_checked = True
            self._left = [call for call in self._left if not any(call is one for one in found)]
            return [Completion(call.reply, call.usage, call.seconds, is_cached=call.is_cached) for call in found]
        if not self._is_checked:
            raise InputError(
                "the trace is of another run: its first request is not the one that would be made now, so no "
                "request was sent; give the same question, --method and files, or start a new run"
            )
        return await self._lm.complete(messages, **options)


__all__ = ["OVER", "Resumed"]
