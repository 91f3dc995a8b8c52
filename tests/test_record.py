"""The record of a run: the trace has everything that the host did, even if the guest lies; it is bounded and replays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chainofcode import (
    LM,
    Answer,
    Call,
    Completion,
    Event,
    Jail,
    Limits,
    Message,
    Result,
    ScriptedLM,
    Step,
    Trace,
    Usage,
    arun,
    ask,
    execute,
    run,
)
from chainofcode.audit import replay, verify
from chainofcode.emulator import AroundEmulator, Asking, Pause, Rows
from chainofcode.lm.wrappers import Budgeted
from chainofcode.program import Program
from chainofcode.render import Page
from chainofcode.sandbox.frames import FrameError, Reader, encode


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=1) as opened:
        yield opened


def read_back(result: Result) -> Trace:
    return Trace.parse([line.encode() for line in result.trace.lines()], is_own=True)


# --- recorded state is the program's own -------------------------------------------------------------------------------

WARNED = """
import warnings
def doubled(number):
    warnings.warn(f"about to double {number}")
    return 2 * number
numbers = [doubled(number) for number in range(3) if is_wanted(number)]
warnings.warn("done")
exec("limit: int = 3")
class Basket:
    size: int = sum(numbers)
answer = Basket.size
"""
BOOKKEEPING = ("__warningregistry__", "__annotations__", "__conditional_annotations__", "__builtins__", "__module__")


def test_a_warning_leaves_nothing_in_the_recorded_state(jail: Jail) -> None:
    result = run(WARNED, lambda pause: True, sandbox=jail)
    assert result.answer == 6
    names = {name for step in result.trace.steps for name in step.delta}
    assert {"numbers", "limit", "answer"} <= names
    assert names.isdisjoint(BOOKKEEPING)
    again = replay(read_back(result), sandbox=jail)
    assert again.is_same, again.difference
    assert verify(read_back(result), sandbox=jail).score > 0.5


def test_a_file_left_open_does_not_change_the_verdict(jail: Jail, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("fig saw")
    program = "import gc\ntext = open(path).read()\ngc.collect()\nanswer = [w for w in text.split() if is_fruit(w)]"
    given: Any = {"reads": [str(path)], "inputs": {"path": str(path)}}
    result = run(program, lambda pause: pause.args == ("fig",), sandbox=jail, **given)
    assert result.answer == ["fig"], result
    assert replay(read_back(result), sandbox=jail).is_same


@pytest.mark.parametrize("name", BOOKKEEPING)
def test_a_bookkeeping_name_that_the_program_sets_is_shown(jail: Jail, name: str) -> None:
    result = run(f"{name} = {{}}\nanswer = 1", sandbox=jail)
    assert any(name in step.delta for step in result.trace.steps)


# --- the host records what it does --------------------------------------------------------------------------------

# Calls functions without ever reporting to the host that it used a value.
SILENT = """
import json, os, struct
def read(size):
    data = b''
    while len(data) < size:
        data += os.read(3, size - len(data))
    return data
def call(number, name, **fields):
    body = json.dumps({"type": "paused", "id": number, "kind": "call", "name": name, "text": "nothing()", **fields}).encode()
    os.write(4, struct.pack("<I", len(body)) + body)
    return json.loads(read(*struct.unpack("<I", read(4))))["value"]
def leave():
    body = b'{"type":"ended","reason":"answered","answer":1,"text":"1"}'
    os.write(4, struct.pack("<I", len(body)) + body)
