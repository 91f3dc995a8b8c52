"""Confidence: how likely each value was, from the log probabilities of a reply's tokens or from several replies.

A schema constrains what a model may write, but the log probabilities are those of the unconstrained model. They are
therefore normalised over the values that the schema allows.
"""

from __future__ import annotations

import ast
import functools
import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..lm import Completion, Token
from ..trace import Confidence
from .pause import Pause
from .types import Kind

_MAX_TOKENS = 12  # of a value that are read
_MAX_SHOWN = 8  # alternatives in a trace
_SMALLEST_SHOWN = 0.005
_MAX_RANGE = 101  # values of a score
_RANGE = re.compile(r"(?:^|_)(\d{1,3})_to_(\d{1,3})(?:_|$)")
_OUT_OF = re.compile(r"(?:^|_)out_of_(\d{1,3})(?:_|$)")
_DIGITS = "0123456789.eE"
_SURE = 0.75
_MAX_SOURCE_CHARS = 50_000  # of a program that is searched for comparisons


def distribution(reply: Completion, key: str, candidates: Sequence[str], value: str = "") -> dict[str, float]:
    """Return the probability of each candidate as the value of a key, in a reply that is a JSON object.

    Candidates are values as JSON, and so is `value`, the value read from the reply; candidates without probability are
    left out. At each token, the probability of every alternative goes to the candidates that agree with it and with the
    reply up to there. Empty if the tokens do not contain `value`.
    """
    # Search the tokens, not the reply: they may contain more text (thoughts), or other text (halves of a character).
    # The last match counts, as in JSON with the same key twice.
    text = "".join(token.text for token in reply.tokens)
    *_, start = [-1, *(found.end() for found in re.finditer(rf'"{re.escape(key)}"\s*:\s*(?={re.escape(value)})', text))]
    if start < 0:
        return {}
    tokens = _from(reply.tokens, start)
    shares: defaultdict[str, float] = defaultdict(float)
    path, weight, possible = "", 1.0, list[str]()
    for token, skipped in itertools.islice(tokens, _MAX_TOKENS):
        head, own = token.text[:skipped], token.text[skipped:]
        if token.text not in token.alternatives:
            return {}
        for text, logprob in token.alternatives.items():
            if text == token.text:
                continue
            # An alternative to leading spaces may begin a value; an alternative to the key does not.
            rest = text.removeprefix(head) if not head.strip() or text.startswith(head) else ""
            possible = _agreeing(path + (rest if path else rest.lstrip()), candidates)
            for candidate in possible:
                shares[candidate] += weight * math.exp(logprob) / len(possible)
        weight *= math.exp(token.alternatives[token.text])
        path += own
        possible = _agreeing(path, candidates)
        if len(possible) <= 1:
            break
    for candidate in possible:
        shares[candidate] += weight / len(possible)
    total = sum(shares.values())
    return {candidate: share / total for candidate, share in shares.items()} if total > 0 else {}


def _from(tokens: Sequence[Token], start: int) -> Iterable[tuple[Token, int]]:
    """Yield the tokens from an offset on, each with the number of its characters before the offset."""
    end = 0
    for token in tokens:
        begin, end = end, end + len(token.text)
        if end > start:
            yield token, max(0, start - begin)


def _agreeing(text: str, candidates: Sequence[str]) -> list[str]:
    """Return the candidates that are still possible for a reply that begins with this text."""
    return [candidate for candidate in candidates if text and _agrees(text, candidate)]


def _agrees(text: str, candidate: str) -> bool:
    if not text.startswith(candidate):
        return candidate.startswith(text)
    after = text[len(candidate) :]
    return not after or candidate[-1] not in _DIGITS or after[0] not in _DIGITS


# --- values -------------------------------------------------------------------------------------------------------


def judged(reply: Completion, key: str, value: Any, kind: Kind, pause: Pause) -> tuple[Any, Confidence | None]:
    """Return a value and how sure the model was. A number that is used only to rank is replaced by its expectation."""
    bounds = score_bounds(pause, kind)
    if bounds is not None and type(value) in (int, float) and value in bounds:  # not 0.8, of 0 to 1
        shares = distribution(reply, key, [str(number) for number in bounds], str(int(value)))
        return _expected(value, shares)
    candidates = _candidates(kind)
    if not candidates:
        return value, None
    shares = distribution(reply, key, [as_json for _, as_json in candidates], _as_json(value))
    named = {str(label): shares[as_json] for label, as_json in candidates if as_json in shares}
    return value, _of(named, str(value))


