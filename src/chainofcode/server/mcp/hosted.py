"""MCP in `coc serve`, at /mcp: runs of its tools are stored, counted and limited like all other runs."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request as HTTPRequest
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ...trace import Trace, as_json
from ..active_run import is_set_within
from ..conversations import check_ran
from ..intake import Intake
from ..refusal import Refusal
from ..run_kinds import RunRequest
from ..settings import MAX_JSON_BYTES
from ..store import RunRecord
from .tool_list import ProgressReporter, ToolRequest, build_server

_MAX_TRACE_BYTES = 4 * 1024**2  # as a resource: the SDK copies it several times
_MAX_CONTAINERS, _MAX_ITEMS = 150_000, 500_000  # in the body of a request
_MAX_SESSIONS = 1000  # shared equally by the tokens; idle sessions end after half an hour
_IDLE_SECONDS = 2000.0  # without a request, after which all sessions of an owner have ended


class HostedBackend:
    """Runs the tools as ordinary requests to the server."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def carry_out(self, request: ToolRequest, owner: str, progress: ProgressReporter) -> tuple[str, Trace]:
        run_request = RunRequest(
            question=request.question,
            method=request.method,
            model=self._intake.models.names[0],
            type=request.answer_type,
            inputs=_raw(request.inputs),
            program=request.program,
            values=[_raw(value) for value in request.values],
        )
        active = await self._intake.begin(owner, run_request, detach=False)
        try:
            await self._follow(active.run, progress)
        finally:
            active.cancel()  # the client has disconnected, or the run is over
            await active.over.wait()
        check_ran(active.run)
        return active.run.id, await self._intake.trace(active.run)

    async def _follow(self, run: RunRecord, progress: ProgressReporter) -> None:
        async with contextlib.aclosing(self._intake.runs.follow(run)) as batches:
            async for batch in batches:
                for _, kind, data in batch:
                    if kind in ("program", "call", "step", "answer"):
                        await progress.note(data if isinstance(data, bytes) else f"a {kind} of {data.size:,} bytes")

    async def lines(self, id: str, owner: str) -> bytes:
        run = await self._intake.finished(id, owner)
        path = await self._intake.small_trace(run, _MAX_TRACE_BYTES, f"download it from /api/runs/{run.id}/trace")
        return await self._intake.in_thread(owner, path.read_bytes)

    async def verified(self, id: str, owner: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(await self._intake.verify(owner, id))
        return found

    async def verified_text(self, text: str, owner: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(await self._intake.verify_text(owner, text))
        return found


class OwnerSessions:
    """The sessions of one owner, and how they are used."""

    def __init__(self) -> None:
        self.manager: asyncio.Future[StreamableHTTPSessionManager] = asyncio.get_running_loop().create_future()
        self._requests, self._used = 0, time.monotonic()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._used = time.monotonic()

    @property
    def are_idle(self) -> bool:
        return not self._requests and time.monotonic() - self._used >= _IDLE_SECONDS


class McpEndpoint:
    """The endpoint, behind the request guard. Each token has sessions of its own, hidden from other tokens."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._sessions: dict[str, OwnerSessions] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._requests, self._is_draining, self._over = 0, False, asyncio.Event()

    @property
    def routes(self) -> list[Route]:
        return [Route("/mcp", self, methods=["GET", "POST", "DELETE"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._over.is_set():
            raise Refusal(
                503, "stopping", "the server is shutting down", retry_seconds=self._intake.settings.drain_seconds
            )
        body = await HTTPRequest(scope, receive).body()  # raises if it is too large or too slow
        _check_parts(body)
        is_call = scope["method"] == "POST"
        self._requests += is_call
        try:
            sessions = self._sessions_of(scope["owner"])
            with sessions.in_use():
                manager = await asyncio.shield(sessions.manager)
                await manager.handle_request(scope, _again(body, receive), send)
        finally:
            self._requests -= is_call
            self._end_if_idle()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._over.set()
            await asyncio.gather(*self._serving)

    def _sessions_of(self, owner: str) -> OwnerSessions:
        """The sessions of an owner, opened with the first request and closed when idle: owners come and go."""
        if owner not in self._sessions:
            self._sessions[owner] = OwnerSessions()
            # In a context of its own: the sessions do not belong to the trace of this request.
            task = asyncio.create_task(self._serve(owner), context=contextvars.Context())
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        return self._sessions[owner]

    async def _serve(self, owner: str) -> None:
        sharing = max(len(self._intake.runs.owners), len(self._sessions))
        sessions, manager = self._sessions[owner], _new_sessions(self._intake, max(1, _MAX_SESSIONS // sharing))
        async with manager.run():
            sessions.manager.set_result(manager)
            while not await is_set_within(self._over, _IDLE_SECONDS):
                if sessions.are_idle:
                    del self._sessions[owner]
                    return

    def drain(self) -> None:
        """End the sessions once no call is active: the event streams of clients would never end."""
        self._is_draining = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_draining and not self._requests:
            self._over.set()


def _new_sessions(intake: Intake, most: int) -> StreamableHTTPSessionManager:
    server = build_server(HostedBackend(intake))
    server.streamable_http_app(
        max_request_body_size=MAX_JSON_BYTES,
        max_sessions=most,
        # The request guard checks hosts and origins.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager


def _check_parts(body: bytes) -> None:
    """Raise Refusal for a body that would block the event loop for too long: the SDK copies each part."""
    if body.count(b"[") + body.count(b"{") > _MAX_CONTAINERS or body.count(b",") > _MAX_ITEMS:
        raise Refusal(413, "too_large", "the body has too many lists, objects or values")


def _raw(values: Mapping[str, Any]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(as_json(value)) for name, value in values.items()}


def _again(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was already read, then what follows it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
