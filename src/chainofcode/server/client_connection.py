"""A connection to a client: what the server holds for a client that does not read is bounded in bytes and in time."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_MAX_BUFFERED_BYTES = 32 * 1024  # before a response waits for the client
_SEND_SECONDS = 30  # in which a client must read what is buffered; slower clients are disconnected


class ClientConnection(H11Protocol):
    """Disconnects a client that does not read. Closing normally would wait until it has read the rest."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
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
