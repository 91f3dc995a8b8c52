"""Models behind HTTP endpoints: one attempt per request, with limits on size and time, and all errors as LMError.

The packages of OpenAI and Anthropic are made by the same generator and used in the same way. Keys, and passwords in
URLs, are removed from everything that an endpoint returns: replies, streams, errors and batches.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import operator
import os
import re
import urllib.parse
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from ..credentials import Credentials
from ..errors import LMError
from .batches import IN_FLIGHT, BatchEndpoint, BatchOptions, BatchQueue
from .interface import LM, Completion, Message, Token, Usage
from .prices import BATCH_SHARE
from .reply_stream import OnText, ReplyStream
from .vision import sees_images

_PRICES = "genai_prices"  # in the extra of each vendor
_IN_FLIGHT = 16  # within the rate limits of most accounts
_MAX_REPLY_BYTES = 10_000_000
_MAX_ERROR_BYTES = 100_000
_PROBE_SECONDS = 5.0
_NO_SERVER = (502, 503, 504)  # from gateways whose server is down, and from servers that are loading a model
# These expand a chunk at most a thousandfold; other encodings, or several of them combined, can expand it far more.
_ENCODINGS = ("identity", "gzip", "deflate")
_NO = r"(?:(?:not|n't) (?:be )?(?:support|permit|allow)|unsupported|deprecated|un(?:known|recognized|expected)|extra)"
# llama.cpp also returns 500 for requests that it will never accept.
_REFUSED_WITH_500 = r"is not supported\b|n_cmpl cannot be|one completion choice"
_REPEATS = 10  # requests within which a longer prefix must pay off: about one program with many calls
_Reply = TypeVar("_Reply")
_Outcome = TypeVar("_Outcome")


class RequestRejected(LMError):
    """The endpoint is up but rejects this request; `param` is the field that it names, if any."""

    def __init__(self, message: str, detail: str, param: str) -> None:
        super().__init__(message)
        self.detail, self.param = detail, param

    @property
    def is_about_kind(self) -> bool:
        """Whether the endpoint never accepts this field, rather than this value of it."""
        is_no = re.search(_NO, self.detail, re.IGNORECASE) is not None
        return is_no and re.search(r"\bschema\b", self.detail, re.IGNORECASE) is None

    @property
    def is_about_value(self) -> bool:
        """Whether the endpoint accepts the field, but not this value of it."""
        return (
            re.search(
                r"unsupported value|does not support '|supported values|invalid value|input should be",
                self.detail,
                re.I,
            )
            is not None
        )

    def blames(self, field: str) -> bool:
        """Whether the error names this field, as a field: many field names are also ordinary words in a message."""
        if self.param:
            return re.match(rf"{field}(?![\w-])", self.param) is not None
        if "_" in field:
            return re.search(rf"\b{field}\b", self.detail) is not None
        name = rf"['\"`]{field}['\"`]"
        pattern = rf"\A{field}[\w.]*: |{name}.{{0,40}}{_NO}|{_NO}.{{0,30}}{name}|\A{field} is {_NO}"
        return re.search(pattern, self.detail, re.IGNORECASE | re.DOTALL) is not None


class NotFound(LMError):
    """The endpoint has no such model, file or batch, or does not have this endpoint at all."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


