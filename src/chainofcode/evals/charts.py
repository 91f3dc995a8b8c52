"""Charts as SVG: bars by group, points with labels, calibration. Needs no package."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..render import plain

_COLOURS = ("#3b6fb6", "#d9772b", "#3f8f4f", "#b5403a", "#7a5aa6", "#8a6d3b", "#c2609a", "#5f6b76", "#2f9aa0")
_LINE = 15  # pixels between lines of text
_CHARACTER = 6.6  # pixels, approximately
_MAX_LABEL = 40
_WIDTH = 860.0
_BAR, _GAP = 7, 12  # pixels of a bar, and between groups of them
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}line,path{stroke:#333}.grid{stroke:#8886;stroke-width:.5}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}line,path{stroke:#ddd}}"
)


class Point(NamedTuple):
    """A labelled point with the standard error of its height."""

    label: str
    x: float
    y: float
    error: float


class _Frame:
    """The axes of a chart: turns values into pixels, and draws grid and labels."""

    def __init__(self, width: float, height: float, margin: tuple[float, float, float, float]) -> None:
        self.width, self.height = width, height
        self.top, self.right, self.bottom, self.left = margin
        self.parts: list[str] = []

    def x(self, share: float) -> float:
        return self.left + share * (self.width - self.left - self.right)

    def y(self, share: float) -> float:
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def line(self, start: tuple[float, float], end: tuple[float, float], more: str = "") -> None:
        (x1, y1), (x2, y2) = start, end
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{more}/>')

    def text(self, x: float, y: float, text: str, more: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(short(plain(text)))}</text>')

    def axes(self, x_label: str, y_label: str) -> None:
        """Draw the vertical axis from 0 to 100 per cent and the labels of both axes."""
        for per_cent in range(0, 101, 20):
            height = self.y(per_cent / 100)
            self.line((self.left, height), (self.width - self.right, height), ' class="grid"')
            self.text(self.left - 6, height + 4, str(per_cent), ' text-anchor="end"')
        middle = self.y(0.5)
        self.text(14, middle, y_label, f' text-anchor="middle" transform="rotate(-90 14 {middle:.1f})"')
        self.text(self.x(0.5), self.height - 6, x_label, ' text-anchor="middle"')

    def error_bar(self, x: float, y: float, error: float) -> None:
        """Draw one standard error up and down, within the chart."""
        low, high = (self.y(min(max(end, 0.0), 100.0) / 100) for end in (y - error, y + error))
        self.line((x, low), (x, high), ' stroke-width="1"')

    def svg(self) -> str:
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>', *self.parts, "</svg>\n"]
        )


def short(name: str) -> str:
    return name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"


# --- bars ---------------------------------------------------------------------------------------------------------


def bars(names: Sequence[str], values: Mapping[str, Sequence[tuple[float, float] | None]], x_label: str) -> str:
    """Draw bars with standard errors from left to right, one colour per series, and a gap for a missing value."""
    series, longest = len(values), max(len(short(name)) for name in names)
    legend = list(_legend_places(list(values), _WIDTH))
    top, left = 24 + _LINE * (1 + max(row for _, row in legend)), 20 + longest * _CHARACTER
    slot = max(_LINE, series * _BAR + _GAP)
    chart = _Frame(_WIDTH, top + len(names) * slot + 40, (top, 20, 40, left))
    for per_cent in range(0, 101, 20):
        x = chart.x(per_cent / 100)
        chart.line((x, chart.y(0)), (x, chart.y(1)), ' class="grid"')
        chart.text(x, chart.y(0) + 16, str(per_cent), ' text-anchor="middle"')
    chart.text(chart.x(0.5), chart.height - 6, x_label, ' text-anchor="middle"')
    for index, name in enumerate(names):
        chart.text(left - 8, top + slot * (index + 0.5) + 4, name, ' text-anchor="end"')
    for place, (cells, colour) in enumerate(zip(values.values(), _colours(series), strict=True)):
        for index, cell in enumerate(cells):
            if cell is not None:
                _bar(chart, top + slot * index + (slot - series * _BAR) / 2 + place * _BAR, cell, colour)
    for (x, row), name, colour in zip(legend, values, _colours(series), strict=True):
        y = 16 + row * _LINE
        chart.parts.append(f'<rect x="{x:.1f}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        chart.text(x + 14, y, name)
    return chart.svg()


def _bar(chart: _Frame, top: float, cell: tuple[float, float], colour: str) -> None:
    value, error = cell
    width = chart.x(value / 100) - chart.x(0)
    chart.parts.append(
        f'<rect x="{chart.x(0):.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR - 1}" fill="{colour}"/>'
    )
    low, high = (chart.x(min(max(end, 0.0), 100.0) / 100) for end in (value - error, value + error))
    chart.line((low, top + (_BAR - 1) / 2), (high, top + (_BAR - 1) / 2), ' stroke-width="1"')


def _legend_places(names: Sequence[str], width: float) -> Iterator[tuple[float, int]]:
    x, row = 50.0, 0
    for name in names:
        needed = 30 + len(short(name)) * _CHARACTER
        if x > 50 and x + needed > width:
            x, row = 50.0, row + 1
        yield x, row
        x += needed


def _colours(count: int) -> list[str]:
    return [_COLOURS[place % len(_COLOURS)] for place in range(count)]


# --- points -------------------------------------------------------------------------------------------------------


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Draw labelled points with standard errors; the scale is logarithmic if the values differ tenfold."""
    known = [point for point in points if math.isfinite(point.x) and point.x >= 0]
    numbers = [point.x for point in known if point.x] or [1.0]
    is_log = max(numbers) >= 10 * min(numbers)
    ticks = _log_ticks(min(numbers), max(numbers)) if is_log else _ticks(max(numbers))
    chart = _Frame(640, 400, (20, 130, 44, 50))
    chart.axes(f"{x_label} (logarithmic)" if is_log else x_label, y_label)
    share = _scale(ticks[0], ticks[-1], is_log=is_log)
    for tick in ticks:
        x = chart.x(share(tick))
        chart.line((x, chart.y(0)), (x, chart.y(1)), ' class="grid"')
        chart.text(x, chart.y(0) + 16, f"{tick:,g}", ' text-anchor="middle"')
    placed = [(chart.x(share(point.x)), chart.y(point.y / 100)) for point in known]
    labels = _label_places(placed, [short(plain(point.label)) for point in known], chart.width)
    for point, (x, y), (left, height), colour in zip(known, placed, labels, _colours(len(known)), strict=True):
        chart.error_bar(x, point.y, point.error)
        chart.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        if abs(height - y) > 1:
            chart.line((x, y), (left if left > x else x - 8, height), ' class="grid"')
        chart.text(left, height + 4, point.label)
    return chart.svg()


