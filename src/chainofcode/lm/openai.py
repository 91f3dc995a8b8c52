"""Any endpoint that speaks OpenAI's protocol: OpenAI, vLLM, SGLang, Ollama, llama.cpp, Gemini, Groq, OpenRouter…

Uses the `openai` package (the extra `openai`), imported by the first request. One request is one attempt: `Retried`
tries again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import LMError
from .interface import Completion, Message, Usage, turns
from .remote import RemoteLM, RequestRejected, as_json


class _Text(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Text
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _ChatTokens(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _ChatReply(msgspec.Struct):
    choices: list[_Choice]
    usage: _ChatTokens | None = None


_decoder = msgspec.json.Decoder(_ChatReply)


class OpenAILM(RemoteLM):
    """`model` at `base_url`, by default what `OPENAI_BASE_URL` and `OPENAI_API_KEY` say.

    Where the endpoint rejects a temperature or a JSON schema, the request is sent again without it, and if that helps,
    so are all later ones. A rejected schema says nothing about other schemas.
    """

    package, vendor_url = "openai", "https://api.openai.com/v1"
    client, resource = "AsyncOpenAI", "chat.completions"

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
        # OpenAI's newer models reject the old name, and few others know the new one.
        limit = "max_completion_tokens" if self.base_url == self.vendor_url else "max_tokens"
        whole: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": turn.role, "content": turn.content} for turn in turns(messages)],
            limit: max_tokens,
            "n": n,
            "temperature": temperature,
        }
        if stop:
            whole["stop"] = list(stop)
        if seed is not None:
            whole["seed"] = seed
        if schema is not None:
            whole["response_format"] = {"type": "json_schema", "json_schema": {"name": "value", "schema": schema}}

        def without(rejected: set[str]) -> dict[str, Any]:
            fields = rejected | ({"response_format"} if as_json(schema) in rejected else set())
            return {name: value for name, value in whole.items() if name not in fields}

        def dispensable(error: RequestRejected, request: dict[str, Any]) -> str | None:
            if "temperature" in request and error.blames("temperature"):
                return "temperature"
            is_blamed = error.blames("response_format")
            # Not every endpoint names what it rejects: a schema is the likeliest.
            if "response_format" not in request or (error.param and not is_blamed):
                return None
            return "response_format" if is_blamed and error.is_about_kind else as_json(schema)

        started = time.monotonic()
        reply = await self._ask(without, dispensable, _decoder)
        return self._completions(reply, time.monotonic() - started)

    def _completions(self, reply: _ChatReply, seconds: float) -> list[Completion]:
        if not reply.choices:
            raise LMError(f"{self.name} answered without a choice", is_transient=True)
        replies = [
            Completion(choice.message.content or "", Usage(), seconds, choice.finish_reason or "")
            for choice in reply.choices
        ]
        # What one request cost is counted once, with its first reply.
        replies[0] = msgspec.structs.replace(replies[0], usage=self._usage(reply.usage or _ChatTokens()))
        return replies

    def _usage(self, used: _ChatTokens) -> Usage:
        cached = (used.prompt_tokens_details or _Details()).cached_tokens or 0
        return Usage(
            requests=1,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            dollars=self.dollars(used.prompt_tokens, used.completion_tokens, cached=cached),
            cached_tokens=cached,
        )
