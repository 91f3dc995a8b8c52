"""`coc eval`: runs a suite of samples with a model and counts right answers."""

from __future__ import annotations

import argparse
import asyncio
import functools
import hashlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec

from ...emulator import Answering
from ...emulator.value_cache import ValueCache
from ...engine import RunOptions
from ...errors import BudgetError, InputError
from ...evals import SUITES, EvalJob, Sample, Score, load, run_jobs
from ...evals.matching import matching_votes, split_name
from ...evals.results import ResultsDirectory
from ...evals.samples import index_range, select
from ...evals.tasks import bbeh, bbh, examples, gsm8k
from ...lm import LM
from ...lm.batch_store import BatchStore
from ...lm.batches import BatchOptions
from ...lm.wrappers import Limited
from ...methods import METHODS, Ways
from ...render import count, plain
from ...sandbox.job import Limits
from ...trace import Trace
from ..eval_table import by_method, print_table, totals
from ..method_options import add_method, read_method
from ..model_options import (
    add_cache,
    add_emulator,
    add_model,
    chosen_cache,
    chosen_models,
    emulator_names,
    endpoint_of,
    read_budget,
)
from ..parser import check_range
from ..progress import BatchProgress
from ..run_options import add_overlap, add_sandbox, chosen_sandbox, read_in_flight
from ..sembench_table import add_perfect, run_sembench
from ..terminal import (
    ANSWERED,
    COULD_NOT_RUN,
    NO_ANSWER,
    note,
    overwrite_line,
    print_json,
    write_lines,
)

_BENCHMARKS = ("bbh", "bbeh", "gsm8k", "gsm-hard")
_WITH_TASKS = ("bbh", "bbeh")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MAX_REASONS = 5
_Models = tuple[LM, Answering, ValueCache | None]
_MAX_BATCHED_SECONDS = 30 * 86_400  # of a sample: it waits for one batch after another
_NO_LIMIT = 1_000_000  # requests at once: the number of samples at once is the limit


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "eval",
        help="run a suite of questions or programs with a model, and score it",
        description="SUITE is part of the package (emulation: 40 calls with known values; questions: 20 small "
        "questions; varied: 300 calls of all types, where any value of the type is right), a benchmark (bbh: "
        "BIG-Bench Hard; bbeh: BIG-Bench Extra Hard, with general examples; gsm8k; gsm-hard), sembench (ten SQL "
        "queries over movie reviews, next to the scores of four systems), or a .jsonl file of "
        '{"question": …, "target": …}, {"id": …, "question": …, "targets": […]} or {"program": …, "targets": […]}. '
        "Exit code: 0 all samples were run, 1 some could not be run, 2 none could be run.",
        examples=(
            "coc eval bbh --limit 10 --methods direct,coc --out results",
            "coc eval questions.jsonl --model openai:gpt-4o-mini --budget money=1",
        ),
    )
    parser.add_argument(
        "suite", metavar="SUITE", help=f"{', '.join((*SUITES, *_BENCHMARKS))}, sembench or a .jsonl file"
    )
    _add_samples(parser)
    _add_running(parser)
    add_model(parser)
    add_emulator(parser)
    add_cache(parser)
    add_method(parser, has_shots=False)
    add_overlap(parser)
    add_sandbox(parser)
    parser.set_defaults(command=_command)


def _add_samples(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose samples, methods and examples."""
    parser.add_argument(
        "--split",
        metavar="PART",
        help="run only one part: a named one, such as held-out, or START:STOP within each task, such as 0:100 to tune "
        "prompts and 100: to report results",
    )
    parser.add_argument(
        "--tasks", metavar="A,B", default="", help="run only these tasks of bbh or bbeh, or queries of sembench"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        help="run only the first N samples of the split (of each task, if the suite has tasks)",
    )
    parser.add_argument(
        "--methods",
        metavar="A,B",
        help="compare several methods, or all, on the same samples, without fallback. cot@coc is cot with "
        "self-consistency at equal tokens: in each task, it gets as many votes as fit into the mean number of "
        "tokens that coc uses per question (cot and coc run first)",
    )
    parser.add_argument(
        "--shots",
        metavar="HOW",
        default="single",
        help="the examples in the prompt: single (three of the same task), cross (three of other tasks), or a number "
        "of general ones, 0 for none (single)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="the random seed for --shots cross (0)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="the directory of the benchmark's files (default: COC_DATA, else a download; required for sembench)",
    )
    add_perfect(parser)


def _add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how samples run, and what is kept of them."""
    parser.add_argument("--json", action="store_true", help="print one JSON object per sample, and one with the totals")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="keep results and traces in DIR; repeat the command to resume",
    )
    parser.add_argument(
        "--verify", action="store_true", help="also score the faithfulness of each answer, as coc verify does"
    )
    parser.add_argument(
        "--batch",
        action="store_true",
        help="send requests through the batch endpoint of OpenAI or Anthropic: half the price, replies within a day; "
        "needs --out; repeat the command to resume",
    )
    parser.add_argument("--at-once", metavar="N", type=int, help="run N samples at once (as many as the model accepts)")
    parser.add_argument("--per-minute", metavar="N", type=int, help="start at most N requests to the model per minute")
    parser.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where samples run: on this machine, or on a Ray cluster (local)",
    )
    parser.add_argument("--address", metavar="WHERE", help="the Ray cluster: HOST:PORT or auto (default: this machine)")


