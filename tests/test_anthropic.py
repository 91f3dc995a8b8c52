"""Anthropic's protocol, with a correct server and with ones that misbehave: nothing hangs and no key leaks."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import cut, drip, endless, serving

from chainofcode import Message, Usage
from chainofcode.emulator.image_arguments import MAX_IMAGE_BYTES
from chainofcode.errors import LMError
from chainofcode.lm import Image
from chainofcode.lm.anthropic import AnthropicLM
from chainofcode.lm.wrappers import Retried

pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
KEY = "sk-ant-very-secret-0123456789"
ASK = [Message("system", "You are brief."), Message("user", "Is a fig a fruit?")]
SCHEMA = {"type": "object", "properties": {"value": {"type": "boolean"}}, "required": ["value"]}
USED = {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 100}
GOOD = {"content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn", "usage": USED}
CALLED = {
    "content": [{"type": "tool_use", "id": "t1", "name": "value", "input": {"value": True}}],
    "stop_reason": "tool_use",
    "usage": USED,
}
AGAIN = {"type": "ephemeral"}


@pytest.fixture
def endpoint() -> Iterator[Any]:
    with serving(GOOD) as kind:
        yield kind


def lm(endpoint: Any, **options: Any) -> AnthropicLM:
    return AnthropicLM("some-model", base_url=endpoint.url, api_key=KEY, **options)


def ask(model: Any, messages: Any = ASK, **options: Any) -> Any:
    return asyncio.run(model.complete(messages, **options))


def refusal(text: str) -> Any:
    return lambda e: e.reply(400, json.dumps({"type": "error", "error": {"message": text}}).encode())


def keys(headers: dict[str, str]) -> set[str]:
    """Older versions of the package send the key in `x-api-key`, newer ones as a bearer token."""
    sent = (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))
    return {key for key in sent if key}


def test_a_reply_with_malformed_counts(endpoint: Any) -> None:
    endpoint.script[:] = [{**GOOD, "usage": one} for one in ("much", {"input_tokens": "12", "output_tokens": 1e308})]
    model = lm(endpoint)
    prompt = sum(len(message.content) for message in ASK) // 4  # the estimate without counts
    assert [ask(model)[0].usage for _ in range(2)] == [Usage(1, prompt, 1, None), Usage(1, prompt, 10**9, None)]


def test_request_and_reply(endpoint: Any) -> None:
    (reply,) = ask(lm(endpoint), stop=["END", "\n"], seed=7, max_tokens=50, temperature=0.5)
    assert (reply.text, reply.finish_reason) == ("Yes.", "stop")
    assert reply.usage == Usage(1, 912, 3, None, 800)
    headers, body = endpoint.seen[0]
    assert keys(headers) == {KEY}
    assert body["system"] == [{"type": "text", "text": "You are brief."}]  # too short to cache
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Is a fig a fruit?"}]}]
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (50, 0.5, ["END"])
    assert body["thinking"] == {"type": "disabled"}
    assert "tools" not in body


def test_repeated_parts_are_marked_for_caching(endpoint: Any) -> None:
    parts = [
        ("system", "rules"), ("system", "examples " * 500), ("user", "first"), ("user", "more"), ("assistant", "reply"),
        ("user", "program"), ("user", "earlier calls"), ("user", ""), ("user", "this call"),
    ]  # fmt: skip
    ask(lm(endpoint), [Message(role, text) for role, text in parts])  # type: ignore[arg-type]
    body = endpoint.seen[0][1]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    blocks = body["system"] + [block for turn in body["messages"] for block in turn["content"]]
    assert [block["text"] for block in blocks] == [text for _, text in parts if text]  # the API refuses empty blocks
    assert [block["text"] for block in blocks if "cache_control" in block] == ["examples " * 500, "earlier calls"]
    assert all(block.get("cache_control", AGAIN) == AGAIN for block in blocks)


def test_images_come_before_the_text_about_them(endpoint: Any) -> None:
    """As the documentation of vision recommends (November 2026); the cached part still ends before the images."""
    images = (Image(b"GIF89a", "image/gif"), Image(b"\xff\xd8\xff", "image/jpeg"))
    ask(lm(endpoint), [Message("user", "program " * 500), Message("user", "this call", images=images)])
    (turn,) = endpoint.seen[0][1]["messages"]
    assert turn["content"] == [
        {"type": "text", "text": "program " * 500, "cache_control": AGAIN},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
        {"type": "text", "text": "this call"},
    ]


def test_the_largest_image_is_within_the_limit(endpoint: Any) -> None:
    """5 MB for each image (documentation of vision, November 2026), counted in base64."""
    image = Image(b"\xff\xd8\xff" + bytes(MAX_IMAGE_BYTES - 3), "image/jpeg")
    ask(lm(endpoint), [Message("user", "this call", images=(image,))])
    sent = endpoint.seen[0][1]["messages"][0]["content"][0]["source"]["data"]
    assert 4_900_000 < len(sent) <= 5_000_000


def test_schema_is_sent_as_forced_tool(endpoint: Any) -> None:
    endpoint.script[:] = [CALLED]
    (reply,) = ask(lm(endpoint), schema=SCHEMA, stop=["\n"])
    assert json.loads(reply.text) == {"value": True}
    assert reply.finish_reason == "stop"
    body = endpoint.seen[0][1]
    assert body["tools"] == [{"name": "value", "input_schema": SCHEMA}]
    assert body["tool_choice"] == {"type": "tool", "name": "value"}
    assert "stop_sequences" not in body


def test_rejected_options_are_not_sent_again(endpoint: Any) -> None:
    endpoint.script[:] = [
        refusal("`temperature` is deprecated for this model."),
        refusal("thinking.type: disabled is not supported for this model."),
        refusal('tool_choice: type "tool" and "any" are not supported for this model.'),
        {**GOOD, "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": '{"value":true}'}]},
    ]
    model = lm(endpoint)
    assert [ask(model, schema=SCHEMA)[0].text for _ in range(2)] == ['{"value":true}'] * 2
    bodies = [body for _, body in endpoint.seen]
    assert ["temperature" in body for body in bodies] == [True, False, False, False, False]
    assert ["thinking" in body for body in bodies] == [True, True, False, False, False]
    assert ["tool_choice" in body for body in bodies] == ["tools" in body for body in bodies]
    assert ["tools" in body for body in bodies] == [True, True, True, False, False]
    assert bodies[-1]["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert bodies[0]["max_tokens"] == 1024 < bodies[-1]["max_tokens"]  # thinking is counted with the reply


@pytest.mark.parametrize(
    "message",
    [
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        "tools.0.input_schema.type: Field required",
    ],
)
def test_rejected_schema_is_left_out(endpoint: Any, message: str) -> None:
    endpoint.script[:] = [refusal(message), GOOD, GOOD, CALLED]
    model = lm(endpoint)
    assert [ask(model, schema=SCHEMA)[0].text for _ in range(2)] == ["Yes.", "Yes."]
    ask(model, schema={"type": "object"})
    assert ["tools" in body for _, body in endpoint.seen] == [True, False, False, True]
    assert not any("output_config" in body for _, body in endpoint.seen)


def test_other_errors_disable_no_options(endpoint: Any) -> None:
    words = "messages.0: the text on temperature and thinking is not supported"
    endpoint.script[:] = [refusal(words), refusal("tool_choice: no"), refusal("prompt is too long"), CALLED]
    model = lm(endpoint)
    with pytest.raises(LMError, match="the text on temperature"):
        ask(model, schema=SCHEMA)
    with pytest.raises(LMError, match="too long"):
        ask(model, schema=SCHEMA)
    ask(model, schema=SCHEMA)
    assert {"temperature", "thinking", "tools", "tool_choice"} <= endpoint.seen[-1][1].keys()


def test_stop_sequences_that_the_api_rejects_are_applied_locally(endpoint: Any) -> None:
    long = [{"type": "text", "text": "one\ntwo"}]
    endpoint.script[:] = [{**GOOD, "content": long, "stop_reason": "max_tokens"}]
    (reply,) = ask(lm(endpoint), stop=["\n"])
    assert (reply.text, reply.finish_reason) == ("one", "stop")
    (reply,) = ask(lm(endpoint))
    assert (reply.text, reply.finish_reason) == ("one\ntwo", "length")


@pytest.mark.parametrize(
    ("model", "least"),
    [("claude-opus-5", 512), ("claude-sonnet-5", 1024), ("claude-haiku-4-5-20251001", 4096), ("claude-opus-4-6", 4096)],
)
def test_cache_marks_are_sent_from_minimum_of_model(endpoint: Any, model: str, least: int) -> None:
    """Below the minimum, the API ignores a mark (documentation as of October 2026)."""
    for tokens, marks in ((least // 2, 0), (least, 1), (2 * least, 1)):
        endpoint.seen.clear()
        system = Message("system", "word" * tokens)
        ask(AnthropicLM(model, base_url=endpoint.url, api_key=KEY), [system, Message("user", "this call")])
        blocks = endpoint.seen[0][1]["system"]
        assert sum("cache_control" in block for block in blocks) == marks, (model, tokens)


def test_first_reply_writes_cache_before_other_requests(endpoint: Any) -> None:
    seen_at_reply: list[int] = []  # the number of requests received when each was answered

    def act(e: Any) -> None:
        time.sleep(0.2)
        seen_at_reply.append(len(endpoint.seen))
        e.reply(200, json.dumps(GOOD).encode())

    endpoint.script[:] = [act]
    assert len(ask(lm(endpoint), n=4)) == 4
    assert seen_at_reply[0] == 1
    assert seen_at_reply[-1] == 4


def test_several_replies_are_several_requests(endpoint: Any) -> None:
    replies = ask(lm(endpoint), n=3)
    assert len(replies) == len(endpoint.seen) == 3
    assert sum((reply.usage for reply in replies), Usage()).requests == 3


def test_busy_endpoints_are_retried(endpoint: Any) -> None:
    endpoint.script[:] = [
        lambda e: e.reply(429, b'{"error": {"message": "slow down"}}', Retry_After="0.4"),
        lambda e: e.reply(500, b"oops"),
        lambda e: e.reply(529, b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'),
        GOOD,
    ]
    started = time.monotonic()
    assert ask(Retried(lm(endpoint), first_pause_seconds=0.01))[0].text == "Yes."
    assert time.monotonic() - started >= 0.4
    assert len(endpoint.seen) == 4


@pytest.mark.parametrize(
    ("act", "words", "is_transient"),
    [
        (cut, "the request to anthropic:some-model failed", True),
        (drip, "took over 1 s", True),
        (endless, "returned HTTP 500", True),
        (lambda e: e.reply(200, b"this is no JSON"), "malformed reply", True),
        (lambda e: e.reply(200, b'{"content": "none"}'), "malformed reply", True),
        (lambda e: e.reply(200, b'{"content": [{"type": "text", "text": 5}]}'), "malformed reply", True),
        (lambda e: e.reply(200, b'{"content": [{"type": "tool_use", "input": [1]}]}'), "malformed reply", True),
        (lambda e: e.reply(200, b'{"type": "error"}'), "malformed reply", True),
        (lambda e: e.reply(200, b'[' * 100_000), "malformed reply", True),
        (lambda e: e.reply(200, b'"' + b"x" * 11_000_000 + b'"'), "over 10,000,000 bytes", False),
        (lambda e: e.reply(401, json.dumps({"error": {"message": f"wrong key {KEY}"}}).encode()), "ANTHROPIC_API_KEY", False),
        (lambda e: e.reply(403, b"not you"), "rejects the key", False),
        (lambda e: e.reply(404, b'{"error": {"message": "model: some-model"}}'), "model 'some-model' not found", False),
        (refusal("prompt is too long"), "rejects the request with HTTP 400: prompt is too long", False),
        (lambda e: e.reply(529, b'{"error": {"message": "Overloaded"}}'), "returned HTTP 529: Overloaded", True),
        (lambda e: e.reply(503, f"down, {KEY}".encode()), "returned HTTP 503: down, [key]", True),
        (lambda e: e.reply(307, b"", Location=f"{e.url}/v1/messages"), "redirects requests", False),
    ],
    ids=["cut", "drip", "endless", "no JSON", "no list", "no text", "no input", "no content", "deep", "huge", "key",
         "forbidden", "model", "request", "overloaded", "down", "elsewhere"],
)  # fmt: skip
def test_misbehaving_endpoint_is_an_error_without_the_key(
    endpoint: Any, act: Any, words: str, is_transient: bool
) -> None:
    endpoint.script[:] = [act]
    model = lm(endpoint, request_seconds=1 if act is drip else 20)
    started = time.monotonic()
    with pytest.raises(LMError) as caught:
        ask(model)
    assert time.monotonic() - started < 15
    assert words in str(caught.value)
    assert caught.value.is_transient == is_transient
    text = "".join(traceback.format_exception(caught.value))
    assert KEY not in text + repr(caught.value) + repr(caught.value.__context__) + repr(model)
    assert len(endpoint.seen) == 1


def test_error_has_retry_after_of_endpoint(endpoint: Any) -> None:
    endpoint.script[:] = [lambda e: e.reply(429, b"{}", Retry_After="7")]
    with pytest.raises(LMError) as caught:
        ask(lm(endpoint))
    assert (caught.value.is_transient, caught.value.retry_seconds) == (True, 7.0)


def test_unreachable_endpoint() -> None:
    with pytest.raises(LMError, match="cannot be reached") as caught:
        ask(AnthropicLM("m", base_url="http://127.0.0.1:9", api_key=KEY))
    assert caught.value.is_transient


def test_settings_from_environment(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another secret")
    assert ask(AnthropicLM("m"))[0].text == "Yes."
    assert keys(endpoint.seen[0][0]) == {KEY}


def test_known_prices(endpoint: Any) -> None:
    known = AnthropicLM("claude-haiku-4-5", base_url="https://api.anthropic.com", api_key=KEY)
    assert known.dollars(1000, 100) == pytest.approx(0.0015)
    assert known.dollars(1000, 100, cached=800) == pytest.approx(0.00078)
    assert known.dollars(1000, 100, stored=800) == pytest.approx(0.0017)
    assert lm(endpoint).dollars(1000, 100) is None


def test_missing_package_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "anthropic.py").write_text("raise ModuleNotFoundError('not here', name='anthropic')")
    code = (
        f"import asyncio, sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom chainofcode import Message\n"
        "from chainofcode.lm.anthropic import AnthropicLM\n"
        "try:\n    asyncio.run(AnthropicLM('m').complete([Message('user', 'hello')]))\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == (
        "LMError anthropic:m needs the extra `anthropic` (the package anthropic is missing): "
        "pip install 'chainofcode[anthropic]'\n"
    )
