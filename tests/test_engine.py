"""The engine as its users see it: early exit, cancellation, many runs at once, slow and failing emulators."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from chainofcode import Answer, Limits, Program, Step, arun, execute, run
from chainofcode.engine import RunKeywords, RunOptions
from chainofcode.trace import Header, Returned, Sent

Guests = Callable[[], list[str]]


def children() -> list[str]:
    """The process ids and commands of the live guests of this test process."""
    listed = subprocess.run(["ps", "-eo", "ppid,pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(os.getpid()) and "boot.py" in line]


@pytest.fixture
def guests() -> Guests:
    """Lists the guests that a test has started; guests of other tests may still be running."""
    earlier = children()
    return lambda: [line for line in children() if line not in earlier]


def test_events_in_order() -> None:
    async def collect() -> list[Any]:
        return [event async for event in execute("x = f(1)\nanswer = x", {"f(1)": 2})]

    events = asyncio.run(collect())
    assert [type(event) for event in events] == [Header, Program, Sent, Returned, Step, Step, Step, Answer]
    assert [event.number for event in events[4:7]] == [1, 2, 3]
    assert [event.by for event in events[4:7]] == ["lm", "python", "python"]
    assert (events[2].call, events[2].line, events[2].id) == ("f(1)", 1, events[3].id)


def test_leaving_early_ends_the_guest(guests: Guests) -> None:
    async def leave() -> None:
        events = execute("x = 1\nwhile True: pass")
        async for event in events:
            if isinstance(event, Program):
                break
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert guests() == []


def test_cancelling_ends_the_guest_and_its_calls(guests: Guests) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def slow(pause: Any) -> int:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return 1

    async def cancel() -> None:
        task = asyncio.create_task(arun("answer = f(1)", slow))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == ["cancelled"]
    assert guests() == []


def test_concurrent_runs_leave_no_guest(guests: Guests) -> None:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(arun(f"answer = f({n}) + {n}", {f"f({n})": n * 10}) for n in range(12)))

    assert [result.answer for result in asyncio.run(all_of_them())] == [11 * n for n in range(12)]
    assert guests() == []


def test_async_function_as_emulator() -> None:
    async def emulate(pause: Any) -> Any:
        await asyncio.sleep(0.01)
        return pause.args[0] * 2

    assert run("answer = [double(n) for n in range(3)]", emulate).answer == [0, 2, 4]


def test_emulator_that_fails_leaves_nothing_behind(caplog: pytest.LogCaptureFixture, guests: Guests) -> None:
    import gc

    def fail(pause: Any) -> Any:
        raise OSError("no route to the model")

    with pytest.raises(OSError, match="no route"):
        run("answer = f(1)", fail)
    gc.collect()
    assert caplog.text == ""  # no "Task exception was never retrieved"
    assert guests() == []


def test_calls_are_counted_and_limited() -> None:
    result = run("answer = [f(n) for n in range(5)]", lambda pause: 1, limits=Limits(lm_calls=5))
    assert result.answer == [1] * 5
    result = run("answer = [f(n) for n in range(6)]", lambda pause: 1, limits=Limits(lm_calls=5))
    assert (result.reason, result.trace.lm_calls) == ("limit:calls", 5)


def test_a_parsed_program_runs_as_its_text() -> None:
    program = Program.parse("Here:\n```python\nx = f(1)\nanswer = x\n```")
    assert program.holes == ("f",)
    assert run(program, {"f(1)": 3}).answer == 3


def test_equal_runs_have_equal_traces() -> None:
    program = "import random\nseen = set()\nfor w in ['b', 'a', 'c']:\n    seen.add(kind(w))\nprint(seen, random.random())\nanswer = sorted(seen)"
    values = {"kind('a')": "x", "kind('b')": "y", "kind('c')": "x"}

    def lines() -> list[str]:
        import re

        return [re.sub(r',"(seconds|chain)":[^,}]+', "", line) for line in run(program, values).trace.lines()]

    assert lines() == lines()


def test_options_are_the_same_in_both_forms() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(RunOptions)}
    assert {"question": "str | None", **RunKeywords.__annotations__}.keys() == fields.keys()
    hints = {name: hint.__forward_arg__ for name, hint in RunKeywords.__annotations__.items()}
    assert hints == {name: kind for name, kind in fields.items() if name != "question"}


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"unknown option 'speed' \(expected one of: question, inputs, "):
        run("answer = 1", speed=9)  # type: ignore[call-arg]


def test_options_as_object_and_as_keywords() -> None:
    options = RunOptions(inputs={"x": 1}, question="one?")
    assert run("answer = (x, question)", options=options).answer == (1, "one?")
    assert run("answer = (x, question)", options=options, inputs={"x": 2}, question="two?").answer == (2, "two?")
