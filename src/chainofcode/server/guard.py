"""Checks before every request: host, origin, token, rate and size of the body.

Covered: DNS rebinding (Host), requests from other pages (Origin, Sec-Fetch-Site), guessed tokens (looked up by their
SHA-256, failures counted by address), scopes of tokens, large and slow bodies, and clients that do not read their
responses. Not covered: TLS and floods of connections, which a proxy must handle.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import re
import time
import traceback
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..trace import as_json
from .access import ANYONE, Access, signed_in, unauthorized
from .access_tokens import AccessToken
from .outgoing import Outgoing
from .quotas import RateLimiter
from .refusal import Refusal
from .settings import MAX_FILE_BYTES, MAX_JSON_BYTES, ServerSettings
from .telemetry import Telemetry
from .trace_context import TRACE_ID, trace_id_of

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_BODY_SECONDS = 30.0
_BODY_BYTES_PER_SECOND = 10_000  # slower clients are refused
_MAX_BODIES_BYTES = 4 * MAX_FILE_BYTES  # of one owner, in memory at once
_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")
_SENT_HEADERS = (
    "authorization, content-type, last-event-id, traceparent, tracestate, "
    "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name"
)
_EXPOSED_HEADERS = "x-coc-run, retry-after, traceparent, mcp-session-id"
_OF_OPERATORS = ("/metrics", "/readyz")
_AMBIGUOUS = "ambiguous_body"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s\[\]:/@]+))(?::[0-9]{1,5})?")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class RequestGuard:
    """ASGI middleware around the application; it sets `scope["owner"]` to the name of the token."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, access: Access, telemetry: Telemetry) -> None:
        self._app, self._settings, self._access = app, settings, access
        self._metrics, self._log, self._spans = telemetry.metrics, telemetry.log, telemetry.spans
        self._rates = RateLimiter(settings.per_minute)
        self._outgoing = Outgoing(access.owners)
        self._held: collections.Counter[str] = collections.Counter()  # bytes of bodies in memory, by owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":  # WebSockets are not served
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sender = _HeaderSender(send, self._cors(headers), scope.get("prefix", ""))
        if trace := trace_id_of(headers.get("traceparent", "")):
            sender.headers["traceparent"] = headers["traceparent"]
            TRACE_ID.set(trace)  # for this request and what it starts
            with self._spans.continued(headers["traceparent"], headers.get("tracestate", "")):
                await self._answered(scope, receive, sender)
        else:
            await self._answered(scope, receive, sender)

    async def _answered(self, scope: Scope, receive: Receive, sender: _HeaderSender) -> None:
        started = time.monotonic()
        try:
            await self._guarded(scope, receive, sender)
        except Refusal as refusal:
            if not sender.status:
                await refused(refusal, scope["path"])(scope, receive, sender)
        except Exception as error:  # the server continues
            self._log_failure(scope, error)
            if not sender.status:
                broken = Refusal(500, "internal", "internal error; see the server's log")
                await refused(broken, scope["path"])(scope, receive, sender)
        finally:
            self._count(scope, sender.status, time.monotonic() - started)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self._check_framing(headers)
        if scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        self._check_host(headers)
        if self._is_preflight(scope, headers):
            await Response(status_code=204)(scope, receive, send)
            return
        self._check_origin(scope, headers)
        is_known = self._access.is_required and not _is_page(scope["path"])  # the page is loaded before signing in
        token = self._token(scope, headers) if is_known else ANYONE
        scope["owner"] = token.owner
        self._check_rate(f"token {scope['owner']}" if is_known else _address(scope))

        async def refuse(refusal: Refusal) -> None:
            await refused(refusal, scope["path"])(scope, receive, send)

        async with contextlib.AsyncExitStack() as stack:
            body = stack.enter_context(contextlib.closing(_BodyReceiver(scope, headers, receive, self._held)))
            sender = stack.enter_context(self._outgoing.response(token.owner, send, refuse))
            await stack.enter_async_context(self._access.admitted(token))
            await self._app(scope, body, sender)

    # --- host, origin, token, rate ----------------------------------------------------------------------------

    def _check_framing(self, headers: Headers) -> None:
        """Refuse a body whose end a proxy may place elsewhere: the rest would be another request (smuggling)."""
        if "content-length" in headers and "transfer-encoding" in headers:
            self._metrics.add("coc_refused_total", why="framing")
            raise Refusal(
                400, _AMBIGUOUS, "the request has both Content-Length and Transfer-Encoding; send one of them"
            )

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        found = _HOST.fullmatch(host)
        name = (found[1] or found[2]) if found else ""
        if not name or not self._settings.knows_host(name):
            self._metrics.add("coc_refused_total", why="host")
            raise Refusal(
                421, "wrong_host", f"unknown host name {host[:100]!r}; the operator can add it with --allow-host"
            )

    def _cors(self, headers: Headers) -> dict[str, str]:
        origin = headers.get("origin", "")
        if origin not in self._settings.origins or not origin:
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-headers": _SENT_HEADERS,
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-expose-headers": _EXPOSED_HEADERS,
            "access-control-max-age": "600",
            "cross-origin-resource-policy": "cross-origin",
            "vary": "origin",
        }

    def _is_preflight(self, scope: Scope, headers: Headers) -> bool:
        is_asked = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        return is_asked and headers.get("origin") in self._settings.origins

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests that a page of another origin sends from a visitor's browser."""
        origin = headers.get("origin")
        if origin in self._settings.origins:
            return
        is_foreign = origin is not None and not _is_own(origin.lower(), scope, headers)
        is_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")  # links to the page are allowed
        if is_foreign or (origin is None and is_elsewhere and not _is_page(scope["path"])):
            self._metrics.add("coc_refused_total", why="origin")
            raise Refusal(403, "foreign_origin", "pages of other origins may not use this server")

    def _token(self, scope: Scope, headers: Headers) -> AccessToken:
        """The token of a request, or the user whom a trusted proxy names. Raises Refusal if it may not be used here."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        token = self._access.holder(given.strip()) if kind.lower() == "bearer" else None
        if token is None and not kind:
            token = signed_in(scope.get("user_name", ""))
        if token is None:
            self._check_rate(_address(scope))
            self._metrics.add("coc_refused_total", why="token")
            raise unauthorized()
        needed = _scope_of(scope["method"], scope["path"])
        if needed not in token.scopes:
            self._metrics.add("coc_refused_total", why="scope")
            raise Refusal(403, "insufficient_scope", f"the token lacks the scope {needed!r}")
        return token

    def _check_rate(self, client: str) -> None:
        wait = self._rates.take(client)
        if wait:
            self._metrics.add("coc_refused_total", why="rate")
            raise Refusal(429, "rate_limited", "too many requests", retry_seconds=wait)

    # --- metrics and log --------------------------------------------------------------------------------------

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route, method = route_of(scope), scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.add("coc_http_requests_total", method=method, route=route, status=str(status))
        self._metrics.observe("coc_http_request_seconds", seconds)
        if route not in ("/healthz", "/readyz", "/metrics"):
            facts: dict[str, Any] = {"method": method, "route": route, "status": status}
            self._log.write("request", **facts, seconds=round(seconds, 3), client=_address(scope))

    def _log_failure(self, scope: Scope, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
        content = {"error": str(error)}
        self._log.write("request error", content, route=route_of(scope), error_type=type(error).__name__, where=where)


class _HeaderSender:
    """Adds headers to a response; `status` is 0 until it starts."""

    def __init__(self, send: Send, headers: Mapping[str, str], prefix: str = "") -> None:
        self._send, self._prefix, self.headers, self.status = send, prefix, {**_HEADERS, **headers}, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers[name] = value
            if headers.get("location", "").startswith("/"):
                headers["location"] = self._prefix + headers["location"]
            headers.setdefault("cache-control", "no-store")
        await self._send(message)


class _BodyReceiver:
    """Receives a body with limits on its size, its duration, and the memory for all bodies of its owner."""

    def __init__(self, scope: Scope, headers: Headers, receive: Receive, held: collections.Counter[str]) -> None:
        self._allowed = MAX_FILE_BYTES if scope["path"] == "/api/files" else MAX_JSON_BYTES
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._allowed:
            raise self._too_large()
        self._receive, self._owner, self._held = receive, scope["owner"], held
        self._taken, self._is_whole, self._begun = 0, False, time.monotonic()

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        left = self._begun + _BODY_SECONDS + self._taken / _BODY_BYTES_PER_SECOND - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), left)
        except TimeoutError:
            raise Refusal(408, "too_slow", "the body was sent too slowly") from None
        if message["type"] == "http.request":
            self._take(len(message.get("body", b"")))
            self._is_whole = not message.get("more_body", False)
        return message

    def _take(self, size: int) -> None:
        self._taken += size
        self._held[self._owner] += size
        if self._taken > self._allowed:
            raise self._too_large()
        if self._held[self._owner] > _MAX_BODIES_BYTES:
            raise Refusal(503, "busy", "too many large bodies at once", retry_seconds=5)

    def _too_large(self) -> Refusal:
        return Refusal(413, "too_large", f"the body is over {self._allowed:,} bytes")

    def close(self) -> None:
        """Release the memory of the body."""
        self._held[self._owner] -= self._taken


def refused(refusal: Refusal, path: str) -> Response:
    """A refusal as a response, in the error format of that path."""
    error: dict[str, Any] = {"type": refusal.kind, "message": refusal.message}
    if path.startswith("/v1/"):
        usual = "invalid_request_error" if refusal.status < 500 else "server_error"
        kind = _OPENAI_TYPES.get(refusal.status, usual)
        error = {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.kind}
    headers = {}
    if refusal.retry_seconds is not None:
        headers["retry-after"] = str(max(1, math.ceil(refusal.retry_seconds)))
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refusal.status in (408, 413, 503) or refusal.kind == _AMBIGUOUS:  # the rest of the body is not read
        headers["connection"] = "close"
    body = as_json({"error": error})
    return Response(body, refusal.status, headers, "application/json")


def route_of(scope: Scope) -> str:
    """The declared route: paths contain ids, which do not belong in a log."""
    route = scope.get("route")
    return str(getattr(route, "path", "")) or "other"


def _is_page(path: str) -> bool:
    """Whether a path is a file of the page. These contain no user data, and signing in needs them."""
    return path == "/" or path.startswith("/static/")


def _is_own(origin: str, scope: Scope, headers: Headers) -> bool:
    """Whether an origin is that of this server. Its scheme is known only if a proxy names it."""
    scheme, _, place = origin.partition("://")
    return place == headers.get("host", "").lower() and scheme == scope.get("forwarded_scheme", scheme)


def _scope_of(method: str, path: str) -> str:
    """The scope that a request needs."""
    if path in _OF_OPERATORS:
        return "metrics"
    return "read" if method in ("GET", "HEAD") and path != "/mcp" else "run"


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("unknown",))[0])
