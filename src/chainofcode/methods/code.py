"""Methods that write a program: who carries it out, and what happens where Python cannot, makes the difference.

`programmed` composes them: write, carry out; where that fails, hand the error back and carry out what comes.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

from ..emulator import Answered, AroundEmulator, First, Pause, Table, asking
from ..emulator.types import Misfit, kind_of
from ..errors import EmulationError, LMError, ProgramError
from ..program import Program
from ..reasons import Reason
from ..render import Page
from ..trace import Answer, Call, Event, Step, Trace
from ..values.codec import decode
from .answers import fitted, is_misfit
from .prompting import Asked, Method, failed, prompt, stepping

Carrying = Callable[[Asked, str, Table], AsyncIterator[Event]]
_MAX_TOLD_CHARS = 6000


# --- ways to carry out a program ----------------------------------------------------------------------------------


def interweave(asked: Asked, reply: str, known: Table) -> AsyncIterator[Event]:
    """Python runs what it can, the model answers the calls that nobody defined, one state for both."""
    return asked.run(reply, First(_Fitting(known), asking(asked.lm, asked.value_votes, asked.seen)))


class _Fitting(AroundEmulator):
    """Values of an earlier attempt, where they are of the type that the program expects now."""

    async def answer(self, pause: Pause) -> Answered:
        answered = await self._emulator.answer(pause)
        try:
            kind_of(pause.type).fit(answered.value)
        except Misfit as error:
            raise EmulationError(str(error)) from None
        return answered


def run_in_python(asked: Asked, reply: str, known: Table) -> AsyncIterator[Event]:
    """Python alone: a call that nobody defined is a failure."""
    return asked.run(reply, None)


async def read_by_lm(asked: Asked, reply: str, known: Table) -> AsyncIterator[Event]:
    """The model reads the program and states the answer; nothing is run."""
    async for event in _in_place_of_python(asked, reply, "read-program"):
        yield event


async def run_by_lm(asked: Asked, reply: str, known: Table) -> AsyncIterator[Event]:
    """The model runs the program by writing down the state after each line."""
    async for event in _in_place_of_python(asked, reply, "run-program"):
        yield event


async def _in_place_of_python(asked: Asked, reply: str, how: str) -> AsyncIterator[Event]:
    try:
        program = await asyncio.to_thread(Program.parse, reply)
    except ProgramError as error:
        yield failed(Reason.ERROR, str(error))
        return
    yield program
    call = await asked.complete(prompt(how), f"{asked.text}\n\n```python\n{program.source.rstrip()}\n```")
    yield call
    yield asked.stated(call.reply)


def first_of(one: Carrying, other: Carrying, other_name: str) -> Carrying:
    """One way and, where it brings no answer, the other."""

    async def carry(asked: Asked, reply: str, known: Table) -> AsyncIterator[Event]:
        async for event in one(asked, reply, known):
            if isinstance(event, Answer) and not event.is_answered:
                yield stepping(event, other_name)
                async for later in other(asked, reply, known):
                    yield later
            else:
                yield event

    return carry


# --- methods ------------------------------------------------------------------------------------------------------


async def write_program(asked: Asked) -> Call:
    """One request: the reply holds the program."""
    return await asked.complete(asked.shown("program"), asked.text)


def programmed(carry: Carrying, *, repairs: int = 0, critique: bool = False) -> Method:
    """Write a program and carry it out. What fails goes back to the model, with the error, so many times at most.

    A program that states its answer as a literal is asked for again, too; one whose answer does not fit, once, however
    many repairs there are. What was emulated is not asked twice.
    """

    async def method(asked: Asked) -> AsyncIterator[Event]:
        written = asked.written
        if written is None:
            written = await write_program(asked)
            yield written
        asked, known = asked.remembering(), dict[str, Any]()
        left, is_read, has_misfitted = repairs, not critique, False
        fallback: Answer | None = None  # an answer that was objected to is better than none
        while True:
            attempt = _Attempt()
            async for event in carry(asked, written.reply, Table(known.items())):
                attempt.events.append(await fitted(event, asked.answer_type) if isinstance(event, Answer) else event)
                if not isinstance(event, Answer) or event.then:
                    yield event
            answer, objection = attempt.answer, attempt.objection(asked)
            if objection is None and not is_read and answer.is_answered:
                is_read = True
                read = await asked.complete(prompt("critique"), attempt.told(asked))
                yield read
                objection = _objection_in(read.reply)
            may_repair = not has_misfitted if is_misfit(answer) else left > 0
            if objection is None or not may_repair:
                if answer.is_answered or fallback is None:
                    yield answer
                    return
                yield stepping(answer, "earlier answer")
                yield fallback
                return
            fallback = answer if answer.is_answered else fallback
            left, has_misfitted = left - 1, has_misfitted or is_misfit(answer)
            yield stepping(answer, "repair")
            known |= attempt.values()
            turns = (asked.text, written.reply, f"{objection}\n\n{prompt('repair')}")
            try:
                written = await asked.complete(asked.shown("program"), *turns)
            except LMError:
                if fallback is None:
                    raise
                yield fallback
                return
            yield written

    return method


@dataclasses.dataclass
class _Attempt:
    """One program carried out."""

    events: list[Event] = dataclasses.field(default_factory=list)

    @property
    def answer(self) -> Answer:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Answer) else failed(Reason.GUEST_DIED, "the run ended without a word")

    def objection(self, asked: Asked) -> str | None:
        """Why this is not good enough, in words for the model; None where it is, or where a repair would not help."""
        answer, program = self.answer, Trace.of(self.events).program
        if answer.is_answered:
            may_state = asked.answer_type is not None and asked.answer_type.is_text
            if program is not None and program.is_hard_coded and not may_state:
                return "The program states its answer as a literal: it must work it out."
            return None
        if not answer.reason.is_repairable or answer.error is None:
            return None
        error, line = answer.error, ""
        if program is not None and error.line is not None:
            source = program.source.split("\n")
            line = f" on line {error.line}: {source[error.line - 1].strip()}" if error.line <= len(source) else ""
        kind = "" if error.type == answer.reason else f"{error.type}: "
        return f"The program failed{line}\n{kind}{error.message[:1000]}"

    def values(self) -> dict[str, Any]:
        """What was emulated, to be used again; what was answered in several ways, or asks nothing, is asked anew."""
        values: dict[str, Any] = {}
        for step in self.events:
            if not isinstance(step, Step) or step.by != "lm" or step.delta or not step.call:
                continue
            if not step.call.endswith("()"):
                values.setdefault(step.call, []).append(decode(step.value))
        return {call: found[0] for call, found in values.items() if all(value == found[0] for value in found)}

    def told(self, asked: Asked) -> str:
        lines = "\n".join(Page(100).trace(Trace.of(self.events)))
        program = Trace.of(self.events).program
        source = program.source.rstrip() if program is not None else ""
        return f"{asked.text}\n\n```python\n{source}\n```\n\nWhat happened:\n{lines[:_MAX_TOLD_CHARS]}"


def _objection_in(reply: str) -> str | None:
    """What a critique finds wrong; `OK` is nothing."""
    text = reply.strip()
    return None if text.lower().startswith(("ok", "**ok", '"ok')) or not text else f"A reader objects: {text[:1000]}"
