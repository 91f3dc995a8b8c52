"""Any endpoint that speaks OpenAI's protocol: OpenAI, vLLM, SGLang, Ollama, llama.cpp, Gemini, Groq, OpenRouter…

Uses the `openai` package (the extra `openai`), imported by the first request. One request is one attempt: `Retried`
tries again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import LMError
from . import Completion, Message, Usage, turns
from .remote import IN_FLIGHT, Endpoint, Refused

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

    Where the endpoint refuses a temperature or a JSON schema, the request is made again without; where that was the
    reason, from then on. A schema that is refused says nothing about others.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        request_seconds: float = 600,
        name: str = "",
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self.name = name or f"openai:{model}"
        self._endpoint = Endpoint("openai", model, self.name, base_url, key, request_seconds)
        self._model, self.in_flight = model, IN_FLIGHT
        self._refused: set[str] = set()  # fields, and schemas as JSON

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
            "max_completion_tokens" if self._endpoint.base_url == _OPENAI else "max_tokens": max_tokens,
            "n": n,
            "temperature": temperature,
            **({"stop": list(stop)} if stop else {}),
            **({"seed": seed} if seed is not None else {}),
        }
        if schema is not None:
            request["response_format"] = {"type": "json_schema", "json_schema": {"name": "value", "schema": schema}}
        written = msgspec.json.encode(schema, order="sorted").decode()
        for known in self._refused:
            request.pop("response_format" if known == written else known, None)
        refused = set()
        while True:
            try:
                replies = await self._ask(request)
            except Refused as error:
                field = _dispensable(error, request)
                if field is None:
                    raise
                del request[field]
                is_schema = field == "response_format" and not (error.blames(field) and error.is_about_kind)
                refused.add(written if is_schema else field)
            else:
                self._refused |= refused  # only now: what fails without a field, too, was not about the field
                return replies

    async def _ask(self, request: dict[str, Any]) -> list[Completion]:
        started = time.monotonic()
        data = await self._endpoint.read("AsyncOpenAI", "chat.completions", request)
        seconds = time.monotonic() - started
        try:
            reply = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._endpoint.no_reply(error) from None
        if not reply.choices:
            raise LMError(f"{self.name} answered without a choice", is_transient=True)
        # What one request cost is counted once, with its first reply.
        return [
            Completion(
                choice.message.content or "",
                self._usage(reply.usage or _Used()) if place == 0 else Usage(),
                seconds,
                choice.finish_reason or "",
            )
            for place, choice in enumerate(reply.choices)
        ]

    def _usage(self, used: _Used) -> Usage:
        cached = (used.prompt_tokens_details or _Details()).cached_tokens or 0
        dollars = self._endpoint.dollars(used.prompt_tokens, used.completion_tokens, cached=cached)
        return Usage(1, used.prompt_tokens, used.completion_tokens, dollars, cached)


def _dispensable(error: Refused, request: dict[str, Any]) -> str | None:
    """The field that the request may be tried without."""
    if "temperature" in request and error.blames("temperature"):
        return "temperature"
    # Not every endpoint names what it refuses: a schema is the likeliest.
    is_likely = not error.param or error.blames("response_format")
    return "response_format" if "response_format" in request and is_likely else None
