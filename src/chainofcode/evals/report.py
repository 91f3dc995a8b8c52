"""Reports of evaluations: accuracies next to published ones, charts, and whether two runs differ."""

from __future__ import annotations

import html
import math
import string
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from ..errors import InputError
from .charts import Point, bars, scatter
from .results import replacing
from .run_pages import write_run_pages
from .samples import Score
from .scoring import accuracy
from .tasks import BBEH, BBEH_PUBLISHED, paper, task_of


class Cell(msgspec.Struct, frozen=True):
    """Some samples of one method: accuracy and its standard error in per cent, and missing answers."""

    n: int
    accuracy: float
    error: float
    no_answer: int
    not_extracted: int

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Cell:
        share, error = accuracy(sum(score.verdict == "right" for score in scores), len(scores))
        return cls(
            n=len(scores),
            accuracy=share,
            error=error,
            no_answer=sum(score.verdict == "no answer" and score.extracted for score in scores),
            not_extracted=sum(not score.extracted for score in scores),
        )


def faithfulness(scores: Iterable[Score]) -> float | None:
    """Return the mean over the answers that were checked; None if none was checked."""
    checked = [score.faithful for score in scores if score.faithful is not None]
    return round(sum(checked) / len(checked), 3) if checked else None


Mean = tuple[float, float] | None  # an accuracy and its standard error


class ReportRow(NamedTuple):
    """A row of the table, a task or an average: measured accuracies by method, and published ones."""

    name: str
    measured: dict[str, Mean]
    published: dict[str, float]


