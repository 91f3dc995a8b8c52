"""The evaluation: recorded replies scored as published, runs that survive being killed, reports."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from test_cli import COC, coc

from chainofcode.errors import LMError
from chainofcode.evals import Score
from chainofcode.evals.charts import bars
from chainofcode.evals.recorded_replies import Reply, tally
from chainofcode.evals.report import Summary, compare
from chainofcode.evals.runner import EarlyStop
from chainofcode.evals.samples import Sample
from chainofcode.evals.scoring import accuracy, is_same, is_target, judge, stated
from chainofcode.evals.shots import shots
from chainofcode.evals.tasks import bbh, examples, files, gsm8k, paper, task_of

DATA = SHARED / "data"
REPLIES = DATA / "bbh" / "recorded-replies"


def need_data() -> None:
    if not DATA.exists():
        pytest.skip("../shared/data is not here")


# --- recorded replies ---------------------------------------------------------------------------------------------


def test_recorded_replies_score_as_published() -> None:
    need_data()
    published = json.loads((REPLIES / "published.json").read_text())
    results = json.loads(coc("score", REPLIES / "code-davinci-002.jsonl", "--json").stdout)
    for style, tasks in published.items():
        for task, expected in tasks.items():
            assert abs(results[task][style]["accuracy"] - expected) <= 0.5, (task, style)
            assert {"n", "no_answer", "not_extracted"} <= results[task][style].keys()
    assert results["multistep_arithmetic_two"]["cot"]["not_extracted"] > 0


@pytest.mark.parametrize(
    ("reply", "target", "answer"),
    [
        ("Hm. So the answer is (B).", "(B)", "(B)"),
        ("The answer is (A) the cook. No: the answer is (C) nobody.", "(C)", "(C)"),
        ("(D)", "(D)", "(D)"),
        (" ] ) }", "] ) }", "] ) }"),
        ("So the answer is ] >.", "] >", "] >"),
        ("So the answer is apple pear zoo.", "apple pear zoo", "apple pear zoo"),
        ("first line\nsecond line", "x", None),
        ("", "x", None),
        ("So the answer is", "x", None),
        ("yes", "yes", "yes"),
        ("So the answer is (A) or (B).", "(A)", None),
        ("So the answer is (A), (B), and (D).", "(B)", None),
        ("So the answer is (A), that is (A).", "(A)", "(A)"),
        ("(A) and (B) are wrong. So the answer is (C).", "(C)", "(C)"),
        ("So the answer is not (A).", "(A)", "not (A)"),
        ("So the answer is f(A) or (B).", "f(A) or (B)", "f(A) or (B)"),
    ],
)
def test_stated_answer_is_found_in_a_reply(reply: str, target: str, answer: str | None) -> None:
    assert stated(reply, target) == answer


def test_replies_without_an_answer_are_counted_separately() -> None:
    replies = ["So the answer is 1.", "So the answer is 2.", "", "Let me\nthink"]
    (counted,) = tally(Reply("t", n, "cot", reply, "1") for n, reply in enumerate(replies))
    assert (counted.n, counted.right, counted.no_answer, counted.not_extracted) == (4, 1, 1, 1)
    assert counted.accuracy == 25


def test_duplicate_replies_count_once() -> None:
    replies = [Reply("t", index, "cot", reply, "1") for index, reply in ((1, "1"), (2, "2"), (1, "1"), (1, "2"))]
    (counted,) = tally(replies)
    assert (counted.n, counted.right) == (2, 1)
    assert len(tally([*replies, Reply("t", 1, "direct", "1", "1"), Reply("u", 1, "cot", "1", "1")])) == 3


def test_standard_error_is_that_of_a_proportion() -> None:
    """The square root of p (1 − p) / n."""
    assert accuracy(1, 4) == (25.0, pytest.approx(100 * math.sqrt(0.25 * 0.75 / 4)))
    assert accuracy(50, 100) == (50.0, pytest.approx(5.0))
    assert accuracy(0, 0) == (0.0, 0.0)
    tallied = tally([Reply("t", index, "cot", str(index), "1") for index in range(4)])
    assert (tallied[0].accuracy, tallied[0].error) == (25.0, pytest.approx(21.65, abs=0.01))


@pytest.mark.parametrize(
    ("answer", "target", "same"),
    [
        (1_000_000, 1_000_001, False),
        ("1000000", 1_000_001, False),
        (1_000_000.0, 1_000_000.5, True),  # floats within a millionth
        (10**400, 10**400 + 1, False),
        ("$5", 5, True),
        ("$1,234.50", 1234.5, True),
        ("$5", "$6", False),
        ("1,2", 12, False),
        ("1,234", 1234, True),
        (0.99, 1, False),
        (3.141, 3.14, False),
        (1_005.0, 1_000.0, False),
        (["a"], ["a", "b"], False),
        (True, 1, False),
    ],
)
def test_numbers_are_compared_by_value(answer: Any, target: Any, same: bool) -> None:
    assert is_same(answer, target) is same


def test_evaluation_ends_early_only_if_nothing_ran() -> None:
    stop = EarlyStop()
    stop.note(None)
    for _ in range(10):
        stop.note(LMError("gone"))  # after a sample that ran, failures do not end the evaluation
    stop = EarlyStop()
    for _ in range(10):
        stop.note(ValueError("a bad sample"))
    stop = EarlyStop()
    stop.note(LMError("gone"))
    stop.note(LMError("gone"))
    with pytest.raises(LMError, match="gone"):
        stop.note(LMError("gone"))


def test_bad_replies_are_errors_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"task": "a"}')
    assert "line 1: not a recorded reply" in coc("score", path).stderr
    path.write_text("")
    assert "has no replies" in coc("score", path).stderr
    assert "cannot read" in coc("score", tmp_path / "none.jsonl").stderr


# --- tasks --------------------------------------------------------------------------------------------------------


def test_all_files_and_questions_are_present() -> None:
    need_data()
    samples = bbh(data=DATA)
    assert (len(files()), len(samples), len(paper())) == (27, 6511, 23)
    assert {task_of(file) for file in files()} == set(paper())
    assert len(gsm8k(DATA)) == 1319
    assert gsm8k(DATA)[0].targets == [18.0]


def test_means_of_the_paper_match_its_tasks() -> None:
    facts = paper().values()
    for method, mean in {"direct": 55, "cot": 72, "coc": 84, "coc-python": 48}.items():
        assert abs(sum(task.methods[method] for task in facts) / 23 - mean) < 0.6
    assert sum(task.kind == "NLP" for task in facts) == 12


def test_examples_by_method() -> None:
    need_data()
    single = examples("navigate", "cot", "single", DATA)
    assert single is not None
    assert len(single.pairs) == 3
    assert all("answer is" in reply for _, reply in single.pairs)
    if shots("navigate") and shots("word_sorting"):
        own = examples("navigate", "coc", "single", DATA)
        other = examples("navigate", "coc", "cross", DATA)
        assert own is not None
        assert other is not None
        assert own != other
        assert other == examples("navigate", "coc", "cross", DATA)
    assert examples("navigate", "coc", "0", DATA) == examples("snarks", "direct", "0", DATA)


@pytest.mark.parametrize(
    ("kind", "answer", "target", "same"),
    [
        ("choice", "(B)", "(B)", True),
        ("choice", "B", "(B)", True),
        ("choice", "(B) pear", "(B)", True),
        ("choice", "pear", "(B)", True),
        ("choice", "apple", "(B)", False),
        ("choice", ["(A)"], "(A)", True),
        ("choice", "I think (B)", "(B)", True),
        ("choice", "A pear, so (B)", "(B)", True),
        ("choice", "A pear", "(A)", False),
        ("choice", "B pear", "(B)", True),
        ("choice", "B: pear", "(B)", True),
        ("choice", "b.", "(B)", True),
        ("choice", "I am not sure", "(I)", False),
        ("choice", 3, "(B)", False),
        ("words", ["a", "b"], "a b", True),
        ("words", "a, b", "a b", True),
        ("words", "b a", "a b", False),
        ("exact", True, "Yes", True),
        ("exact", "No", "Yes", False),
        ("number", "1,000", 1000.0, True),
    ],
)
def test_answer_is_compared_with_the_target_by_kind(kind: str, answer: Any, target: Any, same: bool) -> None:
    sample = Sample("s", "Which?\nOptions:\n(A) apple\n(B) pear", kind=kind)
    assert is_target(answer, target, sample) is same


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("(A) or (B)", "no answer"),
        (["(A)", "(B)"], "no answer"),
        ("A or B", "no answer"),
        ("Both A and B", "no answer"),
        ("a, b or c", "no answer"),
        ("A/B", "no answer"),
        ("A) apple; B) a pear", "no answer"),
        ("(B) a pear", "right"),
        ("B: a pear", "right"),
        ("B) A pear.", "right"),
        ("a pear", "right"),
        ("apple (or B)", "right"),  # an exact match comes first
        ("(C) apple (or B)", "right"),
        ("(B), a fruit", "right"),
        ("A pear, so (B)", "right"),
        ("(B) and (B)", "right"),
        ("A", "wrong"),
        ("neither", "wrong"),
    ],
)
def test_answer_with_several_options_is_no_answer(answer: Any, verdict: str) -> None:
    sample = Sample("s", "Which?\n(A) apple\n(B) a pear\n(C) apple (or B)", targets=["(B)", "(C)"], kind="choice")
    assert judge(answer, sample) == verdict
    assert judge(10**5000, sample) == "wrong"


def test_several_options_count_as_not_extracted(tmp_path: Path) -> None:
    question = {"question": "Which?\n(A) apple\n(B) pear", "target": "(A)", "kind": "choice"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    (tmp_path / "script.jsonl").write_text(json.dumps("A: (A) or (B)"))
    done = coc("eval", tmp_path / "q.jsonl", "--model", f"scripted:{tmp_path}/script.jsonl", "--json",
               "--methods", "direct")  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["not_extracted"] == 1


def test_invalid_data_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gsm-hard").mkdir()
    path = tmp_path / "gsm-hard" / "test.jsonl"
    path.write_text('{"input": "How many?", "target": 1200.5}')
    assert gsm8k(tmp_path, "gsm-hard")[0].targets == [1200.5]
    for text in ("{", "[1]", '{"question": "How many?"}', '{"question": "?", "answer": "no number"}'):
        path.write_text(text)
        assert "line 1: not a problem of gsm-hard" in coc("eval", "gsm-hard", "--data", tmp_path).stderr
    (tmp_path / "bbh").mkdir()
    (tmp_path / "bbh" / "navigate.json").write_text('{"examples": [{"input": 1}]}')
    assert "not a file of BIG-Bench Hard" in coc("eval", "bbh", "--tasks", "navigate", "--data", tmp_path).stderr


def test_report_without_results_names_the_directory(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").touch()
    assert f"{tmp_path} has no results yet: coc eval SUITE --out {tmp_path}" in coc("report", tmp_path).stderr


def test_damaged_settings_are_an_error(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 1)
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text("{")
    assert "run.json is damaged" in coc("eval", questions, "--model", f"scripted:{script}", "--out", out).stderr


# --- runs ---------------------------------------------------------------------------------------------------------


def suite(tmp_path: Path, count: int, *, slow: bool = False) -> tuple[Path, Path]:
    """Questions with scripted programs; every fifth has a wrong target."""
    questions, script = tmp_path / "suite.jsonl", tmp_path / "script.jsonl"
    samples = [{"question": f"What is question {n}?", "target": n if n % 5 else -1} for n in range(count)]
    questions.write_text("\n".join(map(json.dumps, samples)))
    wait = "import time\ntime.sleep(0.05)\n" if slow else ""
    replies = [
        {
            "when": f"What is question {n}?",
            "reply": f"```python\n{wait}answer = sum(range({n} + 1)) - sum(range({n}))\n```",
        }
        for n in range(count)
    ]
    script.write_text("\n".join(map(json.dumps, replies)))
    return questions, script


def test_evaluation_is_stored_and_can_be_continued(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 12)
    out = tmp_path / "out"
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out, "--methods", "coc")
    first = coc(*command, "--limit", "5")
    assert "4 of 5 right" in first.stdout
    again = coc(*command)
    assert "5 of 12 are already done" in again.stderr
    assert "9 of 12 right" in again.stdout
    assert len((out / "results.jsonl").read_text().splitlines()) == 12
    assert len(list(out.glob("traces/**/*.jsonl"))) == 12
    assert "answer: 3" in coc("show", out / "traces" / "coc" / "samples" / "suite-3.jsonl").stdout
    other = coc(*command, "--repairs", "0")
    assert other.returncode == 2
    assert "repairs = 2, not 0" in other.stderr


def test_killed_evaluation_loses_only_samples_in_progress(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 40, slow=True)
    out = tmp_path / "out"
    command = [*COC, "eval", str(questions), "--model", f"scripted:{script}", "--out", str(out), "--at-once", "2"]
    for _ in range(2):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        before = len((out / "results.jsonl").read_bytes().splitlines()) if (out / "results.jsonl").exists() else 0
        while time.monotonic() - began < 60:
            time.sleep(0.02)
            if (out / "results.jsonl").exists() and len(
                (out / "results.jsonl").read_bytes().splitlines()
            ) >= before + 5:
                break
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    with (out / "results.jsonl").open("ab") as file:
        file.write(b'{"id": "suite-3", "verd')  # a line that was cut off in the middle
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "32 of 40 right" in done.stdout
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 40
    assert len({line["id"] for line in lines}) == 40


def test_hostile_samples_do_not_stop_the_evaluation(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 4)
    with questions.open("a") as file:
        file.write("\n" + json.dumps({"id": "deep", "program": "answer = " + "(" * 3000 + ")" * 3000, "target": 1}))
        file.write("\n" + json.dumps({"id": "../../evil\x1b[2J", "question": "What is question 2?", "target": "x"}))
    out = tmp_path / "out"
    done = coc("eval", questions, "--model", f"scripted:{script}", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "3 of 6 right" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert all(out in path.parents for path in out.glob("traces/**/*.jsonl"))


def test_samples_that_could_not_run_are_retried(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 4)
    out, whole = tmp_path / "out", script.read_text()
    script.write_text("\n".join(whole.splitlines()[:2]))
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out, "--repairs", "0", "--no-fallback")
    assert "1 of 4 right" in coc(*command).stdout
    script.write_text(whole)
    again = coc(*command)
    assert "2 of 4 are already done" in again.stderr
    assert "3 of 4 right" in again.stdout
    questions.write_text(questions.read_text().replace("question 1", "question 3"))
    assert "SHA-256" in coc(*command).stderr


def test_reason_is_shown_in_full_if_nothing_could_run(tmp_path: Path) -> None:
    questions, _ = suite(tmp_path, 2)
    script = tmp_path / ("nested-" * 24) / "script-without-replies.jsonl"
    script.parent.mkdir()
    script.write_text("")
    done = coc("eval", questions, "--model", f"scripted:{script}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"1 of 2 samples could not be run: scripted:{script} has no reply left for request 2\n" in done.stderr
    assert f'no sample was run: check the model with coc ask "What is 2 + 2?" --model scripted:{script}' in done.stderr
    script.write_text(json.dumps({"when": "question 1", "reply": "```python\nanswer = 2 - 1\n```"}))
    some = coc("eval", questions, "--model", f"scripted:{script}", "--out", tmp_path / "out", "--json")
    assert some.returncode == 0
    assert "1 of 2 samples could not be run" in some.stderr
    assert "repeat the command to retry those" in some.stderr


def test_questions_without_targets_and_duplicates_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "What?", "answer": 1}')
    assert "a question needs a `target`" in coc("eval", path, "--model", "scripted:x").stderr
    path.write_text('{"id": "a", "question": "?", "target": 1}\n{"id": "a", "question": "?", "target": 1}')
    assert "2 samples have the id 'a'" in coc("eval", path, "--model", "scripted:x").stderr
    path.write_text("")
    assert "is empty" in coc("eval", path, "--model", "scripted:x").stderr


# --- reports ------------------------------------------------------------------------------------------------------


def score(task: str, index: int, method: str, verdict: str, **more: Any) -> Score:
    return Score(f"{task}-{index}", verdict, "<b>x</b>", ["y"], "answered", task=task, method=method, **more)


def test_summary_has_the_columns_of_the_paper() -> None:
    scores = [score("navigate", n, "coc", "right" if n % 2 else "wrong") for n in range(10)]
    scores += [score("snarks", n, "coc", "right") for n in range(10)]
    scores += [score("logical_deduction_three_objects", n, "coc", "no answer", extracted=False) for n in range(10)]
    rows = {name: (ours, theirs) for name, ours, theirs in Summary(scores).rows()}
    assert rows["navigate"][0]["coc"] == pytest.approx((50, 15.8), abs=0.1)
    assert (rows["navigate"][1]["coc"], rows["snarks"][1]["human"]) == (86, 77)
    assert rows["logical_deduction"][0]["coc"] == (0, 0)
    assert rows["mean, all"][0]["coc"] is not None
    assert rows["mean, all"][0]["coc"][0] == pytest.approx(50)
    assert rows["mean, algorithmic"][0]["coc"][0] == pytest.approx(25)  # type: ignore[index]
    assert any(" 10 unread (" in line for line in Summary(scores).lines())


def test_compare_is_paired() -> None:
    first = [score("t", n, "coc", "right" if n < 20 else "wrong") for n in range(30)]
    second = [score("t", n, "coc", "right" if 8 <= n < 20 else "wrong") for n in range(30)]
    (difference,) = compare(first, second)
    assert (difference.only_first, difference.only_second) == (8, 0)
    assert difference.p == pytest.approx(2 / 256)
    assert compare(first, first)[0].p == 1


def test_report_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    scores = [score("snarks", n, m, "right" if n % 2 else "wrong") for n in range(6) for m in ("coc", "direct")]
    lines = [json.dumps({"id": s.id, "verdict": s.verdict, "answer": s.answer, "targets": s.targets, "reason": s.reason,
                         "task": s.task, "method": s.method}) for s in scores]  # fmt: skip
    (out / "results.jsonl").write_text("\n".join(lines) + "\n")
    done = coc("report", out)
    assert done.returncode == 0, done.stderr
    assert "snarks" in done.stdout
    assert "50.0 ± 20.4" in done.stdout
    page = (out / "report.html").read_text()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page
    assert (out / "tasks.svg").read_text().count("<rect") == 2 + 2  # a bar and a mark in the legend for each method
    import pyarrow.parquet as pq

    assert pq.read_table(out / "results.parquet").num_rows == 12
    assert "1.000" in coc("report", out, out).stdout
    assert json.loads(coc("report", out, "--json").stdout)["methods"] == ["coc", "direct"]
    assert "cannot read" in coc("report", tmp_path / "nowhere").stderr
    assert "coc, paper" in page


@pytest.mark.nightly
def test_a_report_on_own_questions_has_no_empty_columns(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 3)
    out = tmp_path / "out"
    coc("eval", questions, "--model", f"scripted:{script}", "--out", out, "--methods", "coc,direct")
    assert "paper" not in coc("report", out).stdout
    page = (out / "report.html").read_text()
    assert "<th>coc</th><th>direct</th></tr>" in page
    assert "paper" not in page and "faithful" not in page
    assert page.count('<a href="runs/') == 6 and "traces/" not in page
    runs = sorted((out / "runs").rglob("*.html"))
    assert len(runs) == 6
    run_page = runs[0].read_text()
    assert "Question" in run_page and "<dt>Verdict</dt><dd>" in run_page and "../report.html" in run_page
    written = {run: run.stat().st_mtime_ns for run in runs}
    coc("report", out)
    assert {run: run.stat().st_mtime_ns for run in runs} == written
    shutil.rmtree(out / "runs")
    (out / "runs").symlink_to(tmp_path)
    coc("report", out)
    assert '<a href="runs/' not in (out / "report.html").read_text() and not list(tmp_path.glob("coc*/**/*.html"))


def test_labels_of_bars_do_not_overlap() -> None:
    names = [f"a task with a long name {n}" for n in range(24)]
    for count in (1, 9):
        drawn = bars(names, {f"method {m}": [(50.0, 60.0)] * 24 for m in range(count)}, "accuracy, %")
        heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end"', drawn)]
        assert len(heights) == 24 and all(b - a >= 15 for a, b in itertools.pairwise(heights))
        lows = [float(x) for x in re.findall(r'<line x1="(-?[\d.]+)"', drawn)]
        assert min(lows) >= 6.6 * len(names[0])  # nothing left of the axis at 0


# --- Inspect ------------------------------------------------------------------------------------------------------


def test_inspect_runs_the_methods_and_keeps_their_traces(tmp_path: Path) -> None:
    need_data()
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from chainofcode.evals.inspecting import bbh as bbh_task

    def output(program: str) -> ModelOutput:
        completion = ModelOutput.from_content("mockllm/model", f"```python\n{program}\n```")
        completion.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return completion

    replies = [output("answer = str(not (True) and (True))"), output("answer = 'no idea' * int(True)")]
    (log,) = inspect_ai.eval(
        bbh_task(tasks="boolean_expressions", limit=2, data=str(DATA)),
        model=get_model("mockllm/model", custom_outputs=replies),
        log_dir=str(tmp_path / "logs"),
        display="none",
        max_samples=1,
    )
    assert log.status == "success", log.error
    assert [sample.scores["target_scorer"].value for sample in log.samples] == ["C", "I"]
    reread = read_eval_log(log.location, resolve_attachments=True)
    traces = [event.data for event in reread.samples[0].events if event.event == "info"]
    assert "answer: 'False'" in traces[0]["trace"]


@pytest.mark.nightly
def test_results_as_inspect_logs(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log

    questions, script = suite(tmp_path, 3)
    out, logs = tmp_path / "out", tmp_path / "logs"
    coc("eval", questions, "--model", f"scripted:{script}", "--out", out, "--methods", "coc")
    assert coc("report", out, "--inspect-logs", logs).returncode == 0
    log = read_eval_log(str(logs / "coc.eval"))
    assert log.samples is not None
    assert [sample.scores["target"].value for sample in log.samples if sample.scores] == ["I", "C", "C"]
    assert "answer: 1" in str(log.samples[1].messages[0].content)


@pytest.mark.nightly
def test_faithfulness_is_a_column(tmp_path: Path) -> None:
    path, script, out = tmp_path / "q.jsonl", tmp_path / "script.jsonl", tmp_path / "out"
    path.write_text(
        '{"id": "a", "question": "What is 2 + 3?", "target": 5}\n{"id": "b", "question": "And 4?", "target": 4}'
    )
    replies = ["```python\nanswer = 2 + 3\n```", "```python\nanswer = 4\n```"]
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    command = ("--model", f"scripted:{script}", "--methods", "coc", "--repairs", "0", "--verify", "--out", out)
    done = coc("eval", path, *command)
    assert done.returncode == 0, done.stderr
    assert "faithful" in done.stdout and "0.5" in done.stdout.splitlines()[-1]
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {score["id"]: score["faithful"] for score in results} == {
        "a": 1.0,
        "b": 0.0,
    }  # the second answer is a constant
    assert "faithfulness 0.50" in coc("report", out).stdout
    import pyarrow.parquet as pq

    assert pq.read_table(out / "results.parquet").column("faithful").to_pylist() == [1.0, 0.0]
    assert json.loads(coc("report", out, "--json").stdout)["faithful"] == {"coc": 0.5}


# --- the embedded model -------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_benchmark_with_a_real_model(tmp_path: Path, small_model: str) -> None:
    """There is a table, and a result and a trace for each sample; the answers are not checked.

    The model is the smallest one; with COC_TEST_MODEL=1, the embedded one (1.1 GB) answers one question of every file.
    """
    need_data()
    is_whole = bool(os.environ.get("COC_TEST_MODEL"))
    model, methods = (
        ("local:qwen2.5-coder-1.5b", "direct,cot,coc") if is_whole else (f"local:{small_model}", "direct,coc")
    )
    out, tasks = (
        tmp_path / "out",
        () if is_whole else ("--tasks", "boolean_expressions,navigate", "--repairs", "0", "--shots", "0"),
    )
    command = ("eval", "bbh", *tasks, "--limit", "1", "--methods", methods, "--data", DATA, "--yes", "--verify")
    done = subprocess.run(
        [*COC, *map(str, command), "--model", model, "--out", str(out)],
        capture_output=True, text=True, check=False, timeout=6000 if is_whole else 600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    names = {line["task"] for line in results}
    assert len(names) == (27 if is_whole else 2)
    assert {(line["task"], line["method"]) for line in results} == {(t, m) for t in names for m in methods.split(",")}
    assert all(line["reason"] != "not run" and (out / line["trace"]).exists() for line in results)
    table = coc("report", out).stdout
    assert "incomplete" not in table
    assert all(name in table for name in ("boolean_expressions", "navigate", "mean, all", "(paper)"))
