"""A model's reply as data: JSON or a Python literal, in the many ways models write them. Parsed, never evaluated."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ..values.codec import ValueFormatError, decode
from .types import Misfit

MAX_REPLY_CHARS = 1_000_000
_MAX_PYTHON_CHARS = 20_000  # of a value that is not JSON: Python's parser takes a second for ten times as much
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|\Z)", re.S)
_FENCED = re.compile(r"\s*```[\w-]*\n(.*?)(?:```\s*|\Z)", re.S)
_SAID = re.compile(r"^(?:delta state|value|answer|result|returns?|output)\s*[:=]\s*", re.I)
_NOTHING = object()


def data_in(reply: str) -> Any:
    """Return the value in a reply; plain text is itself. Raises Misfit when it is empty."""
    text = reply[:MAX_REPLY_CHARS].strip()
    fenced = _FENCE.search(text)
    if fenced is not None and fenced[1].strip():
        text = fenced[1].strip()
    if not text.strip("`\n "):
        raise Misfit("the reply is empty")
    for candidate in (text, _SAID.sub("", text), text.split("\n", 1)[0].strip()):
        value = _read(candidate)
        if value is not _NOTHING:
            return value
    return _SAID.sub("", text).strip().strip("`")


def value_in(reply: str, is_text: bool = False) -> Any:
    """Return the value of a call, under the key `value`, perhaps after `reasons`.

    If text is expected, a reply that is not JSON is the text.
    """
    value = text_in(reply) if is_text else data_in(reply)
    is_object = isinstance(value, dict) and set(value) in ({"value"}, {"reasons", "value"})
    return value["value"] if is_object else value


def text_in(reply: str) -> Any:
    text = _SAID.sub("", reply[:MAX_REPLY_CHARS].strip())
    fenced = _FENCE.fullmatch(text)
    text = fenced[1].strip() if fenced is not None else text
    if not text.strip("`"):
        raise Misfit("the reply is empty")
    value = _json(text)
    if isinstance(value, (dict, str)):
        return value
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]
    return text[1:-1] if is_quoted else text


def unfenced(text: str) -> str:
    """Return the content of a fenced block, if the text is one."""
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced is not None else text


def delta_in(reply: str, is_text: bool = False) -> dict[str, Any]:
    """Return the names that a statement sets, with their values."""
    value = data_in(reply)
    if not isinstance(value, dict):
        raise Misfit("the reply is not a JSON object of names and values")
    return value


def _read(text: str) -> Any:
    """Return the value that a string begins with, perhaps before prose; `_NOTHING` if there is none."""
    readers = (_json, _literal, _assignments) if len(text) <= _MAX_PYTHON_CHARS else (_json,)
    for read in readers:
        value = read(text)
        if value is not _NOTHING:
            return value
    return _NOTHING


def _json(text: str) -> Any:
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _NOTHING
    rest = text[end:].partition("\n")[0]
    if not isinstance(value, (dict, list)) and rest.strip(" .,;"):
        return _NOTHING  # `"a" and "b"` is text
    try:
        return decode(value)
    except ValueFormatError:
        return value


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    words = {"true": True, "false": False, "null": None, "none": None, "yes": True, "no": False}
    word = text.rstrip(".!").lower()
    return words.get(word, _NOTHING) if "\n" not in text else _NOTHING


def _assignments(text: str) -> Any:
    """Read `{x = True, y = 2}`, as the paper's prompts have it, or `x = True`."""
    try:
        return _keywords(text) if text.startswith("{") and text.endswith("}") else _assigned(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return _NOTHING


def _keywords(text: str) -> Any:
    match ast.parse(f"dict({text[1:-1]})", mode="eval").body:
        case ast.Call(keywords=[_, *_] as keywords):
            return {keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg} or _NOTHING
    return _NOTHING


def _assigned(text: str) -> Any:
    match ast.parse(text).body:
        case [ast.Assign(targets=[ast.Name(), *_], value=value)]:
            return ast.literal_eval(value)
    return _NOTHING
