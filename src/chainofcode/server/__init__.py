"""`coc serve`: runs over HTTP, for programs (a native API, OpenAI's protocols) and people (a page)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import socket

from ..errors import InputError
from .settings import Terms

_SPARES = 4


def serve(terms: Terms) -> None:
    """Serve until SIGTERM or SIGINT, then let runs finish for a while. Raises InputError for terms that are unsafe."""
    terms.check()
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn"))):
        raise InputError("coc serve needs the extra `server`: pip install 'chainofcode[server]'")
    from ..sandbox import Jail
    from .hosting import host
    from .run_kinds import Models
    from .spans import opened
    from .store import Store

    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(_bound(terms.host, terms.port))
        store = stack.enter_context(contextlib.closing(Store(terms.data)))
        models = stack.enter_context(contextlib.closing(Models(terms.models, terms.requests)))
        jail = stack.enter_context(Jail(spares=min(_SPARES, os.cpu_count() or 1)))
        wanted = {"is_wanted": terms.has_spans, "with_content": terms.logs_content}
        spans = stack.enter_context(contextlib.closing(opened(**wanted)))
        asyncio.run(host(terms, store, models, jail, spans, listening))


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
