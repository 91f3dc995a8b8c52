"""Validates data against JSON schemas with common keywords, in microseconds. Others need jsonschema, in a process.

No keyword here takes long for any schema: there are no patterns, and the number of checks is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAX_NODES, _MAX_DEPTH = 2_000, 30  # of a schema
_MAX_CHECKS = 100_000  # of data against parts of a schema
_NOTES = frozenset({"title", "description", "default", "examples", "$defs", "definitions", "strict", "deprecated"})
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})

Message = Callable[[], str]  # why data do not fit; made on demand, because data may be long and alternatives many


class NotPlain(Exception):
    """A schema with a keyword that only jsonschema knows, or a check that takes too long here."""


class PlainSchema:
    """A schema with common keywords; `misfit` returns why data do not fit. Raises NotPlain for other schemas."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root, self._nodes, self._left = schema, 0, 0
        for definitions in ("$defs", "definitions"):
            for part in self._mapping(schema.get(definitions, {})).values():
                self._check(part, 1)
        self._check(schema, 0)
        probes: tuple[Any, ...] = ({}, [], "", 0)
        for data in probes:
            self.misfit(data)  # finds references that lead to themselves

    def misfit(self, data: Any) -> str:
        """Return why data do not fit, and where; empty if they do."""
        self._left = _MAX_CHECKS
        try:
            return next(self._misfits(data, self._root, "$"), str)()
        except RecursionError:
            raise NotPlain from None

    # --- the schema -------------------------------------------------------------------------------------------

    def _mapping(self, part: Any) -> Mapping[str, Any]:
        if not isinstance(part, Mapping):
            raise NotPlain
        return part

    def _check(self, schema: Any, depth: int) -> None:
        """Raise NotPlain for a part that cannot be read here."""
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise NotPlain
        if isinstance(schema, bool):
            return
        for word, value in self._mapping(schema).items():
            if word in _NOTES:
                continue
            if word not in _CHECKS or not self._is_readable(word, value):
                raise NotPlain
            for part in _parts(word, value):
                self._check(part, depth + 1)

    def _is_readable(self, word: str, value: Any) -> bool:
        match word:
            case "type":
                names = value if isinstance(value, list) else [value]
                return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)
            case "$ref":
                return isinstance(value, str) and isinstance(self._referred(value), Mapping)
            case "required":
                return isinstance(value, list) and all(isinstance(name, str) for name in value)
            case "enum":
                return isinstance(value, list) and bool(value) and all(map(_is_atom, value))
            case "anyOf":
                return isinstance(value, list) and bool(value)
            case "properties":
                return isinstance(value, Mapping)
            case "const":
                return _is_atom(value)
            case "items" | "additionalProperties":
                return True
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def _referred(self, reference: str) -> Any:
        """Return the part that `#/$defs/Name` refers to; its own references are followed when data are checked."""
        path = reference.split("/")
        if len(path) != 3 or path[0] != "#" or path[1] not in ("$defs", "definitions") or "~" in path[2]:
            return None
        return self._mapping(self._root.get(path[1], {})).get(path[2])

    # --- data -------------------------------------------------------------------------------------------------

    def _spend(self, checks: int) -> None:
        self._left -= checks
        if self._left < 0:
            raise NotPlain

    def _misfits(self, data: Any, schema: Any, path: str) -> Iterator[Message]:
        self._spend(1)
        if len(path) > 2_000:
            raise NotPlain
        if isinstance(schema, bool):
            if not schema:
                yield lambda: f"nothing is allowed (at {path})"
            return
        for word, value in schema.items():
            if word == "additionalProperties":
                yield from self._others(data, value, schema, path)
            elif word not in _NOTES:
                yield from _CHECKS[word](self, data, value, path)

    def _ref(self, data: Any, reference: str, path: str) -> Iterator[Message]:
        yield from self._misfits(data, self._referred(reference), path)

    def _type(self, data: Any, names: Any, path: str) -> Iterator[Message]:
        wanted = names if isinstance(names, list) else [names]
        if not any(_is_a(data, name) for name in wanted):
            yield lambda: f"{_brief(data)} is not of type {' or '.join(wanted)} (at {path})"

    def _properties(self, data: Any, fields: Mapping[str, Any], path: str) -> Iterator[Message]:
        if isinstance(data, dict):
            self._spend(len(fields))
            for name, schema in fields.items():
                if name in data:
                    yield from self._misfits(data[name], schema, f"{path}.{name}")

    def _required(self, data: Any, names: list[str], path: str) -> Iterator[Message]:
        if isinstance(data, dict):
            self._spend(len(names))
            missing = (name for name in names if name not in data)
            yield from (_message(f"{name!r} is a required property (at {path})") for name in missing)

    def _others(self, data: Any, allowed: Any, schema: Mapping[str, Any], path: str) -> Iterator[Message]:
        if isinstance(data, dict):
            known = schema.get("properties", {})
            for name in data:
                if name not in known:
                    if allowed is False:
                        yield _message(f"{name[:100]!r} is not allowed (at {path})")
                    else:
                        yield from self._misfits(data[name], allowed, f"{path}.{name[:100]}")

    def _items(self, data: Any, schema: Any, path: str) -> Iterator[Message]:
        if isinstance(data, list):
            for place, item in enumerate(data):
                yield from self._misfits(item, schema, f"{path}[{place}]")

    def _any_of(self, data: Any, schemas: list[Any], path: str) -> Iterator[Message]:
        if not any(next(self._misfits(data, schema, path), None) is None for schema in schemas):
            yield lambda: f"{_brief(data)} fits none of the {len(schemas)} alternatives (at {path})"

    def _enum(self, data: Any, allowed: list[Any], path: str) -> Iterator[Message]:
        self._spend(len(allowed))
        if not any(_is_equal(data, value) for value in allowed):
            yield lambda: f"{_brief(data)} is not one of {_brief(allowed)} (at {path})"

    def _const(self, data: Any, wanted: Any, path: str) -> Iterator[Message]:
        yield from self._enum(data, [wanted], path)

    def _bound(self, data: Any, is_within: bool, fault: str, path: str) -> Iterator[Message]:
        if not is_within:
            yield lambda: f"{_brief(data)} {fault} (at {path})"

    def _least(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if _is_a(data, "number"):
            yield from self._bound(data, data >= bound, f"is less than {bound}", path)

    def _most(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if _is_a(data, "number"):
            yield from self._bound(data, data <= bound, f"is more than {bound}", path)

    def _above(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if _is_a(data, "number"):
            yield from self._bound(data, data > bound, f"is not more than {bound}", path)

    def _below(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if _is_a(data, "number"):
            yield from self._bound(data, data < bound, f"is not less than {bound}", path)

    def _shortest(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if isinstance(data, str):
            yield from self._bound(data, len(data) >= bound, "is too short", path)

    def _longest(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if isinstance(data, str):
            yield from self._bound(data, len(data) <= bound, "is too long", path)

    def _fewest(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if isinstance(data, list):
            yield from self._bound(data, len(data) >= bound, "has too few items", path)

    def _largest(self, data: Any, bound: float, path: str) -> Iterator[Message]:
        if isinstance(data, list):
            yield from self._bound(data, len(data) <= bound, "has too many items", path)


_CHECKS: dict[str, Any] = {
    "$ref": PlainSchema._ref,
    "type": PlainSchema._type,
    "properties": PlainSchema._properties,
    "required": PlainSchema._required,
    "additionalProperties": None,  # depends on `properties`
    "items": PlainSchema._items,
    "anyOf": PlainSchema._any_of,
    "enum": PlainSchema._enum,
    "const": PlainSchema._const,
    "minimum": PlainSchema._least,
    "maximum": PlainSchema._most,
    "exclusiveMinimum": PlainSchema._above,
    "exclusiveMaximum": PlainSchema._below,
    "minLength": PlainSchema._shortest,
    "maxLength": PlainSchema._longest,
    "minItems": PlainSchema._fewest,
    "maxItems": PlainSchema._largest,
}


def _parts(word: str, value: Any) -> list[Any]:
    """Return the schemas inside a keyword's value."""
    if word == "properties":
        return list(value.values())
    if word == "anyOf":
        return list(value)
    return [value] if word in ("items", "additionalProperties") else []


def _is_a(data: Any, name: str) -> bool:
    if name in ("integer", "number"):
        is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
        return is_number and (name == "number" or isinstance(data, int) or data.is_integer())
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(data, kinds[name])


def _is_atom(value: Any) -> bool:
    """Whether comparing a value takes no longer than its text is long."""
    return not isinstance(value, (list, dict))


def _is_equal(data: Any, atom: Any) -> bool:
    """Whether data are equal to an atom of a schema: True is not 1."""
    if isinstance(data, bool) or isinstance(atom, bool):
        return data is atom
    return bool(data == atom)


def _message(text: str) -> Message:
    return lambda: text


def _brief(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 100 else text[:99] + "…"