def _command(given: argparse.Namespace) -> int:
    if given.suite == "sembench":
        if given.batch:
            raise InputError("--batch does not work with sembench")
        return run_sembench(given)
    if given.perfect:
        raise InputError("--perfect works only with sembench")
    return asyncio.run(_eval(given))


async def _eval(given: argparse.Namespace) -> int:
    _check_options(given)
    samples, names = _chosen_samples(given), _method_names(given)
    plain_names = [name for name in names if split_name(name) is None]
    jobs = [job for name in plain_names for job in _jobs(samples, name, given)]
    with (
        chosen_cache(given) as cache,
        ExitStack() as opened,
        chosen_models(given, around=_prepare(given, opened)) as models,
        chosen_sandbox(given, spares=os.cpu_count() or 1) as sandbox,
    ):
        lm, emulator = models
        models_and_cache = (lm, emulator, cache)
        store = opened.enter_context(closing(ResultsDirectory(given.out, _settings(given, lm)))) if given.out else None
        scores = await _run(given, jobs, models_and_cache, sandbox, store)
        for name in names[len(plain_names) :]:
            if len(scores) == len(jobs) and (more := _matching_jobs(samples, name, scores, given)):
                jobs += more
                scores += await _run(given, more, models_and_cache, sandbox, store)
    has_run = not scores or any(score.was_run for score in scores)
    _print_scores(given, lm.name, scores, has_run=has_run)
    for line in _why_not_run(scores, lm.name, is_kept=given.out is not None):
        note(line)
    if not has_run:
        return COULD_NOT_RUN
    return ANSWERED if len(scores) == len(samples) * len(names) else NO_ANSWER


def _prepare(given: argparse.Namespace, opened: ExitStack) -> Callable[[LM], LM]:
    """Return the function that wraps each model, for --per-minute or --batch."""
    if given.per_minute:
        return lambda lm: Limited(lm, _NO_LIMIT, given.per_minute)
    if not given.batch:
        return lambda lm: lm
    batches = BatchOptions(opened.enter_context(closing(BatchStore(given.out / "batches.sqlite"))), BatchProgress())

    def deferred(lm: LM) -> LM:
        if not lm.has_batches:
            raise InputError(f"{lm.name} has no batch endpoint: --batch needs a model of openai: or anthropic:")
        lm.defer(batches)
        return lm

    return deferred


def _check_options(given: argparse.Namespace) -> None:
    check_range(given, "limit", 1)
    check_range(given, "at-once", 1, 256)
    check_range(given, "per-minute", 1)
    for option in ("emulator", "cache", "batch"):
        if given.engine == "ray" and getattr(given, option):
            raise InputError(f"--{option} cannot be combined with --engine ray: each worker asks one model")
    if given.batch and given.out is None:
        raise InputError("--batch needs --out DIR: an interrupted evaluation collects its batches from there")
    if given.batch and given.per_minute:
        raise InputError("--per-minute cannot be combined with --batch: a batch is one request")
    if given.address and given.engine != "ray":
        raise InputError("--address needs --engine ray")
    if given.tasks and given.suite not in _WITH_TASKS:
        raise InputError(f"--tasks works only with {', '.join(_WITH_TASKS)}")
    if not _NUMBER.fullmatch(given.shots) and given.shots not in ("single", "cross"):
        raise InputError(f"--shots must be single, cross or a number, not {given.shots!r}")
    if given.data is not None and given.suite not in _BENCHMARKS:
        raise InputError(f"--data works only with {', '.join(_BENCHMARKS)}")


