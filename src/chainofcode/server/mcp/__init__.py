"""The MCP server: lets the models of other programs ask questions, run programs and verify answers.

Requests of clients cannot read files, grant packages or raise limits: a program gets only its inputs and the sandbox.
The same holds for the program of a trace that is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from ...lm import LM
from ...sandbox import Limits, Sandbox
from ..workers import Workers
from .standalone import StandaloneBackend
from .tool_list import build_server


def mcp_server(
    lm: LM | None,
    sandbox: Sandbox,
    *,
    limits: Limits | None = None,
    runs_at_once: int = 4,
    audit_sandbox: str = "auto",
) -> MCPServer[Any]:
    """A server that uses this model and this sandbox. The caller closes both.

    Traces are verified in worker processes, each with its own sandbox: `audit_sandbox` names it, as in `coc --sandbox`.
    Serve it with `await server.run_stdio_async()`, or over HTTP with `streamable_app`. It sets up logging on standard
    error, unless logging is already set up. `coc serve` has its own MCP server, which stores its runs.
    """
    limits = limits or Limits()
    workers = Workers([""], limits.memory_bytes, sandbox=audit_sandbox)
    return build_server(StandaloneBackend(lm, sandbox, limits, workers=workers, at_once=runs_at_once))


def streamable_app(server: MCPServer[Any], *, hosts: Sequence[str] = ()) -> Starlette:
    """The server over streamable HTTP, at /mcp, on its own or as part of another Starlette application:

        app = streamable_app(server)
        Starlette(routes=[*others, *app.routes], lifespan=…)  # within it: async with server.session_manager.run(): …

    `hosts` are the allowed Host headers, such as `coc.example.org` or `localhost:*`; by default, local names only.
    There is no authentication: the application around it must provide it.
    """
    security = None
    if hosts:
        origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        security = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=origins)
    return server.streamable_http_app(streamable_http_path="/mcp", transport_security=security)


__all__ = ["mcp_server", "streamable_app"]