def likelihood(reply: Completion, key: str) -> float | None:
    """Return the probability of the least likely token of a key's value in a reply; None if it cannot be known.

    For types that allow many values. The least likely token, not the product of all: a long value is not less certain.
    """
    text = "".join(token.text for token in reply.tokens)
    *_, start = [-1, *(found.end() for found in re.finditer(rf'"{re.escape(key)}"\s*:\s*', text))]
    try:
        end = start + json.JSONDecoder().raw_decode(text[start:])[1] if start >= 0 else 0
    except (ValueError, RecursionError):
        return None
    least, begin = 0.0, 0
    for token in reply.tokens:
        past, begin = begin, begin + len(token.text)
        if begin > start and past < end:
            if token.text not in token.alternatives:
                return None
            least = min(least, token.alternatives[token.text])
    return math.exp(least) if 0 <= start < end else None


def sampled(values: Sequence[Any]) -> tuple[Any, Confidence | None]:
    """Return the most frequent of several values, with its frequency. Equal values may differ as text."""
    firsts = [next((other for other in values if other == value), value) for value in values]
    value = max(firsts, key=firsts.count)
    shares = {text: count / len(values) for text, count in Counter(map(str, firsts)).items()}
    return value, _of(shares, str(value), samples=len(values))


def is_unsure(confidence: Confidence | None) -> bool:
    """Whether asking again may help. Not for a score: its expectation already takes the uncertainty into account."""
    return confidence is not None and confidence.spread is None and confidence.probability < _SURE


def reconsidered(first: tuple[Any, Confidence], second: tuple[Any, Confidence]) -> Confidence | None:
    """Return the confidence in a value that the model gave with reasons: the mean of before and after.

    A model that has just argued for a value is overconfident, so the second distribution alone is too high.
    """
    before, after = (_shares(value, confidence) for value, confidence in (first, second))
    texts = before.keys() | after.keys()
    return _of({text: (before.get(text, 0.0) + after.get(text, 0.0)) / 2 for text in texts}, str(second[0]))


def _shares(value: Any, confidence: Confidence) -> dict[str, float]:
    return {str(value): confidence.probability, **confidence.alternatives}


def _candidates(kind: Kind) -> list[tuple[Any, str]]:
    """Return the values that a type allows, where they are few, each with its JSON."""
    labels: Sequence[Any] = kind.schema.get("enum", ())
    if kind.schema.get("type") == "boolean":
        labels = (True, False)
    return [(label, _as_json(label)) for label in labels]


def _as_json(label: Any) -> str:
    return json.dumps(label, ensure_ascii=False)


def _of(shares: Mapping[str, float], value: str, samples: int = 0) -> Confidence | None:
    if value not in shares:
        return None
    others = {text: share for text, share in shares.items() if text != value}
    return Confidence(probability=round(shares[value], 3), alternatives=_likeliest(others), samples=samples)


def _likeliest(shares: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(((share, text) for text, share in shares.items()), reverse=True)[:_MAX_SHOWN]
    return {text: round(share, 3) for share, text in ordered if share >= _SMALLEST_SHOWN}


# --- scores -------------------------------------------------------------------------------------------------------


def score_bounds(pause: Pause, kind: Kind) -> range | None:
    """Return the range of a number that the program uses only to rank, such as funniness_from_0_to_10(text).

    None if the program compares it with a number: `rating >= 4` means the rating as a person would give it.
    """
    if kind.schema.get("type") != "number" or pause.kind != "call":
        return None
    found, out_of = _RANGE.search(pause.name), _OUT_OF.search(pause.name)
    if found is not None:
        bounds = range(int(found[1]), int(found[2]) + 1)
    elif out_of is not None:
        bounds = range(int(out_of[1]) + 1)
    else:
        return None
    source = pause.program.source
    if not 2 <= len(bounds) <= _MAX_RANGE or len(source) > _MAX_SOURCE_CHARS:
        return None
    return bounds if pause.name not in _compared_with_numbers(source) else None


@functools.lru_cache(maxsize=64)
def _compared_with_numbers(source: str) -> frozenset[str]:
    """Return the functions whose results a program compares with literal numbers."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    held: dict[str, set[str]] = defaultdict(set)  # variable → functions whose result it holds
    compared: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=function))):
                held[name].add(function)
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(isinstance(side, ast.Constant) for side in sides):
                    compared.update(text for side in sides if (text := _named(side)))
    return frozenset(compared.union(*(held[name] for name in compared if name in held)))


def _named(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name
    return ""


def _expected(value: Any, shares: Mapping[str, float]) -> tuple[Any, Confidence | None]:
    if not shares:
        return value, None
    mean = sum(float(text) * share for text, share in shares.items())
    variance = sum((float(text) - mean) ** 2 * share for text, share in shares.items())
    # The value is the mean, so every number that the model could write is an alternative, its own reply included.
    confidence = Confidence(
        probability=round(shares.get(str(int(value)), 0.0), 3),
        alternatives=_likeliest(shares),
        spread=round(math.sqrt(variance), 3),
    )
    return round(mean, 3), confidence
