"""Worked examples for tasks of BIG-Bench Hard: questions invented in each task's style, with a program and its values.

`TASK.md` has three examples of a task, each in this form:

    ## Question

    What is …?

    ## Program

    ```python
    …
    answer = …
    ```

    ## Values

    {"call": "is_fruit('fig')", "value": true}

    ## Answer

    (B)

The values are those of calls to undefined functions (without any, the section is left out). None of the questions is
taken from the benchmark; `tests/test_shots.py` runs every program and compares its answer with the stated one.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import msgspec

_SECTION = re.compile(r"^## (Question|Program|Values|Answer)\n", re.M)
_FENCE = re.compile(r"```python\n(.*?)\n```", re.S)
# Files that are one task in the paper share their examples.
_SHARED = {
    **{f"logical_deduction_{n}_objects": "logical_deduction" for n in ("three", "five", "seven")},
    **{f"tracking_shuffled_objects_{n}_objects": "tracking_shuffled_objects" for n in ("three", "five", "seven")},
}


class Shot(msgspec.Struct, frozen=True):
    """A question, the program that answers it, the values of its calls, and the answer."""

    question: str
    program: str
    answer: str
    calls: tuple[tuple[str, Any], ...] = ()


@functools.cache
def shots(task: str) -> tuple[Shot, ...]:
    """Return the examples of a task; empty if it has none."""
    path = Path(__file__).with_name(f"{_SHARED.get(task, task)}.md")
    return read_shots(path.read_text(encoding="utf-8")) if path.exists() else ()


def read_shots(text: str) -> tuple[Shot, ...]:
    parts = _SECTION.split(text)[1:]
    found: list[dict[str, str]] = []
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name == "Question":
            found.append({})
        found[-1][name] = body.strip("\n")
    return tuple(_shot(sections) for sections in found)


def _shot(sections: dict[str, str]) -> Shot:
    program = _FENCE.search(sections["Program"])
    if program is None:
        raise ValueError(f"no program for: {sections['Question'][:80]}")
    records = [json.loads(line) for line in sections.get("Values", "").splitlines() if line.strip()]
    calls = tuple((record["call"], record["value"]) for record in records)
    return Shot(sections["Question"].strip(), program.group(1), sections["Answer"].strip(), calls)
