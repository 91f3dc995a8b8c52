"""What an evaluation says: accuracies beside the paper's, charts, and whether two runs differ."""

from __future__ import annotations

import html
import math
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ..errors import InputError
from .results import replacing, trace_of
from .samples import Score
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
        share = sum(score.verdict == "right" for score in scores) / max(len(scores), 1)
        return cls(
            len(scores),
            100 * share,
            100 * math.sqrt(share * (1 - share) / max(len(scores), 1)),
            sum(score.verdict == "no answer" and score.extracted for score in scores),
            sum(not score.extracted for score in scores),
        )


def faithfulness(scores: Iterable[Score]) -> float | None:
    """The mean over the answers that were checked; None where none was."""
    checked = [score.faithful for score in scores if score.faithful is not None]
    return round(sum(checked) / len(checked), 3) if checked else None


class Summary:
    """Scores by task and method; averages are over tasks, as in the paper."""

    def __init__(self, scores: Iterable[Score], planned: Mapping[str, int] | None = None) -> None:
        self.scores = list(scores)
        if not self.scores:
            raise InputError("there are no results yet")
        told, known = planned or {}, {score.method: None for score in self.scores}
        self.methods = [method for method in {**told, **known} if method in known]  # as they were asked for
        self.tasks = sorted({task_of(score.task) for score in self.scores})
        self._groups: dict[tuple[str, str], list[Score]] = {}
        for score in self.scores:
            self._groups.setdefault((task_of(score.task), score.method), []).append(score)
        self.cells = {key: Cell.of(group) for key, group in self._groups.items()}
        there, ran = Counter(s.method for s in self.scores), Counter(s.method for s in self.scores if s.was_run)
        self.progress = {m: (ran[m], max(there[m], told.get(m, 0))) for m in dict.fromkeys((*self.methods, *told))}

    @property
    def gaps(self) -> str:
        """What is missing, in words; nothing where every sample that was planned has been run."""
        gaps = [f"{m or 'programs'} {ran} of {planned}" for m, (ran, planned) in self.progress.items() if ran < planned]
        return f"incomplete, samples that were run: {', '.join(gaps)}" if gaps else ""

    def mean(self, method: str, chosen: Callable[[str], bool]) -> tuple[float, float] | None:
        """The mean accuracy over the chosen tasks, and its standard error."""
        cells = [self.cells[task, method] for task in self.tasks if chosen(task) and (task, method) in self.cells]
        if not cells:
            return None
        error = math.sqrt(sum(cell.error**2 for cell in cells)) / len(cells)
        return sum(cell.accuracy for cell in cells) / len(cells), error

    def rows(self) -> list[tuple[str, dict[str, tuple[float, float] | None], dict[str, float]]]:
        """Name, ours by method, the paper's by method: tasks first, then averages."""
        facts = paper()
        rows = []
        for task in self.tasks:
            ours = {m: self.cells.get((task, m)) for m in self.methods}
            told = {m: (cell.accuracy, cell.error) if cell is not None else None for m, cell in ours.items()}
            theirs: dict[str, float] = (
                {"human": facts[task].human_average, **facts[task].methods} if task in facts else {}
            )
            rows.append((task or "all samples", told, theirs))
        for name, chosen in _GROUPS.items():
            known = [task for task in self.tasks if task in facts and chosen(task)]
            if len(known) > 1 or (name == "all" and len(self.tasks) > 1):
                keys = {"human": [float(facts[task].human_average) for task in known]}
                for method in facts[known[0]].methods if known else ():
                    keys[method] = [float(facts[task].methods[method]) for task in known]
                told = {m: self.mean(m, chosen) for m in self.methods}
                rows.append((f"mean, {name}", told, {m: sum(v) / len(v) for m, v in keys.items() if v}))
        return rows

    @property
    def published(self) -> list[str]:
        """What the paper has a column for; nothing where none of these tasks is in the paper."""
        known = ["human", *(method for method in self.methods if method in _PUBLISHED)]
        return known if any(theirs for _, _, theirs in self.rows()) else []

    def lines(self) -> list[str]:
        """The table as text: ours with standard errors, the paper's behind it."""
        rows = self.rows()
        width = max(len(name) for name, _, _ in rows) + 2
        theirs = self.published
        head = "".join(f"{method:>18}" for method in self.methods)
        if theirs:
            head += "  |" + "".join(f"{method:>18}" for method in theirs) + "   (paper)"
        lines = [*([f"{self.gaps}\n"] if self.gaps else []), f"{'':<{width}}{head}"]
        for name, ours, told in rows:
            cells = "".join(f"{_shown(ours[method]):>18}" for method in self.methods)
            paper_cells = "".join(f"{told[m]:>18.0f}" if m in told else f"{'':>18}" for m in theirs) if told else ""
            lines.append(f"{name:<{width}}{cells}" + (f"  |{paper_cells}" if paper_cells else ""))
        for method in self.methods:
            cell = Cell.of([score for score in self.scores if score.method == method])
            faithful = self.faithful(method)
            lines.append(
                f"{method}: {cell.n} samples, {cell.no_answer} without an answer, {cell.not_extracted} with a reply in "
                "which none was found" + (f"; faithfulness {faithful:.2f}" if faithful is not None else "")
            )
        return lines

    def faithful(self, method: str) -> float | None:
        return faithfulness(score for score in self.scores if score.method == method)


