"""`coc ask`, `coc run --model` and `coc eval` as a user or a script sees them, and the same from Python."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from endpoint import serving
from test_cli import COC, coc

from chainofcode import LMError, Program, ScriptedLM, Step, Trace, arun, ask, asolve, solve
from chainofcode.evals import Sample, Score, evaluate, is_same, load
from chainofcode.lm.local import LocalLM
from chainofcode.methods import Inquiry, Ways, compose

PROGRAM = "```python\nitems = ['fig', 'saw']\nn = 0\nfor item in items:\n    if is_fruit(item):\n        n += 1\nanswer = n\n```"
SCRIPT: list[Any] = [
    {"when": "Question: How many", "reply": PROGRAM},
    {"when": "call: is_fruit('fig')", "reply": '{"value": true}'},
    {"when": "call: is_fruit('saw')", "reply": "No."},
]
QUESTION = "How many of these are fruit: fig, saw?"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in SCRIPT))
    return path


def test_standard_output_has_only_the_answer(script: Path, tmp_path: Path) -> None:
    done = coc("ask", QUESTION, "--model", f"scripted:{script}", "--trace", tmp_path / "t.jsonl")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert re.search(r"4  lm +if is_fruit\(item\): +is_fruit\('fig'\) → True", done.stderr)
    assert "\x1b" not in done.stderr
    assert "3 LM requests" in done.stderr
    trace = Trace.read(tmp_path / "t.jsonl")
    assert trace.question == QUESTION
    assert trace.calls[0].reply == PROGRAM
    assert len(trace.calls) == 3
    shown = coc("show", tmp_path / "t.jsonl")
    assert shown.stdout.startswith("answer: 1\n")


def test_json_output(script: Path) -> None:
    done = coc("ask", QUESTION, "--model", f"scripted:{script}", "--json", "--quiet")
    record = json.loads(done.stdout)
    assert (record["answer"], record["value"], record["reason"], record["lm_calls"]) == ("1", 1, "answered", 2)
    assert record["question"] == QUESTION
    assert record["program"].startswith("items = ['fig', 'saw']")
    assert record["usage"]["requests"] == 3
    assert record["model"] == f"scripted:{script}"
    assert done.stderr == ""


def test_question_from_standard_input(script: Path) -> None:
    done = subprocess.run(
        [*COC, "ask", "-", "--model", f"scripted:{script}", "--quiet"],
        input=QUESTION, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("answer = 'plain text'", "plain text"),
        ("import datetime\nanswer = datetime.date(2024, 2, 29)", "2024-02-29"),
        ("answer = ['a', 'b']", "a, b"),
        ("answer = [1, 2]", "[1, 2]"),
        ("answer = 2.5", "2.5"),
        ("print('said')", "said"),
    ],
)
def test_answers_are_printed_without_quotes(program: str, printed: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(f"```python\n{program}\n```"))
    done = coc("ask", "What?", "--model", f"scripted:{path}", "--quiet", "--repairs", "0")
    assert done.stdout == printed + "\n", done.stderr


def test_failure_names_cause_and_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps("```python\nx = 1\nanswer = x / 0\n```"))
    done = coc("ask", "What?", "--model", f"scripted:{path}", "--repairs", "0", "--no-fallback")
    assert (done.returncode, done.stdout) == (1, "")
    assert "line 2: ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", ""], "the question is empty"),
        (["ask", "x" * 100_001], "the limit is 100,000"),
        (["ask", "What?", "--model", "nonsense"], "unknown model 'nonsense'"),
        (["ask", "What?", "--model", "local:nonsense"], "nonsense"),
        (["ask", "What?", "--model", "local:/nowhere.gguf"], "no model file"),
        (["ask", "What?", "--model", "scripted:/nowhere"], "cannot read /nowhere"),
        (["ask", "What?", "--shots", "-1", "--model", "scripted:x"], "--shots must be 0 or more"),
        (["ask", "What?", "--budget", "hugs=3", "--model", "scripted:README.md"], "--budget must be"),
        (["eval", "nonsense"], "a suite is one of"),
        (["eval", "README.md"], "line 1: not a sample"),
        (["eval", "questions", "--split", "nonsense"], "no samples in split 'nonsense'"),
        (["eval", "questions", "--limit", "-2"], "--limit must be 1 or more"),
        (["ask", "What?", "--method-seconds", "-1", "--model", "scripted:x"], "--method-seconds must be 0 or more"),
        (["ask", "What?", "--model", "scripted:README.md", "--trace", "none/t"], "there is no directory none"),
    ],
)
def test_bad_input_is_explained(arguments: list[str], message: str) -> None:
    done = coc(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_request_that_the_time_limit_cancelled_is_not_shown_as_a_reply(tmp_path: Path) -> None:
    script, path = tmp_path / "s.jsonl", tmp_path / "t.jsonl"
    script.write_text(json.dumps({"when": "heavy", "reply": "", "seconds": 60}))
    limit = ("--no-fallback", "--method-seconds", "0.5")
    done = coc("ask", "How heavy?", "--model", f"scripted:{script}", *limit, "--trace", str(path))
    assert done.returncode == 1
    assert [call.is_abandoned for call in Trace.read(path).calls] == [True]
    assert "coc took over 0.5 seconds" in done.stderr
    assert "replied" not in done.stderr
    assert done.stderr.endswith("use --method-seconds 5\n")


def test_money_budget_without_a_price_suggests_tokens(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"content": "```python\nanswer = f(1)\n```"}}], "usage": {}}
    with serving(reply) as endpoint:
        model = ("--model", "openai:unpriced", "--base-url", f"{endpoint.url}/v1", "--api-key", "k")
        done = coc("ask", "What?", *model, "--budget", "money=5")
    assert done.returncode == 1
    assert "the price of openai:unpriced is unknown, so a money budget cannot be enforced" in done.stderr
    assert done.stderr.endswith("to limit tokens instead, use --budget tokens=N\n")


def test_limit_on_calls_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in ["```python\nanswer = [f(n) for n in range(9)]\n```", *["1"] * 9]))
    done = coc("ask", "What?", "--model", f"scripted:{path}", "--limit", "calls=3")
    assert done.returncode == 1
    assert "limit:calls" in done.stderr


def test_budget_spent_before_the_program_ends_the_run() -> None:
    from chainofcode.lm.wrappers import Budgeted

    lm = Budgeted(ScriptedLM(["answer = 1"]), calls=1)
    assert solve("What?", lm).answer == 1
    assert solve("What?", lm).reason == "limit:calls"


def test_run_with_a_model(script: Path, tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text(PROGRAM)
    done = coc("run", program, "--model", f"scripted:{script}", "--json")
    assert json.loads(done.stdout)["value"] == 1
    values = tmp_path / "v.jsonl"
    values.write_text('{"call": "is_fruit(\'saw\')", "value": true}')
    done = coc("run", program, "--model", f"scripted:{script}", "--values", values, "--json")
    assert json.loads(done.stdout)["value"] == 2  # a known value is not requested
    records = tmp_path / "r.jsonl"
    records.write_text(json.dumps({"id": "a", "program": PROGRAM}) + "\n" + json.dumps({"id": "b", "program": PROGRAM}))
    done = coc("run", records, "--model", f"scripted:{script}")
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == [1, 1]


def test_eval_counts_each_outcome(tmp_path: Path) -> None:
    suite, path = tmp_path / "suite.jsonl", tmp_path / "s.jsonl"
    samples = [
        {"id": "a", "program": "answer = f(1)", "targets": [1], "kind": "k"},
        {"id": "b", "program": "answer = f(2)", "targets": [5]},
        {"id": "c", "program": "answer = int(is_odd(3))", "targets": [1]},
        {"id": "d", "question": "Why?", "targets": ["because"]},
    ]
    suite.write_text("\n".join(map(json.dumps, samples)))
    replies = ["1", "2", "who knows", "not me", "```python\nanswer = question and 'Because.'\n```"]
    path.write_text("\n".join(map(json.dumps, replies)))
    no_retries = ("--repairs", "0", "--no-fallback")
    done = coc("eval", suite, "--model", f"scripted:{path}", "--json", *no_retries)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["verdict"] for line in lines[:-1]] == ["right", "wrong", "no answer", "right"]
    totals = lines[-1]
    assert (totals["right"], totals["wrong"], totals["no_answer"]) == (2, 1, 1)
    assert (totals["retries"], totals["format_failures"]) == (1, 1)
    path.write_text("\n".join(map(json.dumps, replies)))
    table = coc("eval", suite, "--model", f"scripted:{path}", *no_retries).stdout
    assert table.startswith(f"{suite} with scripted:{path}: 2 of 4 right\n")


def test_eval_continues_after_a_sample_that_cannot_run(tmp_path: Path) -> None:
    suite, path = tmp_path / "suite.jsonl", tmp_path / "s.jsonl"
    samples = [{"id": f"\x1b[2J{n}", "program": f"answer = f({n})", "targets": [n], "kind": "\x07k"} for n in range(5)]
    suite.write_text("\n".join(map(json.dumps, samples)))
    path.write_text("\n".join(json.dumps({"when": f"call: f({n})", "reply": str(n)}) for n in (0, 1, 4)))
    no_retries = ("--repairs", "0", "--no-fallback", "--at-once", "1")
    done = coc("eval", suite, "--model", f"scripted:{path}", "--json", *no_retries)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["verdict"] for line in lines[:-1]] == ["right", "right", "no answer", "no answer", "right"]
    assert (lines[2]["reason"], lines[-1]["right"], lines[-1]["no_answer"]) == ("not run", 3, 2)
    assert "no reply left" in lines[2]["error"]
    table = coc("eval", suite, "--model", f"scripted:{path}")
    assert "3 of 5 right" in table.stdout
    assert "\x1b" not in table.stdout + table.stderr
    assert "\x07" not in table.stdout
    path.write_text(json.dumps({"when": "call: f(4)", "reply": "4"}))
    done = coc("eval", suite, "--model", f"scripted:{path}", "--at-once", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no reply left" in done.stderr


def counted(lm: ScriptedLM, **ways: Any) -> tuple[str, int, int]:
    async def scored() -> Score:
        given = Ways(**{"method": compose("coc", repairs=1), **ways})
        (score,) = [score async for score in evaluate([Sample("a", "How many?", targets=[1])], lm, "auto", given)]
        return score

    score = asyncio.run(scored())
    return score.verdict, score.calls, score.retries


def test_only_unfitting_values_count_as_retries() -> None:
    holes = "```python\nanswer = int(is_odd(3))\n```"
    assert counted(ScriptedLM([holes, "who knows", "true"])) == ("right", 3, 1)
    assert counted(ScriptedLM([holes, "who", "true", "false", "true"]), value_votes=3) == ("right", 4, 0)
    assert counted(ScriptedLM([holes, *["who knows"] * 2, *["true"] * 2]), value_votes=2) == ("right", 5, 1)
    broken = "```python\nanswer = 1 / 0\n```"
    assert counted(ScriptedLM([broken, "```python\nx = 0\nanswer = x + 1\n```"])) == ("right", 2, 0)  # a repair
    assert counted(ScriptedLM([holes, "who knows", "not me"])) == ("no answer", 3, 1)
    critical = compose("coc", critique=True)
    assert counted(ScriptedLM([holes, "true", "OK"]), method=critical)[1:] == (3, 0)
    voting = compose("coc", votes=2)
    assert counted(
        ScriptedLM(lambda messages: holes if "call:" not in messages[-1].content else "true"), method=voting
    ) == (
        "right",
        3,
        0,
    )  # fmt: skip - two programs, and the value that both use


def test_numbers_are_compared_as_numbers() -> None:
    assert not is_same(10**400, 5)
    assert not is_same(5, 10**400)
    assert not is_same(10**400, 10**400 + 1)
    assert not is_same(10**400, 1.5)
    assert not is_same(10**400, math.inf)
    assert is_same(10**400, 10**400)
    assert is_same(str(10**400), 10**400)
    assert not is_same(10**5000, "x")
    assert not is_same([10**5000], "1" * 5001)
    assert is_same("9" * 5000, "9" * 5000)
    assert not is_same("9" * 5000, "8" * 5000)
    assert is_same("Infinity", "Infinity")
    assert is_same(math.inf, "inf")
    assert not is_same(math.inf, -math.inf)
    assert not is_same(math.inf, 5)
    assert is_same(math.nan, "NaN")
    assert not is_same(math.nan, 5)
    assert not is_same("1,2", 12)
    assert not is_same("1,2", "12")
    assert not is_same("1,23,456", 123456)
    assert is_same("1,234,567.5", 1234567.5)
    assert is_same("$1,234", 1234)
    assert is_same(0.1 + 0.2, 0.3)
    assert not is_same(10**6, 10**6 + 1)


def test_lines_of_a_suite_end_only_at_newlines(tmp_path: Path) -> None:
    suite = tmp_path / "suite.jsonl"
    lines = (
        '{"id": "a", "question": "one\u2028two\x85three", "target": 1}',
        "",
        '{"id": "b", "question": "?", "target": 2}',
    )
    suite.write_bytes("\r\n".join(lines).encode())
    assert [sample.question for sample in load(str(suite))] == ["one\u2028two\x85three", "?"]


def test_answers_are_compared_by_value() -> None:
    assert is_same(3, 3.0)
    assert is_same("3", 3)
    assert is_same("Yes", "yes")
    assert is_same(True, "yes")
    assert is_same("12:15 PM.", "12:15 pm")
    assert is_same(["a", "B"], ["A", "b"])
    assert is_same(["Greta"], "Greta")
    assert not is_same(["a", "b"], ["b", "a"])
    assert not is_same(True, 1)
    assert not is_same("30", 3)
    assert not is_same(None, "no")


def test_suites_are_complete() -> None:
    emulation, questions, varied = load("emulation"), load("questions"), load("varied")
    assert (len(emulation), len(questions), len(varied)) == (40, 20, 300)
    for suite in (emulation, questions):
        assert sum(sample.split == "held-out" for sample in suite) * 2 == len(suite)
    assert {sample.kind for sample in emulation} == {"bool", "str", "int", "list", "label"}


# --- a terminal ---------------------------------------------------------------------------------------------------


def in_terminal(*arguments: str, interrupt_after: float | None = None) -> tuple[int, str]:
    """Run in a pseudo-terminal; return the exit code and the output."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        os.execv(sys.executable, [*COC, *arguments])
    drawn, started = b"", time.monotonic()
    while time.monotonic() - started < 60:
        if interrupt_after is not None and time.monotonic() - started > interrupt_after:
            os.write(fd, b"\x03")
            interrupt_after = None
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            drawn += data
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), drawn.decode()


