"""A server with another store than SQLite: everything that it keeps goes through the protocol `Store`."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.sandbox import NoWall
from chainofcode.server.intake import Intake
from chainofcode.server.metrics import ServerLog
from chainofcode.server.quotas import Ledger
from chainofcode.server.run_kinds import Models, ReplayRequest, RunRequest
from chainofcode.server.runs import Runs
from chainofcode.server.settings import ServerSettings
from chainofcode.server.store import RunRecord, Store, StoredFile
from chainofcode.server.telemetry import Telemetry
from chainofcode.server.trace_files import TraceWriter


class MemoryStore:
    """Keeps records in dictionaries, and files in one flat directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs: dict[str, RunRecord] = {}
        self._files: dict[tuple[str, str], StoredFile] = {}
        self._spent: dict[tuple[str, str], tuple[int, float]] = {}

    def close(self) -> None:
        self._runs.clear()

    async def check(self) -> None:
        """Memory can always be written."""

    async def keep(self, run: RunRecord, trace: TraceWriter | None = None) -> None:
        if trace is not None:
            trace.close()
        self._runs[run.id] = run

    async def run(self, id: str, owner: str) -> RunRecord | None:
        run = self._runs.get(id)
        return run if run is not None and run.owner == owner else None

    async def runs(self, owner: str, limit: int, before: str | None, words: Sequence[str] = ()) -> list[RunRecord]:
        return [run for run in reversed(self._runs.values()) if run.owner == owner][:limit]

    async def remove(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self._runs[id]
            self.trace_path(id).unlink()

    async def remove_before(self, when: float) -> int:
        old = [run.id for run in self._runs.values() if run.created < when and run.is_over]
        await self.remove(old)
        return len(old)

    def trace_path(self, id: str) -> Path:
        return self._directory / f"{id}.trace"

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        self.file_path(file).write_bytes(data)
        self._files[file.id, owner] = file

    async def file(self, id: str, owner: str) -> StoredFile | None:
        return self._files.get((id, owner))

    def file_path(self, file: StoredFile) -> Path:
        return self._directory / file.name

    def without_paths(self, text: str) -> str:
        return text.replace(f"{self._directory}/", "")

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        for sha256, data in artifacts.items():
            self.artifact_path(sha256).write_bytes(data)

    def artifact_path(self, sha256: str) -> Path:
        return self._directory / f"{sha256}.artifact"

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        self._spent |= {(day, owner): amount for owner, amount in amounts.items()}

    async def spent(self, day: str) -> dict[str, tuple[int, float]]:
        return {owner: amount for (when, owner), amount in self._spent.items() if when == day}


def intake_of(store: Store, models: Models, directory: Path) -> Intake:
    settings, ledger = ServerSettings(directory, ()), Ledger({}, store)
    telemetry = Telemetry(log=ServerLog("json", False, io.StringIO()))
    runs = Runs(settings, store=store, sandbox=NoWall(), models=models, ledger=ledger, telemetry=telemetry)
    return Intake(settings, store, runs, models, ledger)


def test_another_store(tmp_path: Path) -> None:
    async def use(intake: Intake) -> None:
        file = await intake.keep_file("ann", "sales.csv", b"price\n1\n2\n")
        request = RunRequest(program="answer = sum(int(row['price']) for row in sales)", files=[file.id])
        active = await intake.begin("ann", request, detach=True)
        await active.over.wait()
        assert active.run.answer == "3"
        again = await intake.replay("ann", active.run.id, ReplayRequest())
        await again.over.wait()
        assert [run.parent for run in await intake.runs.listed("ann", 10, None)] == [active.run.id, None]
        assert await intake.runs.listed("bob", 10, None) == []
        assert (await intake.verify("ann", active.run.id)).replays
        await intake.remove("ann", active.run.id)
        assert [run.id for run in await intake.runs.listed("ann", 10, None)] == [again.run.id]
        assert await intake.problems() == {}

    with contextlib.closing(MemoryStore(tmp_path)) as store, contextlib.closing(Models((), 1)) as models:
        asyncio.run(use(intake_of(store, models, tmp_path)))
