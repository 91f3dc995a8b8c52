"""Tools: functions of the user's, run on the host, called by programs."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chainofcode import Program, ScriptedLM, arun, run, solve
from chainofcode.emulator import Pause, Table, Tool, Toolbox, read_only, tool
from chainofcode.errors import InputError
from chainofcode.methods import compose


def price_of(item: str, count: int = 1) -> float:
    """The price of so many of an item, in euros."""
    return {"fig": 0.5, "saw": 12.0}[item] * count


def test_a_tool_runs_on_the_host_and_the_trace_says_so() -> None:
    result = run("total = price_of('fig', count=4) + price_of('saw')\nanswer = total", tools=[price_of])
    assert result.answer == 14.0
    assert [(step.by, step.call) for step in result.trace.steps if step.by != "python"] == [
        ("tool", "price_of('fig', count=4)"), ("tool", "price_of('saw')"),
    ]  # fmt: skip
    assert result.trace.lm_calls == 0


def test_async_tools_and_models_side_by_side() -> None:
    async def weather(city: str) -> str:
        await asyncio.sleep(0.01)
        return f"rain in {city}"

    result = run("w = weather('Oslo')\nanswer = (w, mood(w))", {"mood('rain in Oslo')": "sad"}, tools=[weather])
    assert result.answer == ("rain in Oslo", "sad")


def test_an_error_is_the_programs_to_handle() -> None:
    program = "try:\n    p = price_of('car')\nexcept Exception as e:\n    p = str(e)\nanswer = p"
    assert run(program, tools=[price_of]).answer == "price_of: KeyError: 'car'"
    result = run("x = 1\nanswer = price_of('car')", tools=[price_of])
    assert result.reason == "error"
    assert result.error is not None
    assert (result.error.type, result.error.line) == ("ToolError", 2)
    step = next(step for step in result.trace.steps if step.by == "tool")
    assert step.error == "price_of: KeyError: 'car'"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("price_of('fig', count='many')", "the argument 'count' does not fit"),
        ("price_of()", "missing a required argument: 'item'"),
        ("price_of('fig', 1, 2)", "too many positional arguments"),
        ("price_of(object())", "plain values"),
        ("price_of('fig', count=[{'a': object()}])", "plain values"),
    ],
)
def test_arguments_are_checked(call: str, told: str) -> None:
    result = run(f"answer = {call}", tools=[price_of])
    assert result.error is not None
    assert told in result.error.message


def test_results_are_bounded_and_data() -> None:
    @dataclass
    class Trip:
        city: str
        day: datetime.date

    def big() -> str:
        return "x" * 2_000_000

    def odd() -> object:
        return object()

    def trip() -> Trip:
        return Trip("Rome", datetime.date(2024, 2, 29))

    def facts() -> dict[str, Any]:
        return {"when": datetime.date(2024, 2, 29), "tags": {"a"}}

    tools = [big, odd, trip, facts]
    assert "2,000,002 bytes" in str(run("answer = big()", tools=tools).error)
    assert "object" in str(run("answer = odd()", tools=tools).error)
    assert run("answer = trip().city", tools=tools).answer == "Rome"
    assert run("answer = facts()['when'].year", tools=tools).answer == 2024


def test_a_tool_wins_over_the_library_and_the_program_over_the_tool() -> None:
    def sqrt(x: float) -> str:
        return "mine"

    assert run("answer = sqrt(4)", tools=[sqrt]).answer == "mine"
    assert run("def sqrt(x): return 'own'\nanswer = sqrt(4)", tools=[sqrt]).answer == "own"
    assert run("def sqrt(x): ...\nanswer = sqrt(4)", tools=[sqrt]).answer == "mine"


def test_approval() -> None:
    asked: list[str] = []

    def refuse(used: Tool, call: str) -> bool:
        asked.append(call)
        return False

    async def allow(used: Tool, call: str) -> bool:
        return True

    box = Toolbox.of([price_of], approve=refuse)
    result = run("answer = price_of('fig')", tools=box)
    assert asked == ["price_of('fig')"]
    assert result.error is not None
    assert result.error.message == "price_of was not approved"
    assert run("answer = price_of('fig')", tools=Toolbox.of([price_of], approve=allow)).answer == 0.5


def test_what_is_approved_is_what_is_called_whatever_the_guest_says() -> None:
    asked: list[str] = []

    def refuse(used: Tool, call: str) -> bool:
        asked.append(call)
        return False

    lie = Pause("call", "price_of('fig')", "price_of", ("saw",), {"count": 9}, (), 1, None, Program(""), None)
    answered = asyncio.run(Toolbox.of([price_of], approve=refuse).around(Table([])).answer(lie))
    assert answered.error == "price_of was not approved"
    assert asked == ["price_of('saw', count=9)"]


def test_read_only() -> None:
    @read_only
    def look(at: str) -> str:
        return at

    class Table:
        @read_only
        def look(self, at: str) -> str:
            return at

    assert not tool(look).has_effect
    assert not tool(Table().look).has_effect
    assert tool(price_of).has_effect
    assert not Toolbox.of([look]).has_effects


def test_the_model_is_told_of_tools() -> None:
    lm = ScriptedLM(["```python\nanswer = price_of('fig')\n```"])
    assert solve("What does a fig cost?", lm, tools=[price_of]).answer == 0.5
    prompt = lm.requests[0][-1].content
    assert "def price_of(item: str, count: int = 1) -> float:" in prompt
    assert "The price of so many of an item, in euros." in prompt


def test_a_repaired_program_does_nothing_twice() -> None:
    done: list[str] = []

    def send(to: str) -> int:
        done.append(to)
        return len(done)

    replies = [
        "```python\na = send('Ann')\nb = send('Ann')\nanswer = a / 0\n```",
        "```python\na = send('Ann')\nb = send('Ann')\nc = send('Bob')\nanswer = [a, b, c]\n```",
    ]
    result = solve("Send it.", ScriptedLM(replies), tools=[send], method=compose("coc", repairs=1))
    assert result.answer == [1, 2, 3]
    assert done == ["Ann", "Ann", "Bob"]


def test_votes_and_effects_do_not_go_together() -> None:
    lm = ScriptedLM([])
    with pytest.raises(InputError, match="not with tools that have effects"):
        solve("What?", lm, tools=[price_of], method=compose("coc", votes=3))
    lm = ScriptedLM(["```python\nanswer = price_of('fig')\n```"] * 3)
    harmless = tool(price_of, has_effect=False)
    assert solve("What?", lm, tools=[harmless], method=compose("coc", votes=3)).answer == 0.5


def test_what_is_no_tool() -> None:
    with pytest.raises(InputError, match="a tool is a function"):
        run("answer = 1", tools=[3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="same name"):
        run("answer = 1", tools=[price_of, price_of])
    with pytest.raises(InputError, match="needs a name"):
        run("answer = 1", tools=[lambda: 1])
    with pytest.raises(InputError, match="needs a name"):
        tool(price_of, name="import")
    with pytest.raises(InputError, match="Python's own"):
        tool(price_of, name="list")


async def slow() -> int:
    await asyncio.sleep(60)
    return 1


def slow_and_plain() -> int:
    time.sleep(60)
    return 1


@pytest.mark.parametrize("function", [slow, slow_and_plain])
def test_cancelling_while_a_tool_runs(function: Callable[[], Any]) -> None:
    async def cancel() -> float:
        task = asyncio.create_task(arun("answer = slow()", tools=[tool(function, name="slow")]))
        await asyncio.sleep(0.5)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    started = time.monotonic()
    assert asyncio.run(cancel()) < 5
    assert time.monotonic() - started < 10  # nor does anything wait for it afterwards


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), ValueError("no")])
def test_whatever_a_tool_raises_is_the_programs(error: BaseException) -> None:
    def fail() -> None:
        raise error

    result = run("answer = fail()", tools=[fail])
    assert result.error is not None
    assert type(error).__name__ in result.error.message


def test_nothing_twice_over_several_repairs_however_it_is_written() -> None:
    done: list[str] = []

    def send(to: str) -> int:
        done.append(to)
        return len(done)

    replies = [
        "```python\nsend('Ann')\nanswer = 1 / 0\n```",
        "```python\nx = 1 / 0\nsend('Ann')\nanswer = x\n```",
        "```python\nanswer = send(to='Ann') + 1\n```",
    ]
    result = solve("Send it.", ScriptedLM(replies), tools=[send], method=compose("coc", repairs=2))
    assert result.answer == 2
    assert done == ["Ann"]
