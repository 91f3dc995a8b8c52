"""The work behind every protocol of the server: start, replay and remove runs, audit them, keep uploads."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from .. import __version__
from ..audit import Chain, Verdict, afollow, averify, check_chain, why_data
from ..engine import arun
from ..errors import BudgetError, ChainOfCodeError, InputError, TraceError
from ..methods import METHODS
from ..sandbox import Sandbox
from ..trace import Trace
from . import patterns
from .quotas import Ledger, seconds_to_midnight
from .refusal import Refusal, StorageError, invalid
from .run_kinds import Models, ReplayRequest, RunRequest, check_counts, replay_of, source_of
from .runs import ActiveRun, Runs, new_run
from .settings import MAX_FILE_BYTES, MAX_JSON_BYTES, MAX_QUESTION_CHARS, ServerSettings
from .store import RunRecord, Store, StoredFile, new_file

T = TypeVar("T")
_AUDIT_SECONDS = 120.0
_READY_SECONDS = 20.0


class Intake:
    """Takes requests of every protocol. `owner` is the name of the token that sent them."""

    def __init__(self, settings: ServerSettings, store: Store, runs: Runs, models: Models, ledger: Ledger) -> None:
        self.settings, self.store, self.runs, self.models, self._ledger = settings, store, runs, models, ledger
        self._audits = 0
        self._checking: asyncio.Task[dict[str, str]] | None = None
        self.has_mcp = importlib.util.find_spec("mcp") is not None

    # --- runs -------------------------------------------------------------------------------------------------

    async def begin(
        self, owner: str, request: RunRequest, *, detach: bool, schema: Mapping[str, Any] | None = None
    ) -> ActiveRun:
        """Queue a run, stored when this returns; `schema` is a JSON schema for its answer. Raises Refusal."""
        is_asking = request.program is None
        model = self.models.named(request.model) if is_asking or request.model is not None else None
        if model is not None:
            self._check_budget(owner)
        self.runs.check_room()
        check_counts(request)
        paths = [self.store.file_path(await self._file(id, owner)) for id in request.files]
        # In a thread, because requests can be large.
        source = await asyncio.to_thread(source_of, request, paths, self.settings, model=model, schema=schema)
        method = request.method if is_asking else "run"
        run = new_run(owner, request.question, method, model, files=request.files)
        return await self.runs.submit(run, source, detach=detach)

    async def replay(self, owner: str, id: str, request: ReplayRequest) -> ActiveRun:
        """Run the programs of a run again, without a model: unchanged, or with changes."""
        parent = await self.finished(id, owner)
        source = await asyncio.to_thread(replay_of, await self.trace(parent), request)
        run = new_run(owner, parent.question, "replay", None, parent=parent.id, files=parent.files)
        return await self.runs.submit(run, source)

    async def remove(self, owner: str, id: str) -> None:
        await self.runs.remove(await self.finished(id, owner))

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

    async def finished(self, id: str, owner: str) -> RunRecord:
        run = await self.runs.find(id, owner)
        if not run.is_over:
            raise Refusal(409, "not_over", "the run is not over yet")
        return run

    async def trace(self, run: RunRecord) -> Trace:
        path = self.store.trace_path(run.id)
        if not path.exists() or not path.stat().st_size:
            raise Refusal(404, "no_trace", "the run ended before anything happened: it has no trace")
        try:
            return await asyncio.to_thread(Trace.read, path)
        except TraceError:  # damaged, or being removed
            raise Refusal(422, "cannot_follow", "the trace of the run cannot be read") from None

    # --- audits -----------------------------------------------------------------------------------------------

    async def why(self, owner: str, id: str, name: str | None) -> dict[str, Any]:
        trace = await self.trace(await self.finished(id, owner))

        async def follow(sandbox: Sandbox) -> dict[str, Any]:
            return why_data(await afollow(trace, name, sandbox=sandbox))

        return await self._audited(follow)

    async def verify(self, owner: str, id: str) -> Verdict:
        trace = await self.trace(await self.finished(id, owner))
        return await self.verify_trace(trace, await asyncio.to_thread(check_chain, self.store.trace_path(id)))

    async def verify_trace(self, trace: Trace, chain: Chain) -> Verdict:
        async def verify(sandbox: Sandbox) -> Verdict:
            return await averify(trace, chain=chain, sandbox=sandbox)

        return await self._audited(verify)

    async def _audited(self, audit: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Audit in a slot for runs: it starts guests, too."""
        self.runs.check_room()
        if self._audits > self.settings.runs:
            raise Refusal(429, "busy", "too many audits are under way", retry_seconds=5)
        self._audits += 1
        try:
            async with asyncio.timeout(_AUDIT_SECONDS), self.runs.slots:
                return await audit(self.runs.sandbox)
        except TimeoutError:
            raise Refusal(503, "too_slow", f"it took over {_AUDIT_SECONDS:g} seconds", retry_seconds=30) from None
        except InputError as error:
            raise Refusal(409, "cannot_follow", str(error)) from None
        finally:
            self._audits -= 1

    # --- files ------------------------------------------------------------------------------------------------

    async def keep_file(self, owner: str, name: str, data: bytes) -> StoredFile:
        if len(name) > patterns.MAX_FILE_NAME_CHARS or not patterns.fits(patterns.FILE_NAME, name):
            raise invalid("a file needs a plain name, as in ?name=sales.csv")
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
            "methods": METHODS,
            "limits": limits,
            "mcp": "/mcp" if self.has_mcp else None,
        }

    async def problems(self) -> dict[str, str]:
        """Why runs would fail now, by part; empty if all is well. Concurrent callers share one check."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_all())
        return await asyncio.shield(self._checking)

    async def _check_all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.runs.is_draining:
            found["server"] = "about to stop"
        try:
            await self.store.check()
        except StorageError as error:
            found["store"] = error.message
        try:
            async with asyncio.timeout(_READY_SECONDS):
                result = await arun("answer = 1", sandbox=self.runs.sandbox)
            if not result.is_answered:
                found["sandbox"] = f"a program ended as {result.reason}"
        except ChainOfCodeError as error:
            found["sandbox"] = str(error)[:500]
        except TimeoutError:
            found["sandbox"] = f"no guest within {_READY_SECONDS:g} seconds"
        return found
