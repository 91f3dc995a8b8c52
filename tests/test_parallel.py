"""Lookahead changes when calls are made, never what a program computes."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED, part, random_programs
from overlap_cases import CASES
from programs import HOLES, program
from test_cli import coc

from chainofcode import Completion, EmulationError, Limits, Result, ScriptedLM, Table, Usage, arun, asolve
from chainofcode.emulator import Answered, Delayed, Emulator, Pause, Rows
from chainofcode.engine import fetches
from chainofcode.explain import aexplain
from chainofcode.lm.wrappers import Budgeted
from chainofcode.sandbox import opened
from chainofcode.values.codec import decode

COUNT = random_programs(40, 120)
SIZE = 20


class Slow:
    """Answers late and out of order, and records the calls."""

    in_flight = 8

    def __init__(self, seed: int = 0, delay: float = 0.003) -> None:
        self._random, self._delay = random.Random(seed), delay
        self.requested: list[str] = []

    async def answer(self, pause: Pause) -> Answered:
        self.requested.append(pause.text)
        await asyncio.sleep(self._random.random() * self._delay)
        if pause.name not in HOLES or not all(type(arg) is int for arg in pause.args):
            raise EmulationError(f"no value for {pause.text}")
        return Answered(HOLES[pause.name](*pause.args))


def comparable(result: Result) -> list[str]:
    """The events of a trace without times, and without how and when values arrived."""
    lines = []
    for line in result.trace.lines():
        event: dict[str, Any] = json.loads(line)
        lines.append(
            json.dumps(
                {key: event[key] for key in event if key not in ("seconds", "started", "how", "wasted", "chain")}
            )
        )
    return lines


@pytest.mark.parametrize("start", range(0, COUNT, SIZE))
def test_random_programs_give_the_same_trace_with_lookahead(start: int) -> None:
    async def both(seed: int, sandbox: Any) -> None:
        source, emulator, limits = program(seed), Slow(seed), Limits(lm_calls=100_000)
        ahead = await arun(source, emulator, sandbox=sandbox, limits=limits)
        plain = await arun(source, Slow(delay=0), sandbox=sandbox, limits=limits, in_flight=1)
        assert comparable(ahead) == comparable(plain), f"seed {seed}\n{source}"
        assert ahead.trace.answer is not None
        assert len(emulator.requested) == ahead.trace.lm_calls + ahead.trace.answer.wasted, f"seed {seed}\n{source}"
        assert len(set(emulator.requested)) == len(emulator.requested), f"seed {seed}\n{source}"

    async def run_all() -> None:
        async with opened("auto") as sandbox:
            slots = asyncio.Semaphore(4)

            async def one(seed: int) -> None:
                async with slots:
                    await both(seed, sandbox)

            await asyncio.gather(*(one(seed) for seed in range(start, start + SIZE)))

    asyncio.run(run_all())


class Gathering(Delayed):
    """Holds requests back until lookahead has run, however busy the machine is."""

    def __init__(self, emulator: Emulator) -> None:
        super().__init__(emulator, 0.0005)
        self.gathers = True


# --- every case, with lookahead and sequentially -------------------------------------------------------------------


def cases(name: str) -> list[dict[str, Any]]:
    path = SHARED / "cases" / name
    if not path.exists():
        pytest.skip(f"../shared/cases/{name} is not here")
    if path.is_dir():
        return [
            {"program": one.read_text(), "values": one.with_suffix(".values.jsonl")}
            for one in sorted(path.glob("*.py"))
        ]
    return part([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()], 3)


@pytest.mark.parametrize("name", ["bbh.jsonl", "holes.jsonl", "recorded.jsonl", "parallel"])
def test_shared_cases_give_the_same_trace_with_lookahead(name: str) -> None:
    async def both(case: dict[str, Any], sandbox: Any) -> int:
        def values() -> Table:
            if "values" in case:
                return Table.read(case["values"])
            return Table.of_records(case.get("calls") or [], "case")

        inputs = {key: decode(value) for key, value in (case.get("inputs") or {}).items()}
        given: Any = {"sandbox": sandbox, "inputs": inputs, "question": case.get("question")}
        ahead = await arun(case["program"], Gathering(values()), in_flight=8, **given)
        plain = await arun(case["program"], values(), in_flight=1, **given)
        assert comparable(ahead) == comparable(plain), case.get("id")
        return sum(step.how == "ahead" for step in ahead.trace.steps)

    async def run_all() -> int:
        async with opened("auto") as sandbox:
            slots = asyncio.Semaphore(4)

            async def one(case: dict[str, Any]) -> int:
                async with slots:
                    return await both(case, sandbox)

            return sum(await asyncio.gather(*map(one, cases(name))))

    assert asyncio.run(run_all()) > 5  # otherwise this test is vacuous


def test_review_cases_give_the_same_trace_with_lookahead() -> None:
    async def run_all() -> list[str]:
        async with opened("auto") as sandbox:
            different = []
            for name, source in part(list(CASES.items()), 3):
                given: Any = {"sandbox": sandbox, "limits": Limits(run_seconds=20)}
                ahead = await arun(source, Slow(delay=0.006), **given)
                plain = await arun(source, Slow(delay=0), in_flight=1, **given)
                different += [name] if comparable(ahead) != comparable(plain) else []
            return different

    assert asyncio.run(run_all()) == []


# --- early ends, limits and failures -------------------------------------------------------------------------------


class Counting:
    """Answers after a delay, once lookahead has run; has no value for some calls."""

    in_flight, gathers = 8, True

    def __init__(self, unknown: str = "", delay: float = 0.02) -> None:
        self.requested: list[str] = []
        self.open = self.most = 0
        self._unknown, self._delay = unknown, delay

    async def answer(self, pause: Pause) -> Answered:
        self.requested.append(pause.text)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(self._delay)
        finally:
            self.open -= 1
        if pause.text == self._unknown:
            raise EmulationError(f"no value for {pause.text}")
        return Answered(HOLES[pause.name](*pause.args))


def counted(program: str, emulator: Counting, **options: Any) -> Result:
    """Run a program; check that no call is requested after its end."""

    async def once() -> Result:
        result = await arun(program, emulator, **options)
        requested = len(emulator.requested)
        await asyncio.sleep(0.1)
        assert (len(emulator.requested), emulator.open) == (requested, 0)
        return result

    result = asyncio.run(once())
    assert len(emulator.requested) == result.trace.lm_calls + result.trace.wasted + (
        result.reason == "emulation failed"
    )
    return result


SWEEP = "out = []\nfor n in range(40):\n    out.append(weigh(n))\nanswer = len(out)"


def test_calls_overlap_up_to_the_limit() -> None:
    emulator = Counting()
    result = counted(SWEEP, emulator)
    assert (result.answer, emulator.most, result.trace.wasted) == (40, 8, 0)
    assert [step.call for step in result.trace.steps if step.call] == [f"weigh({n})" for n in range(40)]
    assert sum(step.how == "ahead" for step in result.trace.steps) == 39
    alone = Counting()
    assert counted(SWEEP, alone, in_flight=1).answer == 40
    assert alone.most == 1


class Ordered(Counting):
    is_ordered = True


@pytest.mark.parametrize(("emulator", "follow"), [(Ordered(), False), (Counting(), True)], ids=["ordered", "followed"])
def test_calls_are_sequential_if_their_order_matters(emulator: Counting, follow: bool) -> None:
    assert counted(SWEEP, emulator, follow=follow).answer == 40
    assert emulator.most == 1


def test_number_of_foreseen_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host keeps each call that a shadow reports until the program gets there."""
    monkeypatch.setattr(fetches, "_MAX_FORESEEN", 3)
    emulator = Counting()
    assert counted(SWEEP, emulator).answer == 40
    assert 1 < emulator.most <= 4, "the call of the program, and three foreseen ones"


