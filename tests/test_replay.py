"""Replays: the same run again, forged traces, and what-if changes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import has_tier, part, random_programs, records
from overlap_cases import CASES as OVERLAP
from programs import HOLES, program
from test_cli import coc

from chainofcode import Answer, InputError, Jail, Limits, Result, ScriptedLM, Step, Trace, arun, run, solve
from chainofcode.audit import (
    Changes,
    Replay,
    areplay,
    check_chain,
    follow,
    replay,
    rows,
    runs_of,
    side_by_side,
    verify,
    why_data,
    why_lines,
)
from chainofcode.audit.replay.integrity import parted
from chainofcode.cli import main
from chainofcode.emulator import Answered, Table
from chainofcode.errors import BudgetError, EmulationError, LMError, TraceError
from chainofcode.methods import compose
from chainofcode.program import Program
from chainofcode.trace import chained, linked

COUNT = random_programs(20, 40)
SIZE = 20
FRUIT = """
count = 0
for word in words:
    if is_fruit(word):
        count += 1
answer = count
"""
VALUES = {"is_fruit('fig')": True, "is_fruit('tomato')": True, "is_fruit('saw')": False}
WORDS = {"words": ["fig", "tomato", "saw"]}


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=1) as opened:
        yield opened


def read_back(result: Result) -> Trace:
    """Return the trace as it is read from a file."""
    return Trace.parse([line.encode() for line in result.trace.lines()], is_own=True)


def again(result: Result, jail: Jail) -> Replay:
    done = replay(read_back(result), sandbox=jail)
    assert done.is_same, done.difference
    return done


class Slow:
    """An emulator with delays, so that calls overlap."""

    in_flight = 8

    async def answer(self, pause: Any) -> Answered:
        await asyncio.sleep(0.0005 * (len(pause.text) % 4))
        if pause.kind == "statement":
            return Answered({})
        if pause.name not in HOLES or not all(type(arg) is int for arg in pause.args):
            raise EmulationError(f"no value for {pause.text}")
        return Answered(HOLES[pause.name](*pause.args))


# --- identical replays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["holes", "bbh", "recorded"])
def test_cases_replay_identically(name: str, jail: Jail) -> None:
    cases = records(f"cases/{name}.jsonl")
    if not cases:
        pytest.skip(f"the shared test material has no cases/{name}.jsonl here")

    async def replay_all() -> None:
        for number, case in enumerate(part(cases, 6)):
            values: Any = Table.of_records(case["calls"], case["id"])
            given: Any = {"question": case.get("question"), "sandbox": jail, "in_flight": 8 if number % 2 else 1}
            done = await areplay(read_back(await arun(case["program"], values, **given)), sandbox=jail)
            assert done.is_same, (case["id"], done.difference)

    asyncio.run(replay_all())


@pytest.mark.parametrize("start", range(0, COUNT, SIZE))
def test_random_programs_replay_identically(start: int, jail: Jail) -> None:
    """One by one, overlapping, without shared values, and with every failing statement emulated."""

    async def replay_all() -> None:
        ways: list[Any] = [{"in_flight": 1}, {}, {"share": False}, {"policy": "paper"}]
        for seed in range(start, start + SIZE):
            given = {"sandbox": jail, "limits": Limits(lm_calls=100_000), **ways[seed % len(ways)]}
            done = await areplay(read_back(await arun(program(seed), Slow(), **given)), sandbox=jail)
            assert done.is_same, (seed, done.difference)

    asyncio.run(replay_all())


@pytest.mark.nightly
def test_overlap_cases_replay_identically(jail: Jail) -> None:
    async def replay_all() -> list[str]:
        different = []
        for name, source in OVERLAP.items():
            result = await arun(source, Slow(), sandbox=jail, limits=Limits(run_seconds=20))
            if not (await areplay(read_back(result), sandbox=jail)).is_same:
                different.append(name)
        return different

    assert asyncio.run(replay_all()) == []


@pytest.mark.parametrize(
    ("source", "values", "options"),
    [
        ("x = f('a')\nthe sum of the prices\nanswer = total", {"f('a')": 1, "the sum of the prices": {"total": 7}}, {}),
        ("x = f(1)\nanswer = x / 0", {"f(1)": 2}, {}),
        ("def f(x):\n    '''Weigh.'''\nanswer = f(3)", {"f(3)": float("nan")}, {}),
        ("answer = [g(1), h(2)]", {"g(1)": 1}, {}),
        ("answer = [g(n) for n in range(9)]", {f"g({n})": n for n in range(4)}, {"in_flight": 8}),
        ("answer = [g(n) for n in range(9)]", {f"g({n})": n for n in range(9)}, {"limits": Limits(lm_calls=3)}),
        (
            "answer = [g(n) for n in range(9)]",
            {f"g({n})": n for n in range(9)},
            {"limits": Limits(lm_calls=3), "in_flight": 4},
        ),
        ("answer = sum(g(1) for _ in range(9000))", {"g(1)": 1}, {}),
        ("answer = int(g(1)) + 1", {"g(1)": "x", "answer = int(g(1)) + 1": {"answer": 3}}, {"policy": "paper"}),
        ("answer = 1 / 0", {"answer = 1 / 0": {"answer": 3}}, {"policy": "paper"}),
        ("import sys\nprint('x' * 70)\nsys.stderr.write('note')\nanswer = f({1, 'b'}, k=(1,))", {}, {}),
        ("answer = n + len(question)", {}, {"inputs": {"n": 2**70}, "question": "q \udce9"}),
        ("import random, time\nanswer = (random.random(), time.time())", {}, {"seed": 7, "clock": 5.5}),
        ("x = 1", {}, {}),
        ("class A:\n    pass\nanswer = f(A())", {}, {}),
        ("raise ValueError(lambda: 1)", {}, {}),
        ("import asyncio\nasync def main():\n    return await asyncio.gather(f(1), f(2))\nanswer = asyncio.run(main())",
         {"f(1)": 1, "f(2)": 2}, {"in_flight": 4}),
        ("print('x' * 5000)\nanswer = 1", {}, {"limits": Limits(output_bytes=1000)}),
    ],
)  # fmt: skip
def test_every_kind_of_end_replays_identically(
    source: str, values: dict[str, Any], options: Any, jail: Jail, tmp_path: Path
) -> None:
    result = run(source, values, sandbox=jail, **options)
    result.trace.write(tmp_path / "t.jsonl")
    assert check_chain(tmp_path / "t.jsonl").state == "intact"
    done = replay(Trace.read(tmp_path / "t.jsonl"), sandbox=jail)
    assert done.is_same, done.difference
    assert done.result.reason == result.reason
    assert done.trace.output == result.trace.output


def test_call_with_a_sequence_of_values(jail: Jail) -> None:
    table = Table([("next_word()", "a"), ("next_word()", "b"), ("pick(1)", 1), ("pick(1)", 2)])
    result = run("answer = [next_word(), pick(1), next_word(), pick(1), pick(1)]", table, sandbox=jail)
    assert result.answer == ["a", 1, "b", 2, 2]
    assert again(result, jail).result.answer == result.answer


@pytest.mark.parametrize("last", ["answer = 1", "answer = g(2)"])
def test_shared_value_is_shared_in_the_replay(jail: Jail, last: str) -> None:
    recorded = run(f"a = f(1)\nb = f(1)\n{last}", {"f(1)": 7}, sandbox=jail).trace
    done = replay(recorded, sandbox=jail)
    assert done.is_same, done.difference
    assert done.trace.lm_calls == recorded.lm_calls == 1


def test_spent_budget_ends_the_replay_too(jail: Jail) -> None:
    def emulate(pause: Any) -> Any:
        if pause.args[0] > 2:
            raise BudgetError("tokens", "all spent")
        return 1

    result = run("answer = [g(n) for n in range(9)]", emulate, sandbox=jail)
    assert result.reason == "limit:tokens"
    assert again(result, jail).result.reason == "limit:tokens"


def test_tools_are_not_called_again(jail: Jail) -> None:
    called: list[str] = []

    def price_of(item: str) -> float:
        """The price."""
        called.append(item)
        if item == "none":
            raise KeyError(item)
        return 2.5

    source = "try:\n    price_of('none')\nexcept Exception as e:\n    why = str(e)\n"
    source += "answer = [price_of('fig'), price_of('fig'), why]"
    result = run(source, tools=[price_of], sandbox=jail)
    assert (result.reason, len(called)) == ("answered", 3)
    done = again(result, jail)
    assert (done.result.answer, len(called)) == (result.answer, 3)
    assert read_back(result).settings["tools"] == ["price_of"]
    changed = replay(read_back(result), changes=Changes(calls={"price_of('fig')": 3}), sandbox=jail)
    assert changed.result.answer[:2] == [3, 3]
    assert {step.by for step in changed.trace.steps if step.call} == {"tool"}
    other = replay(read_back(result), program="answer = price_of('pear')", emulator=lambda pause: 1, sandbox=jail)
    assert other.result.reason == "emulation failed"  # an emulator does not replace a tool
    assert len(called) == 3


def test_nondeterministic_ends_are_noted(jail: Jail) -> None:
    for source in ("x = f(1)\nwhile True: pass", "import os\nx = f(1)\nos._exit(3)"):
        result = run(source, {"f(1)": 2}, sandbox=jail, limits=Limits(run_seconds=0.5))
        done = again(result, jail)
        assert "which varies from run to run" in done.notes[0]


@pytest.mark.skipif(not has_tier("A"), reason="a scratch directory needs tier A of the sandbox")
def test_replay_reads_files_again_and_leaves_artifacts(jail: Jail, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("item;price\nfig;2\nsaw;12\n")
    lm = ScriptedLM(
        ["total = sum(int(row['price']) for row in sales)\nopen('t.txt', 'w').write(str(total))\nanswer = total"]
    )
    result = solve("How much?", lm, files=[tmp_path / "sales.csv"], scratch=True, sandbox=jail)
    assert result.answer == 14
    done = again(result, jail)
    assert done.result.artifacts == {"t.txt": b"14"}
    (tmp_path / "sales.csv").write_text("item;price\nfig;3\nsaw;12\n")
    done = replay(read_back(result), sandbox=jail)
    assert not done.is_same
    (tmp_path / "sales.csv").unlink()
    with pytest.raises(InputError, match=r"sales\.csv"):
        replay(read_back(result), sandbox=jail)


# --- traces of methods --------------------------------------------------------------------------------------------


def fenced(*programs: str) -> list[str]:
    return [f"```python\n{text}\n```" for text in programs]


@pytest.mark.parametrize(
    ("replies", "method", "options", "programs"),
    [
        ([*fenced("w = weight('stone')\nanswer = w / 0"), "7", *fenced("answer = weight('stone') * 2")],
         compose("coc", repairs=1), {}, 2),
        (fenced("answer = 42", "answer = 1 / 0"), compose("coc", repairs=1), {}, 2),  # the earlier answer stays
        ([*fenced("answer = weigh('x') + 1"), "5"] * 3, compose("coc", votes=3), {}, 3),
        (["```python\nx = 6 * 7\nprint(x)\n```", "```python\nanswer = x\n```"], "react", {}, 1),
        (fenced("x = 1") * 20, "react", {}, 1),  # the same observation, until the method gives up
        ([*fenced("answer = weigh('x')"), "A: 5"], compose("coc-try-lm"), {}, 1),
        (fenced("answer = '12'"), "coc", {"answer_type": int}, 1),
        ([*fenced("answer = 'a dozen'"), *fenced("answer = 6 * 2")], "coc", {"answer_type": int}, 2),
        ([*fenced("answer = 1 / 0"), "A: 4"], compose("coc-python", fallback=True), {}, 1),
    ],
)  # fmt: skip
def test_traces_of_methods(replies: list[str], method: Any, options: Any, programs: int, jail: Jail) -> None:
    result = solve("What?", ScriptedLM(replies), method=method, sandbox=jail, **options)
    done = again(result, jail)
    assert len(done.runs) == programs
    thens = [event.then for event in done.trace.events if isinstance(event, Answer)]
    assert thens == [found.then for found in done.runs]


def test_a_model_that_fails_in_the_middle(jail: Jail) -> None:
    def reply(messages: Any) -> str:
        last = messages[-1].content
        if "pear" in last.rpartition("call:")[2]:
            raise LMError("no route to the model")
        return "true" if "call:" in last else "A: 7" if "```" in last else fenced("answer = [f('fig'), f('pear')]")[0]

    result = solve("What?", ScriptedLM(reply), method=compose("coc", fallback=True), sandbox=jail)
    done = again(result, jail)
    assert "was interrupted when it was recorded" in done.notes[0]


def test_trace_without_a_program_cannot_be_replayed() -> None:
    result = solve("What?", ScriptedLM(["A: 7"]), method="direct")
    with pytest.raises(InputError, match="nothing to run again"):
        replay(result.trace)
    with pytest.raises(InputError, match="nothing to run again"):
        replay(run("").trace)


# --- differences --------------------------------------------------------------------------------------------------


def test_first_difference_is_reported(jail: Jail) -> None:
    trace = read_back(run(FRUIT, VALUES, inputs=WORDS, sandbox=jail))
    place = next(n for n, event in enumerate(trace.events) if isinstance(event, Step) and event.line == 5)
    step: Any = trace.events[place]
    trace.events[place] = msgspec.structs.replace(step, delta={"count": "9"})
    found = replay(trace, sandbox=jail).difference
    assert found is not None
    assert (found.run, found.step, found.line, found.field) == (1, step.number, 5, "delta")
    assert (found.recorded, found.now) == ({"count": "9"}, {"count": "1"})
    assert found.where == f"step {step.number} (line 5)"
    del trace.events[place]
    found = replay(trace, sandbox=jail).difference
    assert found is not None
    assert found.field == "statement"
    trace.events[:] = trace.events[:4] + trace.events[-1:]
    found = replay(trace, sandbox=jail).difference
    assert found is not None
    assert (found.field, found.recorded) in (("step", None), ("delta", {"count": "9"}))


@pytest.mark.parametrize(
    "settings",
    [{"policy": "none"}, {"limits": {"nope": 1}}, {"limits": {"lm_calls": "x"}}, {"files": {"a": "/b"}}, {"reads": 5}],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], jail: Jail) -> None:
    trace = run("answer = 1", sandbox=jail).trace
    with pytest.raises(InputError, match="settings"):
        replay(Trace(None, {}, settings, trace.events), sandbox=jail)


def test_invalid_values_are_refused(jail: Jail) -> None:
    lines = [
        line.replace('"value":2', '"value":{"$nope":1}') for line in run("answer = f(1)", {"f(1)": 2}).trace.lines()
    ]
    with pytest.raises(TraceError, match="step 1"):
        replay(Trace.parse([line.encode() for line in lines]), sandbox=jail)


def test_randomly_damaged_files_do_not_crash(lines: list[bytes], jail: Jail) -> None:
    dice = random.Random(1)
    for _ in range(60):
        damaged = list(lines)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(damaged))
            line = bytearray(damaged[place])
            line[dice.randrange(len(line))] = dice.choice(b'0123456789-"[{}x\xff')
            damaged[place : place + 1] = dice.choice([[bytes(line)], [bytes(line)], [], [damaged[0], damaged[place]]])
            damaged = damaged or list(lines)
        assert check_chain(damaged).state != "none"
        with contextlib.suppress(InputError):
            done = replay(Trace.parse(damaged), sandbox=jail)
            assert list(side_by_side(done.runs[-1], done.trace, width=20))


# --- the chain ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(jail: Jail) -> list[bytes]:
    return [line.encode() for line in run(FRUIT, VALUES, inputs=WORDS, sandbox=jail).trace.lines()]


def test_unchanged_trace_has_an_intact_chain(lines: list[bytes]) -> None:
    chain = check_chain(lines)
    assert chain.state == "intact"
    assert chain.head in lines[-1].decode()
    assert check_chain(lines, chain.head.upper()) == chain
    assert str(chain) == f"chain intact, head {chain.head}"


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (lambda lines: [*lines[:4], lines[4].replace(b"fig", b"fog"), *lines[5:]], 5, "changed"),
        (lambda lines: lines[:4] + lines[5:], 5, "lines before it were removed"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5, "moved"),
        (lambda lines: [*lines[:4], lines[9], *lines[4:9], *lines[10:]], 5, "moved"),
        (lambda lines: lines[:4] + lines[3:], 5, "inserted"),
        (lambda lines: [*lines[:4], b'{"event":"call","prompt":"","reply":""}', *lines[4:]], 5, "no digest"),
        (lambda lines: lines[1:], 1, "removed"),
        (lambda lines: [b"", *lines], 1, "no digest"),
        (lambda lines: [b"\xff" + lines[0], *lines[1:]], 1, "changed"),
        (lambda lines: [line.replace(b'"python"', b'"python" ', 1) for line in lines], 1, "changed"),
        (lambda lines: [chained(line, linked("", line)) for line, _ in map(parted, lines)], 2, "changed"),
    ],
)
def test_changed_trace_has_a_broken_chain(lines: list[bytes], change: Any, line: int, why: str) -> None:
    chain = check_chain(change(lines))
    assert (chain.state, chain.line) == ("broken", line)
    assert why in chain.why


def test_known_head_detects_removed_and_added_lines(lines: list[bytes]) -> None:
    head = check_chain(lines).head
    assert check_chain(lines[:-1]).state == "intact"
    assert check_chain(lines[:-1], head).state == "broken"
    assert check_chain([*lines, *(line.encode() for line in Trace().lines())], head).state == "broken"
    assert check_chain([], head).state == check_chain([b"{}"], head).state == "broken"
    assert check_chain([]).state == check_chain([b"{}", b"\xff"]).state == "none"


def test_traces_without_a_chain_are_read(lines: list[bytes]) -> None:
    plain = [json.dumps({k: v for k, v in json.loads(line).items() if k != "chain"}).encode() for line in lines]
    assert check_chain(plain).state == "none"
    assert Trace.parse(plain).events == Trace.parse(lines).events


# --- what if ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fruit(jail: Jail) -> Trace:
    return read_back(run(FRUIT, VALUES, inputs=WORDS, question="How many?", sandbox=jail))


def what_if(trace: Trace, jail: Jail, *texts: str, **options: Any) -> Replay:
    return replay(trace, changes=Changes.parse(texts, trace), sandbox=jail, **options)


def test_what_if_a_call(fruit: Trace, jail: Jail) -> None:
    done = what_if(fruit, jail, 'is_fruit( "tomato" ) = False')
    assert (done.result.answer, done.is_same) == (1, False)
    assert done.difference is not None
    assert done.difference.field == "value"
    assert what_if(fruit, jail, "is_fruit('tomato')=True").is_same
    shown = "\n".join(side_by_side(done.runs[-1], done.trace, width=100))
    assert shown.startswith("answer: 2 → 1\n")
    assert "is_fruit('tomato') → True         ≠" in shown
    assert "is_fruit('saw')" not in shown  # neither differs nor is next to a difference
    assert max(map(len, shown.split("\n"))) <= 100
    assert all(len(line) <= 60 for line in side_by_side(done.runs[-1], done.trace, width=60))
    assert "saw" in "\n".join(side_by_side(done.runs[-1], done.trace, all_steps=True))


def test_what_if_records_its_changes(fruit: Trace, jail: Jail, tmp_path: Path) -> None:
    done = what_if(fruit, jail, "words=['fig', 'tomato']", "step:3=False")
    again = replay(done.trace, changes=Changes(calls={"is_fruit('tomato')": False}), sandbox=jail)
    again = replay(again.trace, program=FRUIT + "answer += 0\n", sandbox=jail)
    edited = ["step 3, is_fruit('fig') = False", "words = ['fig', 'tomato']", "is_fruit('tomato') = False"]
    assert again.trace.edited == [*edited, "another program"]
    again.trace.write(tmp_path / "t.jsonl")
    assert Trace.read(tmp_path / "t.jsonl").edited == again.trace.edited
    assert replay(again.trace, sandbox=jail).trace.edited == again.trace.edited
    assert not fruit.edited and not replay(fruit, sandbox=jail).trace.edited
    hostile = Trace(settings={"edited": {"not": "a list"}})
    assert hostile.edited == []


def test_what_if_an_input(fruit: Trace, jail: Jail) -> None:
    done = what_if(fruit, jail, "words=['fig', 'fig']", "question='And now?'")
    assert done.result.answer == 2
    assert (done.trace.inputs, done.trace.question) == ({"words": ["fig", "fig"]}, "And now?")


def test_variables_of_the_program_are_not_inputs(fruit: Trace) -> None:
    with pytest.raises(InputError, match="count is not an input: the program sets it; change the program with --edit"):
        Changes.parse(["count=3"], fruit)
    with pytest.raises(InputError, match=r"the trace has no input 'wods'; did you mean words\?"):
        Changes.parse(["wods=[]"], fruit)


def test_what_if_one_step(jail: Jail) -> None:
    result = run("answer = [f(1), f(1), f(1), f(2)]", {"f(1)": 1, "f(2)": 2}, sandbox=jail)
    assert [what_if(read_back(result), jail, f"step:{n}=7").result.answer for n in (1, 2, 3, 4)] == [
        [7, 1, 1, 2], [1, 7, 1, 2], [1, 1, 7, 2], [1, 1, 1, 7],
    ]  # fmt: skip
    assert what_if(read_back(result), jail, "f(1)=7").result.answer == [7, 7, 7, 2]


def test_what_if_another_program(fruit: Trace, jail: Jail) -> None:
    done = replay(fruit, program=FRUIT.replace("+= 1", "+= 10"), sandbox=jail)
    assert done.result.answer == 20
    shown = list(side_by_side(done.runs[-1], done.trace))
    assert shown[0] == "answer: 2 → 20"
    done = replay(fruit, program="# other\n" + FRUIT, sandbox=jail)
    shown = list(side_by_side(done.runs[-1], done.trace))
    assert shown == ["answer: 2 (as recorded)", "no differences in 13 steps"]


BRANCHES = """\
x = f("a")
if x:
    y = g("p")
    z = 1
