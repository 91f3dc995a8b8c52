"""Responses in progress: their number, and their unsent bytes, are bounded for each owner."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator

from starlette.datastructures import Headers
from starlette.types import Message, Send

from .fair_share import has_room
from .refusal import Refusal
from .settings import MAX_FILE_BYTES
from .trace_reader import PIECE_BYTES

_MAX_RESPONSES = 1600  # of all owners; somewhat fewer than connections
_MAX_UNSENT_BYTES = 4 * MAX_FILE_BYTES  # of one owner


Refused = Callable[[Refusal], Awaitable[None]]  # sends a refusal instead of a response


class Outgoing:
    """What the server holds for clients that have not read it yet, by owner.

    If owners share the server, none may have more responses open than remain free.
    """

    def __init__(self, owners: Collection[str]) -> None:
        self._owners = owners
        self._open: collections.Counter[str] = collections.Counter()
        self._unsent: collections.Counter[str] = collections.Counter()  # bytes

    @contextlib.contextmanager
    def response(self, owner: str, send: Send, refused: Refused) -> Iterator[Send]:
        """Send one response. Raises Refusal if the owner has too many."""
        is_alone = set(self._owners) == ({owner} if owner else set())
        if not has_room(self._open[owner], self._open.total(), _MAX_RESPONSES, is_shared=not is_alone):
            raise Refusal(429, "busy", "too many open requests; close streams that you do not read", retry_seconds=5)
        sender = _PieceSender(owner, send, refused, self._unsent)
        self._open[owner] += 1
        try:
            yield sender
        finally:
            _subtract(self._open, owner, 1)
            sender.release()


class _PieceSender:
    """Sends a body in pieces: after each piece, the server waits until the client has read most of it."""

    def __init__(self, owner: str, send: Send, refused: Refused, all_unsent: collections.Counter[str]) -> None:
        self._owner, self._send, self._refused, self._all_unsent = owner, send, refused, all_unsent
        self._start: Message | None = None
        self._unsent, self._is_refused = 0, False

    async def __call__(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            if "content-length" in Headers(raw=message["headers"]):
                self._start = message  # sent with the body, which may be refused
            else:
                await self._send(message)
            return
        body = message.get("body", b"")
        if len(body) <= PIECE_BYTES:
            await self._begin()
            await self._send(message)
        elif self._has_room(len(body)):
            await self._send_pieces(message, body)
        else:
            await self._refuse()

    async def _begin(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)

    async def _send_pieces(self, message: Message, body: bytes) -> None:
        self._count(len(body))
        await self._begin()
        for place in range(0, len(body), PIECE_BYTES):
            piece = body[place : place + PIECE_BYTES]
            await self._send({**message, "body": piece, "more_body": True})
            self._count(-len(piece))
            await asyncio.sleep(0)  # a client that reads fast must not delay the others
        # The server waits before it sends the end, so that the last pieces are not left in its memory.
        await self._send({**message, "body": b"", "more_body": message.get("more_body", False)})

    def _has_room(self, size: int) -> bool:
        unsent = self._all_unsent[self._owner]
        return not unsent or unsent + size <= _MAX_UNSENT_BYTES

    async def _refuse(self) -> None:
        refusal = Refusal(503, "busy", "too many unread responses; read or close them first", retry_seconds=5)
        if self._start is None:  # the client sees that the stream is incomplete
            raise refusal
        self._is_refused = True
        await self._refused(refusal)

    def _count(self, size: int) -> None:
        self._unsent += size
        self._all_unsent[self._owner] += size

    def release(self) -> None:
        _subtract(self._all_unsent, self._owner, self._unsent)


def _subtract(counter: collections.Counter[str], owner: str, count: int) -> None:
    counter[owner] -= count
    if not counter[owner]:
        del counter[owner]