@pytest.mark.parametrize(
    ("program", "reached"),
    [
        ("for n in range(1, 40):\n    if is_lucky(n):\n        break\nanswer = n", 3),
        ("answer = any(is_lucky(n) for n in range(1, 40))", 3),
        ("answer = next(n for n in range(1, 40) if is_lucky(n))", 3),
        (
            "def first():\n    for n in range(1, 40):\n        if is_lucky(n):\n            return n\nanswer = first()",
            3,
        ),
        ("answer = 0\nfor n in range(40):\n    if weigh(n) > 9:\n        raise ValueError(n)", 2),
        ("answer = 0\nfor n in range(40):\n    answer += 1 // (weigh(n) - 10)", 2),
    ],
)
def test_programs_that_end_early_waste_few_calls(program: str, reached: int) -> None:
    emulator = Counting()
    result = counted(program, emulator)
    assert result.trace.lm_calls == reached
    # A failing division cannot be foreseen: calls in flight, and those next in the queue, are wasted.
    assert result.trace.wasted <= (2 * emulator.in_flight if "answer +=" in program else 2)


def test_call_limit_includes_calls_sent_ahead() -> None:
    emulator = Counting()
    result = counted(SWEEP, emulator, limits=Limits(lm_calls=10))
    assert (result.reason, len(emulator.requested)) == ("limit:calls", 10)
    assert result.error is not None
    assert result.error.line == 3


