"""Checks whether an answer agrees with the rest of its trace: with what the last step shows, and with its own type.

The guest reports both the steps and the answer. A program that replaces a part of the guest can forge either of them;
one that forges only the answer is detected here.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from ...errors import ChainOfCodeError, InputError
from ...languages.python.compiler.syntax import FUNCTIONS
from ...languages.python.guest.run.watch import MAX_DELTA_CHARS, MAX_STEPS, MAX_VISITS
from ...methods.answers import AnswerType, answer_type_of, fitted
from ...program import Program
from ...reasons import Reason
from ...sandbox import Sandbox
from ...trace import Answer, Step, Trace, as_json
from ...values.codec import Opaque, ValueFormatError, brief, decode
from ...values.literals import read_literal
from ..provenance.followed import Provenance
from ..replay.rerun import areplay
from .mutations import nodes_of

_EXTERNAL_TYPES = ("sql",)  # made from a database, which the trace does not have
_NO_LITERAL = object()
_MAX_LINE_CHARS = 100_000  # the guest keeps that much of an unfinished line
_MAX_SHOWN = 60


async def mismatch_with_last_step(found: Provenance, sandbox: Sandbox) -> str:
    """Return what the last step shows, if the answer differs from it; otherwise empty.

    No step shows the value of the last expression: the program is run again with that value assigned to `answer`.
    """
    shown, program = _mismatch_with_last_step(found.trace), found.run.program
    if shown or found.trace.answer is None or found.trace.answer.source != "expression" or program.language != "python":
        return shown
    match nodes_of(program.source)[:1]:
        case [ast.Module(body=[*_, ast.Expr(value=value) as last]) as tree]:
            tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("answer", ast.Store())], value), last)
            source = ast.unparse(ast.fix_missing_locations(tree))
            with contextlib.suppress(ChainOfCodeError):
                return _mismatch_with_last_step((await areplay(found.trace, program=source, sandbox=sandbox)).trace)
    return ""


def _mismatch_with_last_step(trace: Trace) -> str:
    """Return what the last step that sets or prints the answer shows, if that is not the answer.

    Also empty if the steps do not show it: later ones are missing because there were too many, or the value is not a
    literal.
    """
    answer, steps = trace.answer, trace.steps
    if answer is None or not answer.is_answered or answer.source == "reply":
        return ""
    if answer.source == "output":
        lines = [line for line in "".join(step.output for step in steps).split("\n") if line.strip()]
        last = lines[-1] if lines else "nothing"
        is_same = last == answer.value and _is_text_of(answer.text, last) is not False
        return "" if is_same or len(last) > _MAX_LINE_CHARS else f"the program prints {last[:_MAX_SHOWN]}"
    setting = [place for place, step in enumerate(steps) if "answer" in step.delta]
    if not setting or _may_be_set_later(steps, setting[-1], trace.program):
        return ""
    last = steps[setting[-1]].delta["answer"] or ""
    is_same = _shows(last, answer) if answer.source == "variable" else _literal(last) is _NO_LITERAL
    return "" if is_same else f"line {steps[setting[-1]].line} sets it to {last[:_MAX_SHOWN]}"


def _may_be_set_later(steps: Sequence[Step], place: int, program: Program | None) -> bool:
    """Whether a visit that the guest did not report may have set the answer after a step."""
    own = [step for step in steps if step.is_code]
    chars = sum(len(name) + len(text or "") for step in own for name, text in step.delta.items())
    if len(own) >= MAX_STEPS or 2 * chars >= MAX_DELTA_CHARS:  # the guest counts more than deltas
        return True
    unreported = {step.statement: step.line for step in own if step.visit >= MAX_VISITS}
    is_last = not any(step.is_code for step in steps[place + 1 :])
    if program is not None and program.language != "python":
        return bool(unreported)
    functions = [
        node for node in nodes_of(program.source if program is not None else "") if isinstance(node, FUNCTIONS)
    ]
    can_be_called = any(
        function.lineno <= line <= (function.end_lineno or 0) for function in functions for line in unreported.values()
    )
    return any(number >= steps[place].statement for number in unreported) or (can_be_called and not is_last)


def _shows(text: str, answer: Answer) -> bool:
    """Whether a delta can be the short text of an answer's value, and the answer's text its full text."""
    try:
        value = decode(answer.value)
    except ValueFormatError:
        return False
    if isinstance(value, Opaque):
        return _literal(text) is _NO_LITERAL
    shown, stated = _is_text_of(text, value), _is_text_of(answer.text, value)
    if type(value) is str and text[:1] in ("'", '"'):
        return shown is True and stated is not False
    is_known = type(value) in (int, float, bool, type(None)) and shown is True
    return shown is not False and (stated is True if is_known else stated is not False)


def _is_text_of(text: str, value: Any) -> bool | None:
    """Whether a string is the text of a value; None if it is not a literal, or abbreviated."""
    if text == brief(value):
        return True
    literal = _literal(text)
    return None if literal is _NO_LITERAL else bool(literal == value)


def _literal(text: str) -> Any:
    """Return the value of a literal of Python or of JSON."""
    try:
        return read_literal(text)
    except ValueError:
        return _NO_LITERAL


async def mismatch_with_type(answer: Answer, replayed: Answer | None) -> str:
    """Return what a typed answer should be, if it differs; otherwise empty.

    `replayed` is the answer of the replayed program; without one, the stated text is converted. Types that the trace
    does not contain (schemas, classes, queries) cannot be checked. No file that a trace names is read.
    """
    wanted = _type_of(answer)
    own = replayed if replayed is not None else _read(answer.said or answer.text)
    if wanted is None or own is None or not own.is_answered:
        return ""
    made = await fitted(msgspec.structs.replace(own, type="", said=""), wanted)
    is_same = made.text == answer.text and as_json(made.value) == as_json(answer.value)
    return "" if is_same else made.text or "invalid"


def _type_of(answer: Answer) -> AnswerType | None:
    if not answer.type or answer.type in _EXTERNAL_TYPES or answer.type.endswith(".json"):
        return None
    try:
        return answer_type_of(answer.type)
    except InputError:
        return None


def _read(text: str) -> Answer | None:
    """Return the answer that a model stated, as text."""
    value = _literal(text)
    return Answer(Reason.ANSWERED, value, text, "reply") if isinstance(value, str) else None
