"""What endpoints have in common: one attempt, bounded in bytes and seconds, and our words for what fails.

The packages of OpenAI and Anthropic come from one generator, and are used alike. The key stays in here, and so does a
password in the URL; they are taken out of what an endpoint says.
"""

from __future__ import annotations

import asyncio
import importlib
import operator
import re
import urllib.parse
import weakref
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ..errors import LMError

IN_FLIGHT = 16  # what an account is good for, as a rule; whoever sends too much is told to wait
_MAX_REPLY_BYTES = 10_000_000
_MAX_ERROR_BYTES = 100_000
_SHORTEST_SECRET = 8  # characters: what is shorter is a placeholder, and may be part of any word
_NO = r"(?:(?:not|n't) (?:be )?(?:support|permit|allow)|unsupported|deprecated|un(?:known|recognized|expected)|extra)"


class Refused(LMError):
    """The endpoint takes requests, but not this one; `param` is the field it blames, where it says so apart."""

    def __init__(self, message: str, said: str, param: str) -> None:
        super().__init__(message)
        self.said, self.param = said, param

    @property
    def is_about_kind(self) -> bool:
        """Whether it never takes such a thing: not only this one."""
        is_no = re.search(_NO, self.said, re.IGNORECASE) is not None
        return is_no and re.search(r"\bschema\b", self.said, re.IGNORECASE) is None

    def blames(self, field: str) -> bool:
        """Whether it names a field of the request, as a field: many names are words that a message may hold, too."""
        if self.param:
            return re.match(rf"{field}(?![\w-])", self.param) is not None
        if "_" in field:
            return re.search(rf"\b{field}\b", self.said) is not None
        name = rf"['\"`]{field}['\"`]"
        told = rf"\A{field}[\w.]*: |{name}.{{0,40}}{_NO}|{_NO}.{{0,30}}{name}|\A{field} is {_NO}"
        return re.search(told, self.said, re.IGNORECASE | re.DOTALL) is not None


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


async def _close_at_the_end(client: Any) -> None:
    """Whoever ends an event loop cancels what still runs in it: that is the moment."""
    try:
        await asyncio.Event().wait()
    finally:
        await client.close()


def _as_it_is(request: dict[str, Any]) -> dict[str, Any]:
    """The conversation as an extra body: else the package holds each part of it against every type there is."""
    extra = {"messages": request["messages"], **request.get("extra_body", {})}
    return {**request, "messages": [], "extra_body": extra}