def test_spent_budget_ends_the_run_at_the_call_over_budget() -> None:
    def reply(messages: Any) -> str:
        return '{"value": 1}'

    lm = Budgeted(ScriptedLM(reply, in_flight=8), calls=5)
    result = asyncio.run(arun(SWEEP, lm))
    assert result.reason == "limit:calls"
    assert result.trace.lm_calls == 5


def test_cancelled_run_sends_no_more_requests() -> None:
    emulator = Counting(delay=0.05)

    async def cancelled() -> None:
        task = asyncio.create_task(arun(SWEEP, emulator))
        while len(emulator.requested) < 8:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        requested = len(emulator.requested)
        assert emulator.open == 0, "requests in flight must be cancelled"
        await asyncio.sleep(0.15)
        assert (len(emulator.requested), emulator.open) == (requested, 0)

    asyncio.run(cancelled())


def test_failure_ahead_matters_only_if_the_program_reaches_the_call() -> None:
    program = (
        "out = []\nfor n in [1, 2, 3]:\n    if n == 2:\n        x = weigh(n)\n    out.append(is_lucky(n))\nanswer = out"
    )
    never = "for n in [1, 2, 3, 4, 5]:\n    if is_lucky(n):\n        break\nanswer = n"
    assert counted(never, Counting("is_lucky(4)")).answer == 3
    result = counted(program, Counting("weigh(2)"))
    assert (result.reason, result.error and result.error.line) == ("emulation failed", 4)
    assert [step.call for step in result.trace.steps if step.call] == ["is_lucky(1)"]


def test_emulator_error_is_raised_when_the_program_reaches_the_call() -> None:
    class Broken(Counting):
        async def answer(self, pause: Pause) -> Answered:
            if pause.text == "weigh(3)":
                raise KeyError("mine")
            return await super().answer(pause)

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(arun(SWEEP, Broken()))
    assert asyncio.run(arun("answer = [weigh(n) for n in (1, 2)]", Broken())).answer == [10, 6]


def test_tools_are_not_called_ahead() -> None:
    done: list[int] = []

    def note(n: int) -> int:
        done.append(n)
        return n

    program = "for n in range(6):\n    if weigh(n) > 5:\n        note(n)\n    else:\n        note(-n)\nanswer = 1"
    emulator = Counting()
    result = asyncio.run(arun(program, emulator, tools=[note]))
    assert done == [n if HOLES["weigh"](n) > 5 else -n for n in range(6)]
    assert all(not step.how for step in result.trace.steps if step.by == "tool")
    repeated = asyncio.run(arun("answer = note(1) + note(1)", emulator, tools=[note]))
    assert (repeated.answer, done[6:]) == (2, [1, 1])  # a tool with an effect runs on each call


# --- the same call ------------------------------------------------------------------------------------------------


def test_repeated_call_is_requested_once() -> None:
    program = "answer = [weigh(3) for _ in range(5)] + [weigh(3), weigh(True), weigh(1)]"
    for in_flight in (1, 8):
        emulator = Counting()
        result = counted(program, emulator, in_flight=in_flight)
        assert result.answer == [2, 2, 2, 2, 2, 2, 10, 10]
        assert sorted(emulator.requested) == ["weigh(1)", "weigh(3)", "weigh(True)"]
        assert [step.how for step in result.trace.steps if step.call == "weigh(3)"].count("shared") == 5
    emulator = Counting()
    asyncio.run(arun(program, emulator, share=False))
    assert len(emulator.requested) == 8


def test_calls_without_arguments_or_with_objects_are_not_shared() -> None:
    turns = iter([True, True, False])
    assert asyncio.run(arun("answer = 0\nwhile more():\n    answer += 1", lambda pause: next(turns))).answer == 2
    program = "class Box:\n    n = 0\nbox = Box()\nwhile not is_full(box):\n    box.n += 1\nanswer = box.n"
    turns = iter([False, False, True])
    assert asyncio.run(arun(program, lambda pause: next(turns), in_flight=4)).answer == 2


def test_table_supplies_values_of_a_repeated_call_in_order() -> None:
    table = [("f(1)", "a"), ("f(1)", "b"), ("f(2)", "c")]
    program = "answer = [f(1), f(2), f(1), f(1), f(2)]"
    for in_flight in (1, 8):
        assert asyncio.run(arun(program, Table(table), in_flight=in_flight)).answer == ["a", "c", "b", "b", "c"]


