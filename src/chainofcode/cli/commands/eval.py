"""`coc eval`: runs a suite of samples with a model and counts right answers."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from ...engine import RunOptions
from ...errors import BudgetError, InputError
from ...evals import SUITES, EvalJob, Sample, Score, load, run_jobs
from ...evals.report import Cell, faithfulness
from ...evals.results import ResultsDirectory
from ...evals.tasks import bbh, examples, gsm8k
from ...lm import LM
from ...lm.wrappers import Limited
from ...methods import METHODS, Ways
from ...render import count, cut, fit, plain
from ...trace import Trace
from ..method_options import add_method, read_method
from ..model_options import add_model, chosen_model, endpoint_of, read_budget
from ..parser import check_range
from ..run_options import add_overlap, add_sandbox, chosen_sandbox, read_in_flight
from ..terminal import ANSWERED, COULD_NOT_RUN, NO_ANSWER, note, print_json

_BENCHMARKS = ("bbh", "gsm8k", "gsm-hard")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MAX_REASONS = 5
_NO_LIMIT = 1_000_000  # requests at once: the number of samples at once is the limit


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "eval",
        help="run a suite of questions or programs with a model and count what is right",
        description="SUITE is one that comes with the package (emulation: 40 calls whose value is known; questions: 20 "
        "small questions; varied: 300 calls of every type, where any value that fits will do), a benchmark (bbh: "
        "BIG-Bench Hard; gsm8k; gsm-hard), or a .jsonl file of "
        '{"question": …, "target": …}, {"id": …, "question": …, "targets": […]} or {"program": …, "targets": […]}.',
    )
    parser.add_argument("suite", metavar="SUITE", help=f"{', '.join((*SUITES, *_BENCHMARKS))} or a .jsonl file")
    parser.add_argument("--split", metavar="NAME", help="only the samples of one split, such as held-out")
    parser.add_argument("--tasks", metavar="A,B", default="", help="only these tasks of bbh")
    parser.add_argument(
        "--limit", metavar="N", type=int, help="only the first N samples, of each task where there are some"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a sample, and one with the totals")
    parser.add_argument(
        "--methods",
        metavar="A,B",
        help="several methods, or all, on the same samples: one row each (without fallback: each stands for itself)",
    )
    parser.add_argument(
        "--shots",
        metavar="HOW",
        default="single",
        help="examples that the model sees: single (three of the same task), cross (of other tasks), or how many of "
        "the general ones (0: none)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which examples cross takes")
    parser.add_argument(
        "--data", metavar="DIR", type=Path, help="where a benchmark's files are (else COC_DATA, else fetched)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="keep results and traces in DIR; the same command again goes on with them",
    )
    parser.add_argument(
        "--verify", action="store_true", help="check each answer as coc verify does, and show how faithful they are"
    )
    parser.add_argument(
        "--at-once", metavar="N", type=int, help="how many samples run at once (as many as the model takes)"
    )
    parser.add_argument(
        "--per-minute", metavar="N", type=int, help="begin N requests to the model in a minute at most, in all"
    )
    parser.add_argument(
        "--engine", choices=["local", "ray"], default="local", help="ray: on the machines of a Ray cluster"
    )
    parser.add_argument(
        "--address", metavar="WHERE", help="the Ray cluster: HOST:PORT, or auto (else this machine alone)"
    )
    add_model(parser)
    add_method(parser, has_shots=False)
    add_overlap(parser)
    add_sandbox(parser)
    parser.set_defaults(command=lambda given: asyncio.run(_eval(given)))


async def _eval(given: argparse.Namespace) -> int:
    _check_options(given)
    jobs = _jobs(_chosen_samples(given), given)
    with chosen_model(given) as lm, chosen_sandbox(given, spares=os.cpu_count() or 1) as sandbox:
        lm = Limited(lm, _NO_LIMIT, given.per_minute) if given.per_minute else lm
        with closing(ResultsDirectory(given.out, _settings(given, lm))) if given.out else nullcontext() as store:
            scores = await _run(given, jobs, lm, sandbox, store)
    has_run = not scores or any(score.was_run for score in scores)
    _print_scores(given, lm.name, scores, has_run=has_run)
    for line in _why_not_run(scores, lm.name, is_kept=given.out is not None):
        note(line)
    if not has_run:
        return COULD_NOT_RUN
    return ANSWERED if len(scores) == len(jobs) else NO_ANSWER


def _check_options(given: argparse.Namespace) -> None:
    check_range(given, "limit", 1)
    check_range(given, "at-once", 1, 256)
    check_range(given, "per-minute", 1)
    if given.address and given.engine != "ray":
        raise InputError("--address is for --engine ray")
    if given.tasks and given.suite != "bbh":
        raise InputError("--tasks is for bbh")
    if given.data is not None and given.suite not in _BENCHMARKS:
        raise InputError(f"--data is for {', '.join(_BENCHMARKS)}")


def _print_scores(given: argparse.Namespace, model: str, scores: list[Score], *, has_run: bool) -> None:
    if given.json:
        for method, group in _grouped(scores, "method").items():
            print_json({"suite": given.suite, "model": model, "method": method, **_totals(group)})
    elif has_run:
        _print_table(given.suite, model, scores)
    sys.stdout.flush()


def _chosen_samples(given: argparse.Namespace) -> list[Sample]:
    taken = Counter[str]()
    chosen = []
    for sample in _samples(given):
        taken[sample.task] += 1
        if given.limit is None or taken[sample.task] <= given.limit:
            chosen.append(sample)
    if not chosen:
        raise InputError(f"{given.suite} has no such samples")
    return chosen


def _samples(given: argparse.Namespace) -> list[Sample]:
    if given.suite == "bbh":
        return bbh([name.strip() for name in given.tasks.split(",") if name.strip()], given.data)
    if given.suite in _BENCHMARKS:
        return gsm8k(given.data, given.suite)
    return [sample for sample in load(given.suite) if given.split in (None, sample.split)]


def _jobs(samples: list[Sample], given: argparse.Namespace) -> list[EvalJob]:
    how = given.shots
    given.shots = int(how) if _NUMBER.fullmatch(how) else None
    if given.shots is None and how not in ("single", "cross"):
        raise InputError(f"--shots takes single, cross or a number, not {how!r}")
    jobs = []
    for name in _method_names(given):
        given.method = name
        ways = read_method(given)
        known: dict[str, Ways] = {}
        for sample in samples:
            if sample.task not in known:
                known[sample.task] = Ways(**{**ways, **_task_examples(sample.task, name, how, given)})
            jobs.append(EvalJob(sample, name, known[sample.task], given.verify))
    given.shots = how
    return jobs


def _method_names(given: argparse.Namespace) -> list[str]:
    if given.methods is None:
        return [given.method]
    given.no_fallback = True
    if given.methods == "all":
        return list(METHODS)
    return list(dict.fromkeys(name.strip() for name in given.methods.split(",")))


def _task_examples(task: str, method: str, how: str, given: argparse.Namespace) -> Ways:
    """Examples of the same or of other tasks, unless --shots is a number."""
    found = examples(task, method, how, given.data, given.seed) if given.shots is None else None
    return Ways(examples=found.pairs, seen=found.calls) if found is not None else Ways()


def _settings(given: argparse.Namespace, lm: LM) -> dict[str, Any]:
    """Settings that must be equal for results to be combined; samples and methods may be added."""
    names = ("suite", "shots", "seed", "repairs", "votes", "value_votes", "critique", "no_fallback", "no_share", "rows")
    files = {"sha256": Path(given.suite) if given.suite not in (*SUITES, *_BENCHMARKS) else None}
    files["examples"] = given.examples
    digests = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path and path.is_file() else ""
        for name, path in files.items()
    }
    return {"model": lm.name, **{name: getattr(given, name) for name in names}, **digests}


def _options(given: argparse.Namespace) -> RunOptions:
    return RunOptions(in_flight=read_in_flight(given), share=not given.no_share)


async def _run(
    given: argparse.Namespace, jobs: list[EvalJob], lm: LM, sandbox: Any, store: ResultsDirectory | None
) -> list[Score]:
    left = _left(jobs, store)
    scores, progress = list[Score](), _Progress(len(left))
    try:
        async for score, trace in _results(given, left, lm, sandbox):
            scores.append(store.keep(score, trace) if store is not None else score)
            if given.json:
                print_json(msgspec.to_builtins(scores[-1]))
            progress.show(score)
    except BudgetError as error:  # scores so far count
        note(f"{error}: {len(scores)} of {len(left)} samples were run")
    progress.end()
    if store is None:
        return scores
    wanted = {job.key for job in jobs}
    return [score for score in store.scores() if (score.id, score.method) in wanted]


def _left(jobs: list[EvalJob], store: ResultsDirectory | None) -> list[EvalJob]:
    """The jobs that have no score yet."""
    if store is None:
        return jobs
    left = store.plan(jobs)
    if len(left) < len(jobs):
        note(f"{len(jobs) - len(left)} of {len(jobs)} are there already, in {store.directory}")
    return left


async def _results(
    given: argparse.Namespace, jobs: list[EvalJob], lm: LM, sandbox: Any
) -> AsyncIterator[tuple[Score, Trace | None]]:
    at_once = given.at_once or lm.in_flight
    if given.engine == "local":
        async for result in run_jobs(jobs, lm, sandbox, _options(given), at_once):
            yield result
        return
    try:
        from ...evals.ray import Plan, run_on_ray
    except ImportError:
        raise InputError("--engine ray needs Ray: pip install 'chainofcode[ray]'") from None
    key, base_url = endpoint_of(given, lm)
    plan = Plan(
        lm.name, given.sandbox, base_url, at_once,
        per_minute=given.per_minute, rows=given.rows, **read_budget(given.budget),
    )  # fmt: skip
    for result in run_on_ray(jobs, plan, _options(given), address=given.address, api_key=key):
        yield result


class _Progress:
    """Shows progress, speed, cost and accuracy on standard error."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._right = total, 0, 0
        self._dollars: float | None = 0.0
        self._began = time.monotonic()

    def show(self, last: Score) -> None:
        self._done += 1
        self._right += last.verdict == "right"
        self._dollars = None if self._dollars is None or last.dollars is None else self._dollars + last.dollars
        rate = self._done / max(time.monotonic() - self._began, 1e-6)
        cost = f"  ${self._dollars:.3f}" if self._dollars else ""
        line = f"{self._done}/{self._total}  {self._right} right ({self._right / self._done:.0%})  {rate:.2g}/s{cost}  "
        line += f"{last.method} {plain(last.id)}: {last.verdict}  {last.seconds:.1f} s"
        if sys.stderr.isatty():
            line = cut(line, shutil.get_terminal_size().columns - 1)
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        elif self._done % (10 if self._total < 1000 else 100) == 0:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


