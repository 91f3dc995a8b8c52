"""Server-sent events, and how to notice that a client has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .run_events import StreamEvent
from .trace_reader import LongLine

T = TypeVar("T")
KEEP = b": keep\n\n"


class EventStream(StreamingResponse):
    """A stream whose generator is closed as soon as the client disconnects."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        headers: Mapping[str, str] | None = None,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        self._events, self._left = events, left
        all_headers = {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
        super().__init__(events, headers=all_headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()
            self._left()  # a client may disconnect before the generator starts


def event(kind: str | None, data: bytes, number: int | None = None) -> bytes:
    """One server-sent event. Data is JSON, so it has one line."""
    return b"%sdata: %s\n\n" % (_head(kind, number), data)


def _head(kind: str | None, number: int | None) -> bytes:
    head = b"" if number is None else b"id: %d\n" % number
    return head + (b"" if kind is None else b"event: %s\n" % kind.encode())


async def event_parts(events: Sequence[StreamEvent]) -> AsyncGenerator[bytes, None]:
    """Server-sent events: short ones together, a long one in pieces, so that it is never held in memory."""
    joined = b""
    for number, kind, data in events:
        if isinstance(data, LongLine):
            yield joined + _head(kind, number) + b"data: "
            for piece in data.event_pieces():
                yield piece
                await asyncio.sleep(0)  # a client that reads fast must not delay the others
            joined = b"\n\n"
        else:
            joined += KEEP if kind == "keep" else event(kind, data, number)
    yield joined


async def unless_gone(request: Request, awaited: Awaitable[T]) -> T | None:
    """Await a result; None if the client disconnects first. The body must have been read."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    waiting, leaving = asyncio.ensure_future(awaited), asyncio.ensure_future(left())
    try:
        await asyncio.wait([waiting, leaving], return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        for task in (waiting, leaving):
            task.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