_PUBLISHED = {method for facts in paper().values() for method in facts.methods}
_GROUPS: dict[str, Callable[[str], bool]] = {
    "all": lambda task: True,
    "NLP": lambda task: task in paper() and paper()[task].kind == "NLP",
    "algorithmic": lambda task: task in paper() and paper()[task].kind == "algorithmic",
    **{
        kind: lambda task, kind=kind: task in paper() and paper()[task].execution == kind  # type: ignore[misc]
        for kind in dict.fromkeys(facts.execution for facts in paper().values())
    },
}


def _shown(cell: tuple[float, float] | None) -> str:
    return f"{cell[0]:.1f} ± {cell[1]:.1f}" if cell is not None else "–"


# --- two runs -----------------------------------------------------------------------------------------------------


class Difference(msgspec.Struct, frozen=True):
    """Two runs on the same samples: who is right where the other is not, and how likely that is by chance."""

    method: str
    n: int
    first: float
    second: float
    only_first: int
    only_second: int
    p: float


def compare(first: Iterable[Score], second: Iterable[Score]) -> list[Difference]:
    """A paired test for each method (McNemar's, exact): only samples that both runs have count."""
    by_key = [{(s.id, s.method): s for s in scores if not s.attempt} for scores in (first, second)]
    common = by_key[0].keys() & by_key[1].keys()
    if not common:
        raise InputError("the two runs have no sample and method in common")
    told = []
    for method in sorted({method for _, method in common}):
        both = [(by_key[0][key], by_key[1][key]) for key in common if key[1] == method]
        for one, other in both:
            if one.sample and other.sample and one.sample != other.sample:
                raise InputError(f"{one.id} is not the same sample in the two runs")
        pairs = [(one.verdict == "right", other.verdict == "right") for one, other in both]
        only = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
        shares = [100 * sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1)]
        told.append(Difference(method, len(pairs), shares[0], shares[1], *only, _by_chance(*only)))
    return told


