"""Where requests of every protocol are taken in: what is asked becomes a run, or an audit of one."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from .. import __version__
from ..audit import Chain, Verdict, afollow, averify, check_chain, why_data
from ..engine import arun
from ..errors import BudgetError, ChainOfCodeError, InputError, SandboxError, TraceError
from ..methods import METHODS
from ..sandbox import Sandbox
from ..trace import Trace
from . import patterns
from .quotas import Ledger, seconds_to_midnight
from .run_kinds import Again, Models, Request, check_counts, job_of, replay_of
from .runs import Live, Runs, new_run
from .settings import MAX_FILE_BYTES, MAX_JSON_BYTES, MAX_QUESTION_CHARS, Refusal, Terms
from .store import NotKept, Run, Store, StoredFile, digest_of

T = TypeVar("T")
_AUDIT_SECONDS = 120.0
_READY_SECONDS = 20.0


class Desk:
    """Everything that can be asked of a server, whatever the protocol. `owner` is whose token it was."""

    def __init__(self, terms: Terms, store: Store, runs: Runs, models: Models, ledger: Ledger) -> None:
        self.terms, self.store, self.runs, self.models, self._ledger = terms, store, runs, models, ledger
        self._audits = 0
        self._trying: asyncio.Task[dict[str, str]] | None = None
        self.has_mcp = importlib.util.find_spec("mcp") is not None

    # --- runs -------------------------------------------------------------------------------------------------

    async def begin(
        self, owner: str, request: Request, *, detach: bool, schema: Mapping[str, Any] | None = None
    ) -> Live:
        """Start a run; it is kept when this returns. `schema` is what its answer is to fit. Raises Refusal."""
        is_asking = request.program is None
        model = self.models.named(request.model) if is_asking or request.model is not None else None
        if model is not None:
            self._check_budget(owner)
        self.runs.check_room()
        check_counts(request)
        paths = [self.store.file_path(await self._file(id, owner)) for id in request.files]
        job = await asyncio.to_thread(job_of, request, paths, self.terms, model, schema)  # what was sent may be large
        method = request.method if is_asking else "run"
        run = new_run(owner, request.question, method, model, files=request.files)
        return await self.runs.submit(run, job, detach=detach)

    async def again(self, owner: str, id: str, again: Again) -> Live:
        """Run a run's programs again, without a model: as they were, or with changes."""
        parent = await self.over(id, owner)
        job = await asyncio.to_thread(replay_of, await self.trace(parent), again)
        run = new_run(owner, parent.question, "replay", None, parent=parent.id, files=parent.files)
        return await self.runs.submit(run, job)

    async def remove(self, owner: str, id: str) -> None:
        await self.runs.remove(await self.over(id, owner))

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

    async def over(self, id: str, owner: str) -> Run:
        run = await self.runs.find(id, owner)
        if run.state in ("queued", "running"):
            raise Refusal(409, "not_over", "the run is not over yet")
        return run

    async def trace(self, run: Run) -> Trace:
        path = self.store.trace_path(run.id)
        if not path.exists() or not path.stat().st_size:
            raise Refusal(404, "no_trace", "the run ended before anything happened: it has no trace")
        try:
            return await asyncio.to_thread(Trace.read, path)
        except TraceError:  # the disk's doing, or it is being removed
            raise Refusal(422, "cannot_follow", "the trace of the run cannot be read") from None

    # --- audits -----------------------------------------------------------------------------------------------

    async def why(self, owner: str, id: str, name: str | None) -> dict[str, Any]:
        trace = await self.trace(await self.over(id, owner))

        async def follow(sandbox: Sandbox) -> dict[str, Any]:
            return why_data(await afollow(trace, name, sandbox=sandbox))

        return await self._audited(follow)

    async def verify(self, owner: str, id: str) -> Verdict:
        trace = await self.trace(await self.over(id, owner))
        return await self.verify_trace(trace, await asyncio.to_thread(check_chain, self.store.trace_path(id)))

    async def verify_trace(self, trace: Trace, chain: Chain) -> Verdict:
        async def verify(sandbox: Sandbox) -> Verdict:
            return await averify(trace, chain=chain, sandbox=sandbox)

        return await self._audited(verify)

    async def _audited(self, audit: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Audits run guests, as runs do, and take their turn with them."""
        self.runs.check_room()
        if self._audits > self.terms.runs:
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
            raise Refusal(400, "invalid_request", "a file needs a plain name, as in ?name=sales.csv")
        file = StoredFile(secrets.token_hex(12), name, len(data), digest_of(data))
        await self.store.keep_file(file, owner, data)
        return file

    # --- the server itself ------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        terms = self.terms
        limits = {
            "runs": terms.runs,
            "queue": terms.queue,
            "requests_per_minute": terms.per_minute,
            "question_chars": MAX_QUESTION_CHARS,
            "json_bytes": MAX_JSON_BYTES,
            "file_bytes": MAX_FILE_BYTES,
            "budget_per_day": dict(terms.budget),
        }
        names = list(self.models.names)
        told = {"version": __version__, "model": names[0], "models": names, "methods": METHODS, "limits": limits}
        return {**told, "mcp": "/mcp" if self.has_mcp else None}

    async def problems(self) -> dict[str, str]:
        """Why no run could be carried out now; nothing, if all is well. Who asks meanwhile hears the same."""
        if self._trying is None or self._trying.done():
            self._trying = asyncio.create_task(self._try_all())
        return await asyncio.shield(self._trying)

    async def _try_all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.runs.is_draining:
            found["server"] = "it is about to stop"
        try:
            await self.store.check(time.time())
        except NotKept as error:
            found["store"] = error.message
        try:
            async with asyncio.timeout(_READY_SECONDS):
                result = await arun("answer = 1", sandbox=self.runs.sandbox)
            if result.reason != "answered":
                found["sandbox"] = f"a program ended as {result.reason}"
        except (SandboxError, ChainOfCodeError) as error:
            found["sandbox"] = str(error)[:500]
        except TimeoutError:
            found["sandbox"] = f"no guest within {_READY_SECONDS:g} seconds"
        return found
