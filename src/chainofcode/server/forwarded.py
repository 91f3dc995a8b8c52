"""What a trusted proxy states about a request: the client's address, scheme, host, path prefix and user.

Covered: the headers X-Forwarded-For, -Proto, -Host and -Prefix, and the one that names the user, from addresses that
the operator trusts. From all others they are ignored: any client can send them. Not covered: `Forwarded` (RFC 7239).
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_MAX_HOPS = 32
_PREFIX = re.compile(r"(/[\w.~-]{1,100}){1,10}", re.ASCII)
_PORT = re.compile(r"\[(?P<six>[^\]]+)\](:[0-9]+)?|(?P<four>[0-9.]+):[0-9]+")


class ForwardedRequests:
    """ASGI middleware before the request guard. It sets `scope["user_name"]` and `scope["prefix"]`."""

    def __init__(self, app: ASGIApp, proxies: Sequence[str], user_header: str = "") -> None:
        self._app, self._user_header = app, user_header
        self._networks = tuple(ipaddress.ip_network(proxy) for proxy in proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_trusted(str((scope.get("client") or ("",))[0])):
            scope = self._forwarded(scope)
        await self._app(scope, receive, send)

    def _is_trusted(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)

    def _forwarded(self, scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        last = functools.partial(_last, headers)
        scope = dict(scope)
        client = self._client(headers)
        if client:
            scope["client"] = (client, 0)
        if (scheme := last("x-forwarded-proto").lower()) in ("http", "https"):
            scope["scheme"] = scope["forwarded_scheme"] = scheme
        if host := last("x-forwarded-host"):
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [*others, (b"host", host.encode("latin-1"))]
        prefix = last("x-forwarded-prefix").rstrip("/")
        if _PREFIX.fullmatch(prefix):
            scope["prefix"] = prefix
        if self._user_header and (users := headers.getlist(self._user_header)):
            scope["user_name"] = ",".join(users).strip()  # several headers give a comma, which makes the name invalid
        return scope

    def _client(self, headers: Headers) -> str:
        """The last address that is not a trusted proxy's: each proxy appends the address that it sees."""
        listed = ",".join(headers.getlist("x-forwarded-for")).split(",")[-_MAX_HOPS:]
        client = ""
        for hop in reversed(listed):
            address = _address(hop.strip())
            if address is None:
                break
            client = str(address)
            if not self._is_trusted(client):
                break
        return client


def _last(headers: Headers, name: str) -> str:
    """The last value of a header: that of the nearest proxy."""
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, with or without a port; IPv4 in IPv6 is IPv4."""
    with_port = _PORT.fullmatch(text)
    if with_port is not None:
        text = with_port["six"] or with_port["four"]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