def _totals(scores: list[Score]) -> dict[str, Any]:
    return {
        "samples": len(scores),
        **{verdict: sum(score.verdict == verdict for score in scores) for verdict in ("right", "wrong")},
        "no_answer": sum(score.verdict == "no answer" and score.extracted for score in scores),
        "not_extracted": sum(not score.extracted for score in scores),
        "calls": sum(score.calls for score in scores),
        "retries": sum(score.retries for score in scores),
        "format_failures": sum(score.reason == "emulation failed" for score in scores),
        "standard_error": round(Cell.of(scores).error, 2),
        "seconds": round(sum(score.seconds for score in scores), 1),
        "faithful": faithfulness(scores),
    }


_COLUMNS = ("samples", "right", "wrong", "no answer", "unread", "calls", "retries")
_FIELDS = {"no answer": "no_answer", "unread": "not_extracted"}


def _grouped(scores: list[Score], key: str) -> dict[str, list[Score]]:
    names = dict.fromkeys(getattr(score, key) for score in scores)
    return {name: [score for score in scores if getattr(score, key) == name] for name in names if name}


def _why_not_run(scores: list[Score], model: str, *, is_kept: bool) -> Iterator[str]:
    """The reasons why samples were not run, each once."""
    missing = [score for score in scores if not score.was_run]
    reasons = Counter(score.error for score in missing)
    for reason, times in reasons.most_common(_MAX_REASONS):
        yield f"{times} of {count(len(scores), 'sample')} could not be run: {reason}"
    if len(reasons) > _MAX_REASONS:
        yield f"{len(reasons) - _MAX_REASONS} more reasons: --json has each sample's"
    if missing and len(missing) == len(scores):
        yield f'nothing was run: try again when coc ask "What is 2 + 2?" --model {model} answers'
    elif missing and is_kept:
        yield "the same command again tries those that could not be run"


