"""Explain the lookahead of a program: which calls go out in which round, and which values later calls wait for.

Runs a shadow of the program (see engine/lookahead.py), without a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Unpack

from .emulator import Answering, Asking, Emulator, Pause, as_emulator
from .engine import RunKeywords, RunOptions
from .errors import EmulationError, InputError, ProgramError
from .lm.scripted import ScriptedLM
from .program import Program, Use
from .sandbox import Sandbox, Session, opened
from .sandbox.frames import Ended, Failure, Paused, ProgramParsed, Signal, Surveyed
from .values.codec import ValueFormatError, encode

_MAX_ROUNDS = 100
_MAX_DIGITS = 12
_CHARS_PER_TOKEN = 4
_PROMPTS = Asking(ScriptedLM(()))  # to estimate the length of prompts; none is sent


@dataclass(frozen=True)
class Expected:
    """A call for the model: its place in the source, and the round in which it goes out."""

    line: int
    call: str  # with its arguments; the function's name if the shadow did not reach it
    round: int | None = None
    waits_for: str = ""  # the call whose value it waits for; itself if it is never sent ahead
    rows: int = 0  # rows of a query that need this call
    pairs: int = 0  # pairs of rows that a join compares with such calls
    judges: str = ""  # in a join: whether a call judges one `row` or a `pair` of rows
    tokens: int = 0  # of its prompt, estimated


@dataclass(frozen=True)
class Explanation:
    """The calls of a program, and the error that its shadow ended with, if any."""

    calls: tuple[Expected, ...]
    error: Failure | None = None


@dataclass
class _Survey:
    """The reports of the shadow so far."""

    program: Program = field(default_factory=lambda: Program(""))
    rounds: list[list[Paused]] = field(default_factory=lambda: [[]])
    skipped: dict[int, str] = field(default_factory=dict)
    error: Failure | None = None

    def note(self, signal: Signal) -> None:
        """Note a report. Raises ProgramError if the source is not a program."""
        match signal:
            case ProgramParsed():
                self.program = signal.program
            case Paused():
                self.rounds[-1].append(signal)
            case Surveyed():
                self.skipped, self.error = dict(signal.skipped), signal.error
            case Ended():
                if signal.error is not None and not self.program.source:
                    raise ProgramError(signal.error.message)
                self.error = self.error or signal.error


async def aexplain(
    program: str | Program,
    emulator: Answering = None,
    *,
    question: str | None = None,
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> Explanation:
    """Return the round in which each call of a program goes out. Values from the emulator allow further rounds.

    Raises ProgramError for an invalid program, and InputError if `sandbox` is "none".
    """
    job = RunOptions.of(options, given, question).job(program, is_shadow=True)
    survey = _Survey()
    async with opened(sandbox) as place, place.start(job) as session:
        if session.wall == "none":
            raise InputError("explaining a program runs it, including its side effects, so it needs a sandbox")
        session.survey([])
        async for signal in session:
            survey.note(signal)
            if isinstance(signal, Ended):
                break
            if isinstance(signal, Surveyed) and not await _begin_round(session, survey, as_emulator(emulator)):
                break
    calls = sorted(_expected(survey), key=lambda call: (call.round or _MAX_ROUNDS, call.line))
    return Explanation(tuple(calls), survey.error)


async def _begin_round(session: Session, survey: _Survey, emulator: Emulator) -> bool:
    """Begin another round if a call of this round has a value. Return whether it began."""
    values = [value for paused in survey.rounds[-1] if (value := await _value(paused, survey, emulator)) is not None]
    if not values or len(survey.rounds) >= _MAX_ROUNDS:
        return False
    survey.rounds.append([])
    session.survey(values)
    return True


async def _value(paused: Paused, survey: _Survey, emulator: Emulator) -> dict[str, Any] | None:
    if not survey.program.statements:
        return None
    line = survey.program.statements[paused.statement].line
    try:
        args, kwargs = paused.arguments()
        answered = await emulator.answer(
            Pause("call", paused.text, paused.name, args, kwargs, (), line, None, survey.program, None)
        )
    except (EmulationError, ValueFormatError):
        return None
    request: dict[str, Any] = {"kind": "call", "text": paused.text, "args": paused.args, "kwargs": paused.kwargs}
    request |= {"known_by": paused.known_by, "statement": paused.statement}
    return {**request, "reply": {"value": encode(answered.value), "once": answered.is_once}}


def _expected(survey: _Survey) -> Iterator[Expected]:
    met: set[tuple[int, str]] = set()
    statements = survey.program.statements
    for number, calls in enumerate(survey.rounds, 1):
        for paused in calls:
            met.add((paused.statement, paused.name))
            line = statements[paused.statement].line
            tokens = _tokens(paused, survey.program, line)
            rows, pairs = _count(paused, "rows"), _count(paused, "pairs")
            judges = paused.state.get("judges", "") if pairs else ""
            yield Expected(line, paused.text, number, rows=rows, pairs=pairs, judges=judges, tokens=tokens)
    for use in survey.program.uses:
        if use.statement < len(statements) and (use.statement, use.name) not in met:
            met.add((use.statement, use.name))
            yield Expected(statements[use.statement].line, use.name, waits_for=_waits_for(use, survey))


def _count(paused: Paused, name: str) -> int:
    text = paused.state.get(name, "")
    return int(text) if text.isdecimal() and len(text) < _MAX_DIGITS else 0


def _tokens(paused: Paused, program: Program, line: int) -> int:
    """Estimate the tokens of the prompt for a call."""
    try:
        args, kwargs = paused.arguments()
    except ValueFormatError:
        return 0
    use = next((use for use in program.uses if use.name == paused.name), None)
    kind = use.type if use is not None else ""
    pause = Pause("call", paused.text, paused.name, args, kwargs, (), line, None, program, None, type=kind)
    try:
        messages = _PROMPTS.prompt(pause)
    except EmulationError:  # images that cannot be sent
        return 0
    return math.ceil(sum(len(message.content) for message in messages) / _CHARS_PER_TOKEN)


def _waits_for(use: Use, survey: _Survey) -> str:
    """Return the call that a use waits for, as reported for its statement or the innermost statement around it."""
    statements = survey.program.statements
    own = statements[use.statement]
    for number in range(use.statement, -1, -1):
        around = statements[number]
        holds = (around.line, around.column) <= (own.line, own.column) and own.end_line <= around.end_line
        if holds and number in survey.skipped:
            return survey.skipped[number]
    return ""
