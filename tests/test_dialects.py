"""Stand-ins for OpenAI-compatible endpoints: each refuses some of what the real one refuses.

Each names the documentation or source that it follows, as of November 2026; none was compared with a real endpoint.
Texts of refusals are quotations from the servers' sources (vLLM, SGLang, llama.cpp, Ollama); those of OpenAI and Gemini
are assumptions. A server constrains its reply only if it understands the schema; otherwise it replies in prose.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ROOT
from endpoint import serving

from chainofcode import LM, LMError, Message, run
from chainofcode.emulator import Asking, Judging
from chainofcode.emulator.types import kind_of, object_schema
from chainofcode.lm import connect
from chainofcode.lm.dialects import OPENAI, strict_form
from chainofcode.lm.openai import OpenAILM
from chainofcode.trace import Confidence

pytest.importorskip("openai", reason="the extra `openai` is not installed")
COMMON = {"model", "messages", "n", "temperature", "stop", "seed", "logprobs", "top_logprobs", "response_format"}
VALUE = '{"value": true}'


PROSE = "Certainly! A fig is a fruit of the mulberry family."
PNG, GIF = b"\x89PNG\r\n\x1a\n...", b"GIF89a..."


def refused(e: Any, message: str, param: str | None = None, status: int = 400) -> None:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    e.reply(status, json.dumps({"error": error}).encode())


def answer(e: Any, body: dict[str, Any]) -> None:
    """Send the requested number of replies, with a value if there is a schema."""
    form = body.get("response_format", {})
    text = VALUE if form.get("type") == "json_schema" and "schema" in form.get("json_schema", {}) else PROSE
    content = [{"token": part, "logprob": -0.1, "top_logprobs": []} for part in ('{"value":', " true", "}")]
    choice = {
        "message": {"content": text},
        "finish_reason": "stop",
        "logprobs": {"content": content} if body.get("logprobs") else None,
    }
    e.reply(200, json.dumps({"choices": [choice] * body.get("n", 1)}).encode())


def images_in(body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The images in the data URLs of a request: type and bytes."""
    turns = [turn["content"] for turn in body["messages"] if isinstance(turn["content"], list)]
    urls = [part["image_url"]["url"] for parts in turns for part in parts if part["type"] == "image_url"]
    assert all(set(part) == {"type", part["type"]} for parts in turns for part in parts)
    split = [url.removeprefix("data:").split(";base64,") for url in urls]
    return [(kind, base64.b64decode(data, validate=True)) for kind, data in split]


def openai(e: Any, body: dict[str, Any], efforts: tuple[str, ...]) -> None:
    """A model of OpenAI. Without efforts it does not reason; with some it accepts neither temperature nor logprobs.

    Platform documentation: reasoning, structured outputs, images and vision.
    """
    if images_in(body) and body["model"] == "blind":
        return refused(
            e, "Invalid content type. image_url is only supported by certain models.", "messages.[1].content"
        )
    if "max_tokens" in body and efforts:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return refused(e, text, "max_tokens")
    effort = body.get("reasoning_effort")
    if effort is not None and not efforts:
        return refused(e, "Unrecognized request argument supplied: reasoning_effort", "reasoning_effort")
    if effort is not None and effort not in efforts:
        listed = ", ".join(f"'{known}'" for known in efforts)
        text = f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model. Supported values are: {listed}."
        return refused(e, text, "reasoning_effort")
    is_thinking = bool(efforts) and effort != "none"
    for field in ("temperature", "logprobs"):
        if is_thinking and field in body:
            return refused(e, f"Unsupported parameter: '{field}' is not supported with this model.", field)
    form = body.get("response_format", {}).get("json_schema", {})
    if form.get("strict") and (why := not_strict(form["schema"])):
        return refused(e, f"Invalid schema for response_format 'value': {why}", "response_format")
    if is_thinking and body["max_completion_tokens"] < 1000:
        choice = {"message": {"content": ""}, "finish_reason": "length"}  # reasoning used all tokens
        return e.reply(200, json.dumps({"choices": [choice]}).encode())
    return answer(e, body)


def not_strict(schema: dict[str, Any]) -> str:
    """Return why OpenAI refuses a strict schema, or an empty string."""
    if not schema.keys() & {"type", "enum", "const", "anyOf"}:
        return "schema must have a 'type' key"
    for keyword in ("minLength", "maxLength", "uniqueItems"):
        if keyword in schema:
            return f"'{keyword}' is not permitted"
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false"
        if set(schema.get("required", ())) != set(schema["properties"]):
            return "'required' is required to be supplied and to be an array including every key in properties"
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    parts += [schema["items"]] if "items" in schema else []
    return next(filter(None, map(not_strict, parts)), "")


