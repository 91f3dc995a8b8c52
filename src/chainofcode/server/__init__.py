"""`coc serve`: runs over HTTP, through a native API, OpenAI's protocols, MCP and a web page."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import socket
from typing import TYPE_CHECKING

from ..errors import InputError
from ..sandbox import CheckedSandbox, Jail
from ..sandbox.worker_confinement import hide_from_others
from . import data_directory
from .access import Access
from .access_tokens import TokenFile, TokenStore
from .settings import ServerSettings
from .store import Store

if TYPE_CHECKING:
    from .postgres.shared_tokens import SharedTokens

_SPARES = 4


def serve(settings: ServerSettings, store: Store | None = None, tokens: TokenStore | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then give active runs time to finish. Raises InputError for unsafe settings.

    By default, runs are stored in the PostgreSQL database `settings.store` or, without one, in SQLite in the directory
    `settings.data`. `tokens` are valid in addition to those of the settings; by default, they come from a file in that
    directory and from that database.
    """
    settings.check(has_tokens=True)
    hide_from_others()
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn"))):
        raise InputError("coc serve needs the extra `server`: pip install 'chainofcode[server]'")
    from .hosting import Listening, host
    from .run_kinds import Models
    from .spans import Spans

    if store is None or tokens is None:
        data_directory.make_private(settings.data)
    with contextlib.ExitStack() as stack:
        access = Access(settings, *([tokens] if tokens is not None else _token_stores(settings, stack)))
        settings.check(has_tokens=access.is_required)
        listening = Listening(stack.enter_context(_bound(settings.host, settings.port)))
        if settings.admin_port is not None:
            listening.admin = stack.enter_context(_bound(settings.admin_host, settings.admin_port))
        if store is None:
            store = stack.enter_context(contextlib.closing(_opened(settings)))
        models = stack.enter_context(contextlib.closing(Models(settings.models, settings.requests, access.owners)))
        spares = min(_SPARES, os.cpu_count() or 1)
        sandbox = stack.enter_context(contextlib.closing(_sandbox(settings, spares)))
        spans = Spans.to_collector(with_content=settings.logs_content) if settings.has_spans else Spans()
        stack.enter_context(contextlib.closing(spans))
        asyncio.run(host(settings, listening, access=access, store=store, models=models, sandbox=sandbox, spans=spans))


def _sandbox(settings: ServerSettings, spares: int) -> CheckedSandbox:
    """Where programs run: on this machine, or on the nodes of a Ray cluster."""
    if settings.engine == "local":
        return Jail(at_least=settings.sandbox_at_least, spares=spares)
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray needs Ray: pip install 'chainofcode[ray]'")
    from ..sandbox.ray_guests import RaySandbox

    return RaySandbox(settings.ray_address, at_least=settings.sandbox_at_least, spares=spares)


def _token_stores(settings: ServerSettings, stack: contextlib.ExitStack) -> list[TokenStore]:
    stores: list[TokenStore] = [TokenFile(settings.data)]
    if settings.store:
        stores.append(stack.enter_context(opened_tokens(settings.store)))
    return stores


def opened_tokens(url: str) -> contextlib.closing[SharedTokens]:
    """The tokens of all servers that share this database. Raises InputError."""
    _check_postgres()
    from .postgres.shared_tokens import SharedTokens

    return contextlib.closing(SharedTokens(url))


def _check_postgres() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise InputError("--store postgresql:// needs the extra `postgres`: pip install 'chainofcode[postgres]'")


def serve_guests(settings: ServerSettings, tokens: TokenStore | None = None) -> None:
    """Serve guests, and nothing else, until SIGTERM or SIGINT. Raises InputError for unsafe settings.

    For clients that cannot run programs on their own machine: `RemoteSandbox`.
    """
    hide_from_others()
    if tokens is None:
        data_directory.make_private(settings.data)
    access = Access(settings, tokens or TokenFile(settings.data))
    settings.check(has_tokens=access.is_required)
    from .guest_server import GuestServer

    with (
        _bound(settings.host, settings.port) as listening,
        Jail(at_least=settings.sandbox_at_least, spares=min(_SPARES, os.cpu_count() or 1)) as jail,
    ):
        asyncio.run(GuestServer(settings, access, jail).serve(listening))


def _opened(settings: ServerSettings) -> Store:
    """Open the store that the settings name."""
    if not settings.store:
        from .sqlite_store import SQLiteStore

        return SQLiteStore(settings.data)
    _check_postgres()
    from .objects import objects_at
    from .postgres.postgres_store import PostgresStore

    return PostgresStore(settings.store, settings.data, objects_at(settings.objects))


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"cannot serve at {host}: {error.strerror or error}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise InputError(f"cannot serve at {host}:{port}: {error.strerror}") from None
    return listening