class Endpoint:
    """Where a model is asked. `request_seconds` is for a whole reply, however slowly it drips."""

    def __init__(self, package: str, model: str, name: str, base_url: str, key: str, request_seconds: float) -> None:
        self.base_url = base_url.rstrip("/")
        self._shown, self._login = without_login(self.base_url)
        self._package, self._model, self._name = package, model, name
        self._key, self._request_seconds = key, request_seconds
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def read(self, kind: str, resource: str, request: dict[str, Any]) -> bytes:
        """What comes back for one request to a resource of the package's client of that kind."""
        package = self._imported()
        data = bytearray()
        failure: LMError | None = None
        try:
            async with asyncio.timeout(self._request_seconds):
                create = operator.attrgetter(f"{resource}.with_streaming_response.create")(self._client(package, kind))
                async with create(**_as_it_is(request)) as response:
                    async for chunk in response.iter_bytes():
                        data += chunk
                        if len(data) > _MAX_REPLY_BYTES:
                            raise LMError(f"{self._name} sent a reply of over {_MAX_REPLY_BYTES:,} bytes")
        except LMError as error:
            failure = error
        except TimeoutError:
            text = f"{self._name} took over {self._request_seconds:g} s to answer"
            failure = LMError(text, is_transient=True)
        except Exception as error:  # the package's own, and those of what it is built on
            failure = self._as_ours(package, error)
        if failure is not None:  # raised here, without the other in its context: that one may hold the key
            raise failure
        return bytes(data)

    def _client(self, package: Any, kind: str) -> Any:
        """One for each event loop, which it belongs to: connections are kept until the loop ends."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = getattr(package, kind)(
                api_key=self._key or "none",  # without one, it would look for others on this machine
                base_url=self.base_url,
                max_retries=0,
                timeout=self._request_seconds,
                http_client=package.DefaultAsyncHttpxClient(
                    follow_redirects=False,  # elsewhere is not where the key was meant for, nor the question
                    event_hooks={"response": [self._check]},
                ),
            )
            keeper = loop.create_task(_close_at_the_end(client))
            # Whoever forgets the model ends it, too; until then this is what holds it.
            forgotten = weakref.finalize(self, _cancel, loop, keeper)
            forgotten.atexit = False
            keeper.add_done_callback(lambda _: forgotten.detach())
        return client

    def no_reply(self, why: object) -> LMError:
        """For what was read, and is none."""
        return LMError(f"{self._name} answered with something that is no reply: {why}", is_transient=True)

    def dollars(self, prompt: int, written: int, *, cached: int = 0, stored: int = 0) -> float | None:
        """What tokens cost, `cached` and `stored` being some of the prompt's; None where nobody knows the price."""
        from genai_prices import Usage, calc_price

        try:
            tokens = Usage(
                input_tokens=prompt, output_tokens=written, cache_read_tokens=cached, cache_write_tokens=stored
            )
            return float(calc_price(tokens, self._model, provider_api_url=self.base_url).total_price)
        except (LookupError, ValueError):
            return None

    def _imported(self) -> Any:
        try:
            importlib.import_module("genai_prices")
            return importlib.import_module(self._package)
        except ImportError as error:
            text = f"the package {error.name} is missing: pip install 'chainofcode[{self._package}]'"
            raise LMError(text) from None

    async def _check(self, response: Any) -> None:
        """Before anybody reads it: how long the body of an error is, nobody else bounds."""
        if response.is_success:
            return
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ERROR_BYTES:
                break
        told, param = _told(bytes(body))
        raise self._refusal(response.status_code, self._without_key(told), param, response.headers)

    def _refusal(self, status: int, told: str, param: str, headers: Mapping[str, str]) -> LMError:
        """What an endpoint refuses, in our words, with what to do."""
        said = told[:300]
        if status < 400:
            return LMError(f"{self._shown} sends requests elsewhere, with {status}: is the URL right?")
        if status in (401, 403):
            variable = f"{self._package.upper()}_API_KEY"
            return LMError(f"{self._shown} refuses the key: set {variable}, or give another ({said})")
        if status == 404:
            return LMError(f"{self._shown} knows no model {self._model!r} ({said})")
        if status in (408, 409, 429) or status >= 500:
            text = f"{self._name} fails with {status}: {said}"
            return LMError(text, is_transient=True, retry_seconds=_retry_seconds(headers))
        return Refused(f"{self._name} refuses with {status}: {said}", told, param)

    def _as_ours(self, package: Any, error: Exception) -> LMError:
        """What failed before or after that, in our words."""
        if isinstance(error.__cause__, LMError):  # raised by `_check`, in the hands of the package
            return error.__cause__
        if isinstance(error, package.APIConnectionError):
            reason = self._without_key(str(error.__cause__ or "no answer"))[:200]
            text = f"{self._shown} cannot be reached ({reason}): is the server running, and the URL right?"
            return LMError(text, is_transient=True)
        said = self._without_key(str(error))[:300]
        return LMError(f"{self._name} broke off: {type(error).__name__} {said}".rstrip(), is_transient=True)

    def _without_key(self, text: str) -> str:
        for secret in (self._key, *self._login):
            text = text.replace(secret, "[key]") if len(secret) >= _SHORTEST_SECRET else text
        return text


def without_login(url: str) -> tuple[str, tuple[str, ...]]:
    """A URL without the user and password that may be in it, and these, longest first, as they are written there."""
    scheme, slashes, rest = url.rpartition("://")
    place = re.match(r"[^/?#]*@", rest)
    if place is None:
        return url, ()
    login = place[0][:-1]
    password = login.partition(":")[2]
    return f"{scheme}{slashes}{rest[place.end() :]}", (login, password, urllib.parse.unquote(password))


def _told(body: bytes) -> tuple[str, str]:
    """The words in the body of an error, which is an object in most protocols, and the field that it blames."""
    try:
        told = msgspec.json.decode(body)
        told = told.get("error", told)
        return str(told.get("message", told)), str(told.get("param") or "")
    except (msgspec.DecodeError, RecursionError, AttributeError):
        return body.decode(errors="replace"), ""


def _retry_seconds(headers: Mapping[str, str]) -> float | None:
    """What the header says, where it is a number of seconds."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None
