"""OpenAI's Python client and `coc serve`: tools, typed output, streams, and requests that the server refuses."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

WEATHER = "```python\nwarm = [city for city in ['Oslo', 'Rome'] if temperature(city=city) > 15]\nanswer = warm[0]\n```"
CITY = '```python\nanswer = {"name": "Rome", "size": 3 * 1000}\n```'
REPORTED = "```python\nfinal_result(name='Rome', size=3000)\n```"
SCRIPT = [
    {"when": "Which is warm", "reply": WEATHER},
    {"when": "final_result", "reply": REPORTED},
    {"when": "Describe", "reply": CITY},
    {"when": "What is new", "reply": "```python\nanswer = get_news('Rome')\n```"},
    {"when": "six times seven", "reply": "```python\nanswer = 6 * 7\n```"},
]
PRODUCT = "How much is six times seven?"
WARMTH = {"Oslo": 4, "Rome": 24}


class City(pydantic.BaseModel):  # type: ignore[name-defined,misc]
    """A city."""

    name: str
    size: int


TEMPERATURE = {
    "type": "function",
    "function": {
        "name": "temperature",
        "description": "The temperature of a city in degrees Celsius.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("clients"), "--rate", "100000", script=SCRIPT) as server:
        yield server


# --- openai -------------------------------------------------------------------------------------------------------


def openai_client(server: Serving) -> Any:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def round_trip(server: Serving, *, stream: bool) -> tuple[str, list[str]]:
    """Answer calls of `temperature` until there is an answer; return it and the cities in the calls."""
    client, turns, cities = openai_client(server), [user("Which is warm, Oslo or Rome?")], list[str]()
    for _ in range(5):
        reply = client.chat.completions.create(model="coc", messages=turns, tools=[TEMPERATURE], stream=stream)
        message = joined(reply) if stream else reply.choices[0].message.model_dump(exclude_none=True)
        if not message.get("tool_calls"):
            return message["content"], cities
        turns.append({name: message[name] for name in ("role", "tool_calls")})
        for call in message["tool_calls"]:
            city = json.loads(call["function"]["arguments"])["city"]
            cities.append(city)
            turns.append({"role": "tool", "tool_call_id": call["id"], "content": str(WARMTH[city])})
    raise AssertionError("no answer")


def joined(chunks: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in chunks:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        message["tool_calls"] += [call.model_dump(exclude={"index"}) for call in delta.tool_calls or ()]
    return message


@pytest.mark.parametrize("stream", [False, True])
def test_openai_tools_are_functions_of_the_program(server: Serving, stream: bool) -> None:
    answer, cities = round_trip(server, stream=stream)
    assert answer == "Rome" and cities == ["Oslo", "Rome"]


def test_openai_results_of_unknown_calls_start_a_new_run(server: Serving) -> None:
    """If the run of a call is gone, nothing is lost, because the conversation has everything."""
    made = {"id": "call_gone", "type": "function", "function": {"name": "temperature", "arguments": "{}"}}
    turns = [user(PRODUCT), {"role": "assistant", "tool_calls": [made]}]
    turns.append({"role": "tool", "tool_call_id": "call_gone", "content": "4"})
    reply = openai_client(server).chat.completions.create(model="coc", messages=turns)
    assert reply.choices[0].message.content == "42"
    run = server.client.get("/api/runs", params={"limit": 1}).json()["runs"][0]
    assert "Result of a function: 4" in run["question"] and "called temperature({})" in run["question"]


def test_openai_function_names_that_are_not_identifiers(server: Serving) -> None:
    named = {"type": "function", "function": {**TEMPERATURE["function"], "name": "get-news"}}  # type: ignore[dict-item]
    reply = openai_client(server).chat.completions.create(model="coc", messages=[user("What is new?")], tools=[named])
    (call,) = reply.choices[0].message.tool_calls
    assert call.function.name == "get-news" and json.loads(call.function.arguments) == {"city": "Rome"}


def test_openai_results_of_other_calls_are_ignored(server: Serving) -> None:
    client, question = openai_client(server), user("Which is warm?")
    first = client.chat.completions.create(model="coc", messages=[question], tools=[TEMPERATURE]).choices[0].message
    (call,) = first.tool_calls
    results = [{"role": "tool", "tool_call_id": id, "content": "24"} for id in (call.id, "call_other")]
    reply = client.chat.completions.create(model="coc", messages=[question, first, *results], tools=[TEMPERATURE])
    assert json.loads(reply.choices[0].message.tool_calls[0].function.arguments) == {"city": "Rome"}


def test_openai_typed_output_by_function_and_by_schema(server: Serving) -> None:
    parsed = openai_client(server).chat.completions.parse(
        model="coc", messages=[user("Describe Rome")], response_format=City
    )
    assert parsed.choices[0].message.parsed == City(name="Rome", size=3000)
    function = {"type": "function", "function": {"name": "City", "parameters": City.model_json_schema()}}
    for choice in ("required", {"type": "function", "function": {"name": "City"}}):
        reply = openai_client(server).chat.completions.create(
            model="coc", messages=[user("Describe Rome")], tools=[function], tool_choice=choice
        )
        (call,) = reply.choices[0].message.tool_calls
        assert call.function.name == "City" and City.model_validate_json(call.function.arguments).size == 3000
    unused = openai_client(server).chat.completions.create(
        model="coc", messages=[user(PRODUCT)], tools=[TEMPERATURE], tool_choice="none"
    )
    assert unused.choices[0].message.content == "42"


def test_openai_responses_and_streams(server: Serving) -> None:
    assert openai_client(server).responses.create(model="coc", input=PRODUCT).output_text == "42"
    chunks = openai_client(server).chat.completions.create(model="coc", messages=[user(PRODUCT)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "42"


FLAT = {"type": "function", **TEMPERATURE["function"]}  # type: ignore[dict-item]


@pytest.mark.parametrize("stream", [False, True])
def test_openai_responses_with_tools(server: Serving, stream: bool) -> None:
    turns: list[Any] = [user("Which is warm?")]
    cities = []
    for _ in range(3):
        reply = openai_client(server).responses.create(model="coc", input=turns, tools=[FLAT], stream=stream)
        if stream:
            events = list(reply)
            assert [event.sequence_number for event in events] == list(range(len(events)))
            reply = events[-1].response
            assert events[-1].type == "response.completed"
        calls = [item for item in reply.output if item.type == "function_call"]
        turns += [item.model_dump(exclude_none=True) for item in calls]
        for call in calls:
            cities.append(json.loads(call.arguments)["city"])
            result = {"type": "function_call_output", "call_id": call.call_id, "output": str(WARMTH[cities[-1]])}
            turns.append(result)
        if not calls:
            break
    assert reply.output_text == "Rome" and cities == ["Oslo", "Rome"]


def test_openai_responses_by_function(server: Serving) -> None:
    function = {"type": "function", "name": "City", "parameters": City.model_json_schema()}
    for choice in ("required", {"type": "function", "name": "City"}):
        reply = openai_client(server).responses.create(
            model="coc", input="Describe Rome", tools=[function], tool_choice=choice
        )
        (call,) = reply.output
        assert (call.type, call.name) == ("function_call", "City")
        assert City.model_validate_json(call.arguments) == City(name="Rome", size=3000)
    unused = openai_client(server).responses.create(model="coc", input=PRODUCT, tools=[FLAT], tool_choice="none")
    assert unused.output_text == "42"


OTHER: dict[str, Any] = {"type": "function", "function": {"name": "other"}}
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"n": 2}, "n", "send several requests"),
        ({"functions": [{"name": "f"}]}, "functions", "send tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools", "custom"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tools": [TEMPERATURE], "tool_choice": "sometimes"}, "tool_choice", "sometimes"),
        ({"tools": [TEMPERATURE], "tool_choice": OTHER}, "tool_choice", "a function of tools by name"),
        ({"messages": [PICTURE]}, "messages", "/api/files"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
def test_openai_chat_requests_that_are_refused(server: Serving, more: Any, param: str, words: str) -> None:
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        openai_client(server).chat.completions.create(**{"model": "coc", "messages": [user(PRODUCT)], **more})
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"background": True}, "background", "POST /api/runs"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send earlier messages again"),
        ({"tools": [{"type": "web_search"}]}, "tools", "web_search"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tools": [FLAT], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice", "by name"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
def test_openai_responses_requests_that_are_refused(server: Serving, more: Any, param: str, words: str) -> None:
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        openai_client(server).responses.create(model="coc", input=PRODUCT, **more)
    assert refused.value.param == param


def test_openai_default_values_are_accepted(server: Serving) -> None:
    """Clients send these values by default."""
    reply = openai_client(server).chat.completions.create(
        model="coc", messages=[user(PRODUCT)], n=1, tool_choice="auto"
    )
    assert [choice.message.content for choice in reply.choices] == ["42"]
    assert openai_client(server).responses.create(model="coc", input=PRODUCT, background=False).output_text == "42"


def test_run_with_an_open_call_can_be_cancelled(server: Serving) -> None:
    reply = openai_client(server).chat.completions.with_raw_response.create(
        model="coc", messages=[user("Which is warm?")], tools=[TEMPERATURE]
    )
    id = reply.headers["x-coc-run"]
    assert server.run(id)["state"] == "running"  # it waits for the result
    server.client.post(f"/api/runs/{id}/cancel", json={})
    assert server.over(id)["state"] == "cancelled"


def test_reading_a_common_schema_takes_milliseconds(server: Serving) -> None:
    """Checks of uncommon schemas take half a second in a process that imports jsonschema; common ones need none."""
    from chainofcode.methods import answer_type_of

    answer_type = answer_type_of(City.model_json_schema())
    assert answer_type is not None and answer_type.read('{"name": "Rome", "size": 1}') == {"name": "Rome", "size": 1}
    started = time.process_time()
    for _ in range(100):
        answer_type = answer_type_of(City.model_json_schema())
        assert answer_type is not None
        answer_type.read('{"name": "Rome", "size": 1}')
    assert (time.process_time() - started) / 100 < 0.02


@pytest.mark.alone
def test_schema_output_costs_a_client_milliseconds(server: Serving) -> None:
    """It once added 791 ms to each request."""
    client, seconds = openai_client(server), {False: list[float](), True: list[float]()}
    for _ in range(12):
        for is_typed, taken in seconds.items():
            more = {"response_format": City} if is_typed else {}
            started = time.perf_counter()
            client.chat.completions.parse(model="coc", messages=[user("Describe Rome")], **more)
            taken.append(time.perf_counter() - started)
    added = statistics.median(seconds[True]) - statistics.median(seconds[False])
    assert added < 0.1, seconds
