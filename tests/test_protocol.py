"""The wire protocol as docs/protocol.md describes it: the tables, and the example of a guest."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from chainofcode import Limits, Program, Table, run
from chainofcode.languages import Language
from chainofcode.sandbox import Job, NoSandbox, frames
from chainofcode.sandbox.artifacts import Wrote
from chainofcode.sandbox.frames import Ended, Paused, ProgramParsed, Ran, Settled, Surveyed

PAGE = (Path(__file__).parent.parent / "docs" / "protocol.md").read_text(encoding="utf-8")


def names_in(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def fields_of(table: str) -> list[str]:
    """The names in the first column of the table with this heading."""
    rows = PAGE[PAGE.index(f"| `{table}` | meaning |") :].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in names_in(row.split(" | ")[0])]


def test_documented_guest_frames() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`.+`) \|$", PAGE, re.MULTILINE)
    described = {kind: names_in(fields) for kind, fields in rows}
    frames = (ProgramParsed, Ran, Paused, Settled, Surveyed, Wrote, Ended)
    assert described == {frame.__struct_config__.tag: list(frame.__struct_fields__) for frame in frames}


def test_documented_start_frame() -> None:
    granted = {"package_names", "package_paths", "processes"}
    assert set(fields_of("start")) == Job("answer = 1").message().keys() | granted


def test_documented_reasons_of_a_guest() -> None:
    line = next(line for line in PAGE.split("- **") if line.startswith("`ended`"))
    documented = set(re.findall(r"`((?:limit:\w+)|answered|error|halted)`", line.partition("`answer`")[0]))
    assert documented == frames._GUESTS_REASONS


@pytest.mark.parametrize("calls", [[2], [1, 1], [0]])
def test_survey_with_unknown_or_repeated_calls_is_rejected(calls: list[int]) -> None:
    reader = frames.Reader(1 << 20, 1 << 20, is_shadow=True)
    reader.feed(frames.encode({"type": "paused", "id": 1, "kind": "call", "name": "f"}))
    for surveyed in ([1], calls):
        reader.feed(frames.encode({"type": "surveyed", "calls": surveyed}))
    assert [type(reader.next()) for _ in range(2)] == [Paused, Surveyed]
    with pytest.raises(frames.FrameError, match="unknown or repeated calls"):
        reader.next()


def test_documented_example_guest_runs(tmp_path: Path) -> None:
    script = tmp_path / "guest.py"
    script.write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-1])
    lines = Language(name="lines", command=lambda python, *given: [sys.executable, str(script), *given])
    source = "a = capital_of(France)\nb = mayor_of(it)"
    values = Table([("capital_of(France)", "Paris"), ("mayor_of(it)", "Anne")])

    result = run(Program(source), values, sandbox=NoSandbox(), language=lines)
    assert (result.reason, result.answer) == ("answered", "Anne")
    steps = [(step.by, step.line, step.call, step.delta) for step in result.trace.steps]
    assert steps == [
        ("lm", 1, "capital_of(France)", {}),
        ("python", 1, None, {"a": "'Paris'"}),
        ("lm", 2, "mayor_of(it)", {}),
        ("python", 2, None, {"b": "'Anne'"}),
    ]


def test_host_limits_the_memory_of_guests_that_set_no_limit(tmp_path: Path) -> None:
    script = tmp_path / "guest.py"
    script.write_text("import time\nheld = b'x' * 200_000_000\ntime.sleep(30)\n")
    greedy = Language(name="greedy", command=lambda python, *given: [sys.executable, str(script), *given])
    limits = Limits(memory_bytes=100_000_000, run_seconds=20)
    result = run(Program("x"), sandbox=NoSandbox(), language=greedy, limits=limits)
    assert result.reason == "limit:memory", result
    assert result.error is not None and "over 100,000,000 bytes of memory" in result.error.message
