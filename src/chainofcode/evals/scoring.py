"""Scoring: whether an answer is the target, and the answer that a recorded reply states."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

from ..methods.multiple_choice import named, options_in
from ..values.codec import ValueFormatError, decode
from .samples import Sample, Verdict

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_OPTION = re.compile(r"\(([A-Z])\)")
_MARK = re.compile(r"answer is:?\s*", re.I)
_BBEH_MARK = re.compile(r"The (?:final )?answer is(?:: | |:)")


def accuracy(right: int, n: int) -> tuple[float, float]:
    """Return the share of right answers and its standard error, in per cent."""
    share = right / max(n, 1)
    return 100 * share, 100 * math.sqrt(share * (1 - share) / max(n, 1))


def stated(reply: str, target: str) -> str | None:
    """Return the answer that a recorded reply states, by BIG-Bench Hard's own scoring rules; None without one.

    The answer is the text after the last "answer is", else the only line. If the target is an option, the answer is the
    option at its beginning (`(A) the cook`, but not `not (A)`). A text with several options is not an answer.
    """
    text = reply.strip()
    marks = list(_MARK.finditer(text))
    if marks:
        text = text[marks[-1].end() :].strip()
    elif "\n" in text or not text:
        return None
    text = text.split("\n", 1)[0].strip().removesuffix(".").strip()
    named = {*_OPTION.findall(text)} if _OPTION.fullmatch(target.strip()) else set()
    if len(named) > 1:
        return None
    option = _OPTION.match(text) if named else None
    return option.group(0) if option is not None else text or None


def judge(answer: Any, sample: Sample) -> Verdict:
    """Return the verdict on an answer, by the sample's kind. Without targets, any answer is right."""
    if sample.kind == "choice" and len(named(answer, options_in(sample.question or ""))) > 1:
        return "no answer"
    is_right = not sample.targets or any(is_target(answer, target, sample) for target in sample.targets)
    return "right" if is_right else "wrong"


def is_target(answer: Any, target: Any, sample: Sample) -> bool:
    """Whether an answer is the target of a sample, by the sample's kind."""
    try:
        if sample.kind == "choice":
            return named(answer, options_in(sample.question or "")) == {str(target).strip()}
        if sample.kind == "words":
            return _words(answer) == _words(target)
        if sample.kind == "bbeh":
            return _is_bbeh(answer, str(target))
        return is_same(answer, target)
    except (ValueError, RecursionError):  # an int with too many digits to print, or lists nested too deeply
        return False


def _words(value: Any) -> list[str]:
    """Return the words of a list or a string, in order."""
    if isinstance(value, (list, tuple)):
        return [str(word).strip().casefold() for word in value]
    return str(value).replace(",", " ").strip().casefold().split()


def _is_bbeh(answer: Any, target: str) -> bool:
    """Whether an answer is a target of BIG-Bench Extra Hard, by the rules of its authors.

    Letters may have parentheses, lists brackets and spaces, numbers a fraction of zero; quotes and a final question
    mark do not count. Any other difference is wrong; so is every answer to the few targets that end with a full stop.
    """
    text, wanted = _plain(_statement(answer)), target.strip().lower().replace(", ", ",")
    if len(text) == 3 and text[0] + text[2] == "()" and text != wanted:
        return text[1] == wanted
    if len(wanted) == 3 and wanted[0] + wanted[2] == "()" and text != wanted:
        return text == wanted[1]
    with contextlib.suppress(ValueError):
        if float(text) == float(wanted):
            return True
    is_bracketed = text == f"[{wanted}]" or wanted == f"[{text}]"
    return is_bracketed or text == f"{wanted}?" or text.replace("'", "") == wanted.replace("'", "")


def _statement(answer: Any) -> str:
    """Return an answer as the text that a model would state: a program may answer with a list, or with True."""
    match answer:
        case bool():
            return "yes" if answer else "no"
        case list() | tuple():
            return ", ".join(map(_statement, answer))
    return str(answer)


def _plain(text: str) -> str:
    """Return what a string states as the answer, in lower case, without markup: its first line, without a full stop."""
    text = _BBEH_MARK.split(text.strip())[-1].strip().removesuffix(".")
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text[1:-1]
    for command in ("boxed{", "text{", "texttt{"):
        if command in text and text.endswith("}"):
            text = text[:-1].split(command)[1]
    return text.lower().replace(", ", ",").replace("**", "").split("\n")[0].removesuffix(".")


def is_same(answer: Any, target: Any) -> bool:
    """Whether an answer is the target: numbers by value, text without case, outer quotes and dots, yes as True."""
    if isinstance(target, dict):
        with contextlib.suppress(ValueFormatError):  # a dict without a tag is itself the value
            target = decode(target)
    match answer, target:
        case (bool(), _) | (_, bool()):
            return _truth(answer) is not None and _truth(answer) == _truth(target)
        case ((list() | tuple()), (list() | tuple())):
            return len(answer) == len(target) and all(map(is_same, answer, target))
        case dict(), dict():
            return answer.keys() == target.keys() and all(is_same(answer[name], target[name]) for name in target)
    return _is_same_scalar(answer, target)


def _is_same_scalar(answer: Any, target: Any) -> bool:
    number, wanted = _number(answer), _number(target)
    if number is not None and wanted is not None:
        return _is_close(number, wanted)
    try:
        return _text(answer) == _text(target)
    except ValueError:  # an int with too many digits to print
        return False


def _is_close(number: float, wanted: float) -> bool:
    if number == wanted or (number != number and wanted != wanted):  # NaN is not equal to itself
        return True
    if isinstance(number, int) and isinstance(wanted, int):
        return False
    try:
        number, wanted = float(number), float(wanted)
    except OverflowError:
        return False
    is_finite = math.isfinite(number) and math.isfinite(wanted)
    return is_finite and abs(number - wanted) <= 1e-6 * max(1.0, abs(wanted))


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"yes": True, "true": True, "no": False, "false": False}.get(_text(value))


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    with contextlib.suppress(ValueError):
        text = str(value).strip().rstrip(".").lstrip("$")
        text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
        with contextlib.suppress(ValueError):
            return int(text)
        number = float(text)
        return None if abs(number) == math.inf and "inf" not in text.lower() else number  # too large for a float
    return None


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, set)) and len(value) == 1:
        (value,) = value
    return str(value).strip().strip(".\"'").casefold()
