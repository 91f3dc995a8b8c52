"""Reports of evaluations: accuracies beside the paper's, charts, and whether two runs differ."""

from __future__ import annotations

import html
import math
import string
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from .results import replacing, trace_of
from .samples import Score
from .scoring import accuracy
from .tasks import paper, task_of


class Cell(msgspec.Struct, frozen=True):
    """Some samples of one method: accuracy and its standard error in per cent, and what is no answer."""

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
    """Return the mean over the answers that were checked; None where none was."""
    checked = [score.faithful for score in scores if score.faithful is not None]
    return round(sum(checked) / len(checked), 3) if checked else None


Mean = tuple[float, float] | None  # an accuracy and its standard error
Row = tuple[str, dict[str, Mean], dict[str, float]]  # a name, ours by method, the paper's by method


class Summary:
    """Scores by task and method; averages are over tasks, as in the paper."""

    def __init__(self, scores: Iterable[Score], planned: Mapping[str, int] | None = None) -> None:
        self.scores = list(scores)
        if not self.scores:
            raise InputError("there are no results yet")
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
        return f"incomplete, samples that were run: {', '.join(gaps)}" if gaps else ""

    def rows(self) -> list[Row]:
        """Return the rows of the table: tasks first, then averages."""
        rows = [(task or "all samples", self._means([task]), _published([task])) for task in self.tasks]
        for name, is_in in _groups().items():
            chosen = list(filter(is_in, self.tasks))
            known = [task for task in chosen if task in paper()]
            if len(known) > 1 or (name == "all" and len(chosen) > 1):
                rows.append((f"mean, {name}", self._means(chosen), _published(known)))
        return rows

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
        """The columns of the paper; none where none of these tasks is in the paper."""
        if not any(theirs for _, _, theirs in self.rows()):
            return []
        known = {method for facts in paper().values() for method in facts.methods}
        return ["human", *(method for method in self.methods if method in known)]

    def lines(self) -> list[str]:
        """Return the table as text: ours with standard errors, the paper's behind it."""
        rows, theirs = self.rows(), self.published
        width = max(len(name) for name, _, _ in rows) + 2
        head = "".join(f"{method:>18}" for method in self.methods)
        if theirs:
            head += "  |" + "".join(f"{method:>18}" for method in theirs) + "   (paper)"
        lines = [f"{self.gaps}\n"] if self.gaps else []
        lines.append(f"{'':<{width}}{head}")
        lines += [self._line(row, width, theirs) for row in rows]
        return lines + [self._counts(method) for method in self.methods]

    def _line(self, row: Row, width: int, theirs: Sequence[str]) -> str:
        name, ours, told = row
        line = f"{name:<{width}}" + "".join(f"{_shown(ours[method]):>18}" for method in self.methods)
        if told:
            line += "  |" + "".join(f"{_whole(told.get(method)):>18}" for method in theirs)
        return line

    def _counts(self, method: str) -> str:
        cell, faithful = Cell.of(self._of(method)), self.faithful(method)
        line = (
            f"{method}: {cell.n} samples, {cell.no_answer} without an answer, {cell.not_extracted} with a reply in "
            "which none was found"
        )
        return line if faithful is None else f"{line}; faithfulness {faithful:.2f}"

    def faithful(self, method: str) -> float | None:
        return faithfulness(self._of(method))

    def _of(self, method: str) -> list[Score]:
        return [score for score in self.scores if score.method == method]


def _groups() -> dict[str, Callable[[str], bool]]:
    """Return the groups of tasks that the paper averages over: all, and those of one kind, or run by one executor."""
    groups: dict[str, Callable[[str], bool]] = {"all": lambda task: True}
    for kind in ("NLP", "algorithmic"):
        groups[kind] = lambda task, kind=kind: task in paper() and paper()[task].kind == kind  # type: ignore[misc]
    for by in dict.fromkeys(facts.execution for facts in paper().values()):
        groups[by] = lambda task, by=by: task in paper() and paper()[task].execution == by  # type: ignore[misc]
    return groups


def _published(tasks: Sequence[str]) -> dict[str, float]:
    """Return the paper's accuracies, as means over those of the tasks that it has."""
    columns: dict[str, list[float]] = {}
    for facts in (paper()[task] for task in tasks if task in paper()):
        for name, value in {"human": facts.human_average, **facts.methods}.items():
            columns.setdefault(name, []).append(float(value))
    return {name: sum(values) / len(values) for name, values in columns.items()}


def _whole(number: float | None) -> str:
    return "" if number is None else f"{number:.0f}"


