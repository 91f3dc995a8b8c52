"""Tools: functions of the user that run on the host and that programs call."""

from __future__ import annotations

import asyncio
import datetime
import time
import zoneinfo
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from chainofcode import Event, Program, ScriptedLM, arun, run, solve
from chainofcode.emulator import Pause, Table, Tool, Toolbox, read_only, tool
from chainofcode.emulator.shown_call import ShownCall
from chainofcode.errors import InputError
from chainofcode.methods import Inquiry, compose
from chainofcode.methods.composition import ladder


def price_of(item: str, count: int = 1) -> float:
    """The price of so many of an item, in euros."""
    return {"fig": 0.5, "saw": 12.0}[item] * count


def test_tool_runs_on_the_host_and_is_in_the_trace() -> None:
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


def test_program_can_handle_an_error_of_a_tool() -> None:
    program = "try:\n    p = price_of('car')\nexcept Exception as e:\n    p = str(e)\nanswer = p"
    assert run(program, tools=[price_of]).answer == "'car'"
    result = run("x = 1\nanswer = price_of('car')", tools=[price_of])
    assert result.reason == "error"
    assert result.error is not None
    assert (result.error.type, result.error.message, result.error.line) == ("KeyError", "'car'", 2)
    step = next(step for step in result.trace.steps if step.by == "tool")
    assert step.error == "price_of: KeyError: 'car'"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("price_of('fig', count='many')", "the argument 'count' does not fit"),
        ("price_of()", "missing a required argument: 'item'"),
        ("price_of('fig', 1, 2)", "too many positional arguments"),
        ("price_of(object())", "plain values"),
        ("price_of('fig', count=[{'a': object()}])", "plain values"),
    ],
)
def test_arguments_are_checked(call: str, expected: str) -> None:
    result = run(f"answer = {call}", tools=[price_of])
    assert result.error is not None
    assert expected in result.error.message


def test_a_lone_surrogate_is_an_argument_that_does_not_fit() -> None:
    @dataclass
    class Order:
        item: str

    def total(order: Order) -> float:
        return price_of(order.item)

    result = run(r"answer = total({'item': 'fig', '\ud800': 1})", tools=[total])
    assert result.error is not None
    assert "the argument 'order' does not fit" in result.error.message


def test_arguments_may_be_long_numbers() -> None:
    def bits(x: int) -> int:
        return x.bit_length()

    replies = ["```python\nanswer = bits(10**5000)\n```"]
    result = solve("How long?", ScriptedLM(replies), tools=[bits], method=compose("coc", repairs=1))
    assert result.answer == (10**5000).bit_length()


def test_results_are_plain_data_of_limited_size() -> None:
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


def test_datetimes_keep_their_offsets() -> None:
    moment = datetime.datetime(2024, 7, 1, 10, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))

    def when() -> Any:
        return {"at": [moment, moment.date()]}

    def odd() -> Any:
        return datetime.time(10, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))

    result = run("answer = when()['at'][0].isoformat()", tools=[when])
    assert result.answer == "2024-07-01T10:00:00+02:00"
    assert run("answer = odd()", tools=[odd]).error is None  # as text, as in a record


def test_cyclic_results_are_refused() -> None:
    def cyclic() -> Any:
        held: list[Any] = []
        held.append({"in": held})
        return held

    result = run("answer = cyclic()", tools=[cyclic])
    assert result.error is not None and result.error.type == "ToolError"
    assert "which cannot be passed to a program" in result.error.message


def test_tools_override_the_library_and_programs_override_tools() -> None:
    def sqrt(x: float) -> str:
        return "mine"

    assert run("answer = sqrt(4)", tools=[sqrt]).answer == "mine"
    assert run("def sqrt(x): return 'own'\nanswer = sqrt(4)", tools=[sqrt]).answer == "own"
    assert run("def sqrt(x): ...\nanswer = sqrt(4)", tools=[sqrt]).answer == "mine"