def _print_scores(given: argparse.Namespace, model: str, scores: list[Score], *, has_run: bool) -> None:
    if given.json:
        model_data = {"model": model} | ({"emulator": given.emulator} if given.emulator else {})
        model_data |= {"batch": True} if given.batch else {}
        for method, group in by_method(scores).items():
            print_json({"suite": given.suite, **model_data, "method": method, **totals(group)})
    elif has_run:
        names = f"{model}, values by {plain(given.emulator)}" if given.emulator else model
        print_table(given.suite, f"{names}, in batches at half price" if given.batch else names, scores)
    sys.stdout.flush()


def _chosen_samples(given: argparse.Namespace) -> list[Sample]:
    tasks = [name.strip() for name in given.tasks.split(",") if name.strip()]
    match given.suite:
        case "bbh":
            samples = bbh(tasks, given.data)
        case "bbeh":
            samples = bbeh(tasks, given.data)
        case "gsm8k" | "gsm-hard":
            samples = gsm8k(given.data, given.suite)
        case _:
            samples = load(given.suite)
    return select(samples, given.split, given.limit)


def _method_names(given: argparse.Namespace) -> list[str]:
    """Return the methods in the order in which they run: those such as `cot@coc` last, after `cot` and `coc`."""
    if given.methods is None:
        if "@" in given.method:
            raise InputError(f"{given.method!r} runs several methods: use --methods")
        return [given.method]
    given.no_fallback = True
    if given.methods == "all":
        return list(METHODS)
    names = dict.fromkeys(name.strip() for name in given.methods.split(","))
    matching = {name: parts for name in names if (parts := split_name(name)) is not None}
    needed = [part for parts in matching.values() for part in parts]
    return list(dict.fromkeys([*(name for name in names if name not in matching), *needed, *matching]))


def _jobs(
    samples: list[Sample], name: str, given: argparse.Namespace, votes: dict[str, int] | None = None
) -> list[EvalJob]:
    """Return one job per sample. `votes`, by task, are those of a method such as `cot@coc`."""
    parts = split_name(name)
    method = name if parts is None else parts[0]
    shots = int(given.shots) if _NUMBER.fullmatch(given.shots) else None
    read = functools.cache(
        lambda votes: read_method(
            argparse.Namespace(**{**vars(given), "method": method, "shots": shots, "votes": votes})
        )
    )
    known: dict[str, Ways] = {}
    for task in dict.fromkeys(sample.task for sample in samples):
        ways = read(given.votes if votes is None else votes.get(task, 1))
        known[task] = Ways(**{**ways, **_task_examples(task, method, given)})
    return [EvalJob(sample, name, known[sample.task], given.verify) for sample in samples]


def _matching_jobs(samples: list[Sample], name: str, scores: list[Score], given: argparse.Namespace) -> list[EvalJob]:
    """Return the jobs of a method such as `cot@coc`, after both have run; none if their tokens are not known."""
    method, other = split_name(name) or ("", "")
    try:
        votes = matching_votes(scores, method, other, given.votes)
    except InputError as error:
        note(f"skipped {name}: {error}")
        return []
    answers = [votes.get(sample.task, 1) for sample in samples]
    note(f"{name}: {min(answers)} to {max(answers)} votes per question, {sum(answers) / len(answers):.1f} on average")
    return _jobs(samples, name, given, votes)


def _task_examples(task: str, method: str, given: argparse.Namespace) -> Ways:
    """Return examples of the same or of other tasks, unless --shots is a number. Fallback methods have their own."""
    if _NUMBER.fullmatch(given.shots):
        return Ways()
    by_method = {name: examples(task, name, given.shots, given.data, given.seed) for name in (method, "cot", "direct")}
    own = by_method[method]
    if own is None:
        return Ways()
    pairs = {name: found.pairs for name, found in by_method.items() if found is not None}
    return Ways(examples={"program": own.pairs, **pairs}, seen=own.calls)


