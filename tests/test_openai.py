"""OpenAI's protocol with a real llama.cpp server, and with misbehaving ones: no request hangs, and no key leaks."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from endpoint import cut, drip, endless, serving

from chainofcode import Message, Usage
from chainofcode.errors import BudgetError, LMError
from chainofcode.lm.local import LocalLM
from chainofcode.lm.openai import OpenAILM
from chainofcode.lm.wrappers import Budgeted, Retried

pytest.importorskip("openai", reason="the extra `openai` is not installed")
KEY = "sk-very-secret-0123456789"
ASK = [Message("system", "You are brief."), Message("user", "Is a fig a fruit?")]
PROMPT_TOKENS = sum(len(message.content) for message in ASK) // 4  # as the client estimates them
GOOD = {
    "choices": [{"message": {"role": "assistant", "content": "true"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}},
}


@pytest.fixture
def endpoint() -> Iterator[Any]:
    with serving(GOOD) as kind:
        kind.url += "/v1"
        yield kind


def lm(endpoint: Any, **options: Any) -> OpenAILM:
    return OpenAILM("some-model", base_url=endpoint.url, api_key=KEY, **options)


def ask(model: Any, **options: Any) -> Any:
    return asyncio.run(model.complete(ASK, **options))


def test_a_real_server(small_model: str) -> None:
    with LocalLM(small_model) as local:
        asyncio.run(local.complete(ASK, max_tokens=1))
        server = local._server
        assert server is not None
        remote = OpenAILM("any", base_url=f"http://127.0.0.1:{server._port}/v1", api_key=server._key)
        (reply,) = ask(remote, schema={"type": "boolean"}, max_tokens=10)
        assert json.loads(reply.text) in (True, False)
        assert reply.usage.prompt_tokens > 10
        assert reply.usage.dollars is None  # an unknown price is not 0
        (cut,) = ask(remote, max_tokens=3)
        assert cut.finish_reason == "length"
        with pytest.raises(LMError, match="rejects the key"):
            ask(OpenAILM("any", base_url=f"http://127.0.0.1:{server._port}/v1", api_key="wrong"))


def test_request_and_reply(endpoint: Any) -> None:
    (reply,) = ask(lm(endpoint), schema={"type": "boolean"}, stop=["\n"], seed=7, max_tokens=50, temperature=0.5)
    assert (reply.text, reply.finish_reason) == ("true", "stop")
    assert reply.usage == Usage(1, 12, 3, None, 8)
    headers, body = endpoint.seen[0]
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body["messages"] == [{"role": message.role, "content": message.content} for message in ASK]
    assert (body["max_tokens"], body["stop"], body["seed"], body["temperature"]) == (50, ["\n"], 7, 0.5)
    assert body["response_format"]["json_schema"]["schema"] == {"type": "boolean"}


def test_consecutive_messages_of_a_role_are_joined(endpoint: Any) -> None:
    parts = [("system", "a"), ("system", "b"), ("user", "c"), ("assistant", "d"), ("user", "e"), ("user", "f")]
    asyncio.run(lm(endpoint).complete([Message(role, text) for role, text in parts]))  # type: ignore[arg-type]
    assert [(turn["role"], turn["content"]) for turn in endpoint.seen[0][1]["messages"]] == [
        ("system", "a\n\nb"), ("user", "c"), ("assistant", "d"), ("user", "e\n\nf"),
    ]  # fmt: skip


def test_schema_is_omitted_if_the_endpoint_rejects_it(endpoint: Any) -> None:
    endpoint.script[:] = [lambda e: e.reply(400, b'{"error": {"message": "response_format is not supported"}}'), GOOD]
    model = lm(endpoint)
    assert ask(model, schema={"type": "boolean"})[0].text == "true"
    assert ask(model, schema={"type": "boolean"})[0].text == "true"
    assert ["response_format" in body for _, body in endpoint.seen] == [True, False, False]


def test_temperature_is_omitted_if_the_model_rejects_it(endpoint: Any) -> None:
    error = b'{"error": {"message": "Unsupported value: \'temperature\' does not support 0.0 with this model."}}'
    endpoint.script[:] = [lambda e: e.reply(400, error), GOOD]
    model = lm(endpoint)
    assert [ask(model, schema={"type": "boolean"})[0].text for _ in range(2)] == ["true", "true"]
    assert ["temperature" in body for _, body in endpoint.seen] == [True, False, False]
    assert all("response_format" in body for _, body in endpoint.seen)


@pytest.mark.parametrize(
    ("error", "temperatures", "schemas"),
    [
        ({"message": "no", "param": "temperature"}, [True, False, False], [True, True, True]),
        ({"message": "`temperature` is deprecated"}, [True, False, False], [True, True, True]),
        ({"message": "Unknown parameter: 'temperature'"}, [True, False, False], [True, True, True]),
        ({"message": "'response_format' is not supported", "param": "response_format"}, [True] * 3, [True, False, False]),
        # If one schema is rejected, another may be accepted.
        ({"message": "Invalid schema for response_format 'value'", "param": "response_format"}, [True] * 3, [True, False, True]),
        ({"message": "failed to parse grammar"}, [True] * 3, [True, False, True]),
        # A word in prose is not the name of a field.
        ({"message": "the oven's temperature is high; this is not supported"}, [True] * 3, [True, False, True]),
    ],
)  # fmt: skip
def test_rejected_fields_are_omitted_from_later_requests(
    endpoint: Any, error: dict[str, str], temperatures: list[bool], schemas: list[bool]
) -> None:
    endpoint.script[:] = [lambda e: e.reply(400, json.dumps({"error": error}).encode()), GOOD]
    model = lm(endpoint)
    assert ask(model, schema={"type": "boolean"})[0].text == "true"
    assert ask(model, schema={"type": "string"})[0].text == "true"
    assert ["temperature" in body for _, body in endpoint.seen] == temperatures
    assert ["response_format" in body for _, body in endpoint.seen] == schemas


@pytest.mark.parametrize(
    "error", [{"message": "too long for temperature"}, {"message": "too long", "param": "messages"}]
)
def test_unrelated_errors_do_not_disable_fields(endpoint: Any, error: dict[str, str]) -> None:
    bad = json.dumps({"error": error}).encode()
    tries = 1 if "param" in error else 2
    endpoint.script[:] = [*[lambda e: e.reply(400, bad)] * tries, GOOD]
    model = lm(endpoint)
    with pytest.raises(LMError, match="too long"):
        ask(model, schema={"type": "boolean"})
    assert len(endpoint.seen) == tries
    assert ask(model, schema={"type": "boolean"})[0].text == "true"
    assert {"temperature", "response_format"} <= endpoint.seen[-1][1].keys()


def test_rejected_schema_is_remembered(endpoint: Any) -> None:
    endpoint.script[:] = [lambda e: e.reply(400, b'{"error": {"message": "bad grammar"}}'), GOOD]
    model = lm(endpoint)
    for _ in range(2):
        ask(model, schema={"type": "boolean"})
    assert ["response_format" in body for _, body in endpoint.seen] == [True, False, False]


def test_credentials_in_the_url_are_not_in_errors(endpoint: Any) -> None:
    url = endpoint.url.replace("http://", "http://someone:hunter2-hunter2@")
    for status, words in (
        (401, "rejects the key"),
        (404, "model 'm' not found"),
        (503, "returned HTTP 503: down, [key]"),
    ):
        endpoint.script[:] = [lambda e, status=status: e.reply(status, b"down, hunter2-hunter2")]
        with pytest.raises(LMError) as caught:
            ask(OpenAILM("m", base_url=url, api_key=KEY))
        assert words in str(caught.value)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(LMError, match=r"^http://127\.0\.0\.1:9/v1 cannot be reached"):
        ask(OpenAILM("m", base_url="http://someone:hunter2@127.0.0.1:9/v1", api_key=KEY))


@pytest.mark.parametrize("key", ["ollama", "k", "sk"])
def test_placeholder_keys_are_not_redacted(endpoint: Any, key: str) -> None:
    message = "run ollama serve: 8192 tokens asked for, task skipped"
    endpoint.script[:] = [lambda e: e.reply(503, message.encode())]
    with pytest.raises(LMError, match=message):
        ask(OpenAILM("m", base_url=endpoint.url, api_key=key))


def test_requests_to_busy_endpoints_are_retried(endpoint: Any) -> None:
    endpoint.script[:] = [
        lambda e: e.reply(429, b'{"error": {"message": "slow down"}}', Retry_After="0.4"),
        lambda e: e.reply(500, b"oops"),
        GOOD,
    ]
    started = time.monotonic()
    assert ask(Retried(lm(endpoint), first_pause_seconds=0.01))[0].text == "true"
    assert time.monotonic() - started >= 0.4
    assert len(endpoint.seen) == 3


def test_compressed_reply_is_read(endpoint: Any) -> None:
    endpoint.script[:] = [lambda e: e.reply(200, gzip.compress(json.dumps(GOOD).encode()), Content_Encoding="gzip")]
    assert ask(lm(endpoint))[0].text == "true"
    assert endpoint.seen[0][0]["accept-encoding"] == "gzip, deflate"


def test_surplus_replies_are_dropped(endpoint: Any) -> None:
    """Each reply is recorded with its prompt, so that a response with many replies could fill the disk."""
    endpoint.script[:] = [{"choices": GOOD["choices"] * 1000, "usage": GOOD["usage"]}]
    assert len(ask(lm(endpoint))) == 1
    assert len(ask(lm(endpoint), n=3)) == 3


def test_impossible_token_counts_are_clamped(endpoint: Any) -> None:
    usage = {"prompt_tokens": -10, "completion_tokens": 10**30, "prompt_tokens_details": {"cached_tokens": 10**30}}
    endpoint.script[:] = [{**GOOD, "usage": usage}]
    used = ask(OpenAILM("gpt-4o-mini", base_url=endpoint.url, api_key=KEY))[0].usage
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (PROMPT_TOKENS, 10**9, PROMPT_TOKENS)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, PROMPT_TOKENS),
        ("much", PROMPT_TOKENS),
        ([1], PROMPT_TOKENS),
        (True, PROMPT_TOKENS),
        ({}, PROMPT_TOKENS),
        ({"prompt_tokens": None}, PROMPT_TOKENS),
        ({"prompt_tokens": "12"}, PROMPT_TOKENS),
        ({"prompt_tokens": 0, "completion_tokens": 0}, PROMPT_TOKENS),
        ({"prompt_tokens": -5, "completion_tokens": [3]}, PROMPT_TOKENS),
        ({"prompt_tokens": 1e308}, 10**9),
    ],
)
def test_reply_with_malformed_counts_is_not_retried(endpoint: Any, usage: Any, tokens: int) -> None:
    """The reply was paid for; its tokens are estimated."""
    endpoint.script[:] = [{**GOOD, "usage": usage}]
    reply = ask(Retried(lm(endpoint)))[0]
    assert reply.text == "true"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (tokens, 1)
    assert len(endpoint.seen) == 1


def test_budget_applies_if_no_usage_is_reported(endpoint: Any) -> None:
    endpoint.script[:] = [{"choices": GOOD["choices"]}]
    model = Budgeted(lm(endpoint), tokens=3 * PROMPT_TOKENS)
    for _ in range(3):
        ask(model)
    with pytest.raises(BudgetError, match="tokens is spent"):
        ask(model)
    assert len(endpoint.seen) == 3


@pytest.mark.parametrize(
    ("act", "words", "is_transient"),
    [
        (cut, "the request to openai:some-model failed", True),
        (drip, "took over 1 s", True),
        (lambda e: e.reply(200, b"this is no JSON"), "malformed reply", True),
        (lambda e: e.reply(200, b'{"choices": "none"}'), "malformed reply", True),
        (lambda e: e.reply(200, b'{"choices": []}'), "without choices", True),
        (lambda e: e.reply(200, b'{"choices": [{"message": {"content": 5}}]}'), "malformed reply", True),
        (lambda e: e.reply(200, b'[' * 100_000), "malformed reply", True),
        (lambda e: e.reply(200, b'{"choices": [{"message": {"content": "\xff"}}]}'), "malformed reply", True),
        (lambda e: e.reply(400, b'{"error": {"message": "\xff"}}'), "rejects the request with HTTP 400", False),
        (lambda e: e.reply(200, b'"' + b"x" * 11_000_000 + b'"'), "over 10,000,000 bytes", False),
        (lambda e: e.reply(401, json.dumps({"error": {"message": f"wrong key {KEY}"}}).encode()), "OPENAI_API_KEY", False),
        (lambda e: e.reply(404, b'{"error": {"message": "no such model"}}'), "model 'some-model' not found", False),
        (lambda e: e.reply(400, b'{"error": {"message": "too long"}}'), "rejects the request with HTTP 400", False),
        (lambda e: e.reply(503, f"down, {KEY}".encode()), "returned HTTP 503", True),
        (endless, "returned HTTP 500", True),
        (lambda e: e.reply(200, gzip.compress(gzip.compress(b"{}")), Content_Encoding="gzip, gzip"), "'gzip, gzip'", False),
        (lambda e: e.reply(302, b"", Location="http://127.0.0.1:9/"), "redirects requests", False),
    ],
    ids=["cut", "drip", "no JSON", "no list", "nothing", "no text", "deep", "no UTF-8", "no UTF-8 in an error", "huge", "key", "model", "request", "down", "endless", "compressed twice", "elsewhere"],
)  # fmt: skip
def test_misbehaving_endpoint_is_an_error_without_the_key(
    endpoint: Any, act: Any, words: str, is_transient: bool
) -> None:
    endpoint.script[:] = [act]
    started = time.monotonic()
    with pytest.raises(LMError) as caught:
        ask(lm(endpoint, request_seconds=1 if act is drip else 20))
    assert time.monotonic() - started < 15
    assert words in str(caught.value)
    assert caught.value.is_transient == is_transient
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value.__context__)


def test_unreachable_endpoint() -> None:
    with pytest.raises(LMError, match="cannot be reached") as caught:
        ask(OpenAILM("m", base_url="http://127.0.0.1:9/v1", api_key=KEY))
    assert caught.value.is_transient


def test_settings_from_the_environment(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert ask(OpenAILM("m"))[0].text == "true"
    assert endpoint.seen[0][0]["authorization"] == f"Bearer {KEY}"


def test_known_prices(endpoint: Any) -> None:
    known = OpenAILM("gpt-4o-mini", api_key=KEY)
    assert known.dollars(1000, 100) == pytest.approx(0.00021)
    assert known.dollars(1000, 100, cached=800) == pytest.approx(0.00015)  # cached tokens cost half
    assert known.dollars(10, 10, cached=2000) is None  # more cached tokens than tokens
    assert lm(endpoint).dollars(1000, 100) is None
