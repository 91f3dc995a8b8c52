"""The progress of a download: bytes, speed and time left."""

from __future__ import annotations

import pytest

from chainofcode.cli.progress import ProgressBar, duration_text

MB = 1_000_000


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_speed_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar = ProgressBar("weights", clock)
    for clock.seconds, done in ((0.0, 0), (5.0, 100), (10.0, 200), (15.0, 300), (20.0, 500), (25.0, 1000)):
        bar(done * MB, 1000 * MB, "the hub")
    assert shown(capsys) == [
        "weights: 0 of 1,000 MB from the hub",
        "weights: 200 of 1,000 MB, 20.0 MB/s, 40 s left, from the hub",
        "weights: 500 of 1,000 MB, 30.0 MB/s, 17 s left, from the hub",
        "weights: 1,000 of 1,000 MB from the hub",
    ]


def test_speed_counts_no_bytes_of_an_earlier_download_or_source(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar = ProgressBar("weights", clock)
    for clock.seconds, done, source in (
        (0, 900, "the hub"),
        (1, 910, "the hub"),
        (2, 0, "the index"),
        (12, 20, "the index"),
    ):
        bar(done * MB, 1000 * MB, source)
    assert shown(capsys) == [
        "weights: 900 of 1,000 MB from the hub",
        "weights: 20 of 1,000 MB, 2.0 MB/s, 8 min 10 s left, from the index",
    ]


def test_speed_of_a_download_that_arrives_in_large_parts(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar = ProgressBar("weights", clock)
    for clock.seconds, done in ((0, 0), (50, 100), (100, 200), (200, 300)):
        bar(done * MB, 1000 * MB, "the index")
    assert shown(capsys) == [
        "weights: 0 of 1,000 MB from the index",
        "weights: 100 of 1,000 MB, 2.0 MB/s, 7 min 30 s left, from the index",
        "weights: 200 of 1,000 MB, 2.0 MB/s, 6 min 40 s left, from the index",
        "weights: 300 of 1,000 MB, 1.0 MB/s, 11 min 40 s left, from the index",
    ]


def test_stalled_download_has_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar = ProgressBar("weights", clock)
    for clock.seconds in (0, 10, 20):
        bar(5 * MB, 1000 * MB, "the hub")
    assert shown(capsys) == ["weights: 5 of 1,000 MB from the hub"] * 3


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_speed_and_time_left_fit_into_80_columns() -> None:
    clock = Clock()
    bar = ProgressBar("qwen2.5-coder-1.5b", clock)
    bar.text(0, 1117 * MB, "the Hugging Face hub")
    clock.seconds = 10
    line = bar.text(15 * MB, 1117 * MB, "the Hugging Face hub")
    assert " 15 of 1,117 MB, 1.5 MB/s, 12 min 15 s left" in line[:79]


def test_live_display_shows_the_progress_of_a_download() -> None:
    clock = Clock()
    bar = ProgressBar("weights", clock)
    bar.text(0, 100 * MB, "the hub")
    clock.seconds = 2.0
    assert bar.text(50 * MB, 100 * MB, "the hub") == (
        "weights █████░░░░░ 50 of 100 MB, 25.0 MB/s, 2 s left, from the hub"
    )
