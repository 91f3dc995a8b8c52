"""Turns the signals of a guest into numbered events of the trace."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..emulator import Answered, Pause
from ..languages.python.compiler.kinds import by_name
from ..program import Program, Use
from ..reasons import Reason
from ..sandbox import Job
from ..sandbox.frames import Ended, Paused, RanStep, Settled
from ..trace import Answer, Artifact, Call, Event, Produced, Step
from ..values.codec import Opaque, ValueFormatError, brief, decode


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A value that the program took."""

    asked: Paused
    answered: Answered
    seconds: float
    is_first: bool  # False: the program took it before
    is_foreseen: bool  # it was requested before the program asked


class Log:
    def __init__(self, *, is_followed: bool) -> None:
        self._program, self._is_followed = Program(""), is_followed
        self._uses: dict[tuple[int | None, str], Use] = {}
        self._steps = self._wasted = 0
        self._lost: tuple[Call, ...] = ()
        self._started = time.monotonic()

    def open(self, program: Program) -> Program:
        self._program = program
        for use in program.uses:
            self._uses[use.statement, use.name] = self._uses[None, use.name] = use
        return program

    def lose(self, calls: Sequence[Call]) -> None:
        """Note requests that brought no value: they were paid for."""
        self._lost += tuple(calls)

    def waste(self, answers: Sequence[Answered | None]) -> None:
        """Note calls that were sent ahead and that the program never made."""
        self._wasted += len(answers)
        for answered in answers:
            self.lose(answered.calls if answered is not None else ())

    def line(self, statement: int) -> int:
        return self._program.statements[statement].line if statement < len(self._program.statements) else 0

    def use(self, paused: Paused) -> Use | None:
        """Return what is known of the hole that was called there."""
        return self._uses.get((paused.statement, paused.name)) or self._uses.get((None, paused.name))

    def pause(self, paused: Paused, job: Job) -> Pause:
        """Return a pause as the emulator sees it."""
        try:
            args = tuple(decode(arg) for arg in paused.args)
            kwargs = {name: decode(value) for name, value in paused.kwargs.items()}
        except ValueFormatError:  # a hostile guest; the values are only for the emulator to read
            args, kwargs = (Opaque("unknown", "<unreadable>"),), {}
        use = self.use(paused)
        return Pause(
            kind="statement" if paused.kind == "statement" else "call",
            text=paused.text,
            name=paused.name,
            args=args,
            kwargs=kwargs,
            names=tuple(paused.names),
            line=self.line(paused.statement),
            error=paused.error,
            program=self._program,
            question=job.question,
            type=use.type if use is not None else by_name(paused.name),
            spec=self._declaration(use),
            state=paused.state,
        )

    def _declaration(self, use: Use | None) -> str:
        if use is None or use.spec is None or use.spec >= len(self._program.statements):
            return ""
        return self._program.text(use.spec)

    # --- events -----------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._steps += 1
        return self._steps

    def python(self, ran: RanStep) -> Step:
        return Step(
            number=self._number(),
            by="python",
            statement=ran.statement,
            line=self.line(ran.statement),
            visit=ran.visit,
            delta=ran.delta,
            outcome=ran.outcome,
            output=ran.output,
        )

    def emulated(self, settled: Settled, taken: Taken) -> list[Event]:
        answered = taken.answered
        delta: dict[str, str | None] = {}
        if taken.asked.kind == "statement":
            delta = {name: brief(value) for name, value in decode(answered.value).items()}
        step = Step(
            number=self._number(),
            by=answered.by,
            statement=settled.statement,
            line=self.line(settled.statement),
            delta=delta,
            call=taken.asked.text,
            value=answered.value,
            seconds=taken.seconds if taken.is_first else 0.0,
            error=answered.error,
            raised=answered.raised,
            how=_how(taken),
        )
        return [*answered.calls, step] if taken.is_first else [step]

    def ended(self, ended: Ended, wall: str, left: Mapping[str, bytes]) -> list[Event]:
        artifacts = tuple(
            Artifact(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in left.items()
        )
        answer = Answer(
            reason=Reason(ended.reason),
            value=ended.answer,
            text=ended.text,
            source=ended.source,
            error=ended.error,
            stderr=ended.stderr,
            seconds=time.monotonic() - self._started,
            sandbox=wall,
            artifacts=artifacts,
            unsent=tuple(ended.unsent),
            wasted=self._wasted,
        )
        files = {artifact.sha256: left[artifact.name] for artifact in artifacts}
        produced = [Produced(files, ended.lineage)] if files or self._is_followed else []
        return [*self._lost, *produced, answer]


def _how(taken: Taken) -> Literal["ahead", "shared", "batched", ""]:
    if not taken.is_first:
        return "shared"
    if taken.answered.is_batched:
        return "batched"
    return "ahead" if taken.is_foreseen else ""
