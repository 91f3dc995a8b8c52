"""MCP at `coc serve`, under /mcp: its tools' runs are the server's own, kept, counted and limited as all others are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request as HTTPRequest
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ...audit import Verdict, check_chain
from ...trace import Trace
from ..conversations import check_ran
from ..intake import Desk
from ..run_kinds import Request
from ..runs import Live
from ..settings import MAX_JSON_BYTES, Refusal
from ..store import Run
from .tool_list import Asked, News, bounded, server_of

_MAX_SESSIONS = 1000  # of clients that keep one, in equal shares; they end after half an hour of silence


class AtDesk:
    """The work of the tools, done as everything else that the server is asked for."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def carry_out(self, asked: Asked, owner: str, news: News) -> tuple[str, Trace]:
        wanted = Request(
            asked.question,
            method=asked.method,
            model=self._desk.models.names[0],
            type=asked.answer_type,
            inputs=dict(asked.inputs),
            program=asked.program,
            values=list(asked.values),
        )
        live = await self._desk.begin(owner, wanted, detach=False)
        try:
            await self._follow(live, news)
        finally:
            live.cancel()  # nobody waits any more, or it is over
            await live.over.wait()
        check_ran(live.run)
        return live.run.id, await self._desk.trace(live.run)

    async def _follow(self, live: Live, news: News) -> None:
        async with contextlib.aclosing(self._desk.runs.follow(live.run)) as told:
            async for some in told:
                for _, kind, data in some:
                    if kind in ("program", "call", "step", "answer"):
                        await news.hear(data)

    async def lines(self, id: str, owner: str) -> bytes:
        run: Run = await self._desk.over(id, owner)
        await self._desk.trace(run)  # or why there is none
        return await asyncio.to_thread(self._desk.store.trace_path(run.id).read_bytes)

    async def verified(self, id: str, owner: str) -> Verdict:
        return await self._desk.verify(owner, id)

    async def verified_text(self, text: bytes) -> Verdict:
        lines = text.splitlines()
        terms = self._desk.terms
        trace = bounded(await asyncio.to_thread(Trace.parse, lines), terms.limits, scratch=terms.has_scratch)
        return await self._desk.verify_trace(trace, await asyncio.to_thread(check_chain, lines))


class Mcp:
    """The endpoint; what goes through it has passed the guard. Open it for as long as the server serves.

    Each token has sessions of its own: for others they are not there, and nobody can use up somebody else's.
    """

    def __init__(self, desk: Desk) -> None:
        owners = list(desk.terms.tokens) or [""]
        share = max(1, _MAX_SESSIONS // len(owners))
        self._sessions = {owner: _sessions_of(desk, share) for owner in owners}
        self._requests, self._is_draining, self._over = 0, False, asyncio.Event()

    @property
    def routes(self) -> list[Route]:
        return [Route("/mcp", self, methods=["GET", "POST", "DELETE"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._over.is_set():
            raise Refusal(503, "stopping", "the server is about to stop")
        body = await HTTPRequest(scope, receive).body()  # refused here, if it is too large or too slow
        is_call = scope["method"] == "POST"
        self._requests += is_call
        try:
            await self._sessions[scope["owner"]].handle_request(scope, _again(body, receive), send)
        finally:
            self._requests -= is_call
            self._end_if_idle()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        started = asyncio.Event()
        serving = asyncio.create_task(self._serve(started))
        await started.wait()
        try:
            yield
        finally:
            self._over.set()
            await serving

    async def _serve(self, started: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for sessions in self._sessions.values():
                await stack.enter_async_context(sessions.run())
            started.set()
            await self._over.wait()

    def drain(self) -> None:
        """Sessions end once no call is under way: the streams that clients listen on would never end by themselves."""
        self._is_draining = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_draining and not self._requests:
            self._over.set()


def _sessions_of(desk: Desk, most: int) -> StreamableHTTPSessionManager:
    server = server_of(AtDesk(desk))
    server.streamable_http_app(
        max_request_body_size=MAX_JSON_BYTES,
        max_sessions=most,
        # The guard has seen to hosts and origins, and knows which are allowed.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and what comes after it."""
    is_told = False

    async def told() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return told


__all__ = ["AtDesk", "Mcp"]
