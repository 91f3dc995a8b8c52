"""A server with a store other than SQLite: the server stores everything through the protocol `Store`."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.sandbox import NoSandbox
from chainofcode.server.intake import Intake
from chainofcode.server.metrics import ServerLog
from chainofcode.server.quotas import Ledger
from chainofcode.server.refusal import Refusal
from chainofcode.server.run_kinds import Models, ReplayRequest, RunRequest, source_of
from chainofcode.server.runs import Runs
from chainofcode.server.settings import ServerSettings
from chainofcode.server.store import ANY_RUN, PendingQuestion, RunFilter, RunRecord, RunSummary, Store, StoredFile
from chainofcode.server.telemetry import Telemetry
from chainofcode.server.trace_files import TraceLog, TraceWriter


class MemoryStore:
    """Keeps records in dictionaries, and files in one flat directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs: dict[str, RunRecord] = {}
        self._files: dict[tuple[str, str], StoredFile] = {}
        self._requests: dict[str, bytes] = {}
        self._questions: dict[tuple[str, str], PendingQuestion] = {}
        self._spent: dict[tuple[str, str], tuple[int, float]] = {}

    shared = None

    def close(self) -> None:
        self._runs.clear()

    async def check(self) -> None:
        """Memory can always be written."""

    async def keep(self, run: RunRecord, trace: TraceLog | None = None, request: bytes | None = None) -> None:
        if trace is not None:
            trace.close()
        self._runs[run.id] = run
        if request is not None:
            self._requests[run.id] = request

    async def request(self, run: str) -> bytes | None:
        return self._requests.get(run)

    async def interrupted(self) -> list[tuple[str, str]]:
        found = [run for run in self._runs.values() if run.state == "interrupted" and run.id in self._requests]
        return [(run.id, run.owner) for run in found]

    async def keep_question(self, question: PendingQuestion) -> None:
        self._questions[question.run, question.call] = question

    async def question(self, id: str, owner: str) -> PendingQuestion | None:
        known = [question for question in self._questions.values() if question.id == id]
        return known[0] if known and self._runs[known[0].run].owner == owner else None

    async def question_of(self, run: str, call: str) -> PendingQuestion | None:
        return self._questions.get((run, call))

    async def questions(self, owner: str, limit: int, run: str | None = None) -> list[PendingQuestion]:
        pending = [
            question for question in self._questions.values() if question.answer is None and run in (None, question.run)
        ]
        return [
            question
            for question in pending
            if self._runs[question.run].owner == owner and not self._runs[question.run].is_over
        ][:limit]

    async def answer_question(self, id: str, answer: str) -> bool:
        for key, known in self._questions.items():
            if known.id == id and known.answer is None:
                self._questions[key] = msgspec.structs.replace(known, answer=answer)
                return True
        return False

    async def run(self, id: str, owner: str) -> RunRecord | None:
        run = self._runs.get(id)
        return run if run is not None and run.owner == owner else None

    async def summary(self, id: str, owner: str) -> RunSummary | None:
        run = await self.run(id, owner)
        return RunSummary.of(run) if run is not None else None

    async def runs(self, owner: str, limit: int, before: str | None, wanted: RunFilter = ANY_RUN) -> list[RunSummary]:
        return [RunSummary.of(run) for run in reversed(self._runs.values()) if run.owner == owner][:limit]

    async def remove(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self._runs[id]
            self.trace_path(id).unlink()

    async def remove_before(self, when: float) -> int:
        old = [run.id for run in self._runs.values() if run.created < when and run.is_over]
        await self.remove(old)
        return len(old)

    async def local_trace(self, id: str) -> Path:
        return self.trace_path(id)

    async def new_trace(self, id: str) -> TraceLog:
        return TraceWriter(self.trace_path(id))

    async def replace_trace(self, id: str, items: Iterable[object]) -> TraceLog:
        return TraceWriter.replacing(self.trace_path(id), items)

    def trace_path(self, id: str) -> Path:
        return self._directory / f"{id}.trace"

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        (await self.local_file(file)).write_bytes(data)
        self._files[file.id, owner] = file

    async def file(self, id: str, owner: str) -> StoredFile | None:
        return self._files.get((id, owner))

    async def local_file(self, file: StoredFile) -> Path:
        return self._directory / file.name

    def without_paths(self, text: str) -> str:
        return text.replace(f"{self._directory}/", "")

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        for sha256, data in artifacts.items():
            (await self.local_artifact(sha256)).write_bytes(data)

    async def local_artifact(self, sha256: str) -> Path:
        return self._directory / f"{sha256}.artifact"

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        self._spent |= {(day, owner): amount for owner, amount in amounts.items()}

    async def spent(self, day: str) -> dict[str, tuple[int, float]]:
        return {owner: amount for (when, owner), amount in self._spent.items() if when == day}


def intake_of(store: Store, models: Models, directory: Path) -> Intake:
    settings, ledger = ServerSettings(directory, ()), Ledger({}, store)
    telemetry = Telemetry(log=ServerLog("json", False, io.StringIO()))
    runs = Runs(settings, store=store, sandbox=NoSandbox(), models=models, ledger=ledger, telemetry=telemetry)
    return Intake(settings, store, runs, models, ledger)


def test_server_uses_only_the_store_protocol(tmp_path: Path) -> None:
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
        assert msgspec.json.decode(await intake.verify("ann", active.run.id))["replays"]
        await intake.remove("ann", active.run.id)
        assert [run.id for run in await intake.runs.listed("ann", 10, None)] == [again.run.id]
        assert await intake.problems() == {}

    with contextlib.closing(MemoryStore(tmp_path)) as store, contextlib.closing(Models((), 1)) as models:
        asyncio.run(use(intake_of(store, models, tmp_path)))


@pytest.mark.parametrize("answer_type", ["{}", "./{}", "list[int] {}", "choice:{}"])
def test_answer_type_cannot_name_a_file_of_the_server(tmp_path: Path, answer_type: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "object", "title": "a secret of the server"}')
    request = RunRequest(question="What?", type=answer_type.format(path))
    settings = ServerSettings(tmp_path, ())
    if answer_type.startswith("choice"):  # a choice with one label, which is the path as text
        assert source_of(request, [], settings, model="m") is not None
        return
    with pytest.raises(Refusal, match="expected one such as int") as refused:
        source_of(request, [], settings, model="m")
    assert "secret" not in str(refused.value)
