"""The ASGI application: puts the parts of a server together, opens and closes them in order."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..errors import InputError, SandboxError
from ..sandbox import CheckedSandbox
from .access import Access
from .api import Api
from .assets import Assets
from .chat import Chat
from .forwarded import ForwardedRequests
from .guard import RequestGuard, refused
from .intake import Intake
from .memory import return_freed_memory
from .metrics import LibraryLog, ServerLog
from .quotas import Ledger
from .refusal import Refusal, StorageError
from .responses import Responses
from .resuming import Resuming
from .run_kinds import Models
from .runs import Runs
from .settings import ServerSettings
from .sharing import PAGE
from .spans import Spans
from .store import Store
from .telemetry import Telemetry

if TYPE_CHECKING:
    from .mcp.hosted import McpEndpoint

_WORDS = {404: "not_found", 405: "method_not_allowed"}
_FLUSH_SECONDS = _REFRESH_SECONDS = 1.0
_REMOVE_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0
_SPARE_THREADS = 16


class Application:
    """`app` and `admin_app` are the ASGI applications; `drain` begins the shutdown."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        access: Access,
        store: Store,
        models: Models,
        sandbox: CheckedSandbox,
        spans: Spans,
    ) -> None:
        self._settings, self._access, self._store = settings, access, store
        self._sandbox, self._models = sandbox, models
        self.log = ServerLog(settings.log, settings.logs_content)
        telemetry = Telemetry(log=self.log, spans=spans)
        logging.basicConfig(level=logging.WARNING, handlers=[LibraryLog(self.log)])
        self._ledger = Ledger(settings.budget, store, access.budget)
        self.runs = Runs(
            settings,
            store=store,
            sandbox=sandbox,
            models=models,
            ledger=self._ledger,
            telemetry=telemetry,
            owners=access.owners,
        )
        intake = Intake(settings, store, self.runs, models, self._ledger)
        self._mcp = _mcp_endpoint(intake, self.log)
        self._resuming = Resuming(intake, self.log)
        api = Api(intake, self._resuming, telemetry.metrics, access)
        routes: list[BaseRoute] = [*api.routes, *Chat(intake).routes]
        routes += Responses(intake).routes
        routes += self._mcp.routes if self._mcp is not None else []
        inner = Starlette(
            routes=[*routes, *Assets(PAGE).routes], exception_handlers=_ERROR_HANDLERS, lifespan=self._lifespan
        )
        self.routes = inner.routes
        guarded = RequestGuard(inner, settings, access, telemetry)
        self.app = ForwardedRequests(guarded, settings.proxies, settings.user_header)
        own_settings = dataclasses.replace(settings, host=settings.admin_host, tokens={}, user_header="")
        for_operators = Starlette(routes=api.operator_routes, exception_handlers=_ERROR_HANDLERS)
        self.admin_app = RequestGuard(for_operators, own_settings, Access(own_settings), telemetry)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        # Two threads per run: with the few of asyncio's default, slow checks for one client would delay all others.
        threads = ThreadPoolExecutor(2 * self._settings.runs + _SPARE_THREADS)
        asyncio.get_running_loop().set_default_executor(threads)
        await self._ledger.open()
        status = await self._sandbox.status()
        if self._settings.has_scratch and not status.has_scratch:
            raise SandboxError(f"--scratch needs tier A of the sandbox{status.why_not('A')}")
        tasks = [asyncio.create_task(self._flush()), asyncio.create_task(self._refresh_tokens())]
        tasks.append(asyncio.create_task(self._models.prepare(self.log)))
        tasks.append(asyncio.create_task(return_freed_memory()))
        if self._settings.keep_days is not None:
            tasks.append(asyncio.create_task(self._remove(self._settings.keep_days * _DAY_SECONDS)))
        if self._settings.resumes:
            tasks.append(asyncio.create_task(self._resuming.resume_all()))
        try:
            async with (
                self.runs.workers.open(),
                self._mcp.open() if self._mcp is not None else contextlib.nullcontext(),
                self._with_peers(),
            ):
                yield
        finally:
            await self.runs.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._write_rest()

    def _with_peers(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Take part in the shared queue, if there is one."""
        if self.runs.peers is None:
            return contextlib.nullcontext()
        return self.runs.peers.open(self._store, self.runs, self._resuming.start_claimed)

    def drain(self) -> None:
        """Accept no new runs, and give active ones time to finish."""
        self.runs.drain()
        if self._mcp is not None:
            self._mcp.drain()

    async def drained(self) -> None:
        """Wait until no run is active."""
        await self.runs.drained()

    def interrupt(self) -> None:
        """End all runs now."""
        self.runs.interrupt()

    async def _refresh_tokens(self) -> None:
        """Notice tokens that were added or revoked."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            try:
                await self._access.refresh()
            except InputError as error:  # the tokens stay as they were
                self.log.write("tokens not refreshed", why=str(error))

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._write_rest()

    async def _write_rest(self) -> None:
        try:
            await self._ledger.flush()
            await self.runs.flush()
        except StorageError as error:  # the next flush tries again
            self.log.write("changes not saved", why=error.message)
        except Exception as error:  # the loop must go on
            self.log.write("changes not saved", {"error": str(error)}, error_type=type(error).__name__)

    async def _remove(self, keep_seconds: float) -> None:
        """Remove old runs from time to time."""
        while True:
            try:
                count = await self._store.remove_before(time.time() - keep_seconds)
                if count:
                    self.log.write("runs removed", runs=count)
            except StorageError as error:
                self.log.write("removal failed", why=error.message)
            except Exception as error:  # the loop must go on
                self.log.write("removal failed", {"error": str(error)}, error_type=type(error).__name__)
            await asyncio.sleep(min(_REMOVE_SECONDS, keep_seconds))


def _mcp_endpoint(intake: Intake, log: ServerLog) -> McpEndpoint | None:
    if not intake.has_mcp:
        log.write("mcp unavailable", why="/mcp needs the extra `mcp`: pip install 'chainofcode[mcp]'")
        return None
    from .mcp.hosted import McpEndpoint

    return McpEndpoint(intake)


async def _refused(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error, request.url.path)


async def _http_error(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refused(
        Refusal(error.status_code, _WORDS.get(error.status_code, "refused"), error.detail), request.url.path
    )
    response.headers.update(error.headers or {})
    return response


async def _client_left(request: HTTPRequest, error: Exception) -> Response:
    """For the log and the metrics: a client that disconnects is not an error of the server."""
    return refused(Refusal(400, "left", "the client disconnected before sending the whole body"), request.url.path)


async def _broken(request: HTTPRequest, error: Exception) -> Response:
    return refused(Refusal(500, "internal", "internal error; see the server's log"), request.url.path)


_ERROR_HANDLERS: dict[Any, Any] = {
    Refusal: _refused,
    HTTPException: _http_error,
    ClientDisconnect: _client_left,
    500: _broken,
}
