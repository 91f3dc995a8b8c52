"""A connection to a client: what it costs the server is bounded, in bytes and in time.

A client that does not read is disconnected. A client that sends its body in tiny chunks takes turns with others like
it, is refused after a thousand of them, and is disconnected if it sends much more after the response.
"""

from __future__ import annotations

import asyncio
import collections
import socket
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

_MAX_BUFFERED_BYTES = 32 * 1024  # before a response waits for the client
_SEND_SECONDS = 30  # in which a client must read what is buffered; slower clients are disconnected
_PARTS_IN_TURN = 64  # of a body; each takes about ten microseconds
_FREE_CHUNKS = 1000  # from then on, they must be larger on average
_LEAST_CHUNK_BYTES = 64
_TINY_CHUNKS = "the body comes in tiny chunks: send larger ones, or send Content-Length instead"
_MAX_UNWANTED_BYTES = 64 * 1024  # of a body that arrives after the response; a client may still be sending a small one


class _BodyParts(h11.Connection):
    """Parses at most `_PARTS_IN_TURN` parts of a body before the next turn, and refuses bodies in tiny chunks."""

    def __init__(self, max_event_bytes: int) -> None:
        super().__init__(h11.SERVER, max_event_bytes)
        self.is_cut = False  # there may be more to parse
        self._left = _PARTS_IN_TURN
        self._chunks, self._chunk_bytes, self._unwanted_bytes = 0, 0, 0

    @property
    def has_tiny_chunks(self) -> bool:
        return self._chunks > _FREE_CHUNKS and self._chunk_bytes < _LEAST_CHUNK_BYTES * self._chunks

    @property
    def is_unwanted(self) -> bool:
        """Whether too much of a body arrived after the response."""
        return self._unwanted_bytes > _MAX_UNWANTED_BYTES

    def begin_turn(self) -> None:
        self._left, self.is_cut = _PARTS_IN_TURN, False

    def next_event(self) -> Any:
        if not self._left:
            self.is_cut = True
            return h11.NEED_DATA
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks, self._chunk_bytes, self._unwanted_bytes = 0, 0, 0
        elif isinstance(event, h11.Data):
            self._left -= 1
            self._count(event)
        return event

    def _count(self, part: h11.Data) -> None:
        self._chunks += part.chunk_start
        self._chunk_bytes += len(part.data)
        if self.has_tiny_chunks:
            raise h11.RemoteProtocolError(_TINY_CHUNKS)
        if self.our_state is h11.DONE:
            self._unwanted_bytes += len(part.data)


class _HeldFlow(FlowControl):
    """Reads nothing more from a client while parts of its body wait for their turn."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self._is_held = False

    def hold(self) -> None:
        self._is_held = True
        self._transport.pause_reading()

    def release(self) -> None:
        self._is_held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        if self._is_held:
            self.read_paused = False
        else:
            super().resume_reading()


class Turns:
    """Parses one turn of one connection in each iteration of the event loop, however many connections wait."""

    def __init__(self) -> None:
        self._waiting: collections.deque[ClientConnection] = collections.deque()

    def add(self, connection: ClientConnection) -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._take)

    def _take(self) -> None:
        connection = self._waiting[0]
        try:
            connection.take_turn()
        finally:
            self._waiting.popleft()
            if self._waiting:
                connection.loop.call_soon(self._take)


class ClientConnection(H11Protocol):
    """Disconnects a client that does not read. Closing normally would wait until it has read the rest."""

    conn: _BodyParts
    flow: _HeldFlow
    _deadline: asyncio.TimerHandle | None = None
    _is_waiting = False  # for its turn

    def __init__(self, *args: Any, turns: Turns, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns = turns
        self.conn = _BodyParts(self.config.h11_max_incomplete_event_size or _MAX_BUFFERED_BYTES)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _HeldFlow(transport)
        transport.set_write_buffer_limits(_MAX_BUFFERED_BYTES)
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # also for what the kernel has buffered
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SEND_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._deadline = self.loop.call_later(_SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_deadline()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    # --- bodies in small parts --------------------------------------------------------------------------------

    def handle_events(self) -> None:
        if self._is_waiting or self.transport.is_closing():
            return
        self.conn.begin_turn()
        super().handle_events()
        if self.transport.is_closing():
            return
        if self.conn.is_unwanted:
            self.transport.close()
        elif self.conn.is_cut:
            self._is_waiting = True
            self.flow.hold()
            self._turns.add(self)

    def take_turn(self) -> None:
        self._is_waiting = False
        self.handle_events()
        if not self._is_waiting and not self.transport.is_closing():
            self.flow.release()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(_TINY_CHUNKS if self.conn.has_tiny_chunks else msg)
        else:  # a response is being sent, or was
            self.transport.close()
        if self.cycle is not None:  # the application can neither read the rest nor answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
