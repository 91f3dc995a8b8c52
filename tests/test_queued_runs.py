"""Queued runs keep neither their trace nor their values in the server's memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.sandbox import Limits, NoSandbox
from chainofcode.server.intake import Intake
from chainofcode.server.metrics import ServerLog
from chainofcode.server.quotas import Ledger
from chainofcode.server.resuming import Resuming
from chainofcode.server.run_kinds import Models, ReplayRequest, RunContext, RunRequest
from chainofcode.server.runs import Runs
from chainofcode.server.settings import ServerSettings
from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import RunRecord, new_run
from chainofcode.server.telemetry import Telemetry
from chainofcode.trace import Event

LARGE = msgspec.Raw(msgspec.json.encode([[0]] * 20_000))  # 80 KB as JSON, 1.6 MB as objects
MANY = 20
Begin = Callable[[], Awaitable[RunRecord]]


class Server:
    """A server without HTTP that carries out one run at a time."""

    def __init__(self, store: SQLiteStore, models: Models, directory: Path) -> None:
        settings = ServerSettings(directory, (), runs=1, limits=Limits(lm_calls=1))
        log, ledger = ServerLog("json", False, io.StringIO()), Ledger({}, store)
        telemetry = Telemetry(log=log)
        self.runs = Runs(settings, store=store, sandbox=NoSandbox(), models=models, ledger=ledger, telemetry=telemetry)
        self.intake = Intake(settings, store, self.runs, models, ledger)
        self.resuming = Resuming(self.intake, log)

    async def program(self, program: str, **given: object) -> RunRecord:
        return await self.intake.start("", RunRequest(program=program, **given))  # type: ignore[arg-type]

    async def over(self, run: RunRecord) -> RunRecord:
        if (active := self.runs.active(run.id, "")) is not None:
            await active.over.wait()
        return await self.runs.find(run.id, "")


async def inputs(server: Server) -> Begin:
    return lambda: server.program("answer = len(given)", inputs={"given": LARGE})


async def values(server: Server) -> Begin:
    value = {"call": msgspec.Raw(b'"f(1)"'), "value": LARGE}
    return lambda: server.program("answer = len(f(1))", values=[value])


async def replays(server: Server) -> Begin:
    run = await server.over(await (await values(server))())

    async def begin() -> RunRecord:
        return (await server.intake.replay("", run.id, ReplayRequest())).run

    return begin


async def edits(server: Server) -> Begin:
    run = await server.over(await server.program("answer = 1"))

    async def begin() -> RunRecord:
        request = ReplayRequest(edit="answer = 20_000  # " + "x" * 900_000)
        return (await server.intake.replay("", run.id, request)).run

    return begin


async def resumes(server: Server) -> Begin:
    value = {"call": msgspec.Raw(b'"f(1)"'), "value": LARGE}
    ended = [await server.over(await server.program("f(1)\nf(2)", values=[value])) for _ in range(MANY + 1)]
    assert {run.reason for run in ended} == {"limit:calls"}
    return lambda: server.resuming.resume("", ended.pop().id)


async def slot_taken(server: Server) -> asyncio.Event:
    """Start a run that has the only slot until the event is set."""
    is_over = asyncio.Event()

    async def wait(context: RunContext) -> AsyncIterator[Event]:
        await is_over.wait()
        return
        yield

    await server.runs.submit(new_run("", None, "run", None), wait)
    return is_over


async def held_bytes(server: Server, begin: Begin) -> int:
    """Return the memory of runs queued behind the one that has the only slot. The first of them must end normally."""
    is_over = await slot_taken(server)
    queued = [await begin()]
    gc.collect()
    tracemalloc.start()
    try:
        queued += [await begin() for _ in range(MANY)]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for run in queued[1:]:
        await server.runs.cancel(run)
    is_over.set()
    assert (await server.over(queued[0])).reason in ("answered", "limit:calls")
    return held


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [inputs, values, replays, edits, resumes])
def test_queued_runs_hold_no_data(tmp_path: Path, kind: Callable[[Server], Awaitable[Begin]]) -> None:
    async def main(server: Server) -> int:
        try:
            return await held_bytes(server, await kind(server))
        finally:
            await server.runs.close()

    with contextlib.closing(SQLiteStore(tmp_path)) as store, contextlib.closing(Models((), 1)) as models:
        held = asyncio.run(main(Server(store, models, tmp_path)))
    assert held < MANY * 20_000, f"{held:,} bytes"


def test_queued_replay_fails_if_its_run_is_removed(tmp_path: Path) -> None:
    async def main(server: Server) -> RunRecord:
        run = await server.over(await server.program("answer = 1"))
        is_over = await slot_taken(server)
        replay = (await server.intake.replay("", run.id, ReplayRequest())).run
        await server.intake.remove("", run.id)
        is_over.set()
        ended = await server.over(replay)
        await server.runs.close()
        return ended

    with contextlib.closing(SQLiteStore(tmp_path)) as store, contextlib.closing(Models((), 1)) as models:
        ended = asyncio.run(main(Server(store, models, tmp_path)))
    assert (ended.state, (ended.error or {})["type"]) == ("failed", "not_found")
