"""Any endpoint that speaks OpenAI's protocol: OpenAI, vLLM, SGLang, Ollama, llama.cpp, Gemini, Groq, OpenRouter…

Uses the `openai` package (the extra `openai`), imported by the first request. One request is one attempt: `Retried`
tries again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import re
import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from ..errors import LMError
from .batch_endpoints import OpenAIBatches
from .chat_reply import MAX_ALTERNATIVES, ChatReply
from .dialects import OPENAI, PLAIN, Dialect, strict_form
from .interface import LM, Completion, Image, Message, Usage, bounded_tokens, estimated_tokens
from .remote import RemoteLM, RequestRejected, as_json
from .reply_stream import ChatStream, OnText

_decoder = msgspec.json.Decoder(ChatReply)
# Errors of servers that write only one reply per request: llama.cpp (new and old versions), vLLM.
_ONE_REPLY = r"\bn_cmpl\b|one completion choice|\bn must be 1\b"
# Caches are written only at breakpoints: the end of a prompt is never sent again. As an extra body, because older
# versions of the package lack the field.
_MARKED = {"extra_body": {"prompt_cache_options": {"mode": "explicit"}}}
_MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
_REASONING_TOKENS = 4096  # room for reasoning, if it cannot be turned off


class OpenAILM(RemoteLM):
    """`model` at `base_url`; the defaults come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`.

    If the endpoint rejects a temperature, log probabilities, an effort or a JSON schema, the request is sent again
    without it, and if that helps, so are all later ones. A rejected schema does not affect other schemas. If a server
    writes one reply at a time, the missing replies are requested one by one. `dialect` describes what the endpoint
    supports beyond the common protocol.
    """

    has_logprobs = True
    has_effort = True
    has_batches = True
    package, vendor_url = "openai", "https://api.openai.com/v1"
    client, resource = "AsyncOpenAI", "chat.completions"
    stream = ChatStream

    def __init__(self, model: str, *, dialect: Dialect | None = None, effort: str = "", **options: Any) -> None:
        super().__init__(model, **options)
        self._dialect = dialect or (OPENAI if self.base_url == self.vendor_url else PLAIN)
        self._effort, self.cache_minimum = effort, self._dialect.cache_minimum
        self._is_marked = bool(self._dialect.marked) and re.match(self._dialect.marked, model) is not None
        self.version += f" effort {effort}" if effort else ""

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        return "extra_body" not in self._rejected and super().prefers_longer(tokens, longer)

    def batch_endpoint(self) -> OpenAIBatches:
        return OpenAIBatches(self)

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
        logprobs: bool = False,
        is_quick: bool = False,
        on_text: OnText | None = None,
    ) -> list[Completion]:
        whole: dict[str, Any] = {"model": self._model, "messages": _turns(messages), "temperature": temperature}
        whole["stop"] = list(stop) or None
        if logprobs:
            whole |= {"logprobs": True, "top_logprobs": MAX_ALTERNATIVES}
        if n > 1 or logprobs:  # streaming supports one reply, and only its text
            on_text = None
        if on_text is not None:
            whole |= {"stream": True, "stream_options": {"include_usage": True}}
        if schema is not None:
            whole["response_format"] = {"type": "json_schema", "json_schema": self._format(schema)}
        if self._dialect.has_cache_key:
            whole["prompt_cache_key"] = _prefix_digest(messages)
        if self._is_marked:
            whole |= _MARKED

        async def requested(n: int, seed: int | None) -> list[Completion]:
            def without(rejected: set[str]) -> dict[str, Any]:
                fields = rejected | ({"response_format"} if as_json(schema) in rejected else set())
                fields |= {"top_logprobs"} if "logprobs" in rejected else set()
                fields |= {"stream_options"} if "stream" in rejected else set()
                given = {**whole, **self._limits(max_tokens, rejected, is_quick=is_quick), "n": n, "seed": seed}
                if self._is_marked and "extra_body" not in rejected:
                    given["messages"] = _turns(messages, _marked(messages))
                return {name: value for name, value in given.items() if name not in fields and value is not None}

            started = time.monotonic()
            reply = await self._ask(
                without, lambda error, request: _dispensable(error, request, schema), _decoder, on_text
            )
            return self._completions(messages, reply, time.monotonic() - started)

        replies = (await requested(n, seed))[:n]  # drop surplus replies: a trace records the prompt with each reply
        missing = range(len(replies), n)
        others = await asyncio.gather(*(requested(1, None if seed is None else seed + number) for number in missing))
        return [*replies, *(reply for other in others for reply in other[:1])]

    def _limits(self, max_tokens: int, rejected: set[str], *, is_quick: bool) -> dict[str, Any]:
        """Return the token limit and the effort: the user's, else the lowest available for a quick request."""
        effort = self._effort
        if is_quick and not effort:
            effort = next((level for level in self._dialect.efforts if f"effort {level}" not in rejected), "")
        # A model that accepts an effort, but not `none`, always reasons, which counts towards the limit of the reply.
        is_reasoning = "reasoning_effort" not in rejected and (bool(self._effort) or "effort none" in rejected)
        room = _REASONING_TOKENS if is_quick and is_reasoning and effort != "none" else 0
        return {self._dialect.max_tokens: max_tokens + room, "reasoning_effort": effort or None}

    def _format(self, schema: dict[str, Any]) -> dict[str, Any]:
        strict = strict_form(schema) if self._dialect.is_strict else None
        if strict is None:
            return {"name": "value", "schema": schema}
        return {"name": "value", "strict": True, "schema": strict}

    def _completions(self, messages: Sequence[Message], reply: ChatReply, seconds: float) -> list[Completion]:
        if not reply.choices:
            raise LMError(f"{self.name} sent a reply without choices", is_transient=True)
        replies = [
            Completion(
                text=choice.message.content or "",
                usage=Usage(),
                seconds=seconds,
                finish_reason=choice.finish_reason or "",
                tokens=choice.tokens,
            )
            for choice in reply.choices
        ]
        # The cost of a request is counted once, with its first reply.
        replies[0] = msgspec.structs.replace(replies[0], usage=self._usage(messages, reply))
        return list(map(self.clean_reply, replies))

    def _usage(self, messages: Sequence[Message], reply: ChatReply) -> Usage:
        used = reply.tokens
        prompt = bounded_tokens(used.prompt_tokens, LM.estimate(self, messages).prompt_tokens)
        texts = (choice.message.content or "" for choice in reply.choices)
        written = bounded_tokens(used.completion_tokens, sum(map(estimated_tokens, texts)))
        cached = min(bounded_tokens(used.cached_tokens), prompt)
        stored = min(bounded_tokens(used.cache_write_tokens), prompt - cached)
        return Usage(
            requests=1,
            prompt_tokens=prompt,
            completion_tokens=written,
            dollars=self.dollars(prompt, written, cached=cached, stored=stored),
            cached_tokens=cached,
        )


def _turns(messages: Sequence[Message], marked: Collection[int] = ()) -> list[dict[str, Any]]:
    """Return each turn as text, for servers that accept nothing else; with images or marks, in parts."""
    sent = []
    for role, group in itertools.groupby(enumerate(messages), key=lambda numbered: numbered[1].role):
        parts = list(group)
        content: Any = "\n\n".join(part.content for _, part in parts)
        if any(part.images or number in marked for number, part in parts):
            content = []
            for number, part in parts:  # images come before the text about them, and after the part that is sent again
                text = {"type": "text", "text": part.content, **(_MARK if number in marked else {})}
                content += [*map(_image, part.images), text]
        sent.append({"role": role, "content": content})
    return sent


def _marked(messages: Sequence[Message]) -> set[int]:
    """Return the parts up to which a conversation is likely to be sent again; the model's own parts get no mark."""
    kept = max((number for number, message in enumerate(messages) if message.is_kept), default=-1)
    ends = [range(kept + 1), range(len(messages) - 1)]
    found = (max((number for number in end if messages[number].role != "assistant"), default=-1) for end in ends)
    return {number for number in found if number >= 0}


def _image(image: Image) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _dispensable(error: RequestRejected, request: dict[str, Any], schema: dict[str, Any] | None) -> str | None:
    """Return what to leave out of a rejected request: a field, an effort, or this schema."""
    if "reasoning_effort" in request and error.blames("reasoning_effort"):
        return f"effort {request['reasoning_effort']}" if error.is_about_value else "reasoning_effort"
    if request.get("n", 1) > 1 and (error.blames("n") or re.search(_ONE_REPLY, error.detail)):
        return "n"
    if "extra_body" in request and re.search(r"prompt_cache_(options|breakpoint)", f"{error.param} {error.detail}"):
        return "extra_body"
    for field in ("temperature", "prompt_cache_key", "logprobs", "stream_options", "stream"):
        if field in request and error.blames(field):
            return field
    if "logprobs" in request and error.blames("top_logprobs"):
        return "logprobs"
    is_blamed = error.blames("response_format")
    # Not every endpoint names what it rejects: the schema is the likeliest cause.
    if "response_format" not in request or (error.param and not is_blamed):
        return None
    return "response_format" if is_blamed and error.is_about_kind else as_json(schema)


def _prefix_digest(messages: Sequence[Message]) -> str:
    """Return a digest of the beginning of a conversation: up to the last part that `is_kept`, else the first part."""
    kept = [number for number, message in enumerate(messages, 1) if message.is_kept]
    prefix = messages[: kept[-1] if kept else 1]
    return hashlib.sha256(msgspec.json.encode(list(prefix))).hexdigest()[:32]
