"""Clients that people use, each with its real package: answers, typed output, tools, streams. Makes the table of docs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT
from npm_packages import installed, node
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


def talker(server: Serving) -> Any:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def round_trip(server: Serving, *, stream: bool) -> tuple[str, list[str]]:
    """Answer calls of `temperature` until there is an answer; gives it, and the cities that were asked for."""
    client, turns, asked = talker(server), [user("Which is warm, Oslo or Rome?")], list[str]()
    for _ in range(5):
        said = client.chat.completions.create(model="coc", messages=turns, tools=[TEMPERATURE], stream=stream)
        message = _gathered(said) if stream else said.choices[0].message.model_dump(exclude_none=True)
        if not message.get("tool_calls"):
            return message["content"], asked
        turns.append({name: message[name] for name in ("role", "tool_calls")})
        for call in message["tool_calls"]:
            city = json.loads(call["function"]["arguments"])["city"]
            asked.append(city)
            turns.append({"role": "tool", "tool_call_id": call["id"], "content": str(WARMTH[city])})
    raise AssertionError("no answer")


def _gathered(chunks: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in chunks:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        message["tool_calls"] += [call.model_dump(exclude={"index"}) for call in delta.tool_calls or ()]
    return message


@pytest.mark.parametrize("stream", [False, True])
def test_openai_tools_are_functions_of_the_program(server: Serving, stream: bool) -> None:
    answer, asked = round_trip(server, stream=stream)
    assert answer == "Rome" and asked == ["Oslo", "Rome"]


def test_openai_results_that_are_late_or_for_another_start_a_new_run(server: Serving) -> None:
    """Nothing is lost if the run is: the conversation has all of it."""
    made = {"id": "call_gone", "type": "function", "function": {"name": "temperature", "arguments": "{}"}}
    turns = [user(PRODUCT), {"role": "assistant", "tool_calls": [made]}]
    turns.append({"role": "tool", "tool_call_id": "call_gone", "content": "4"})
    said = talker(server).chat.completions.create(model="coc", messages=turns)
    assert said.choices[0].message.content == "42"
    run = server.client.get("/api/runs", params={"limit": 1}).json()["runs"][0]
    assert "Result of a function: 4" in run["question"] and "called temperature({})" in run["question"]


def test_openai_names_that_no_program_can_call(server: Serving) -> None:
    named = {"type": "function", "function": {**TEMPERATURE["function"], "name": "get-news"}}  # type: ignore[dict-item]
    said = talker(server).chat.completions.create(model="coc", messages=[user("What is new?")], tools=[named])
    (call,) = said.choices[0].message.tool_calls
    assert call.function.name == "get-news" and json.loads(call.function.arguments) == {"city": "Rome"}


def test_openai_results_of_other_calls_are_ignored(server: Serving) -> None:
    client, question = talker(server), user("Which is warm?")
    first = client.chat.completions.create(model="coc", messages=[question], tools=[TEMPERATURE]).choices[0].message
    (call,) = first.tool_calls
    results = [{"role": "tool", "tool_call_id": id, "content": "24"} for id in (call.id, "call_other")]
    said = client.chat.completions.create(model="coc", messages=[question, first, *results], tools=[TEMPERATURE])
    assert json.loads(said.choices[0].message.tool_calls[0].function.arguments) == {"city": "Rome"}


def test_openai_typed_output_by_function_and_by_schema(server: Serving) -> None:
    parsed = talker(server).chat.completions.parse(model="coc", messages=[user("Describe Rome")], response_format=City)
    assert parsed.choices[0].message.parsed == City(name="Rome", size=3000)
    function = {"type": "function", "function": {"name": "City", "parameters": City.model_json_schema()}}
    for choice in ("required", {"type": "function", "function": {"name": "City"}}):
        said = talker(server).chat.completions.create(
            model="coc", messages=[user("Describe Rome")], tools=[function], tool_choice=choice
        )
        (call,) = said.choices[0].message.tool_calls
        assert call.function.name == "City" and City.model_validate_json(call.function.arguments).size == 3000
    unused = talker(server).chat.completions.create(
        model="coc", messages=[user(PRODUCT)], tools=[TEMPERATURE], tool_choice="none"
    )
    assert unused.choices[0].message.content == "42"


def test_openai_responses_and_streams(server: Serving) -> None:
    assert talker(server).responses.create(model="coc", input=PRODUCT).output_text == "42"
    chunks = talker(server).chat.completions.create(model="coc", messages=[user(PRODUCT)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "42"


FLAT = {"type": "function", **TEMPERATURE["function"]}  # type: ignore[dict-item]


@pytest.mark.parametrize("stream", [False, True])
def test_openai_responses_with_tools(server: Serving, stream: bool) -> None:
    turns: list[Any] = [user("Which is warm?")]
    asked = []
    for _ in range(3):
        said = talker(server).responses.create(model="coc", input=turns, tools=[FLAT], stream=stream)
        if stream:
            events = list(said)
            assert [one.sequence_number for one in events] == list(range(len(events)))
            said = events[-1].response
            assert events[-1].type == "response.completed"
        calls = [item for item in said.output if item.type == "function_call"]
        turns += [item.model_dump(exclude_none=True) for item in calls]
        for call in calls:
            asked.append(json.loads(call.arguments)["city"])
            result = {"type": "function_call_output", "call_id": call.call_id, "output": str(WARMTH[asked[-1]])}
            turns.append(result)
        if not calls:
            break
    assert said.output_text == "Rome" and asked == ["Oslo", "Rome"]


def test_openai_responses_by_function(server: Serving) -> None:
    function = {"type": "function", "name": "City", "parameters": City.model_json_schema()}
    for choice in ("required", {"type": "function", "name": "City"}):
        said = talker(server).responses.create(model="coc", input="Describe Rome", tools=[function], tool_choice=choice)
        (call,) = said.output
        assert (call.type, call.name) == ("function_call", "City")
        assert City.model_validate_json(call.arguments) == City(name="Rome", size=3000)
    unused = talker(server).responses.create(model="coc", input=PRODUCT, tools=[FLAT], tool_choice="none")
    assert unused.output_text == "42"
    refused = [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [FLAT], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"background": True}, "background"),
    ]
    for more, param in refused:
        reply = server.client.post("/v1/responses", json={"model": "coc", "input": PRODUCT, **more})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


NPM = """
import OpenAI from "openai";
const [baseURL, question, warm, tool] = [process.argv[2], ...JSON.parse(process.argv[3])];
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const asking = (content, more = {}) => client.chat.completions.create({ model: "coc", messages: [{ role: "user", content }], ...more });
const told = { answer: (await asking(question)).choices[0].message.content, streamed: "", asked: [] };
for await (const chunk of await asking(question, { stream: true })) told.streamed += chunk.choices[0]?.delta?.content ?? "";
told.response = (await client.responses.create({ model: "coc", input: question })).output_text;
const schema = { type: "object", properties: { name: { type: "string" }, size: { type: "integer" } }, required: ["name", "size"] };
const typed = await asking("Describe Rome", { response_format: { type: "json_schema", json_schema: { name: "City", schema } } });
told.typed = JSON.parse(typed.choices[0].message.content);
const temperature = ({ city }) => (told.asked.push(city), warm[city]);
const runner = client.chat.completions.runTools({
  model: "coc",
  messages: [{ role: "user", content: "Which is warm?" }],
  tools: [{ type: "function", function: { ...tool.function, parse: JSON.parse, function: temperature } }],
});
told.warm = await runner.finalContent();
console.log(JSON.stringify(told));
"""


def test_openai_of_npm(server: Serving, pytestconfig: pytest.Config) -> None:
    place = installed(pytestconfig.cache, "openai@7.55.0")  # type: ignore[arg-type]
    (place / "asking.mjs").write_text(NPM)
    given = json.dumps([PRODUCT, WARMTH, TEMPERATURE])
    command = [node(), place / "asking.mjs", f"{server.url}/v1", given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "answer": "42",
        "streamed": "42",
        "response": "42",
        "warm": "Rome",
        "typed": {"name": "Rome", "size": 3000},
        "asked": ["Oslo", "Rome"],
    }


def test_a_client_that_leaves_with_a_call_open_ends_its_run(server: Serving) -> None:
    said = talker(server).chat.completions.with_raw_response.create(
        model="coc", messages=[user("Which is warm?")], tools=[TEMPERATURE]
    )
    id = said.headers["x-coc-run"]
    assert server.run(id)["state"] == "running"  # it waits for the result
    server.client.post(f"/api/runs/{id}/cancel", json={})
    assert server.over(id)["state"] == "cancelled"


def test_schema_output_adds_milliseconds(server: Serving) -> None:
    """Half a second each went into a process that imports jsonschema; common schemas do without."""
    from chainofcode.methods import answer_type_of

    wanted = answer_type_of(City.model_json_schema())
    assert wanted is not None and wanted.read('{"name": "Rome", "size": 1}') == {"name": "Rome", "size": 1}
    started = time.process_time()
    for _ in range(100):
        wanted = answer_type_of(City.model_json_schema())
        assert wanted is not None
        wanted.read('{"name": "Rome", "size": 1}')
    assert (time.process_time() - started) / 100 < 0.02


# --- frameworks ---------------------------------------------------------------------------------------------------


def test_langchain(server: Serving) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    chat = langchain.ChatOpenAI(base_url=f"{server.url}/v1", api_key="none", model="coc", max_retries=0)
    assert chat.invoke(PRODUCT).content == "42"
    assert "".join(str(chunk.content) for chunk in chat.stream(PRODUCT)) == "42"
    for method in ("function_calling", "json_schema"):
        assert chat.with_structured_output(City, method=method).invoke("Describe Rome") == City(name="Rome", size=3000)
    messages = pytest.importorskip("langchain_core.messages")
    bound, turns = chat.bind_tools([TEMPERATURE]), [messages.HumanMessage("Which is warm, Oslo or Rome?")]
    for _ in range(5):
        turns.append(bound.invoke(turns))
        if not turns[-1].tool_calls:
            break
        calls = turns[-1].tool_calls
        turns += [messages.ToolMessage(str(WARMTH[call["args"]["city"]]), tool_call_id=call["id"]) for call in calls]
    assert turns[-1].content == "Rome"


def test_pydantic_ai(server: Serving) -> None:
    ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    model = models.OpenAIChatModel("coc", provider=provider)

    async def use() -> tuple[Any, Any, Any]:
        said = await ai.Agent(model).run(PRODUCT)
        typed = await ai.Agent(model, output_type=City).run("Describe Rome")
        agent = ai.Agent(model)

        @agent.tool_plain
        def temperature(city: str) -> int:
            """The temperature of a city in degrees Celsius."""
            return WARMTH[city]

        return said.output, typed.output, (await agent.run("Which is warm, Oslo or Rome?")).output

    assert asyncio.run(use()) == ("42", City(name="Rome", size=3000), "Rome")


def test_pydantic_ai_with_tools_and_typed_output(server: Serving) -> None:
    """Its typed output is a tool among others: the program ends by calling it."""
    ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    agent = ai.Agent(models.OpenAIChatModel("coc", provider=provider), output_type=City)

    @agent.tool_plain
    def temperature(city: str) -> int:
        return WARMTH[city]

    assert asyncio.run(agent.run("Report on Rome")).output == City(name="Rome", size=3000)


@pytest.mark.parametrize(
    ("name", "expected"), [("instructor", ["Rome 3000"]), ("litellm", ["42", "temperature"])], ids=str
)
def test_clients_that_pin_older_packages(server: Serving, name: str, expected: list[str]) -> None:
    python = os.environ.get("COC_CLIENTS", "")
    if not python:
        pytest.skip("COC_CLIENTS names no Python with instructor, litellm and mcp, which pin older versions of openai")
    asked = {"city": "Describe Rome", "product": PRODUCT, "warm": "Which is warm?"}
    script = str(ROOT / "tests" / "pinned_clients.py")
    command = [python, script, name, f"{server.url}/v1", json.dumps(asked), json.dumps(TEMPERATURE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == expected


def test_llm(server: Serving, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pytest.importorskip("llm", reason="llm is not installed")
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    lines = ["- model_id: coc-here", "  model_name: coc", f"  api_base: {server.url}/v1", "  can_stream: true"]
    (tmp_path / "extra-openai-models.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import llm

    assert llm.get_model("coc-here").prompt(PRODUCT, key="none").text() == "42"


def test_fastmcp(server: Serving) -> None:
    fastmcp = pytest.importorskip("fastmcp", reason="fastmcp is not installed")

    async def use() -> Any:
        async with fastmcp.Client(f"{server.url}/mcp") as client:
            names = [tool.name for tool in await client.list_tools()]
            return names, await client.call_tool("solve", {"question": PRODUCT})

    names, said = asyncio.run(use())
    assert "solve" in names and "42" in str(said)


# --- the table ----------------------------------------------------------------------------------------------------

# What the tests above show of each client; "—" is what the client does not offer.
TABLE = {
    "openai (Python)": ("✓", "✓", "✓", "✓"),
    "openai (npm)": ("✓", "✓", "✓", "✓"),
    "langchain-openai": ("✓", "✓", "✓", "✓"),
    "pydantic-ai": ("✓", "✓", "✓", "—"),
    "instructor": ("—", "✓", "—", "—"),
    "litellm": ("✓", "—", "✓", "—"),
    "llm": ("✓", "—", "—", "✓"),
    "fastmcp, mcp": ("✓", "✓", "—", "—"),
}


def test_the_documentation_has_this_table() -> None:
    rows = [f"| {name} | {' | '.join(cells)} |" for name, cells in TABLE.items()]
    assert "\n".join(rows) in (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