class RemoteLM(LM):
    """A model at an endpoint. `request_seconds` bounds a whole reply, however slowly it arrives."""

    in_flight = _IN_FLIGHT
    package: str  # the vendor's Python package; its variables are PACKAGE_BASE_URL and PACKAGE_API_KEY
    vendor_url: str
    client: str  # the name of the package's client class
    resource: str  # the attribute of the client that creates replies
    lists_models = False  # whether the endpoint lists every model that it has, as Ollama does
    stream: type[ReplyStream]  # the class that joins a streamed reply
    has_stream = True
    key_variable = ""  # the environment variable of the key, if not PACKAGE_API_KEY
    cache_minimum = 0  # tokens of the shortest prefix that the endpoint caches; 0: unknown, or no minimum

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        request_seconds: float = 600,
        name: str = "",
    ) -> None:
        variables = self.package.upper()
        self.name = name or f"{self.package}:{model}"
        self.base_url = (base_url or os.environ.get(f"{variables}_BASE_URL") or self.vendor_url).rstrip("/")
        self.base_url_shown, login = without_login(self.base_url)
        self.version = "" if self.base_url == self.vendor_url else self.base_url_shown
        self._key = api_key or os.environ.get(f"{variables}_API_KEY") or ""
        self.credentials = Credentials([self._key, *login])
        self._model, self._request_seconds = model, request_seconds
        self.has_images = sees_images(model)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._rejected: set[str] = set()  # fields, and schemas as JSON
        self._batches: BatchQueue | None = None

    @property
    def is_deferred(self) -> bool:
        return self._batches is not None

    def batch_endpoint(self) -> BatchEndpoint:
        """Return the batch endpoint, for models that have one."""
        raise LMError(f"{self.name} has no batch endpoint")

    def defer(self, options: BatchOptions) -> None:
        if not self.has_batches:
            super().defer(options)
        self._batches = options.queue(self.batch_endpoint(), f"{self.name} {self.version}".strip())
        self.in_flight, self.has_stream = IN_FLIGHT, False

    async def problem(self) -> str:
        """Return why the endpoint cannot be used. Any reply counts as a success, except with a status of `_NO_SERVER`.

        The request carries no key, so that it neither costs money nor counts towards a rate limit.
        """
        try:
            package = self._imported()
            async with (
                asyncio.timeout(_PROBE_SECONDS),
                package.DefaultAsyncHttpxClient(timeout=_PROBE_SECONDS, follow_redirects=False) as client,
                client.stream("GET", f"{self.base_url}/models") as response,
            ):
                status, body = int(response.status_code), bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_REPLY_BYTES or not self.lists_models:
                        break
        except LMError as error:
            return str(error)
        except Exception as error:  # from the package or its dependencies
            reason = self.without_key(str(error) or type(error).__name__)[:200]
            return f"{self.base_url_shown} cannot be reached ({reason})"
        if status in _NO_SERVER:
            return f"{self.base_url_shown} returns HTTP {status}"
        if self.lists_models and status == 200 and not _is_listed(self._model, bytes(body)):
            return f"model {self._model!r} not found at {self.base_url_shown}; run 'ollama pull {self._model}'"
        return ""

    async def _ask(
        self,
        request_without: Callable[[set[str]], dict[str, Any]],
        dispensable: Callable[[RequestRejected, dict[str, Any]], str | None],
        decoder: msgspec.json.Decoder[_Reply],
        on_text: OnText | None = None,
    ) -> _Reply:
        """Send a request. As long as the endpoint rejects a part that can be left out, send it again without that part.

        `on_text` is called with the reply so far if the request asks for a stream.
        """
        rejected = set(self._rejected)
        while True:
            request = request_without(rejected)
            try:
                data = await self._read(request, on_text)
            except RequestRejected as error:
                part = dispensable(error, request)
                if part is None:
                    raise
                rejected.add(part)
            else:
                self._rejected |= rejected  # only now: otherwise, the field was not the cause
                return self._decoded(data, decoder)

    def _decoded(self, data: bytes, decoder: msgspec.json.Decoder[_Reply]) -> _Reply:
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: not UTF-8
            text = f"{self.name} sent a malformed reply: {error}"
            raise LMError(text, is_transient=True) from None

    async def _read(self, request: dict[str, Any], on_text: OnText | None) -> bytes:
        if self._batches is not None:
            return await self._read_deferred(self._batches, request)
        name = f"{self.resource}.with_streaming_response.create"
        return await self.use_client(
            lambda client: self.read_bounded(operator.attrgetter(name)(client)(**_unvalidated(request)), on_text)
        )

    async def _read_deferred(self, batches: BatchQueue, request: dict[str, Any]) -> bytes:
        more = request.get("extra_body", {})
        fields = {name: value for name, value in request.items() if name != "extra_body"}
        status, data = await batches.send({**fields, **more})
        if status == 200:
            return data
        message, param = map(self.without_key, _error_in(data[:_MAX_ERROR_BYTES]))
        raise self._rejection(status, message, param, {})

    async def use_client(self, use: Callable[[Any], Awaitable[_Outcome]]) -> _Outcome:
        """Use the package's client, within `request_seconds`. Raises its errors as LMError."""
        package = self._imported()
        try:
            async with asyncio.timeout(self._request_seconds):
                return await use(self._client(package))
        except LMError as error:
            failure = error
        except TimeoutError:
            text = f"{self.name} took over {self._request_seconds:g} s to answer"
            failure = LMError(text, is_transient=True)
        except Exception as error:  # from the package or its dependencies
            failure = self._as_lm_error(package, error)
        raise failure  # not inside `except`: its context would be the original error, which may hold the key

    async def read_bounded(self, responding: AbstractAsyncContextManager[Any], on_text: OnText | None = None) -> bytes:
        """Return the body of a response that the package has not read. A stream is joined, and passed to `on_text`."""
        data, joined = bytearray(), None
        async with responding as response:
            if on_text is not None and _is_stream(response.headers):  # not every endpoint supports streams
                joined = self.stream(on_text, self.credentials)
            async for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _MAX_REPLY_BYTES:
                    raise LMError(f"{self.name} sent a reply of over {_MAX_REPLY_BYTES:,} bytes")
                if joined is not None:
                    joined.feed(chunk)
        return bytes(data) if joined is None else joined.body()

    async def read_lines(self, responding: AbstractAsyncContextManager[Any], take: Callable[[bytes], None]) -> None:
        """Call `take` with each line of a response. Only the size of a line is limited, not that of the response."""
        rest = bytearray()
        async with responding as response:
            async for chunk in response.iter_bytes():
                rest += chunk
                if b"\n" in chunk:
                    *lines, rest = rest.split(b"\n")
                    for line in filter(bytearray.strip, lines):
                        take(bytes(line))
                if len(rest) > _MAX_REPLY_BYTES:
                    raise LMError(f"{self.name} sent a result of over {_MAX_REPLY_BYTES:,} bytes")
        if rest.strip():
            take(bytes(rest))

    def _client(self, package: Any) -> Any:
        """Return the client of this event loop. Its connections are kept until the loop ends."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = getattr(package, self.client)(
                api_key=self._key or "none",  # without a key, the package would look for one on this machine
                base_url=self.base_url,
                max_retries=0,
                timeout=self._request_seconds,
                http_client=package.DefaultAsyncHttpxClient(
                    headers={"accept-encoding": "gzip, deflate"},
                    follow_redirects=False,  # no other host may get the key and the question
                    event_hooks={"response": [self._check]},
                ),
            )
            keeper = loop.create_task(_close_with_loop(client))
            # When the model is garbage collected, the client is closed, too.
            forgotten = weakref.finalize(self, _cancel, loop, keeper)
            forgotten.atexit = False
            keeper.add_done_callback(lambda _: forgotten.detach())
        return client

    def dollars(self, prompt: int, written: int, *, cached: int = 0, stored: int = 0) -> float | None:
        """Return the cost of tokens; None if the price is unknown. `cached` and `stored` are part of `prompt`."""
        try:
            from genai_prices import Usage as Tokens  # optional
            from genai_prices import calc_price

            tokens = Tokens(
                input_tokens=prompt, output_tokens=written, cache_read_tokens=cached, cache_write_tokens=stored
            )
            price = float(calc_price(tokens, self._model, provider_api_url=self.base_url).total_price)
            return price if self._batches is None else price * BATCH_SHARE
        except (ImportError, LookupError, ValueError):
            return None

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        if not tokens < self.cache_minimum <= longer:
            return False
        first = self.dollars(longer, 0, stored=longer)
        later, uncached = self.dollars(longer, 0, cached=longer), self.dollars(tokens, 0)
        if first is None or later is None or uncached is None:
            return False
        return first + (_REPEATS - 1) * later < _REPEATS * uncached

    def estimate(self, messages: Sequence[Message]) -> Usage:
        usage = super().estimate(messages)
        return msgspec.structs.replace(usage, dollars=self.dollars(usage.prompt_tokens, 0))

    def _imported(self) -> Any:
        try:
            package = importlib.import_module(self.package)
            importlib.import_module(_PRICES)
            return package
        except ImportError as error:
            missing = f"{self.name} needs the extra `{self.package}` (the package {error.name} is missing)"
            raise LMError(f"{missing}: pip install 'chainofcode[{self.package}]'") from None

    async def _check(self, response: Any) -> None:
        """Raise for an error response, before the package reads its body without a bound."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in _ENCODINGS:
            shown = self.without_key(encoding)[:100]
            raise LMError(f"{self.name} encodes its reply as {shown!r}, which was not requested")
        if response.is_success:
            return
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ERROR_BYTES:
                break
        message, param = map(self.without_key, _error_in(bytes(body)))
        raise self._rejection(response.status_code, message, param, response.headers)

    def _rejection(self, status: int, message: str, param: str, headers: Mapping[str, str]) -> LMError:
        """Return an error that states what the endpoint rejects and what to do about it."""
        shown = message[:300]
        if status < 400:
            return LMError(f"{self.base_url_shown} redirects requests ({status}): check the URL")
        if status in (401, 403):
            variable = self.key_variable or f"{self.package.upper()}_API_KEY"
            return LMError(f"{self.base_url_shown} rejects the key: check {variable}, or pass another key ({shown})")
        if status == 404:
            return NotFound(f"model {self._model!r} not found at {self.base_url_shown} ({shown})", shown)
        is_refused = status == 500 and re.search(_REFUSED_WITH_500, message) is not None
        if status in (408, 409, 429) or (status >= 500 and not is_refused):
            text = f"{self.name} returned HTTP {status}: {shown}"
            return LMError(text, is_transient=True, retry_seconds=_retry_seconds(headers))
        return RequestRejected(f"{self.name} rejects the request with HTTP {status}: {shown}", message, param)

    def _as_lm_error(self, package: Any, error: Exception) -> LMError:
        """Convert an error of the package into an LMError."""
        if isinstance(error.__cause__, LMError):  # raised by `_check`, wrapped by the package
            return error.__cause__
        if isinstance(error, package.APIConnectionError):
            reason = self.without_key(str(error.__cause__ or "no reply"))[:200]
            text = f"{self.base_url_shown} cannot be reached ({reason}): is the server running, and is the URL right?"
            return LMError(text, is_transient=True)
        message = self.without_key(str(error))[:300]
        return LMError(
            f"the request to {self.name} failed: {type(error).__name__} {message}".rstrip(), is_transient=True
        )

    def without_key(self, text: str) -> str:
        """Return a text of the endpoint without the key and the password."""
        return self.credentials.remove(text)

    def clean_reply(self, reply: Completion) -> Completion:
        """Return a reply without the key. Its tokens, from which the key could be put together, are then left out."""
        if not self.credentials:
            return reply
        text, finish, tokens = self.without_key(reply.text), self.without_key(reply.finish_reason), reply.tokens
        joined = "".join(token.text for token in tokens)
        if text != reply.text or self.without_key(joined) != joined:
            tokens = ()
        return msgspec.structs.replace(
            reply, text=text, finish_reason=finish, tokens=tuple(map(self._clean_token, tokens))
        )

    def _clean_token(self, token: Token) -> Token:
        if all(self.without_key(text) == text for text in (token.text, *token.alternatives)):
            return token
        known = {self.without_key(text): logprob for text, logprob in token.alternatives.items()}
        return Token(self.without_key(token.text), known)


