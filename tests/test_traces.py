"""Documents that are tests: traces/*.md show a program, the values of its holes, and the trace a reader sees.

`python tests/test_traces.py` writes the traces anew after a change that is meant; read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chainofcode import Trace, run
from chainofcode.emulator import Table
from chainofcode.render import Page

PAGES = sorted((Path(__file__).parent / "traces").glob("*.md"))
CASE = re.compile(
    r"```python\n(?P<program>.*?)```\n(?:\n```jsonl\n(?P<values>.*?)```\n)?\n```text\n(?P<trace>.*?)```", re.DOTALL
)


def rendered(program: str, values: str) -> str:
    result = run(program, Table.parse(values.splitlines()))
    return without_times("\n".join(line.rstrip() for line in Page().trace(result.trace)) + "\n")


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+ s$", "N s", text, flags=re.MULTILINE)


def cases() -> list[tuple[str, str, str, str]]:
    return [
        (f"{page.stem}:{number}", case["program"], case["values"] or "", case["trace"])
        for page in PAGES
        for number, case in enumerate(CASE.finditer(page.read_text(encoding="utf-8")), 1)
    ]


@pytest.mark.parametrize(("name", "program", "values", "trace"), cases(), ids=[case[0] for case in cases()])
def test_page(name: str, program: str, values: str, trace: str) -> None:
    assert rendered(program, values) == trace


def test_every_fence_of_a_page_is_a_case() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(CASE.findall(text)) == text.count("```python\n") > 0, page.name


def test_a_trace_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    for _, program, values, _ in cases():
        trace = run(program, Table.parse(values.splitlines()), question="q", inputs={"n": (1, {2})}).trace
        trace.write(tmp_path / "t.jsonl")
        again = Trace.read(tmp_path / "t.jsonl")
        assert list(again.lines()) == list(trace.lines())
        assert list(Page().trace(again)) == list(Page().trace(trace))


def write_anew() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")

        def replace(case: re.Match[str]) -> str:
            whole = case.group(0)
            start = case.start("trace") - case.start(0)
            return whole[:start] + rendered(case["program"], case["values"] or "") + "```"

        page.write_text(CASE.sub(replace, text), encoding="utf-8")


if __name__ == "__main__":
    write_anew()
