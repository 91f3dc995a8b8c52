"""Methods that write a program. They differ in what runs it, and in what happens when Python cannot.

`programmed` composes them: write a program, run it; if that fails, return the error to the model and try again.
"""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ..emulator import Answered, AroundEmulator, First, Pause, Table
from ..emulator.types import Misfit, kind_of
from ..engine.closing import close_after
from ..errors import EmulationError, LMError, ProgramError
from ..program import Program
from ..reasons import Reason
from ..render import Page
from ..trace import Answer, Call, Event, Step, Trace
from ..values.codec import decode
from .answers import fitted, is_misfit
from .isolated import in_thread
from .multiple_choice import chosen, options_in
from .prompting import Inquiry, Method, failed, prompt, repeated, stepping

Runner = Callable[[Inquiry, str, Table], AsyncIterator[Event]]
_MAX_SUMMARY_CHARS = 6000
_MAX_VALUE_CHARS, _MAX_STATE_CHARS = 200, 1500  # of the variables that a repair is shown
_RETRY_TEMPERATURE = 0.7
_MAX_RECOGNISED_CHARS = 50_000  # of a reply whose layout does not matter


# --- ways to run a program ----------------------------------------------------------------------------------------


def interweave(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
    """Python runs what it can, the model answers calls of undefined functions; they share one state."""
    return inquiry.run(reply, First(_Fitting(known), inquiry.emulator()))


class _Fitting(AroundEmulator):
    """Values of an earlier attempt, if they have the type that the program expects now."""

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
        program = await in_thread(Program.parse, reply, inquiry.language)
    except ProgramError as error:
        yield failed(Reason.ERROR, str(error))
        return
    yield program
    call = await inquiry.complete(prompt(how), f"{inquiry.text}\n\n{_fenced(program)}")
    yield call
    yield inquiry.stated(call.reply)


def first_of(first: Runner, other: Runner, other_name: str) -> Runner:
    """Run a program one way and, if there is no answer, the other way."""

    async def run(inquiry: Inquiry, reply: str, known: Table) -> AsyncIterator[Event]:
        async with close_after(first(inquiry, reply, known)) as events:
            async for event in events:
                if isinstance(event, Answer) and not event.is_answered:
                    yield stepping(event, other_name)
                    async with close_after(other(inquiry, reply, known)) as others:
                        async for later in others:
                            yield later
                else:
                    yield event

    return run


# --- methods ------------------------------------------------------------------------------------------------------


def programmed(runner: Runner, *, repairs: int = 0, critique: bool = False) -> Method:
    """Write a program and run it. A failure goes back to the model, with the error, `repairs` times at most.

    A program that states its answer as a literal is also rejected, and so is an answer that is not one of the options.
    An answer that does not fit its type is repaired once, even with `repairs=0`. Emulated values are kept from one
    program to the next. If the model repeats a failed program, it is asked again without seeing it.
    """

    async def method(inquiry: Inquiry) -> AsyncIterator[Event]:
        written = inquiry.written
        if written is None:
            written = await inquiry.complete(inquiry.shown("program"), inquiry.text)
            yield written
        inquiry, known = inquiry.remembering(), dict[str, Any]()
        repairing, is_read = _Repairing(inquiry, repairs, written), not critique
        fallback: Answer | None = None  # a rejected answer is better than none
        while True:
            attempt = _Attempt(inquiry)
            run = runner(inquiry, repairing.program.reply, Table(known.items()))
            async with close_after(attempt.run(run)) as events:
                async for event in events:
                    yield event
            answer, objection = attempt.answer, attempt.objection()
            if objection is None and not is_read and answer.is_answered:
                is_read = True
                read = await inquiry.complete(prompt("critique"), attempt.summary())
                yield read
                objection = _objection_in(read.reply)
            if objection is None or not repairing.may_continue(answer):
                for event in _last_events(answer, fallback):
                    yield event
                return
            fallback = answer if answer.is_answered else fallback
            known |= attempt.values()
            yield stepping(answer, "repair")
            repairing.may_repeat = attempt.has_failed_tool  # the failure was not the program's
            async with close_after(repairing.requests(objection, answer, may_fail=fallback is not None)) as calls:
                async for call in calls:
                    yield call
            if repairing.is_stuck:
                break
        yield repeated(fallback or answer)

    return method


class _Repairing:
    """Requests programs to replace a failed one: as many as are allowed, one for an answer that does not fit.

    A model that repeats a failed program is asked again without seeing any of them.
    """

    def __init__(self, inquiry: Inquiry, repairs: int, written: Call) -> None:
        self._inquiry, self._left, self._has_misfitted = inquiry, repairs, False
        self.program, self.is_stuck, self.may_repeat = written, False, False
        self._tried: set[str] = set()

    def may_continue(self, answer: Answer) -> bool:
        may_repair = not self._has_misfitted if is_misfit(answer) else self._left > 0
        self._left -= 1
        self._has_misfitted = self._has_misfitted or is_misfit(answer)
        return may_repair

    def _instruction(self) -> str:
        return prompt("repair").replace("```python", f"```{self._inquiry.language.name}")

    async def requests(self, objection: str, answer: Answer, *, may_fail: bool) -> AsyncIterator[Call]:
        """Request programs until one is new. Sets `is_stuck` if none is, or if the model fails and `may_fail`."""
        shown, text = self._inquiry.shown("program"), self._inquiry.text
        turns: tuple[str, ...] = (text, self.program.reply, f"{objection}\n\n{self._instruction()}")
        sampling: dict[str, Any] = {}
        self._tried.add(await _code(self.program.reply))
        while True:
            try:
                self.program = await self._inquiry.complete(shown, *turns, **sampling)
            except LMError:
                self.is_stuck = may_fail
                if not may_fail:
                    raise
                return
            yield self.program
            if self.may_repeat or await _code(self.program.reply) not in self._tried:
                return
            if not self.may_continue(answer):
                self.is_stuck = True
                return
            turns = (f"{text}\n\n{prompt('again')}\n{objection}",)
            sampling = {"temperature": _RETRY_TEMPERATURE, "seed": self._left}


async def _code(reply: str) -> str:
    """Return the program in a reply without comments and layout, to recognise a repeated program."""
    if len(reply) > _MAX_RECOGNISED_CHARS:
        return " ".join(reply.split())
    return await in_thread(_normal_code, reply)


def _normal_code(reply: str) -> str:
    try:
        return ast.unparse(ast.parse(Program.parse(reply).source))
    except (ProgramError, SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(reply.split())


def _last_events(answer: Answer, fallback: Answer | None) -> Iterator[Answer]:
    if answer.is_answered or fallback is None:
        yield answer
    else:
        yield stepping(answer, "earlier answer")
        yield repeated(fallback)


class _Attempt:
    """One run of one program."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._events: list[Event] = []

    async def run(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """Yield all events except the last answer, which may not be the final one."""
        async with close_after(events) as made:
            async for event in made:
                if isinstance(event, Answer):
                    self._events.append(await fitted(event, self._inquiry.answer_type))
                else:
                    self._events.append(event)
                if not isinstance(event, Answer) or event.then:
                    yield event

    @property
    def answer(self) -> Answer:
        last = self._events[-1] if self._events else None
        return last if isinstance(last, Answer) else failed(Reason.GUEST_DIED, "the run ended without an answer")

    @property
    def _program(self) -> Program | None:
        return Trace.of(self._events).program

    @property
    def has_failed_tool(self) -> bool:
        return any(isinstance(step, Step) and step.by == "tool" and step.error for step in self._events)

    def objection(self) -> str | None:
        """Return why the attempt is rejected, for the model; None if it is accepted or a repair would not help."""
        answer, program = self.answer, self._program
        if answer.is_answered:
            wanted = self._inquiry.answer_type
            may_state = wanted is not None and wanted.is_text
            if program is not None and program.is_hard_coded and not may_state:
                return "The program states its answer as a literal: it must work it out."
            options = options_in(self._inquiry.question)
            if options and wanted is None and not chosen(decode(answer.value), options):
                text = f"The answer of the program was {answer.text[:200]}, which is none of the options: "
                return f"{text}{', '.join(options)}.{self._state()}"
            return None
        if not answer.reason.is_repairable or answer.error is None:
            return None
        kind = "" if answer.error.type == answer.reason else f"{answer.error.type}: "
        place = self._place(answer.error.line)
        return f"The program failed{place}\n{kind}{answer.error.message[:1000]}{self._state()}"

    def _state(self) -> str:
        """Show the variables at the end of the run, as many as there is room for."""
        values: dict[str, str] = {}
        for step in self._events:
            if isinstance(step, Step):
                values |= {name: value for name, value in step.delta.items() if value is not None}
        lines = [f"{name} = {value[:_MAX_VALUE_CHARS]}" for name, value in values.items() if "<" not in value[:1]]
        shown = "\n".join(lines)[-_MAX_STATE_CHARS:]
        return f"\nVariables at that point:\n{shown}" if shown else ""

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

    def summary(self) -> str:
        lines = "\n".join(Page(100).trace(Trace.of(self._events)))
        source = _fenced(self._program or Program("", language=self._inquiry.language.name))
        return f"{self._inquiry.text}\n\n{source}\n\nWhat happened:\n{lines[:_MAX_SUMMARY_CHARS]}"


def _fenced(program: Program) -> str:
    return f"```{program.language}\n{program.source.rstrip()}\n```"


def _objection_in(reply: str) -> str | None:
    """Return what a critique finds wrong, None for `OK`."""
    text = reply.strip()
    is_ok = not text or text.lower().startswith(("ok", "**ok", '"ok'))
    return None if is_ok else f"A reader objects: {text[:1000]}"
