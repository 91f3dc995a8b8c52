"""Scoring: whether an answer is the target, and the answer that a recorded reply states."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

from ..values.codec import ValueFormatError, decode
from .samples import Sample

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_OPTION = re.compile(r"\(([A-Z])\)")
_MARK = re.compile(r"answer is:?\s*", re.I)


def accuracy(right: int, n: int) -> tuple[float, float]:
    """Return the share of right answers and its standard error, in per cent."""
    share = right / max(n, 1)
    return 100 * share, 100 * math.sqrt(share * (1 - share) / max(n, 1))


def stated(reply: str, target: str) -> str | None:
    """Return the answer that a recorded reply states, by BIG-Bench Hard's own scoring rules; None without one.

    What follows the last "answer is", else the only line there is; of a text with options, the first option.
    """
    text = reply.strip()
    marks = list(_MARK.finditer(text))
    if marks:
        text = text[marks[-1].end() :].strip()
    elif "\n" in text or not text:
        return None
    text = text.split("\n", 1)[0].strip().removesuffix(".").strip()
    option = _OPTION.search(text) if _OPTION.fullmatch(target.strip()) else None
    return (option.group(0) if option is not None else text) or None


def is_target(answer: Any, target: Any, sample: Sample) -> bool:
    """Whether an answer is the target of a sample, by the sample's kind."""
    try:
        if sample.kind == "choice":
            return _chosen(answer, sample.question or "") == str(target).strip()
        if sample.kind == "words":
            return _words(answer) == _words(target)
        return is_same(answer, target)
    except (ValueError, RecursionError):  # a number of so many digits that Python does not write it, or lists in lists
        return False


def _chosen(answer: Any, question: str) -> str:
    """Return the option that an answer names: by its letter, or word for word."""
    text = _text(answer[0] if isinstance(answer, (list, tuple)) and len(answer) == 1 else answer).upper()
    for name, words in re.findall(r"^\(([A-Z])\) (.*)$", question, re.M):
        option = words.strip().rstrip(".").upper()
        if text in (option, f"{name} {option}"):
            return f"({name})"
    # A letter by itself is an option where no word follows: `I think (B)` and `A man` begin with words.
    letter = _OPTION.search(text) or re.match(r"([A-Z])\s*(?:[^\w\s]|$)", text)
    return f"({letter.group(1)})" if letter is not None else ""


def _words(value: Any) -> list[str]:
    """Return the words of a list or a text, in order."""
    if isinstance(value, (list, tuple)):
        return [str(word).strip().casefold() for word in value]
    return str(value).replace(",", " ").strip().casefold().split()


def is_same(answer: Any, target: Any) -> bool:
    """Whether an answer is the target: numbers by value, text without regard to case and edges, yes as True."""
    if isinstance(target, dict):
        with contextlib.suppress(ValueFormatError):  # a dict that is not tagged is one
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
    except ValueError:  # a number of so many digits that Python does not write it
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
        return None if abs(number) == math.inf and "inf" not in text.lower() else number  # more than a float holds
    return None


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, set)) and len(value) == 1:
        (value,) = value
    return str(value).strip().strip(".\"'").casefold()