def vllm(e: Any, body: dict[str, Any]) -> None:
    """vLLM 0.12 and later: unknown fields are ignored, including the `guided_` fields of earlier versions.

    docs.vllm.ai, structured outputs: `response_format` or `structured_outputs`; sampling_params.py; --max-logprobs is 20.
    """
    body = {name: value for name, value in body.items() if not name.startswith("guided_")}
    schema = body.get("structured_outputs", {}).get("json")
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "value", "schema": schema}}
    if body.get("n", 1) > 1 and body.get("temperature", 1) == 0:
        return refused(e, f"n must be 1 when using greedy sampling, got {body['n']}.")
    if body.get("top_logprobs", 0) > 20:
        text = f"Requested sample logprobs of {body['top_logprobs']}, which is greater than max allowed: 20"
        return refused(e, text, "logprobs")
    if images_in(body) and body["model"] == "blind":
        return refused(e, "blind is not a multimodal model")
    return answer(e, body)


def sglang(e: Any, body: dict[str, Any]) -> None:
    """SGLang: unknown fields are ignored; errors are not nested.

    entrypoints/openai/protocol.py: a schema has a name; an effort is one of a list.
    """

    def bad(message: str) -> None:
        error = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
        e.reply(400, json.dumps(error).encode())

    form = body.get("response_format", {})
    if form.get("type") == "json_schema" and not {"name", "schema"} <= form["json_schema"].keys():
        return bad("1 validation error: response_format.json_schema.name: Field required")
    if body.get("reasoning_effort", "low") not in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        return bad("1 validation error: reasoning_effort: Input should be 'none', 'minimal', 'low', 'medium' or 'high'")
    return answer(e, body)


def llama_cpp(e: Any, body: dict[str, Any], slots: int = 1) -> None:
    """llama.cpp's server: as many replies as it has slots (`n_cmpl`), images with a projector; refusals have status 500.

    tools/server: README.md and the parser of requests.
    """

    def error(message: str) -> None:
        refusal = {"error": {"code": 500, "message": message, "type": "server_error"}}
        e.reply(500, json.dumps(refusal).encode())

    if images_in(body) and body["model"] == "blind":
        return error("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj")
    if body.get("top_logprobs") and not body.get("logprobs"):
        return error("top_logprobs requires logprobs to be set to true")
    if body.get("n", 1) > slots:
        return error("n_cmpl cannot be greater than the number of slots, please increase -np")
    return answer(e, body)


def ollama(e: Any, body: dict[str, Any]) -> None:
    """Ollama: a schema in `response_format` becomes its `format`; `n` is ignored; images are JPEG, PNG and WebP.

    docs.ollama.com, OpenAI compatibility; openai/openai.go.
    """
    known = {"model", "messages", "response_format", "seed", "stop", "temperature", "max_tokens", "logprobs"}
    known_fields = {name: value for name, value in body.items() if name in known}
    if any(kind not in ("image/jpeg", "image/jpg", "image/png", "image/webp") for kind, _ in images_in(body)):
        return refused(e, "invalid image input")
    return answer(e, known_fields)


