"""The options that a question offers, and which of them an answer names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LETTERED = re.compile(r"^[ \t]*\(([A-Z])\)[ \t]+(\S.*)$", re.M)
_DASHED = re.compile(r"^[ \t]*-[ \t]+(\S.{0,60})$", re.M)
_LETTER = re.compile(r"\(([A-Z])\)")
# A bare letter names an option if it stands alone, not if a word follows: `A, B or C`, but not `A man`.
_BARE = re.compile(r"(?:^(?:BOTH |EITHER )?|[,;/&+]\s*|\b(?:AND|OR)\s+)([A-Z])(?=\s*(?:[^\w\s']|$)|\s+(?:AND|OR)\b)")


def options_in(question: str) -> dict[str, str]:
    """Return the options of a question: `(A) text` lines by `(A)`, else the `- text` lines below "Options:"."""
    lettered = {f"({letter})": text.strip() for letter, text in _LETTERED.findall(question)}
    if len(lettered) > 1:
        return lettered
    _, mark, below = question.rpartition("Options:")
    dashed = [text.strip() for text in _DASHED.findall(below)] if mark else []
    return {text: text for text in dashed} if len(dashed) > 1 else {}


def chosen(answer: Any, options: Mapping[str, str]) -> str:
    """Return the name of the option that an answer names; empty if it names none or several."""
    names = named(answer, options)
    return names.pop() if len(names) == 1 and names <= options.keys() else ""


def named(answer: Any, options: Mapping[str, str]) -> set[str]:
    """Return the options that an answer names: word for word, else by letters, even of options that do not exist."""
    if isinstance(answer, (list, tuple, set, frozenset)) and len(answer) == 1:
        (answer,) = answer
    try:
        text = _folded(str(answer))
    except (ValueError, RecursionError):  # a number with more digits than Python writes, or deep nesting
        return set()
    for name, words in options.items():
        letter = re.escape(_folded(name.strip("()")))
        if re.fullmatch(rf"(\(?{letter}\)?[\s.:,–-]+)?{re.escape(_folded(words))}", text):
            return {name}
    letters = _LETTER.findall(text)
    if not letters and _BARE.match(text):
        letters = _BARE.findall(text)
    return {f"({letter})" for letter in letters}


def _folded(text: str) -> str:
    return text.strip().strip(".\"'").strip().upper()
