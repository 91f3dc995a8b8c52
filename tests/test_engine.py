"""The loop as an embedder meets it: leaving early, cancelling, many at once, slow and failing emulators."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

import pytest

from chainofcode import Answer, Limits, Program, Step, arun, execute, run


def guests() -> list[str]:
    """The guest processes that this test process has started and that still live."""
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(os.getpid()) and "boot.py" in line]


def test_events_in_order() -> None:
    async def collect() -> list[Any]:
        return [event async for event in execute("x = f(1)\nanswer = x", {"f(1)": 2})]

    events = asyncio.run(collect())
    assert [type(event) for event in events] == [Program, Step, Step, Step, Answer]
    assert [event.number for event in events[1:4]] == [1, 2, 3]
    assert [event.by for event in events[1:4]] == ["lm", "python", "python"]


def test_leaving_early_ends_the_guest() -> None:
    async def leave() -> None:
        events = execute("x = 1\nwhile True: pass")
        async for event in events:
            assert isinstance(event, Program)
            break
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert guests() == []


def test_cancelling_ends_the_guest_and_its_calls() -> None:
    ended: list[str] = []

    async def slow(pause: Any) -> int:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return 1

    async def cancel() -> None:
        task = asyncio.create_task(arun("answer = f(1)", slow))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == ["cancelled"]
    assert guests() == []


def test_many_at_once() -> None:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(arun(f"answer = f({n}) + {n}", {f"f({n})": n * 10}) for n in range(12)))

    assert [result.answer for result in asyncio.run(all_of_them())] == [11 * n for n in range(12)]
    assert guests() == []


def test_async_function_as_emulator() -> None:
    async def emulate(pause: Any) -> Any:
        await asyncio.sleep(0.01)
        return pause.args[0] * 2

    assert run("answer = [double(n) for n in range(3)]", emulate).answer == [0, 2, 4]


def test_emulator_that_fails_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    import gc

    def fail(pause: Any) -> Any:
        raise OSError("no route to the model")

    with pytest.raises(OSError, match="no route"):
        run("answer = f(1)", fail)
    gc.collect()
    assert caplog.text == ""  # no "Task exception was never retrieved"
    assert guests() == []


def test_calls_and_their_limit_are_counted() -> None:
    result = run("answer = [f(n) for n in range(5)]", lambda pause: 1, limits=Limits(lm_calls=5))
    assert result.answer == [1] * 5
    result = run("answer = [f(n) for n in range(6)]", lambda pause: 1, limits=Limits(lm_calls=5))
    assert (result.reason, result.trace.lm_calls) == ("limit:calls", 5)


def test_a_parsed_program_runs_as_its_text() -> None:
    program = Program.parse("Here:\n```python\nx = f(1)\nanswer = x\n```")
    assert program.holes == ("f",)
    assert run(program, {"f(1)": 3}).answer == 3


def test_same_trace_every_time() -> None:
    program = "import random\nseen = set()\nfor w in ['b', 'a', 'c']:\n    seen.add(kind(w))\nprint(seen, random.random())\nanswer = sorted(seen)"
    values = {"kind('a')": "x", "kind('b')": "y", "kind('c')": "x"}

    def lines() -> list[str]:
        import re

        return [re.sub(r',"(seconds|chain)":[^,}]+', "", line) for line in run(program, values).trace.lines()]

    assert lines() == lines()
