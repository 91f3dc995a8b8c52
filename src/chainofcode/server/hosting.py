"""The application in uvicorn: connections, signals and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ..errors import SandboxError
from ..sandbox import CheckedSandbox
from .access import Access
from .application import Application
from .client_connection import ClientConnection, Turns
from .descriptors import allow_descriptors
from .run_kinds import Models
from .settings import ServerSettings
from .spans import Spans
from .store import Store

_MAX_CONNECTIONS = 2000
_BACKLOG = 1024
_IDLE_SECONDS = 75  # if it were shorter, connections would be closed during the next request
_SWITCH_SECONDS = 0.0005  # how long a thread that computes may delay the event loop, each time that it has waited
_LAST_SECONDS = 10  # for connections that are open when all runs are over


@dataclass
class Listening:
    """Bound sockets: `main` for clients, `admin` for operators."""

    main: socket.socket
    admin: socket.socket | None = None


async def host(
    settings: ServerSettings,
    listening: Listening,
    *,
    access: Access,
    store: Store,
    models: Models,
    sandbox: CheckedSandbox,
    spans: Spans,
) -> None:
    """Serve on bound sockets until a signal."""
    allow_descriptors()
    sys.setswitchinterval(_SWITCH_SECONDS)
    status = await sandbox.status()  # raises if no sandbox can be built
    application = Application(settings, access=access, store=store, models=models, sandbox=sandbox, spans=spans)
    facts: dict[str, Any] = {"models": ",".join(models.names), "sandbox": status.tier, "data": str(settings.data)}
    facts |= {"engine": settings.engine} if settings.engine != "local" else {}
    facts |= {"admin": _url(listening.admin)} if listening.admin is not None else {}
    gc.collect()
    gc.freeze()  # long-lived objects: collecting them again would delay runs
    async with contextlib.AsyncExitStack() as until_end:
        server = _Server(application, settings.drain_seconds, {"url": _url(listening.main), **facts})
        if listening.admin is not None:
            server.begin_admin = lambda: until_end.enter_async_context(_serving(application.admin_app, listening.admin))
        await server.serve([listening.main])
    if not server.started:
        raise SandboxError("the server could not start")
    application.log.write("stopped")


def _url(listening: socket.socket) -> str:
    name, port = listening.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _configured(app: ASGIApp, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=functools.partial(ClientConnection, turns=Turns()),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=_LAST_SECONDS,
        h11_max_incomplete_event_size=32_768,
        **options,
    )


class _AdminServer(uvicorn.Server):
    """Serves operators until the main server, which handles signals, has ended."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@contextlib.asynccontextmanager
async def _serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    server = _AdminServer(_configured(app, lifespan="off"))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _Server(uvicorn.Server):
    """The first signal lets runs finish; the second ends them.

    Until all runs are over, it still answers requests but starts no new runs: clients can follow their runs, and load
    balancers see a server that is alive but not ready.
    """

    def __init__(self, application: Application, drain_seconds: float, facts: dict[str, Any]) -> None:
        super().__init__(_configured(application.app, lifespan="on"))
        self._application, self._drain_seconds, self._facts = application, drain_seconds, facts
        self.begin_admin: Callable[[], Awaitable[None]] | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:  # clients can connect from here on
            if self.begin_admin is not None:
                await self.begin_admin()
            self._application.log.write("serving", **self._facts)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        kinds = (signal.SIGTERM, signal.SIGINT)
        for kind in kinds:
            loop.add_signal_handler(kind, self._stop)
        try:
            yield
        finally:
            for kind in kinds:
                loop.remove_signal_handler(kind)

    def _stop(self) -> None:
        if self._leaving is not None:
            self._application.interrupt()
            return
        self._application.drain()
        self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        """Close the server when all runs are over. Other requests have the rest of the drain time."""
        until = time.monotonic() + self._drain_seconds
        await self._application.drained()
        left = max(0.0, until - time.monotonic())
        self.config.timeout_graceful_shutdown = int(left + _LAST_SECONDS)
        self.should_exit = True
