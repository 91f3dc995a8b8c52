"""The application: every part of a server put together, opened and closed in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import SandboxError
from ..sandbox import Jail
from .api import Api
from .chat import Chat
from .guard import Guard, refused
from .intake import Desk
from .metrics import Heard, Log, Metrics
from .quotas import Ledger
from .responses import Responses
from .run_kinds import Models
from .runs import Runs
from .settings import Refusal, Terms
from .spans import Spans
from .store import NotKept, Store

if TYPE_CHECKING:
    from .mcp.hosted import Mcp

PAGE = Path(__file__).parent / "page"
_NO_PAGE = "This is coc serve. The API is described in /openapi.json.\n"
_WORDS = {404: "not_found", 405: "method_not_allowed"}
_FLUSH_SECONDS = 1.0
_REMOVE_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0


class Application:
    """`app` is what an ASGI server runs; `drain` lets it come to an end."""

    def __init__(self, terms: Terms, store: Store, models: Models, jail: Jail, spans: Spans) -> None:
        self._terms, self._store, self._models, self._jail = terms, store, models, jail
        self.metrics, self.log = Metrics(), Log(terms.log, terms.logs_content)
        logging.basicConfig(level=logging.WARNING, handlers=[Heard(self.log)])
        self._ledger = Ledger(terms.budget, store)
        self.runs = Runs(terms, store, jail, models, self._ledger, self.metrics, self.log, spans)
        desk = Desk(terms, store, self.runs, models, self._ledger)
        self._mcp = _mcp_of(desk, self.log)
        routes: list[BaseRoute] = [*Api(desk, self.metrics).routes, *Chat(desk).routes, *Responses(desk).routes]
        routes += self._mcp.routes if self._mcp is not None else []
        inner = Starlette(
            routes=[*routes, *_page_routes()],
            exception_handlers={
                Refusal: _refused,
                HTTPException: _plainly_refused,
                ClientDisconnect: _left,
                500: _broken,
            },
            lifespan=self._lifespan,
        )
        self.app = Guard(inner, terms, self.metrics, self.log)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        await self._ledger.open()
        holds = await self._jail.holds()
        if self._terms.has_scratch and holds.tier != "A":
            raise SandboxError(f"--scratch needs tier A of the sandbox{holds.why_not('A')}")
        tasks = [asyncio.create_task(self._flush())]
        if self._terms.keep_days is not None:
            tasks.append(asyncio.create_task(self._remove(self._terms.keep_days * _DAY_SECONDS)))
        try:
            async with self._mcp.open() if self._mcp is not None else contextlib.nullcontext():
                yield
        finally:
            await self.runs.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._keep_rest()

    def drain(self) -> None:
        """No new runs; those there are may go on for a while."""
        self.runs.drain()
        if self._mcp is not None:
            self._mcp.drain()

    def interrupt(self) -> None:
        """End the runs there are."""
        self.runs.interrupt()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._keep_rest()

    async def _keep_rest(self) -> None:
        try:
            await self._ledger.flush()
            await self.runs.flush()
        except NotKept as error:  # the next time may be better
            self.log.say("not kept", why=error.message)
        except Exception as error:  # whatever it is, there must be a next time
            self.log.say("not kept", {"error": str(error)}, error_type=type(error).__name__)

    async def _remove(self, keep_seconds: float) -> None:
        """What is older, now and then."""
        while True:
            try:
                count = await self._store.remove_before(time.time() - keep_seconds)
                if count:
                    self.log.say("removed", runs=count)
            except NotKept as error:
                self.log.say("nothing removed", why=error.message)
            await asyncio.sleep(min(_REMOVE_SECONDS, keep_seconds))


def _mcp_of(desk: Desk, log: Log) -> Mcp | None:
    if not desk.has_mcp:
        log.say("no mcp", why="/mcp needs the extra `mcp`: pip install 'chainofcode[mcp]'")
        return None
    from .mcp.hosted import Mcp

    return Mcp(desk)


def _page_routes() -> list[BaseRoute]:
    async def page(request: HTTPRequest) -> Response:
        index = PAGE / "index.html"
        return (
            FileResponse(index, headers={"cache-control": "no-cache"})
            if index.is_file()
            else PlainTextResponse(_NO_PAGE)
        )

    routes: list[BaseRoute] = [Route("/", page)]
    return [*routes, Mount("/static", StaticFiles(directory=PAGE))] if PAGE.is_dir() else routes


async def _refused(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error, request.url.path)


async def _plainly_refused(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refused(
        Refusal(error.status_code, _WORDS.get(error.status_code, "refused"), error.detail), request.url.path
    )
    response.headers.update(error.headers or {})
    return response


async def _left(request: HTTPRequest, error: Exception) -> Response:
    """Nobody reads it: it is for the log and the metrics, where a client that leaves is no fault of ours."""
    return refused(Refusal(400, "left", "the client left before its body was whole"), request.url.path)


async def _broken(request: HTTPRequest, error: Exception) -> Response:
    return refused(Refusal(500, "internal", "something went wrong on the server"), request.url.path)
