"""The ASGI application: puts the parts of a server together, opens and closes them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..errors import SandboxError
from ..sandbox import Jail
from .api import Api
from .assets import Assets
from .chat import Chat
from .guard import RequestGuard, refused
from .intake import Intake
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
_FLUSH_SECONDS = 1.0
_REMOVE_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0


class Application:
    """`app` is what an ASGI server runs; `drain` begins the end."""

    def __init__(self, settings: ServerSettings, *, store: Store, models: Models, jail: Jail, spans: Spans) -> None:
        self._settings, self._store, self._jail, self._models = settings, store, jail, models
        self.log = ServerLog(settings.log, settings.logs_content)
        telemetry = Telemetry(log=self.log, spans=spans)
        logging.basicConfig(level=logging.WARNING, handlers=[LibraryLog(self.log)])
        self._ledger = Ledger(settings.budget, store)
        self.runs = Runs(settings, store=store, sandbox=jail, models=models, ledger=self._ledger, telemetry=telemetry)
        intake = Intake(settings, store, self.runs, models, self._ledger)
        self._mcp = _mcp_endpoint(intake, self.log)
        self._resuming = Resuming(intake, self.log)
        routes: list[BaseRoute] = [*Api(intake, self._resuming, telemetry.metrics).routes, *Chat(intake).routes]
        routes += Responses(intake).routes
        routes += self._mcp.routes if self._mcp is not None else []
        inner = Starlette(
            routes=[*routes, *Assets(PAGE).routes],
            exception_handlers={
                Refusal: _refused,
                HTTPException: _http_error,
                ClientDisconnect: _client_left,
                500: _broken,
            },
            lifespan=self._lifespan,
        )
        self.app = RequestGuard(inner, settings, telemetry.metrics, self.log)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        await self._ledger.open()
        status = await self._jail.status()
        if self._settings.has_scratch and not status.has_scratch:
            raise SandboxError(f"--scratch needs tier A of the sandbox{status.why_not('A')}")
        tasks = [asyncio.create_task(self._flush()), asyncio.create_task(self._models.prepare(self.log))]
        if self._settings.keep_days is not None:
            tasks.append(asyncio.create_task(self._remove(self._settings.keep_days * _DAY_SECONDS)))
        if self._settings.resumes:
            tasks.append(asyncio.create_task(self._resuming.resume_all()))
        try:
            async with (
                self.runs.workers.open(),
                self._mcp.open() if self._mcp is not None else contextlib.nullcontext(),
            ):
                yield
        finally:
            await self.runs.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._write_rest()

    def drain(self) -> None:
        """Accept no new runs; those under way may go on for a while."""
        self.runs.drain()
        if self._mcp is not None:
            self._mcp.drain()

    def interrupt(self) -> None:
        """End all runs now."""
        self.runs.interrupt()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._write_rest()

    async def _write_rest(self) -> None:
        try:
            await self._ledger.flush()
            await self.runs.flush()
        except StorageError as error:  # tried again the next time
            self.log.say("not kept", why=error.message)
        except Exception as error:  # the loop must go on
            self.log.say("not kept", {"error": str(error)}, error_type=type(error).__name__)

    async def _remove(self, keep_seconds: float) -> None:
        """Remove old runs from time to time."""
        while True:
            try:
                count = await self._store.remove_before(time.time() - keep_seconds)
                if count:
                    self.log.say("removed", runs=count)
            except StorageError as error:
                self.log.say("nothing removed", why=error.message)
            await asyncio.sleep(min(_REMOVE_SECONDS, keep_seconds))


def _mcp_endpoint(intake: Intake, log: ServerLog) -> McpEndpoint | None:
    if not intake.has_mcp:
        log.say("no mcp", why="/mcp needs the extra `mcp`: pip install 'chainofcode[mcp]'")
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
    """For the log and the metrics: a client that leaves is not an error of the server."""
    return refused(Refusal(400, "left", "the client left before its body was whole"), request.url.path)


async def _broken(request: HTTPRequest, error: Exception) -> Response:
    return refused(Refusal(500, "internal", "something went wrong on the server"), request.url.path)