def _scale(low: float, high: float, *, is_log: bool) -> Callable[[float], float]:
    if is_log:
        return lambda value: math.log(max(value, low) / low) / math.log(high / low)
    return lambda value: (value - low) / (high - low)


def _ticks(high: float) -> list[float]:
    """Return round numbers from 0 to at least `high`."""
    unit = 10.0 ** math.floor(math.log10(high))
    step = next(unit * part for part in (0.2, 0.5, 1, 2) if unit * part * 5 >= high)
    return [step * n for n in range(math.ceil(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return ticks 1, 2, 5, 10, … around a range; for a wide range, powers of ten."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 4 else (1,)
    ticks = [part * 10.0**power for power in range(first, last + 1) for part in parts]
    below, above = max(t for t in ticks if t <= low), min(t for t in ticks if t >= high)
    return [tick for tick in ticks if below <= tick <= above]


def _label_places(
    points: Sequence[tuple[float, float]], labels: Sequence[str], width: float
) -> list[tuple[float, float]]:
    """Return where labels begin: right or left of their points, or moved up or down so that nothing overlaps."""
    taken = [(x - 6, x + 6, y) for x, y in points]  # left, right, height
    places = []
    for (x, y), label in zip(points, labels, strict=True):
        length = len(label) * _CHARACTER
        tries = itertools.product(range(2 * len(points) + 1), (1, -1), (x + 9, x - 9 - length))
        for lines, direction, left in tries:
            height = y + lines * direction * _LINE
            is_inside = left >= 0 and left + length <= width
            if is_inside and not any(
                a < left + length and left < b and abs(h - height) < _LINE - 1 for a, b, h in taken
            ):
                break
        taken.append((left, left + length, height))
        places.append((left, height))
    return places


# --- calibration --------------------------------------------------------------------------------------------------


def calibration(series: Mapping[str, Sequence[Point]]) -> str:
    """Draw accuracy against stated confidence (both in per cent); perfect calibration is on the diagonal."""
    chart = _Frame(480, 440, (20 + _LINE * len(series), 20, 44, 50))
    chart.axes("confidence, %", "right, %")
    for per_cent in range(0, 101, 20):
        x = chart.x(per_cent / 100)
        chart.line((x, chart.y(0)), (x, chart.y(1)), ' class="grid"')
        chart.text(x, chart.y(0) + 16, str(per_cent), ' text-anchor="middle"')
    chart.line((chart.x(0), chart.y(0)), (chart.x(1), chart.y(1)), ' stroke-dasharray="4 4"')
    for row, ((name, points), colour) in enumerate(zip(series.items(), _colours(len(series)), strict=True)):
        placed = [(chart.x(point.x / 100), chart.y(point.y / 100)) for point in points]
        path = " ".join(f"{'L' if n else 'M'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(placed))
        chart.parts.append(f'<path d="{path}" fill="none" style="stroke:{colour}" stroke-width="1.5"/>')
        for point, (x, y) in zip(points, placed, strict=True):
            chart.error_bar(x, point.y, point.error)
            title = f"<title>{html.escape(point.label)}</title>"
            chart.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">{title}</circle>')
        y = 16 + row * _LINE
        chart.parts.append(f'<circle cx="56" cy="{y - 4}" r="4" fill="{colour}"/>')
        chart.text(66, y, name)
    return chart.svg()