else:
    y = h("q")
answer = y
"""


def test_steps_of_different_statements_are_not_paired(jail: Jail) -> None:
    trace = read_back(run(BRANCHES, {"f('a')": True, "g('p')": 1}, sandbox=jail))
    done = what_if(trace, jail, "f('a')=False", "h('q')=2")
    made = [
        (row.recorded and row.recorded.line, row.mark, row.now and row.now.line)
        for row in rows(done.runs[-1], done.trace)
    ]
    assert made == [
        (1, "≠", 1), (1, "≠", 1), (2, "≠", 2),
        (3, "-", None), (3, "-", None), (4, "-", None),
        (None, "+", 6), (None, "+", 6),
        (7, "≠", 7),
    ]  # fmt: skip
    one_line = read_back(run("a = 1; b = f(a); c = 3\nanswer = b", {"f(1)": 1}, sandbox=jail))
    done = replay(one_line, program="a = 1; b = f(a)\nanswer = b", sandbox=jail)
    assert [row.mark for row in rows(done.runs[-1], done.trace)] == ["│", "│", "│", "-", "│"]


def test_rewritten_lines_are_paired(jail: Jail) -> None:
    trace = read_back(run("n = 0\nfor i in range(3):\n    n += 1\nanswer = n", {}, sandbox=jail))
    program = "n = 0\nfor i in range(3):\n    n += 2\nextra = 5\nanswer = n"
    done = replay(trace, program=program, sandbox=jail)
    made = [row.mark for row in rows(done.runs[-1], done.trace)]
    assert made == ["│", "│", "≠", "│", "≠", "│", "≠", "+", "≠"]


def test_long_runs_are_aligned_to_their_end(jail: Jail) -> None:
    """Thousands of steps, of which one is gone near the beginning."""
    values = {f"f({n})": n != 1 for n in range(60)}
    source = "".join(f"if f({n} % 60):\n    x{n} = {n}\n" for n in range(1000)) + "answer = 1"
    trace = read_back(run(source, values, sandbox=jail))
    done = what_if(trace, jail, "step:1=False")
    marks = [row.mark for row in rows(done.runs[-1], done.trace)]
    assert len(trace.steps) > 2900
    assert marks.count("-") == 1
    assert marks.count("≠") == 2
    assert marks.count("│") == len(marks) - 3


def test_what_if_without_a_value_for_a_call(fruit: Trace, jail: Jail) -> None:
    done = what_if(fruit, jail, "words=['fig', 'pear']")
    assert done.result.reason == "emulation failed"
    assert done.result.error is not None
    assert "no value for the call is_fruit('pear'): give one with --set, or a model" in done.result.error.message
    assert what_if(fruit, jail, "words=['fig', 'pear']", "is_fruit('pear')=True").result.answer == 2
    requested: list[str] = []

    def emulate(pause: Any) -> bool:
        requested.append(pause.text)
        return True

    assert what_if(fruit, jail, "words=['fig', 'pear']", emulator=emulate).result.answer == 2
    assert requested == ["is_fruit('pear')"]


def test_what_if_a_failed_call_had_a_value(jail: Jail) -> None:
    result = run("answer = g(1) + h(2)", {"g(1)": 1}, sandbox=jail)
    assert what_if(read_back(result), jail, "h(2)=4").result.answer == 5
    prose = run("the sum of all\nanswer = total", {"the sum of all": {"total": 7}}, sandbox=jail)
    assert what_if(read_back(prose), jail, "the sum of all={'total': 8}").result.answer == 8


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("is_fruit('tomatoe')=True", r"no call is_fruit\('tomatoe'\).*did you mean is_fruit\('tomato'\)\?"),
        ("step:99=True", "no step 99.* 1 to 13"),
        ("step:1=True", "step 1 was run by Python"),
        ("word=1", r"no input 'word'; did you mean words\?"),
        ("words=fig", "text needs quotes"),
        ("step:3=maybe", "text needs quotes"),
        ("is_fruit('fig')=maybe", "a change must be CALL=VALUE"),
        ("nonsense", "a change must be CALL=VALUE"),
        ("=1", "a change must be CALL=VALUE"),
        ("is_fruit('fig')=" + "(" * 5000, "a change must be CALL=VALUE"),
    ],
)
def test_invalid_changes_are_refused(text: str, why: str, fruit: Trace, jail: Jail) -> None:
    with pytest.raises(InputError, match=why):
        what_if(fruit, jail, text)


def test_changes_are_split_where_the_value_begins(fruit: Trace) -> None:
    texts = ["f('a=b', k=2)='c=d'", "g(x==1)={'a': 1}", "h(1)=[1, 'x = y']"]
    assert Changes.parse(texts, fruit).calls == {"f('a=b', k=2)": "c=d", "g(x==1)": {"a": 1}, "h(1)": [1, "x = y"]}


# --- the command --------------------------------------------------------------------------------------------------


def test_command(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(FRUIT)
    table = [json.dumps({"call": call, "value": value}) for call, value in VALUES.items()]
    (tmp_path / "v.jsonl").write_text("\n".join(table))
    trace = tmp_path / "t.jsonl"
    coc(
        "run",
        tmp_path / "p.py",
        "--values",
        tmp_path / "v.jsonl",
        "--input",
        f"words={WORDS['words']}",
        "--trace",
        trace,
    )
    done = coc("replay", trace)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "the same: 13 steps, 3 LM values, answer 2"
    head = second.removeprefix("chain intact, head ")
    assert coc("replay", trace, "--head", head).returncode == 0
    assert coc("replay", trace, "--head", head[::-1]).returncode == 1
    shown = json.loads(coc("replay", trace, "--json").stdout)
    assert (shown["same"], shown["steps"], shown["chain"]["head"], shown["difference"]) == (True, 13, head, None)
    done = coc("replay", trace, "--set", 'is_fruit("tomato")=False', "--trace", tmp_path / "n.jsonl")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "answer: 2 → 1")
    assert coc("replay", tmp_path / "n.jsonl").stdout.startswith("the same: 12 steps, 3 LM values, answer 1\n")
    done = coc("replay", trace, "--set", "words=['pear']", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["reason"] == "emulation failed"
    (tmp_path / "e.py").write_text(FRUIT.replace("+= 1", "+= 2"))
    assert coc("replay", trace, "--edit", tmp_path / "e.py").stdout.startswith("answer: 2 → 4\n")
    (tmp_path / "lm.jsonl").write_text('"true"\n')
    done = coc("replay", trace, "--set", "words=['pear']", "--model", f"scripted:{tmp_path / 'lm.jsonl'}")
    assert done.stdout.startswith("answer: 2 → 1\n"), done.stderr
    assert coc("replay", trace, "--all").stdout.count("\n") > 13


def test_command_on_a_forged_trace(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b"\n".join(lines).replace(b'{"count":"2"}', b'{"count":"3"}').replace(b'"python":"3.', b'"python":"2.')
    )
    done = coc("replay", path)
    assert done.returncode == 1
    assert done.stdout.startswith(
        'different at step 9 (line 5): delta\n  recorded: {"count":"3"}\n  now:      {"count":"2"}\n'
    )
    assert "the file was changed: line 1: " in done.stderr
    assert "recorded with Python 2." in done.stderr
    path.write_bytes(b"\n".join(lines[:-1]))
    assert "the trace has no answer" in coc("replay", path).stderr


@pytest.mark.parametrize(
    ("content", "arguments", "why"),
    [
        (None, (), "cannot read"),
        ("", (), "empty"),
        ("nonsense", (), "(line 1: JSON is malformed"),
        ('{"event":"trace","version":1,"python":"\udcff"}', (), " is not a trace; "),
        ("\n".join(Trace().lines()), (), "nothing to run again"),
        ("\n".join(Trace().lines()), ("--edit", "none.py"), "cannot read none.py"),
        ("\n".join(Trace().lines()), ("--sandbox", "nope"), "unknown sandbox"),
        ("\n".join(Trace().lines()), ("--trace", "t.jsonl"), "use another file"),
    ],
)
def test_errors_of_the_command_name_the_cause(
    tmp_path: Path, content: str | None, arguments: tuple[str, ...], why: str
) -> None:
    if content is not None:
        (tmp_path / "t.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = coc("replay", "t.jsonl", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr


def test_each_program_of_a_repair_is_a_run(jail: Jail) -> None:
    result = solve(
        "What?",
        ScriptedLM([*fenced("answer = 1 / 0"), *fenced("answer = 6 * 7")]),
        method=compose("coc", repairs=1),
        sandbox=jail,
    )
    assert [(found.number, found.then) for found in runs_of(result.trace)] == [(1, "repair"), (2, "")]


# --- cases from a review ------------------------------------------------------------------------------------------


def changed_header(tmp_path: Path, **changes: Any) -> Path:
    """Write a trace with a changed header."""
    head, *rest = run("answer = 1", question="What is one?").trace.lines()
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join([json.dumps({**json.loads(head), **changes}), *rest]) + "\n")
    return path


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"settings": {"reads": ["a\0b"]}}, "not a path"),
        ({"settings": {"files": {"x": "a\0b"}, "file_kinds": {"x": ["text", ""]}}}, "not a path"),
        ({"settings": {"files": {"x": "/etc/hosts"}}}, "how the file 'x' was read"),
        ({"question": 5}, "the question is not text"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "verify", "why"])
def test_unusable_headers_are_refused(
    command: str, changes: dict[str, Any], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(changed_header(tmp_path, **changes))]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "verify", "why"])
def test_files_that_a_trace_grants_are_shown(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.txt").write_text("x")
    settings = {"files": {"x": str(tmp_path / "data.txt")}, "file_kinds": {"x": ["text", ""]}}
    main([command, str(changed_header(tmp_path, settings=settings)), "--grant-recorded"])
    assert f"may read {tmp_path / 'data.txt'}" in capsys.readouterr().err


@pytest.mark.parametrize("head", ["", "zz", "0" * 31])
@pytest.mark.parametrize("command", ["replay", "verify"])
def test_malformed_head_is_refused(command: str, head: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("answer = 1").trace.write(tmp_path / "t.jsonl")
    assert main([command, str(tmp_path / "t.jsonl"), "--head", head]) == 2
    assert "32 hexadecimal digits" in capsys.readouterr().err


def test_a_trace_out_of_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe can be read only once: the chain is checked on the lines that were read."""
    reader, writer = os.pipe()
    os.write(writer, "".join(line + "\n" for line in run("answer = 1 + 1").trace.lines()).encode())
    os.close(writer)
    assert main(["verify", f"/dev/fd/{reader}", "--json"]) == 0
    os.close(reader)
    assert json.loads(capsys.readouterr().out)["chain"]["state"] == "intact"