"""


def test_tool_call_is_recorded_even_if_the_guest_hides_it(jail: Jail) -> None:
    sent: list[bytes] = []

    def send(what: bytes) -> int:
        sent.append(what)
        return len(sent)

    program = SILENT + "for n in range(1, 31):\n    call(n, 'send', args=['aGk='])\nleave()"
    result = run(program, sandbox=jail, tools=[send])
    assert result.answer == 1 and len(sent) == 30
    assert [step for step in result.trace.steps if step.by == "tool"] == []
    trace = read_back(result)
    assert [(call.tool, call.prompt) for call in trace.tool_calls] == [("send", "send(b'hi')")] * 30
    assert [call.reply for call in trace.tool_calls] == [str(n) for n in range(1, 31)]
    assert trace.unsettled == 30
    assert trace.calls == []
    assert "30 unsettled" in "\n".join(Page().trace(trace))


def test_model_request_is_recorded_even_if_the_guest_hides_it(jail: Jail) -> None:
    lm = Budgeted(Paid(), calls=100)
    program = SILENT + "for n in range(1, 6):\n    call(n, 'size', args=[n])\nleave()"
    result = run(program, lm, sandbox=jail)
    assert result.answer == 1
    assert result.trace.lm_calls == 0
    assert [call.reply for call in result.trace.calls] == ['{"value": 1}'] * 5
    assert result.usage.requests == lm.spent.requests == 5
    assert result.usage.dollars == pytest.approx(0.05)


def test_each_request_is_recorded_before_its_step(jail: Jail) -> None:
    def double(number: int) -> int:
        return 2 * number

    result = run("x = double(size('a'))\nanswer = x + size('b')", Paid(), sandbox=jail, tools=[double])
    assert result.answer == 3
    recorded = [(type(event).__name__, getattr(event, "by", "")) for event in result.trace.events]
    assert [kind for kind in recorded if kind != ("Step", "python")] == [
        ("Program", ""), ("Call", ""), ("Step", "lm"), ("Call", ""), ("Step", "tool"), ("Call", ""), ("Step", "lm"),
        ("Answer", ""),
    ]  # fmt: skip
    assert result.trace.unsettled == 0
    again = replay(read_back(result), sandbox=jail)
    assert again.is_same, again.difference


class Paid(LM):
    """A model that costs a cent per request; with a `gate`, it replies once that is set."""

    name = "paid:model"

    def __init__(self, gate: asyncio.Event | None = None, in_flight: int = 1, rows: int = 1) -> None:
        self._gate, self.in_flight, self.rows = gate, in_flight, rows
        self.requests, self.prompts = 0, list[str]()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.requests += 1
        self.prompts.append(messages[-1].content)
        if self._gate is not None:
            await self._gate.wait()
        return [Completion('{"value": 1}', Usage(requests=1, prompt_tokens=100, completion_tokens=5, dollars=0.01))]

    def estimate(self, messages: Sequence[Message]) -> Usage:
        return Usage(requests=1, prompt_tokens=90, dollars=0.009)


MANY = "answer = sum(size(word) for word in 'a b c d e f g h'.split())"


async def cancelled(events: Any, is_time: Any) -> list[Event]:
    """The events of a run that is cancelled as soon as `is_time`."""
    seen: list[Event] = []

    async def follow() -> None:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - keeps the events before the cancellation

    task = asyncio.create_task(follow())
    while not is_time():  # noqa: ASYNC110 - threads set it, too
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return seen


@pytest.mark.parametrize("emulator", ["model", "asking", "rows"])
def test_requests_under_way_are_recorded_when_a_run_is_cancelled(jail: Jail, emulator: str) -> None:
    async def scenario() -> None:
        paid = Paid(asyncio.Event(), in_flight=8)
        budget = Budgeted(paid, dollars=1.0)
        given: Any = {"model": budget, "asking": Asking(budget), "rows": Rows(budget, 2)}[emulator]
        wanted = 4 if emulator == "rows" else 8
        seen = await cancelled(execute(MANY, given, sandbox=jail), lambda: paid.requests == wanted)
        calls = [event for event in seen if isinstance(event, Call)]
        assert len(calls) == wanted
        assert all(call.is_abandoned and call.model == "paid:model" and "size" in call.prompt for call in calls)
        assert Trace.of(seen).usage.dollars == pytest.approx(0.009 * wanted)
        assert budget.spent.dollars == pytest.approx(0.009 * wanted)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_request_for_a_program_is_recorded_when_it_is_cancelled(jail: Jail) -> None:
    async def scenario() -> None:
        paid = Paid(asyncio.Event())
        seen = await cancelled(ask("How many?", paid, sandbox=jail), lambda: paid.requests == 1)
        (call,) = [event for event in seen if isinstance(event, Call)]
        assert call.is_abandoned and "How many?" in call.prompt and call.usage.dollars == 0.009

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_requests_under_way_are_recorded_when_a_limit_ends_the_run(jail: Jail) -> None:
    async def scenario() -> Result:
        limits = Limits(wall_seconds=1.5)
        return await arun(MANY, Paid(asyncio.Event(), in_flight=8), sandbox=jail, limits=limits)

    result = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert result.reason == "limit:wall"
    assert isinstance(result.trace.events[-1], Answer)
    assert len(result.trace.calls) == 8 and all(call.is_abandoned for call in result.trace.calls)
    assert result.usage.dollars == pytest.approx(8 * 0.009)


def test_a_tool_that_is_under_way_is_recorded_when_the_run_is_cancelled(jail: Jail) -> None:
    begun, gate = threading.Event(), threading.Event()

    def send(to: str) -> None:
        begun.set()
        gate.wait(30)

    async def scenario() -> list[Event]:
        return await cancelled(execute("send('Ann')", sandbox=jail, tools=[send]), begun.is_set)

    try:
        seen = asyncio.run(asyncio.wait_for(scenario(), 60))
    finally:
        gate.set()
    (call,) = [event for event in seen if isinstance(event, Call)]
    assert (call.tool, call.prompt, call.is_abandoned) == ("send", "send('Ann')", True)


def test_a_call_that_was_not_made_is_not_recorded(jail: Jail) -> None:
    def send(count: int) -> int:
        raise AssertionError("never called")

    result = run("try: send('x')\nexcept TypeError: answer = 1", sandbox=jail, tools=[send])
    assert result.answer == 1
    assert result.trace.tool_calls == []


def test_an_older_trace_is_still_read_and_replayed(jail: Jail) -> None:
    """Older traces have no tool calls, and each request right before its step."""

    def double(number: int) -> int:
        return 2 * number

    result = run("answer = double(size('a'))", ScriptedLM(['{"value": 3}']), sandbox=jail, tools=[double])
    old = Trace.parse(line.encode() for line in result.trace.lines() if '"tool":"double"' not in line)
    assert not old.tool_calls and [step.by for step in old.steps if isinstance(step, Step)][:2] == ["lm", "tool"]
    assert replay(old, sandbox=jail).is_same


# --- requests of a lookahead shadow -------------------------------------------------------------------------------

AHEAD = (
    SILENT
    + """
