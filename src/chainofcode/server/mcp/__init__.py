"""The MCP server: other programs' models have questions answered and programs run here, and what came of it verified.

Nothing that a client sends reads a file, names a package or raises a limit: a program gets its text, its inputs and
the sandbox, a trace that is verified no more than that either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from ...lm import LM
from ...sandbox import Limits, Sandbox
from .standalone import Alone
from .tool_list import server_of


def mcp_server(
    lm: LM | None, sandbox: Sandbox, *, limits: Limits | None = None, runs_at_once: int = 4
) -> MCPServer[Any]:
    """A server that asks this model and runs programs in this sandbox, both of which stay the caller's to close.

    Serve it with `await server.run_stdio_async()`, or over HTTP with `streamable_app`. Making one sets up logging on
    standard error, unless logging is set up already. `coc serve` has one of its own, whose runs it keeps.
    """
    return server_of(Alone(lm, sandbox, limits or Limits(), runs_at_once))


def streamable_app(server: MCPServer[Any], *, hosts: Sequence[str] = ()) -> Starlette:
    """The server over streamable HTTP, at /mcp, on its own or as part of another Starlette application:

        app = streamable_app(server)
        Starlette(routes=[*others, *app.routes], lifespan=…)  # within it: async with server.session_manager.run(): …

    `hosts` are the Host headers that are taken, as in `coc.example.org` or `localhost:*`; without any, this machine's
    own names. It asks nobody who they are: that is for the application around it.
    """
    security = None
    if hosts:
        origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        security = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=origins)
    return server.streamable_http_app(streamable_http_path="/mcp", transport_security=security)


__all__ = ["mcp_server", "streamable_app"]
