"""`coc eval sembench`: runs the ten queries and prints the scores next to published ones."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..emulator import Answering, as_emulator
from ..emulator.value_cache import ValueCache
from ..errors import InputError
from ..evals.sembench import QUERIES, SYSTEMS, BenchmarkQuery, MovieScenario, QueryScore
from ..sandbox import Sandbox
from .model_options import chosen_cache, chosen_models
from .run_options import chosen_sandbox
from .terminal import ANSWERED, NO_ANSWER, print_json, print_line

_METRICS = {"f1_score": "F1", "relative_error": "rel. error", "spearman_correlation": "Spearman"}
_TITLES = {"lotus": "LOTUS", "palimpzest": "Palimpzest", "bigquery": "BigQuery", "thalamusdb": "ThalamusDB"}


def add_perfect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--perfect", action="store_true", help="sembench: use the labels of the data set as judgements, not a model"
    )


def run_sembench(given: argparse.Namespace) -> int:
    """Run the queries that --tasks names, or all."""
    wanted = [name.strip().upper() for name in given.tasks.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in [query.name for query in QUERIES]]
    if unknown:
        raise InputError(f"unknown query {unknown[0]!r} in --tasks (expected some of Q1 to Q10)")
    queries = [query for query in QUERIES if not wanted or query.name in wanted]
    scenario = MovieScenario(_home(given))
    with ExitStack() as opened:
        sandbox = opened.enter_context(chosen_sandbox(given, spares=0))
        judged_by: Callable[[BenchmarkQuery], Answering] = scenario.perfect
        if not given.perfect:
            lm, emulator = opened.enter_context(chosen_models(given))
            judged_by = functools.partial(_by_models, emulator or lm, opened.enter_context(chosen_cache(given)))
        scores = asyncio.run(_run(scenario, queries, judged_by, sandbox, given))
    return ANSWERED if all(score.score is not None for score in scores) else NO_ANSWER


def _by_models(models: Answering, cache: ValueCache | None, query: BenchmarkQuery) -> Answering:
    """The emulator of one query. With a cache, an interrupted evaluation repeats no request."""
    return as_emulator(models) if cache is None else cache.emulator(models)


def _home(given: argparse.Namespace) -> Path:
    data = given.data or os.environ.get("COC_DATA")
    if not data:
        raise InputError("coc eval sembench needs --data DIR (or COC_DATA), the directory of SemBench's movie scenario")
    below = Path(data) / "sembench-movie"
    return below if below.is_dir() else Path(data)


async def _run(
    scenario: MovieScenario,
    queries: list[BenchmarkQuery],
    judged_by: Callable[[BenchmarkQuery], Answering],
    sandbox: Sandbox,
    given: argparse.Namespace,
) -> list[QueryScore]:
    options = await scenario.options()
    scores: list[QueryScore] = []
    if not given.json:
        print_line(_line("query", "metric", "ours", "calls", "tokens", "seconds", *(_TITLES[name] for name in SYSTEMS)))
    for query in queries:
        score = await scenario.run(query, judged_by(query), sandbox, options)
        scores.append(score)
        if given.json:
            print_json(score.data)
        else:
            print_line(_score_line(score))
    return scores


def _score_line(score: QueryScore) -> str:
    measured = score.reason if score.score is None else f"{score.score:.3f}"
    published = [_published(score.published[name]) for name in SYSTEMS]
    numbers = (f"{score.calls:,}", f"{score.tokens:,}", f"{score.seconds:.1f}")
    return _line(score.name, _METRICS[score.metric], measured, *numbers, *published)


def _published(score: Any) -> str:
    """Return the published score of a system, its tokens in thousands, and its seconds."""
    if score["score"] is None:
        return "–"
    return f"{score['score']:.3f} {(score['tokens'] or 0) / 1000:,.0f}k {score['seconds'] or 0:.0f}s"


def _line(*cells: str) -> str:
    widths = (6, 11, 8, 7, 10, 8, 22, 22, 22, 22)
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
