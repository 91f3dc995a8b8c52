"""REST tools: the operations of OpenAPI documents, called over HTTP by the host.

Requests go only to hosts that the documents or the user name, even if a reply redirects elsewhere or a name gets
another address. Time and size are limited. Credentials come from the environment, go to one host, and are removed from
replies.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

import msgspec

from ..credentials import Credentials
from ..errors import InputError
from .openapi_operations import APIOperation, Argument, Scheme, read_operations
from .pinned_hosts import HostRefused, PinnedHosts
from .tools import Tool, described, parameter

TOKEN, KEY = "COC_OPENAPI_TOKEN", "COC_OPENAPI_KEY"
MAX_REPLY_BYTES = 1_000_000
REST_SECONDS = 30.0
_MAX_ERROR_CHARS = 300
_MAX_REDIRECTS = 3
_VARIABLES = {"bearer": TOKEN, "header": KEY, "query": KEY}
_CHARSETS = {"ascii", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-2", "iso8859-15", "cp1250",
             "cp1251", "cp1252", "koi8-r", "shift_jis", "euc_jp", "gb2312", "gbk", "big5", "euc_kr"}  # fmt: skip
_READ_ONLY = ("get", "head")


class HTTPError(Exception):
    """A request that failed; the message is for the program."""


class HTTPTimeout(HTTPError, TimeoutError):
    """The host did not reply in time."""


class HTTPUnreachable(HTTPError, ConnectionError):
    """The host cannot be reached, or closed the connection early."""


def rest_tools(
    documents: Iterable[tuple[Path, str | None]],
    environment: Mapping[str, str],
    note: Callable[[str], None] = lambda text: None,
    seconds: float = REST_SECONDS,
) -> list[Tool]:
    """Return a tool for each operation of the documents: paths, each with a base URL (None: the document's own)."""
    secrets = {name: environment.get(name, "").strip() for name in (TOKEN, KEY)}
    for name, secret in secrets.items():
        if not (secret.isascii() and secret.isprintable()):
            raise InputError(f"{name} has characters that are not allowed in a header")
    named = list(documents)
    operations = [found for path, base in named for found in read_operations(path, base, note)]
    _check_hosts(operations, secrets)
    hosts = PinnedHosts({urlsplit(base).hostname or "" for _, base in named if base is not None})
    return [
        Tool(operation.name, _function(operation, secrets, hosts, seconds), operation.method not in _READ_ONLY)
        for operation in operations
    ]


def _check_hosts(operations: Iterable[APIOperation], secrets: Mapping[str, str]) -> None:
    """Raise InputError if a secret would go to several hosts."""
    hosts: dict[str, set[str]] = {}
    for operation in operations:
        for scheme in _schemes(operation, secrets) or ():
            hosts.setdefault(_VARIABLES[scheme.where], set()).add(urlsplit(operation.base).netloc)
    for name, seen in hosts.items():
        if len(seen) > 1:
            raise InputError(f"{name} would be sent to several hosts ({', '.join(sorted(seen))}): use one at a time")


def _schemes(operation: APIOperation, secrets: Mapping[str, str]) -> tuple[Scheme, ...] | None:
    """Return the first alternative of the security schemes whose secrets are all set; None without one."""
    for schemes in sorted(operation.security or ((),), key=lambda schemes: not schemes):
        if all(secrets.get(_VARIABLES.get(scheme.where, "")) for scheme in schemes):
            return schemes
    return None


def _function(
    operation: APIOperation, secrets: Mapping[str, str], hosts: PinnedHosts, seconds: float
) -> Callable[..., Any]:
    """Return a plain function that makes the request."""
    credentials = Credentials(secrets.values(), "[secret]", shortest=1)  # unlike keys of models, never placeholders
    parameters = [
        parameter(argument.name, argument.type, is_required=argument.is_required) for argument in operation.arguments
    ]

    def call(given: Mapping[str, Any]) -> Any:
        request = _request(operation, {name: value for name, value in given.items() if value is not None}, secrets)
        try:
            return credentials.remove_from(_exchange(request, hosts, seconds))
        except (HTTPError, ValueError) as error:  # ValueError: a redirect to an invalid URL
            message = credentials.remove(str(error))  # before the cut, which might leave half of a secret
            kind = type(error) if isinstance(error, HTTPError) else HTTPError
            raise kind(message[: _MAX_ERROR_CHARS + len("404: ")]) from None

    return described(operation.name, operation.doc, parameters, call)


# --- what is sent -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


def _request(operation: APIOperation, given: Mapping[str, Any], secrets: Mapping[str, str]) -> _Request:
    headers = {"Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity", "User-Agent": "chainofcode"}
    query: list[tuple[str, str]] = []
    path = operation.path
    arguments = [argument for argument in operation.arguments if argument.name in given]
    body = {argument.sent_as: given[argument.name] for argument in arguments if argument.where == "body"}
    for argument in arguments:
        value = given[argument.name]
        if argument.where == "path":
            path = path.replace(f"{{{argument.sent_as}}}", _segment(argument, value))
        elif argument.where == "query":
            query += [(argument.sent_as, text) for text in _texts(argument, value)]
        elif argument.where == "header":
            headers[argument.sent_as] = _header(argument, value)
    for where, name, secret in _credentials(operation, secrets):
        if where == "query":
            query.append((name, secret))
        else:
            headers[name] = secret
    data = None
    if body or operation.has_body:
        data = _as_json(body.get("", body))
        headers["Content-Type"] = "application/json"
    return _Request(operation.method.upper(), _url(operation, path, query), headers, data)


def _credentials(operation: APIOperation, secrets: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield where each secret goes, under which name, and its text there."""
    schemes = _schemes(operation, secrets)
    if schemes is None:
        raise HTTPError(_lacking(operation, secrets))
    for scheme in schemes:
        secret = secrets[_VARIABLES[scheme.where]]
        if scheme.where == "bearer":
            secret = f"Bearer {secret}"
        yield scheme.where, scheme.name or "Authorization", secret


def _url(operation: APIOperation, path: str, query: list[tuple[str, str]]) -> str:
    if any(segment in (".", "..") for segment in path.split("/")):
        raise HTTPError("the arguments would lead to another path")
    url = operation.base + quote(path, safe="/:@!$&'()*+,;=~%") + (f"?{urlencode(query)}" if query else "")
    if urlsplit(url)[:2] != urlsplit(operation.base)[:2]:
        raise HTTPError("the arguments would lead to another host")
    return url


def _lacking(operation: APIOperation, secrets: Mapping[str, str]) -> str:
    wanted = [_VARIABLES.get(scheme.where) for scheme in operation.security[0]]
    if None in wanted:
        return "it needs credentials of a kind that is not supported"
    return (
        f"it needs {min(str(name) for name in wanted if not secrets[str(name)])}, which is not set in the environment"
    )


def _segment(argument: Argument, value: Any) -> str:
    """Return a value as one segment of a path, which cannot lead to another path."""
    text = ",".join(_texts(argument, value))
    if not text or any(part in (".", "..") for part in text.replace("\\", "/").split("/")):
        raise HTTPError(f"{argument.name}: {text!r} cannot be part of a path")
    return quote(text, safe="")


def _header(argument: Argument, value: Any) -> str:
    text = ",".join(_texts(argument, value))
    if not (text.isascii() and text.isprintable()):
        raise HTTPError(f"{argument.name}: {text!r} cannot be sent in a header")
    return text


def _texts(argument: Argument, value: Any) -> list[str]:
    """Return a value as strings, one for each time it is sent."""
    if argument.is_json:
        return [_as_json(value).decode()]
    if isinstance(value, (list, tuple, set, frozenset)):
        texts = [_text(part) for part in value]
        return texts if argument.is_repeated else [",".join(texts)]
    return [_text(value)]


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime.date() | datetime.time():
            return value.isoformat()
        case str() | int() | float():
            return str(value)
    return _as_json(value).decode()


def _as_json(value: Any) -> bytes:
    try:
        return json.dumps(msgspec.to_builtins(value), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise HTTPError(f"the arguments cannot be sent as JSON: {error}") from None


# --- what comes back ----------------------------------------------------------------------------------------------


def _exchange(request: _Request, hosts: PinnedHosts, seconds: float) -> Any:
    """Send a request, follow redirects within the host, and return the reply as data."""
    url, deadline = request.url, time.monotonic() + seconds
    for _ in range(_MAX_REDIRECTS + 1):
        status, headers, data = _send(request, url, hosts, deadline, seconds)
        if not 300 <= status < 400 or "Location" not in headers:
            break
        target = urljoin(url, headers["Location"])
        if urlsplit(target)[:2] != urlsplit(url)[:2]:
            raise HTTPError(f"{status}: redirect to another host ({urlsplit(target).netloc[:100]}) refused")
        if request.method.lower() not in _READ_ONLY:
            raise HTTPError(f"{status}: redirect to another path of the same host ({urlsplit(target).path[:100]})")
        url = target
    text = data[: 10 * _MAX_ERROR_CHARS].decode(errors="replace")
    if not 200 <= status < 300:
        raise HTTPError(f"{status}: {text}".rstrip(": "))
    if len(data) > MAX_REPLY_BYTES:
        raise HTTPError(f"the reply has over {MAX_REPLY_BYTES:,} bytes: ask for less")
    if request.method == "HEAD":
        return {name.lower(): value for name, value in headers.items()}
    return _read(data, headers)


def _read(data: bytes, headers: http.client.HTTPMessage) -> Any:
    """Return JSON as data, everything else as text."""
    if not data:
        return None
    text = data.decode(_charset(headers.get_content_charset("utf-8")), "replace")
    if "json" not in headers.get("Content-Type", "json"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _charset(named: str) -> str:
    """Return the charset that a server names, if it is a common one: some of Python's codecs take quadratic time."""
    try:
        found = codecs.lookup(named).name
    except (LookupError, ValueError):
        return "utf-8"
    return found if found in _CHARSETS else "utf-8"


def _send(
    request: _Request, url: str, hosts: PinnedHosts, deadline: float, seconds: float
) -> tuple[int, http.client.HTTPMessage, bytes]:
    parts = urlsplit(url)
    try:
        connection = _connect(parts, hosts, deadline)
        with contextlib.closing(connection), _hung_up_at(deadline, connection.sock):
            if isinstance(connection.sock, ssl.SSLSocket):
                connection.sock.do_handshake()
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(request.method, target or "/", request.body, dict(request.headers))
            response = connection.getresponse()
            data = response.read(MAX_REPLY_BYTES + 1)
        if response.length and len(data) <= MAX_REPLY_BYTES:
            raise HTTPUnreachable("the reply was cut short")
        return response.status, response.headers, data
    except HTTPError:
        raise
    except HostRefused as error:
        raise HTTPError(str(error)) from None
    except TimeoutError:
        raise HTTPTimeout(f"no complete reply within {seconds:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise HTTPUnreachable(f"{parts.netloc} cannot be reached or closed the connection: {why}") from None


def _connect(parts: SplitResult, hosts: PinnedHosts, deadline: float) -> http.client.HTTPConnection:
    """Return a connection to a pinned address of the host. Its certificate must be for the host's name."""
    host = str(parts.hostname)
    if parts.scheme == "http":
        connection = http.client.HTTPConnection(host, parts.port)
        connection.sock = hosts.connect(host, connection.port, deadline)
        return connection
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection(host, parts.port, context=context)
    plain = hosts.connect(host, connection.port, deadline)
    connection.sock = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    return connection


@contextlib.contextmanager
def _hung_up_at(deadline: float, sock: socket.socket) -> Iterator[None]:
    """Close a connection at a deadline, and raise TimeoutError: a slow trickle never hits the timeout of one read."""
    is_over = threading.Event()

    def hang_up() -> None:
        is_over.set()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(deadline - time.monotonic(), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError):
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()
    if is_over.is_set():
        raise TimeoutError