def _shown(mean: Mean) -> str:
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
    """Write one HTML page with the table, the charts and a link to every trace; all that the model wrote is text."""
    theirs, is_checked = summary.published, any(score.faithful is not None for score in summary.scores)
    head = [*summary.methods, *(f"{method}, paper" for method in theirs)]
    body = [_table_row(summary, row, theirs) for row in summary.rows()]
    page = string.Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8")).substitute(
        gaps=f"<p><strong>{html.escape(summary.gaps)}</strong></p>" if summary.gaps else "",
        head="".join(f"<th>{html.escape(name)}</th>" for name in head),
        checked="<th>faithful</th>" if is_checked else "",
        images="".join(f'<img src="{html.escape(name, quote=True)}" alt="chart">' for name in pictures),
        body="\n".join(body),
        samples="\n".join(_sample_row(score, is_checked) for score in summary.scores),
    )
    path = directory / "report.html"
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _table_row(summary: Summary, row: Row, theirs: Sequence[str]) -> str:
    name, ours, told = row
    return _row(name, [_shown(ours[method]) for method in summary.methods] + [_whole(told.get(m)) for m in theirs])


def _sample_row(score: Score, is_checked: bool) -> str:
    said, place = score.answer or score.error or score.reason, trace_of(score)
    cells = [score.method, score.verdict, said, ", ".join(map(str, score.targets))]
    if is_checked:
        cells.append("" if score.faithful is None else f"{score.faithful:.2f}")
    address = html.escape(urllib.parse.quote(str(place)))
    return _row(score.id, cells, "" if place is None else f'<a href="{address}">trace</a>')


def _row(name: str, cells: Sequence[str], *marked_up: str) -> str:
    filled = "".join(f"<td>{cell}</td>" for cell in (*map(html.escape, cells), *marked_up))
    return f"<tr><th scope=row>{html.escape(name)}</th>{filled}</tr>"


def draw(summary: Summary, directory: Path) -> list[str]:
    """Draw charts as PNG: accuracy by task, and accuracy against time and cost. Needs matplotlib."""
    try:
        import matplotlib  # optional
    except ImportError:
        raise InputError("charts need matplotlib: pip install 'chainofcode[report]'") from None
    matplotlib.use("Agg")
    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a name is no formula
        try:
            _draw_tasks(summary, directory / "tasks.png")
            _draw_costs(summary, directory / "cost.png")
        except (ValueError, OverflowError) as error:  # numbers that no axis has room for
            raise InputError(f"no charts: {error}") from None
    return ["tasks.png", "cost.png"]


def _draw_tasks(summary: Summary, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(min(16, max(8, 0.5 * len(summary.tasks) * len(summary.methods))), 6))
    width = 0.8 / len(summary.methods)
    for place, method in enumerate(summary.methods):
        cells = [summary.cells.get((task, method)) for task in summary.tasks]
        at = [x + (place - (len(summary.methods) - 1) / 2) * width for x in range(len(summary.tasks))]
        heights = [math.nan if cell is None else cell.accuracy for cell in cells]
        errors = [0 if cell is None else cell.error for cell in cells]
        axes.bar(at, heights, width, yerr=errors, label=_label(method), error_kw={"linewidth": 0.7})
    names = [_label(task.replace("_", " ")) for task in summary.tasks]
    axes.set_xticks(range(len(summary.tasks)), names, rotation=60, ha="right")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(0, 105)
    axes.margins(x=0.01)
    axes.legend(ncols=len(summary.methods), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    _save(figure, path)


def _draw_costs(summary: Summary, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes_pair = plt.subplots(1, 2, figsize=(9, 4))
    for axes, label, value in zip(axes_pair, ("seconds a sample", "tokens a sample"), (_seconds, _tokens), strict=True):
        for method in summary.methods:
            scores = [score for score in summary.scores if score.method == method]
            cell, at = Cell.of(scores), value(scores)
            axes.errorbar(at, cell.accuracy, yerr=cell.error, fmt="o")
            axes.annotate(_label(method), (at, cell.accuracy), xytext=(5, 5), textcoords="offset points")
        axes.set_xlabel(label)
        axes.set_ylabel("accuracy, %")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)
    plt.close(figure)


def _label(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"


def _seconds(scores: Sequence[Score]) -> float:
    return sum(score.seconds for score in scores) / len(scores)


def _tokens(scores: Sequence[Score]) -> float:
    return sum(score.prompt_tokens + score.completion_tokens for score in scores) / len(scores)