def test_calls_run_only_if_approved() -> None:
    requests: list[str] = []

    def refuse(used: Tool, call: str) -> bool:
        requests.append(call)
        return False

    async def allow(used: Tool, call: str) -> bool:
        return True

    box = Toolbox.of([price_of], approve=refuse)
    result = run("answer = price_of('fig')", tools=box)
    assert requests == ["price_of('fig')"]
    assert result.error is not None
    assert result.error.message == "price_of was not approved"
    assert run("answer = price_of('fig')", tools=Toolbox.of([price_of], approve=allow)).answer == 0.5


def test_approval_shows_the_actual_arguments() -> None:
    requests: list[str] = []

    def refuse(used: Tool, call: str) -> bool:
        requests.append(call)
        return False

    forged = Pause("call", "price_of('fig')", "price_of", ("saw",), {"count": 9}, (), 1, None, Program(""), None)
    answered = asyncio.run(Toolbox.of([price_of], approve=refuse).around(Table([])).answer(forged))
    assert answered.error == "price_of was not approved"
    assert requests == ["price_of('saw', count=9)"]


def approved(call: str, *functions: Callable[..., Any]) -> str:
    requests: list[str] = []

    def allow(used: Tool, shown: str) -> bool:
        requests.append(shown)
        return True

    result = run(f"answer = {call}", tools=Toolbox.of(functions, approve=allow))
    return requests[0] if requests else str(result.error)


def test_approval_shows_every_argument() -> None:
    def pay(note: Any, to: str, amount: Any = 0, *more: Any) -> str:
        return "paid"

    shown = approved("pay('x' * 250_000, 'mallory', 9)", pay)
    assert shown.startswith("pay('xxx") and shown.endswith("xxx', 'mallory', 9)") and "more characters" in shown
    shown = approved("pay([{'note': 'n' * 150, 'to': 'eve'}, 10**5000], 'mallory')", pay)
    assert "'to': 'eve'" in shown and "0x" in shown and shown.endswith(", 'mallory')")
    assert "103 arguments are too many to approve" in approved("pay(1, 'mallory', 2, *range(100))", pay)


@dataclass
class Order:
    to: str
    secret: bytes = field(repr=False)


def test_approval_shows_converted_arguments() -> None:
    """A program sends plain values; the host converts them to the annotated types before the call."""
    got: list[Any] = []

    def send(data: bytes, day: datetime.date | None = None, *rest: set[int]) -> int:
        got.append((data, day, rest))
        return 1

    def order(what: Order) -> int:
        got.append(what)
        return 1

    assert approved("send('cm0gLXJmIC8=')", send) == "send(b'rm -rf /')"
    assert approved("send('aGk=', '2024-02-14', [2], [1])", send) == "send(b'hi', datetime.date(2024, 2, 14), {2}, {1})"
    assert approved("send('aGk=', day='2024-02-14')", send) == "send(b'hi', day=datetime.date(2024, 2, 14))"
    assert (
        approved("order({'to': 'Ann', 'secret': 'cm0gLXJmIC8='})", order)
        == "order(Order(to='Ann', secret=b'rm -rf /'))"
    )
    assert len(got) == 4


def test_long_call_can_be_shown_in_full() -> None:
    seen: list[str] = []

    def approve(used: Tool, call: ShownCall) -> bool:
        seen.extend([call, call.whole])
        return True

    run("answer = price_of('a' * 5000 + '; rm -rf /' + 'b' * 5000)", tools=Toolbox.of([price_of], approve=approve))
    assert "rm -rf" not in seen[0] and "8,012 more characters" in seen[0]
    assert seen[1] == f"price_of({'a' * 5000 + '; rm -rf /' + 'b' * 5000!r})"


def test_argument_names_are_identifiers() -> None:
    def send(**fields: Any) -> str:
        return "sent"

    assert approved("send(to='Ann')", send) == "send(to='Ann')"
    assert "takes no argument named 'amount=1, to'" in approved("send(**{'amount=1, to': 2})", send)