def test_question_without_quotes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("answer = 1", question="What is one?").trace.write(tmp_path / "t.jsonl")
    assert main(["replay", str(tmp_path / "t.jsonl"), "--set", "question=5"]) == 2
    assert "put 5 in quotes" in capsys.readouterr().err


def test_forged_answer_is_detected(jail: Jail) -> None:
    trace = run("a = 1\nanswer = a + 1", sandbox=jail).trace
    assert trace.answer is not None
    forged = msgspec.structs.replace(trace.answer, text="3", value=3)
    for last in (forged, msgspec.structs.replace(forged, sandbox="", votes={"3": 2})):
        done = replay(Trace(events=[*trace.events, last]), sandbox=jail)
        assert done.difference is not None and (done.difference.recorded, done.difference.now) == ("3", "2")
        assert verify(Trace(events=[*trace.events, last]), sandbox=jail).score == 0
    assert replay(Trace(events=[*trace.events, trace.answer]), sandbox=jail).is_same


def test_forged_statements_are_detected(jail: Jail) -> None:
    trace = run("a = 1\nanswer = a + 1", sandbox=jail).trace
    changed = [msgspec.structs.replace(one, statements=()) if isinstance(one, Program) else one for one in trace.events]
    found = follow(Trace(events=changed), sandbox=jail)
    assert found.difference is not None and found.difference.field == "program.statements"
    assert list(why_lines(found)) and why_data(found)["statements"]


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("output", "another line\n"),
        ("delta", {"x": "8"}),
        ("outcome", "raised ValueError"),
        ("line", 2),
        ("visit", 7),
        ("call", "g(1)"),
        ("value", 8),
        ("error", "failed"),
    ],
)
def test_replay_detects_each_forged_field_of_a_step(jail: Jail, field: str, forged: Any) -> None:
    recorded = read_back(run("x = f(1)\nprint(x)\nanswer = x", {"f(1)": 7}, sandbox=jail))
    events = list(recorded.events)
    wanted = "lm" if field in ("call", "value", "error") else "python"
    place = next(
        place
        for place, event in enumerate(events)
        if isinstance(event, Step) and event.by == wanted and (field != "output" or event.output)
    )
    events[place] = msgspec.structs.replace(events[place], **{field: forged})
    done = replay(dataclasses.replace(recorded, events=events), sandbox=jail)
    assert done.difference is not None
    assert not done.is_same


