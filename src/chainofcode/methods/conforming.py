"""Data held against a JSON schema by jsonschema, aside: patterns and references can make it take for ever.

A schema's own draft counts. Nothing is fetched.
"""

from __future__ import annotations

import datetime
import importlib
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction

from .isolated import carry_out, timed

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take longer than all of ours
    from typing import Any

_DEPTH = 4000  # frames: a schema of many references that lead to each other
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")


class _Unfit(Exception):
    """A schema that cannot be used, and why."""


def main() -> None:
    sys.setrecursionlimit(_DEPTH)
    carry_out(_conformed)


def _conformed(job: dict[str, Any]) -> dict[str, Any]:
    """`unfit` says why the schema cannot be used, `misfit` why the data do not fit; without data, only the first."""
    jsonschema: Any = importlib.import_module("jsonschema")
    with timed(job["seconds"], signal.ITIMER_PROF):  # of computing: a busy machine changes nothing
        try:
            checking = _checking(jsonschema, job["schema"])
            if "data" not in job:
                list(checking.iter_errors({}))  # what leads to itself without end is found now
                return {}
        except _Unfit as error:
            return {"unfit": str(error)}
        except RecursionError:
            return {"unfit": "cannot be used: it refers to itself without end, or is nested too deep"}
        try:
            found = jsonschema.exceptions.best_match(checking.iter_errors(job["data"]))
        except RecursionError:
            return {"misfit": "it is nested too deep"}
    return {} if found is None else {"misfit": f"{found.message[:300]} (at {found.json_path[:100]})"}


def _checking(jsonschema: Any, schema: Any) -> Any:
    referencing: Any = importlib.import_module("referencing")
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise _Unfit(f"is no JSON schema: {error.message[:300]}") from None
    _check_references(schema, referencing)
    checked = jsonschema.validators.extend(validator, {"uniqueItems": _unique_items, "multipleOf": _multiple_of})
    registry = referencing.Registry()  # an empty one: the default fetches what is named
    return checked(schema, registry=registry, format_checker=_formats(jsonschema, validator))


def _check_references(schema: Any, referencing: Any) -> None:
    specification: Any = importlib.import_module("referencing.jsonschema").DRAFT202012
    root = referencing.Resource.from_contents(schema, default_specification=specification)
    resolver = referencing.Registry().resolver_with_root(root)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except (referencing.exceptions.Unresolvable, ValueError):
            if reference.startswith("#"):
                raise _Unfit(f"refers to {reference[:200]!r}, which is not in it") from None
            raise _Unfit(f"refers to {reference[:200]!r}: nothing is fetched; put all of the schema into it") from None


def _references(part: Any) -> Iterator[str]:
    """All but those of a part with an `$id`, which are to what is in that part, and those of mere data."""
    if isinstance(part, Mapping):
        found = (part.get(keyword) for keyword in _REFERRING)
        yield from (reference for reference in found if isinstance(reference, str))
        inside = [inner for word, inner in part.items() if word not in ("const", "enum", "default", "examples")]
    else:
        inside = part if isinstance(part, list) else []
    for inner in inside:
        has_own = isinstance(inner, Mapping) and "$id" in inner
        yield from (found for found in _references(inner) if not (has_own and found.startswith("#")))


def _formats(jsonschema: Any, validator: Any) -> Any:
    """Its own checks of `format`, and those of moments, which it leaves to another package."""
    formats = jsonschema.FormatChecker(())
    formats.checkers = {**validator.FORMAT_CHECKER.checkers}
    for name, read in (("date-time", datetime.datetime.fromisoformat), ("time", datetime.time.fromisoformat)):
        formats.checks(name, raises=ValueError)(
            lambda text, read=read: not isinstance(text, str) or bool(read(text.upper().replace(":60", ":59")))
        )
    return formats


def _unique_items(validator: Any, is_wanted: Any, items: Any, schema: Any) -> Iterator[Any]:
    """In place of jsonschema's own, which takes the square of their number."""
    if is_wanted is True and isinstance(items, list) and len(set(map(_canonical, items))) < len(items):
        error: Any = importlib.import_module("jsonschema").ValidationError
        yield error("it has non-unique elements")


def _multiple_of(validator: Any, unit: Any, number: Any, schema: Any) -> Iterator[Any]:
    """In place of jsonschema's own, which divides floats: 1.15 is a multiple of 0.01."""
    if validator.is_type(number, "number") and (Fraction(str(number)) / Fraction(str(unit))).denominator != 1:
        error: Any = importlib.import_module("jsonschema").ValidationError
        yield error(f"{number!r} is not a multiple of {unit!r}")


def _canonical(value: Any) -> str:
    """The same text for what JSON holds to be the same."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(inner) for inner in part]
        if isinstance(part, dict):
            return {name: plain(inner) for name, inner in part.items()}
        return int(part) if isinstance(part, float) and part.is_integer() else part

    return json.dumps(plain(value), sort_keys=True)
