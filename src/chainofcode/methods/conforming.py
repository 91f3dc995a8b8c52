"""Validates data against a JSON schema with jsonschema, in a separate process: some patterns never end.

The schema names its draft. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction

from ..platforms import end_after
from ..sandbox.worker_confinement import can_import_later
from .job_process import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_DEPTH = 4000  # frames, for schemas with long chains of references
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
_DATA = ("const", "enum", "default", "examples")


class _UnusableSchema(Exception):
    """A schema that cannot be used, and why."""


def main() -> None:
    sys.setrecursionlimit(_DEPTH)
    importlib.import_module("jsonschema")
    importlib.import_module("referencing.jsonschema")
    if not can_import_later():
        with contextlib.suppress(ImportError):
            importlib.import_module("idna.uts46data")
    carry_out(_conformed)


def _conformed(job: dict[str, Any]) -> dict[str, Any]:
    """Return why the schema cannot be used (`unfit`) or why the data do not fit (`misfit`). Data are optional."""
    jsonschema: Any = importlib.import_module("jsonschema")
    with end_after(job["seconds"], counts_cpu=True):
        try:
            checking = _checking(jsonschema, job["schema"])
            if "data" not in job:
                list(checking.iter_errors({}))  # finds references that lead to themselves
                return {}
        except _UnusableSchema as error:
            return {"unfit": str(error)}
        except RecursionError:
            return {"unfit": "cannot be used: it refers to itself without end, or is nested too deeply"}
        try:
            found = jsonschema.exceptions.best_match(checking.iter_errors(job["data"]))
        except RecursionError:
            return {"misfit": "it is nested too deeply"}
    return {} if found is None else {"misfit": f"{found.message[:300]} (at {found.json_path[:100]})"}


def _checking(jsonschema: Any, schema: Any) -> Any:
    referencing: Any = importlib.import_module("referencing")
    if not isinstance(schema.get("$schema", ""), str):
        raise _UnusableSchema("is not a JSON schema: $schema must be a string")
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise _UnusableSchema(f"is not a JSON schema: {error.message[:300]}") from None
    _check_references(schema, referencing)
    checked = jsonschema.validators.extend(validator, {"uniqueItems": _unique_items, "multipleOf": _multiple_of})
    registry = referencing.Registry()  # an empty one: the default fetches references
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
                raise _UnusableSchema(f"refers to {reference[:200]!r}, which is not in it") from None
            raise _UnusableSchema(
                f"refers to {reference[:200]!r}: nothing is fetched; include it in the schema"
            ) from None


def _references(part: Any) -> Iterator[str]:
    """Yield all references, except in data such as `enum`, and except local ones in a part with its own `$id`."""
    for inner in _parts(part):
        if isinstance(inner, str):
            yield inner
            continue
        is_scope = isinstance(inner, Mapping) and "$id" in inner
        yield from (found for found in _references(inner) if not (is_scope and found.startswith("#")))


def _parts(part: Any) -> list[Any]:
    """Return the references of an object, as strings, and the parts of an object or a list."""
    if isinstance(part, list):
        return [inner for inner in part if not isinstance(inner, str)]
    if not isinstance(part, Mapping):
        return []
    own = [part[word] for word in _REFERRING if isinstance(part.get(word), str)]
    return own + [inner for word, inner in part.items() if word not in _DATA and not isinstance(inner, str)]


def _formats(jsonschema: Any, validator: Any) -> Any:
    """Return the format checks of jsonschema, and those of dates with times, which it leaves to another package."""
    formats = jsonschema.FormatChecker(())
    formats.checkers = {**validator.FORMAT_CHECKER.checkers}
    for name, read in (("date-time", datetime.datetime.fromisoformat), ("time", datetime.time.fromisoformat)):
        formats.checks(name, raises=ValueError)(
            lambda text, read=read: not isinstance(text, str) or bool(read(text.upper().replace(":60", ":59")))
        )
    return formats


def _unique_items(validator: Any, is_wanted: Any, items: Any, schema: Any) -> Iterator[Any]:
    """Replace jsonschema's own check, which takes quadratic time."""
    if is_wanted is True and isinstance(items, list) and len(set(map(_canonical, items))) < len(items):
        error: Any = importlib.import_module("jsonschema").ValidationError
        yield error("it has non-unique elements")


def _multiple_of(validator: Any, unit: Any, number: Any, schema: Any) -> Iterator[Any]:
    """Replace jsonschema's own check, which divides floats: 1.15 is a multiple of 0.01."""
    if validator.is_type(number, "number") and (Fraction(str(number)) / Fraction(str(unit))).denominator != 1:
        error: Any = importlib.import_module("jsonschema").ValidationError
        yield error(f"{number!r} is not a multiple of {unit!r}")


def _canonical(value: Any) -> str:
    """Return the same text for equal JSON values."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(inner) for inner in part]
        if isinstance(part, dict):
            return {name: plain(inner) for name, inner in part.items()}
        return int(part) if isinstance(part, float) and part.is_integer() else part

    return json.dumps(plain(value), sort_keys=True)
