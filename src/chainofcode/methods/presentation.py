"""Answers as text, for people and scripts."""

from __future__ import annotations

import datetime
import json
from typing import Any

from ..engine import Result
from ..reasons import Reason
from ..trace import Answer
from ..values.codec import encode

_MAX_BITS = 14_000  # Python writes 4,300 digits


def in_words(result: Result) -> str:
    """Return an answer as a person writes it: text without quotes, dates as dates, lists on one line; data as JSON."""
    value, answer = result.answer, result.trace.answer or Answer(Reason.GUEST_DIED)
    if _is_json(answer.type) or (answer.type and isinstance(value, (list, dict))):
        return json.dumps(_plain(value), ensure_ascii=False)
    match value:
        case str():
            return value
        case datetime.date() | datetime.time():
            return value.isoformat()
        case [str(), *_] if all(isinstance(part, str) for part in value):
            return ", ".join(value)
    return answer.text


def _is_json(kind: str) -> bool:
    return kind in ("json", "schema") or (kind.endswith(".json") and not kind.startswith("choice:"))


def _plain(value: Any) -> Any:
    """Return data as JSON: dates as text, other types tagged."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, int) and value.bit_length() < _MAX_BITS:
        return value
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else encode(value)
