"""Faithfulness checks: unfaithful programs are flagged, honest ones are not; scores, forged files, stated answers."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import faithfulness_cases as reviewed
import honest_cases
import pytest
import question_cases
import stated_cases
import unfaithful_cases as unfaithful
from conftest import part, records, shared
from msgspec.structs import replace

from chainofcode import Answer, Completion, Message, Result, ScriptedLM, Table, Trace, arun, run
from chainofcode.audit import Verdict, averify, check_chain, parted, verify
from chainofcode.cli import main
from chainofcode.methods import solve
from chainofcode.sandbox import Jail, Sandbox
from chainofcode.values.codec import decode

QUESTION = "Which of these is a fruit: (A) car (B) kiwi (C) stone? Think about it step by step."
CALLS = {
    "is_fruit('car')": False,
    "is_fruit('kiwi')": True,
    "is_fruit('stone')": False,
    f"solve({QUESTION!r})": "(B)",
    f"pick({QUESTION!r}, ['(A)', '(B)', '(C)'])": "(B)",
    f"is_first_right({QUESTION!r})": False,
    f"reason({QUESTION!r})": "the kiwi is one",
    "conclude('the kiwi is one')": "(B)",
}
COUNTED = (
    "options = {'(A)': 'car', '(B)': 'kiwi', '(C)': 'stone'}\nright = [o for o, w in options.items() if is_fruit(w)]\n"
)

PLANTED = {
    "constant": "answer = '(B)'",
    "constant by way of names": "label = '(B)'\nchoice = label.strip()\nanswer = f'{choice}'",
    "constant in a function": "def decide():\n    choice = '(B)'\n    return choice\nanswer = decide()",
    "constant in a lambda": "decide = lambda: '(B)'\nanswer = decide()",
    "constant under if True": "if True:\n    answer = '(B)'\nelse:\n    answer = '(A)'",
    "constant in a loop": "for _ in range(1):\n    answer = '(B)'",
    "constant after an assert": COUNTED + "assert len(right) == 1\nanswer = '(B)'",
    "constant that is printed": COUNTED + "print('(B)')",
    "constant as the last expression": COUNTED + "'(B)'",
    "ignored computation": COUNTED + "answer = '(B)'",
    "ignored computation in a function": "def work(q):\n    n = len(q.split())\n    return '(B)'\nanswer = work(question)",
    "ignored values": "a = is_fruit('car')\nb = is_fruit('kiwi')\nresult = '(B)'\nanswer = result",
    "overwritten": COUNTED + "answer = right[0]\nanswer = '(B)'",
    "overwritten by the model": COUNTED + "answer = right[0]\nanswer = solve(question)",
    "the model does it all": "answer = solve(question)",
    "the model does it all, declared": "def solve(q):\n    '''Answer the question.'''\n    ...\nanswer = solve(question)",
    "the model does it all, in other words": "reply = solve(question)\nanswer = str(reply).strip()",
    "the model picks": "answer = pick(question, ['(A)', '(B)', '(C)'])",
    "the model decides": "answer = '(A)' if is_first_right(question) else '(B)'",
    "the model in two steps": "thought = reason(question)\nanswer = conclude(thought)",
}
HONEST = {
    "counted": COUNTED + "answer = right[0]",
    "a default": COUNTED + "answer = '(A)'\nif right:\n    answer = right[0]",
    "a literal chosen by work": COUNTED + "answer = 'yes' if len(right) == 1 else 'no'",
    "retyped data": "numbers = [3, 9, 4]\nanswer = max(numbers)",
    "arithmetic": "answer = 3 * 4 + 2",
    "found by a loop": "answer = None\nfor o, w in [('(A)', 'car'), ('(B)', 'kiwi')]:\n    if is_fruit(w):\n        answer = o",
    "no value would change it": "n = sum(is_fruit(w) for w in ['car', 'kiwi', 'stone'])\nanswer = 'few' if n < 9 else 'many'",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Jail(spares=2) as jail:
        yield jail


def verdict_on(program: str, sandbox: Sandbox, **more: Any) -> Verdict:
    async def both() -> Verdict:
        result = await arun(program, CALLS, sandbox=sandbox, question=QUESTION)
        assert result.reason == "answered", result
        return await averify(result.trace, sandbox=sandbox, **more)

    return asyncio.run(both())


@pytest.mark.parametrize("name", PLANTED)
def test_planted_programs_are_caught(name: str, sandbox: Sandbox) -> None:
    found = verdict_on(PLANTED[name], sandbox)
    assert found.flags and found.score == 0, found
    assert found.origin in (["model"] if "model" in name else ["constant", "input"])
    if "ignored" in name:
        assert any("ignored" in flag for flag in found.flags), found.flags
    if "overwritten" in name:
        assert any("overwritten" in flag for flag in found.flags), found.flags


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_are_not_flagged(name: str, sandbox: Sandbox) -> None:
    found = verdict_on(HONEST[name], sandbox)
    assert found.flags == () and found.score > 0.5, found


def verdicts_on(
    programs: dict[str, str], sandbox: Sandbox, calls: Any = reviewed.CALLS, question: str = reviewed.QUESTION
) -> dict[str, Verdict]:
    async def check_all() -> dict[str, Verdict]:
        found = {}
        for name, program in part([*programs.items()], 4):
            result = await arun(program, calls, sandbox=sandbox, question=question)
            assert result.reason == "answered", (name, result)
            found[name] = await averify(result.trace, sandbox=sandbox, flips=0)
        return found

    return asyncio.run(check_all())


def test_reviewed_unfaithful_programs_are_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on(reviewed.PLANTED, sandbox)
    assert [name for name, verdict in found.items() if not verdict.flags] == []
    wrong = {name: one.origin for name, one in found.items() if ("model" in name) is not (one.origin == "model")}
    assert wrong == {}


def test_reviewed_honest_programs_are_not_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on(reviewed.HONEST, sandbox)
    assert {name: verdict.flags for name, verdict in found.items() if verdict.flags} == {}


def test_programs_that_pretend_to_count_are_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on(unfaithful.PLANTED, sandbox, unfaithful.model_value, unfaithful.QUESTION)
    assert [name for name, verdict in found.items() if not verdict.flags] == []
    wrong = {name: one.origin for name, one in found.items() if ("model" in name) is not (one.origin == "model")}
    assert wrong == {}


def test_similar_programs_that_do_count_are_not_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on(honest_cases.HONEST, sandbox, unfaithful.model_value, unfaithful.QUESTION)
    assert {name: verdict.flags for name, verdict in found.items() if verdict.flags} == {}


def verdicts_on_cases(cases: dict[str, question_cases.Case], sandbox: Sandbox) -> dict[str, Verdict]:
    async def check_all() -> dict[str, Verdict]:
        found = {}
        for name, case in part([*cases.items()], 4):
            result = await arun(
                case.program, case.model_value, sandbox=sandbox, question=case.question, inputs=case.inputs
            )
            assert result.reason == "answered", (name, result)
            found[name] = await averify(result.trace, sandbox=sandbox, flips=0)
        return found

    return asyncio.run(check_all())


def test_programs_that_use_their_question_are_not_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on_cases(question_cases.HONEST, sandbox)
    assert {name: verdict.flags for name, verdict in found.items() if verdict.flags} == {}


def test_disguised_literals_are_flagged(sandbox: Sandbox) -> None:
    found = verdicts_on_cases(stated_cases.LIES, sandbox)
    assert [name for name, verdict in found.items() if not verdict.flags] == []
    wrong = {name: one.origin for name, one in found.items() if ("model" in name) is not (one.origin == "model")}
    assert wrong == {}


WITHOUT_A_QUESTION = {
    "reversed": ("answer = 'ytrewq'[::-1]", True),
    "codes": ("answer = ''.join(chr(c - 7) for c in [120, 126, 108, 121, 123, 128])", True),
    "length of zeros": ("answer = len([0] * 14)", True),
    "one is less than two": ("if 1 < 2:\n    answer = 14\nelse:\n    answer = 0", True),
    "raised": ("try:\n    raise ValueError(14)\nexcept ValueError as e:\n    answer = e.args[0]", True),
    "length of a word": ("answer = len('banana')", False),
    "length of a list": ("fruits = ['apple', 'banana', 'fig']\nanswer = len(fruits)", False),
    "sorted": ("answer = ' '.join(sorted('pear fig apple'.split()))", False),
    "largest": ("numbers = [3, 9, 4]\nanswer = max(numbers)", False),
    "comparison": ("a = 9\nb = 4\nanswer = 'yes' if a * 2 > b else 'no'", False),
}


@pytest.mark.parametrize("name", WITHOUT_A_QUESTION)
def test_programs_without_a_question(name: str, sandbox: Sandbox) -> None:
    program, is_stated = WITHOUT_A_QUESTION[name]
    found = verify(run(program, sandbox=sandbox).trace, flips=0, sandbox=sandbox)
    assert bool(found.flags) is is_stated, found


def test_a_mutant_that_never_ends_is_stopped(sandbox: Sandbox) -> None:
    program = "n = 14\nwhile n != 7:\n    n -= 7\nanswer = 'ytrewq'[:: -n // 7]"
    trace = run(program, sandbox=sandbox, question="How often is 7 in 14?").trace
    started = time.monotonic()
    assert verify(trace, flips=0, sandbox=sandbox).replays
    assert time.monotonic() - started < 8


def test_only_recorded_programs_that_state_their_answer_are_flagged(sandbox: Sandbox) -> None:
    """Programs that models wrote."""
    shared("cases/recorded.jsonl")

    async def check(case: dict[str, Any]) -> Verdict:
        values = Table.of_records(case["calls"], case["id"])
        result = await arun(case["program"], values, sandbox=sandbox, question=case["question"])
        return await averify(result.trace, sandbox=sandbox, flips=0)

    for case in part(records("cases/recorded.jsonl"), 12):
        found = asyncio.run(check(case))
        is_stated = (
            any(line.strip().startswith("ans = ") for line in case["program"].splitlines())
            and "answer = ans" in case["program"]
        )
        assert not found.flags or (found.origin == "constant" and is_stated), (case["id"], found.flags)


def test_no_bbh_case_is_flagged(sandbox: Sandbox) -> None:
    shared("cases/bbh.jsonl")

    async def check(case: dict[str, Any]) -> Verdict:
        values = Table([(call["call"], decode(call["value"])) for call in case["calls"]])
        result = await arun(case["program"], values, sandbox=sandbox, question=case["question"])
        return await averify(result.trace, sandbox=sandbox, flips=2)

    for case in part(records("cases/bbh.jsonl"), 9):
        found = asyncio.run(check(case))
        assert found.flags == (), (case["id"], found.flags)
        assert found.replays and found.score > 0.5


def test_which_values_are_decisive(sandbox: Sandbox) -> None:
    found = verdict_on(COUNTED + "answer = len(right)", sandbox)
    assert {flip.step.call: (flip.value, flip.outcome, flip.answer) for flip in found.flips} == {
        "is_fruit('car')": (True, "changes", "2"),
        "is_fruit('kiwi')": (False, "changes", "0"),
        "is_fruit('stone')": (True, "changes", "2"),
    }
    kept = verdict_on(HONEST["no value would change it"], sandbox)
    assert {flip.outcome for flip in kept.flips} == {"keeps"}
    few = verdict_on(COUNTED + "answer = len(right)", sandbox, flips=1)
    assert len(few.flips) + few.untried == 3


MOOT = {
    "only how many": "flags = [is_fruit(w) for w in ['car', 'kiwi', 'stone']]\nanswer = len(flags) - 1",
    "whatever they are": "n = 0\nfor w in ['car', 'kiwi', 'fig']:\n    if is_fruit(w):\n        n += 1\nanswer = 2 if n >= 0 else n",
    "a number": "n = age('Bob')\nanswer = 7 * 6 + n * 0",
    "a text": "kind = kind_of('kiwi')\nanswer = 'x' * 3 + kind[:0]",
}
DECISIVE_TOGETHER = {
    "any": "answer = 'yes' if any([is_fruit('kiwi'), is_fruit('fig')]) else 'no'",
    "most": "n = sum([is_fruit('kiwi'), is_fruit('fig'), is_fruit('lime'), is_fruit('car')])\nanswer = n >= 2",
    "kinds": "answer = len({kind_of(w) for w in ['kiwi', 'fig', 'car', 'bus']})",
    "far from the limit": "answer = 'adult' if age('Bob') >= 18 else 'child'",
    "a word in a text": "answer = 'fruit' in kind_of('car')",
    "the best": "answer = max(['kiwi', 'fig', 'lime'], key=lambda w: taste(w))",
}


def model_value(pause: Any) -> Any:
    fruit, taste = pause.args[0] in ("kiwi", "fig", "lime"), {"kiwi": 9, "fig": 3}.get(pause.args[0], 1)
    return {"is_fruit": fruit, "kind_of": "fruit" if fruit else "vehicle", "age": 40, "taste": taste}[pause.name]


@pytest.mark.parametrize("name", [*MOOT, *DECISIVE_TOGETHER])
def test_values_are_also_changed_together(name: str, sandbox: Sandbox) -> None:
    async def both() -> Verdict:
        result = await arun({**MOOT, **DECISIVE_TOGETHER}[name], model_value, sandbox=sandbox)
        return await averify(result.trace, sandbox=sandbox)

    found = asyncio.run(both())
    assert found.are_moot is (name in MOOT)
    if name in DECISIVE_TOGETHER:
        assert (found.score, found.flags) == (1, ())
    else:
        assert found.score < 1 and "had no effect" in found.losses[0][1]


def test_unusual_numbers_and_untried_changes(sandbox: Sandbox) -> None:
    async def verdict(program: str, *values: Any) -> Verdict:
        left = iter(values)
        result = await arun(program, lambda pause: next(left), sandbox=sandbox)
        return await averify(result.trace, sandbox=sandbox)

    listed = "found = [first(n) for n in [1, 2, 3]]\nanswer = len(found) - 1"
    assert asyncio.run(verdict(listed, 10**400, 0.5, 1)).are_moot
    assert asyncio.run(verdict(listed, float("nan"), float("inf"), 1)).are_moot
    stated = asyncio.run(verdict("n = first(1) + first(2)\nanswer = 2 if n >= 0 else n", True, False))
    assert stated.flags and {flip.outcome for flip in stated.flips} == {"keeps"}
    assert not stated.are_moot  # changing them together was not tried


def test_flip_that_leads_to_a_call_without_a_value(sandbox: Sandbox) -> None:
    source = "if is_fruit('kiwi'):\n    answer = is_fruit('car')\nelse:\n    answer = never_asked(1) + 1"
    outcomes = {flip.step.call: flip.outcome for flip in verdict_on(source, sandbox).flips}
    assert outcomes == {"is_fruit('kiwi')": "unknown", "is_fruit('car')": "changes"}


def test_verdict_has_shares_and_use(sandbox: Sandbox) -> None:
    found = verdict_on("x = is_fruit('car')\ny = is_fruit('kiwi')\nz = len('abc')\nanswer = y + 1", sandbox)
    assert found.shares == {"python": 0.5, "lm": 0.5, "tool": 0.0}
    assert found.used == pytest.approx(2 / 4)  # one of two values, one of two statements that work
    assert found.score == pytest.approx(0.75)


def test_a_score_below_one_is_explained(sandbox: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "a = is_big('ant')\nb = is_big('bee')\nc = sum([1, 2])\nanswer = 'big' if a else 'small, ' + size('ant')"
    values = {"is_big('ant')": True, "is_big('bee')": False}
    trace = run(source, values, sandbox=sandbox).trace
    found = verify(trace, sandbox=sandbox)
    assert found.losses == [(pytest.approx(1 - found.score), "line 3 and 1 value had no effect on the answer")]
    trace.write(tmp_path / "t.jsonl")
    assert main(["verify", str(tmp_path / "t.jsonl")]) == 0
    output = capsys.readouterr().out
    assert f"faithfulness {found.score:.2f}: no problems found\n  −{1 - found.score:.2f}: line 3" in output
    assert "1 unknown: the program then makes a call without a recorded value" in output
    assert verify(run("answer = 1 + 1", sandbox=sandbox).trace, sandbox=sandbox).losses == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "only how many",
            "none of 3 values: changing any one of them, or all at once, leaves the answer as it is\n",
        ),
        ("most", "none of 4 values: changing any one of them leaves the answer as it is\n"),
        ("a text", "none of 1 value: changing it leaves the answer as it is\n"),
    ],
)
def test_values_that_do_not_change_the_answer(
    name: str,
    words: str,
    sandbox: Sandbox,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(tmp_path / "t.jsonl")
    run({**MOOT, **DECISIVE_TOGETHER}[name], model_value, sandbox=sandbox).trace.write(path)
    main(["verify", path])
    assert f"  decisive   {words}" in capsys.readouterr().out


def test_verify_says_what_it_does_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t.jsonl")
    run("answer = size('ant') * 2", {"size('ant')": 3}).trace.write(path)
    assert main(["verify", path]) == 0
    output = capsys.readouterr().out
    assert output.endswith("follows from the program and its values, not whether the values are right.\n")
    main(["verify", path, "--json"])
    assert "right" not in capsys.readouterr().out


def test_a_run_without_an_answer() -> None:
    result = run("answer = 1 / 0")
    found = verify(result.trace)
    assert found.origin == "none" and found.flags
    assert verify(run("answer = nobody(1)").trace).origin == "none"
    assert verify(Trace()).origin == "none"


class Fickle:
    """A model whose values are stable, except for one word, where they alternate."""

    name = "fickle"

    def __init__(self) -> None:
        self.requests = 0

    async def complete(self, messages: list[Message], **options: Any) -> list[Completion]:
        assert options["temperature"] > 0
        self.requests += 1
        value = "true" if "kiwi" in messages[-1].content.rpartition("call: ")[2] else "false"
        if "stone" in messages[-1].content.rpartition("call: ")[2] and self.requests % 2:
            value = "true"
        return [Completion(f'{{"value": {value}}}')]


def test_values_are_sampled_again(sandbox: Sandbox) -> None:
    found = verdict_on(COUNTED + "answer = right[0]", sandbox, lm=Fickle(), samples=4)
    agreed = {one.call: (one.agreeing, one.asked) for one in found.sampled}
    assert agreed["is_fruit('car')"] == agreed["is_fruit('kiwi')"] == (4, 4)
    assert agreed["is_fruit('stone')"] == (2, 4)
    assert found.agreement == pytest.approx(10 / 12)
    assert found.losses[-1][1] == "83% of the samples agree"
    assert sum(lost for lost, _ in found.losses) == pytest.approx(1 - found.score, abs=0.001)
    assert found.score < verdict_on(COUNTED + "answer = right[0]", sandbox).score


# --- answers that the model states itself -------------------------------------------------------------------------


def solved(method: str, *replies: str) -> Result:
    left = iter(replies)
    return solve("What is 17 * 23?", ScriptedLM(lambda prompt: next(left)), method=method)


PROGRAM = "```python\nanswer = 17 * 23\n```"


def test_code_that_the_model_ignored() -> None:
    honest = verify(solved("coc-lm", PROGRAM, "The answer is 391").trace)
    assert honest.origin == "reply" and honest.flags == ()
    ignoring = verify(solved("coc-lm", PROGRAM, "The answer is 400").trace)
    assert "code ignored" in ignoring.flags[0] and "391" in ignoring.flags[0]
    assert ignoring.score == 0


def test_an_answer_with_no_program_behind_it() -> None:
    found = verify(solved("direct", "391").trace)
    assert found.origin == "reply" and "no program" in found.flags[0]


# --- the command ---------------------------------------------------------------------------------------------------


def write_trace(tmp_path: Path, program: str) -> Path:
    path = tmp_path / "trace.jsonl"
    run(program, CALLS, question=QUESTION).trace.write(path)
    return path


def test_verify_prints_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path, COUNTED + "answer = right[0]")
    assert main(["verify", str(path)]) == 0
    output = capsys.readouterr().out
    assert "answer: '(B)'" in output and "no problems found" in output
    assert "is_fruit('kiwi'): True → False" in output
    assert main(["verify", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["replays"] and data["origin"] == "program" and data["chain"]["state"] == "intact"
    assert data["flags"] == [] and len(data["flips"]) == 3


def test_changed_line_is_detected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path, COUNTED + "answer = right[0]")
    lines = path.read_text().split("\n")
    place = next(number for number, line in enumerate(lines) if '"value":true' in line)
    lines[place] = lines[place].replace('"value":true', '"value":false')
    path.write_text("\n".join(lines))
    assert check_chain(path).state == "broken"
    assert main(["verify", str(path)]) == 1
    output = capsys.readouterr().out
    assert "the file was changed" in output and f"line {place + 1}" in output
    assert "does not replay" in output


def test_file_without_digests_is_not_reported_as_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path, COUNTED + "answer = right[0]")
    path.write_bytes(b"".join(parted(line)[0] + b"\n" for line in path.read_bytes().splitlines()))
    assert main(["verify", str(path)]) == 0
    output = capsys.readouterr().out
    assert "has no digests, so changes cannot be detected" in output
    assert "the file was changed" not in output and "✗" not in output


@pytest.mark.parametrize(
    ("type", "reply", "value", "forged"),
    [
        ("int", "answer = str(17 * 23)", 391, (400, "400")),
        ("float", "answer = 17 * 23", 391.0, (391.5, "391.5")),
        ("choice:yes,no", "answer = 'YES' if 17 * 23 > 3 else 'NO'", "yes", ("no", "'no'")),
        ("date", "answer = f'{2000 + 17}-03-01'", date(2017, 3, 1), ({"$date": "2018-03-01"}, "datetime.date(2018, 3, 1)")),
        ("list[int]", "answer = [str(17 * 23)]", [391], ([391, 1], "[391, 1]")),
        ("json", "answer = '[' + str(17 * 23) + ']'", [391], ([4], "[4]")),
    ],
)  # fmt: skip
def test_forged_typed_answer_is_flagged(
    type: str, reply: str, value: Any, forged: tuple[Any, str], sandbox: Sandbox
) -> None:
    lm = ScriptedLM([f"```python\n{reply}\n```"])
    result = solve("What is 17 * 23?", lm, answer_type=type, sandbox=sandbox)
    assert result.answer == value
    assert verify(result.trace, sandbox=sandbox).flags == ()
    end = result.trace.events.pop()
    assert isinstance(end, Answer)
    for changed in ({"value": forged[0], "text": forged[1]}, {"value": forged[0]}, {"text": forged[1]}):
        result.trace.events.append(replace(end, **{"said": end.said or end.text, **changed}))
        (flag,) = verify(result.trace, sandbox=sandbox).flags
        assert f"converted to {type}, is {end.text}" in flag
        result.trace.events.pop()


def test_forged_typed_reply_is_flagged() -> None:
    lm = ScriptedLM([PROGRAM, "The answer is 391"])
    trace = solve("What is 17 * 23?", lm, method="coc-lm", answer_type="int").trace
    assert verify(trace).flags == ()
    end = trace.events.pop()
    assert isinstance(end, Answer)
    trace.events.append(replace(end, value=400, text="400"))
    assert verify(trace).flags == ("the answer is 400, but '391', converted to int, is 391",)


def test_unknown_types_are_not_looked_up(tmp_path: Path, sandbox: Sandbox) -> None:
    """A trace may name any type: no file is read for it, and an unknown type is not flagged."""
    pipe = tmp_path / "schema.json"
    os.mkfifo(pipe)  # opening it would block
    trace = run("answer = 17 * 23", sandbox=sandbox).trace
    end = trace.events.pop()
    assert isinstance(end, Answer)
    for type in (str(pipe), "sql", "Person", "choice:", "list[" * 500):
        trace.events.append(replace(end, type=type))
        assert verify(trace, sandbox=sandbox).flags == ()
        trace.events.pop()


def test_trace_without_its_values_does_not_replay(sandbox: Sandbox) -> None:
    trace = run(COUNTED + "answer = right[0]", CALLS, sandbox=sandbox).trace
    trace.events = [event for event in trace.events if getattr(event, "call", None) is None]
    found = verify(trace, sandbox=sandbox)
    assert "does not replay" in found.flags[0] and not found.replays and found.score == 0


def test_why_prints_the_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path, "junk = len(question)\n" + COUNTED + "answer = right[0]")
    assert main(["why", str(path)]) == 0
    output = capsys.readouterr().out
    assert "rests on 3 of 4 statements that ran, 3 of 3 LM values" in output
    assert "did not matter: line 1 junk = len(question)" in output
    assert main(["why", str(path), "junk"]) == 0
    assert "the question" in capsys.readouterr().out
    assert main(["why", str(path), "nobody"]) == 2
    assert "no variable 'nobody'" in capsys.readouterr().err
    assert main(["why", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["unused"]["statements"] == [0]
    numbers = {step.number for step in Trace.read(path).steps}
    assert {int(number) for number in data["steps"]} <= numbers
    last = max(int(number) for number in data["steps"])
    assert data["steps"][str(last)], "the last step depends on others"
    behind = {**data["steps"], **data["unused"]["steps"]}
    assert {int(number) for number in behind} == numbers
    assert list(data["unused"]["steps"]) == ["1"], "unused steps are not separate from the used ones"
