"""JSON schemas that clients send: what of them is held against an answer here, at a cost that is bounded.

A schema comes from anywhere, and jsonschema would follow it wherever it leads: patterns take exponential time, and so
do references that meet again and again. So answers are held against an extract: references are replaced by what they
refer to (one to itself by anything at all), patterns and rare keywords are left out. It never refuses what the schema
allows; the model is told the whole of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..methods.answers import AnswerType, Misfit, answer_type_of, fitting
from .terms import Refusal

_MAX_PARTS = 2000  # of an extract
_MAX_WORK = 100_000  # parts of the extract times parts of an answer: about half a second
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
_COUNTS = ("minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems", "required")
_PLAIN = ("type", "enum", "const", *_BOUNDS, *_COUNTS)
_FORMATS = ("date-time", "date", "time", "ipv4", "ipv6", "uuid")  # those that are cheap to check
_NAMED, _ONE, _SEVERAL = ("properties",), ("items", "additionalProperties"), ("prefixItems", "anyOf", "allOf")


def structured(schema: Mapping[str, Any]) -> AnswerType:
    """The answer type of a client's schema. Raises Refusal, and InputError for what is no schema."""
    extract = _Extract(schema)
    kind = answer_type_of(extract.whole)
    assert kind is not None  # a schema is a type

    def read(value: Any) -> Any:
        if _parts(value) * extract.parts > _MAX_WORK:
            raise Misfit("the answer is too large to be held against its schema")
        return kind.read(value)

    return dataclasses.replace(kind, words=fitting(schema), read=read)


class _Extract:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema, self.parts = schema, 0
        self.whole: dict[str, Any] = self._of(schema, ()) if schema else {}

    def _of(self, part: Any, within: tuple[str, ...]) -> Any:
        """What is checked of a part; `within` are the references that led to it."""
        self._count(1)
        if not isinstance(part, Mapping):
            return part  # true, false; or a mistake, which is found later
        kept: dict[str, Any] = {word: part[word] for word in _PLAIN if word in part}
        self._count(sum(_parts(kept[word]) for word in ("enum", "const", "required") if word in kept))
        if part.get("format") in _FORMATS:
            kept["format"] = part["format"]
        kept |= {word: self._of(part[word], within) for word in _ONE if word in part}
        kept |= {word: self._each(part[word], within) for word in (*_NAMED, *_SEVERAL) if word in part}
        if "patternProperties" in part:  # those are not additional, but nobody knows which they are
            kept.pop("additionalProperties", None)
        further = [{"anyOf": self._each(part["oneOf"], within)}] if "oneOf" in part else []
        further += [self._referred(part["$ref"], within)] if "$ref" in part else []
        return kept | {"allOf": [*kept.get("allOf", ()), *further]} if further else kept

    def _count(self, parts: int) -> None:
        self.parts += parts
        if self.parts > _MAX_PARTS:
            raise _unfit(f"it has over {_MAX_PARTS:,} parts, references counted each time")

    def _each(self, parts: Any, within: tuple[str, ...]) -> Any:
        if isinstance(parts, Mapping):
            return {name: self._of(part, within) for name, part in parts.items()}
        return [self._of(part, within) for part in parts] if isinstance(parts, list) else parts

    def _referred(self, reference: Any, within: tuple[str, ...]) -> Any:
        if reference in within:
            return {}
        return self._of(self._found(reference), (*within, reference))

    def _found(self, reference: Any) -> Any:
        steps = str(reference).split("/")
        found: Any = self._schema if steps[0] == "#" else None
        for step in steps[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is None:
            raise _unfit(f"it refers to {str(reference)[:200]!r}, which is not in it")
        return found


def _parts(value: Any) -> int:
    """How many values there are in one; a text may hold one for every second character."""
    count, left = 0, [value]
    while left:
        part = left.pop()
        count += 1 + (len(part) // 2 if isinstance(part, str) else 0)
        left += part.values() if isinstance(part, Mapping) else part if isinstance(part, (list, tuple, set)) else ()
    return count


def _unfit(why: str) -> Refusal:
    return Refusal(400, "invalid_request", f"the schema cannot be used: {why}")
