"""Patterns of strings in requests, for the OpenAPI document and for checks.

Each pattern matches the whole text, in the syntax that Python and JSON Schema share.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from typing import Any

# Characters that count as a space in some language: a string of nothing else is empty.
_SPACES = r"\s\u001c-\u001f\u0085\u180e\ufeff"
_ANY = r"[\s\S]*"
SAYS_SOMETHING = rf"{_ANY}[^{_SPACES}]{_ANY}"
RUN_ID = r"[0-9a-f]{24}"
FILE_ID = r"[0-9a-f]{24}"
QUESTION_ID = r"[0-9a-f]{24}"
SHA256 = r"[0-9a-f]{64}"
TOOL_NAME = r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
CHANGE = rf"[^=]+={_ANY}[^={_SPACES}]{_ANY}"
# Functions that a person answers: a subset of regular expressions that matches in linear time.
_FUNCTIONS = r"([A-Za-z_][A-Za-z0-9_]*(\.\*)?|\.\*)"
ASK_ME = rf"{_FUNCTIONS}(\|{_FUNCTIONS})*"
# A call and its value, a Python literal nested at most once.
_NUMBER = r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?"
_QUOTED = "|".join(rf"{quote}[^{quote}\\\u0000-\u001f]*{quote}" for quote in ("'", '"'))
_SIMPLE = rf"(True|False|None|{_NUMBER}|{_QUOTED})"
_PAIR = rf"{_SIMPLE} ?: ?{_SIMPLE}"
_SEVERAL, _PAIRS = (rf"{one}( ?, ?{one})*" for one in (_SIMPLE, _PAIR))
_LITERAL = rf"({_SIMPLE}|\[({_SEVERAL})?\]|\({_SIMPLE} ?,( ?{_SEVERAL})?\)|\{{({_PAIRS}|{_SEVERAL})?\}})"
CALL_AND_VALUE = rf"{_ANY}[^={_SPACES}]{_ANY}= ?{_LITERAL}"
# A file name: not a path or an option, without characters that terminals or headers interpret.
_UNSEEN = (
    r"/\\\u007f-\u00a0\u00ad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff0-\uffff"
)
FILE_NAME = rf"[^.\-\u0000-\u0020{_UNSEEN}][^\u0000-\u001f{_UNSEEN}]*"
MAX_FILE_NAME_CHARS = 60  # a character has up to four bytes, and file systems allow 255
MAX_TYPE_CHARS = 2000
MAX_WORDS_CHARS = 200
MAX_TYPED = 100
MAX_TYPED_CHARS = 500
MAX_CHANGES = 100
MAX_ASK_ME_CHARS = 500
MAX_ANSWER_CHARS = 20_000  # of a person
MAX_CHANGE_CHARS = 2000


def _type() -> str:
    """Types of answers: simple ones, and lists, sets and dicts of them, nested at most once."""
    plain = "int|float|bool|str|date|datetime|time|Decimal"
    once = rf"{plain}|(list|set)\[({plain})\]|dict\[str, ?({plain})\]"
    twice = rf"{once}|list\[({once})\]|dict\[str, ?({once})\]"
    texts = "json|sql|yaml" if importlib.util.find_spec("yaml") is not None else "json|sql"
    return rf"({twice})( \| None)?|list|dict|set|tuple|{texts}|choice:{_ANY}[^,{_SPACES}]{_ANY}"


TYPE = _type()


def fits(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def is_variable(name: str) -> bool:
    return fits(VARIABLE, name) and not keyword.iskeyword(name)


def text_of(pattern: str, **more: Any) -> dict[str, Any]:
    """The schema of a string that matches a pattern."""
    return {"type": "string", "pattern": f"^({pattern})$", **more}


def variable() -> dict[str, Any]:
    return text_of(VARIABLE, **{"not": {"enum": list(keyword.kwlist)}})