def test_shared_calls_in_the_trace_are_bounded() -> None:
    result = asyncio.run(arun("answer = sum(weigh(1) for _ in range(20000))", Counting()))
    assert result.answer == 200_000
    assert 1000 < len(result.trace.steps) < 10_000


# --- several calls in one prompt ----------------------------------------------------------------------------------


def test_value_that_does_not_fit_in_a_batch_is_requested_alone() -> None:
    requested: list[str] = []

    def reply(messages: Any) -> str:
        last = messages[-1].content
        requested.append(last)
        calls = re.findall(r"^call (\d+): is_lucky\((\d+)\)$", last, re.M)
        if calls:
            return json.dumps({number: int(n) % 3 == 0 if n != "5" else "perhaps" for number, n in calls})
        (n,) = re.findall(r"^call: is_lucky\((\d+)\)$", last, re.M)
        return json.dumps({"value": int(n) % 3 == 0})

    program = "out = []\nfor n in range(9):\n    if is_lucky(n):\n        out.append(n)\nanswer = out"
    result = asyncio.run(arun(program, Rows(ScriptedLM(reply), rows=4)))
    assert result.answer == [0, 3, 6]
    assert sum("\ncall: is_lucky(5)" in text for text in requested) == 1
    assert len(requested) <= 4
    hows = [step.how for step in result.trace.steps if step.call]
    assert hows.count("batched") >= 7
    assert len(result.trace.calls) == len(requested)


def test_calls_of_different_types_are_not_batched() -> None:
    """One prompt asks for values of one type."""
    prompts: list[list[str]] = []

    def reply(messages: Any) -> str:
        calls = re.findall(r"^call(?: (\d+))?: f\((\d+)\)$", messages[-1].content, re.M)
        prompts.append([n for _, n in calls])
        values = {number or "value": int(n) if int(n) < 10 else f"text {n}" for number, n in calls}
        return json.dumps(values)

    program = "a: int = f(1); b: int = f(2); c: str = f(10); d: str = f(20)\nanswer = [a, b, c, d]"
    result = asyncio.run(arun(program, Rows(ScriptedLM(reply), rows=4)))
    assert result.answer == [1, 2, "text 10", "text 20"]
    assert prompts == [["1", "2"], ["10", "20"]]


def test_long_call_is_not_batched() -> None:
    prompts: list[list[str]] = []

    def reply(messages: Any) -> str:
        calls = re.findall(r"^call(?: (\d+))?: f\('(.)", messages[-1].content, re.M)
        prompts.append([letter for _, letter in calls])
        return json.dumps({number or "value": letter for number, letter in calls})

    inputs = {"texts": ["a", "x" * 2000, "b"]}
    result = asyncio.run(arun("answer = [f(text) for text in texts]", Rows(ScriptedLM(reply), rows=4), inputs=inputs))
    assert result.answer == ["a", "x", "b"]
    assert sorted(prompts) == [["a", "b"], ["x"]]


def test_batches_fail_if_the_model_fails() -> None:
    lm = ScriptedLM(["banana"] * 10)
    result = asyncio.run(arun("answer = int(is_lucky(1)) + int(is_lucky(2))", Rows(lm, rows=4)))
    assert result.reason == "emulation failed"
    assert result.usage.requests == len(lm.requests)


# --- coc explain --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "first", "later"),
    [
        ("for x in xs:\n    y = f(x)", ["f(1)", "f(2)"], {}),
        ("a = f(1)\nb = g(2)", ["f(1)", "g(2)"], {}),
        ("for x in xs:\n    if f(x):\n        g(x)", ["f(1)", "f(2)"], {"g": "f(1)"}),
        ("for x in xs:\n    if f(x):\n        continue\n    g(x)", ["f(1)", "f(2)"], {"g": "f(1)"}),
        ("for x in xs:\n    if f(x):\n        break", ["f(1)"], {}),
        ("x = 1\nfor i in range(3):\n    x = f(x)", ["f(1)"], {}),
        ("while more():\n    pass", [], {"more": "more()"}),
        ("ys = [f(x) for x in xs if g(x)]", ["g(1)", "g(2)"], {"f": ""}),
        ("y = f(g(1))", ["g(1)"], {"f": "g(1)"}),
        ("x = f(1)\ny = x + 1\nz = g(y)", ["f(1)"], {"g": "f(1)"}),
        ("x = []\nx.append(f(1))\nz = g(x)", ["f(1)"], {"g": "f(1)"}),
        ("if f(1):\n    x = 1\nelse:\n    x = 2\nz = g(x)", ["f(1)"], {"g": "f(1)"}),
        ("y = f(1) and g(2)", ["f(1)"], {"g": "f(1)"}),
        ("x = f(1)\ny = x.is_kind()", ["f(1)"], {"is_kind": ""}),
        ("for x in f(1):\n    g(x)", ["f(1)"], {"g": "f(1)"}),
        ("y = max(f(1), key=g)", ["f(1)"], {"g": ""}),
        ("z = [y for y in [1, 5] if f(y) if g(y)]", ["f(1)", "f(5)"], {"g": ""}),
        ("y = max(xs, key=f)\nz = sorted(map(g, xs))", ["f(1)", "f(2)", "g(1)", "g(2)"], {}),
    ],
)
def test_explain(program: str, first: list[str], later: dict[str, str]) -> None:
    source = f"xs = [1, 2]\n{program}" if "xs" in program else program
    explained = asyncio.run(aexplain(source)).calls
    assert [call.call for call in explained if call.round == 1] == first
    assert {call.call: call.waits_for for call in explained if call.round is None} == later


