"""Answer types: described to the model with the question, checked in the answer, converted for the caller."""

from __future__ import annotations

import importlib
import json
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from ..emulator.documents import read_text, read_yaml
from ..emulator.replies import data_in, unfenced
from ..emulator.types import ANY, NAMED, Kind, Misfit, kind_of, kind_of_labels
from ..errors import InputError
from ..reasons import Reason
from ..sandbox import Sandbox
from ..sandbox.frames import Failure
from ..trace import Answer
from ..values.codec import Opaque, ValueFormatError, brief, decode, encode
from .isolated import in_thread, run_isolated
from .plain_schema import NotPlain, PlainSchema
from .sql import Query

MISFIT = "AnswerType"  # the type of the error if an answer does not fit
NAMES = ("int", "float", "bool", "str", "date", "json", "yaml", "sql")
_MAX_CHOICE_CHARS = 2000
_MAX_SCHEMA_CHARS = 8000
_MAX_WHY_CHARS = 500  # of a reason, which may quote the schema and goes into the prompt
_MAX_SECONDS, _MAX_MEMORY_BYTES = 2, 512 * 1024**2  # to validate an answer against a schema
_MAX_YAML_CHARS = 200_000  # parsed by Python, not by C
_PLAIN = ("builtins", "datetime", "decimal", "fractions")


@dataclass(frozen=True)
class AnswerType:
    """A type of answers: its description for the model, and how an answer is checked and converted."""

    name: str
    words: str  # completes `The answer must be …`
    read: Callable[[Any], Any]
    convert: Callable[[Any], Any] = lambda data: data
    is_text: bool = False  # may have many lines: a block in a reply, and allowed as a literal in a program


def answer_type_of(
    given: Any, database: str | Path | None = None, sandbox: Sandbox | str = "auto"
) -> AnswerType | None:
    """Return an answer type from its text, a Python type, a dataclass, a Struct, a Pydantic model or a JSON schema.

    A guest of `sandbox` reads the database. Raises InputError for an unknown type, and if a package is missing.
    """
    if database is not None and given != "sql":
        raise InputError("a database requires the answer type sql")
    if given is None or isinstance(given, AnswerType):
        return given
    if isinstance(given, str):
        return _by_text(given, database, sandbox)
    if isinstance(given, Mapping):
        return _by_schema("schema", given)
    if hasattr(given, "model_validate") and hasattr(given, "model_json_schema"):
        return _by_model(given)
    return _by_type(given)


def _by_text(text: str, database: str | Path | None, sandbox: Sandbox | str) -> AnswerType:
    match text:
        case "json":
            return AnswerType("json", "JSON", _json_in, is_text=True)
        case "yaml":
            _import("yaml", "the answer type yaml", "PyYAML", "yaml")
            return AnswerType("yaml", "YAML", _yaml_in, is_text=True)
        case "sql":
            query = Query(database, sandbox)
            return AnswerType("sql", query.words, query.read, is_text=True)
    if text.startswith("choice:"):
        return _by_kind(text, kind_of_labels(_choices(text)))
    if text.endswith(".json"):
        return _by_schema(text, _schema_in(Path(text)))
    kind = kind_of(text)
    if not _is_known(kind):
        raise InputError(
            f"unknown answer type {text[:200]!r} (expected one of: {', '.join(NAMES)}, choice:A,B,C, SCHEMA.json)"
        )
    return _by_kind(text, kind)


def _choices(text: str) -> list[str]:
    labels = [label.strip() for label in text.removeprefix("choice:").split(",") if label.strip()]
    if not labels or len(text) > _MAX_CHOICE_CHARS:
        raise InputError(f"choice: requires labels, as in choice:yes,no (2,000 characters at most), not {text[:200]!r}")
    return labels


def _is_known(kind: Kind) -> bool:
    return kind.schema is not ANY.schema


# --- types of Python ----------------------------------------------------------------------------------------------


