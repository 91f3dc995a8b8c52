"""The work behind every protocol of the server: start, replay, audit and remove runs, store uploads."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .. import __version__
from ..emulator.tools import Tool
from ..engine import arun
from ..errors import BudgetError, ChainOfCodeError, InputError, TraceError
from ..methods import LABELS, METHODS
from ..trace import Trace, as_json
from . import patterns
from .active_run import ActiveRun
from .fair_share import FairSlots
from .quotas import Ledger, seconds_to_midnight
from .refusal import Refusal, StorageError, invalid
from .run_kinds import EventSource, Models, ReplayRequest, RunRequest, check_counts, deferred, replay_of, source_of
from .runs import Runs
from .settings import MAX_FILE_BYTES, MAX_JSON_BYTES, MAX_QUESTION_CHARS, ServerSettings
from .store import AnyRun, RunRecord, RunSummary, Store, StoredFile, new_file, new_run

T = TypeVar("T")
_THREADS = 4
_READY_SECONDS = 20.0
_MAX_READ_BYTES = 16 * 1024**2  # of a trace that is replayed, resumed, or returned by MCP


class KeptRequest(msgspec.Struct):
    """The stored request of a run: the run is started from it when its turn comes, and resumed (except replays)."""

    request: RunRequest
    schema: dict[str, Any] | None = None
    is_detached: bool = True
    replay: ReplayRequest | None = None


class Intake:
    """Handles requests of every protocol. `owner` is the name of the token that sent them."""

    def __init__(self, settings: ServerSettings, store: Store, runs: Runs, models: Models, ledger: Ledger) -> None:
        self.settings, self.store, self.runs, self.models, self._ledger = settings, store, runs, models, ledger
        self.workers, self._threads = runs.workers, FairSlots(_THREADS, runs.owners)
        self._claimed: set[str] = set()  # runs that are about to be resumed
        self._checking: asyncio.Task[dict[str, str]] | None = None
        self.has_mcp = importlib.util.find_spec("mcp") is not None

    # --- runs -------------------------------------------------------------------------------------------------

    async def begin(
        self,
        owner: str,
        request: RunRequest,
        *,
        detach: bool,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
    ) -> ActiveRun:
        """Store a run and queue it on this server. `schema` is a JSON schema for its answer, `tools` are functions that
        its program may call. Raises Refusal."""
        run, source = await self._new(owner, request, schema=schema, tools=tools)
        kept = None
        if not tools:  # only the client of this request can answer their calls
            kept = as_json(KeptRequest(request, None if schema is None else dict(schema), detach))
            source = self.kept_source(run)
        return await self.runs.submit(run, source, detach=detach, request=kept)

    async def start(self, owner: str, request: RunRequest) -> RunRecord:
        """Store a run and queue it. If no client waits for it, any server may carry it out."""
        if self.runs.peers is None or not request.detach:
            return (await self.begin(owner, request, detach=request.detach)).run
        run, _ = await self._new(owner, request)
        await self.runs.enqueue(run, as_json(KeptRequest(request)))
        return run

    async def _new(
        self,
        owner: str,
        request: RunRequest,
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
    ) -> tuple[RunRecord, EventSource]:
        is_asking = request.program is None
        model = self.models.named(request.model) if is_asking or request.model is not None else None
        self.check_start(owner, model)
        await self._check_values(owner, request)
        source = await self.source(owner, request, model=model, schema=schema, tools=tools)
        method = request.method if is_asking else "run"
        given = {"files": request.files, "type": request.type, "ask_me": request.ask_me}
        return new_run(owner, request.question, method, model, **given), source

    async def source(
        self,
        owner: str,
        request: RunRequest,
        *,
        model: str | None,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
    ) -> EventSource:
        """Check a request whose values can be decoded, and return its event source. Raises Refusal."""
        paths = [await self.store.local_file(await self._file(id, owner)) for id in request.files]
        make = functools.partial(source_of, request, paths, self.settings, model=model, schema=schema, tools=tools)
        return await self.in_thread(owner, make)

    def kept_source(self, run: RunRecord) -> EventSource:
        """The event source of a run whose request is stored."""

        async def make() -> EventSource:
            kept = await self.kept_request(run)
            assert kept is not None
            return await self.source(run.owner, kept.request, model=run.model, schema=kept.schema)

        return deferred(make)

    async def kept_request(self, run: RunRecord) -> KeptRequest | None:
        data = await self.store.request(run.id)
        return None if data is None else msgspec.json.decode(data, type=KeptRequest)

    def check_start(self, owner: str, model: str | None) -> None:
        """Raise Refusal if a run may not begin now: its owner's budget is spent, or the queue is full."""
        if model is not None:
            self._check_budget(owner)
        self.runs.check_room(owner)

    @contextlib.contextmanager
    def claimed(self, id: str) -> Iterator[None]:
        """Keep a finished run from being resumed twice, or removed meanwhile."""
        self._check_unclaimed(id)
        self._claimed.add(id)
        try:
            yield
        finally:
            self._claimed.discard(id)

    def _check_unclaimed(self, id: str) -> None:
        if id in self._claimed:
            raise Refusal(409, "not_over", "the run is being resumed")

    async def replay(self, owner: str, id: str, request: ReplayRequest) -> ActiveRun:
        """Run the programs of a run again: unchanged, or with changes. A model, if named, answers new calls."""
        parent = await self.runs.find(id, owner)
        _check_over(parent)
        model = self.models.named(request.model) if request.model is not None else None
        self.check_start(owner, model)
        await self._replay_source(parent, request, model)  # raises if it cannot be replayed
        run = new_run(owner, parent.question, "replay", model, parent=parent.id, files=parent.files)

        async def make() -> EventSource:
            kept = await self.kept_request(run)
            assert kept is not None
            assert kept.replay is not None
            return await self._replay_source(await self.finished(id, owner), kept.replay, model)

        kept = as_json(KeptRequest(RunRequest(), is_detached=False, replay=request))
        return await self.runs.submit(run, deferred(make), request=kept)

    async def _replay_source(self, parent: AnyRun, request: ReplayRequest, model: str | None) -> EventSource:
        trace = await self.trace(parent)
        return await self.in_thread(parent.owner, lambda: replay_of(trace, request, model))

    async def _check_values(self, owner: str, request: RunRequest) -> None:
        check_counts(request)
        values = [value["value"] for value in request.values if isinstance(value, dict) and "value" in value]
        try:
            await self.workers.check_values(owner, [*request.inputs.values(), *values])
        except InputError as error:
            raise invalid(str(error)) from None

    async def in_thread(self, owner: str, work: Callable[[], T]) -> T:
        """Run CPU-heavy work in a thread, few at a time, so that the event loop stays responsive."""
        async with self._threads.taken(owner):
            return await asyncio.to_thread(work)

    async def remove(self, owner: str, id: str) -> None:
        run = await self.finished(id, owner)
        self._check_unclaimed(id)
        await self.runs.remove(run)

    def _check_budget(self, owner: str) -> None:
        try:
            self._ledger.check(owner)
        except BudgetError as error:
            raise Refusal(429, "insufficient_quota", str(error), retry_seconds=seconds_to_midnight()) from None

    async def _file(self, id: str, owner: str) -> StoredFile:
        file = await self.store.file(id, owner)
        if file is None:
            raise Refusal(404, "not_found", f"there is no file {id[:100]!r}", param="files")
        return file

    async def finished(self, id: str, owner: str) -> RunSummary:
        run = await self.runs.find_summary(id, owner)
        _check_over(run)
        return run

    async def _trace_path(self, run: AnyRun) -> Path:
        path = await self.store.local_trace(run.id)
        if not path.exists() or not path.stat().st_size:
            raise Refusal(404, "no_trace", "the run has no trace: it has no events")
        return path

    async def small_trace(self, run: AnyRun, most: int, instead: str) -> Path:
        """The trace of a run as a file. Raises Refusal if it is larger than `most` bytes, or has no events."""
        path = await self._trace_path(run)
        if path.stat().st_size > most:
            raise Refusal(413, "too_large", f"the trace is larger than {most:,} bytes: {instead}")
        return path

    async def trace(self, run: AnyRun) -> Trace:
        """Read the trace of a run into memory, where it takes up to twenty times its size on disk. Raises Refusal."""
        path = await self.small_trace(run, _MAX_READ_BYTES, "download it and use the command line")
        try:
            return await self.in_thread(run.owner, lambda: Trace.read(path, is_own=True))
        except TraceError:  # damaged, or being removed
            raise Refusal(422, "cannot_follow", "the trace of the run cannot be read") from None

    async def page(self, run: RunSummary) -> str:
        """A run as one HTML file."""
        job = {"audit": "page", "path": str(await self._trace_path(run)), "title": run.question or ""}
        return msgspec.json.decode(await self._audited(run.owner, job), type=str)

    # --- audits -----------------------------------------------------------------------------------------------

    async def why(self, owner: str, id: str, name: str | None) -> msgspec.Raw:
        """The result of `audit.why_data`, as JSON."""
        job = {"audit": "why", "path": str(await self._trace_path(await self.finished(id, owner)))}
        return await self._audited(owner, {**job, "name": name})

    async def verify(self, owner: str, id: str) -> msgspec.Raw:
        """The result of `audit.verify_data`, as JSON."""
        path = await self._trace_path(await self.finished(id, owner))
        return await self._audited(owner, {"audit": "verify", "path": str(path)})

    async def verify_text(self, owner: str, text: str) -> msgspec.Raw:
        """Verify a trace from any source, within the limits of this server's own runs."""
        limits, scratch = dataclasses.asdict(self.settings.limits), self.settings.has_scratch
        return await self._audited(owner, {"audit": "verify", "text": text, "limits": limits, "scratch": scratch})

    async def _audited(self, owner: str, job: dict[str, Any]) -> msgspec.Raw:
        if self.runs.is_draining:
            raise Refusal(503, "stopping", "the server is shutting down", retry_seconds=self.settings.drain_seconds)
        return await self.workers.audited(owner, job)

    # --- files ------------------------------------------------------------------------------------------------

    async def keep_file(self, owner: str, name: str, data: bytes) -> StoredFile:
        if len(name) > patterns.MAX_FILE_NAME_CHARS or not patterns.fits(patterns.FILE_NAME, name):
            raise invalid(f"invalid file name {name[:100]!r}: a plain name is needed, as in ?name=sales.csv")
        file = new_file(name, data)
        await self.store.keep_file(file, owner, data)
        return file

    # --- the server itself ------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        settings = self.settings
        limits = {
            "runs": settings.runs,
            "queue": settings.queue,
            "requests_per_minute": settings.per_minute,
            "question_chars": MAX_QUESTION_CHARS,
            "json_bytes": MAX_JSON_BYTES,
            "file_bytes": MAX_FILE_BYTES,
            "budget_per_day": dict(settings.budget),
        }
        names = list(self.models.names)
        return {
            "version": __version__,
            "model": names[0],
            "models": names,
            "waiting_for": dict(self.models.states.waiting_for),
            "methods": METHODS,
            "labels": LABELS,
            "limits": limits,
            "mcp": "/mcp" if self.has_mcp else None,
        }

    def knows(self, owner: str) -> bool:
        """Whether an owner can still use the server."""
        return owner in (self.runs.owners or {""}) or bool(self.settings.user_header)

    async def problems(self) -> dict[str, str]:
        """Why runs would fail now, by part; empty if all is well. Concurrent callers share one check."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_all())
        return await asyncio.shield(self._checking)

    async def _check_all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.runs.is_draining:
            found["server"] = "shutting down"
        try:
            await self.store.check()
        except StorageError as error:
            found["store"] = error.message
        try:
            async with asyncio.timeout(_READY_SECONDS):
                result = await arun("answer = 1", sandbox=self.runs.sandbox)
            if not result.is_answered:
                found["sandbox"] = f"a test program ended with {result.reason}"
        except ChainOfCodeError as error:
            found["sandbox"] = str(error)[:500]
        except TimeoutError:
            found["sandbox"] = f"a test program did not end within {_READY_SECONDS:g} seconds"
        if problem := await self.models.problem():
            found["model"] = problem[:500]
        return found


def _check_over(run: AnyRun) -> None:
    if not run.is_over:
        raise Refusal(409, "not_over", "the run is not over yet: wait, or cancel it")
