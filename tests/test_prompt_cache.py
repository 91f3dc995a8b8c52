"""The cost of values at endpoints that cache prefixes above a minimum length: stand-ins count tokens by their rules.

The rules, as of November 2026, are from OpenAI's guides to prompt caching and structured outputs (the schema is part of
the prefix) and Anthropic's guides to prompt caching and tool use (tools come first). A token is four characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
from endpoint import serving

from chainofcode import LM, Message, Usage, run
from chainofcode.emulator.model import fixed_part, instructions_digest
from chainofcode.lm import connect
from chainofcode.lm.anthropic import AnthropicLM
from chainofcode.lm.dialects import GEMINI, OPENAI
from chainofcode.lm.openai import OpenAILM
from chainofcode.lm.scripted import ScriptedLM

pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
pytest.importorskip("genai_prices")
CALLS = 12
PROGRAMS = [
    f"answer = [{name}(number) for number in range({CALLS // 2})]\nok: list[bool] = answer"
    for name in ("is_even", "is_odd")
]
# If the instructions for small models change, evaluate these models again (docs/results.md).
SMALL = "7c60514c"


class OpenAIHere(OpenAILM):
    """A model of OpenAI, served by a stand-in, with OpenAI's prices."""

    def __init__(self, model: str, url: str) -> None:
        super().__init__(model, base_url=url, api_key="k", dialect=OPENAI)
        self._vendor = OpenAILM(model, base_url=OpenAILM.vendor_url)

    def dollars(self, prompt: int, written: int, *, cached: int = 0, stored: int = 0) -> float | None:
        return self._vendor.dollars(prompt, written, cached=cached, stored=stored)


class AnthropicHere(AnthropicLM):
    """A model of Anthropic, served by a stand-in, with Anthropic's prices."""

    def __init__(self, model: str, url: str) -> None:
        super().__init__(model, base_url=url, api_key="k")
        self._vendor = AnthropicLM(model, base_url=AnthropicLM.vendor_url)

    def dollars(self, prompt: int, written: int, *, cached: int = 0, stored: int = 0) -> float | None:
        return self._vendor.dollars(prompt, written, cached=cached, stored=stored)


Parts = list[tuple[str, bool]]  # the parts of a prompt, and whether each ends with a mark


def openai_parts(body: dict[str, Any]) -> Parts:
    parts = [(json.dumps(body["response_format"]), False)]
    for turn in body["messages"]:
        if isinstance(turn["content"], str):
            parts.append((turn["role"] + turn["content"], False))
            continue
        assert turn["role"] != "assistant"  # messages of the assistant cannot have marks
        parts += [(turn["role"] + one["text"], "prompt_cache_breakpoint" in one) for one in turn["content"]]
    return parts


def anthropic_parts(body: dict[str, Any]) -> Parts:
    blocks = [*body.get("system", ()), *(block for turn in body["messages"] for block in turn["content"])]
    return [(json.dumps(body["tools"]), False), *((block["text"], "cache_control" in block) for block in blocks)]