x = size('first')
def ahead(number, kind, name, **fields):
    body = json.dumps({"type": "paused", "id": number, "kind": kind, "name": name, **fields}).encode()
    os.write(4, struct.pack("<I", len(body)) + body)
ahead(2, "call", "send", text="send('Ann')", args=["Ann"], known_by=[])
ahead(3, "statement", "y", text="set y", names=["y"], known_by=[])
ahead(4, "call", "size", text="size('ahead')", args=["ahead"], known_by=[])
leave()
"""
)


def test_shadow_can_only_request_model_values(jail: Jail) -> None:
    """While the program waits for its first value, its shadow continues and sends arbitrary frames."""
    requested: list[tuple[str, str]] = []
    sent: list[str] = []

    def send(to: str) -> None:
        sent.append(to)

    class Waiting(AroundEmulator):
        async def answer(self, pause: Any) -> Any:
            requested.append((pause.kind, pause.text))
            while pause.text == "size('first')" and ("call", "size('ahead')") not in requested:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if pause.text == "size('first')":
                seen.extend([*requested, *sent])
            return await super().answer(pause)

    seen: list[Any] = []
    asyncio.run(asyncio.wait_for(arun(AHEAD, Waiting(Asking(Paid(in_flight=8))), sandbox=jail, tools=[send]), 60))
    assert seen == [("call", "size('first')"), ("call", "size('ahead')")]


def test_shadow_cannot_exceed_the_call_limit(jail: Jail) -> None:
    async def scenario() -> tuple[int, Result]:
        paid = Paid(in_flight=64)
        program = "answer = sum([size(n) for n in range(200)])"
        result = await arun(program, paid, sandbox=jail, limits=Limits(lm_calls=20))
        return paid.requests, result

    requests, result = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert result.reason == "limit:calls"
    assert requests <= 20


def test_malformed_arguments_become_text(jail: Jail) -> None:
    seen: list[Any] = []

    def look(pause: Any) -> int:
        seen.append((pause.args, pause.kwargs))
        return 1

    malformed = ["args=[{'$nope': 1}]", "args={'a': 1}", "kwargs=[1]", "args=[{'$set': [[1]]}]", "args=7"]
    calls = "\n".join(f"call({number}, 'size', {fields})" for number, fields in enumerate(malformed, 1))
    assert run(f"{SILENT}{calls}\nleave()", look, sandbox=jail).answer == 1
    assert [str(args) for args, _ in seen] == ["(<unreadable>,)"] * len(malformed)


def test_total_memory_of_frames_is_limited() -> None:
    names = {str(number): "" for number in range(300_000)}
    frames: list[dict[str, Any]] = [
        {"type": "parsed", "program": {"event": "program", "source": "x", "statements": [[1, 0, 1, 1, "Expr"]]}}
    ]
    frames += [{"type": "ran", "steps": [{"statement": 0, "visit": 1, "delta": names}]}] * 14
    reader = Reader(2**24, 10**6)

    def read(frame: dict[str, Any]) -> None:
        reader.feed(encode(frame))
        assert reader.next() is not None

    with pytest.raises(FrameError, match="over 536,870,912 bytes of memory in all"):
        list(map(read, frames))


def test_calls_of_different_types_are_not_batched() -> None:
    async def scenario(*types: str) -> int:
        paid = Paid(in_flight=1, rows=4)
        rows = Rows(paid, 4)
        pauses = [
            Pause("call", f"size({n})", "size", (n,), {}, (), 1, None, Program("size(0); size(1)"), None, type=type_)
            for n, type_ in enumerate(types)
        ]
        await asyncio.gather(*map(rows.answer, pauses), return_exceptions=True)
        return sum("call 2: " in prompt for prompt in paid.prompts)

    assert asyncio.run(scenario("int", "int")) == 1
    assert asyncio.run(scenario("int", "bool")) == 0