def test_explain_on_the_command_line(tmp_path: Path) -> None:
    path, values = tmp_path / "p.py", tmp_path / "v.jsonl"
    path.write_text("total = 0\nfor x in [1, 2]:\n    total += f(x)\nanswer = g(total)\nwhile more():\n    pass")
    values.write_text("\n".join(json.dumps({"call": f"f({n})", "value": n}) for n in (1, 2)))
    assert coc("explain", path).stdout.startswith("round 1: 2 calls together\n    3  f(1)\n    3  f(2)\nlater\n")
    lines = [json.loads(line) for line in coc("explain", path, "--json", "--values", values).stdout.splitlines()]
    assert [(one["line"], one["call"], one["round"]) for one in lines] == [
        (3, "f(1)", 1),
        (3, "f(2)", 1),
        (4, "g(3)", 2),
        (5, "more", None),
    ]
    path.write_text("answer = 1")
    assert "no calls that need a model" in coc("explain", path).stdout
    path.write_text("import msgspec\nanswer = msgspec.json.encode([1])")
    done = coc("explain", path)
    assert "msgspec.json.encode" in done.stdout
    assert "line 1: msgspec is installed but not granted" in done.stderr
    assert "no calls that need a model" in coc("explain", path, "--allow-package", "msgspec").stdout
    path.write_bytes(b"\xff\xfe\x00")
    assert coc("explain", path).returncode == 2


def test_overlap_on_the_command_line(tmp_path: Path) -> None:
    program, values = tmp_path / "p.py", tmp_path / "v.jsonl"
    program.write_text("answer = [f(n) for n in range(20)]")
    values.write_text("\n".join(json.dumps({"call": f"f({n})", "value": n}) for n in range(20)))
    given = ("run", program, "--values", values, "--json", "--value-delay")
    ahead = json.loads(coc(*given, "1", "--in-flight", "32").stdout)  # long enough for the shadow on a busy machine
    plain = json.loads(coc(*given, "0.05", "--sequential").stdout)
    assert (ahead["lm_calls"], ahead["ahead"], ahead["wasted"]) == (20, 19, 0)
    assert (plain["lm_calls"], plain["ahead"]) == (20, 0)
    assert ahead["value"] == plain["value"]
    assert ahead["seconds"] < 20 / 3 and plain["seconds"] >= 20 * 0.05
    assert "ahead)" in coc("run", program, "--values", values, "--value-delay", "0.01").stdout
    assert "--in-flight must be" in coc(*given, "0", "--in-flight", "0").stderr
    assert "use only one of them" in coc(*given, "0", "--in-flight", "2", "--sequential").stderr


def test_calls_of_a_generated_program_overlap() -> None:
    """The calls of a program that a model wrote overlap, like those of a program that the user wrote."""
    open_now, most, together = 0, 0, asyncio.Event()

    class Busy:
        name, in_flight = "busy", 8

        async def complete(self, messages: Any, **options: Any) -> list[Completion]:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            is_call = "delta state:" in messages[-1].content
            if is_call and most == 8:
                together.set()
            elif is_call:
                await asyncio.wait_for(together.wait(), 20)
            open_now -= 1
            text = '{"value": true}' if is_call else "```python\nanswer = sum(is_fruit(x) for x in 'abcdefgh')\n```"
            return [Completion(text, Usage(requests=1))]

    result = asyncio.run(asolve("How many?", Busy()))
    assert (result.answer, most) == (8, 8)
