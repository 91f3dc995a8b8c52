"""SemBench's movie scenario: ten queries over 2,000 reviews, with the scores that four systems published.

A query runs with a model, or with perfect judgements: those that the labels of the data set imply. Perfect judgements
show whether the queries are right and how many calls they need.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..emulator import Answering, Pause
from ..engine import RunOptions
from ..errors import InputError
from ..methods.queries import QueryResult, execute_query, query_options, tables_of
from ..sandbox import Limits, Sandbox
from .rank_correlation import spearman

SYSTEMS = ("lotus", "palimpzest", "bigquery", "thalamusdb")
_TABLES = {"Reviews_2000": "reviews", "Movies_2000": "movies"}
_METRICS = "across_system_2.5flash_sf2000"
_MAX_CALLS = 10_000
_WALL_SECONDS = 24 * 3600.0  # 2,000 calls to a small model on few cores can take more than an hour


@dataclass(frozen=True)
class BenchmarkQuery:
    """One query: how it is scored, and how many rows it returns at most."""

    name: str
    metric: str  # f1_score, relative_error, spearman_correlation
    limit: int | None = None

    @property
    def text(self) -> str:
        return (Path(__file__).with_name("sembench_queries") / f"{self.name}.sql").read_text(encoding="utf-8")


QUERIES = (
    BenchmarkQuery("Q1", "f1_score", 5),
    BenchmarkQuery("Q2", "f1_score", 5),
    BenchmarkQuery("Q3", "relative_error"),
    BenchmarkQuery("Q4", "relative_error"),
    BenchmarkQuery("Q5", "f1_score", 10),
    BenchmarkQuery("Q6", "f1_score", 10),
    BenchmarkQuery("Q7", "f1_score"),
    BenchmarkQuery("Q8", "relative_error"),
    BenchmarkQuery("Q9", "spearman_correlation"),
    BenchmarkQuery("Q10", "spearman_correlation"),
)


@dataclass(frozen=True, kw_only=True)
class QueryScore:
    """The result of a query, next to those of four systems."""

    name: str
    metric: str
    score: float | None  # None without an answer
    reason: str
    rows: int
    calls: int
    tokens: int
    seconds: float
    published: Mapping[str, Mapping[str, Any]]

    @property
    def data(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "published"}
        return {**own, "published": {system: dict(figures) for system, figures in self.published.items()}}


class MovieScenario:
    """The data, the ground truth and the published scores, below one directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        if not (home / "data" / "Reviews_2000.csv").is_file():
            raise InputError(f"no SemBench movie data in {home}: give its directory with --data")
        self._truth: dict[str, list[dict[str, str]]] = {}

    async def options(self) -> RunOptions:
        files = await tables_of(sorted((self._home / "data").glob("*_2000.csv")))
        prelude = tuple(replace(file, name=_TABLES[file.name]) for file in files.prelude)
        return query_options(
            RunOptions(limits=Limits(lm_calls=_MAX_CALLS, wall_seconds=_WALL_SECONDS)), replace(files, prelude=prelude)
        )

    async def run(
        self, query: BenchmarkQuery, emulator: Answering, sandbox: Sandbox | str, options: RunOptions
    ) -> QueryScore:
        started = time.monotonic()
        result = QueryResult.of([event async for event in execute_query(query.text, emulator, sandbox, options)])
        score = self._score(query, result.rows) if result.is_answered else None
        return QueryScore(
            name=query.name,
            metric=query.metric,
            score=score,
            reason=str(result.reason),
            rows=len(result.rows),
            calls=result.trace.lm_calls,
            tokens=result.usage.prompt_tokens + result.usage.completion_tokens,
            seconds=time.monotonic() - started,
            published=self._published(query),
        )

    def _score(self, query: BenchmarkQuery, rows: list[dict[str, Any]]) -> float:
        truth = self._read(self._home / "raw_results" / "ground_truth" / f"{query.name}.csv")
        if query.metric == "f1_score":
            return _f1(rows, truth, query.limit)
        if query.metric == "relative_error":
            return _relative_error(rows, truth)
        return _correlation(rows, truth)

    def _published(self, query: BenchmarkQuery) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for system in SYSTEMS:
            path = self._home / "metrics" / _METRICS / f"{system}.json"
            figures = json.loads(path.read_text(encoding="utf-8")).get(query.name, {}) if path.is_file() else {}
            is_done = figures.get("status") == "success"
            found[system] = {
                "score": figures.get(query.metric) if is_done else None,
                "tokens": figures.get("token_usage"),
                "seconds": figures.get("execution_time"),
            }
        return found

    def _read(self, path: Path) -> list[dict[str, str]]:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def perfect(self, query: BenchmarkQuery) -> Callable[[Pause], Any]:
        """Return the judgements that the labels of the data imply.

        The truth of Q10 is the audience score of a movie, so that score is the judgement of all its reviews.
        """
        reviews = {row["reviewText"]: row for row in self._read(self._home / "data" / "Reviews_2000.csv")}
        audience = {row["id"]: row["audienceScore"] for row in self._read(self._home / "data" / "Movies_2000.csv")}

        def judge(pause: Pause) -> Any:
            row = reviews[pause.args[0]]
            if pause.name == "is_positive":
                return row["scoreSentiment"] == "POSITIVE"
            if pause.name == "sentiment":
                return row["scoreSentiment"].lower()
            if query.name == "Q10":
                return float(audience.get(row["id"]) or 0) / 20
            return float(row["originalScore"].partition("/")[0] or 0)

        return judge


def _f1(rows: Iterable[Mapping[str, Any]], truth: Iterable[Mapping[str, str]], limit: int | None) -> float:
    """Return the F1 score of sets of rows. With a limit, that many hits are full recall."""
    found = {tuple(map(str, row.values())) for row in rows}
    right = {tuple(row.values()) for row in truth}
    hits = len(found & right)
    wanted = len(right) if limit is None else min(limit, len(right))
    if not hits:
        return 0.0
    precision, recall = hits / len(found), min(hits / wanted, 1.0)
    return 2 * precision * recall / (precision + recall)


def _relative_error(rows: list[dict[str, Any]], truth: list[dict[str, str]]) -> float:
    """Return the mean relative error of the last column; the other columns are the key."""
    found = {tuple(map(str, list(row.values())[:-1])): float(list(row.values())[-1] or 0) for row in rows}
    errors = []
    for row in truth:
        *key, value = row.values()
        errors.append(abs(found.get(tuple(key), 0.0) - float(value)) / abs(float(value)))
    return sum(errors) / len(errors)


def _correlation(rows: list[dict[str, Any]], truth: list[dict[str, str]]) -> float:
    """Return Spearman's correlation of the last column, for rows that both have."""
    right = {key: float(value) for key, value in (row.values() for row in truth) if value}
    found = {str(key): value for key, value in (row.values() for row in rows) if value is not None}
    both = [key for key in right if key in found]
    return spearman([float(found[key]) for key in both], [right[key] for key in both])
