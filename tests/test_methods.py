"""The methods compared: on recorded programs and values, and with failures at every stage of a fallback."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED, part
from shared_jail import solve
from test_cli import coc

from chainofcode import Answer, Completion, Limits, LMError, Message, Program, ScriptedLM
from chainofcode.emulator.table import normal_text
from chainofcode.evals import is_same
from chainofcode.lm import Around
from chainofcode.lm.deadline import not_counted
from chainofcode.methods import METHODS, asolve, compose
from chainofcode.methods.multiple_choice import chosen, options_in
from chainofcode.methods.prompting import answer_in
from chainofcode.methods.react import NEXT_ACTION

CASES = SHARED / "cases" / "bbh.jsonl"


def recorded(case: dict[str, Any]) -> ScriptedLM:
    """A model that wrote this program and gave these values."""
    values = {normal_text(record["call"]): record["value"] for record in case["calls"]}

    def reply(messages: Sequence[Message]) -> str:
        last = messages[-1].content
        if "delta state:" in last:
            call = last.partition("\ncall: ")[2].rpartition("\ntype: ")[0]
            return json.dumps({"value": values[normal_text(call)]})
        return f"```python\n{case['program']}\n```"

    return ScriptedLM(reply)


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    if not CASES.exists():
        pytest.skip("../shared/cases/bbh.jsonl is not here")
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def test_coc_on_recorded_programs(cases: list[dict[str, Any]]) -> None:
    right = sum(is_same(solve(case["question"], recorded(case)).answer, case["target"]) for case in cases)
    assert (right, len(cases)) == (104, 108)


def test_coc_python_fails_at_the_first_hole(cases: list[dict[str, Any]]) -> None:
    for case in part(cases, 9):
        alone = solve(case["question"], recorded(case), method="coc-python")
        if case["calls"]:
            assert alone.reason == "emulation failed", case["id"]
        else:
            both = solve(case["question"], recorded(case))
            assert (alone.reason, alone.answer) == (both.reason, both.answer), case["id"]


# --- what makes the variants differ -------------------------------------------------------------------------------

PLAIN = "```python\nanswer = 6 * 7\n```"
HOLE = "```python\nanswer = 6 * weight('stone')\n```"


def model(program: str, **replies: str) -> ScriptedLM:
    """A model that writes this program, answers 7 for values, and has `replies` for the other kinds of prompts."""

    def reply(messages: Sequence[Message]) -> str:
        system, last = messages[0].content, messages[-1].content
        if "delta state:" in last:
            return '{"value": 7}'
        if system.startswith("You are given a question and a Python program"):
            return replies.get("run" if "delta state" in system else "read", "")
        if 'starts with "A:"' in system and "step by step" in system:
            return replies.get("cot", "")
        if 'starts with "A:"' in system:
            return replies.get("direct", "")
        return program

    return ScriptedLM(reply)


@pytest.mark.parametrize(
    ("method", "program", "answer"),
    [
        ("coc", PLAIN, 42),
        ("coc", HOLE, 42),
        ("coc-python", PLAIN, 42),
        ("coc-python", HOLE, None),
        ("coc-lm", PLAIN, "read"),
        ("coc-lm", HOLE, "read"),
        ("coc-lm-state", PLAIN, "ran"),
        ("coc-lm-state", HOLE, "ran"),
        ("coc-try-lm", PLAIN, 42),
        ("coc-try-lm", HOLE, "read"),
        ("coc-try-lm-state", PLAIN, 42),
        ("coc-try-lm-state", HOLE, "ran"),
        ("cot", HOLE, "thought"),
        ("direct", HOLE, "at once"),
    ],
)
def test_answer_of_each_method(method: str, program: str, answer: object) -> None:
    lm = model(
        program, read="A: read", run="line: x\ndelta state: {}\nA: ran", cot="Hm.\nA: thought", direct="A: at once"
    )
    assert solve("How heavy?", lm, method=method).answer == answer


def test_all_methods_in_one_command_on_the_same_questions(tmp_path: Path) -> None:
    """Ten questions, every second one with a hole; the counts differ by method, depending on what it asks the model."""
    suite, script = tmp_path / "suite.jsonl", tmp_path / "script.json"
    questions = [{"id": f"q{n}", "question": f"How heavy, {n}?", "targets": [42 + n % 2]} for n in range(10)]
    suite.write_text("\n".join(map(json.dumps, questions)))
    plain, hole = "```python\nanswer = 6 * 7\n```", "```python\nanswer = 6 * weight('stone') + 1\n```"
    read, ran, wrong = "A: 43", "line: x\ndelta state: {}\nA: 42", "A: 1"
    replies = {
        "coc": ([plain], [hole, '{"value": 7}']),
        "coc-python": ([plain], [hole]),
        "coc-lm": ([plain, read], [hole, read]),
        "coc-lm-state": ([plain, ran], [hole, ran]),
        "coc-try-lm": ([plain], [hole, read]),
        "coc-try-lm-state": ([plain], [hole, ran]),
        "cot": ([f"Hm.\n{wrong}"], ["Hm.\nA: 43"]),
        "direct": ([wrong], [wrong]),
        "react": ([plain], [hole, '{"value": 7}']),
    }
    assert set(replies) == set(METHODS)
    script.write_text(
        "\n".join(json.dumps(reply) for pair in replies.values() for n in range(10) for reply in pair[n % 2])
    )
    methods = ("--methods", ",".join(replies), "--repairs", "0")
    done = coc("eval", suite, *methods, "--model", f"scripted:{script}", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()][-len(replies) :]
    counted = {row["method"]: (row["right"], row["wrong"], row["no_answer"], row["calls"]) for row in rows}
    assert counted == {
        "coc": (10, 0, 0, 15),
        "coc-python": (5, 0, 5, 10),
        "coc-lm": (5, 5, 0, 20),
        "coc-lm-state": (5, 5, 0, 20),
        "coc-try-lm": (10, 0, 0, 15),
        "coc-try-lm-state": (5, 5, 0, 15),
        "cot": (5, 5, 0, 10),
        "direct": (0, 10, 0, 10),
        "react": (10, 0, 0, 15),
    }
    table = coc("eval", suite, *methods, "--model", f"scripted:{script}").stdout
    assert "9 methods on 10 samples" in table
    assert len([line for line in table.splitlines() if line.split()[:2] == ["direct", "10"]]) == 1


def test_every_method_can_be_composed() -> None:
    for name in METHODS:
        assert compose(name)


def test_react_keeps_its_state_and_runs_nothing_twice() -> None:
    replies = [
        "Let me see.\n```python\nprint('first')\nseen = [is_fruit('fig')]\n```",
        '{"value": true}',
        "Once more.\n```python\nprint(seen)\nseen.append(1 / 0)\n```",
        "I see.\n```python\nanswer = len(seen)\n```",
    ]
    lm = ScriptedLM(replies)
    result = solve("How many?", lm, method="react")
    assert result.answer == 1
    assert "Observation: first" in lm.requests[2][-1].content
    assert "[True]" in lm.requests[3][-1].content
    assert "ZeroDivisionError" in lm.requests[3][-1].content
    stated = ScriptedLM(["I know it.\nA: 5"])
    assert solve("How many?", stated, method="react").answer == "5"


@pytest.mark.parametrize("call", ["", "3", "'x' * 3_000_000", "[object()], 2, a=1"])
def test_react_survives_actions_that_call_its_internal_function(call: str) -> None:
    lm = ScriptedLM([f"```python\n{NEXT_ACTION}({call})\n```", "```python\nprint(1)\n```", "A: 5"])
    assert solve("How many?", lm, method="react").answer == "5"
    assert max(len(message.content) for request in lm.requests for message in request) < 10_000


def test_observations_of_react_are_bounded() -> None:
    broken = "class E(Exception):\n    def __str__(self): raise ValueError\nraise E"
    for failing in ("raise ValueError('x' * 3_000_000)", broken):
        lm = ScriptedLM([f"```python\nprint('y' * 9000)\n{failing}\n```", "A: 5"])
        assert solve("How many?", lm, method="react").answer == "5"
        assert 2000 < len(lm.requests[1][-1].content) < 5000


def test_tools_and_files_cannot_hijack_the_react_loop(tmp_path: Path) -> None:
    def next_action(observation: str) -> dict[str, str]:
        return {"answer": "hijacked"}

    path = tmp_path / "next_action.csv"
    path.write_text("a\n1\n")
    program = "```python\nanswer = len(next_action)\n```"
    assert solve("How many?", ScriptedLM(["A: 5"]), method="react", tools=[next_action]).answer == "5"
    assert solve("How many?", ScriptedLM([program]), method="react", files=[path]).answer == 1


def test_react_stops_after_a_maximum_of_actions() -> None:
    result = solve("How many?", ScriptedLM(["```python\nx = 1\n```"] * 20), method="react")
    assert result.reason == "emulation failed"
    assert result.error is not None
    assert "no answer after 8 actions" in result.error.message


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("A: 6", "6"),
        ("Thinking.\nA: (B)", "(B)"),
        ("So the answer is Greta.", "Greta"),
        ("**Answer:** yes", "yes"),
        ("blah\n#### 72", "72"),
        ("It is $\\boxed{12}$.", "12"),
        ("42", "42"),
        ("A: 3.5.", "3.5"),
        ("x" * 500, None),
        ("", None),
    ],
)
def test_answer_is_extracted_from_reply(reply: str, answer: str | None) -> None:
    assert answer_in(reply) == answer


# --- repairs, critique and votes ----------------------------------------------------------------------------------


def outcomes(result: Any) -> list[tuple[str, str]]:
    """The reason of each answer in the trace, and what was tried next."""
    return [(event.reason, event.then) for event in result.trace.events if isinstance(event, Answer)]


def test_repair_prompt_names_the_line_and_values_are_kept() -> None:
    replies = [
        "```python\nw = weight('stone')\nanswer = w / 0\n```",
        "7",
        "```python\nanswer = weight('stone') * 2\n```",
    ]
    lm = ScriptedLM(replies)
    result = solve("How heavy?", lm, method=compose("coc", repairs=1))
    assert result.answer == 14
    assert outcomes(result) == [("error", "repair"), ("answered", "")]
    prompt = lm.requests[2][-1].content
    assert "on line 2: answer = w / 0" in prompt
    assert "ZeroDivisionError" in prompt
    assert len(lm.requests) == 3  # the weight was not requested again


def test_programs_are_parsed_outside_the_event_loop() -> None:
    """Parsing starts a process; in the event loop, it would block a server."""
    lm = ScriptedLM(["```python\nanswer = 1 / 0\n```", "```python\nanswer = 1\n```"])
    on_main_thread: list[bool] = []

    def audit(event: str, given: Any) -> None:
        if event == "subprocess.Popen" and given[1][-1] == "sandbox.parser_process":
            on_main_thread.append(threading.current_thread() is threading.main_thread())

    sys.addaudithook(audit)
    result = solve("What?", lm, method=compose("coc", repairs=1))
    assert result.answer == 1
    assert on_main_thread and not any(on_main_thread)


def test_repairs_are_bounded() -> None:
    lm = ScriptedLM(["```python\nanswer = 1 / 0\n```"] * 9)
    result = solve("What?", lm, method=compose("coc", repairs=2))
    assert result.reason == "error"
    assert len(lm.requests) == 3


@pytest.mark.parametrize(
    ("program", "is_stated"),
    [
        ("answer = 42", True),
        ("x = 42\nanswer = x", True),
        ("answer = 'yes'", True),
        ("n = 3\nanswer = f'{n} apples'", True),
        ("print(42)", True),
        ("answer = [1, 2]", True),
        ("answer = -5", True),
        ("answer = 6 * 7", False),
        ("x = 3\nx += 1\nanswer = x", False),
        ("answer = is_true('x')", False),
        ("answer = 'no'\nif is_true('x'):\n    answer = 'yes'", False),
        ("for x in [1, 2]:\n    answer = x", False),
        ("answer = len('abc')", False),
        ("answer = sorted([3, 1])[0]", False),
        ("answer = []\nfor x in ['fig']:\n    if is_fruit(x):\n        answer.append(x)", False),
        ("r = []\nfor x in ['fig']:\n    if is_fruit(x):\n        r.append(x)\nanswer = r", False),
        ("xs = [3, 1, 2]\nxs.sort()\nanswer = xs", False),
        ("d = {}\nd['a'] = is_fruit('x')\nanswer = d", False),
        ("answer = None\nif (answer := is_fruit('x')): pass", False),
    ],
)
def test_hard_coded_answers_are_detected(program: str, is_stated: bool) -> None:
    lm = ScriptedLM([f"```python\n{program}\n```", *["true"] * 9])
    result = solve("What?", lm)
    assert result.trace.program is not None
    assert result.trace.program.is_hard_coded is is_stated


def test_hard_coded_answer_leads_to_a_repair() -> None:
    lm = ScriptedLM(["```python\nanswer = 42\n```", PLAIN])
    result = solve("What?", lm, method=compose("coc", repairs=1))
    assert result.answer == 42
    assert outcomes(result) == [("answered", "repair"), ("answered", "")]
    assert "must work it out" in lm.requests[1][-1].content


def test_critique_can_improve_a_program() -> None:
    lm = ScriptedLM(["```python\nanswer = 6 + 7\n```", "It must multiply.", PLAIN])
    result = solve("What is 6 times 7?", lm, method=compose("coc", repairs=1, critique=True))
    assert result.answer == 42
    assert "answer = 6 + 7" in lm.requests[1][-1].content
    assert "It must multiply." in lm.requests[2][-1].content
    content = ScriptedLM([PLAIN, "OK"])
    assert solve("What is 6 times 7?", content, method=compose("coc", repairs=1, critique=True)).answer == 42


def test_votes_on_programs_and_on_values() -> None:
    replies = iter(
        ["```python\nanswer = 1 + 1\n```", "```python\nanswer = 1 + 2\n```", "```python\nanswer = 3.0 * 1\n```"]
    )
    result = solve("What?", ScriptedLM(lambda messages: next(replies)), method=compose("coc", votes=3))
    assert result.answer == 3
    assert result.trace.answer is not None
    assert result.trace.answer.votes == {"2": 1, "3": 2}
    value_replies = iter(["```python\nanswer = weight('x')\n```", "1", "5", "5"])
    result = solve("What?", ScriptedLM(lambda messages: next(value_replies)), value_votes=3)
    assert result.answer == 5


def test_each_vote_has_its_own_seed() -> None:
    """With the same seed, a model would give each vote the same reply."""
    seeds: list[int] = []

    class RecordsSeeds(Around):
        async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
            seeds.append(options["seed"])
            return await super().complete(messages, **options)

    lm = RecordsSeeds(ScriptedLM(lambda messages: "```python\nanswer = 1 + 1\n```"))
    assert solve("What?", lm, method=compose("coc", votes=3)).answer == 2
    assert sorted(seeds) == [0, 1, 2]


# --- failures at every stage of a fallback ------------------------------------------------------------------------


def with_fallbacks(lm: Any, **options: Any) -> Any:
    return solve("How heavy?", lm, method=compose("coc", repairs=1, fallback=True), **options)


def test_fallback_skips_coc_lm_state_if_the_program_reads_files(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("price\n1\n2\n")
    lm = ScriptedLM(["answer = orders[5]['price']", "So the answer is 3."])
    result = solve("What do they cost?", lm, method=compose(fallback=True), files=[tmp_path / "orders.csv"])
    assert result.answer == "3" and len(lm.requests) == 2
    assert [then for _, then in outcomes(result)] == ["coc-lm-state", "cot", ""]
    skipped = [event.error for event in result.trace.events if isinstance(event, Answer) and event.then == "cot"]
    assert (
        skipped[0] is not None
        and skipped[0].message == "coc-lm-state was skipped: the model cannot read the input files"
    )


@pytest.mark.parametrize(
    "program",
    [
        "I am sorry, I cannot help with that.",
        "```python\nanswer = 1 / 0\n```",
        "```python\nimport os\nos._exit(3)\n```",
        "```python\nx = (((((\n```",
        "```python\nx = 1\n```",
        "```python\nanswer = 6 * weight('stone')\n```",
        "",
    ],
    ids=["refuses", "bug", "guest dies", "no program", "no answer", "hole fails", "empty"],
)
def test_fallbacks_always_end_in_an_answer(program: str) -> None:
    def reply(messages: Sequence[Message]) -> str:
        system, last = messages[0].content, messages[-1].content
        if "delta state:" in last:
            return "nobody knows"
        if "step by step" in system:
            return "I think.\nA: 5"
        if system.startswith("You are given a question"):
            return "x" * 300
        return program

    result = with_fallbacks(ScriptedLM(reply))
    assert (result.reason, result.answer) == ("answered", "5")
    steps = [then for _, then in outcomes(result)]
    assert steps[-3:] == ["coc-lm-state", "cot", ""]
    assert all(event.error is not None for event in result.trace.events if isinstance(event, Answer) and event.then)


def test_timeout_of_a_hole_leads_to_a_fallback() -> None:
    def reply(messages: Sequence[Message]) -> str:
        if "call: weight" in messages[-1].content:
            raise LMError("the model took over 60 s to answer", is_transient=True)
        return "A: 5" if messages[0].content.startswith("You are given") else HOLE

    result = with_fallbacks(ScriptedLM(reply))
    assert result.answer == "5"
    assert outcomes(result) == [("error", "coc-lm-state"), ("answered", "")]


def test_error_of_a_tool_leads_to_a_fallback() -> None:
    def weight(thing: str) -> float:
        raise OSError("the scales are broken")

    result = with_fallbacks(model(HOLE, run="A: 5"), tools=[weight])
    assert result.answer == "5"
    first = next(event for event in result.trace.events if isinstance(event, Answer))
    assert first.error is not None
    assert "the scales are broken" in first.error.message


def test_result_has_the_reason_if_every_fallback_fails() -> None:
    result = with_fallbacks(model("```python\nanswer = 1 / 0\n```"))
    assert result.reason == "error"
    assert [then for _, then in outcomes(result)] == ["repair", "coc-lm-state", "cot", "direct", ""]


def test_model_that_never_answers_is_an_error() -> None:
    def reply(messages: Sequence[Message]) -> str:
        raise LMError("nothing is there")

    with pytest.raises(LMError, match="nothing is there"):
        with_fallbacks(ScriptedLM(reply))


def test_spent_budget_does_not_lead_to_a_fallback() -> None:
    from chainofcode.lm.wrappers import Budgeted

    result = with_fallbacks(Budgeted(model("```python\nanswer = 1 / 0\n```"), calls=2))
    assert result.reason == "limit:calls"
    ended = [event for event in result.trace.events if isinstance(event, Answer)]
    assert [answer.then for answer in ended if answer.reason == "limit:calls"] == [""]


def test_wall_clock_limit_does_not_lead_to_a_fallback() -> None:
    limits = Limits(wall_seconds=0.5, run_seconds=30)
    result = with_fallbacks(model("```python\nwhile True: pass\n```"), limits=limits)
    ended = [event for event in result.trace.events if isinstance(event, Answer)]
    assert [(answer.reason, answer.then) for answer in ended] == [("limit:wall", "")]


async def never(pause: Any) -> Any:
    await asyncio.sleep(60)


class SlowToWrite(ScriptedLM):
    """A model that takes a minute to write a program, and answers at once without one."""

    async def complete(self, messages: Sequence[Message], **options: Any) -> Any:
        if 'starts with "A:"' not in messages[0].content:
            await asyncio.sleep(60)
        return await super().complete(messages, **options)


@pytest.mark.parametrize("is_slow_to_write", [False, True])
def test_method_that_takes_too_long_leads_to_the_quickest_one(is_slow_to_write: bool) -> None:
    lm = SlowToWrite(lambda messages: "A: 5") if is_slow_to_write else model(HOLE, direct="A: 5")
    method = compose("coc", repairs=1, fallback=True, seconds=0.5)
    result = solve("How heavy?", lm, emulator=None if is_slow_to_write else never, method=method)
    assert result.answer == "5"
    assert outcomes(result) == [("limit:method", "direct"), ("answered", "")]
    first = next(event for event in result.trace.events if isinstance(event, Answer))
    assert first.error is not None and first.error.message == "coc took over 0.5 seconds"
    assert is_slow_to_write or any(isinstance(event, Program) for event in result.trace.events)


class SlowToReason(ScriptedLM):
    """A model that takes a minute to reason in words."""

    async def complete(self, messages: Sequence[Message], **options: Any) -> Any:
        if "step by step" in messages[0].content:
            await asyncio.sleep(60)
        return await super().complete(messages, **options)


def requests(result: Any) -> list[tuple[str, bool]]:
    """The reply to each request in the trace, and whether it was cancelled."""
    return [(call.reply, call.is_abandoned) for call in result.trace.calls]


def test_trace_has_the_requests_that_a_time_limit_cancelled() -> None:
    method = compose("coc", fallback=True, seconds=0.5)
    assert requests(solve("How heavy?", SlowToWrite(lambda messages: "A: 5"), method=method)) == [
        ("", True),
        ("A: 5", False),
    ]
    program = "```python\nanswer = is_heavy('stone')\n```"

    def reply(messages: Sequence[Message]) -> str:
        if "delta state:" in messages[-1].content:
            return "true"
        return "A: yes" if 'starts with "A:"' in messages[0].content else program

    result = solve("Is it heavy?", SlowToReason(reply), method=compose("coc", fallback=True, seconds=3))
    assert outcomes(result)[-2:] == [("limit:method", "direct"), ("answered", "")]
    vote, cancelled, last = requests(result)[-3:]
    assert (vote, cancelled, last) == (("A: yes", False), ("", True), ("A: yes", False))


class SlowToJudge(ScriptedLM):
    """A model that takes a minute for the value of a call."""

    async def complete(self, messages: Sequence[Message], **options: Any) -> Any:
        if "delta state:" in messages[-1].content:
            await asyncio.sleep(60)
        return await super().complete(messages, **options)


@pytest.mark.parametrize(("votes", "share"), [(1, True), (2, False)])
def test_each_cancelled_request_is_in_the_trace_once(votes: int, share: bool) -> None:
    lm, method = SlowToJudge(lambda messages: HOLE), compose("coc", votes=votes, seconds=3)
    result = solve("How heavy?", lm, method=method, share=share)
    assert [is_abandoned for _, is_abandoned in requests(result)].count(True) == votes


@pytest.mark.parametrize("has_emulator", [False, True])
def test_trace_of_react_has_its_cancelled_requests(has_emulator: bool) -> None:
    lm = SlowToJudge(lambda messages: HOLE)
    result = solve("How heavy?", lm, emulator=lm if has_emulator else None, method=compose("react", seconds=3))
    assert [is_abandoned for _, is_abandoned in requests(result)] == [False, True]


def test_time_limit_without_a_fallback_ends_the_run() -> None:
    result = solve("How heavy?", model(HOLE), emulator=never, method=compose("coc", seconds=0.5))
    assert outcomes(result) == [("limit:method", "")]


async def after_a_wait(pause: Any) -> Any:
    with not_counted():
        await asyncio.sleep(2.5)
    return 7 if pause.name == "weight" else await never(pause)


def test_time_limit_does_not_count_waiting_for_a_person_or_a_download() -> None:
    two = "```python\nanswer = weight('stone') + weight('feather')\n```"
    result = solve("How heavy?", model(two), emulator=after_a_wait, method=compose("coc", seconds=2))
    assert result.answer == 14
    slow = "```python\nanswer = weight('stone') + price('stone')\n```"
    result = solve("How dear?", model(slow), emulator=after_a_wait, method=compose("coc", seconds=2))
    assert outcomes(result) == [("limit:method", "")]


def test_time_limits_of_votes_do_not_count_what_another_vote_waits_for() -> None:
    """A person answers the call for one vote; the others share the value, or download the same model."""
    result = solve("How heavy?", model(HOLE), emulator=after_a_wait, method=compose("coc", votes=2, seconds=2))
    assert outcomes(result) == [("answered", "vote"), ("answered", "vote"), ("answered", "")]
    assert result.trace.answer is not None and result.trace.answer.votes == {"42": 2}


def test_time_limit_of_a_method_keeps_the_cancellation_of_the_caller() -> None:
    async def cancelled() -> None:
        slow = asolve("How heavy?", model(HOLE), emulator=never, method=compose("coc", fallback=True, seconds=30))
        await asyncio.wait_for(slow, 0.5)

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())


# --- the paper's semantics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "replies", "answer"),
    [
        ("x = 2\ny = undefined_thing + x\nanswer = y", ['{"y": 7}'], 7),
        ("d = {}\nv = d['missing']\nanswer = v", ['{"v": 3}'], 3),
        ("answer = 1 / 0", ['{"answer": 0}'], 0),
        ("n = int('seven')\nanswer = n + 1", ['{"n": 7}'], 8),
    ],
)
def test_policy_paper_emulates_every_failing_line(program: str, replies: list[str], answer: object) -> None:
    lm = ScriptedLM([f"```python\n{program}\n```", *replies])
    assert solve("What?", lm, policy="paper").answer == answer


# --- regressions found in a review --------------------------------------------------------------------------------


def test_rejected_answer_is_kept_if_the_repair_fails() -> None:
    replies = ["```python\nanswer = 42\n```", "```python\nanswer = 1 / 0\n```"]
    assert solve("What?", ScriptedLM(replies), method=compose("coc", repairs=1)).answer == 42
    assert solve("What?", ScriptedLM(replies[:1]), method=compose("coc", repairs=1)).answer == 42


def test_call_without_arguments_is_requested_again_after_a_repair() -> None:
    first = "```python\nn = 0\nwhile has_more():\n    n += undefined_number\nanswer = n\n```"
    second = "```python\nn = 0\nwhile has_more():\n    n += 1\nanswer = n\n```"
    lm = ScriptedLM([first, "true", second, "true", "false"])
    assert solve("How many?", lm, method=compose("coc", repairs=1)).answer == 1


def test_value_that_does_not_fit_the_repaired_program_is_replaced() -> None:
    first = "```python\nT = {'a': 1}\nk = label('x')\nj = str(k)\nanswer = T[j]\n```"
    second = "```python\nT = {'a': 1, 'b': 2}\nanswer = T[label('x')]\n```"
    lm = ScriptedLM([first, '"class A"', second, '"b"'])
    assert solve("Which?", lm, method=compose("coc", repairs=1)).answer == 2


def test_failed_vote_is_not_counted() -> None:
    replies = iter(["```python\nanswer = 1 + 1\n```", LMError("down"), "```python\nanswer = 2 * 1\n```"])

    def reply(messages: Sequence[Message]) -> str:
        item = next(replies)
        if isinstance(item, Exception):
            raise item
        return item

    result = solve("What?", ScriptedLM(reply), method=compose("coc", votes=3))
    assert result.answer == 2

    def never(messages: Sequence[Message]) -> str:
        raise LMError("down")

    with pytest.raises(LMError, match="down"):
        solve("What?", ScriptedLM(never), method=compose("coc", votes=3))


def test_trace_has_the_winning_program() -> None:
    replies = iter(
        ["```python\nanswer = 1 + 1\n```", "```python\nanswer = 7 * 7\n```", "```python\nanswer = 2 * 1\n```"]
    )
    result = solve("What?", ScriptedLM(lambda messages: next(replies)), method=compose("coc", votes=3))
    assert result.answer == 2
    assert result.trace.program is not None
    assert "7" not in result.trace.program.source


def test_trace_records_the_fallback_of_coc_try_lm() -> None:
    result = solve("How heavy?", model(HOLE, read="A: 5"), method="coc-try-lm")
    assert outcomes(result) == [("emulation failed", "coc-lm"), ("answered", "")]


def test_react_discards_the_answer_of_a_failed_action() -> None:
    replies = ["```python\nanswer = 5\nprint(1 / 0)\n```", "```python\nprint('still')\n```", "A: 6"]
    assert solve("What?", ScriptedLM(replies), method="react").answer == "6"
    replies = ["```python\nimport sys\nsys.exit()\n```", "A: 7"]
    assert solve("What?", ScriptedLM(replies), method="react").answer == "7"


def test_critique_works_without_the_repairs_option() -> None:
    lm = ScriptedLM(["```python\nanswer = 6 + 7\n```", "It must multiply.", PLAIN])
    assert solve("What is 6 times 7?", lm, method=compose("coc", critique=True)).answer == 42


def test_long_replies_are_searched_quickly() -> None:
    started = time.monotonic()
    assert answer_in("x" + "\n" * 50_000 + "x" * 300) is None
    assert time.monotonic() - started < 5
    assert answer_in("The answer is 3.5. That is a lot.") == "3.5"


def test_budget_spent_on_a_retry_keeps_the_first_call_in_the_trace() -> None:
    from chainofcode import run
    from chainofcode.lm.wrappers import Budgeted

    result = run("def f(x) -> int: ...\nanswer = f(1)", Budgeted(ScriptedLM(["nonsense", "1"]), calls=1))
    assert result.reason == "limit:calls"
    assert result.usage.requests == 1


# --- judgement ----------------------------------------------------------------------------------------------------

CHOICE = "Which is funnier?\nOptions:\n(A) a wet sock\n(B) a dry sock"
JUDGING = "```python\nanswer = funnier(['a wet sock', 'a dry sock'])\n```"


def voting(program: str, value: str, cot: str, direct: str) -> ScriptedLM:
    """A model that writes the program, supplies the value, and answers for `cot` and for `direct`."""

    def reply(messages: Sequence[Message]) -> str:
        system, last = messages[0].content, messages[-1].content
        if "delta state:" in last:
            return json.dumps({"value": value})
        if "program" in system.lower():
            return program
        return f"So the answer is {cot}." if "step" in system.lower() else f"A: {direct}"

    return ScriptedLM(reply, in_flight=4)


def test_choice_by_judgement_is_put_to_a_vote_of_methods() -> None:
    result = solve(CHOICE, voting(JUDGING, "(A)", "(B)", "(B)"), method=compose("coc", fallback=True))
    assert result.answer == "(B)"
    answers = [event for event in result.trace.events if isinstance(event, Answer)]
    assert [answer.then for answer in answers] == ["vote", "vote", "vote", ""]
    assert answers[-1].votes == {"(A)": 1, "(B)": 2}


def test_program_wins_if_the_other_methods_disagree() -> None:
    result = solve(CHOICE, voting(JUDGING, "(A)", "(A)", "(B)"), method=compose("coc", fallback=True))
    assert result.answer == "(A)"


def test_text_of_an_option_counts_as_its_letter() -> None:
    result = solve(CHOICE, voting(JUDGING, "a dry sock", "(A)", "(B)"), method=compose("coc", fallback=True))
    assert (result.answer, result.trace.answer.votes) == ("a dry sock", {"(B)": 2, "(A)": 1})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("question", "program"),
    [
        (CHOICE, "```python\nanswer = '(A)' if len('wet') == 3 else '(B)'\n```"),  # Python alone computed the answer
        ("How many are funny?", "```python\nanswer = 1 if is_funny('sock') else 0\n```"),  # not a choice
    ],
)
def test_answers_without_judgement_or_choice_are_not_put_to_a_vote(question: str, program: str) -> None:
    lm = voting(program, "true", "(B)", "(B)")
    result = solve(question, lm, method=compose("coc", fallback=True))
    assert result.answer in ("(A)", 1)
    assert result.trace.answer is not None
    assert not result.trace.answer.votes


def test_answer_is_kept_if_the_other_methods_fail() -> None:
    def reply(messages: Sequence[Message]) -> str:
        if "delta state:" in messages[-1].content:
            return '{"value": "(A)"}'
        if "program" in messages[0].content.lower():
            return JUDGING
        raise LMError("the endpoint is gone")

    result = solve(CHOICE, ScriptedLM(reply), method=compose("coc", fallback=True))
    assert (result.answer, result.trace.answer.votes) == ("(A)", {"(A)": 1})  # type: ignore[union-attr]


def test_answer_of_coc_lm_is_put_to_a_vote() -> None:
    def reply(messages: Sequence[Message]) -> str:
        if "```python" in messages[-1].content:
            return "A: (A)"
        return "```python\nanswer = 1\n```" if "program" in messages[0].content.lower() else "A: (B)"

    result = solve(CHOICE, ScriptedLM(reply, in_flight=4), method=compose("coc-lm", fallback=True))
    assert (result.answer, result.trace.answer.votes) == ("(B)", {"(A)": 1, "(B)": 2})  # type: ignore[union-attr]


def test_methods_that_cannot_see_the_inputs_have_no_vote() -> None:
    lm = voting("```python\nanswer = funnier(texts)\n```", "(A)", "(B)", "(B)")
    assert solve(CHOICE, lm, method=compose("coc", fallback=True), inputs={"texts": ["a"]}).answer == "(A)"


def test_a_repeated_program_is_not_run_again() -> None:
    replies = ("answer = 1 / 0", "# again\nanswer = 1/0", "answer = 6 * 7")
    lm = ScriptedLM([f"```python\n{program}\n```" for program in replies])
    result = solve("What?", lm, method=compose("coc", repairs=2))
    assert result.answer == 42
    assert len([event for event in result.trace.events if isinstance(event, Program)]) == 2
    assert [message.role for message in lm.requests[2]][-1] == "user"
    assert "1 / 0" not in lm.requests[2][-1].content.partition("What went wrong")[0]  # the prompt starts afresh


def test_repair_prompt_contains_the_variables() -> None:
    lm = ScriptedLM(["```python\nfound = [3, 4]\nanswer = found[9]\n```", "```python\nanswer = len('ab')\n```"])
    assert solve("What?", lm, method=compose("coc", repairs=1)).answer == 2
    assert "found = [3, 4]" in lm.requests[1][-1].content


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("B", "(B)"),
        ("B. a dry sock", "(B)"),
        ("'A dry sock.'", "(B)"),
        (["(A)"], "(A)"),
        ("I think (B)", "(B)"),
        ("A, B", ""),
        ("A or B", ""),
        ("(A) or (C)", ""),
        ("(C)", ""),
        ("A sock", ""),
    ],
)
def test_option_chosen_by_an_answer(answer: Any, option: str) -> None:
    assert chosen(answer, options_in(CHOICE)) == option
    assert chosen(10**5000, options_in(CHOICE)) == ""


def test_number_too_long_for_python_to_print_is_not_an_option() -> None:
    lm = ScriptedLM(["```python\nanswer = 10 ** 5000\n```", "```python\nanswer = '(' + 'B)'\n```"])
    assert solve(CHOICE, lm, method=compose("coc", repairs=1)).answer == "(B)"
    lm = ScriptedLM(lambda messages: "```python\nanswer = 10 ** 5000\n```")
    assert solve(CHOICE, lm, method=compose("coc", votes=2)).answer == 10**5000


def test_answer_outside_the_options_leads_to_a_repair() -> None:
    lm = ScriptedLM(["```python\nanswer = 'a' + ' shoe'\n```", "```python\nanswer = '(' + 'B)'\n```"])
    assert solve(CHOICE, lm, method=compose("coc", repairs=1)).answer == "(B)"
    assert "none of the options: (A), (B)" in lm.requests[1][-1].content
