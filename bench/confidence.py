"""Whether confidence predicts right answers: python bench/confidence.py DIR…

DIR is the output of `coc eval … --out DIR`, with a model that returns log probabilities (or with `--value-votes K`).
Prints accuracy above and below the median confidence, and calibration.

values    each value that the model gave for a call: its probability, and whether the answer that it led to is right. In
          the suite `emulation` the answer is the value; elsewhere a wrong value may still lead to a right answer
answers   the confidence of each answer, and whether it is right
gap       accuracy above the median minus accuracy below it, in points, with its standard error
ECE       expected calibration error: the mean distance between confidence and accuracy, in points
AUROC     how often a right answer has more confidence than a wrong one; 0.5 is chance
Writes DIR/calibration.svg (of the first DIR; elsewhere with --out). Exits 1 if the half with more confidence is not
right more often, 2 if no trace has any confidence.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chainofcode.evals.charts import Point, calibration
from chainofcode.evals.results import read_scores, trace_of
from chainofcode.evals.scoring import accuracy


class Judgement(NamedTuple):
    """A confidence between 0 and 1, and whether the value or answer is right."""

    confidence: float
    is_right: bool


def judgements(directory: Path, methods: Sequence[str]) -> Iterator[tuple[str, Judgement]]:
    """Yield the judgements of an evaluation by kind, `values` or `answers`; none for samples without an answer."""
    scores = read_scores(directory, with_tries=True)
    verdicts = {(score.id, score.method, score.attempt): score.verdict for score in scores}
    for score in scores:
        place = trace_of(score)
        if place is None or score.attempt or (methods and score.method not in methods):
            continue
        for kind, vote, confidence in confidences(directory / place):
            verdict = verdicts.get((score.id, score.method, vote), "no answer")
            if verdict != "no answer":
                yield kind, Judgement(confidence, verdict == "right")


def confidences(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield the confidences of a trace, each with its kind and the number of its vote (0: the final answer).

    Attempts that ended in a repair or a fallback gave no answer, so they are left out; of the answers, only the last
    counts.
    """
    values, votes = list[float](), 0
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        number = confidence_of(event)
        if event["event"] == "step" and event["by"] == "lm" and number is not None:
            values.append(number)
        if event["event"] != "answer":
            continue
        is_vote, is_last = event.get("then") == "vote", not event.get("then")
        votes += is_vote
        if is_vote or is_last:
            yield from (("values", votes if is_vote else 0, value) for value in values)
        if is_last and number is not None:
            yield "answers", 0, number
        values = []


def confidence_of(event: dict[str, Any]) -> float | None:
    told = event.get("confidence")
    number = told.get("probability") if isinstance(told, dict) else told
    return min(max(float(number), 0.0), 1.0) if isinstance(number, (int, float)) and math.isfinite(number) else None


def halves(found: Sequence[Judgement]) -> tuple[list[Judgement], list[Judgement]]:
    """Split at the median. Equal confidences stay together, on the side that makes the halves more equal."""
    ordered = sorted(found)
    median = ordered[len(ordered) // 2].confidence
    cuts = [[one for one in ordered if one.confidence < median], [one for one in ordered if one.confidence <= median]]
    below = min(cuts, key=lambda part: abs(2 * len(part) - len(ordered)))
    return below, ordered[len(below) :]


def share(part: Sequence[Judgement]) -> tuple[float, float]:
    return accuracy(sum(one.is_right for one in part), len(part))


def bins(found: Sequence[Judgement], count: int) -> list[Point]:
    """Group judgements by confidence, about equally many in each; equal confidences are in one group."""
    ordered = sorted(found, key=lambda one: one.confidence)
    size, groups = max(1, math.ceil(len(ordered) / count)), list[list[Judgement]]()
    for one in ordered:
        if groups and (len(groups[-1]) < size or groups[-1][-1].confidence == one.confidence):
            groups[-1].append(one)
        else:
            groups.append([one])
    points = []
    for group in groups:
        mean = 100 * sum(one.confidence for one in group) / len(group)
        points.append(Point(f"{len(group)}", mean, *share(group)))
    return points


def calibration_error(points: Iterable[Point]) -> float:
    sizes = [(int(point.label), abs(point.x - point.y)) for point in points]
    return sum(n * distance for n, distance in sizes) / sum(n for n, _ in sizes)


def discrimination(found: Sequence[Judgement]) -> float:
    """Return the area under the ROC curve: the rank-sum statistic, ties counted half."""
    right, ordered = sum(one.is_right for one in found), sorted(found, key=lambda one: one.confidence)
    if not 0 < right < len(found):
        return math.nan
    ranks, start = 0.0, 0
    while start < len(ordered):
        stop = start
        while stop < len(ordered) and ordered[stop].confidence == ordered[start].confidence:
            stop += 1
        ranks += sum(one.is_right for one in ordered[start:stop]) * (start + 1 + stop) / 2
        start = stop
    return (ranks - right * (right + 1) / 2) / (right * (len(found) - right))


def row(name: str, found: Sequence[Judgement], points: Sequence[Point]) -> tuple[str, float]:
    """Return a line of the table, and the gap."""
    below, above = halves(found)
    (low, low_error), (high, high_error) = share(below), share(above)
    gap = high - low if below and above else 0.0
    cells = [f"{len(found):>7}", f"{low:>9.1f} ± {low_error:<4.1f}", f"{high:>9.1f} ± {high_error:<4.1f}"]
    cells += [f"{gap:>+9.1f} ± {math.hypot(low_error, high_error):<4.1f}"]
    cells += [f"{calibration_error(points):>8.1f}", f"{discrimination(found):>8.2f}"]
    return f"{name:<10}" + "".join(cells), gap


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", metavar="DIR", type=Path, nargs="+")
    parser.add_argument("--methods", metavar="A,B", default="", help="only these methods")
    parser.add_argument("--bins", metavar="N", type=int, default=10, help="points of the plot (10)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="file of the plot (DIR/calibration.svg)")
    given = parser.parse_args()
    methods = [name for name in given.methods.split(",") if name]
    found: dict[str, list[Judgement]] = {"values": [], "answers": []}
    for directory in given.directories:
        for kind, judgement in judgements(directory, methods):
            found[kind].append(judgement)
    found = {kind: group for kind, group in found.items() if group}
    if not found:
        print("no trace has a confidence: the model must return log probabilities", file=sys.stderr)
        return 2
    series = {kind: bins(group, max(given.bins, 1)) for kind, group in found.items()}
    print(f"{'right, %':<10}{'n':>7}{'below median':>16}{'above median':>16}{'gap':>16}{'ECE':>8}{'AUROC':>8}")
    is_useful = True
    for kind, group in found.items():
        line, gap = row(kind, group, series[kind])
        print(line)
        is_useful = is_useful and gap > 0
    path = given.out or given.directories[0] / "calibration.svg"
    path.write_text(calibration(series), encoding="utf-8")
    print(path)
    return int(not is_useful)


if __name__ == "__main__":
    sys.exit(main())
