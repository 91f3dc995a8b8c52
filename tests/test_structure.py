"""Answers that fit a client's JSON schema: the official client's structured outputs, and hostile schemas."""

from __future__ import annotations

import concurrent.futures
import json
import time
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field, RootModel
from serving import Serving, served

from chainofcode.methods.answers import Misfit, answer_type_of

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
    {"when": "A large number?", "reply": "```python\nanswer = {'n': 10**20}\n```"},
    {"when": "A word?", "reply": "```python\nanswer = 'he' + 'llo'\n```"},
    {"when": "Much?", "reply": "```python\nanswer = ['x' * 1000] * 2000\n```"},
    {"when": "Bytes?", "reply": "```python\nanswer = 'x' * 900_000\n```"},
    {"when": "Deep?", "reply": "```python\nanswer = 1\nfor _ in range(60):\n    answer = {'x': answer}\n```"},
    {"when": "", "reply": "```python\nanswer = None\n```"},
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


def conversation(question: str) -> Any:
    return [{"role": "user", "content": question}]


def test_official_client_parses_its_own_classes(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(
        model="coc", messages=conversation("Which are fruit?"), response_format=Things
    )
    found = reply.choices[0].message.parsed
    assert found is not None and [(thing.name, thing.is_fruit) for thing in found.things] == [
        ("apple", True),
        ("saw", False),
    ]
    response = client.responses.parse(model="coc", input="Which are fruit?", text_format=Things)
    assert response.output_parsed == found
    with client.chat.completions.stream(
        model="coc", messages=conversation("Which are fruit?"), response_format=Things
    ) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == found


def test_answer_that_does_not_fit_is_a_refusal(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(model="coc", messages=conversation("What else?"), response_format=Things)
    message = reply.choices[0].message
    assert message.parsed is None and message.refusal is not None and "does not fit" in message.refusal


def answered(server: Serving, question: str, schema: Any) -> Any:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": "coc", "messages": conversation(question), "response_format": wanted}
    return server.client.post("/v1/chat/completions", json=body)


def content(reply: Any) -> Any:
    return json.loads(reply.json()["choices"][0]["message"]["content"])


def test_the_content_is_json(server: Serving) -> None:
    assert content(answered(server, "A large number?", {"properties": {"n": {"type": "integer"}}})) == {"n": 10**20}
    assert content(answered(server, "A word?", {"type": ["string", "null"]})) == "hello"
    assert content(answered(server, "A word?", {})) == "hello"


def test_truncated_answers_are_marked(server: Serving, client: openai.OpenAI) -> None:
    assert answered(server, "Much?", {}).json()["choices"][0]["finish_reason"] == "length"
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="coc", messages=conversation("Much?"), response_format=RootModel[list[str]])
    response = client.responses.create(model="coc", input="Much?", text={"format": {"type": "json_object"}})
    assert response.status == "incomplete" and response.incomplete_details is not None
    events = list(client.responses.create(model="coc", input="Much?", stream=True))
    assert events[-1].type == "response.incomplete"


def doubling(levels: int) -> dict[str, Any]:
    defs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(30), "cannot be used"),
        ({"type": [{"": n} for n in range(20_000)]}, "schema"),
        ({"$ref": "#/$defs/nobody"}, "which is not in it"),
        ({"$ref": "http://localhost/schema.json"}, "nothing is fetched"),
        ({"$ref": ["#"]}, "is not a JSON schema"),
        ({"type": "nonsense"}, "is not a JSON schema"),
        ({"properties": 3}, "is not a JSON schema"),
        ({"anyOf": []}, "is not a JSON schema"),
        ({"allOf": 3, "oneOf": [{}]}, "is not a JSON schema"),
        ({"items": {"items": {"required": 3}}}, "is not a JSON schema"),
        ({"$ref": "#"}, "refers to itself without end"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_schemas_that_are_refused(server: Serving, schema: dict[str, Any], why: str) -> None:
    reply = answered(server, "x", schema)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert why in reply.json()["error"]["message"]


@pytest.mark.parametrize("levels", [3000, 50_000])
def test_deeply_nested_schemas_are_refused(server: Serving, levels: int) -> None:
    schema = '{"items": ' * levels + "{}" + "}" * levels
    wanted = {"type": "json_schema", "json_schema": {"schema": "SCHEMA"}}
    body = json.dumps({"model": "coc", "messages": conversation("x"), "response_format": wanted})
    reply = server.client.post(
        "/v1/chat/completions",
        content=body.replace('"SCHEMA"', schema),
        headers={"content-type": "application/json"},
    )
    assert reply.status_code == 400, reply.text[:300]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("question", "schema"),
    [
        ("Bytes?", {"type": "string", "pattern": "^(x+x+)+y$"}),
        ("Bytes?", {"anyOf": [{"type": "integer"}] * 1000}),
        (
            "Deep?",
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"type": "object", "anyOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}}] * 2}},
            },
        ),
        ("A large number?", {"type": "object", "properties": {"n": {"multipleOf": 7}}}),
    ],
    ids=["pattern", "messages", "recursion", "large"],
)
def test_hostile_schemas_cost_little(server: Serving, question: str, schema: dict[str, Any]) -> None:
    """The answer does not fit, or its check times out; the server remains responsive."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        reply = pool.submit(answered, server, question, schema)
        while not reply.done():
            began = time.monotonic()
            assert server.client.get("/healthz").status_code == 200
            assert time.monotonic() - began < 5
            time.sleep(0.05)
    message = reply.result().json()["choices"][0]["message"]
    assert message["content"] is None and "does not fit" in message["refusal"]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, "x", 1),
        ({"anyOf": [{"type": "string"}, {"items": {"$ref": "#/anyOf/0"}}]}, ["x"], [1]),
        ({"items": {"$ref": "#a"}, "$defs": {"x": {"$anchor": "a", "type": "string"}}}, ["x"], [1]),
        ({"items": {"$ref": "#/%24defs/a"}, "$defs": {"a": {"type": "string"}}}, ["x"], [1]),
        ({"items": {"$ref": "#/definitions/s", "minLength": 5}, "definitions": {"s": {"type": "string"}},
          "$schema": "http://json-schema.org/draft-07/schema#"}, ["abc"], [1]),
        ({"items": [{"type": "string"}], "$schema": "http://json-schema.org/draft-07/schema#"}, ["x", 1], [1]),
        ({"const": {"$ref": "http://nowhere/"}}, {"$ref": "http://nowhere/"}, {}),
        ({"multipleOf": 0.01}, 1.15, 1.155),
        ({"multipleOf": 0.5}, 10**400, 0.7),
        ({"format": "date-time"}, "2016-12-31t23:59:60z", "yesterday"),
        ({"properties": {"pattern": {"type": "integer"}}, "required": ["pattern"]}, {"pattern": 1}, {"pattern": "x"}),
        ({"type": "string", "pattern": "^[A-Z]-[0-9]$"}, "A-1", "a"),
    ],
    ids=str,
)  # fmt: skip
def test_schema_keywords(schema: dict[str, Any], good: Any, bad: Any) -> None:
    kind = answer_type_of(schema)
    assert kind is not None and kind.read(good) == good
    with pytest.raises(Misfit):
        kind.read(bad)


def test_large_answers_fit_their_schema() -> None:
    kind = answer_type_of(Things.model_json_schema())
    much = {"things": [{"name": "n" * 500, "is_fruit": True, "parts": []}] * 500, "mood": "calm", "code": "A-1"}
    assert kind is not None and kind.read(much) == much
    assert "[A-Z]-[0-9]" in kind.words
