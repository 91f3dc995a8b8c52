"""Claude, through Anthropic's own protocol: repeated prefixes are marked for caching, and then cost a tenth.

Uses the `anthropic` package (the extra `anthropic`), imported by the first request. One request is one attempt:
`Retried` tries again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .interface import Completion, Message, Usage
from .remote import RemoteLM, RequestRejected, as_json

_FINISHES = {
    "end_turn": "stop",
    "tool_use": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
# What a model may reject, and can be done without; its errors name the field.
_OPTIONAL = ("temperature", "thinking", "tool_choice", "output_config")
_THINKING_TOKENS = 8192  # on top, where thinking cannot be turned off: it is counted with the reply
_AGAIN = {"cache_control": {"type": "ephemeral"}}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: dict[str, Any] | None = None


class _MessageTokens(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _MessageReply(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _MessageTokens | None = None


_decoder = msgspec.json.Decoder(_MessageReply)


class AnthropicLM(RemoteLM):
    """`model` at `base_url`, by default what `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` say.

    A schema is sent as the input of a tool that must be called. Where a model rejects that, it is sent as the format
    of the reply; a schema that is rejected itself is left out. What a model rejects once, and answers without, is not
    sent again. There are no seeds.
    """

    package, vendor_url = "anthropic", "https://api.anthropic.com"
    client, resource = "AsyncAnthropic", "messages"

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
        fixed = {"model": self._model, **_conversation(messages)}
        # A tool's input must not be cut. White space is rejected as a stop: we cut at that ourselves.
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

        replies = []
        for _ in range(n):
            started = time.monotonic()
            reply = await self._ask(without, dispensable, _decoder)
            replies.append(self._completion(reply, time.monotonic() - started, cuts))
        return replies

    def _completion(self, reply: _MessageReply, seconds: float, cuts: Sequence[str]) -> Completion:
        text, finish = _said(reply), _FINISHES.get(reply.stop_reason or "", reply.stop_reason or "")
        for cut in cuts:
            text, found, _ = text.partition(cut)
            if found:
                finish = "stop"
        return Completion(text, self._usage(reply.usage or _MessageTokens()), seconds, finish)

    def _usage(self, used: _MessageTokens) -> Usage:
        cached, stored = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
        prompt = used.input_tokens + cached + stored
        return Usage(
            requests=1,
            prompt_tokens=prompt,
            completion_tokens=used.output_tokens,
            dollars=self.dollars(prompt, used.output_tokens, cached=cached, stored=stored),
            cached_tokens=cached,
        )


def _said(reply: _MessageReply) -> str:
    """The input of the tool that was called, as JSON, else the text."""
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
    return error.blames("input_schema") or (error.blames("output_config") and "schema" in error.said)


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """Each part a block, marked where the conversation up to it is likely to come again."""
    parts = [message for message in messages if message.content]  # empty blocks are rejected
    turns = _turns(part for part in parts if part.role != "system")
    system = _blocks(part for part in parts if part.role == "system")
    if not system:
        return {"messages": turns}
    system[-1].update(_AGAIN)
    return {"messages": turns, "system": system}


def _turns(parts: Iterable[Message]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = [
        {"role": role, "content": _blocks(group)} for role, group in itertools.groupby(parts, lambda part: part.role)
    ]
    if turns and len(turns[-1]["content"]) > 1:
        turns[-1]["content"][-2].update(_AGAIN)
    return turns


def _blocks(parts: Iterable[Message]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": part.content} for part in parts]
