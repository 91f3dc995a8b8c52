"""Whether a call to the model passed on the whole question, and whether its value is the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...trace import Step, Trace
from ..provenance.followed import Provenance
from ..replay.changes import Changes
from .evidence import Reruns
from .mutations import SENTINEL_NUMBER, SENTINEL_TEXT, texts_in, value_of
from .question_data import words_of

_MIN_QUESTION_CHARS = 20
_MOST_OF_IT = 0.6  # share of the words of a question
_MAX_CHARS = 200_000
_TRAILING = ".,;:!?"
_TOKEN = re.compile(r"\S+")
_LABEL = re.compile(r"\([A-Z]\)")


class WholeQuestion:
    """Finds calls that pass on the whole question, in one or several arguments: their value may be the answer."""

    def __init__(self, question: str | None) -> None:
        text = (question or "").strip()
        self._words = shown_words(text) if len(text) >= _MIN_QUESTION_CHARS else []

    def is_in(self, step: Step) -> bool:
        words = shown_words(step.call or "")
        common = Counter(self._words) & Counter(words)
        is_most = common.total() >= _MOST_OF_IT * len(self._words)
        return bool(self._words) and (is_most or "".join(self._words) in "".join(words))


async def is_echoed(trace: Trace, found: Provenance, reruns: Reruns) -> bool:
    """Whether the answer is copied from the value of a call that passed on the whole question.

    Re-runs the program with other values of the same shape: a copied answer then comes from the same place.
    """
    answer = found.run.answer
    if answer is None:
        return False
    whole = WholeQuestion(trace.question)
    requested = [step for step in found.values if step.by == "lm" and not step.delta]
    values = {step.call or "": value_of(step) for step in requested if whole.is_in(step)}
    key = _key(answer.text)
    containing = {call: value for call, value in values.items() if value is not None and _has(value, key)}
    if not containing:
        return False
    for label in [*_labels(answer.text, found.run.program.source, trace.question or ""), None]:
        where = [_where(containing, key)]
        for is_rising in (True, False):  # rising and falling numbers, to rule out `max`, `min` and sorting
            others = {call: _Others(key, label, is_rising).instead_of(value) for call, value in containing.items()}
            now = await reruns.answer_with(changes=Changes(others))
            where.append(_where(others, _key(now or "")))
        if set.intersection(*where):
            return True
    return False


def shown_words(text: str) -> list[str]:
    """Return the words of a string, which may be a literal with escaped line breaks."""
    return words_of(re.sub(r"\\[nrt]", " ", text[:_MAX_CHARS]))


def _key(text: str) -> str:
    """Return a string without case, spaces, quotes and brackets, for comparison."""
    return "".join(shown_words(text))


def _has(value: Any, key: str) -> bool:
    return bool(key) and any(_key(part) == key for part in _parts(value))


def _where(values: Mapping[str, Any], key: str) -> set[tuple[str, int]]:
    """Return the places in the values where a string occurs."""
    parts = ((call, place, part) for call, value in values.items() for place, part in enumerate(_parts(value)))
    return {(call, place) for call, place, part in parts if key and _key(part) == key}


def _parts(value: Any) -> Iterator[str]:
    """Yield the parts of a value in order: numbers, strings, the words of strings, and dict keys."""
    match value:
        case bool() | None:
            return
        case int() | float() | str():
            text = str(value)
            words = text.split()
            yield from [text, *words] if len(words) > 1 else [text]
        case dict():
            for pair in value.items():
                yield from _parts(pair)
        case list() | tuple():
            for part in value:
                yield from _parts(part)


class _Others:
    """Makes other values of the same shape: all numbers are replaced, and the strings that are the answer."""

    def __init__(self, answer: str, label: str | None, is_rising: bool) -> None:
        self._answer, self._label = answer, label
        self._next, self._step = (SENTINEL_NUMBER, 1) if is_rising else (2 * SENTINEL_NUMBER, -1)

    def instead_of(self, value: Any) -> Any:
        match value:
            case int() | float() if not isinstance(value, bool):
                return type(value)(self._number())
            case str() if _has_key(value, self._answer):
                if value.isdigit():
                    return str(self._number())
                return self._label or self._sentinel()
            case str():
                return _TOKEN.sub(lambda token: self._token(token[0]), value)
            case dict():  # its values and, where none of them is the answer, the keys that are strings
                is_key = not any(_has(part, self._answer) for part in value.values())
                keys = {key: self.instead_of(key) if is_key and isinstance(key, str) else key for key in value}
                return {keys[key]: self.instead_of(part) for key, part in value.items()}
            case list():
                return list(map(self._element, value))
            case tuple():
                return tuple(map(self.instead_of, value))
        return value

    def _element(self, value: Any) -> Any:
        """Replace an element of a list: all elements change, so that only a choice by position survives."""
        is_word = isinstance(value, str) and len(value.split()) < 2 and not value.isdigit()
        return self._sentinel() if is_word else self.instead_of(value)

    def _token(self, token: str) -> str:
        word = token.rstrip(_TRAILING)
        if word.isdigit():
            return f"{self._number()}{token[len(word) :]}"
        return f"{self._sentinel()}{token[len(word) :]}" if _has_key(word, self._answer) else token

    def _sentinel(self) -> str:
        return f"{SENTINEL_TEXT}-{self._number()}"

    def _number(self) -> int:
        self._next += self._step
        return self._next


def _has_key(text: str, key: str) -> bool:
    return bool(key) and _key(text) == key


def _labels(answer: str, source: str, question: str) -> list[str]:
    """Return another label of the program or the question, of the same length, if there is one."""
    labels = dict.fromkeys([*texts_in(source), *_LABEL.findall(question)])
    same = [label for label in labels if len(label) == len(answer.strip("'\"")) and not _has_key(label, _key(answer))]
    return [label for label in same if not label.isdigit()][:1]