def _by_chance(one: int, other: int) -> float:
    """The two-sided probability that a fair coin falls at least as unevenly."""
    n, ways, tail = one + other, 1, 0  # whole numbers, of any size
    for k in range(min(one, other) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return float(min(1.0, 2 * tail / 2**n))


# --- a page and pictures ------------------------------------------------------------------------------------------


def write_page(summary: Summary, directory: Path, pictures: Sequence[str]) -> Path:
    """One HTML page with the table, the charts and a link to every trace; everything the model wrote is text."""
    theirs, is_checked = summary.published, any(score.faithful is not None for score in summary.scores)
    head = "".join(f"<th>{html.escape(method)}</th>" for method in summary.methods)
    head += "".join(f"<th>{html.escape(method)}, paper</th>" for method in theirs)
    body = []
    for name, ours, told in summary.rows():
        cells = "".join(f"<td>{_shown(ours[method])}</td>" for method in summary.methods)
        cells += "".join(f"<td>{told[m]:.0f}</td>" if m in told else "<td></td>" for m in theirs)
        body.append(f"<tr><th scope=row>{html.escape(name)}</th>{cells}</tr>")
    samples = []
    for score in summary.scores:
        place = trace_of(score)
        link = f'<a href="{html.escape(urllib.parse.quote(str(place)))}">trace</a>' if place is not None else ""
        wanted = ", ".join(map(str, score.targets))
        faithful = [f"{score.faithful:.2f}" if score.faithful is not None else ""] if is_checked else []
        said = score.answer or score.error or score.reason
        words = map(html.escape, (score.method, score.verdict, said, wanted, *faithful))
        cells = "".join(f"<td>{cell}</td>" for cell in (*words, link))
        samples.append(f"<tr><th scope=row>{html.escape(score.id)}</th>{cells}</tr>")
    images = "".join(f'<img src="{html.escape(name, quote=True)}" alt="chart">' for name in pictures)
    gaps = f"<p><strong>{html.escape(summary.gaps)}</strong></p>" if summary.gaps else ""
    checked = "<th>faithful</th>" if is_checked else ""
    parts = {"gaps": gaps, "head": head, "checked": checked, "images": images}
    page = _PAGE.format(**parts, body="\n".join(body), samples="\n".join(samples))
    path = directory / "report.html"
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'">
<title>Evaluation</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color-scheme: light dark; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884; }}
th[scope=row] {{ text-align: left; }} img {{ max-width: 100%; }} details {{ margin-top: 1rem; }}
</style>
<h1>Evaluation</h1>
{gaps}
<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>
{images}
<details><summary>Every sample</summary>
<table><thead><tr><th>sample</th><th>method</th><th></th><th>answer</th><th>target</th>{checked}<th></th></tr>
</thead>
<tbody>{samples}</tbody></table></details>
</html>
"""


def draw(summary: Summary, directory: Path) -> list[str]:
    """Charts as PNG: accuracy by task, and accuracy against time and cost. Needs matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("charts need matplotlib: pip install 'chainofcode[report]'") from None
    matplotlib.use("Agg")
    with matplotlib.rc_context({"text.parse_math": False}):  # names are names, whatever is in them
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
        heights = [cell.accuracy if cell is not None else math.nan for cell in cells]
        errors = [cell.error if cell is not None else 0 for cell in cells]
        axes.bar(at, heights, width, yerr=errors, label=_label(method), error_kw={"linewidth": 0.7})
    names = [_label(task.replace("_", " ")) for task in summary.tasks]
    axes.set_xticks(range(len(summary.tasks)), names, rotation=60, ha="right")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(0, 105)
    axes.margins(x=0.01)
    axes.legend(ncols=len(summary.methods), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.tight_layout()
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)
    plt.close(figure)


def _draw_costs(summary: Summary, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes_pair = plt.subplots(1, 2, figsize=(9, 4))
    for axes, label, value in zip(axes_pair, ("seconds a sample", "tokens a sample"), (_seconds, _tokens), strict=True):
        for method in summary.methods:
            scores = [score for score in summary.scores if score.method == method]
            accuracy = Cell.of(scores)
            axes.errorbar(value(scores), accuracy.accuracy, yerr=accuracy.error, fmt="o")
            axes.annotate(_label(method), (value(scores), accuracy.accuracy), xytext=(5, 5), textcoords="offset points")
        axes.set_xlabel(label)
        axes.set_ylabel("accuracy, %")
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
