"""A tool call as text: what the host is about to do, for the person who approves it and for the trace."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from ..values.atoms import SCALARS
from ..values.codec import encode

MAX_ARGUMENT_CHARS = 2000
_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}")}


class ShownCall(str):
    """A call with its converted arguments. Long ones are cut in the middle; `whole` is the text without cuts."""

    whole: str
    arguments: int

    def __new__(cls, text: str, whole: str, arguments: int) -> ShownCall:
        made = super().__new__(cls, text)
        made.whole, made.arguments = whole, arguments
        return made


def shown_call(name: str, bound: inspect.BoundArguments, keywords: Collection[str]) -> ShownCall:
    """Return a call as it will be made, the arguments in `keywords` with their names. Each long argument is cut."""
    whole = list(_arguments(bound, keywords))
    cut = [(key, _cut(text)) for key, text in whole]
    return ShownCall(_joined(name, cut), _joined(name, whole), len(whole))


def _joined(name: str, arguments: list[tuple[str, str]]) -> str:
    return f"{name}({', '.join(f'{key}={text}' if key else text for key, text in arguments)})"


def _arguments(bound: inspect.BoundArguments, keywords: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name (empty for a positional argument) and the text of each argument; keywords last, sorted."""
    named: list[tuple[str, str]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from (("", _written(item)) for item in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named += [(key, _written(item)) for key, item in value.items()]
        elif name in keywords and kind is not inspect.Parameter.POSITIONAL_ONLY:
            named.append((name, _written(value)))
        else:
            yield "", _written(value)
    yield from sorted(named)


def _cut(text: str) -> str:
    half = MAX_ARGUMENT_CHARS // 2
    hidden = len(text) - 2 * half
    return text if hidden <= 0 else f"{text[:half]} … {hidden:,} more characters … {text[-half:]}"


def _written(value: Any) -> str:
    """Return a value as text with every field: the repr of a user's class may leave some out."""
    kind = type(value)
    if kind in _BRACKETS and value and not all(type(item) in SCALARS for item in value):
        opening, closing = _BRACKETS[kind]
        return f"{opening}{', '.join(map(_written, value))}{',' if len(value) == 1 and kind is tuple else ''}{closing}"
    if kind is dict:
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    fields = _fields(value)
    if fields is not None:
        return f"{kind.__name__}({', '.join(f'{name}={_written(getattr(value, name, None))}' for name in fields)})"
    try:
        text = repr(value)
    except ValueError:  # a number with more digits than Python converts
        text = msgspec.json.encode(encode(value)).decode()
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _fields(value: Any) -> list[str] | None:
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]
