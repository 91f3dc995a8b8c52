"""Documents that are tests: traces/*.md show programs, the values of their holes, and the traces that users see.

After an intended change, `python tests/test_traces.py` rewrites the traces; review the diff.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chainofcode import Trace, run
from chainofcode.emulator import Table
from chainofcode.errors import TraceError
from chainofcode.render import Page
from chainofcode.trace import Answer, Call

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


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    events: list[Any] = [
        Call("ask \udce9", "reply \ud800"),
        Answer("answered", "x", "text \udfff", votes={"\udc80": 1}),
    ]
    Trace("question \udce9", {"n": "\ud800"}, {}, events).write(tmp_path / "t.jsonl")
    again = Trace.read(tmp_path / "t.jsonl")
    assert (again.question, again.inputs) == ("question \udce9", {"n": "\ud800"})  # tagged, so unchanged
    assert (again.calls[0].prompt, again.calls[0].reply) == ("ask \\udce9", "reply \\ud800")
    assert again.answer is not None
    assert (again.answer.text, again.answer.votes) == ("text \\udfff", {"\\udc80": 1})
    assert list(Page().trace(again))
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Trace(settings={"odd": object()}).write(tmp_path / "t.jsonl")
    assert not list(tmp_path.iterdir())
    for path in (tmp_path, tmp_path / "none" / "t.jsonl"):
        with pytest.raises(TraceError, match="cannot write"):
            Trace().write(path)


@pytest.mark.parametrize("depth", [200, 5000])
def test_a_header_nested_too_deep_is_a_clear_error(depth: int) -> None:
    line = b'{"event":"trace","version":1,"python":"3.12.1","inputs":{"x":%s}}' % (b"[" * depth + b"]" * depth)
    with pytest.raises(TraceError, match=r"this is not a trace; .* \(line 1: "):
        Trace.parse([line])


HEADER = b'{"event":"trace","version":1,"python":"3.12.1"}'
CALL = b'{"event":"call","prompt":"","reply":""}'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([HEADER.replace(b"1,", b"2,"), CALL], r"unsupported trace version 2 \(expected 1\)"),
        ([CALL], "line 1: .*a trace starts with one header line"),
        ([HEADER, CALL, HEADER], "line 3: .*a trace starts with one header line"),
        ([], "the file is empty"),
    ],
    ids=["another version", "no header", "two headers", "nothing"],
)
def test_a_trace_has_one_header_of_this_version(lines: list[bytes], expected: str) -> None:
    assert len(Trace.parse([HEADER, CALL]).calls) == 1
    with pytest.raises(TraceError, match=expected):
        Trace.parse(lines)


def rewrite() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")

        def replace(case: re.Match[str]) -> str:
            whole = case.group(0)
            start = case.start("trace") - case.start(0)
            return whole[:start] + rendered(case["program"], case["values"] or "") + "```"

        page.write_text(CASE.sub(replace, text), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