def test_read_only_tools_have_no_effect() -> None:
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


def test_prompt_describes_the_tools() -> None:
    lm = ScriptedLM(["```python\nanswer = price_of('fig')\n```"])
    assert solve("What does a fig cost?", lm, tools=[price_of]).answer == 0.5
    prompt = lm.requests[0][-1].content
    assert "def price_of(item: str, count: int = 1) -> float:" in prompt
    assert "The price of so many of an item, in euros." in prompt


def test_repair_does_not_repeat_effects() -> None:
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


class Paying:
    """Tools that pay, but whose reply may not reach the program."""

    def __init__(self) -> None:
        self.paid: list[Any] = []

    def into_nothing(self, x: int) -> object:
        self.paid.append(x)
        return object()

    def too_much(self, x: int) -> str:
        self.paid.append(x)
        return "x" * 2_000_000

    def failing(self, x: int) -> None:
        self.paid.append(x)
        raise TimeoutError("no reply")

    def euros(self, x: float, currency: str = "EUR") -> str:
        self.paid.append((x, currency))
        return "ok"


@pytest.mark.parametrize(
    ("name", "first", "second", "paid"),
    [
        ("into_nothing", "answer = pay(5)", "answer = pay(5)", [5]),
        ("too_much", "answer = pay(5)", "answer = pay(x=5)", [5]),
        ("failing", "answer = pay(5)", "answer = pay(5)", [5]),
        ("failing", "answer = pay(5)", "answer = pay(6)", [5, 6]),
        ("euros", "pay(5)\nanswer = 1 / 0", "pay(5.0, 'EUR')\nanswer = 1 + 1", [(5.0, "EUR")]),
        ("euros", "pay(5)\nanswer = 1 / 0", "pay(5, 'USD')\nanswer = 1 + 1", [(5.0, "EUR"), (5.0, "USD")]),
        ("euros", "pay(10**5000)\nanswer = 1", "pay(5)\nanswer = 1 + 1", [(5.0, "EUR")]),
    ],
)
def test_possible_effects_are_not_repeated(name: str, first: str, second: str, paid: list[Any]) -> None:
    paying = Paying()
    replies = [f"```python\n{first}\n```", f"```python\n{second}\n```"]
    used = tool(getattr(paying, name), name="pay")
    solve("Pay.", ScriptedLM(replies), tools=[used], method=compose("coc", repairs=1))
    assert paying.paid == paid


def test_call_that_timed_out_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    paid: list[int] = []

    async def pay(x: int) -> None:
        paid.append(x)
        await asyncio.sleep(60)

    monkeypatch.setattr("chainofcode.emulator.tools.TOOL_SECONDS", 0.1)
    replies = ["```python\nanswer = pay(5)\n```"] * 2
    result = solve("Pay.", ScriptedLM(replies), tools=[pay], method=compose("coc", repairs=1))
    assert result.error is not None and "pay took over 0 s" in result.error.message
    assert paid == [5]


def test_calls_with_different_records_are_distinguished() -> None:
    @dataclass
    class Order:
        item: str

    sent: list[str] = []

    def send(order: Order) -> str:
        sent.append(order.item)
        return order.item

    replies = [
        "```python\nsend({'item': 'fig'})\nanswer = 1 / 0\n```",
        "```python\nanswer = [send({'item': 'saw'}), send({'item': 'fig'})]\n```",
    ]
    send.__annotations__["order"] = Order
    result = solve("Send.", ScriptedLM(replies), tools=[send], method=compose("coc", repairs=1))
    assert (result.answer, sent) == (["saw", "fig"], ["fig", "saw"])


def test_read_only_tool_is_called_again_after_a_failure() -> None:
    tried: list[int] = []

    @read_only
    def look() -> int:
        tried.append(1)
        if len(tried) == 1:
            raise TimeoutError("no reply")
        return 7

    program = "```python\nanswer = look() + 0\n```"
    assert solve("Look.", ScriptedLM([program] * 2), tools=[look], method=compose("coc", repairs=1)).answer == 7
    assert len(tried) == 2


