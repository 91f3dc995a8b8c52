"""The application in uvicorn: connections, signals and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn

from ..errors import SandboxError
from ..sandbox import Jail
from .application import Application
from .run_kinds import Models
from .settings import ServerSettings
from .spans import Spans
from .store import Store

_MAX_CONNECTIONS = 2000
_BACKLOG = 1024
_MAX_RUN_THREADS, _OTHER_THREADS = 256, 32
_DESCRIPTORS = 65_536
_IDLE_SECONDS = 75  # shorter, and connections would be closed during the next request
_LAST_SECONDS = 10  # for connections that are left when all runs are over


async def host(
    settings: ServerSettings,
    listening: socket.socket,
    *,
    store: Store,
    models: Models,
    jail: Jail,
    spans: Spans,
) -> None:
    """Serve on a bound socket until a signal."""
    _allow_descriptors()
    threads = min(settings.runs, _MAX_RUN_THREADS) + _OTHER_THREADS  # threads of runs mostly wait for a process
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
    status = await jail.status()  # raises where no sandbox can be built
    application = Application(settings, store=store, models=models, jail=jail, spans=spans)
    config = uvicorn.Config(
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
        timeout_graceful_shutdown=int(settings.drain_seconds + _LAST_SECONDS),
        h11_max_incomplete_event_size=32_768,
    )
    name, port = listening.getsockname()[:2]
    place = f"[{name}]" if ":" in name else name
    facts: dict[str, Any] = {"models": ",".join(models.names), "sandbox": status.tier, "data": str(settings.data)}
    server = _Server(config, application, {"url": f"http://{place}:{port}", **facts})
    gc.collect()
    gc.freeze()  # long-lived objects: collecting them again would delay runs
    await server.serve([listening])
    if not server.started:
        raise SandboxError("the server could not start")
    application.log.say("stopped")


def _allow_descriptors() -> None:
    """Raise the limit on descriptors: connections and guests soon use up the usual 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server(uvicorn.Server):
    """The first signal lets runs finish; the second ends them."""

    def __init__(self, config: uvicorn.Config, application: Application, facts: dict[str, Any]) -> None:
        super().__init__(config)
        self._application, self._told = application, facts

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:  # clients can connect from here on
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
