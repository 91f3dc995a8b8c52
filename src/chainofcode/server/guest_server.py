"""`coc serve --sandbox-only`: guests for clients on other machines. It has no models, keys, page or storage.

A client sends an HTTP request with an `Upgrade` header; after the reply 101 the connection carries packets
(sandbox/packets.py). Connections are limited in number, requests in size and time even before the token is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator

import msgspec

from ..sandbox import Jail
from ..sandbox.packets import PATH, PROTOCOL, PacketError
from .access import ANYONE, Access, unauthorized
from .access_tokens import AccessToken
from .descriptors import allow_descriptors
from .fair_share import FairSlots, has_room
from .guest_relay import GuestRelay
from .metrics import ServerLog
from .refusal import Refusal
from .settings import ServerSettings

_HEAD_BYTES = 16 * 1024
_HEAD_SECONDS = 10
_MAX_CONNECTIONS = 1000
_REFRESH_SECONDS = 2.0


class GuestServer:
    """Serves guests until a signal; active guests then have some time to finish."""

    def __init__(self, settings: ServerSettings, access: Access, jail: Jail) -> None:
        self._settings, self._access, self._jail = settings, access, jail
        self._slots = FairSlots(settings.runs, access.owners)
        self._clients: set[asyncio.Task[None]] = set()
        self.log = ServerLog(settings.log, settings.logs_content)

    async def serve(self, listening: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT. Raises SandboxError if no sandbox can be built."""
        allow_descriptors()
        status = await self._jail.status()
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for kind in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(kind, stopped.set)
        server = await asyncio.start_server(self._accept, sock=listening, limit=_HEAD_BYTES)
        name, port = listening.getsockname()[:2]
        self.log.write("serving", url=f"http://{name}:{port}", sandbox=status.tier, only="guests")
        refreshing = asyncio.create_task(self._refresh())
        await stopped.wait()
        refreshing.cancel()
        server.close()
        if self._clients:
            await asyncio.wait(self._clients, timeout=self._settings.drain_seconds)
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self.log.write("stopped")

    async def _refresh(self) -> None:
        """Notice tokens that were added or revoked."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            with contextlib.suppress(Exception):  # unreadable for a moment: tokens stay unchanged
                await self._access.refresh()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            if len(self._clients) <= _MAX_CONNECTIONS:
                await self._answer(reader, writer)
        except Refusal as refusal:
            body = {"error": {"code": refusal.kind, "message": refusal.message}}
            writer.write(_response(refusal.status, msgspec.json.encode(body)))
        except (PacketError, EOFError, OSError, asyncio.LimitOverrunError) as error:
            self.log.write("connection failed", error=str(error)[:200] or type(error).__name__)
        finally:
            self._clients.discard(task)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_HEAD_SECONDS):
                    await writer.wait_closed()
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, headers = _parsed(head)
        if request == "GET /healthz":
            writer.write(_response(200, b'{"status":"ok"}'))
            return
        token = self._token(headers)
        if not request.endswith(PATH) or headers.get("upgrade", "").lower() != PROTOCOL:
            raise Refusal(404, "not_found", f"this server only runs guests: GET {PATH} with Upgrade: {PROTOCOL}")
        async with self._slot(token.owner):
            writer.write(
                f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()
            )
            with contextlib.suppress(Refusal):  # a revoked token: the client expects packets now, not a response
                async with self._access.admitted(token):
                    await GuestRelay(self._settings, self._jail, reader, writer).run()

    def _token(self, headers: dict[str, str]) -> AccessToken:
        if not self._access.is_required:
            return ANYONE
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        token = self._access.holder(secret) if scheme.lower() == "bearer" else None
        if token is None or "run" not in token.scopes:
            raise unauthorized()
        return token

    @contextlib.asynccontextmanager
    async def _slot(self, owner: str) -> AsyncIterator[None]:
        """Hold a slot for this owner. Raises Refusal if too many of its programs wait, or few connections are left."""
        is_shared = len(self._access.owners) > 1
        is_free = has_room(self._slots.count_all(owner), len(self._clients), _MAX_CONNECTIONS, is_shared=is_shared)
        if not is_free or self._slots.count_waiting(owner) >= self._settings.queue:
            raise Refusal(429, "busy", "too many programs are waiting")
        async with self._slots.taken(owner):
            yield


def _parsed(head: str) -> tuple[str, dict[str, str]]:
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, _, rest = first.partition(" ")
    pairs = [line.partition(":") for line in lines]
    return f"{method} {rest.split(' ')[0]}", {name.lower(): value.strip() for name, _, value in pairs}


def _response(status: int, body: bytes) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