def test_all_commands_state_the_duration_of_the_whole_run(tmp_path: Path) -> None:
    """Not only that of the last program: writing and repairing it takes longer."""
    replies = [
        {"when": "NameError", "reply": "```python\nanswer = 4\n```", "seconds": 0.4},
        {"when": "Question:", "reply": "```python\nanswer = nothing\n```", "seconds": 0.4},
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    done = coc("ask", "What?", "--model", "scripted:s.jsonl", "--trace", "t.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = Trace.read(tmp_path / "t.jsonl").answer
    assert answer is not None and answer.total_seconds >= 0.8 > answer.seconds
    assert done.stderr.endswith(f" · {answer.total_seconds:.1f} s\n")
    assert json.loads(done.stdout)["seconds"] == round(answer.total_seconds, 6)
    assert coc("show", "t.jsonl", cwd=tmp_path).stdout.endswith(f" · {answer.total_seconds:.2f} s\n")


def test_questions_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps("```python\nanswer = len(question)\n```"))
    trace = tmp_path / "t.jsonl"
    for question, stdin in ((b"caf\xe9?", None), (b"-", b"caf\xe9?")):
        done = subprocess.run(
            [*map(os.fsencode, COC), b"ask", question, b"--model", os.fsencode(f"scripted:{path}"), b"--json"]
            + [b"--trace", os.fsencode(trace)],
            input=stdin, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert (record["question"], record["value"]) == ("caf\\xe9?", 8)
        assert Trace.read(trace).question == "caf\\xe9?"
    done = subprocess.run(
        [*map(os.fsencode, COC), b"run", b"-", b"--question", b"caf\xe9?", b"--trace", os.fsencode(trace)],
        input=b"answer = len(question)", capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith(b"answer: 5"), done.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_answer_cannot_control_the_terminal(tmp_path: Path, more: tuple[str, ...]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(
        json.dumps("```python\nanswer = 'a' + chr(27) + ']0;pwned' + chr(7) + chr(155) + '2J\\nb' * 1\n```")
    )
    arguments = ("ask", QUESTION, "--quiet", "--model", f"scripted:{path}", *more)
    code, drawn = in_terminal(*arguments)
    assert code == 0
    assert not set(drawn) & {"\x1b", "\x07", "\x9b"}
    assert "]0;pwned" in drawn
    piped = coc(*arguments)
    assert ("]0;pwned\x07\x9b2J\nb" in piped.stdout) != bool(more)


def test_interrupting_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps("```python\nimport time\nwhile True: pass\n```"))
    code, drawn = in_terminal("ask", "How long?", "--model", f"scripted:{path}", interrupt_after=2)
    assert code == 130
    assert "coc: interrupted" in drawn
    assert "Traceback" not in drawn


def test_interrupting_a_pipe_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps("```python\nwhile True: pass\n```"))
    child = subprocess.Popen([*COC, "ask", "How long?", "--model", f"scripted:{path}"], stdout=-1, stderr=-1, text=True)
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, "")
    assert "Traceback" not in err


# --- from Python --------------------------------------------------------------------------------------------------


def scripted() -> ScriptedLM:
    def reply(messages: Any) -> str:
        last = messages[-1].content
        return next(line["reply"] for line in SCRIPT if line["when"] in last)

    return ScriptedLM(reply)


def test_solve_returns_the_answer_and_its_trace() -> None:
    result = solve(QUESTION, scripted())
    assert result.answer == 1
    assert result.trace.question == QUESTION
    assert result.trace.program is not None
    assert result.trace.program.source.startswith("items")


def test_prompt_contains_inputs() -> None:
    lm = ScriptedLM(["```python\nanswer = sum(prices)\n```"])
    result = asyncio.run(asolve("What is the sum?", lm, inputs={"prices": [1, 2, 3]}))
    assert result.answer == 6
    assert "prices = [1, 2, 3]" in lm.requests[0][-1].content


def test_ask_is_a_stream_of_events() -> None:
    async def collect() -> list[Any]:
        return [event async for event in ask(QUESTION, scripted())]

    events = asyncio.run(collect())
    kinds = [type(event).__name__ for event in events]
    assert kinds[:3] == ["Header", "Call", "Program"]
    assert kinds[-1] == "Answer"
    assert isinstance(events[2], Program)
    assert [event.call for event in events if isinstance(event, Step) and event.by == "lm"] == [
        "is_fruit('fig')", "is_fruit('saw')",
    ]  # fmt: skip


def test_number_of_examples_in_the_prompt_can_be_set() -> None:
    def instructions(lm: ScriptedLM, shots: int | None = None) -> str:
        return "\n".join(message.content for message in Inquiry("?", lm, shots).shown("program"))

    large, small = ScriptedLM([]), ScriptedLM([])
    small.is_small = True
    assert "Question:" not in instructions(large, 0)
    assert instructions(large, 1).count("Question:") == 1
    assert instructions(small).count("Question:") > instructions(large).count("Question:") > 1
    assert instructions(small) != instructions(large)


def test_every_example_in_the_prompts_runs() -> None:
    for lm in (ScriptedLM([]), ScriptedLM([], "local:x")):
        for message in Inquiry("?", lm).shown("program")[2::2]:
            text = message.content
            result = asyncio.run(arun(text, lambda pause: True if "is_" in pause.name else 3))
            assert result.reason == "answered", (text, result.error)


def test_a_model_that_fails_is_an_error_not_an_answer() -> None:
    with pytest.raises(LMError, match="no reply left"):
        solve("What?", ScriptedLM([]))


# --- a real model -------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_values_of_a_real_model_have_the_right_types(small_model: Path) -> None:
    """A model of 135 million parameters: the test checks only the types of its values."""
    program = """
from datetime import date
def when(event: str) -> date: ...
flags = [is_fruit(x) for x in ['fig', 'saw']]
total = 0
total += weight('stone')
label = mood('hello')
if label == 'happy': mark = 1
elif label == 'sad': mark = 2
words = [w for w in synonyms('big')]
answer = [all(type(f) is bool for f in flags), type(total) in (int, float), label in ('happy', 'sad'), type(words) is list, when('x').year > 0]
"""
    with LocalLM(str(small_model)) as lm:
        result = asyncio.run(arun(program, lm, question="What is it?"))
    assert result.answer == [True] * 5, result
    assert result.usage.completion_tokens > 0


@pytest.mark.skipif(not os.environ.get("COC_TEST_MODEL"), reason="COC_TEST_MODEL=1 asks the embedded model (1.1 GB)")
def test_first_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (question,) = re.findall(r'coc ask "([^"]+)"', readme)[:1]
    wanted = readme.partition(f'coc ask "{question}"')[2].partition("```text\n")[2].partition("\n")[0]
    done = subprocess.run(
        [*COC, "ask", question, "--yes"], capture_output=True, text=True, check=False, timeout=1500, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == wanted, done.stderr