def _settings(given: argparse.Namespace, lm: LM) -> dict[str, Any]:
    """Return the settings that a resumed evaluation must share; samples and methods may be added."""
    names = (
        "suite",
        "shots",
        "seed",
        "repairs",
        "votes",
        "value_votes",
        "think",
        "critique",
        "no_fallback",
        "no_share",
        "rows",
    )
    files = {"sha256": Path(given.suite) if given.suite not in (*SUITES, *_BENCHMARKS) else None}
    files["examples"] = given.examples
    digests = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path and path.is_file() else ""
        for name, path in files.items()
    }
    split = given.split if index_range(given.split) is not None else ""
    emulators = emulator_names(given)
    emulator = ",".join(emulators) + (f" at {given.threshold:g}" if len(emulators) > 1 else "")
    return {
        "model": lm.name,
        "emulator": emulator,
        "batch": "at half price" if given.batch else "",
        "split": split,
        **{name: getattr(given, name) for name in names},
        **digests,
    }


def _options(given: argparse.Namespace) -> RunOptions:
    limits = Limits(wall_seconds=_MAX_BATCHED_SECONDS) if given.batch else Limits()
    return RunOptions(in_flight=read_in_flight(given), share=not given.no_share, limits=limits)


async def _run(
    given: argparse.Namespace,
    jobs: list[EvalJob],
    models: _Models,
    sandbox: Any,
    store: ResultsDirectory | None,
) -> list[Score]:
    left = _left(jobs, store)
    scores, progress = list[Score](), _Progress(len(left))
    try:
        async for score, trace in _results(given, left, models, sandbox):
            scores.append(store.keep(score, trace) if store is not None else score)
            if given.json:
                print_json(msgspec.to_builtins(scores[-1]))
            progress.show(score)
    except BudgetError as error:  # scores so far count
        note(f"{error}: {len(scores)} of {len(left)} samples were run")
    progress.end()
    if store is None:
        return scores
    job_keys = {job.key for job in jobs}
    return [score for score in store.scores() if (score.id, score.method) in job_keys]


def _left(jobs: list[EvalJob], store: ResultsDirectory | None) -> list[EvalJob]:
    """The jobs that have no score yet."""
    if store is None:
        return jobs
    left = store.plan(jobs)
    if len(left) < len(jobs):
        note(f"{len(jobs) - len(left)} of {len(jobs)} are already done, in {store.directory}")
    return left


async def _results(
    given: argparse.Namespace, jobs: list[EvalJob], models: _Models, sandbox: Any
) -> AsyncIterator[tuple[Score, Trace | None]]:
    lm, emulator, cache = models
    at_once = given.at_once or lm.in_flight
    if given.engine == "local":
        async for result in run_jobs(jobs, lm, sandbox, _options(given), at_once, emulator=emulator, cache=cache):
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
        is_small=lm.is_small, has_images=lm.has_images, effort=given.effort or "",
    )  # fmt: skip
    for result in run_on_ray(jobs, plan, _options(given), address=given.address, api_key=key):
        yield result


class _Progress:
    """Shows progress, speed, cost and accuracy on standard error."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._right = total, 0, 0
        self._dollars: float | None = 0.0
        self._started = time.monotonic()

    def show(self, last: Score) -> None:
        self._done += 1
        self._right += last.verdict == "right"
        self._dollars = None if self._dollars is None or last.dollars is None else self._dollars + last.dollars
        rate = self._done / max(time.monotonic() - self._started, 1e-6)
        cost = f"  ${self._dollars:.3f}" if self._dollars else ""
        line = f"{self._done}/{self._total}  {self._right} right ({self._right / self._done:.0%})  {rate:.2g}/s{cost}  "
        line += f"{plain(last.method)} {plain(last.id)}: {last.verdict}  {last.seconds:.1f} s"
        if sys.stderr.isatty():
            overwrite_line(line, sys.stderr)
        elif self._done % (10 if self._total < 1000 else 100) == 0:
            write_lines([line], sys.stderr)

    def end(self) -> None:
        if sys.stderr.isatty():
            write_lines([""], sys.stderr)


def _why_not_run(scores: list[Score], model: str, *, is_kept: bool) -> Iterator[str]:
    """Yield the reasons why samples were not run, with counts, and what to do."""
    missing = [score for score in scores if not score.was_run]
    reasons = Counter(score.error for score in missing)
    for reason, times in reasons.most_common(_MAX_REASONS):
        yield f"{times} of {count(len(scores), 'sample')} could not be run: {reason}"
    if len(reasons) > _MAX_REASONS:
        yield f"{count(len(reasons) - _MAX_REASONS, 'more reason')}: --json prints them all"
    if missing and len(missing) == len(scores):
        yield f'no sample was run: check the model with coc ask "What is 2 + 2?" --model {model}'
    elif missing and is_kept:
        yield "repeat the command to retry those that could not be run"