def _by_kind(name: str, kind: Kind) -> AnswerType:
    def read(value: Any) -> Any:
        try:
            return kind.fit(value)
        except Misfit:
            if not isinstance(value, str):
                raise
            return kind.fit(data_in(value))

    return AnswerType(name, kind.words, read)


def _by_type(given: Any) -> AnswerType:
    name = given.__name__ if isinstance(given, type) and not typing.get_args(given) else repr(given)
    kind = kind_of(name) if _is_plain(given) else ANY
    if _is_known(kind):
        return _by_kind(name, kind)
    try:
        schema = msgspec.json.schema(given)
    except (TypeError, RuntimeError) as error:
        raise InputError(f"cannot use {name} as an answer type: {str(error).partition(chr(10))[0]}") from None

    def convert(data: Any) -> Any:
        return msgspec.convert(data, given, strict=False)

    return _checked(name, schema, convert, (msgspec.ValidationError, UnicodeError))  # the latter for a lone surrogate


def _is_plain(given: Any) -> bool:
    """Whether `emulator.types` covers it, which accepts more of what models write."""
    if typing.get_origin(given) is typing.Literal:
        return True
    parts = typing.get_args(given)
    if parts:
        return all(part is ... or _is_plain(part) for part in parts)
    return given is type(None) or (getattr(given, "__module__", "") in _PLAIN and given.__name__ in NAMED)


def _by_model(given: Any) -> AnswerType:
    name = getattr(given, "__name__", "model")
    return _checked(name, given.model_json_schema(), given.model_validate, (ValueError,))


def _checked(
    name: str, schema: Mapping[str, Any], convert: Callable[[Any], Any], errors: tuple[type[Exception], ...]
) -> AnswerType:
    """Return the type of data for which `convert` raises none of these errors."""

    def fit(data: Any) -> Any:
        try:
            convert(data)
        except errors as misfit:
            raise Misfit(f"{_short(data)} does not fit: {str(misfit)[:500]}") from None
        return data

    return AnswerType(name, _fitting(schema), lambda value: _as_it_fits(value, fit), convert)


def _as_it_fits(value: Any, fit: Callable[[Any], Any]) -> Any:
    """Fit a value or the data in a string: lists and objects are tried before the string itself, other data after."""
    if not isinstance(value, str):
        return fit(value)
    try:
        data = data_in(value)
    except Misfit:
        return fit(value)
    first, second = (data, value) if isinstance(data, (list, tuple, set, dict)) else (value, data)
    try:
        return fit(first)
    except Misfit as misfit:
        try:
            return fit(second)
        except Misfit as other:
            raise (misfit if first is data else other) from None


def _fitting(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, ensure_ascii=False, default=str)
    cut = text if len(text) <= _MAX_SCHEMA_CHARS else text[:_MAX_SCHEMA_CHARS] + "…"
    return f"data that fits this JSON schema: {cut}"


# --- text that parses ---------------------------------------------------------------------------------------------


def _json_in(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(unfenced(value), parse_constant=_no_number, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"{_short(value)} is not JSON: {error}") from None
    return _json_data(value)


def _json_data(value: Any) -> Any:
    """Convert data of a program to JSON data: tuples and sets to lists, dates to text."""

    def refuse(part: Any) -> Any:
        raise Misfit(f"{_short(value)} is not JSON: it contains a {_type(part)}")

    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=refuse)
        return json.loads(json.dumps(plain, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"{_short(value)} is not JSON: {error}") from None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:100]} is not a number")


