"""A table of clients of `coc serve`, with one test per cell: `python tests/test_client_table.py` writes the table.

The tests use the real packages. A cell of the table in docs/clients.md has ✓ if its test here passes, or how the client
shows the result, or the reason why there is no test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ROOT
from npm_packages import installed, node
from python_packages import interpreter_with
from serving import Serving, served
from test_clients import PRODUCT, SCRIPT, TEMPERATURE, WARMTH, City, openai_client, round_trip, user

pytest.importorskip("starlette", reason="the extra `server` is not installed")
DIVISION = "Divide one by zero"
WARM = "Which is warm, Oslo or Rome?"
ROME = {"name": "Rome", "size": 3000}
COLUMNS = ("answers", "typed output", "tools", "streams", "no answer")
PINNED = ("instructor==1.17.0", "litellm==1.106.2", "mcp==2.3.0")
PAGE = ROOT / "docs" / "clients.md"


@dataclasses.dataclass
class Bench:
    """A server, the cache for packages installed for one client, and the results of clients that run in one process."""

    server: Serving
    cache: pytest.Cache
    done: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.server.url}/v1"


Cell = Callable[[Bench], None]
CLIENTS = (
    "openai (Python)",
    "openai (npm)",
    "langchain-openai",
    "pydantic-ai",
    "instructor",
    "litellm",
    "llm",
    "mcp",
    "fastmcp",
)
CHECKS: dict[tuple[str, str], Cell] = {}  # by client and column
TEXTS = {  # the texts of the table; these cells have no test
    ("instructor", "tools"): "not offered: its functions are typed output",
    ("mcp", "tools"): "not offered: MCP clients send no functions",
    ("fastmcp", "tools"): "not offered: MCP clients send no functions",
}


def cell(client: str, column: str, text: str = "✓") -> Callable[[Cell], Cell]:
    """Register the test of a cell, and the text in the table if it passes."""

    def register(check: Cell) -> Cell:
        CHECKS[client, column], TEXTS[client, column] = check, text
        return check

    return register


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Bench]:
    failing = [{"when": "", "reply": "```python\nanswer = 1 / 0\n```"}]
    with served(tmp_path_factory.mktemp("table"), "--rate", "100000", script=[*SCRIPT, *failing]) as server:
        yield Bench(server, pytestconfig.cache)  # type: ignore[arg-type]


# --- openai (Python) ----------------------------------------------------------------------------------------------


@cell("openai (Python)", "answers")
def _(bench: Bench) -> None:
    client = openai_client(bench.server)
    assert client.chat.completions.create(model="coc", messages=[user(PRODUCT)]).choices[0].message.content == "42"
    assert client.responses.create(model="coc", input=PRODUCT).output_text == "42"


@cell("openai (Python)", "typed output")
def _(bench: Bench) -> None:
    parse = openai_client(bench.server).chat.completions.parse
    reply = parse(model="coc", messages=[user("Describe Rome")], response_format=City)
    assert reply.choices[0].message.parsed == City(**ROME)


@cell("openai (Python)", "tools")
def _(bench: Bench) -> None:
    assert round_trip(bench.server, stream=False) == ("Rome", ["Oslo", "Rome"])


@cell("openai (Python)", "streams")
def _(bench: Bench) -> None:
    chunks = openai_client(bench.server).chat.completions.create(model="coc", messages=[user(PRODUCT)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "42"


@cell("openai (Python)", "no answer", "`message.refusal`")
def _(bench: Bench) -> None:
    client = openai_client(bench.server)
    reply = client.chat.completions.create(model="coc", messages=[user(DIVISION)]).choices[0].message
    assert reply.content is None and reply.refusal.startswith("no answer: ")
    parsed = client.chat.completions.parse(model="coc", messages=[user(DIVISION)], response_format=City)
    assert parsed.choices[0].message.parsed is None and parsed.choices[0].message.refusal.startswith("no answer: ")
    chunks = client.chat.completions.create(model="coc", messages=[user(DIVISION)], stream=True)
    assert "".join(chunk.choices[0].delta.refusal or "" for chunk in chunks).startswith("no answer: ")
    response = client.responses.create(model="coc", input=DIVISION)
    assert (response.status, response.output) == ("failed", []) and response.error.message.startswith("no answer: ")


# --- openai (npm) -------------------------------------------------------------------------------------------------

NPM = """
import OpenAI from "openai";
const [baseURL, task, content, warm, tool] = [...process.argv.slice(2, 4), ...JSON.parse(process.argv[4])];
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const said = async (more = {}) => (await client.chat.completions.create({ model: "coc", messages: [{ role: "user", content }], ...more })).choices[0].message;
const schema = { type: "object", properties: { name: { type: "string" }, size: { type: "integer" } }, required: ["name", "size"] };
const tasks = {
  answers: async () => [(await said()).content, (await client.responses.create({ model: "coc", input: content })).output_text],
  typed: async () => JSON.parse((await said({ response_format: { type: "json_schema", json_schema: { name: "City", schema } } })).content),
  async tools() {
    const asked = [];
    const temperature = ({ city }) => (asked.push(city), warm[city]);
    const tools = [{ type: "function", function: { ...tool.function, parse: JSON.parse, function: temperature } }];
    const runner = client.chat.completions.runTools({ model: "coc", messages: [{ role: "user", content }], tools });
    return [await runner.finalContent(), asked];
  },
  async streams() {
    let text = "";
    const chunks = await client.chat.completions.create({ model: "coc", messages: [{ role: "user", content }], stream: true });
    for await (const chunk of chunks) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  refusal: async () => (({ content, refusal }) => [content, refusal.slice(0, 11)])(await said()),
};
console.log(JSON.stringify(await tasks[task]()));
"""


def run_npm_client(bench: Bench, task: str, *arguments: Any) -> Any:
    place = installed(bench.cache, "openai@7.55.0")
    (place / "asking.mjs").write_text(NPM)
    return printed([node(), place / "asking.mjs", bench.url, task, json.dumps(arguments)])


def printed(command: list[Any]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@cell("openai (npm)", "answers")
def _(bench: Bench) -> None:
    assert run_npm_client(bench, "answers", PRODUCT) == ["42", "42"]


@cell("openai (npm)", "typed output")
def _(bench: Bench) -> None:
    assert run_npm_client(bench, "typed", "Describe Rome") == ROME


@cell("openai (npm)", "tools")
def _(bench: Bench) -> None:
    assert run_npm_client(bench, "tools", WARM, WARMTH, TEMPERATURE) == ["Rome", ["Oslo", "Rome"]]


@cell("openai (npm)", "streams")
def _(bench: Bench) -> None:
    assert run_npm_client(bench, "streams", PRODUCT) == "42"


@cell("openai (npm)", "no answer", "`message.refusal`")
def _(bench: Bench) -> None:
    assert run_npm_client(bench, "refusal", DIVISION) == [None, "no answer: "]


# --- langchain-openai ---------------------------------------------------------------------------------------------


def langchain(bench: Bench) -> Any:
    package = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    return package.ChatOpenAI(base_url=bench.url, api_key="none", model="coc", max_retries=0)


@cell("langchain-openai", "answers")
def _(bench: Bench) -> None:
    assert langchain(bench).invoke(PRODUCT).content == "42"


@cell("langchain-openai", "typed output")
def _(bench: Bench) -> None:
    for method in ("function_calling", "json_schema"):
        assert langchain(bench).with_structured_output(City, method=method).invoke("Describe Rome") == City(**ROME)


@cell("langchain-openai", "tools")
def _(bench: Bench) -> None:
    bound = langchain(bench).bind_tools([TEMPERATURE])
    messages = pytest.importorskip("langchain_core.messages")
    turns = [messages.HumanMessage(WARM)]
    for _ in range(5):
        turns.append(bound.invoke(turns))
        if not (calls := turns[-1].tool_calls):
            break
        turns += [messages.ToolMessage(str(WARMTH[call["args"]["city"]]), tool_call_id=call["id"]) for call in calls]
    assert turns[-1].content == "Rome"


@cell("langchain-openai", "streams")
def _(bench: Bench) -> None:
    assert "".join(str(chunk.content) for chunk in langchain(bench).stream(PRODUCT)) == "42"


@cell("langchain-openai", "no answer", '`additional_kwargs["refusal"]`; typed: raises `OpenAIRefusalError`')
def _(bench: Bench) -> None:
    reply = langchain(bench).invoke(DIVISION)
    assert reply.content == "" and reply.additional_kwargs["refusal"].startswith("no answer: ")
    refusal = pytest.importorskip("langchain_openai.chat_models.base").OpenAIRefusalError
    with pytest.raises(refusal, match="no answer: "):
        langchain(bench).with_structured_output(City, method="json_schema").invoke(DIVISION)


# --- pydantic-ai --------------------------------------------------------------------------------------------------


def agent_of(bench: Bench, **more: Any) -> Any:
    ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(base_url=bench.url, api_key="none")
    return ai.Agent(models.OpenAIChatModel("coc", provider=provider), **more)


@cell("pydantic-ai", "answers")
def _(bench: Bench) -> None:
    assert asyncio.run(agent_of(bench).run(PRODUCT)).output == "42"


@cell("pydantic-ai", "typed output")
def _(bench: Bench) -> None:
    assert asyncio.run(agent_of(bench, output_type=City).run("Describe Rome")).output == City(**ROME)


@cell("pydantic-ai", "tools")
def _(bench: Bench) -> None:
    """With tools, typed output is one more tool, which the program calls last."""
    for question, more, expected in ((WARM, {}, "Rome"), ("Report on Rome", {"output_type": City}, City(**ROME))):
        agent = agent_of(bench, **more)

        @agent.tool_plain
        def temperature(city: str) -> int:
            """The temperature of a city in degrees Celsius."""
            return WARMTH[city]

        assert asyncio.run(agent.run(question)).output == expected


@cell("pydantic-ai", "streams")
def _(bench: Bench) -> None:
    async def use() -> str:
        async with agent_of(bench).run_stream(PRODUCT) as streamed:
            return "".join([part async for part in streamed.stream_text(delta=True)])

    assert asyncio.run(use()) == "42"


@cell("pydantic-ai", "no answer", "raises `ContentFilterError` with the reason")
def _(bench: Bench) -> None:
    error = pytest.importorskip("pydantic_ai.exceptions").ContentFilterError
    with pytest.raises(error, match="no answer: "):
        asyncio.run(agent_of(bench).run(DIVISION))


# --- instructor, litellm ------------------------------------------------------------------------------------------


ROMAN = ["Describe Rome"]
TASKS: dict[str, dict[str, list[Any]]] = {
    "instructor": {"answers": [PRODUCT], "typed": ROMAN, "streams": ROMAN, "refusal": [DIVISION]},
    "litellm": {
        "answers": [PRODUCT],
        "typed": ROMAN,
        "tools": [WARM, TEMPERATURE, WARMTH],
        "streams": [PRODUCT],
        "refusal": [DIVISION],
    },
}


def run_pinned_client(bench: Bench, client: str, task: str) -> Any:
    """Run a client that pins older versions of other packages in its own environment, in one process for all tasks."""
    if client not in bench.done:
        python = interpreter_with(bench.cache, *PINNED)
        script = ROOT / "tests" / "pinned_clients.py"
        bench.done[client] = printed([python, script, client, bench.url, json.dumps(TASKS[client])])
    return bench.done[client][task]


@cell("instructor", "answers")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "instructor", "answers") == "42"


@cell("instructor", "typed output")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "instructor", "typed") == ROME


@cell("instructor", "streams")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "instructor", "streams") == ROME


@cell("instructor", "no answer", "raises `InstructorRetryException` with the reason")
def _(bench: Bench) -> None:
    assert "due to no answer: " in run_pinned_client(bench, "instructor", "refusal")


@cell("litellm", "answers")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "litellm", "answers") == "42"


@cell("litellm", "typed output")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "litellm", "typed") == ROME


@cell("litellm", "tools")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "litellm", "tools") == "Rome"


@cell("litellm", "streams")
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "litellm", "streams") == "42"


@cell("litellm", "no answer", '`provider_specific_fields["refusal"]`')
def _(bench: Bench) -> None:
    assert run_pinned_client(bench, "litellm", "refusal").startswith("no answer: ")


# --- llm ----------------------------------------------------------------------------------------------------------


def llm_model(bench: Bench) -> Any:
    llm = pytest.importorskip("llm", reason="llm is not installed")
    home = bench.server.directory / "llm"
    home.mkdir(exist_ok=True)
    lines = ["- model_id: coc-here", "  model_name: coc", f"  api_base: {bench.url}", "  can_stream: true"]
    lines += ["  supports_schema: true", "  supports_tools: true"]
    (home / "extra-openai-models.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLM_USER_PATH", str(home))
        return llm.get_model("coc-here")


@cell("llm", "answers")
def _(bench: Bench) -> None:
    assert llm_model(bench).prompt(PRODUCT, key="none", stream=False).text() == "42"


@cell("llm", "typed output")
def _(bench: Bench) -> None:
    assert json.loads(llm_model(bench).prompt("Describe Rome", key="none", schema=City).text()) == ROME


@cell("llm", "tools")
def _(bench: Bench) -> None:
    def temperature(city: str) -> int:
        """The temperature of a city in degrees Celsius."""
        return WARMTH[city]

    assert llm_model(bench).chain(WARM, tools=[temperature], key="none").text() == "Rome"


@cell("llm", "streams")
def _(bench: Bench) -> None:
    assert "".join(llm_model(bench).prompt(PRODUCT, key="none", stream=True)) == "42"


@cell("llm", "no answer", "empty text; unless streamed, `response_json` has `refusal`")
def _(bench: Bench) -> None:
    reply = llm_model(bench).prompt(DIVISION, key="none", stream=False)
    assert reply.text() == ""
    assert reply.response_json["choices"][0]["message"]["refusal"].startswith("no answer: ")


# --- MCP ----------------------------------------------------------------------------------------------------------


def run_mcp_client(bench: Bench, package: str, **arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """Call `solve` with a package's client; return the result and the progress messages."""
    kind = pytest.importorskip(package, reason=f"{package} is not installed").Client
    messages: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(str(message))

    async def use() -> dict[str, Any]:
        more = {"progress_handler": on_progress} if package == "fastmcp" else {"progress_callback": on_progress}
        async with kind(f"{bench.server.url}/mcp") as client:
            result = await client.call_tool("solve", arguments, **more)
            assert not result.is_error
            return dict(result.structured_content)

    return asyncio.run(use()), messages


def _register_mcp(package: str) -> None:
    @cell(package, "answers")
    def _(bench: Bench) -> None:
        assert run_mcp_client(bench, package, question=PRODUCT)[0]["answer"] == "42"

    @cell(package, "typed output")
    def _(bench: Bench) -> None:
        assert run_mcp_client(bench, package, question=PRODUCT, answer_type="int")[0]["value"] == 42

    @cell(package, "streams", "✓ (progress)")
    def _(bench: Bench) -> None:
        assert any("request" in message for message in run_mcp_client(bench, package, question=PRODUCT)[1])

    @cell(package, "no answer", "`answer` is null, `error` has the reason")
    def _(bench: Bench) -> None:
        outcome, _ = run_mcp_client(bench, package, question=DIVISION)
        assert outcome["answer"] is None and outcome["error"]


for name in ("mcp", "fastmcp"):
    _register_mcp(name)


# --- the table ----------------------------------------------------------------------------------------------------


def parameters_of(client: str, column: str) -> Any:
    """A cell as test parameters. Creating environments takes long, so clients that need one are tested at night."""
    marks = [pytest.mark.nightly] if client in ("instructor", "litellm") else []
    return pytest.param(client, column, id=f"{client}-{column}", marks=marks)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("client", "column"), [parameters_of(*place) for place in CHECKS])
def test_cell_of_the_table(bench: Bench, client: str, column: str) -> None:
    CHECKS[client, column](bench)


def table() -> str:
    rows = [[client, *(TEXTS[client, column] for column in COLUMNS)] for client in CLIENTS]
    lines = [f"| {' | '.join(row)} |" for row in [["client", *COLUMNS], *rows]]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def test_the_documentation_has_this_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def rewrite() -> None:
    """Replace the table in docs/clients.md."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("| client |")
    _, _, after = rest.partition("\n\n")
    PAGE.write_text(f"{before}{table()}\n\n{after}", encoding="utf-8")


if __name__ == "__main__":
    rewrite()
