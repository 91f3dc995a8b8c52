"""Answers that fit a client's JSON schema: the official client's structured outputs, and schemas that mean harm."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from serving import Serving, served

from chainofcode.errors import InputError
from chainofcode.methods.answers import Misfit
from chainofcode.server.structure import structured
from chainofcode.server.terms import Refusal

pytest.importorskip("starlette", reason="the extra `server` is not installed")

PROGRAM = """
things = ["apple", "saw"]
found = [{"name": thing, "is_fruit": is_fruit(thing), "parts": []} for thing in things]
answer = {"things": found, "mood": "calm", "code": "A-1"}
"""
SCRIPT = [
    {"when": "is_fruit('apple')", "reply": "true"},
    {"when": "is_fruit('saw')", "reply": "false"},
    {"when": "Which are fruit?", "reply": f"```python{PROGRAM}```"},
    {"when": "", "reply": "```python\nanswer = {'things': 7}\n```"},
]


class Thing(BaseModel):
    name: str
    is_fruit: bool
    parts: list[Thing] = []


class Things(BaseModel):
    things: list[Thing]
    mood: Literal["calm", "cross"]
    code: str = Field(pattern="[A-Z]-[0-9]")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("server"), script=SCRIPT) as server:
        yield server


@pytest.fixture
def client(server: Serving) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60)


def asked(question: str) -> Any:
    return [{"role": "user", "content": question}]


def test_the_official_client_gets_its_own_classes(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(model="coc", messages=asked("Which are fruit?"), response_format=Things)
    found = reply.choices[0].message.parsed
    assert found is not None and [(thing.name, thing.is_fruit) for thing in found.things] == [
        ("apple", True),
        ("saw", False),
    ]
    response = client.responses.parse(model="coc", input="Which are fruit?", text_format=Things)
    assert response.output_parsed == found
    with client.chat.completions.stream(
        model="coc", messages=asked("Which are fruit?"), response_format=Things
    ) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == found


def test_what_does_not_fit_is_no_answer(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(model="coc", messages=asked("What else?"), response_format=Things)
    said = reply.choices[0].message
    assert said.parsed is None and said.refusal is not None and "does not fit" in said.refusal


def test_the_model_is_told_all_of_the_schema() -> None:
    kind = structured(Things.model_json_schema())
    assert "[A-Z]-[0-9]" in kind.words and '"$defs"' in kind.words


def doubling(levels: int) -> dict[str, Any]:
    defs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(30), "over 2,000 parts"),
        ({"enum": list(range(3000))}, "over 2,000 parts"),
        ({"$ref": "#/$defs/nobody"}, "which is not in it"),
        ({"$ref": "http://localhost/schema.json"}, "which is not in it"),
        ({"$ref": ["#"]}, "which is not in it"),
        ({"type": "nonsense"}, "is no JSON schema"),
        ({"properties": 3}, "is no JSON schema"),
        ({"anyOf": []}, "is no JSON schema"),
        ({"items": {"items": {"required": 3}}}, "is no JSON schema"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_schemas_that_are_refused(server: Serving, schema: dict[str, Any], why: str) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": "coc", "messages": asked("x"), "response_format": wanted}
    began = time.monotonic()
    reply = server.client.post("/v1/chat/completions", json=body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert why in reply.json()["error"]["message"]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("levels", [300, 900, 5000])
def test_schemas_without_bottom(server: Serving, levels: int) -> None:
    schema = '{"items": ' * levels + "{}" + "}" * levels
    wanted = {"type": "json_schema", "json_schema": {"schema": "SCHEMA"}}
    body = json.dumps({"model": "coc", "messages": asked("x"), "response_format": wanted})
    reply = server.client.post(
        "/v1/chat/completions",
        content=body.replace('"SCHEMA"', schema),
        headers={"content-type": "application/json"},
    )
    assert reply.status_code == 400, reply.text[:300]


def test_schemas_that_mean_harm_cost_little() -> None:
    began = time.monotonic()
    assert structured({"type": "string", "pattern": "(a+)+$"}).read("a" * 40 + "!") == "a" * 40 + "!"
    endless = {"anyOf": [{"properties": {"x": {"$ref": "#"}}}] * 2}
    deep: Any = 1
    for _ in range(100):
        deep = {"x": deep}
    assert structured(endless).read(deep) == deep
    wide = structured({"items": {"anyOf": [{"const": n} for n in range(500)]}})
    with pytest.raises(Misfit, match="too large"):
        wide.read(json.dumps([-1] * 100_000))
    with pytest.raises(Misfit, match="too large"):
        wide.read([-1] * 100_000)
    with pytest.raises(Misfit, match="does not fit"):
        wide.read([-1])
    with pytest.raises(Refusal):
        structured(
            {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": f"#/$defs/a{n}"} for n in range(9)]}}}
        )
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, 1),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, 1),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, 3),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}),
        ({"properties": {"pattern": {"type": "integer"}}, "required": ["pattern"]}, {"pattern": "x"}),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {}),
        ({"prefixItems": [{"type": "string"}]}, [1]),
        ({"items": {"format": "date"}}, ["yesterday"]),
        ({"minimum": 3}, 2),
    ],
    ids=str,
)
def test_what_is_checked(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(Misfit):
        structured(schema).read(value)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_kinds = ["null", "boolean", "integer", "number", "string", "array", "object"]


def _schemas_of(inner: Any) -> Any:
    one, several = inner, st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    words: dict[str, Any] = {
        "type": st.sampled_from(_kinds) | st.lists(st.sampled_from(_kinds), min_size=1, max_size=3, unique=True),
        "enum": st.lists(_values, min_size=1, max_size=4),
        "minimum": st.integers(-2, 2),
        "maxItems": st.integers(0, 2),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "pattern": st.sampled_from(["^a", "1$"]),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
        "properties": named,
        "additionalProperties": st.booleans() | inner,
        "items": one,
        "prefixItems": several,
        "anyOf": several,
        "allOf": several,
        "oneOf": several,
        "not": one,
        "if": one,
        "then": one,
        "contains": one,
        "propertyNames": one,
        "uniqueItems": st.booleans(),
        "$ref": st.sampled_from(["#/$defs/p", "#/$defs/q"]),
    }
    return st.fixed_dictionaries({}, optional=words)


_parts_of_schemas = st.recursive(st.booleans() | st.just({}), _schemas_of, max_leaves=8)


@settings(max_examples=600, deadline=None)
@given(_schemas_of(_parts_of_schemas), _parts_of_schemas, _parts_of_schemas, _values)
def test_what_a_schema_allows_is_never_refused(schema: Any, p: Any, q: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"p": p, "q": q}}
    try:
        fits = jsonschema.Draft202012Validator(whole).is_valid(value)
    except RecursionError:
        return  # it refers to itself without end: nobody can say
    if fits:
        assert structured(whole).read(value) == value


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["type", "items", "properties", "anyOf", "$ref", "enum", "required"]), _values))
def test_nonsense_is_refused_or_used(schema: dict[str, Any]) -> None:
    try:
        kind = structured(schema)
    except (Refusal, InputError):
        return
    with contextlib.suppress(Misfit):
        kind.read({"a": 1})
