"""The main loop: a guest runs the program, the emulator answers each pause, and everything becomes an event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Unpack

from ..emulator import Answering, Emulator, as_emulator
from ..program import Program
from ..reasons import Reason
from ..sandbox import Sandbox, Session, opened
from ..sandbox.frames import Ended, Paused, ProgramParsed, Ran, Settled, Signal
from ..trace import Event, Returned, Sent
from .blocking import blocking
from .closing import close_after
from .fetches import Fetches
from .log import Log
from .options import RunKeywords, RunOptions
from .result import Result


async def execute(
    program: str | Program,
    emulator: Answering = None,
    *,
    question: str | None = None,
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> AsyncIterator[Event]:
    """Run a program and yield its events. The emulator (a model, a table, a function) answers each pause.

    `program` may be a model's whole reply. Yields the trace's Header, the Program, Calls and Steps in
    order, and the Answer; also Sent and Returned when a call is sent and answered, and the files that the run Produced.
    `sandbox` is the name of a sandbox to start for this program, or an open one, in which programs start faster.
    """
    chosen = RunOptions.of(options, given, question)
    yield chosen.header()
    async with close_after(execute_program(program, emulator, sandbox, chosen)) as events:
        async for event in events:
            yield event


async def execute_program(
    program: str | Program, emulator: Answering, sandbox: Sandbox | str, options: RunOptions
) -> AsyncIterator[Event]:
    """`execute` without the header, for one program of several in a trace."""
    answering = options.toolbox.around(as_emulator(emulator))
    job = options.job(
        program,
        in_flight=_in_flight(options, answering),
        with_state=answering.reads_state,
        is_recorded=options.follow,
    )
    log = Log(language=job.language, is_followed=options.follow, max_bytes=options.limits.trace_bytes)
    async with (
        opened(sandbox) as place,
        place.start(job) as session,
        Fetches(answering, place=place, session=session, job=job, log=log, share=options.share) as fetches,
    ):
        try:
            async for signal in session:
                for event in await _events_of(signal, session, log, fetches):
                    if log.count(event):
                        await asyncio.sleep(0)
                    yield event
                if log.is_full and not isinstance(signal, Ended):
                    session.end(Reason.TRACE_LIMIT, log.overflow().message)
        except GeneratorExit:  # the caller stopped iterating
            raise
        except BaseException:  # cancelled or failed: requests that were made still belong in the trace
            await fetches.close()
            for call in fetches.recorded():
                yield call
            raise


async def _events_of(signal: Signal | Sent | Returned, session: Session, log: Log, fetches: Fetches) -> list[Event]:
    """Turn a signal of the guest, or an event from `fetches`, into events, preceded by the requests made so far."""
    made: list[Event] = []
    match signal:
        case ProgramParsed(parsed):
            made = [log.open(parsed)]
        case Ran(steps):
            made = [log.ran(step) for step in steps]
        case Paused():
            fetches.begin(signal)  # starts a task: several pauses may be open
        case Settled():
            made = [log.emulated(signal, fetches.take(signal))]  # in program order
        case Sent() | Returned():
            made = [signal]
        case Ended():
            unused = await fetches.close()
            made = log.ended(signal, session.wall, session.artifacts, unused)
    return [*fetches.recorded(), *made]


def _in_flight(options: RunOptions, emulator: Emulator) -> int:
    if emulator.is_ordered or options.follow:
        return 1
    return emulator.in_flight if options.in_flight is None else options.in_flight


async def arun(
    program: str | Program,
    emulator: Answering = None,
    *,
    question: str | None = None,
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> Result:
    """Run a program to its end and return the result with its trace; the options are those of `execute`."""
    events = execute(program, emulator, question=question, sandbox=sandbox, options=options, **given)
    return Result.of([event async for event in events])


def run(
    program: str | Program,
    emulator: Answering = None,
    *,
    question: str | None = None,
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> Result:
    """Run a program to its end and return the result with its trace; in async code, use `arun`.

    The options are those of `execute`.
    """
    return blocking(arun(program, emulator, question=question, sandbox=sandbox, options=options, **given))
