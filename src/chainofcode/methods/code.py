"""Methods that write a program. They differ in what runs it, and in what happens where Python cannot.

`programmed` composes them: write a program, run it; where that fails, return the error to the model and try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ..emulator import Answered, AroundEmulator, First, Pause, Table, asking
from ..emulator.types import Misfit, kind_of
from ..errors import EmulationError, LMError, ProgramError
from ..program import Program
from ..reasons import Reason
from ..render import Page
from ..trace import Answer, Event, Step, Trace
from ..values.codec import decode
from .answers import fitted, is_misfit
from .prompting import Inquiry, Method, failed, prompt, stepping

Runner = Callable[[Inquiry, str, Table], AsyncIterator[Event]]
_MAX_TOLD_CHARS = 6000


# --- ways to run a program ----------------------------------------------------------------------------------------


def interweave(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
    """Python runs what it can, the model answers calls of undefined functions; they share one state."""
    return inquiry.run(reply, First(_Fitting(known), asking(inquiry.lm, inquiry.value_votes, inquiry.seen)))


class _Fitting(AroundEmulator):
    """Values of an earlier attempt, where they are of the type that the program expects now."""

    async def answer(self, pause: Pause) -> Answered:
        answered = await self._emulator.answer(pause)
        try:
            kind_of(pause.type).fit(answered.value)
        except Misfit as error:
            raise EmulationError(str(error)) from None
        return answered


def run_in_python(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
    """Python alone: a call of an undefined function is a failure."""
    return inquiry.run(reply, None)


def read_by_lm(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
    """The model reads the program and states the answer; nothing is run."""
    return _in_place_of_python(inquiry, reply, "read-program")


def run_by_lm(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
    """The model simulates the program: it writes down the state after each line."""
    return _in_place_of_python(inquiry, reply, "run-program")


async def _in_place_of_python(inquiry: Inquiry, reply: str, how: str) -> AsyncIterator[Event]:
    try:
        program = await asyncio.to_thread(Program.parse, reply)
    except ProgramError as error:
        yield failed(Reason.ERROR, str(error))
        return
    yield program
    call = await inquiry.complete(prompt(how), f"{inquiry.text}\n\n```python\n{program.source.rstrip()}\n```")
    yield call
    yield inquiry.stated(call.reply)


def first_of(one: Runner, other: Runner, other_name: str) -> Runner:
    """Run a program one way and, where that brings no answer, the other."""

    async def run(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
        async for event in one(inquiry, reply, known):
            if isinstance(event, Answer) and not event.is_answered:
                yield stepping(event, other_name)
                async for later in other(inquiry, reply, known):
                    yield later
            else:
                yield event

    return run


# --- methods ------------------------------------------------------------------------------------------------------


def programmed(runner: Runner, *, repairs: int = 0, critique: bool = False) -> Method:
    """Write a program and run it. A failure goes back to the model, with the error, `repairs` times at most.

    A program that states its answer as a literal is rejected, too. One whose answer does not fit is repaired once,
    however many repairs there are. Values that were emulated are kept from one program to the next.
    """

    async def method(inquiry: Inquiry) -> AsyncIterator[Event]:
        written = inquiry.written
        if written is None:
            written = await inquiry.complete(inquiry.shown("program"), inquiry.text)
            yield written
        inquiry, known = inquiry.remembering(), dict[str, Any]()
        allowed, is_read = _Repairs(repairs), not critique
        fallback: Answer | None = None  # an answer that was objected to is better than none
        while True:
            attempt = _Attempt(inquiry)
            async for event in attempt.run(runner(inquiry, written.reply, Table(known.items()))):
                yield event
            answer, objection = attempt.answer, attempt.objection()
            if objection is None and not is_read and answer.is_answered:
                is_read = True
                read = await inquiry.complete(prompt("critique"), attempt.told())
                yield read
                objection = _objection_in(read.reply)
            if objection is None or not allowed.take(answer):
                for event in _last_events(answer, fallback):
                    yield event
                return
            fallback = answer if answer.is_answered else fallback
            yield stepping(answer, "repair")
            known |= attempt.values()
            turns = (inquiry.text, written.reply, f"{objection}\n\n{prompt('repair')}")
            try:
                written = await inquiry.complete(inquiry.shown("program"), *turns)
            except LMError:
                if fallback is None:
                    raise
                yield fallback
                return
            yield written

    return method


class _Repairs:
    """How many more programs may be requested; for an answer that does not fit, always one."""

    def __init__(self, left: int) -> None:
        self._left, self._has_misfitted = left, False

    def take(self, answer: Answer) -> bool:
        may_repair = not self._has_misfitted if is_misfit(answer) else self._left > 0
        self._left -= 1
        self._has_misfitted = self._has_misfitted or is_misfit(answer)
        return may_repair


def _last_events(answer: Answer, fallback: Answer | None) -> Iterator[Answer]:
    if answer.is_answered or fallback is None:
        yield answer
    else:
        yield stepping(answer, "earlier answer")
        yield fallback


class _Attempt:
    """One run of one program."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._events: list[Event] = []

    async def run(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """Yield all events but the last answer, which may not be the final one."""
        async for event in events:
            if isinstance(event, Answer):
                self._events.append(await fitted(event, self._inquiry.answer_type))
            else:
                self._events.append(event)
            if not isinstance(event, Answer) or event.then:
                yield event

    @property
    def answer(self) -> Answer:
        last = self._events[-1] if self._events else None
        return last if isinstance(last, Answer) else failed(Reason.GUEST_DIED, "the run ended without a word")

    @property
    def _program(self) -> Program | None:
        return Trace.of(self._events).program

    def objection(self) -> str | None:
        """Say why this is not good enough, for the model; None where it is, or where a repair would not help."""
        answer, program = self.answer, self._program
        if answer.is_answered:
            wanted = self._inquiry.answer_type
            may_state = wanted is not None and wanted.is_text
            is_stated = program is not None and program.is_hard_coded and not may_state
            return "The program states its answer as a literal: it must work it out." if is_stated else None
        if not answer.reason.is_repairable or answer.error is None:
            return None
        kind = "" if answer.error.type == answer.reason else f"{answer.error.type}: "
        return f"The program failed{self._place(answer.error.line)}\n{kind}{answer.error.message[:1000]}"

    def _place(self, line: int | None) -> str:
        source = self._program.source.split("\n") if self._program is not None else []
        if line is None or line > len(source):
            return ""
        return f" on line {line}: {source[line - 1].strip()}"

    def values(self) -> dict[str, Any]:
        """Return the emulated values, by call. Calls with several values, or without arguments, are left out."""
        values: dict[str, Any] = {}
        for step in self._events:
            if isinstance(step, Step) and step.by == "lm" and not step.delta and step.call:
                values.setdefault(step.call, []).append(decode(step.value))
        return {
            call: found[0]
            for call, found in values.items()
            if not call.endswith("()") and all(value == found[0] for value in found)
        }

    def told(self) -> str:
        lines = "\n".join(Page(100).trace(Trace.of(self._events)))
        source = self._program.source.rstrip() if self._program is not None else ""
        return f"{self._inquiry.text}\n\n```python\n{source}\n```\n\nWhat happened:\n{lines[:_MAX_TOLD_CHARS]}"


def _objection_in(reply: str) -> str | None:
    """Return what a critique finds wrong, None for `OK`."""
    text = reply.strip()
    is_ok = not text or text.lower().startswith(("ok", "**ok", '"ok'))
    return None if is_ok else f"A reader objects: {text[:1000]}"