def _yaml_in(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if len(value) > _MAX_YAML_CHARS:
        raise Misfit(f"{len(value):,} characters are too many; the limit is {_MAX_YAML_CHARS:,}")
    try:
        return read_yaml(unfenced(value))
    except ValueError as error:
        raise Misfit(f"{_short(value)} is not YAML: {error}") from None


# --- a JSON schema ------------------------------------------------------------------------------------------------


def _schema_in(path: Path) -> Mapping[str, Any]:
    text = read_text(path)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InputError(f"{path} is not a JSON schema: it contains {_short(schema)}, not an object")
    return schema


def _by_schema(name: str, schema: Mapping[str, Any]) -> AnswerType:
    """Validate common keywords here, all others in a separate process: some patterns and references never end."""
    plain = _plain(schema)
    if plain is None:
        _import("jsonschema", "a JSON schema", "jsonschema", "schema")

    def conformed(**more: Any) -> dict[str, Any]:
        job = {"schema": schema, **more}
        return run_isolated("methods.conforming", job, seconds=_MAX_SECONDS, memory=_MAX_MEMORY_BYTES)

    def fit(value: Any) -> Any:
        data = _json_data(value)
        outcome = _plain_outcome(plain, data) if plain is not None else None
        outcome = conformed(data=data) if outcome is None else outcome
        if outcome:
            why = (
                outcome.get("misfit")
                or outcome.get("unfit")
                or f"checking it against the schema failed: {outcome['error']}"
            )
            raise Misfit(f"{_short(data)} does not fit: {why[:_MAX_WHY_CHARS]}")
        return data

    try:
        outcome, words = conformed() if plain is None else {}, _fitting(schema)
    except (RecursionError, TypeError, ValueError) as error:
        raise InputError(f"{name} is not a JSON schema: {error}") from None
    if outcome:
        raise InputError(f"{name} {outcome.get('unfit') or 'cannot be used: ' + outcome['error']}")
    return AnswerType(name, words, lambda value: _as_it_fits(value, fit), is_text=True)


def _plain(schema: Mapping[str, Any]) -> PlainSchema | None:
    try:
        return PlainSchema(schema)
    except (NotPlain, RecursionError, ValueError):  # also numbers with more digits than Python converts
        return None


def _plain_outcome(plain: PlainSchema, data: Any) -> dict[str, Any] | None:
    """Return the outcome in the form that the process returns; None if that takes too long here."""
    try:
        misfit = plain.misfit(data)
    except NotPlain:
        return None
    return {"misfit": misfit} if misfit else {}


def _import(module: str, what: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{what} needs the package {package}: pip install 'chainofcode[{extra}]' (or pip install {package})"
        ) from None


# --- checking an answer -------------------------------------------------------------------------------------------


async def fitted(answer: Answer, wanted: AnswerType | None) -> Answer:
    """Return the answer as data of that type, or with an error of the type AnswerType if it does not fit."""
    if wanted is None or not answer.is_answered or answer.type:
        return answer
    try:
        given = decode(answer.value)
        if isinstance(given, Opaque):
            raise Misfit(f"the answer is a {given.type_name} object, which cannot leave the sandbox; give plain data")
        data = await in_thread(wanted.read, given)  # a query may take long
        value = encode(data, brief=_refuse)
    except (Misfit, ValueFormatError) as misfit:
        failure = Failure(MISFIT, f"wanted {wanted.name}, but {misfit}")
        return msgspec.structs.replace(
            answer, reason=Reason.ERROR, value=None, text="", error=failure, type=wanted.name, said=answer.text
        )
    text = _text(data)
    return msgspec.structs.replace(
        answer, value=value, text=text, type=wanted.name, said="" if text == answer.text else answer.text
    )


def is_misfit(answer: Answer) -> bool:
    return answer.error is not None and answer.error.type == MISFIT


def _refuse(part: object) -> str:
    raise Misfit(f"the answer contains a {_type(part)}, or is too large to describe")


def _type(part: object) -> str:
    return part.type_name if isinstance(part, Opaque) else type(part).__name__


def _text(data: object) -> str:
    try:
        return repr(data)
    except ValueError:  # a number with more digits than Python writes
        return brief(data)


def _short(value: object) -> str:
    return brief(value, 100)


__all__ = ["MISFIT", "NAMES", "AnswerType", "Misfit", "answer_type_of", "fitted", "is_misfit"]
