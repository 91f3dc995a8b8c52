"""Results of evaluations on disk and their report: votes, gaps, budgets, damaged and hostile files."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from test_cli import COC, coc
from test_evals import suite

from chainofcode.engine import Result
from chainofcode.errors import InputError
from chainofcode.evals import EvalJob, Sample, Score
from chainofcode.evals.report import Summary, compare
from chainofcode.evals.results import ResultsDirectory, read_planned, read_scores, safe_name
from chainofcode.evals.runner import score as scored
from chainofcode.evals.scoring import is_target
from chainofcode.sandbox.frames import Failure
from chainofcode.trace import Answer, Call, Trace


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def new_score(index: int, verdict: str = "right", **more: Any) -> Score:
    fields: dict[str, Any] = {"answer": "x", "targets": ["y"], "reason": "answered", "method": "coc", **more}
    return Score(f"s-{index}", verdict, **fields)  # type: ignore[arg-type]


def write_results(directory: Path, *scores: Score | dict[str, Any]) -> Path:
    directory.mkdir(exist_ok=True)
    text = b"".join(msgspec.json.encode(score) + b"\n" for score in scores)
    (directory / "results.jsonl").write_bytes(text)
    return directory


# --- votes --------------------------------------------------------------------------------------------------------


def test_each_vote_is_a_row_and_the_sample_counts_once(tmp_path: Path) -> None:
    questions, script, out = tmp_path / "q.jsonl", tmp_path / "s.jsonl", tmp_path / "out"
    questions.write_text('{"id": "a", "question": "How many?", "target": 7}\n{"id": "b", "question": "?", "target": 7}')
    programs = [
        "answer = 7 * 1",
        "answer = 8 * 1",
        "answer = int('x')",
        "answer = 8 * 1",
        "answer = 8 * 1",
        "answer = 7 * 1",
    ]
    replies = [f"```python\n{program}\n```" for program in programs]
    script.write_text("\n".join(map(json.dumps, replies)))
    options = ("--repairs", "0", "--methods", "coc", "--votes", "3", "--at-once", "1")
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out, *options)
    done = coc(*command, "--json")
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()[:-1]] == ["right", "wrong"]
    assert json.loads(done.stdout.splitlines()[-1])["samples"] == 2
    rows = lines(out / "results.jsonl")
    assert [row.get("attempt", 0) for row in rows] == [1, 2, 3, 0] * 2
    first, second = rows[:4], rows[4:]
    assert sorted(row["verdict"] for row in first[:3]) == ["no answer", "right", "wrong"]
    assert sorted(row["verdict"] for row in second[:3]) == ["right", "wrong", "wrong"]
    assert [row["calls"] for row in first] == [1, 1, 1, 3]
    assert {row["trace"] for row in first} == {"traces/coc/samples/a.jsonl"}
    import pyarrow.parquet as pq

    table = pq.read_table(out / "results.parquet").to_pylist()
    assert sorted((row["id"], row["attempt"]) for row in table) == [(name, n) for name in "ab" for n in range(4)]
    report = json.loads(coc("report", out, "--json").stdout)
    assert (report["rows"][0]["ours"]["coc"][0], report["samples"]) == (50, {"coc": {"run": 2, "planned": 2}})
    assert f"{'coc':<18}{2:>7}" in coc("report", out, out).stdout
    assert "2 of 2 are already done" in coc(*command).stderr
    assert len(lines(out / "results.jsonl")) == 8


def test_interrupted_votes_are_not_a_result(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "out", new_score(1, attempt=1), new_score(1, attempt=2))
    store, job = ResultsDirectory(directory, {}), EvalJob(Sample("s-1", "?", targets=[1]), "coc")
    assert store.plan([job]) == [job]
    store.close()
    assert read_scores(directory) == []
    assert len(read_scores(directory, with_tries=True)) == 2


# --- what is missing ----------------------------------------------------------------------------------------------


def test_report_shows_missing_samples(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 12)
    out = tmp_path / "out"
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out)
    coc(*command, "--methods", "coc,coc-python", "--limit", "4")
    done = coc("report", out)
    assert "incomplete" not in done.stdout + (out / "report.html").read_text()
    assert json.loads(coc("report", out, "--json").stdout)["is_complete"] is True
    coc(*command, "--methods", "coc")  # more of one method
    rows = (out / "results.jsonl").read_text().splitlines(keepends=True)
    (out / "results.jsonl").write_text("".join(rows[:-3]))  # as if it had been killed
    gaps = "incomplete; samples run: coc 9 of 12"
    assert coc("report", out).stdout.startswith(gaps + "\n")
    assert f"<strong>{gaps}</strong>" in (out / "report.html").read_text()
    report = json.loads(coc("report", out, "--json").stdout)
    assert report["is_complete"] is False
    assert report["samples"] == {"coc": {"run": 9, "planned": 12}, "coc-python": {"run": 4, "planned": 4}}
    coc(*command, "--methods", "coc")
    assert json.loads(coc("report", out, "--json").stdout)["is_complete"] is True


def test_samples_that_could_not_run_are_missing() -> None:
    summary = Summary([new_score(1), new_score(2, "no answer", reason="not run")], {"coc": 2, "cot": 5})
    assert summary.gaps == "incomplete; samples run: coc 1 of 2, cot 0 of 5"
    assert summary.progress == {"coc": (1, 2), "cot": (0, 5)}


@pytest.mark.nightly
def test_run_with_a_spent_budget_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from endpoint import serving

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    questions, _ = suite(tmp_path, 6)
    usage = {"prompt_tokens": 40, "completion_tokens": 10}
    reply = {"choices": [{"message": {"content": "A: 1"}}], "usage": usage}
    out = tmp_path / "out"
    with serving(reply) as server:
        url = ("--base-url", f"{server.url}/v1", "--api-key", "k-secret-k")
        command = (
            "eval",
            questions,
            "--model",
            "openai:m",
            *url,
            "--methods",
            "direct",
            "--out",
            out,
            "--at-once",
            "1",
        )
        spent = coc(*command, "--budget", "tokens=120")
        assert spent.returncode == 1
        assert "the budget of 120 tokens is spent: 3 of 6 samples were run" in spent.stderr
        assert len(lines(out / "results.jsonl")) == 3
        assert "direct 3 of 6" in coc("report", out).stdout
        done = coc(*command, "--budget", "tokens=1000000")
        assert done.returncode == 0, done.stderr
    assert len(lines(out / "results.jsonl")) == 6
    assert not any(b"k-secret-k" in path.read_bytes() for path in out.rglob("*") if path.is_file())


def test_requests_per_minute_are_limited(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 3)
    command = [*COC, "eval", str(questions), "--model", f"scripted:{script}", "--per-minute", "2"]
    running = subprocess.Popen([*command, "--out", str(tmp_path / "out")], stderr=subprocess.DEVNULL)
    try:
        results, began = tmp_path / "out" / "results.jsonl", time.monotonic()
        while time.monotonic() - began < 30 and (not results.exists() or results.read_bytes().count(b"\n") < 2):
            time.sleep(0.05)
        time.sleep(1)
        assert results.read_bytes().count(b"\n") == 2
    finally:
        running.kill()
        running.wait()
    assert "--per-minute must be 1 or more" in coc("eval", questions, "--per-minute", "0").stderr


# --- continued runs -----------------------------------------------------------------------------------------------


def test_run_is_not_continued_with_other_settings(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 2)
    out = tmp_path / "out"
    command = ("eval", questions, "--model", f"scripted:{script}", "--out", out)
    assert coc(*command).returncode == 0
    assert "no_fallback (which --methods implies) = False, not True" in coc(*command, "--no-fallback").stderr
    assert "no_share = False, not True" in coc(*command, "--no-share").stderr
    assert "rows = None, not 4" in coc(*command, "--rows", "4").stderr
    examples = tmp_path / "examples.md"
    examples.write_text("Question: a\n\nb")
    assert "examples = ''" in coc(*command, "--examples", examples).stderr
    settings = json.loads((out / "run.json").read_text())
    older = {name: value for name, value in settings.items() if name not in ("planned", "no_share", "rows")}
    (out / "run.json").write_text(json.dumps(older))
    assert "2 of 2 are already done" in coc(*command).stderr


def test_changed_sample_with_the_same_id_is_detected(tmp_path: Path) -> None:
    data, out, script = tmp_path / "gsm8k", tmp_path / "out", tmp_path / "s.jsonl"
    data.mkdir()
    script.write_text('{"when": "", "reply": "A: 3"}')
    problems = data / "test.jsonl"
    problems.write_text(
        '{"question": "What is\u2028 one?", "answer": "#### 1"}\n\n{"question": "Two?", "answer": "#### 2"}\n'
    )
    command = ("eval", "gsm8k", "--data", tmp_path, "--model", f"scripted:{script}", "--method", "direct", "--out", out)
    assert coc(*command).returncode == 0
    problems.write_text(problems.read_text().replace("Two", "Three"))
    assert "has a result of 'gsm8k-1', but for another sample with this id" in coc(*command).stderr
    first, second = new_score(1, sample="a"), new_score(1, sample="b")
    with pytest.raises(InputError, match="not the same sample"):
        compare([first], [second])


def test_two_runs_do_not_write_into_one_directory(tmp_path: Path) -> None:
    store = ResultsDirectory(tmp_path, {})
    with pytest.raises(InputError, match="another run"):
        ResultsDirectory(tmp_path, {})
    store.close()
    ResultsDirectory(tmp_path, {}).close()


def test_a_full_disk_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    store = ResultsDirectory(tmp_path, {})
    store.keep(new_score(1), None)
    size = (tmp_path / "results.jsonl").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        with pytest.raises(InputError, match="cannot store results"):
            store.keep(new_score(2), None)
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = ResultsDirectory(tmp_path, {})
    again.keep(new_score(3), None)
    again.close()
    assert [score.id for score in read_scores(tmp_path)] == ["s-1", "s-3"]


def test_samples_with_unusual_names_keep_their_traces(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "a b", "..", ".", "ü" * 200, "ü" * 201, "x" * 500, "CON", "a\0b", "-"]
    store = ResultsDirectory(tmp_path, {})
    jobs = [EvalJob(Sample(name, "?", targets=[1]), "coc") for name in names]
    assert store.plan(jobs) == jobs
    for name in names:
        store.keep(Score(name, "right", "1", [1], "answered", method="coc"), Trace(name))
    store.close()
    assert {Trace.read(tmp_path / score.trace).question for score in read_scores(tmp_path)} == set(names)
    assert len({safe_name(name) for name in names}) == len(names)


# --- damaged and hostile files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[" * 100_000,
        '{"id": "a", "verdict": "right", "answer": "", "reason": "", "targets": ' + "[" * 3000 + "]" * 3000 + "}",
        '{"id": "a", "verdict": "<script>", "answer": "", "reason": "", "targets": []}',
        '{"id": "a", "verdict": "right", "answer": "\\ud800", "reason": "", "targets": []}',
        "\xff",
    ],
)
def test_damaged_results_are_an_error_with_their_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "results.jsonl").write_bytes(line.encode("latin-1") + b"\n")
    done = coc("report", tmp_path)
    assert done.returncode == 2
    assert "line 1: not a result" in done.stderr


def test_damaged_plans_are_an_error(tmp_path: Path) -> None:
    write_results(tmp_path, new_score(1))
    for text in ('{"planned": [["coc", 1]]}', '{"planned": "x"}', "[" * 100_000):
        (tmp_path / "run.json").write_text(text)
        assert "run.json is damaged" in coc("report", tmp_path).stderr
    (tmp_path / "run.json").write_text("[]")
    assert read_planned(tmp_path) == {}


def test_hostile_results_are_escaped_and_stay_in_their_directory(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    hostile: dict[str, Any] = {
        "answer": evil,
        "error": evil,
        "reason": evil,
        "method": evil,
        "task": evil,
        "targets": [evil],
    }
    scores = [
        new_score(1, **{**hostile, "trace": "javascript:alert(1)"}),
        new_score(2, **{**hostile, "trace": '"><script>'}),
        new_score(3, **{**hostile, "trace": "traces/../../secret"}),
        new_score(4, **{**hostile, "trace": "/etc/passwd", "method": "$\\frac{1$ " + "x" * 5000, "seconds": 1e308}),
        new_score(
            5,
            **{
                **hostile,
                "trace": "traces/a b%#.jsonl",
                "method": "../../m",
                "seconds": 1e308,
                "prompt_tokens": 10**30,
            },
        ),
        new_score(6, **{**hostile, "method": "../../m", "seconds": 1e308}),
    ]
    out, outside = write_results(tmp_path / "out", *scores), tmp_path / "outside"
    outside.write_text("mine")
    for name in ("report.html", "tasks.svg", "tokens.svg", "seconds.svg", "results.parquet"):
        (out / name).symlink_to(outside)
    (out / "traces").mkdir(exist_ok=True)
    events = [Call(evil, evil, evil), Answer("answered", evil, evil, "reply")]
    Trace(evil, events=events).write(out / "traces" / "a b%#.jsonl")
    done = coc("report", out)
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    assert "<img src=x" not in page
    assert "<script" not in page
    assert page.count("<a ") == 1
    assert 'href="runs/a%20b%25%23.html"' in page
    run = (out / "runs" / "a b%#.html").read_text()
    assert "<img src=x" not in run and "<script" not in run and run.count("<a ") == 1 and 'href="../report.html"' in run
    assert outside.read_text() == "mine"
    assert "does not fit into a table" in done.stderr
    for name in ("tasks.svg", "tokens.svg"):
        drawn = ElementTree.parse(out / name)
        assert {part.tag.rpartition("}")[2] for part in drawn.iter()} <= {
            "svg",
            "style",
            "line",
            "rect",
            "circle",
            "text",
        }


@pytest.mark.nightly
def test_inspect_logs_are_written_only_where_requested(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    out = write_results(tmp_path / "out", new_score(1, method="../../m", trace="/etc/passwd"))
    (out / "run.json").write_text("{}")
    done = coc("report", out, "--inspect-logs", tmp_path / "a" / "b")
    assert done.returncode == 0, done.stderr
    assert [path.parent for path in tmp_path.rglob("*.eval")] == [tmp_path / "a" / "b"]


# --- scoring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["choice", "words", "exact", "number", ""])
def test_answers_that_cannot_be_serialized_are_wrong(kind: str) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for answer in (10**5000, [10**5000], {"a": 10**5000}, {"not": 10**5000}, deep, None, object()):
        for target in ("(A)", True, 1, "a b", {"not": "tagged"}, [1]):
            assert is_target(answer, target, Sample("s", "?", kind=kind)) is False


def test_empty_replies_are_distinguished_from_unreadable_ones() -> None:
    def ended(reply: str) -> Score:
        answer = Answer("error", error=Failure("NoAnswer", "the reply states no answer \ud800"))
        trace = Trace("?", events=[Call("p", reply), answer])
        return scored(Sample("s", "?", targets=[1]), Result.of_trace(trace, {}), 0.0)

    assert ended("hm\nhm").extracted is False
    assert ended(" \n").extracted is True
    assert msgspec.json.encode(ended("hm"))
    (rows,) = [Summary([ended(text) for text in ("hm", "", "hm")]).lines()[-1]]
    assert "3 samples, 1 without an answer, 2 unread (100.0%)" in rows


def test_targets_may_be_dicts(tmp_path: Path) -> None:
    sample = Sample("s", "?")
    assert is_target({"b": 2.0, "a": "X"}, {"a": "x", "b": 2}, sample)
    assert not is_target({"a": "x"}, {"a": "x", "b": 2}, sample)
    path = tmp_path / "q.jsonl"
    path.write_text('\ufeff{"program": "answer = dict(a=1)", "target": {"a": 1}}\r\n')  # as Windows writes it
    assert "1 of 1 right" in coc("eval", path, "--model", "scripted:/dev/null").stdout


def test_a_budget_in_money_needs_a_price(tmp_path: Path) -> None:
    from endpoint import serving

    questions, _ = suite(tmp_path, 3)
    reply = {"choices": [{"message": {"content": "A: 1"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    with serving(reply) as server:
        url = ("--base-url", f"{server.url}/v1", "--api-key", "k", "--budget", "money=1")
        done = coc("eval", questions, "--model", "openai:nobody-knows", *url, "--methods", "direct", "--at-once", "1")
    assert "the price of openai:nobody-knows is unknown" in done.stderr
    assert "1 of 3 samples were run" in done.stderr


def test_the_paired_test_is_exact() -> None:
    first = [new_score(n, "right" if n < 9 else "wrong") for n in range(12)]
    second = [new_score(n, "right" if n >= 9 else "wrong") for n in range(12)]
    assert compare(first, second)[0].p == pytest.approx(2 * (1 + 12 + 66 + 220) / 4096)
    many = [new_score(n, "right" if n < 10_000 else "wrong") for n in range(20_000)]
    other = [new_score(n, "right" if n >= 9_800 else "wrong") for n in range(20_000)]
    began = time.process_time()
    assert compare(many, other)[0].p == pytest.approx(0.162, abs=0.01)
    assert time.process_time() - began < 5


def test_invalid_numbers_of_shots_are_refused(tmp_path: Path) -> None:
    questions, script = suite(tmp_path, 1)
    for how in ("²", "-1", "9" * 5000, "few"):
        done = coc("eval", questions, "--model", f"scripted:{script}", "--shots", how)
        assert "--shots must be single, cross or a number" in done.stderr