class Summary:
    """Scores by task and method. Averages are over tasks, as in the paper; BIG-Bench Extra Hard has its own."""

    def __init__(self, scores: Iterable[Score], planned: Mapping[str, int] | None = None, about: str = "") -> None:
        self.scores, self.about = list(scores), about
        planned = planned or {}
        there = {score.method for score in self.scores}
        listed = dict.fromkeys((*planned, *(score.method for score in self.scores)))
        self.methods = [method for method in listed if method in there]  # in the order of the plan
        self.progress = {method: self._progress(method, planned.get(method, 0)) for method in listed}
        self.tasks = sorted({task_of(score.task) for score in self.scores})
        groups: dict[tuple[str, str], list[Score]] = {}
        for score in self.scores:
            groups.setdefault((task_of(score.task), score.method), []).append(score)
        self.cells = {key: Cell.of(group) for key, group in groups.items()}

    def _progress(self, method: str, planned: int) -> tuple[int, int]:
        """How many samples of a method were run, and of how many."""
        own = [score for score in self.scores if score.method == method]
        return sum(score.was_run for score in own), max(len(own), planned)

    @property
    def gaps(self) -> str:
        """What is missing, in words; empty if every planned sample was run."""
        gaps = [f"{m or 'programs'} {ran} of {planned}" for m, (ran, planned) in self.progress.items() if ran < planned]
        return f"incomplete; samples run: {', '.join(gaps)}" if gaps else ""

    @property
    def is_bbeh(self) -> bool:
        return bool(self.tasks) and all(task.startswith(BBEH) for task in self.tasks)

    def rows(self) -> list[ReportRow]:
        """Return the rows of the table: tasks first, then averages."""
        tasks = [ReportRow(task or "all samples", self._means([task]), _published([task])) for task in self.tasks]
        return tasks + self.averages()

    def averages(self) -> list[ReportRow]:
        """Return the averages over tasks, the most general first."""
        if self.is_bbeh:
            micro, harmonic = ({model: pair[n] for model, pair in BBEH_PUBLISHED.items()} for n in (0, 1))
            return [
                ReportRow("micro average", self._by_method(self._micro), micro),
                ReportRow("adjusted harmonic mean", self._by_method(self._harmonic), harmonic),
            ]
        rows = []
        for name, is_in in _groups().items():
            chosen = list(filter(is_in, self.tasks))
            known = [task for task in chosen if task in paper()]
            if len(known) > 1 or (name == "all" and len(chosen) > 1):
                rows.append(ReportRow(f"mean, {name}", self._means(chosen), _published(known)))
        return rows

    def overall(self, method: str) -> tuple[float, float]:
        """Return the most general average of a method and its standard error; for a single task, its accuracy."""
        averages = self.averages()
        mean = averages[0].measured[method] if averages else self._micro(method)
        return mean or (0.0, 0.0)

    def _by_method(self, mean: Callable[[str], Mean]) -> dict[str, Mean]:
        return {method: mean(method) for method in self.methods}

    def _micro(self, method: str) -> Mean:
        """Return the accuracy over all samples."""
        cell = Cell.of(self._of(method))
        return cell.accuracy, cell.error

    def _harmonic(self, method: str) -> Mean:
        """Return the harmonic mean over tasks of accuracy plus one, so that a single 0 does not make it 0."""
        cells = [cell for (_, name), cell in self.cells.items() if name == method]
        mean = len(cells) / sum(1 / (cell.accuracy + 1) for cell in cells)
        weights = [mean**2 / len(cells) / (cell.accuracy + 1) ** 2 for cell in cells]  # its derivatives
        return mean, math.sqrt(sum((w * cell.error) ** 2 for w, cell in zip(weights, cells, strict=True)))

    def _means(self, tasks: Sequence[str]) -> dict[str, Mean]:
        """Return the mean accuracy of each method over some tasks, and its standard error."""
        means: dict[str, Mean] = dict.fromkeys(self.methods)
        for method in self.methods:
            cells = [self.cells[task, method] for task in tasks if (task, method) in self.cells]
            if cells:
                error = math.sqrt(sum(cell.error**2 for cell in cells)) / len(cells)
                means[method] = sum(cell.accuracy for cell in cells) / len(cells), error
        return means

    @property
    def published(self) -> list[str]:
        """The columns of published figures: models, or humans and the methods that were run; empty without any."""
        known = dict.fromkeys(name for row in self.rows() for name in row.published)
        return [name for name in known if self.is_bbeh or name in ("human", *self.methods)]

    def lines(self) -> list[str]:
        """Return the table as text: measured accuracies with standard errors, then published ones."""
        rows, published = self.rows(), self.published
        width = max(len(row.name) for row in rows) + 2
        head = "".join(f"{method:>18}" for method in self.methods)
        if published:
            source = "published, all examples" if self.is_bbeh else "paper"
            head += "  |" + "".join(f"{method:>18}" for method in published) + f"   ({source})"
        lines = [line for heading in (self.gaps, self.about) if heading for line in (heading, "")]
        lines.append(f"{'':<{width}}{head}")
        lines += [self._line(row, width, published) for row in rows]
        return lines + [self._counts(method) for method in self.methods]

    def _line(self, row: ReportRow, width: int, published: Sequence[str]) -> str:
        line = f"{row.name:<{width}}" + "".join(f"{shown(row.measured[method]):>18}" for method in self.methods)
        if row.published:
            line += "  |" + "".join(f"{self.figure(row, name):>18}" for name in published)
        return line

    def figure(self, row: ReportRow, name: str) -> str:
        """Return a published figure as text: those of the paper are whole numbers."""
        number = row.published.get(name)
        if number is None:
            return ""
        return f"{number:.1f}" if self.is_bbeh else f"{number:.0f}"

    def _counts(self, method: str) -> str:
        scores = self._of(method)
        cell, faithful, repaired = Cell.of(scores), self.faithful(method), [score for score in scores if score.repairs]
        parts = [
            f"{method}: {cell.n} samples, {cell.no_answer} without an answer, {cell.not_extracted} unread "
            f"({self.unanswered(method):.1f}%)"
        ]
        if repaired:
            ended_right = sum(score.verdict == "right" for score in repaired)
            repairs = sum(score.repairs for score in repaired)
            parts.append(f"{repairs} repairs in {len(repaired)} samples, of which {ended_right} ended right")
        if self.tokens(method):
            cached = _mean([score.cached_tokens for score in scores])
            parts.append(f"{self.tokens(method):.0f} tokens per sample, {cached:.0f} of them cached")
        if faithful is not None:
            parts.append(f"faithfulness {faithful:.2f}")
        return "; ".join(parts)

    def unanswered(self, method: str) -> float:
        """Return the share of samples without an answer, or without one that could be read, in per cent."""
        cell = Cell.of(self._of(method))
        return 100 * (cell.no_answer + cell.not_extracted) / max(cell.n, 1)

    def tokens(self, method: str) -> float:
        """Return the mean tokens of a sample, prompt and reply, as the endpoint counts them."""
        return _mean([score.tokens for score in self._of(method)])

    def seconds(self, method: str) -> float:
        return _mean([score.seconds for score in self._of(method)])

    def faithful(self, method: str) -> float | None:
        return faithfulness(self._of(method))

    def _of(self, method: str) -> list[Score]:
        return [score for score in self.scores if score.method == method]


