"""The data in a question and its inputs, to find the literals that a program retypes from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MAX_CHARS = 200_000
_MOST_WORDS = 0.6  # share of the words of a string
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:,\d{3})+|\d+(?:\.\d+)?")
_NAMED: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen", tuple(range(15))),
    ("fifteen sixteen seventeen eighteen nineteen twenty", tuple(range(15, 21))),
    ("thirty forty fifty sixty seventy eighty ninety hundred", tuple(range(30, 101, 10))),
    ("thousand million dozen half quarter couple pair", (1000, 10**6, 12, 0.5, 0.25, 2, 2)),
    ("once twice double triple thrice noon midnight", (1, 2, 2, 3, 3, 12, 0)),
    ("first second third fourth fifth sixth seventh eighth ninth tenth", tuple(range(1, 11))),
    ("january february march april may june july august september october november december", tuple(range(1, 13))),
    ("jan feb mar apr jun jul aug sep oct nov dec", (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12)),
)
NUMBER_WORDS: Mapping[str, float] = {
    word: value for words, values in _NAMED for word, value in zip(words.split(), values, strict=True)
}


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class QuestionData:
    """The words and numbers of a question and its inputs. Without a question, any text may be retyped."""

    def __init__(self, question: str | None, inputs: Mapping[str, Any]) -> None:
        texts = [question or "", *(str(part) for part in _scalars(dict(inputs)))]
        self._text = "\n".join(texts)[:_MAX_CHARS].casefold()
        self.is_known = bool(self._text.strip())
        words = _WORD.findall(self._text)
        self._words = {*words, *(word[2:] for word in words if word[:2] in ("0x", "0b", "0o"))}
        self._sequence = f" {' '.join(words)} "
        self.numbers = {float(found.replace(",", "")) for found in _NUMBER.findall(self._text)}
        self.numbers |= {NUMBER_WORDS[word] for word in self._words if word in NUMBER_WORDS}

    def has(self, value: object) -> bool:
        """Whether a literal is in the question or the inputs: a number by value, a string by words (or plurals)."""
        match value:
            case bool():
                return True  # a truth value has many wordings
            case int() | float():
                return abs(value) < 2**53 and abs(float(value)) in self.numbers
            case str():
                return self._has_text(value) if self.is_known else len(value.strip()) > 1
            case bytes():
                return self._has_text(value.decode("latin-1"))
        return False

    def _has_text(self, text: str) -> bool:
        words = words_of(text)
        if not words:
            return len(text.split()) > 0 and text.strip().casefold() in self._text
        if len(words) == 1:
            return self._has_word(words[0])
        known = sum(map(self._has_word, words))
        return f" {' '.join(words)} " in self._sequence or known >= _MOST_WORDS * len(words)

    def _has_word(self, word: str) -> bool:
        forms = {word}
        if len(word) > 2:
            forms |= {f"{word}s", f"{word}es", word.removesuffix("s"), word.removesuffix("es")}
        return bool(forms & self._words) or (word.isdecimal() and float(word) in self.numbers)


def _scalars(value: Any) -> Iterator[Any]:
    """Yield the strings and numbers in a value."""
    match value:
        case dict():
            for key, part in value.items():
                yield from _scalars(key)
                yield from _scalars(part)
        case list() | tuple() | set() | frozenset():
            for part in value:
                yield from _scalars(part)
        case _:
            yield value
