"""The application in uvicorn: who may connect, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Generator
from typing import Any

import uvicorn

from ..errors import SandboxError
from ..sandbox import Jail
from .application import Application
from .run_kinds import Models
from .settings import Terms
from .spans import Spans
from .store import Store

_MAX_CONNECTIONS = 2000
_BACKLOG = 1024
_DESCRIPTORS = 65_536
_IDLE_SECONDS = 75  # a connection that is closed too soon is closed in the middle of the next request
_LAST_SECONDS = 10  # for what is left of connections once all runs are over


async def host(terms: Terms, store: Store, models: Models, jail: Jail, spans: Spans, listening: socket.socket) -> None:
    """Serve on a socket that is bound already, until a signal says otherwise."""
    _allow_descriptors()
    holds = await jail.holds()  # or why there is no wall: better known now
    application = Application(terms, store, models, jail, spans)
    settings = uvicorn.Config(
        application.app,
        http="h11",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(terms.drain_seconds + _LAST_SECONDS),
        h11_max_incomplete_event_size=32_768,
    )
    name, port = listening.getsockname()[:2]
    place = f"[{name}]" if ":" in name else name
    told: dict[str, Any] = {"models": ",".join(models.names), "sandbox": holds.tier, "data": str(terms.data)}
    server = _Server(settings, application, {"url": f"http://{place}:{port}", **told})
    gc.collect()
    gc.freeze()  # what is here stays: looking through it again and again would make runs wait
    await server.serve([listening])
    if not server.started:
        raise SandboxError("the server could not start")
    application.log.say("stopped")


def _allow_descriptors() -> None:
    """A connection is one, a guest some: the usual thousand is soon used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server(uvicorn.Server):
    """The first signal lets runs finish; a second one, of whatever kind, ends them."""

    def __init__(self, settings: uvicorn.Config, application: Application, told: dict[str, Any]) -> None:
        super().__init__(settings)
        self._application, self._told = application, told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:  # from here on it can be connected to
            self._application.log.say("serving", **self._told)

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
        if self.should_exit:
            self._application.interrupt()
        self.should_exit = True
        self._application.drain()