class PromptCache:
    """Counts the tokens of prompts. With `is_marked`, only prefixes that end at a mark are cached."""

    def __init__(self, least: int, *, step: int = 1, is_marked: bool = False) -> None:
        self._least, self._step, self._is_marked = least, step, is_marked
        self._prompts: list[str] = []
        self._prefixes: set[str] = set()

    def counted(self, parts: Parts) -> tuple[int, int, int]:
        """Return the tokens of a prompt, those that were cached, and those that are cached now."""
        text = "".join(part for part, _ in parts)
        ends = [len("".join(part for part, _ in parts[:number])) for number, (_, mark) in enumerate(parts, 1) if mark]
        if self._is_marked:
            known = max((end for end in ends if text[:end] in self._prefixes), default=0)
        else:
            pairs = (zip(text, other, strict=False) for other in self._prompts)
            known = max((sum(1 for _ in takewhile(lambda two: two[0] == two[1], pair)) for pair in pairs), default=0)
        cached = known // 4 // self._step * self._step if known // 4 >= self._least else 0
        written = max((end for end in ends if end // 4 >= self._least), default=0) // 4
        self._prompts.append(text)
        self._prefixes |= {text[:end] for end in ends if end // 4 >= self._least}
        return len(text) // 4, cached, max(0, written - cached)


@pytest.fixture
def endpoint() -> Iterator[Any]:
    with serving({}) as one:
        yield one


def openai(endpoint: Any, model: str, cache: PromptCache, *, accepts_marks: bool = True) -> LM:
    def act(e: Any) -> None:
        body = endpoint.seen[-1][1]
        if not accepts_marks and "prompt_cache_options" in body:
            error = {"message": "prompt_cache_breakpoint is not supported on this model", "param": "messages"}
            return e.reply(400, json.dumps({"error": error}).encode())
        tokens, cached, written = cache.counted(openai_parts(body))
        details = {"cached_tokens": cached, "cache_write_tokens": written if "prompt_cache_options" in body else 0}
        usage = {"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": details}
        choice = {"message": {"content": '{"value": true}'}, "finish_reason": "stop"}
        return e.reply(200, json.dumps({"choices": [choice], "usage": usage}).encode())

    endpoint.script[:] = [act]
    return OpenAIHere(model, endpoint.url)


def anthropic(endpoint: Any, model: str, least: int) -> LM:
    cache = PromptCache(least, is_marked=True)

    def act(e: Any) -> None:
        body = endpoint.seen[-1][1]
        assert str(body).count("cache_control") <= 4
        tokens, cached, written = cache.counted(anthropic_parts(body))
        usage = {"input_tokens": tokens - cached - written, "output_tokens": 5}
        usage |= {"cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
        content = [{"type": "tool_use", "id": "t", "name": "value", "input": {"value": True}}]
        e.reply(200, json.dumps({"content": content, "stop_reason": "tool_use", "usage": usage}).encode())

    endpoint.script[:] = [act]
    return AnthropicHere(model, endpoint.url)


def spent(lm: LM, *, is_small: bool) -> Usage:
    """Return the usage of two programs, run sequentially so that the order of prompts is always the same."""
    lm.is_small = is_small
    results = [run(program, lm, in_flight=1) for program in PROGRAMS]
    assert [result.answer for result in results] == [[True] * (CALLS // 2)] * 2
    return sum((call.usage for result in results for call in result.trace.calls), Usage())


def check_cheaper(short: Usage, longer: Usage) -> None:
    assert short.requests == longer.requests == CALLS
    uncached = [(usage.prompt_tokens - usage.cached_tokens) / CALLS for usage in (short, longer)]
    assert uncached[0] > 550 and short.cached_tokens == 0
    assert uncached[1] < 250
    assert longer.dollars is not None and short.dollars is not None
    assert longer.dollars < 0.6 * short.dollars


def test_openai_caches_the_longer_prompt(endpoint: Any) -> None:
    usages = [
        spent(openai(endpoint, "gpt-5-mini", PromptCache(1024, step=128)), is_small=small) for small in (True, False)
    ]
    check_cheaper(*usages)
    assert not any("prompt_cache_options" in body for _, body in endpoint.seen)


def test_openai_caches_up_to_marks(endpoint: Any) -> None:
    cache = PromptCache(1024, is_marked=True)
    check_cheaper(*(spent(openai(endpoint, "gpt-5.6", cache), is_small=small) for small in (True, False)))
    assert all(body["prompt_cache_options"] == {"mode": "explicit"} for _, body in endpoint.seen)


def test_model_that_rejects_marks(endpoint: Any) -> None:
    """It rejects them once. Without marks, its cache saves nothing, so later programs get the short prompt."""
    lm = openai(endpoint, "gpt-5.6-terra", PromptCache(1024), accepts_marks=False)
    run(PROGRAMS[0], lm, in_flight=1)
    run(PROGRAMS[1], lm, in_flight=1)
    assert ["prompt_cache_options" in body for _, body in endpoint.seen] == [True] + [False] * CALLS
    first, last = (len(endpoint.seen[place][1]["messages"]) for place in (1, -1))
    assert first > last


def test_anthropic_caches_the_longer_prompt(endpoint: Any) -> None:
    check_cheaper(*(spent(anthropic(endpoint, "claude-sonnet-5", 1024), is_small=small) for small in (True, False)))


def test_anthropic_shares_the_fixed_part_between_programs(endpoint: Any) -> None:
    """The fixed part has its own mark, because prefixes are looked up only at marks."""
    lm = anthropic(endpoint, "claude-sonnet-5", 1024)
    one, other = (run(program, lm, in_flight=1).trace.calls[0].usage for program in PROGRAMS)
    assert one.cached_tokens == 0
    assert other.cached_tokens >= 1024


@pytest.mark.parametrize(
    ("lm", "is_long"),
    [
        (OpenAILM("gpt-5-mini", base_url=OpenAILM.vendor_url), True),
        (OpenAILM("gpt-4.1-mini", base_url=OpenAILM.vendor_url), True),
        (OpenAILM("gpt-4o-mini", base_url=OpenAILM.vendor_url), False),  # cached tokens cost half: not enough
        (OpenAILM("no-such-model", base_url=OpenAILM.vendor_url), False),  # no price
        (OpenAILM("gpt-5-mini", base_url="http://127.0.0.1:1"), False),  # a self-hosted server
        (OpenAILM("gemini-2.5-flash", dialect=GEMINI), False),  # the minimum is 2,048
        (AnthropicLM("claude-sonnet-5", base_url=AnthropicLM.vendor_url), True),
        (
            AnthropicLM("claude-opus-5", base_url=AnthropicLM.vendor_url),
            False,
        ),  # the minimum is 512: the short prompt is cached
        (AnthropicLM("claude-haiku-4-5", base_url=AnthropicLM.vendor_url), False),  # the minimum is 4,096
        (ScriptedLM([]), False),
    ],
    ids=lambda given: given.name if isinstance(given, LM) else "",
)
def test_which_models_get_the_longer_prompt(lm: LM, is_long: bool) -> None:
    assert (len(fixed_part(lm)) > len(fixed_part(ScriptedLM([])))) is is_long
    lm.is_small = True
    assert fixed_part(lm) == fixed_part(ScriptedLM([]))


def test_the_longer_prompt_begins_with_the_shorter_one() -> None:
    lm = OpenAILM("gpt-5-mini", base_url=OpenAILM.vendor_url)
    short, longer = fixed_part(ScriptedLM([])), fixed_part(lm)
    assert longer[: len(short) - 1] == short[:-1]
    assert lm.estimate(longer).prompt_tokens >= lm.cache_minimum
    assert [message.is_kept for message in longer] == [False] * (len(longer) - 1) + [True]
    assert all(json.loads(message.content) for message in longer if message.role == "assistant")


def test_small_models_get_the_evaluated_prompt() -> None:
    assert instructions_digest(connect("local:qwen2.5-coder-1.5b")).startswith(SMALL)


def test_wrapped_model_forwards_prefers_longer() -> None:
    lm = connect("openai:gpt-5-mini", api_key="k")
    assert lm.prefers_longer(600, 1100)
    assert not lm.prefers_longer(600, 1000)
    assert not lm.prefers_longer(1100, 1200)
    assert isinstance(fixed_part(lm)[0], Message)
