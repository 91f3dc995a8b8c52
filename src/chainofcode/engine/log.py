"""Turns the signals of a guest into numbered events of the trace."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from ..emulator import Answered, Pause
from ..languages import Language
from ..languages.python.compiler.kinds import by_name
from ..program import Program, Use
from ..reasons import Reason
from ..sandbox import Job
from ..sandbox.frames import Ended, Failure, Paused, RanStep, Settled
from ..trace import Answer, Artifact, Event, Produced, Returned, Sent, Step, as_json
from ..values.codec import Opaque, ValueFormatError, brief, decode

_REST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class UsedValue:
    """A value that the program used."""

    paused: Paused
    answered: Answered
    seconds: float
    is_first: bool  # False: the program used it before
    is_foreseen: bool  # requested before the program made the call


@dataclass(frozen=True)
class Unused:
    """How many requested calls the program did not use."""

    wasted: int = 0  # sent ahead, but never made by the program
    unsettled: int = 0  # made by the program, which never reported that it used the value


class Log:
    """Numbers the steps of one program and counts the bytes of its events, which are limited."""

    def __init__(self, *, language: Language, is_followed: bool, max_bytes: int) -> None:
        self._language = language
        self._program, self._is_followed, self._max_bytes = Program(""), is_followed, max_bytes
        self._uses: dict[tuple[int | None, str], Use] = {}
        self._steps = self._bytes = 0
        self._started = time.monotonic()

    def open(self, program: Program) -> Program:
        self._program = program = msgspec.structs.replace(program, language=self._language.name)
        for use in program.uses:
            self._uses[use.statement, use.name] = self._uses[None, use.name] = use
        return program

    def line(self, statement: int) -> int:
        return self._program.statements[statement].line if statement < len(self._program.statements) else 0

    def use(self, paused: Paused) -> Use | None:
        """Return the hole that was called, with its expected type; None if it is unknown."""
        return self._uses.get((paused.statement, paused.name)) or self._uses.get((None, paused.name))

    def pause(self, paused: Paused, job: Job) -> Pause:
        """Return the pause for the emulator."""
        try:
            args, kwargs = paused.arguments()
        except ValueFormatError:  # from a hostile guest; only the emulator reads these values
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
            given=job.given,
        )

    def _declaration(self, use: Use | None) -> str:
        if use is None or use.spec is None or use.spec >= len(self._program.statements):
            return ""
        return self._program.text(use.spec)

    # --- events -----------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._steps += 1
        return self._steps

    def ran(self, ran: RanStep) -> Step:
        return Step(
            number=self._number(),
            by=self._language.actor,
            statement=ran.statement,
            line=self.line(ran.statement),
            visit=ran.visit,
            delta=ran.delta,
            outcome=ran.outcome,
            output=ran.output,
        )

    def emulated(self, settled: Settled, used: UsedValue) -> Step:
        answered = used.answered
        delta: dict[str, str | None] = {}
        if used.paused.kind == "statement":
            delta = {name: brief(value) for name, value in decode(answered.value).items()}
        return Step(
            number=self._number(),
            by=answered.by,
            statement=settled.statement,
            line=self.line(settled.statement),
            delta=delta,
            call=used.paused.text,
            value=answered.value,
            seconds=used.seconds if used.is_first else 0.0,
            error=answered.error,
            raised=answered.raised,
            how=_how(used),
            confidence=answered.confidence,
            model=answered.model,
        )

    def ended(self, ended: Ended, wall: str, left: Mapping[str, bytes], unused: Unused) -> list[Event]:
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
            wasted=unused.wasted,
            unsettled=unused.unsettled,
        )
        if self._bytes + len(as_json(answer)) > self._max_bytes:
            answer = Answer(
                reason=Reason.TRACE_LIMIT,
                error=ended.error if ended.reason == Reason.TRACE_LIMIT else self.overflow(),
                seconds=answer.seconds,
                sandbox=wall,
                artifacts=artifacts,
                wasted=unused.wasted,
                unsettled=unused.unsettled,
            )
        files = {artifact.sha256: left[artifact.name] for artifact in artifacts}
        produced = [Produced(files, ended.lineage)] if files or self._is_followed else []
        return [*produced, answer]

    # --- size -------------------------------------------------------------------------------------------------

    def count(self, event: Event) -> bool:
        """Count the bytes of an event. Return whether another mebibyte is full, and other tasks should run."""
        if isinstance(event, (Sent, Returned, Produced)):
            return False
        before = self._bytes
        self._bytes += len(as_json(event))
        return self._bytes // _REST_BYTES > before // _REST_BYTES

    @property
    def is_full(self) -> bool:
        return self._bytes > self._max_bytes

    def overflow(self) -> Failure:
        message = f"the run recorded over {self._max_bytes:,} bytes"
        return Failure(type=Reason.TRACE_LIMIT, message=message)


def _how(used: UsedValue) -> Literal["ahead", "shared", "batched", "cached", ""]:
    if not used.is_first:
        return "shared"
    if used.answered.is_cached:
        return "cached"
    if used.answered.is_batched:
        return "batched"
    return "ahead" if used.is_foreseen else ""
