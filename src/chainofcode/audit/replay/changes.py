"""What if: other values for calls, single steps and inputs of a recorded run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...emulator.table import normal_text
from ...errors import InputError
from ...render import cut
from ...trace import Step, Trace
from ...values.codec import brief
from ...values.literals import read_literal

_STEP = re.compile(r"step:(\d{1,9})=(.*)", re.S)
_MAX_MATCHED = 5000
_MAX_SHOWN = 100  # characters


@dataclass(frozen=True)
class Changes:
    """Values in place of the recorded ones: for a call wherever it is made, for one step alone, for an input."""

    calls: Mapping[str, Any] = field(default_factory=dict)  # by the call's text, or a statement's
    steps: Mapping[int, Any] = field(default_factory=dict)  # by the step's number
    inputs: Mapping[str, Any] = field(default_factory=dict)  # by name; `question` is one

    @classmethod
    def parse(cls, texts: Iterable[str], trace: Trace) -> Changes:
        """Parse `is_fruit("tomato")=False`, `step:17=False` and `NAME=VALUE`; values are Python literals or JSON."""
        calls: dict[str, Any] = {}
        steps: dict[int, Any] = {}
        inputs: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if by_number := _STEP.fullmatch(text):
                steps[int(by_number[1])] = read_value(by_number[2])
            elif equals and name.strip().isidentifier():
                inputs[_input(name.strip(), trace)] = new = read_value(value)
                if name.strip() == "question" and "question" not in trace.inputs and not isinstance(new, str):
                    raise InputError(f"the question is text: put {value.strip()[:100]} in quotes")
            else:
                call, changed = call_and_value(text, "a change must be CALL=VALUE, step:NUMBER=VALUE or NAME=VALUE")
                calls[call] = changed
        return cls(calls, steps, inputs)

    def described(self, steps: Iterable[Step]) -> list[str]:
        """Return each change in short, for the header of the new trace."""
        calls = {step.number: step.call or "" for step in steps}
        texts = [f"{cut(call, _MAX_SHOWN)} = {brief(value, _MAX_SHOWN)}" for call, value in self.calls.items()]
        texts += [
            f"step {number}, {cut(calls.get(number, ''), _MAX_SHOWN)} = {brief(value, _MAX_SHOWN)}"
            for number, value in self.steps.items()
        ]
        return texts + [f"{name} = {brief(value, _MAX_SHOWN)}" for name, value in self.inputs.items()]

    def check_steps(self, steps: Iterable[Step]) -> None:
        """Raise InputError for a step that does not exist, or that Python ran."""
        known = {step.number: step for step in steps}
        for number in self.steps:
            if number not in known:
                has = f"steps 1 to {max(known)}" if known else "no steps"
                raise InputError(f"there is no step {number}: the last program of the trace has {has}")
            if known[number].call is None:
                raise InputError(f"step {number} was run by Python: only values of the LM and of tools can be set")

    def check_calls(self, used: set[str], known: Iterable[str]) -> None:
        """Raise InputError for a call that was made neither in the recorded run nor now."""
        recorded = dict.fromkeys(map(normal_text, known))
        for text in self.calls:
            normal = normal_text(text)
            if normal in used or normal in recorded:
                continue
            candidates = [call for call in list(recorded)[:_MAX_MATCHED] if len(call) < 500]
            near = difflib.get_close_matches(normal[:500], candidates, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"the trace has no call {cut(text, 300)}, and the changed run does not make it{hint}")


def call_and_value(text: str, form: str = "a value must be CALL=VALUE") -> tuple[str, Any]:
    """Split `is_fruit("fig")=True` into the call and its value, at the last `=` with a literal to its right.

    The search may take quadratic time: limit the length of untrusted text.
    """
    place = text.rfind("=")
    while place > 0:
        try:
            value = read_literal(text[place + 1 :].strip())
        except ValueError:
            place = text.rfind("=", 0, place)
            continue
        return text[:place].strip(), value
    raise InputError(f"{form}, with a Python literal or JSON (text in quotes), not {text[:300]!r}")


def read_value(text: str) -> Any:
    """Return a value that a user typed."""
    try:
        return read_literal(text.strip())
    except ValueError:
        problem = (
            f"{text.strip()[:300]} is neither a Python literal nor JSON"
            if text.strip()
            else "a value must be a Python literal or JSON"
        )
        raise InputError(f"{problem}; text needs quotes") from None


def _input(name: str, trace: Trace) -> str:
    known = [*trace.inputs, *(["question"] if trace.question is not None else [])]
    if name in known:
        return name
    if trace.program is not None and re.search(rf"(?<!\w){name}\s*=(?!=)", trace.program.source):
        raise InputError(f"{name} is not an input: the program sets it; change the program with --edit")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; it has {', '.join(known)}" if known else ""
    if near:
        hint = f"; did you mean {near[0]}?"
    raise InputError(f"the trace has no input {name!r}{hint}")


__all__ = ["Changes", "call_and_value", "read_value"]