def gemini(e: Any, body: dict[str, Any]) -> None:
    """Gemini's OpenAI-compatible endpoint: unknown fields are an error, and GIF is not accepted.

    ai.google.dev, OpenAI compatibility and image understanding (PNG, JPEG, WebP, HEIC, HEIF).
    """
    unknown = sorted(body.keys() - COMMON - {"max_tokens", "reasoning_effort"})
    if unknown:
        return refused(e, f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot find field.')
    if body.get("logprobs"):
        return refused(e, "Logprobs is not enabled for this model", "logprobs")
    if any(kind == "image/gif" for kind, _ in images_in(body)):
        return refused(e, "Unsupported MIME type: image/gif")
    return answer(e, body)


@pytest.fixture
def stand_in() -> Iterator[Callable[[Callable[[Any, dict[str, Any]], None]], Any]]:
    with serving({}) as endpoint:

        def start(protocol: Callable[[Any, dict[str, Any]], None]) -> Any:
            endpoint.script[:] = [lambda e: protocol(e, endpoint.seen[-1][1])]
            return endpoint

        yield start


def value(lm: LM) -> Any:
    return run("answer = is_fruit('fig')", lm, in_flight=1).answer


@pytest.mark.parametrize(
    ("efforts", "taken", "tries"),
    [((), None, 2), (("none", "low", "medium", "high"), "none", 1), (("minimal", "low", "high"), "minimal", 4),
     (("low", "medium", "high"), "low", 5), (("high",), None, 6)],
    ids=["does not reason", "gpt-5.1", "gpt-5", "o-series", "gpt-5-pro"],
)  # fmt: skip
def test_openai(stand_in: Any, efforts: tuple[str, ...], taken: str | None, tries: int) -> None:
    """A value uses the lowest effort that the model accepts; each refusal is remembered."""
    endpoint = stand_in(lambda e, body: openai(e, body, efforts))
    lm = OpenAILM("m", base_url=endpoint.url, api_key="k", dialect=OPENAI)
    assert value(lm) is True
    assert len(endpoint.seen) == tries
    first, last = endpoint.seen[0][1], endpoint.seen[-1][1]
    assert last.get("reasoning_effort") == taken
    assert last["response_format"]["json_schema"]["strict"] is True
    assert "max_tokens" not in last
    assert (last["max_completion_tokens"] > 4000) is (taken not in (None, "none") or efforts == ("high",))
    assert len(first["prompt_cache_key"]) == 32
    assert value(lm) is True
    assert len(endpoint.seen) == tries + 1
    keys = {body["prompt_cache_key"] for _, body in endpoint.seen}
    assert len(keys) == 1  # requests with the same prefix go to the same machine


def test_reasoning_effort_can_be_set(stand_in: Any) -> None:
    endpoint = stand_in(lambda e, body: openai(e, body, ("low", "medium", "high")))
    lm = OpenAILM("m", base_url=endpoint.url, api_key="k", dialect=OPENAI, effort="high")
    asyncio.run(lm.complete([Message("user", "Write a program.")], max_tokens=2000))
    assert {body["reasoning_effort"] for _, body in endpoint.seen} == {"high"}


@pytest.mark.parametrize(
    ("protocol", "name"), [(vllm, "openai:m"), (sglang, "openai:m"), (llama_cpp, "openai:m"), (ollama, "ollama:m")]
)
def test_self_hosted_servers(stand_in: Any, protocol: Any, name: str) -> None:
    """They receive only the common part of the protocol; the first request constrains the value."""
    endpoint = stand_in(protocol)
    assert value(connect(name, base_url=endpoint.url)) is True
    (body,) = [body for _, body in endpoint.seen]
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"value": {"type": "boolean"}}
    assert body.keys() <= COMMON | {"max_tokens"}
    assert body["logprobs"] is True


def test_a_stand_in_constrains_only_what_it_understands(stand_in: Any) -> None:
    """The fields of vLLM before 0.12 no longer have an effect."""
    schema = {"type": "object"}
    for fields, text in (
        ({"guided_json": schema}, PROSE),
        ({"structured_outputs": {"json": schema}}, VALUE),
        ({}, PROSE),
    ):
        endpoint = stand_in(vllm)
        body = json.dumps({"model": "m", "messages": [], **fields}).encode()
        with urllib.request.urlopen(urllib.request.Request(endpoint.url, body)) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize(
    ("protocol", "name", "requests", "later"),
    [
        (vllm, "openai:m", 1, 1),
        (sglang, "openai:m", 1, 1),
        (llama_cpp, "openai:m", 4, 3),
        (lambda e, body: llama_cpp(e, body, slots=3), "openai:m", 1, 1),
        (ollama, "ollama:m", 3, 3),
    ],
    ids=["vllm", "sglang", "llama.cpp, 1 slot", "llama.cpp, 3 slots", "ollama"],
)
def test_missing_votes_are_requested_one_by_one(
    stand_in: Any, protocol: Any, name: str, requests: int, later: int
) -> None:
    """If a server writes one reply per request, the others are requested one by one."""
    endpoint = stand_in(protocol)
    lm = connect(name, base_url=endpoint.url)
    for expected in (requests, later):
        endpoint.seen.clear()
        result = run("answer = is_fruit('fig')", Asking(lm, Judging(votes=3)), in_flight=1)
        assert (result.answer, len(result.trace.calls), result.usage.requests) == (True, 3, min(expected, 3))
        assert len(endpoint.seen) == expected
        assert result.trace.steps[0].confidence == Confidence(1.0, samples=3)


def test_replies_that_are_requested_one_by_one_have_their_own_seeds(stand_in: Any) -> None:
    endpoint = stand_in(ollama)
    lm = connect("ollama:m", base_url=endpoint.url)
    replies = asyncio.run(lm.complete([Message("user", "?")], n=3, seed=7))
    assert len(replies) == 3
    assert sorted(body["seed"] for _, body in endpoint.seen) == [7, 8, 9]


