"""Streamed replies: the text grows as it arrives, and the result equals the reply without streaming."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endpoint import serving

from chainofcode import Message
from chainofcode.errors import LMError
from chainofcode.lm.local import LocalLM
from chainofcode.lm.reply_stream import ChatStream, MessageStream, ReplyStream
from chainofcode.lm.scripted import ScriptedLM, When
from chainofcode.lm.wrappers import Cached, Limited, Retried

KEY = "sk-very-secret-0123456789"
ASK = [Message("user", "Is a fig a fruit?")]
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
CHUNKS = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "a = "}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "1 🍐"}, "finish_reason": None}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USAGE},
]
PLAIN = {"choices": [{"message": {"content": "a = 1 🍐"}, "finish_reason": "stop"}], "usage": USAGE}
MESSAGES = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 12, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a = "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "1 🍐"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
MESSAGE = {
    "content": [{"type": "text", "text": "a = 1 🍐"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 12, "output_tokens": 3},
}


def events(*data: Any, end: bytes = b"") -> Any:
    body = b"".join(b"data: %s\n\n" % json.dumps(one, ensure_ascii=False).encode() for one in data) + end
    return lambda endpoint: endpoint.reply(200, body, **{"Content-Type": "text/event-stream"})


def ask_streaming(lm: Any, **options: Any) -> tuple[Any, list[str]]:
    seen: list[str] = []
    (reply,) = asyncio.run(lm.complete(ASK, on_text=seen.append, **options))
    return reply, seen


@pytest.mark.parametrize(
    ("vendor", "streamed", "whole"),
    [("openai", events(*CHUNKS, end=b"data: [DONE]\n\n"), PLAIN), ("anthropic", events(*MESSAGES), MESSAGE)],
)
def test_streamed_reply_equals_plain_reply(vendor: str, streamed: Any, whole: Any) -> None:
    module = pytest.importorskip(f"chainofcode.lm.{vendor}")
    pytest.importorskip(vendor, reason=f"the extra `{vendor}` is not installed")
    kind = {"openai": "OpenAILM", "anthropic": "AnthropicLM"}[vendor]
    with serving(streamed, whole, whole) as endpoint:
        lm = getattr(module, kind)("m", base_url=endpoint.url, api_key="k")
        reply, seen = ask_streaming(lm)
        plain, unseen = ask_streaming(lm)  # an endpoint that does not stream
        (without,) = asyncio.run(lm.complete(ASK))
    assert seen == ["a = ", "a = 1 🍐"] and unseen == []
    for other in (plain, without):
        assert (reply.text, reply.usage, reply.finish_reason) == (other.text, other.usage, other.finish_reason)
    assert [body.get("stream", False) for _, body in endpoint.seen] == [True, True, False]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (events(*CHUNKS[:2]), "ended in the middle"),
        (events(CHUNKS[1], {"error": {"message": "out of memory"}}), "out of memory"),
        (events({"choices": 7}), "malformed event"),
    ],
)
def test_a_broken_stream_is_retried(act: Any, words: str) -> None:
    openai = pytest.importorskip("chainofcode.lm.openai")
    pytest.importorskip("openai", reason="the extra `openai` is not installed")
    with serving(act, events(*CHUNKS)) as endpoint:
        lm = openai.OpenAILM("m", base_url=endpoint.url, api_key="k")
        with pytest.raises(LMError, match=words) as caught:
            ask_streaming(lm)
        assert caught.value.is_transient
        endpoint.script.insert(0, act)
        reply, seen = ask_streaming(Retried(lm, first_pause_seconds=0.01))
    assert reply.text == seen[-1] == "a = 1 🍐"


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("text", [f"bad key {KEY}", f"{'.' * 290} {KEY}"])
def test_an_error_in_a_stream_does_not_show_the_key(vendor: str, text: str) -> None:
    module = pytest.importorskip(f"chainofcode.lm.{vendor}")
    pytest.importorskip(vendor, reason=f"the extra `{vendor}` is not installed")
    kind = {"openai": "OpenAILM", "anthropic": "AnthropicLM"}[vendor]
    with serving(events({"error": {"message": text}})) as endpoint:
        lm = getattr(module, kind)("m", base_url=endpoint.url, api_key=KEY)
        with pytest.raises(LMError, match=r"\[key\]") as caught:
            ask_streaming(lm)
    assert KEY[:6] not in str(caught.value)


def test_endpoint_that_refuses_streams_gets_plain_requests() -> None:
    openai = pytest.importorskip("chainofcode.lm.openai")
    pytest.importorskip("openai", reason="the extra `openai` is not installed")
    refusal = json.dumps({"error": {"message": "'stream' is not supported", "param": "stream"}}).encode()
    with serving(lambda e: e.reply(400, refusal), PLAIN) as endpoint:
        lm = openai.OpenAILM("m", base_url=endpoint.url, api_key="k")
        reply, seen = ask_streaming(lm)
        ask_streaming(lm)
    assert reply.text == "a = 1 🍐" and seen == []
    assert ["stream" in body for _, body in endpoint.seen] == [True, False, False]
    assert not any("stream_options" in body for _, body in endpoint.seen[1:])


def test_stream_may_be_split_at_any_byte() -> None:
    body = b"".join(b"data: %s\r\n\r\n" % json.dumps(one, ensure_ascii=False).encode() for one in CHUNKS)
    for size in (1, 3, 7):
        seen: list[str] = []
        stream = ChatStream(seen.append)
        for place in range(0, len(body), size):
            stream.feed(body[place : place + size])
        assert json.loads(stream.body())["choices"][0]["message"]["content"] == seen[-1] == "a = 1 🍐"


def test_wrappers_stream_and_cached_replies_do_not(tmp_path: Path) -> None:
    def scripted(reply: str) -> ScriptedLM:
        return ScriptedLM([], whens=[When("fig", reply)])

    lm = Cached(Limited(Retried(scripted("0123456789"))), tmp_path / "replies")
    assert lm.has_stream
    first, seen = ask_streaming(lm)
    assert seen[-1] == first.text == "0123456789" and len(seen) == 8
    again, unseen = ask_streaming(lm)
    (plain,) = asyncio.run(lm.complete(ASK))
    assert again.is_cached and plain.is_cached and unseen == []
    lm.close()


def test_local_model_streams(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        texts: list[Sequence[str]] = []
        asyncio.run(lm.prepare())
        assert lm._server is not None
        for _ in range(2):
            reply, seen = ask_streaming(lm, max_tokens=12)
            assert seen[-1] == reply.text and len(seen) > 3
            assert all(later.startswith(before) for before, later in itertools.pairwise(seen))
            assert reply.usage.prompt_tokens > 5 and 0 < reply.usage.completion_tokens <= 12
            texts.append(seen)
        (plain,) = asyncio.run(lm.complete(ASK, max_tokens=12))
        assert plain.text == texts[0][-1] == texts[1][-1]


@pytest.mark.parametrize("usage", ["much", [1], None, 7])
def test_malformed_token_counts_leave_a_reply_valid(usage: Any) -> None:
    events = {
        ChatStream: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]},
        MessageStream: {"delta": {"text": "x", "stop_reason": "end_turn"}},
    }
    for kind, event in events.items():
        stream: ReplyStream = kind(lambda text: None)
        stream.feed(f"data: {json.dumps({**event, 'usage': usage})}\n".encode())
        assert b'"x"' in stream.body()