def _mean(numbers: Sequence[float]) -> float:
    try:
        return sum(numbers) / len(numbers)
    except OverflowError:  # a number in the file that is too large for a float
        return math.inf


def _groups() -> dict[str, Callable[[str], bool]]:
    """Return the groups of tasks that the paper averages over: all tasks, those of a kind, those of an executor."""
    groups: dict[str, Callable[[str], bool]] = {"all": lambda task: True}
    for kind in ("NLP", "algorithmic"):
        groups[kind] = lambda task, kind=kind: task in paper() and paper()[task].kind == kind  # type: ignore[misc]
    for by in dict.fromkeys(facts.execution for facts in paper().values()):
        groups[by] = lambda task, by=by: task in paper() and paper()[task].execution == by  # type: ignore[misc]
    return groups


def _published(tasks: Sequence[str]) -> dict[str, float]:
    """Return the paper's accuracies, as means over the tasks that it includes."""
    columns: dict[str, list[float]] = {}
    for facts in (paper()[task] for task in tasks if task in paper()):
        for name, value in {"human": facts.human_average, **facts.methods}.items():
            columns.setdefault(name, []).append(float(value))
    return {name: sum(values) / len(values) for name, values in columns.items()}


def shown(mean: Mean) -> str:
    return "–" if mean is None else f"{mean[0]:.1f} ± {mean[1]:.1f}"


# --- two runs -----------------------------------------------------------------------------------------------------


class Comparison(msgspec.Struct, frozen=True):
    """Two runs on the same samples: where only one is right, and how likely that is by chance."""

    method: str
    n: int
    first: float
    second: float
    only_first: int
    only_second: int
    p: float


def compare(first: Iterable[Score], second: Iterable[Score]) -> list[Comparison]:
    """Run a paired test for each method (McNemar's, exact) on the samples that both runs have."""
    one, other = _by_key(first), _by_key(second)
    common = sorted(one.keys() & other.keys())
    if not common:
        raise InputError("the two runs have no sample and method in common")
    for key in common:
        if one[key].sample and other[key].sample and one[key].sample != other[key].sample:
            raise InputError(f"{key[0]} is not the same sample in the two runs")
    methods = dict.fromkeys(sorted(method for _, method in common))
    return [_compared(method, [(one[key], other[key]) for key in common if key[1] == method]) for method in methods]


def _by_key(scores: Iterable[Score]) -> dict[tuple[str, str], Score]:
    return {(score.id, score.method): score for score in scores if not score.attempt}


def _compared(method: str, pairs: Sequence[tuple[Score, Score]]) -> Comparison:
    right = [(one.verdict == "right", other.verdict == "right") for one, other in pairs]
    only_first, only_second = right.count((True, False)), right.count((False, True))
    both = right.count((True, True))
    return Comparison(
        method=method,
        n=len(pairs),
        first=accuracy(both + only_first, len(pairs))[0],
        second=accuracy(both + only_second, len(pairs))[0],
        only_first=only_first,
        only_second=only_second,
        p=_by_chance(only_first, only_second),
    )


