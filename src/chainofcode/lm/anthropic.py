"""Claude, through Anthropic's own protocol: repeated prefixes are marked for caching, and then cost a tenth.

Uses the `anthropic` package (the extra `anthropic`), imported by the first request. One request is one attempt:
`Retried` tries again.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .batch_endpoints import AnthropicBatches
from .interface import LM, Completion, Message, Usage, bounded_tokens, estimated_tokens
from .remote import RemoteLM, RequestRejected, as_json
from .reply_stream import MessageStream, OnText

_FINISHES = {
    "end_turn": "stop",
    "tool_use": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
# Fields that a model may reject and that can be left out; its errors name the field.
_OPTIONAL = ("temperature", "thinking", "tool_choice", "output_config")
_THINKING_TOKENS = 8192  # added if thinking cannot be turned off: it counts towards the limit of the reply
# Tokens below which a mark is ignored (documentation as of October 2026); models that are not listed need 1,024.
_MINIMA = (
    (r"claude-(opus|fable|mythos)-5", 512),
    (r"claude-(haiku-4-5|opus-4-[56])", 4096),
    (r"claude-(3-5-haiku|3-haiku)", 2048),
)
_USUAL_MINIMUM = 1024
_CHARS_PER_TOKEN = 3
_AGAIN = {"cache_control": {"type": "ephemeral"}}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: dict[str, Any] | None = None


class _MessageTokens(msgspec.Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None


class _MessageReply(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: Any = None

    @property
    def tokens(self) -> _MessageTokens:
        """The token counts; a reply without them, or with malformed ones, stays valid: it was paid for."""
        return msgspec.convert(self.usage, _MessageTokens) if isinstance(self.usage, dict) else _MessageTokens()


_decoder = msgspec.json.Decoder(_MessageReply)


class AnthropicLM(RemoteLM):
    """`model` at `base_url`; the defaults come from `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`.

    A schema is sent as the input of a tool that the model must call. If a model rejects that, it is sent as the format
    of the reply; a schema that is rejected itself is left out. If a request succeeds without a rejected field, later
    requests omit that field. There are no seeds.
    """

    has_batches = True
    package, vendor_url = "anthropic", "https://api.anthropic.com"
    client, resource = "AsyncAnthropic", "messages"
    stream = MessageStream

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self.cache_minimum = _cache_minimum(model)

    def batch_endpoint(self) -> AnthropicBatches:
        return AnthropicBatches(self)

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
        on_text: OnText | None = None,
    ) -> list[Completion]:
        fixed = {"model": self._model, **_conversation(messages, self.cache_minimum)}
        if n > 1 or schema is not None:  # streaming supports one reply, and only its text
            on_text = None
        if on_text is not None:
            fixed["stream"] = True
        # A tool's input must not be cut. The API rejects stops of white space: replies are cut at those here.
        stops = [] if schema is not None else list(stop)
        cuts = [text for text in stops if not text.strip()]
        if sent := [text for text in stops if text.strip()]:
            fixed["stop_sequences"] = sent

        def without(rejected: set[str]) -> dict[str, Any]:
            room = max_tokens + (_THINKING_TOKENS if "thinking" in rejected else 0)
            # As an extra body, because not every version of the package knows these fields.
            return {**fixed, "max_tokens": room, "extra_body": _optional(schema, temperature, rejected)}

        def dispensable(error: RequestRejected, request: dict[str, Any]) -> str | None:
            fields = request["extra_body"]
            if _is_about_schema(error) and fields.keys() & {"tools", "output_config"}:
                return as_json(schema)
            return next((name for name in _OPTIONAL if name in fields and error.blames(name)), None)

        async def completed() -> Completion:
            started = time.monotonic()
            reply = await self._ask(without, dispensable, _decoder, on_text)
            return self._completion(messages, reply, time.monotonic() - started, cuts)

        if self.is_deferred:
            return await asyncio.gather(*(completed() for _ in range(n)))
        # The first reply writes the prefix to the cache, which the others then read.
        return [await completed(), *await asyncio.gather(*(completed() for _ in range(n - 1)))]

    def _completion(
        self, messages: Sequence[Message], reply: _MessageReply, seconds: float, cuts: Sequence[str]
    ) -> Completion:
        text, finish = (
            self.without_key(_text_of(reply)),
            _FINISHES.get(reply.stop_reason or "", reply.stop_reason or ""),
        )
        for cut in cuts:
            text, found, _ = text.partition(cut)
            if found:
                finish = "stop"
        return self.clean_reply(Completion(text, self._usage(messages, reply), seconds, finish))

    def _usage(self, messages: Sequence[Message], reply: _MessageReply) -> Usage:
        used = reply.tokens
        cached, stored = map(bounded_tokens, (used.cache_read_input_tokens, used.cache_creation_input_tokens))
        estimate = max(0, LM.estimate(self, messages).prompt_tokens - cached - stored)
        prompt = bounded_tokens(used.input_tokens, estimate) + cached + stored
        written = bounded_tokens(used.output_tokens, estimated_tokens(_text_of(reply)))
        return Usage(
            requests=1,
            prompt_tokens=prompt,
            completion_tokens=written,
            dollars=self.dollars(prompt, written, cached=cached, stored=stored),
            cached_tokens=cached,
        )


def _text_of(reply: _MessageReply) -> str:
    """Return the input of the tool that was called, as JSON, else the text."""
    called = next((block.input for block in reply.content if block.type == "tool_use"), None)
    if called is not None:
        return msgspec.json.encode(called).decode()
    return "".join(block.text for block in reply.content if block.type == "text")


def _optional(schema: dict[str, Any] | None, temperature: float, rejected: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"temperature": temperature, "thinking": {"type": "disabled"}}
    is_sent = schema is not None and as_json(schema) not in rejected
    if is_sent and "tool_choice" not in rejected:
        fields["tools"] = [{"name": "value", "input_schema": schema}]
        fields["tool_choice"] = {"type": "tool", "name": "value"}
    elif is_sent:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return {name: value for name, value in fields.items() if name not in rejected}


def _is_about_schema(error: RequestRejected) -> bool:
    return error.blames("input_schema") or (error.blames("output_config") and "schema" in error.detail)


def _cache_minimum(model: str) -> int:
    """Return how many tokens a prefix must have before this model caches it."""
    return next((tokens for pattern, tokens in _MINIMA if re.search(pattern, model)), _USUAL_MINIMUM)


def _conversation(messages: Sequence[Message], least_tokens: int) -> dict[str, Any]:
    """Return each part as a block, with a mark if the conversation up to it will probably recur and can be cached.

    A prefix is looked up only at marks, so the part that many programs share ends with a mark.
    """
    parts = [message for message in messages if message.content]  # empty blocks are rejected
    system_parts = [part for part in parts if part.role == "system"]
    others = [part for part in parts if part.role != "system"]
    turns, system = _turns(others), _blocks(system_parts)
    system_tokens = _tokens(system_parts)
    if turns and system_tokens + _tokens(others[:-1]) >= least_tokens:
        before_last = turns[-1]["content"][: -1 - len(others[-1].images)]
        for block in before_last[-1:]:
            block.update(_AGAIN)
    texts = [block for turn in turns for block in turn["content"] if block["type"] == "text"]
    kept = max((number for number, part in enumerate(others, 1) if part.is_kept), default=0)
    if kept and system_tokens + _tokens(others[:kept]) >= least_tokens:
        texts[kept - 1].update(_AGAIN)
    if not system:
        return {"messages": turns}
    if system_tokens >= least_tokens:
        system[-1].update(_AGAIN)
    return {"messages": turns, "system": system}


def _tokens(parts: Sequence[Message]) -> int:
    """Estimate the tokens of parts, rather too high: a mark on a short prefix is free, a missing mark costs money."""
    return sum(len(part.content) for part in parts) // _CHARS_PER_TOKEN


def _turns(parts: Iterable[Message]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = [
        {"role": role, "content": _blocks(group)} for role, group in itertools.groupby(parts, lambda part: part.role)
    ]
    return turns


def _blocks(parts: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the blocks of parts: images come before the text that is about them."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        for image in part.images:
            data = base64.b64encode(image.data).decode()
            blocks.append({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}})
        blocks.append({"type": "text", "text": part.content})
    return blocks
