"""The table of providers in docs/models.md: each cell has a test, and agrees with what the models declare."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from conftest import ROOT
from endpoint import serving

from chainofcode import LM, Message
from chainofcode.lm import connect
from chainofcode.lm.local import LocalLM

pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
COLUMNS = (
    "schema",
    "log probabilities",
    "prompt cache",
    "images",
    "batch endpoint",
    "reasoning for values",
    "price known",
)
_DIALECTS, _BATCHES, _CLAUDE, _LOCAL = "test_dialects", "test_batches", "test_anthropic", "test_local"
_OWN = f"{_DIALECTS}::test_self_hosted_servers"
_PRICE = "test_provider_table::test_prices"
# The tests of each row, in the order of the columns.
TESTS = {
    "`openai:` at OpenAI": (
        f"{_DIALECTS}::test_openai", f"{_DIALECTS}::test_openai", "test_prompt_cache::test_openai_caches_up_to_marks",
        f"{_DIALECTS}::test_images", f"{_BATCHES}::test_requests_that_wait_together_are_one_batch",
        f"{_DIALECTS}::test_openai", _PRICE,
    ),
    "`openai:` elsewhere (vLLM, SGLang, llama.cpp…)": (
        _OWN, _OWN, "test_provider_table::test_cached_tokens_are_counted",
        f"{_DIALECTS}::test_images", f"{_BATCHES}::test_server_without_batch_endpoint_is_an_error", _OWN, _PRICE,
    ),
    "`anthropic:`": (
        f"{_CLAUDE}::test_schema_is_sent_as_forced_tool",
        "test_provider_table::test_table_agrees_with_declared_features",
        f"{_CLAUDE}::test_cache_marks_are_sent_from_minimum_of_model",
        f"{_CLAUDE}::test_images_come_before_the_text_about_them",
        f"{_BATCHES}::test_requests_that_wait_together_are_one_batch",
        f"{_CLAUDE}::test_request_and_reply", f"{_CLAUDE}::test_known_prices",
    ),
    "`gemini:`": (
        f"{_DIALECTS}::test_gemini", f"{_DIALECTS}::test_gemini",
        "test_prompt_cache::test_which_models_get_the_longer_prompt",
        f"{_DIALECTS}::test_image_formats_match_the_documentation", f"{_BATCHES}::test_providers_without_batches",
        f"{_DIALECTS}::test_gemini", _PRICE,
    ),
    "`ollama:`": (
        _OWN, _OWN, "test_provider_table::test_cached_tokens_are_counted",
        f"{_DIALECTS}::test_image_formats_match_the_documentation", f"{_BATCHES}::test_providers_without_batches",
        _OWN, _PRICE,
    ),
    "`local:`": (
        f"{_LOCAL}::test_a_model_answers_within_a_schema",
        "test_provider_table::test_log_probabilities_of_the_embedded_model",
        f"{_LOCAL}::test_a_long_prefix_outlives_the_process", "test_images::test_embedded_model_rejects_images",
        "test_provider_table::test_table_agrees_with_declared_features",
        "test_provider_table::test_table_agrees_with_declared_features",
        f"{_LOCAL}::test_a_model_answers_within_a_schema",
    ),
}  # fmt: skip


def table() -> dict[str, dict[str, str]]:
    lines = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("| provider | schema"))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:])
    rows = rows[: next(number for number, cells in enumerate(rows) if len(cells) < len(head))]
    return {provider: dict(zip(head[1:], cells, strict=True)) for provider, *cells in rows}


def test_each_cell_has_a_test() -> None:
    cells = table()
    assert cells.keys() == TESTS.keys()
    assert all(tuple(row) == COLUMNS for row in cells.values())
    for tests in TESTS.values():
        assert len(tests) == len(COLUMNS)
        for named in tests:
            file, _, name = named.partition("::")
            assert re.search(rf"^def {name}\(", (Path(__file__).parent / f"{file}.py").read_text(), re.M), named


def connected(provider: str) -> LM:
    name = re.sub(r"`(\w+:)`.*", r"\1m", provider)
    if provider == "`local:`":
        name = "local:qwen2.5-coder-1.5b"
    url = "http://127.0.0.1:9/v1" if "elsewhere" in provider else None
    return connect(name, base_url=url, api_key=None if name.startswith("local:") else "k")


@pytest.mark.parametrize("provider", TESTS)
def test_table_agrees_with_declared_features(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`no` and `none` in the table agree with the attributes of the model."""
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    lm, row = connected(provider), table()[provider]
    assert lm.has_logprobs is (row["log probabilities"] != "no")
    assert lm.has_batches is (row["batch endpoint"] != "no")
    assert lm.has_effort is (row["reasoning for values"] not in ("none", "off"))
    assert "local" in provider or connect(lm.name, api_key="k", has_images=True).has_images
    assert lm.has_images is False  # of a model that is not in the table of lm/vision.py


@pytest.mark.parametrize(
    ("name", "url", "is_known"),
    [
        ("openai:gpt-5-mini", None, True),
        ("openai:gpt-5-mini", "http://127.0.0.1:9/v1", False),
        ("openai:openai/gpt-oss-20b", "https://api.groq.com/openai/v1", True),
        ("anthropic:claude-haiku-4-5", None, True),
        ("gemini:gemini-2.5-flash", None, True),
        ("gemini:no-such-model", None, False),
        ("ollama:llama3.2", None, False),
    ],
)
def test_prices(name: str, url: str | None, is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown price is None, not 0; no request is sent."""
    pytest.importorskip("genai_prices")
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    dollars = connect(name, base_url=url, api_key="k").estimate([Message("user", "x" * 4000)]).dollars
    assert (dollars is not None) is is_known
    assert not is_known or (dollars or 0) > 0


@pytest.mark.parametrize("name", ["openai:m", "ollama:m"])
def test_cached_tokens_are_counted(name: str) -> None:
    """vLLM, SGLang, llama.cpp and Ollama cache without marks; cached tokens, if reported, are in OpenAI's field."""
    usage = {"prompt_tokens": 700, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 640}}
    reply = {"choices": [{"message": {"content": "Yes."}}], "usage": usage}
    with serving(reply, {**reply, "usage": {"prompt_tokens": 700, "completion_tokens": 5}}) as endpoint:
        lm = connect(name, base_url=f"{endpoint.url}/v1", api_key="k")
        used = [asyncio.run(lm.complete([Message("user", "Is a fig a fruit?")]))[0].usage for _ in range(2)]
        assert [one.cached_tokens for one in used] == [640, 0]
        fields = endpoint.seen[0][1].keys()
    assert not fields & {"prompt_cache_key", "prompt_cache_options"}


def test_log_probabilities_of_the_embedded_model(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        messages = [Message("user", "Is a fig a fruit?")]
        (reply,) = asyncio.run(lm.complete(messages, schema={"type": "boolean"}, logprobs=True))
    assert "".join(token.text for token in reply.tokens).strip() in ("true", "false")
    assert all(token.text in token.alternatives for token in reply.tokens)
