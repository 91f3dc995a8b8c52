"""Fair comparisons: splits of a suite, equal tokens, means with errors, BIG-Bench Extra Hard, confidence."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import ROOT, SHARED
from endpoint import serving
from test_cli import COC, coc
from test_evals import DATA, need_data, suite

from chainofcode.errors import InputError
from chainofcode.evals import Sample, Score
from chainofcode.evals.charts import Point, scatter
from chainofcode.evals.matching import matching_votes
from chainofcode.evals.report import Summary
from chainofcode.evals.samples import select
from chainofcode.evals.scoring import judge
from chainofcode.evals.tasks import bbeh, examples


def score(task: str, index: int, method: str, verdict: str, **more: Any) -> Score:
    return Score(f"{task}-{index}", verdict, "x", ["y"], "answered", task=task, method=method, **more)  # type: ignore[arg-type]


# --- splits -------------------------------------------------------------------------------------------------------


def test_split_is_a_name_or_a_range_within_each_task() -> None:
    samples = [
        Sample(f"{task}-{n}", "?", task=task, split="odd" if n % 2 else "even") for task in "ab" for n in range(6)
    ]

    def ids(split: str | None, limit: int | None = None) -> str:
        return " ".join(sample.id for sample in select(samples, split, limit))

    assert ids("0:2") == "a-0 a-1 b-0 b-1"
    assert ids("4:") == "a-4 a-5 b-4 b-5"
    assert ids(":1") == "a-0 b-0"
    assert ids("2:5", 1) == "a-2 b-2"  # the limit counts within the split
    assert ids("odd", 2) == "a-1 a-3 b-1 b-3"
    assert len(select(samples)) == 12
    for wrong in ("6:", "3:3", "held-out"):
        with pytest.raises(InputError, match="splits: even, odd; by index"):
            select(samples, wrong)


def test_results_of_different_splits_need_different_directories(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 12)
    out = tmp_path / "out"
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out, "--methods", "coc", "--split")
    assert "2 of 3 right" in coc(*command, "5:", "--limit", "3").stdout
    assert "3 of 12" not in coc(*command, "5:").stdout
    assert {json.loads(line)["id"] for line in (out / "results.jsonl").read_text().splitlines()} == {
        f"suite-{n}" for n in range(5, 12)
    }
    assert "split = '5:', not '0:5'" in coc(*command, "0:5").stderr
    report = coc("report", out).stdout
    assert "indices 5: of each task" in report and "incomplete" not in report
    other = tmp_path / "other"
    coc(*command[:-3], "--methods", "coc", "--limit", "2", "--out", other)
    assert "split = '', not '5:'" in coc(*command[:-3], "--methods", "coc", "--split", "5:", "--out", other).stderr


# --- equal tokens -------------------------------------------------------------------------------------------------


def test_matching_votes_equalise_tokens_per_task() -> None:
    spent = {("a", "cot"): 100, ("a", "coc"): 290, ("b", "cot"): 100, ("b", "coc"): 40}
    scores = [
        score(task, n, method, "right", prompt_tokens=tokens - 10 * n, completion_tokens=10 * n)
        for (task, method), tokens in spent.items()
        for n in range(4)
    ]
    assert matching_votes(scores, "cot", "coc") == {"a": 3, "b": 1}
    assert matching_votes(scores, "cot", "coc", votes=5) == {"a": 14, "b": 2}  # each of these scores has five votes
    with pytest.raises(InputError, match="cannot match tokens"):
        matching_votes([score("a", 0, name, "right") for name in ("cot", "coc")], "cot", "coc")


@pytest.mark.nightly
def test_self_consistency_at_equal_tokens_on_the_command_line(tmp_path: Path) -> None:
    """A program costs 330 tokens and a chain of thought 110: cot@coc takes three votes, to spend 330 tokens."""
    path, out = tmp_path / "q.jsonl", tmp_path / "out"
    path.write_text("\n".join(json.dumps({"question": f"What is {n} + 1?", "target": n + 1}) for n in range(3)))

    def act(handler: Any) -> None:
        body = handler.seen[-1][1]
        is_program = "program" in json.dumps(body["messages"][0])
        text, prompt = ("```python\nanswer = 1 + 1\n```", 300) if is_program else ("One more.\nA: 2", 80)
        usage = {"prompt_tokens": prompt, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 50}}
        handler.reply(200, json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())

    with serving(act) as endpoint:
        command = [
            *COC,
            "eval",
            str(path),
            "--model",
            "openai:m",
            "--base-url",
            f"{endpoint.url}/v1",
            "--out",
            str(out),
        ]
        command += ["--at-once", "1", "--methods", "cot@coc"]
        environment = {**os.environ, "OPENAI_API_KEY": "k"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        requests = len(endpoint.seen)
        again = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert len(endpoint.seen) == requests == 3 + 3 + 9
    assert "cot@coc: 3 to 3 votes per question, 3.0 on average" in done.stderr
    assert "3 methods on 3 samples" in done.stdout and "3 methods on 3 samples" in again.stdout
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    whole = [row for row in rows if "attempt" not in row]
    tokens = {row["method"]: row["prompt_tokens"] + row["completion_tokens"] for row in whole}
    assert tokens == {"cot": 110, "coc": 330, "cot@coc": 330}
    assert {row["method"]: row["cached_tokens"] for row in whole} == {"cot": 50, "coc": 50, "cot@coc": 150}
    assert "330 tokens per sample, 150 of them cached" in coc("report", out).stdout
    assert sorted(path.name for path in out.glob("*.svg")) == ["seconds.svg", "tasks.svg", "tokens.svg"]
    assert '<img src="tokens.svg"' in (out / "report.html").read_text()


def test_methods_whose_tokens_cannot_be_matched(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 1)
    model = ("--model", f"scripted:{script}")
    assert "unknown method 'cat' in 'cat@coc'" in coc("eval", questions, *model, "--methods", "cat@coc").stderr
    assert "with itself" in coc("eval", questions, *model, "--methods", "cot@cot").stderr
    assert "use --methods" in coc("eval", questions, *model, "--method", "cot@coc").stderr
    done = coc("eval", questions, *model, "--methods", "coc-python@coc")
    assert "skipped coc-python@coc: cannot match tokens: none are reported" in done.stderr
    assert (done.returncode, "2 methods on 1 samples" in done.stdout) == (1, True)


def labels(picture: str) -> list[tuple[float, float, str]]:
    """The labels of points, with their positions."""
    texts = [part for part in ElementTree.fromstring(picture).iter() if part.tag.endswith("text")]
    return [
        (float(part.attrib["x"]), float(part.attrib["y"]), part.text or "") for part in texts if not part.text.isdigit()
    ]  # type: ignore[union-attr]


def test_labels_of_a_chart_do_not_cover_each_other() -> None:
    points = [Point(f"method-{n}", 1000 + n, 50 + n / 10, 2.0) for n in range(9)]
    places = [place for place in labels(scatter(points, "tokens", "accuracy")) if place[2].startswith("method-")]
    assert len(places) == 9
    for (x, y, _), (other_x, other_y, _) in itertools.combinations(places, 2):
        assert abs(y - other_y) >= 14 or abs(x - other_x) >= 50
    wide = scatter([Point("a", 10, 1, 1), Point("b", 4000, 99, 5)], "tokens", "accuracy")
    assert "tokens (logarithmic)" in wide
    narrow = scatter([Point("<b>&", 300, 0, 0), Point("\x1b", 0, 100, 0)], "tokens", "accuracy")
    assert [text for _, _, text in labels(narrow) if text in ("<b>&", "\\x1b")] == ["<b>&", "\\x1b"]


# --- means and counts ---------------------------------------------------------------------------------------------


def test_table_has_means_over_tasks_and_counts_repairs(tmp_path: Path) -> None:
    need_data()
    script = tmp_path / "script.jsonl"
    programs = ["answer = str(1 == 2)", "answer = 1 // 0", "answer = str(1 == 1)", *(f"x = {n} / 0" for n in range(3))]
    replies = [f"```python\n{program}\n```" for program in programs]
    script.write_text("\n".join(map(json.dumps, replies)))
    out = tmp_path / "out"
    done = coc(
        "eval", "bbh", "--tasks", "boolean_expressions,navigate", "--limit", "2", "--data", DATA, "--out", out,
        "--model", f"scripted:{script}", "--methods", "coc", "--at-once", "1", "--shots", "0",
    )  # fmt: skip
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [row.get("repairs", 0) for row in rows] == [0, 1, 2, 0], done.stderr
    lines = done.stdout.splitlines()
    assert "2 tasks, per cent ± standard error" in lines
    (head,) = [line for line in lines if "without an answer" in line]
    assert head.split("  ")[-1].strip() == "without an answer" and "mean, all" in head and "mean, algorithmic" in head
    at = lines[2].index("repairs") + len("repairs")
    assert lines[3][at - 5 : at].strip() == "3"
    assert "1 of 2" in lines[3]
    (means,) = [line for line in lines[lines.index(head) :] if line.startswith("coc ")]
    assert means.split()[-1] == "50.0"  # one sample ended without an answer, one was not run
    assert "3 repairs in 2 samples, of which 1 ended right" in coc("report", out).stdout


# --- BIG-Bench Extra Hard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "target", "verdict"),
    [
        ("(B)", "(B)", "right"),
        ("B", "(B)", "right"),
        ("(e)", "E", "right"),
        ("(B) pear", "(B)", "wrong"),  # as in the reference implementation
        ("(A) or (B)", "(B)", "wrong"),
        ("404", "404.0", "right"),
        (404, "404.0", "right"),
        (2.18, "2.18", "right"),
        ("2, 3, 4", "2,3,4", "right"),
        ("2 3 4", "2,3,4", "wrong"),
        (["no", "unknown", "yes"], "no, unknown, yes", "right"),
        ([False, "unknown", True], "no, unknown, yes", "right"),
        (True, "Yes", "right"),
        (["Emma", "Lily"], "[emma, lily]", "right"),
        ("[150, 2]", "150, 2", "right"),
        ("The final answer is: \\boxed{4}.", "4", "right"),
        ("$\\text{(C)}$", "(C)", "right"),
        ("The answer is: **25**\nHere is why.", "25.0", "right"),
        ("the strangers dog", "the stranger's dog", "right"),
        ("to bite?", "to bite", "right"),
        ("unanswerable.", "unanswerable", "right"),
        ("nan", "nan", "right"),
        ("", "4", "wrong"),
        ("1e999", "inf", "right"),
    ],
)
def test_bbeh_is_scored_like_the_reference_implementation(answer: Any, target: str, verdict: str) -> None:
    assert judge(answer, Sample("s", "?", targets=[target], kind="bbeh")) == verdict


def test_bbeh_is_complete_and_its_targets_score_as_right() -> None:
    if not (SHARED / "data" / "bbeh").exists():
        pytest.skip("../shared/data/bbeh is not here")
    samples = bbeh(data=DATA)
    assert (len(samples), len({sample.task for sample in samples})) == (2260, 23)
    unmatched = [sample.targets[0] for sample in samples if judge(sample.targets[0], sample) != "right"]
    assert len(unmatched) == 7 and all(
        target.endswith(".") for target in unmatched
    )  # the reference implementation does not match them either
    assert examples("bbeh_boolean_expressions", "coc", "single", DATA) is None  # not those of BIG-Bench Hard
    with pytest.raises(InputError, match="unknown task 'snarks'"):
        bbeh(["snarks"], DATA)


def test_bbeh_report_includes_published_results(tmp_path: Path) -> None:
    if not (SHARED / "data" / "bbeh").exists():
        pytest.skip("../shared/data/bbeh is not here")
    first = bbeh(["boolean_expressions"], DATA)[0]
    script, out = tmp_path / "script.jsonl", tmp_path / "out"
    script.write_text("\n".join(map(json.dumps, [f"A: {first.targets[0]}", "A: none"])))
    command = ("--tasks", "boolean_expressions,zebra_puzzles", "--limit", "1", "--data", DATA, "--methods", "direct")
    done = coc("eval", "bbeh", *command, "--model", f"scripted:{script}", "--at-once", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "micro average" in done.stdout and "adjusted harmonic mean" in done.stdout
    table = coc("report", out).stdout
    (micro,) = [line for line in table.splitlines() if line.startswith("micro average")]
    assert micro.split() == ["micro", "average", "50.0", "±", "35.4", "|", "8.4", "10.6", "11.0", "22.3"]
    assert "published, all examples" in table and "human" not in table
    assert "GPT-4o, published" in (out / "report.html").read_text()


def test_adjusted_harmonic_mean_adds_one_to_accuracies() -> None:
    scores = [score("bbeh_a", n, "coc", "right" if n < 3 else "wrong") for n in range(10)]
    scores += [score("bbeh_b", n, "coc", "wrong") for n in range(30)]
    averages = {row.name: row.measured["coc"] for row in Summary(scores).averages()}
    assert averages["micro average"] == pytest.approx((7.5, 4.16), abs=0.01)
    mean = averages["adjusted harmonic mean"]
    assert mean is not None
    assert mean[0] == pytest.approx(2 / (1 / 31 + 1 / 1))
    assert mean[1] == pytest.approx(14.49 * (mean[0] ** 2 / 2 / 31**2), rel=0.01)


# --- confidence ---------------------------------------------------------------------------------------------------


def evaluated(directory: Path, confidences: list[tuple[float | None, bool]]) -> Path:
    """The directory of an evaluation; in each trace, the last value and the answer have the given confidence."""
    traces, rows = directory / "traces", list[str]()
    traces.mkdir(parents=True)
    for n, (confidence, is_right) in enumerate(confidences):
        first = {"event": "step", "number": 1, "by": "lm", "confidence": {"probability": 0.01, "alternatives": {}}}
        value = {
            "event": "step",
            "number": 2,
            "by": "lm",
            "confidence": {"probability": confidence, "alternatives": {"x": 0.1}},
        }
        python = {"event": "step", "number": 3, "by": "python"}
        events = [{"event": "trace", "version": 1}, first, {"event": "answer", "reason": "error", "then": "repair"}]
        events += [value, python, {"event": "answer", "reason": "answered", "confidence": confidence}]
        (traces / f"{n}.jsonl").write_text("\n".join(map(json.dumps, events)))
        verdict = "right" if is_right else "wrong"
        row = {"id": f"s-{n}", "verdict": verdict, "answer": "", "targets": [], "reason": "answered"}
        rows.append(json.dumps({**row, "method": "coc", "trace": f"traces/{n}.jsonl"}))
    (directory / "results.jsonl").write_text("\n".join(rows) + "\n")
    return directory


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "confidence.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_confidence_report_compares_confidence_with_verdicts(tmp_path: Path) -> None:
    judged = [(0.9, n != 0) for n in range(10)] + [(0.6, n < 4) for n in range(10)]
    done = bench(evaluated(tmp_path / "good", judged))
    assert done.returncode == 0, done.stderr
    values, answers = done.stdout.splitlines()[1:3]
    assert " ".join(values.split()) == "values 20 40.0 ± 15.5 90.0 ± 9.5 +50.0 ± 18.2 10.0 0.77"
    assert answers.split()[1:] == values.split()[1:]
    drawn = ElementTree.parse(tmp_path / "good" / "calibration.svg")
    assert sum(part.tag.endswith("circle") for part in drawn.iter()) == 2 * (2 + 1)  # two points and a key, twice
    assert bench(evaluated(tmp_path / "bad", [(c, not right) for c, right in judged])).returncode == 1
    done = bench(evaluated(tmp_path / "none", [(None, True)]), "--methods", "cot")
    assert (done.returncode, "no trace has a confidence" in done.stderr) == (2, True)


def test_values_of_a_vote_are_judged_by_the_answer_of_that_vote(tmp_path: Path) -> None:
    """Two others outvote a program that is sure and wrong: its value counts as wrong, the answer as right."""
    directory = evaluated(tmp_path / "out", [(0.5, True)])
    step = {"event": "step", "number": 1, "by": "lm", "confidence": {"probability": 0.9}}
    vote = {"event": "answer", "reason": "answered", "then": "vote"}
    last = {"event": "answer", "reason": "answered", "confidence": 0.7}
    (directory / "traces" / "0.jsonl").write_text("\n".join(map(json.dumps, [step, vote, vote, last])))
    (row,) = (directory / "results.jsonl").read_text().splitlines()
    tries = [{**json.loads(row), "attempt": n, "verdict": verdict} for n, verdict in ((1, "wrong"), (2, "right"))]
    (directory / "results.jsonl").write_text("\n".join([*map(json.dumps, tries), row]) + "\n")
    values, answers = bench(directory).stdout.splitlines()[1:3]
    assert (values.split()[5], answers.split()[5]) == ("0.0", "100.0")  # the only judgement is above the median
