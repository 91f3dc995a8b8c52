"""The loop: Python takes what it can, the emulator takes each pause, and everything that happens is an event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Unpack

from ..emulator import Answering, Emulator, as_emulator
from ..program import Program
from ..sandbox import Sandbox, opened
from ..sandbox.frames import Ended, Paused, ProgramParsed, Ran, Settled, Signal
from ..trace import Event, Returned, Sent
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
    """Run a program to its end: Python takes what it can, the emulator (a model, a table, a function) each pause.

    `program` may be a model's whole reply. Yields the trace's Header, the Program, each Step (with the Calls it took),
    and the Answer; also Sent and Returned as calls go out and come back, and the files that the run Produced.
    `sandbox` is the name of one to make for this program, or one of your own, which starts programs faster.
    """
    chosen = RunOptions.of(options, given, question)
    yield chosen.header()
    async for event in execute_program(program, emulator, sandbox, chosen):
        yield event


async def execute_program(
    program: str | Program, emulator: Answering, sandbox: Sandbox | str, options: RunOptions
) -> AsyncIterator[Event]:
    """`execute` without the header, for one program of several in a trace."""
    answering = options.toolbox.around(as_emulator(emulator))
    log = Log(is_followed=options.follow)
    job = options.job(
        program,
        in_flight=_in_flight(options, answering),
        with_state=answering.reads_state,
        is_recorded=options.follow,
    )
    async with (
        opened(sandbox) as place,
        place.start(job) as session,
        Fetches(answering, place=place, session=session, job=job, log=log, share=options.share) as fetches,
    ):
        async for signal in session:
            if isinstance(signal, Paused):
                fetches.begin(signal)  # a task of its own: several may be open
            elif isinstance(signal, Ended):
                log.waste(await fetches.close())
                for event in log.ended(signal, session.wall, session.artifacts):
                    yield event
            else:
                for event in _events_of(signal, log, fetches):
                    yield event


def _events_of(signal: Signal | Sent | Returned, log: Log, fetches: Fetches) -> list[Event]:
    """Turn a signal of the guest, or an event that the fetches posted, into events."""
    match signal:
        case ProgramParsed(parsed):
            return [log.open(parsed)]
        case Ran(steps):
            return [log.python(step) for step in steps]
        case Settled():
            return log.emulated(signal, fetches.take(signal))  # in program order
        case Sent() | Returned():
            return [signal]
        case _:
            return []


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
    """`arun` for code that is not async."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("run() cannot be used inside a running event loop: await arun() instead")
    return asyncio.run(arun(program, emulator, question=question, sandbox=sandbox, options=options, **given))