def missing_package(vendor: str) -> str:
    """Return the first package that is missing here for the models of a vendor; empty if none is."""
    return next((package for package in (vendor, _PRICES) if importlib.util.find_spec(package) is None), "")


def _is_listed(model: str, body: bytes) -> bool:
    """Whether a model is in the reply of `/models`. If the list cannot be read, it counts as listed."""
    try:
        names = {str(entry["id"]) for entry in msgspec.json.decode(body)["data"] or ()}
    except (msgspec.DecodeError, ValueError, RecursionError, LookupError, TypeError):
        return True
    return not names.isdisjoint([model, f"{model}:latest"])


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


async def _close_with_loop(client: Any) -> None:
    """Close a client when its event loop ends, which cancels all tasks."""
    try:
        await asyncio.Event().wait()
    finally:
        await client.close()


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith("text/event-stream")


def _unvalidated(request: dict[str, Any]) -> dict[str, Any]:
    """Send the conversation as an extra body: the package would validate each part against many types."""
    extra = {"messages": request["messages"], **request.get("extra_body", {})}
    return {**request, "messages": [], "extra_body": extra}


def as_json(schema: dict[str, Any] | None) -> str:
    """Return the text that stands for a schema in the set of rejected parts."""
    return msgspec.json.encode(schema, order="sorted").decode()


def without_login(url: str) -> tuple[str, tuple[str, ...]]:
    """Return a URL without user and password, and these secrets as they are written in the URL, longest first."""
    scheme, slashes, rest = url.rpartition("://")
    place = re.match(r"[^/?#]*@", rest)
    if place is None:
        return url, ()
    login = place[0][:-1]
    password = login.partition(":")[2]
    return f"{scheme}{slashes}{rest[place.end() :]}", (login, password, urllib.parse.unquote(password))


def _error_in(body: bytes) -> tuple[str, str]:
    """Return the message of an error response, and the field that it names."""
    try:
        error = msgspec.json.decode(body)
        error = error.get("error", error)
        return str(error.get("message", error)), str(error.get("param") or "")
    except (msgspec.DecodeError, ValueError, RecursionError, AttributeError):
        return body.decode(errors="replace"), ""


def _retry_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the value of Retry-After, if it is a number of seconds."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None