def _print_table(suite: str, model: str, scores: list[Score]) -> None:
    groups, samples = _grouped(scores, "method"), len({score.id for score in scores})
    has_methods = len(groups) > 1
    summary = f"{len(groups)} methods on {samples} samples"
    if not has_methods:
        groups = {"all": scores, **_grouped(scores, "kind"), **_grouped(scores, "split")}
        summary = f"{_totals(scores)['right']} of {len(scores)} right"
    width = max(12, *(len(name) + 2 for name in groups))
    columns = _columns(scores)
    print(f"{plain(suite)} with {plain(model)}: {summary}\n")
    print(" " * width + "".join(f"{name:>11}" for name in columns))
    for name, group in groups.items():
        print(fit(plain(name), width) + "".join(f"{cell:>11}" for cell in _cells(group)[: len(columns)]))
    for score in scores:
        _print_remark(score, f"{score.method} {score.id}" if has_methods else score.id, width + 8)


def _columns(scores: list[Score]) -> list[str]:
    is_verified = any(score.faithful is not None for score in scores)
    return [*_COLUMNS, "s/sample", "faithful"] if is_verified else [*_COLUMNS, "s/sample"]


def _cells(scores: list[Score]) -> list[str]:
    """The cells of a row; the last one is shown only if answers were verified."""
    totals = _totals(scores)
    counts = [str(totals[_FIELDS.get(column, column)]) for column in _COLUMNS]
    faithful = totals["faithful"]
    return [*counts, f"{totals['seconds'] / max(len(scores), 1):.1f}", "–" if faithful is None else str(faithful)]


def _print_remark(score: Score, name: str, width: int) -> None:
    """Print what a sample answered and what was wanted, unless it was right at once."""
    if not score.was_run or (score.verdict == "right" and not score.retries):
        return
    said = score.answer if score.verdict != "no answer" else f"{score.reason}: {score.error}"
    remark = cut(plain(said), 160)
    if score.targets and score.verdict != "right":
        remark += plain(f" (wanted {json.dumps(score.targets[0])})")
    if score.retries:
        remark += f" [{score.retries} retried]"
    print(f"{fit(plain(name), width)}{score.verdict}: {remark}")