@pytest.mark.parametrize(("field", "forged"), [("text", "8"), ("value", 8), ("stderr", "oh"), ("source", "output")])
def test_replay_detects_each_forged_field_of_an_answer(jail: Jail, field: str, forged: Any) -> None:
    recorded = read_back(run("answer = f(1)", {"f(1)": 7}, sandbox=jail))
    events = [
        msgspec.structs.replace(event, **{field: forged}) if isinstance(event, Answer) else event
        for event in recorded.events
    ]
    done = replay(dataclasses.replace(recorded, events=events), sandbox=jail)
    assert done.difference is not None
    assert (done.difference.field, done.difference.recorded) == (field, forged)


def test_verify_flags_what_ifs(jail: Jail) -> None:
    recorded = read_back(run("x = f(1)\nanswer = x + 1", {"f(1)": 7}, sandbox=jail))
    changed = replay(recorded, changes=Changes(calls={"f(1)": 8}), sandbox=jail).trace
    assert not any("what-if" in flag for flag in verify(recorded, sandbox=jail).flags)
    assert any("what-if" in flag for flag in verify(changed, sandbox=jail).flags)
    kept = Trace.parse([line.encode() for line in changed.lines()])
    assert any("what-if" in flag for flag in verify(kept, sandbox=jail).flags), (
        "a what-if read from a file is not flagged"
    )
