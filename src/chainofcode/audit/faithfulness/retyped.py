"""Whether a typed answer is what its type makes of what the program, or the model, gave."""

from __future__ import annotations

import ast

import msgspec

from ...errors import InputError
from ...methods.answers import AnswerType, answer_type_of, fitted
from ...reasons import Reason
from ...trace import Answer, as_json

_ELSEWHERE = ("sql",)  # made of a database, which the trace does not have


async def other_than_made(answer: Answer, gave: Answer | None) -> str:
    """What a typed answer should be, where it is something else; else nothing.

    `gave` is the program's own answer, run again; without one, what was said is read as the text that it is. Nobody can
    tell for types that only whoever asked had: schemas, classes, queries. No file that a trace names is read for it.
    """
    wanted = _type_of(answer)
    own = gave if gave is not None else _read(answer.said or answer.text)
    if wanted is None or own is None or not own.is_answered:
        return ""
    made = await fitted(msgspec.structs.replace(own, type="", said=""), wanted)
    is_same = made.text == answer.text and as_json(made.value) == as_json(answer.value)
    return "" if is_same else made.text or "no such answer"


def _type_of(answer: Answer) -> AnswerType | None:
    if not answer.type or answer.type in _ELSEWHERE or answer.type.endswith(".json"):
        return None
    try:
        return answer_type_of(answer.type)
    except InputError:
        return None


def _read(text: str) -> Answer | None:
    """An answer that a model stated, of its text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return Answer(Reason.ANSWERED, value, text, "reply") if isinstance(value, str) else None


__all__ = ["other_than_made"]