def _by_chance(one: int, other: int) -> float:
    """Return the two-sided probability that a fair coin falls at least as unevenly."""
    n, ways, tail = one + other, 1, 0  # whole numbers, of any size
    for k in range(min(one, other) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return float(min(1.0, 2 * tail / 2**n))


# --- a page and pictures ------------------------------------------------------------------------------------------


def write_page(summary: Summary, directory: Path, pictures: Sequence[str]) -> Path:
    """Write one HTML page with the table, the charts and a link to the page of every run.

    Text of the model is escaped.
    """
    runs = write_run_pages(summary.scores, directory)
    published, is_checked = summary.published, any(score.faithful is not None for score in summary.scores)
    source = "published" if summary.is_bbeh else "paper"
    head = [*summary.methods, *(f"{method}, {source}" for method in published)]
    body = [_table_row(summary, row, published) for row in summary.rows()]
    page = string.Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8")).substitute(
        about=f"<p>{html.escape(summary.about)}</p>" if summary.about else "",
        gaps=f"<p><strong>{html.escape(summary.gaps)}</strong></p>" if summary.gaps else "",
        head="".join(f"<th>{html.escape(name)}</th>" for name in head),
        checked="<th>faithful</th>" if is_checked else "",
        images="".join(_image(name) for name in pictures),
        body="\n".join(body),
        samples="\n".join(_sample_row(score, is_checked, runs.get(score.trace)) for score in summary.scores),
    )
    path = directory / "report.html"
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _image(name: str) -> str:
    described = f"Accuracy by {PurePath(name).stem}"
    return f'<p><img src="{html.escape(name, quote=True)}" alt="{html.escape(described, quote=True)}"></p>'


def _table_row(summary: Summary, row: ReportRow, published: Sequence[str]) -> str:
    measured = [shown(row.measured[method]) for method in summary.methods]
    return _row(row.name, [*measured, *(summary.figure(row, name) for name in published)])


def _sample_row(score: Score, is_checked: bool, page: PurePath | None) -> str:
    answer = score.answer or score.error or score.reason
    cells = [score.method, score.verdict, answer, ", ".join(map(str, score.targets))]
    if is_checked:
        cells.append("" if score.faithful is None else f"{score.faithful:.2f}")
    address = html.escape(urllib.parse.quote(str(page)))
    return _row(score.id, cells, "" if page is None else f'<a href="{address}">run</a>')


def _row(name: str, cells: Sequence[str], *marked_up: str) -> str:
    filled = "".join(f"<td>{cell}</td>" for cell in (*map(html.escape, cells), *marked_up))
    return f"<tr><th scope=row>{html.escape(name)}</th>{filled}</tr>"


def draw(summary: Summary, directory: Path) -> list[str]:
    """Draw charts as SVG: accuracy by task, and against tokens and time. Return the names of the files."""
    try:
        charts = _charts(summary)
    except (ValueError, OverflowError, ZeroDivisionError) as error:  # numbers too large for an axis
        raise InputError(f"no charts: {error}") from None
    for name, picture in charts.items():
        with replacing(directory / name) as partial:
            partial.write_text(picture, encoding="utf-8")
    return list(charts)


def _charts(summary: Summary) -> dict[str, str]:
    charts = {"tasks.svg": _task_chart(summary)}
    for name, value, label in (
        ("tokens", summary.tokens, "tokens per sample"),
        ("seconds", summary.seconds, "seconds per sample"),
    ):
        points = [Point(method, value(method), *summary.overall(method)) for method in summary.methods]
        if any(point.x for point in points):
            charts[f"{name}.svg"] = scatter(points, label, "accuracy, %")
    return charts


def _task_chart(summary: Summary) -> str:
    values: dict[str, list[Mean]] = {method: [] for method in summary.methods}
    for method, cells in values.items():
        for task in summary.tasks:
            cell = summary.cells.get((task, method))
            cells.append(None if cell is None else (cell.accuracy, cell.error))
    names = [task.removeprefix(BBEH).replace("_", " ") or "all samples" for task in summary.tasks]
    return bars(names, values, "accuracy, %")
