"""Wrappers of models: cache, retries, limits and budgets."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chainofcode import LM, Completion, Message, ScriptedLM, Usage
from chainofcode.errors import BudgetError, LMError
from chainofcode.lm import Around, as_lm
from chainofcode.lm.wrappers import Budgeted, Cached, Limited, Retried

ASK = [Message("user", "Is a fig a fruit?")]


def ask(lm: LM, messages: Sequence[Message] = ASK, **options: Any) -> str:
    return asyncio.run(lm.complete(messages, **options))[0].text


# --- cache --------------------------------------------------------------------------------------------------------


def test_same_request_is_sent_once(tmp_path: Path) -> None:
    script = ScriptedLM(["yes", "no", "maybe"])
    lm = Cached(script, tmp_path / "replies.db")
    assert [ask(lm), ask(lm), ask(lm, n=1, temperature=0.0, stop=())] == ["yes"] * 3
    assert len(script.requests) == 1
    assert ask(lm, temperature=1.0) == "no"
    assert ask(lm, schema={"type": "boolean"}) == "maybe"
    repeated = asyncio.run(lm.complete(ASK))[0]
    assert (repeated.usage, repeated.is_cached) == (Usage(), True)  # at no cost
    lm.close()
    assert ask(Cached(ScriptedLM([]), tmp_path / "replies.db")) == "yes"  # also in the next process
    with pytest.raises(LMError, match="another has no reply left for request 1"):
        ask(Cached(ScriptedLM([], name="another"), tmp_path / "replies.db"))


@pytest.mark.parametrize("damage", ["whole", "middle", "row"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "replies.db"
    lm = Cached(ScriptedLM(lambda messages: messages[0].content * 50), path)
    for n in range(300):
        ask(lm, [Message("user", f"question {n}")])
    lm.close()
    if damage == "whole":
        path.write_bytes(b"this is no database" * 1000)
    elif damage == "middle":
        data = bytearray(path.read_bytes())
        data[2000:-2000] = b"\xff" * (len(data) - 4000)
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as store:
            store.execute("UPDATE kept SET reply = 'not JSON'")
    script = ScriptedLM(lambda messages: "anew")
    lm = Cached(script, path)
    assert {ask(lm, [Message("user", f"question {n}")]) for n in range(5)} == {"anew"}
    assert {ask(lm, [Message("user", f"question {n}")]) for n in range(5)} == {"anew"}
    assert len(script.requests) == 5
    assert [other.name for other in tmp_path.iterdir() if ".damaged-" in other.name]


def test_many_processes_share_a_file(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom chainofcode import Message, ScriptedLM\n"
        "from chainofcode.lm.wrappers import Cached\n"
        "lm = Cached(ScriptedLM(lambda m: m[0].content.upper()), Path(sys.argv[1]))\n"
        "for n in range(100):\n"
        "    (reply,) = asyncio.run(lm.complete([Message('user', f'q{n}')]))\n    assert reply.text == f'Q{n}'\n"
    )
    path = str(tmp_path / "replies.db")
    processes = [subprocess.Popen([sys.executable, "-c", code, path], stderr=subprocess.PIPE) for _ in range(6)]
    for process in processes:
        assert process.wait() == 0, process.stderr.read() if process.stderr else ""
        if process.stderr:
            process.stderr.close()
    with sqlite3.connect(path) as store:
        assert store.execute("SELECT count(*) FROM kept").fetchone() == (100,)
    assert not [other for other in tmp_path.iterdir() if ".damaged-" in other.name]


def test_locked_file_is_not_treated_as_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainofcode.lm.reply_store._BUSY_SECONDS", 0.1)
    path = tmp_path / "replies.db"
    script = ScriptedLM(["one", "two", "three"])
    lm = Cached(script, path)
    assert ask(lm) == "one"
    with sqlite3.connect(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert ask(lm, [Message("user", "another")]) == "two"  # answered, though not kept
    assert ask(lm) == "one"
    assert not [entry for entry in tmp_path.iterdir() if ".damaged-" in entry.name]


# --- retries ------------------------------------------------------------------------------------------------------


class Failing:
    name = "failing"

    def __init__(self, *failures: LMError) -> None:
        self._failures = list(failures)
        self.times: list[float] = []

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.times.append(time.monotonic())
        if self._failures:
            raise self._failures.pop(0)
        return [Completion("at last")]


def test_transient_errors_are_retried() -> None:
    busy = LMError("busy", is_transient=True)
    lm = Failing(busy, LMError("wait", is_transient=True, retry_seconds=0.3))
    assert ask(Retried(lm, first_pause_seconds=0.01)) == "at last"
    assert len(lm.times) == 3
    assert lm.times[2] - lm.times[1] >= 0.3


def test_permanent_errors_are_not_retried() -> None:
    for failure in (LMError("no such model"), LMError("in an hour", is_transient=True, retry_seconds=3600)):
        lm = Failing(failure)
        with pytest.raises(LMError):
            ask(Retried(lm))
        assert len(lm.times) == 1
    lm = Failing(*[LMError("busy", is_transient=True)] * 9)
    with pytest.raises(LMError, match="busy"):
        ask(Retried(lm, attempts=3, first_pause_seconds=0.01))
    assert len(lm.times) == 3


# --- limits and budgets -------------------------------------------------------------------------------------------


def test_concurrent_requests_are_limited() -> None:
    most = running = 0

    class Slow:
        name = "slow"

        async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return [Completion("done")]

    async def crowd(lm: Limited) -> None:
        await asyncio.gather(*[lm.complete(ASK) for _ in range(20)])

    lm = Limited(Slow(), in_flight=3)
    asyncio.run(crowd(lm))
    asyncio.run(crowd(lm))  # another loop
    assert most == 3


def test_rate_limit_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    now = 1000.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        assert len(waited) < 10, "it waits for ever"
        now += seconds

    monkeypatch.setattr("chainofcode.lm.wrappers.time.monotonic", lambda: now)
    monkeypatch.setattr("chainofcode.lm.wrappers.asyncio.sleep", sleep)

    async def seven() -> None:
        lm = Limited(ScriptedLM(["x"] * 7), per_minute=3)
        for _ in range(7):
            await lm.complete(ASK)

    asyncio.run(seven())
    assert waited == [60, 60]


def test_spent_budget_stops_requests() -> None:
    def reply(cost: float | None) -> Any:
        class Costly:
            name = "costly"

            async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
                return [Completion("x", Usage(1, 70, 30, cost))]

        return Costly()

    for budget, which in (({"calls": 2}, "calls"), ({"tokens": 200}, "tokens"), ({"dollars": 0.2}, "money")):
        lm = Budgeted(reply(0.1), **budget)  # type: ignore[arg-type]
        assert [ask(lm), ask(lm)] == ["x", "x"]
        with pytest.raises(BudgetError, match="is spent") as caught:
            ask(lm)
        assert caught.value.which == which
    lm = Budgeted(reply(None), dollars=1.0)
    ask(lm)
    with pytest.raises(BudgetError, match="price of costly is unknown"):
        ask(lm)
    with pytest.raises(BudgetError):
        ask(Budgeted(ScriptedLM(["x"] * 5), calls=2), n=3)


# --- the interface ------------------------------------------------------------------------------------------------


class Minimal:
    """An object with only a name and `complete`."""

    name = "mine"

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return [Completion(f"{messages[-1].content} {sorted(options)}")]


def test_a_minimal_object_gets_the_defaults() -> None:
    lm = as_lm(Minimal())
    assert (lm.name, lm.in_flight, lm.rows, lm.is_small) == ("mine", 1, 1, False)
    lm.close()
    assert as_lm(lm) is lm
    (reply,) = asyncio.run(Around(lm).complete([Message("user", "hello")], n=1))
    assert reply.text == "hello ['n']"
    with pytest.raises(TypeError, match="expected a model, got str"):
        as_lm("local:x")


def test_a_wrapper_passes_everything_on() -> None:
    class Closing(ScriptedLM):
        closed = 0
        rows, is_small = 3, True

        def close(self) -> None:
            self.closed += 1

    inner = Closing(["a"], "local:x", in_flight=5)
    lm = Retried(Budgeted(inner, calls=1))
    assert (lm.name, lm.in_flight, lm.rows, lm.is_small) == ("local:x", 5, 3, True)
    lm.close()
    assert inner.closed == 1