def test_next_rung_does_not_repeat_effects() -> None:
    sent: list[str] = []

    def send(to: str) -> int:
        sent.append(to)
        return len(sent)

    async def rung(inquiry: Inquiry) -> AsyncIterator[Event]:
        async for event in inquiry.remembering().run("send('Ann')\nanswer = 1 / 0", Table([])):
            yield event

    solve("Send it.", ScriptedLM([]), tools=[send], method=ladder({"one": rung, "two": rung}))
    assert sent == ["Ann"]


def paused(name: str, *args: Any, **kwargs: Any) -> Pause:
    return Pause("call", f"{name}()", name, args, kwargs, (), 1, None, Program(""), None)


def test_interrupted_call_is_not_repeated() -> None:
    paid: list[int] = []

    async def pay(x: int) -> str:
        paid.append(x)
        await asyncio.sleep(60)
        return "ok"

    async def interrupt() -> str | None:
        box = Toolbox.of([pay]).remembering()
        calling = asyncio.create_task(box.around(Table([])).answer(paused("pay", 5)))
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.wait([calling])
        return (await box.around(Table([])).answer(paused("pay", 5))).error

    assert "was in progress when an earlier program ended" in str(asyncio.run(interrupt()))
    assert paid == [5]


def test_concurrent_equal_calls_have_their_own_results() -> None:
    started: list[int] = []

    async def slow(x: int) -> int:
        started.append(x)
        number = len(started)
        await asyncio.sleep(0.3 if number == 1 else 0.01)
        return number

    async def both(box: Toolbox) -> list[Any]:
        using = box.around(Table([]))
        answers = await asyncio.gather(using.answer(paused("slow", 5)), using.answer(paused("slow", 5)))
        return [answered.value for answered in answers]

    async def twice() -> list[Any]:
        box = Toolbox.of([slow]).remembering()
        return [await both(box), await both(box)]

    assert asyncio.run(twice()) == [[1, 2], [1, 2]]


def test_votes_refuse_tools_with_effects() -> None:
    lm = ScriptedLM([])
    with pytest.raises(InputError, match="not possible with tools that have effects"):
        solve("What?", lm, tools=[price_of], method=compose("coc", votes=3))
    lm = ScriptedLM(["```python\nanswer = price_of('fig')\n```"] * 3)
    harmless = tool(price_of, has_effect=False)
    assert solve("What?", lm, tools=[harmless], method=compose("coc", votes=3)).answer == 0.5


def test_invalid_tools_are_refused() -> None:
    with pytest.raises(InputError, match="a tool must be a function"):
        run("answer = 1", tools=[3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="same name"):
        run("answer = 1", tools=[price_of, price_of])
    with pytest.raises(InputError, match="needs a name"):
        run("answer = 1", tools=[lambda: 1])
    with pytest.raises(InputError, match="needs a name"):
        tool(price_of, name="import")
    with pytest.raises(InputError, match="that is a builtin"):
        tool(price_of, name="list")

    def unknown() -> None: ...

    unknown.__signature__ = "?"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="cannot inspect the signature of unknown"):
        tool(unknown)
    assert "unknown: " in str(run("answer = unknown()", tools=[Tool("unknown", unknown)]).error)


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
    assert time.monotonic() - started < 10  # the end of the event loop does not wait for the tool either


@pytest.mark.parametrize(
    "error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), ValueError("no"), TimeoutError("no reply")]
)
def test_any_exception_of_a_tool_reaches_the_program(error: BaseException) -> None:
    def fail() -> None:
        raise error

    result = run("answer = fail()", tools=[fail])
    assert result.error is not None
    assert type(error).__name__ in (result.error.type, *result.error.message.split())


def test_several_repairs_do_not_repeat_effects() -> None:
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