def test_gemini(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not for Gemini")
    monkeypatch.setenv("GEMINI_API_KEY", "for Gemini")
    endpoint = stand_in(gemini)
    lm = connect("gemini:gemini-3-flash-preview", base_url=endpoint.url)
    assert (lm.name, value(lm)) == ("gemini:gemini-3-flash-preview", True)
    assert {headers["authorization"] for headers, _ in endpoint.seen} == {"Bearer for Gemini"}
    assert "logprobs" in endpoint.seen[0][1] and "logprobs" not in endpoint.seen[-1][1]
    assert endpoint.seen[-1][1]["reasoning_effort"] == "none"


# --- images -------------------------------------------------------------------------------------------------------

PROVIDERS = {
    "openai": (lambda e, body: openai(e, body, ()), "openai:m"),
    "vllm": (vllm, "openai:m"),
    "sglang": (sglang, "openai:m"),
    "llama.cpp": (llama_cpp, "openai:m"),
    "ollama": (ollama, "ollama:m"),
    "gemini": (gemini, "gemini:m"),
}


def seeing(data: bytes, lm: LM) -> Any:
    return run("answer = is_fruit(photo)", lm, inputs={"photo": data}, in_flight=1).answer


@pytest.mark.parametrize(("protocol", "name"), PROVIDERS.values(), ids=PROVIDERS)
def test_images(stand_in: Any, protocol: Any, name: str) -> None:
    endpoint = stand_in(protocol)
    lm = connect(name, base_url=endpoint.url, api_key="k", has_images=True)
    assert seeing(PNG, lm) is True
    body = endpoint.seen[-1][1]
    assert images_in(body) == [("image/png", PNG)]
    assert [part["type"] for part in body["messages"][-1]["content"]] == ["text", "image_url", "text"]
    assert all(isinstance(turn["content"], str) for turn in body["messages"][:-1])
    blind = connect(name, base_url=endpoint.url, api_key="k")
    endpoint.seen.clear()
    with pytest.raises(LMError, match=f"{name} cannot see images"):
        seeing(PNG, blind)
    assert not endpoint.seen


FORMATS = {"PNG": PNG, "JPEG": b"\xff\xd8\xff", "GIF": GIF, "WebP": b"RIFF....WEBP"}


@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama"])
def test_image_formats_match_the_documentation(stand_in: Any, provider: str) -> None:
    protocol, name = PROVIDERS[provider]
    endpoint = stand_in(protocol)
    lm = connect(name, base_url=endpoint.url, api_key="k", has_images=True)
    accepted = []
    for kind, data in FORMATS.items():
        with contextlib.suppress(LMError):
            seeing(data, lm)
            accepted.append(kind)
    text = (ROOT / "docs" / "models.md").read_text()
    rows = [
        row.split(" | ") for row in text.split("\n") if row.startswith((f"| `{provider}:` ", "| provider | schema"))
    ]
    column = rows[0].index("images")
    assert rows[1][column] == ", ".join(accepted)


@pytest.mark.parametrize(
    ("provider", "model", "data", "message"),
    [
        ("openai", "blind", PNG, "image_url is only supported by certain models"),
        ("vllm", "blind", PNG, "blind is not a multimodal model"),
        ("llama.cpp", "blind", PNG, "image input is not supported"),
        ("ollama", "m", GIF, "invalid image input"),
        ("gemini", "m", GIF, "Unsupported MIME type"),
    ],
)
def test_refusal_of_an_image_is_quoted(stand_in: Any, provider: str, model: str, data: bytes, message: str) -> None:
    """The image is sent again only without fields that may be the cause of the refusal."""
    protocol, name = PROVIDERS[provider]
    endpoint = stand_in(protocol)
    lm = connect(f"{name.partition(':')[0]}:{model}", base_url=endpoint.url, api_key="k", has_images=True)
    with pytest.raises(LMError, match=rf"rejects the request with HTTP (400|500): .*{message}"):
        seeing(data, lm)
    assert len(endpoint.seen) <= 3


# --- schemas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation", ["bool", "int", "float", "str", "list[int]", "list[str]", "Literal['a', 'b']", "date", "str | None"]
)
def test_schemas_of_usual_types_are_strict(annotation: str) -> None:
    schema = object_schema({"value": kind_of(annotation).schema})
    strict = strict_form(schema)
    assert strict is not None and not_strict(strict) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": [], "additionalProperties": False},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [{"type": "string"}, {}]},
    ],
)
def test_schemas_that_cannot_be_strict(schema: dict[str, Any]) -> None:
    assert strict_form(schema) is None
    assert strict_form(object_schema({"value": schema})) is None
