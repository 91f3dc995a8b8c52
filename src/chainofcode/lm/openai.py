"""Any endpoint that speaks OpenAI's protocol: OpenAI, vLLM, SGLang, Ollama, llama.cpp, Gemini, Groq, OpenRouter…

Uses the `openai` package (the extra `openai`), imported by the first request. One request is one attempt: `Retried`
tries again. The key stays in here; it is taken out of what an endpoint says.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import LMError
from . import Completion, Message, Usage, turns

_MAX_REPLY_BYTES = 10_000_000
_OPENAI = "https://api.openai.com/v1"


class _Text(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Text
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Used(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    usage: _Used | None = None


_decoder = msgspec.json.Decoder(_Reply)


class OpenAILM:
    """`model` at `base_url`, by default what `OPENAI_BASE_URL` and `OPENAI_API_KEY` say.

    `request_seconds` is for a whole reply, however slowly it drips. Where the endpoint refuses a JSON schema, the
    request is made again without one, and from then on.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, request_seconds: float = 600
    ) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI).rstrip("/")
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self._request_seconds = request_seconds
        self._takes_schema = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        temperature: float = 0.0,
        n: int = 1,
        seed: int | None = None,
    ) -> list[Completion]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": turn.role, "content": turn.content} for turn in turns(messages)],
            # OpenAI's newer models refuse the old name, and few others know the new one.
            "max_completion_tokens" if self._base_url == _OPENAI else "max_tokens": max_tokens,
            "temperature": temperature,
            "n": n,
            **({"stop": list(stop)} if stop else {}),
            **({"seed": seed} if seed is not None else {}),
        }
        if schema is not None and self._takes_schema:
            constraint = {"type": "json_schema", "json_schema": {"name": "value", "schema": schema}}
            try:
                return await self._request({**request, "response_format": constraint})
            except _SchemaRefused:
                self._takes_schema = False
        return await self._request(request)

    async def _request(self, request: dict[str, Any]) -> list[Completion]:
        openai = _package()
        started = time.monotonic()
        data = bytearray()
        failure: Exception | None = None
        client = openai.AsyncOpenAI(
            api_key=self._key or "none", base_url=self._base_url, max_retries=0, timeout=self._request_seconds
        )  # of its own: a client belongs to one event loop
        try:
            async with asyncio.timeout(self._request_seconds), client:
                create = client.chat.completions.with_streaming_response.create
                async with create(**request) as response:
                    async for chunk in response.iter_bytes():
                        data += chunk
                        if len(data) > _MAX_REPLY_BYTES:
                            raise LMError(f"{self.name} sent a reply of over {_MAX_REPLY_BYTES:,} bytes")
        except LMError as error:
            failure = error
        except TimeoutError:
            text = f"{self.name} took over {self._request_seconds:g} s to answer"
            failure = LMError(text, is_transient=True)
        except Exception as error:  # the package's own, and those of what it is built on
            failure = self._as_ours(openai, error, "response_format" in request)
        if failure is not None:  # raised here, without the other in its context: that one may hold the key
            raise failure
        return self._completions(bytes(data), time.monotonic() - started)

    def _completions(self, data: bytes, seconds: float) -> list[Completion]:
        try:
            reply = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            text = f"{self.name} answered with something that is no reply: {error}"
            raise LMError(text, is_transient=True) from None
        if not reply.choices:
            raise LMError(f"{self.name} answered without a choice", is_transient=True)
        used = reply.usage or _Used()
        cached = (used.prompt_tokens_details or _Details()).cached_tokens or 0
        dollars = self._dollars(used.prompt_tokens, used.completion_tokens, cached)
        usage = Usage(1, used.prompt_tokens, used.completion_tokens, dollars, cached)
        # What one request cost is counted once, with its first reply.
        return [
            Completion(
                choice.message.content or "", usage if place == 0 else Usage(), seconds, choice.finish_reason or ""
            )
            for place, choice in enumerate(reply.choices)
        ]

    def _dollars(self, prompt: int, written: int, cached: int) -> float | None:
        """None where nobody knows the price."""
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price

        try:
            tokens = Tokens(input_tokens=prompt, output_tokens=written, cache_read_tokens=cached)
            return float(calc_price(tokens, self._model, provider_api_url=self._base_url).total_price)
        except (LookupError, ValueError):
            return None

    def _as_ours(self, openai: Any, error: Exception, had_schema: bool) -> Exception:
        """What failed, in our words, with what to do."""
        status = getattr(error, "status_code", None)
        said = self._without_key(str(getattr(error, "message", None) or error))[:300]
        if status in (400, 422) and had_schema:
            return _SchemaRefused()
        if isinstance(error, openai.APIConnectionError):
            reason = self._without_key(str(error.__cause__ or "no answer"))[:200]
            text = f"{self._base_url} cannot be reached ({reason}): is the server running, and the URL right?"
            return LMError(text, is_transient=True)
        if status in (401, 403):
            return LMError(f"{self._base_url} refuses the key: set OPENAI_API_KEY, or give another ({said})")
        if status == 404:
            return LMError(f"{self._base_url} knows no model {self._model!r} ({said})")
        if status in (408, 409, 429) or (status is not None and status >= 500):
            retry = _retry_seconds(getattr(error, "response", None))
            return LMError(f"{self.name} fails with {status}: {said}", is_transient=True, retry_seconds=retry)
        if status is not None:
            return LMError(f"{self.name} refuses with {status}: {said}")
        return LMError(f"{self.name} broke off: {type(error).__name__} {said}".rstrip(), is_transient=True)

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


class _SchemaRefused(Exception):
    """The endpoint does not take a JSON schema, or not this one."""


def _package() -> Any:
    try:
        import genai_prices  # noqa: F401
        import openai
    except ImportError as error:
        raise LMError(f"the package {error.name} is missing: pip install 'chainofcode[openai]'") from None
    return openai


def _retry_seconds(response: Any) -> float | None:
    """What the header says, where it is a number of seconds."""
    try:
        return max(0.0, float(response.headers["retry-after"])) if response is not None else None
    except (KeyError, ValueError):
        return None
