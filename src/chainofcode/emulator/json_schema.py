"""JSON schemas as Python annotations: the parameters of functions that a document describes.

A schema is untrusted data: references are followed only within its document and up to a limit. Unsupported schemas
become `Any`.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import inspect
import keyword
import operator
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import unquote

_MAX_VISITS = 200_000  # of schemas and parts of references, in one document
_FIELDS_A_VISIT = 20  # the number of fields that count as one visit
_MAX_DEPTH = 5
_MAX_LABEL_CHARS = 100
_MAX_REFERENCES = 20  # in a chain
_MAX_ALTERNATIVES = 50  # of a type: Python compares each with all others
_TEXTS: dict[Any, Any] = {"date": datetime.date, "date-time": datetime.datetime}
_KINDS: dict[Any, Any] = {"integer": int, "number": int | float, "boolean": bool, "null": None}


class Schemas:
    """The schemas of one document, in which their references are resolved; at most `visits` of them are read."""

    def __init__(self, data: dict[str, Any], visits: int = _MAX_VISITS) -> None:
        self._data, self._left = data, visits
        self._known: dict[tuple[int, int], Any] = {}  # types, by the identity of a schema and its depth

    def at(self, node: Any) -> dict[str, Any]:
        """Return the object that a node is, or refers to; an empty dict if there is none."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._referred(reference)
        return {}

    def _referred(self, reference: str) -> Any:
        self._left -= reference.count("/")
        if not reference.startswith("#/") or self._left < 0:  # another document: nothing is fetched
            return None
        node: Any = self._data
        for part in reference[2:].split("/"):
            node = node.get(unquote(part).replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def fields(self, schema: Any, depth: int = 0) -> tuple[dict[str, Any], set[str]]:
        """Return the properties of an object, and which of them are required."""
        schema = self.at(schema)
        fields = {text_of(name): field for name, field in self.at(schema.get("properties")).items()}
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        wanted = set(map(text_of, required))
        parts = schema.get("allOf")
        self._left -= 1 + (len(fields) + len(required)) // _FIELDS_A_VISIT
        for part in parts if isinstance(parts, list) and depth < _MAX_DEPTH else ():
            if self._left <= 0:
                break
            more, needed = self.fields(part, depth + 1)
            self._left -= len(more) // _FIELDS_A_VISIT
            wanted |= needed
            for name, field in more.items():
                fields.setdefault(name, field)
        return fields, wanted

    def type(self, schema: Any, depth: int = 0) -> Any:
        """Return a schema as an annotation."""
        self._left -= 1
        schema = self.at(schema)
        if depth > _MAX_DEPTH or self._left < 0:
            return Any
        key = (id(schema), depth)  # many references may lead to one schema
        if key not in self._known:
            self._known[key] = self._made(schema, depth)
        return self._known[key]

    def _made(self, schema: dict[str, Any], depth: int) -> Any:
        made = self._types(schema, depth)
        if schema.get("nullable") is True:
            made.append(None)
        is_short = sum(map(_count_alternatives, made)) <= _MAX_ALTERNATIVES
        if not made or Any in made or not is_short:
            return Any
        return functools.reduce(operator.or_, [part or type(None) for part in made])

    def _types(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        """Return the alternatives of a schema."""
        kinds, parts, whole = schema.get("type"), schema.get("anyOf") or schema.get("oneOf"), schema.get("allOf")
        if isinstance(parts, list):
            return [self.type(part, depth + 1) for part in parts[:10]]
        if isinstance(whole, list) and kinds is None:
            return [self.type(whole[0], depth + 1) if len(whole) == 1 else dict[str, Any]]
        if labels := _labels(schema):
            return [Literal[labels]]
        return [self._kind(kind, schema, depth) for kind in (kinds if isinstance(kinds, list) else [kinds])]

    def _kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> Any:
        if kind == "string":
            return _TEXTS.get(text_of(schema.get("format")), str)
        if kind == "array":
            return list[self.type(schema.get("items"), depth + 1)]  # type: ignore[misc]
        if kind == "object" or (kind is None and "properties" in schema):
            more = schema.get("additionalProperties")
            return dict[str, self.type(more, depth + 1) if isinstance(more, dict) else Any]  # type: ignore[misc]
        return _KINDS.get(kind, Any) if isinstance(kind, str) else Any

    def shape(self, schema: Any, depth: int = 0) -> str:
        """Describe a reply in one line."""
        fields, _ = self.fields(schema)
        schema = self.at(schema)
        if fields and depth < 3 and self._left > 0:
            shown = [f"{name!r}: {self.shape(field, depth + 1)}" for name, field in list(fields.items())[:20]]
            return "{" + ", ".join(shown) + "}"
        if schema.get("type") == "array" and depth < 3:
            return f"[{self.shape(schema.get('items'), depth + 1)}]"
        return inspect.formatannotation(self.type(schema, depth))


def _count_alternatives(annotation: Any) -> int:
    return len(get_args(annotation)) if get_origin(annotation) in (Union, types.UnionType) else 1


def _labels(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    labels = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(labels, list) or len(labels) > 100 or not all(map(_is_label, labels)):
        return ()
    return tuple(labels)


def _is_label(label: Any) -> bool:
    is_plain = label is None or isinstance(label, (bool, str)) or (type(label) is int and bool(text_of(label)))
    return is_plain and len(str(label)) <= _MAX_LABEL_CHARS


def text_of(value: object) -> str:
    """Return a string, even if YAML read it as a number; empty for anything else, such as huge numbers."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, float) or (type(value) is int and value.bit_length() <= 64)
    return str(value) if is_number else ""


def words_of(text: object, most: int) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    words = "".join(character for character in words[: 2 * most] if character.isprintable())
    return words if len(words) <= most else words[:most] + "…"


def identifier(text: str) -> str:
    name = re.sub(r"[^0-9A-Za-z]+", "_", text[:200]).strip("_")[:60]
    name = f"_{name}" if not name or name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def free(taken: Mapping[str, object], *proposed: str) -> str:
    """Return the first proposed name that a program can call and that is not taken."""
    names = [identifier(name) for name in proposed if re.search("[0-9A-Za-z]", name)]
    for name in names:
        if name not in taken and not hasattr(builtins, name):
            return name
    return unused(taken, names[-1])


def unused(taken: Mapping[str, object], name: str) -> str:
    return next(candidate for candidate in [name, *(f"{name}_{n}" for n in range(2, 1000))] if candidate not in taken)
