"""Claude, through Anthropic's own protocol: what comes again with the next request is marked, and then costs a tenth.

Uses the `anthropic` package (the extra `anthropic`), imported by the first request. One request is one attempt:
`Retried` tries again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from . import Completion, Message, Usage
from .remote import IN_FLIGHT, Endpoint, Refused

_ANTHROPIC = "https://api.anthropic.com"
_FINISHES = {
    "end_turn": "stop",
    "tool_use": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
# What a model may refuse, and can be done without; its errors name the field.
_OPTIONAL = ("temperature", "thinking", "tool_choice", "output_config")
_THINKING_TOKENS = 8192  # on top, where thinking cannot be turned off: it is counted with the reply
_AGAIN = {"cache_control": {"type": "ephemeral"}}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: dict[str, Any] | None = None


class _Used(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Reply(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _Used | None = None


_decoder = msgspec.json.Decoder(_Reply)


class AnthropicLM:
    """`model` at `base_url`, by default what `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` say.

    A schema is the input of a tool that must be called; it is an object's. Where a model refuses that, the format of
    its reply is set instead; a schema that is refused itself is left out. What a model refuses once, and answers
    without, is not sent again. There are no seeds.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, request_seconds: float = 600
    ) -> None:
        base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC
        key = api_key or os.environ.get("ANTHROPIC_API_KEY") or ""
        self.name = f"anthropic:{model}"
        self._endpoint = Endpoint("anthropic", model, self.name, base_url, key, request_seconds)
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
        request = {"model": self._model, **_conversation(messages)}
        # Stops of white space are refused, and a tool's input must not be cut: these we cut ourselves, or not at all.
        sent = [] if schema is not None else [text for text in stop if text.strip()]
        if sent:
            request["stop_sequences"] = sent
        cuts = [] if schema is not None else [text for text in stop if text not in sent]
        return [await self._ask(request, schema, max_tokens, temperature, cuts) for _ in range(n)]

    async def _ask(
        self,
        request: dict[str, Any],
        schema: dict[str, Any] | None,
        max_tokens: int,
        temperature: float,
        cuts: Sequence[str],
    ) -> Completion:
        started = time.monotonic()
        refused = set(self._refused)
        while True:
            optional = _optional(schema, temperature, refused)
            room = max_tokens + (_THINKING_TOKENS if "thinking" in refused else 0)
            # Not every version of the package knows these fields; the body is the same.
            whole = {**request, "max_tokens": room, "extra_body": optional}
            try:
                data = await self._endpoint.read("AsyncAnthropic", "messages", whole)
            except Refused as error:
                if _is_about_schema(error) and optional.keys() & {"tools", "output_config"}:
                    refused.add(_written(schema))
                    continue
                field = next((name for name in _OPTIONAL if name in optional and error.blames(name)), None)
                if field is None:
                    raise
                refused.add(field)
            else:
                self._refused |= refused  # only now: what fails without a field, too, was not about the field
                return self._completion(data, time.monotonic() - started, cuts)

    def _completion(self, data: bytes, seconds: float, cuts: Sequence[str]) -> Completion:
        try:
            reply = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._endpoint.no_reply(error) from None
        called = next((block.input for block in reply.content if block.type == "tool_use"), None)
        if called is not None:
            text = msgspec.json.encode(called).decode()
        else:
            text = "".join(block.text for block in reply.content if block.type == "text")
        finish = _FINISHES.get(reply.stop_reason or "", reply.stop_reason or "")
        for cut in cuts:
            text, found, _ = text.partition(cut)
            finish = "stop" if found else finish
        return Completion(text, self._usage(reply.usage or _Used()), seconds, finish)

    def _usage(self, used: _Used) -> Usage:
        cached, stored = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
        prompt = used.input_tokens + cached + stored
        dollars = self._endpoint.dollars(prompt, used.output_tokens, cached=cached, stored=stored)
        return Usage(1, prompt, used.output_tokens, dollars, cached)


def _optional(schema: dict[str, Any] | None, temperature: float, refused: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"temperature": temperature, "thinking": {"type": "disabled"}}
    is_sent = schema is not None and _written(schema) not in refused
    if is_sent and "tool_choice" not in refused:
        fields["tools"] = [{"name": "value", "input_schema": schema}]
        fields["tool_choice"] = {"type": "tool", "name": "value"}
    elif is_sent:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return {name: value for name, value in fields.items() if name not in refused}


def _is_about_schema(error: Refused) -> bool:
    return error.blames("input_schema") or (error.blames("output_config") and "schema" in error.said)


def _written(schema: dict[str, Any] | None) -> str:
    return msgspec.json.encode(schema, order="sorted").decode()


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """Each part a block; marked where what comes before is likely to come again."""
    parts = [message for message in messages if message.content]  # empty blocks are refused
    system = [_block(part) for part in parts if part.role == "system"]
    spoken = itertools.groupby((part for part in parts if part.role != "system"), key=lambda part: part.role)
    turns = [{"role": role, "content": [_block(part) for part in group]} for role, group in spoken]
    last = turns[-1]["content"] if turns else []
    for blocks, place in ((system, -1), (last, -2)):
        if len(blocks) >= -place:
            blocks[place].update(_AGAIN)
    return {"messages": turns, **({"system": system} if system else {})}


def _block(part: Message) -> dict[str, Any]:
    return {"type": "text", "text": part.content}
