"""Expected types: from the text of an annotation to a JSON schema, and from a reply's data to a value that fits.

An annotation comes from a program, so it is parsed with `ast` and never evaluated; an unknown one is `Any`.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import decimal
import fractions
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..values.codec import Opaque, brief

_MAX_TEXT = 2000
_MAX_ITEMS = 100
_DATE_FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%B %d %Y")
# `$1,234.50`, `3 apples`, `40 %`; not `3rd`, `2024-02-14`, `5 Million`, `3 - 4`, `3 and a half`
_MORE = (
    "hundreds?|thousands?|millions?|billions?|trillions?|dozens?|lakh|crore|grand|k|m|mn|b|bn|tn|"
    "and|or(?! so)|plus|minus|times|to|point|over|divided|half|halves|thirds?|quarters?"
)
_NUMBER = re.compile(
    r"[$€£]?\s*(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d{1,3})?)"
    rf"\.?(?:\s*+%|\s++(?!\D*\b(?:{_MORE})\b)[^\W\d]\D*)?",
    re.I,
)
_MAX_NUMBER_CHARS = 400
_YES = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
_SCALARS: list[dict[str, Any]] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]


class Misfit(ValueError):
    """A value that is not of the expected type; the message is for the model to read."""


@dataclass(frozen=True)
class Kind:
    """A type: what the model is shown, the schema that constrains it, and how its data becomes a value."""

    words: str
    schema: Mapping[str, Any]
    fit: Callable[[Any], Any]
    max_tokens: int = 512

    @property
    def is_text(self) -> bool:
        """Whether a reply that is not JSON is the value itself, word for word."""
        labels = self.schema.get("enum", ())
        return self.schema.get("type") == "string" or (bool(labels) and all(isinstance(label, str) for label in labels))


def kind_of(annotation: str) -> Kind:
    """Return the type that the text of an annotation names; `Any` for an unknown one."""
    if not annotation or len(annotation) > _MAX_TEXT:
        return ANY
    try:
        kind = _kind(ast.parse(annotation.strip(), mode="eval").body, 0)
    except (SyntaxError, ValueError, TypeError, IndexError, RecursionError, MemoryError):
        return ANY
    return replace(kind, fit=_misfits_only(kind.fit))


def kind_of_labels(labels: list[str]) -> Kind:
    """Return the type of exactly these labels."""
    kind = _labels(labels)
    return replace(kind, fit=_misfits_only(kind.fit))


def _misfits_only(fit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Turn every error of `fit` into a Misfit: a number too large for a date, a text that is not a number."""

    def guarded(value: Any) -> Any:
        try:
            return fit(value)
        except Misfit:
            raise
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise Misfit(f"{_short(value)} does not fit: {error}") from None

    return guarded


def _kind(node: ast.expr, depth: int) -> Kind:
    if depth > 8:
        return ANY
    match node:
        case ast.Constant(value=None):
            return NOTHING
        case ast.Constant(value=str(text)):
            return kind_of(text) if depth < 3 else ANY
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return NAMED.get(name, ANY)
        case ast.BinOp(left, ast.BitOr(), right):
            return _either(_kind(left, depth + 1), _kind(right, depth + 1))
        case ast.Dict():
            return _record(_fields(node, depth + 1))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _generic(name, parts, depth + 1)
        case ast.List(elts=[inner]):  # `[str]`, as models write it
            return _list(_kind(inner, depth + 1))
    return ANY


def _fields(node: ast.Dict, depth: int) -> dict[str, Kind]:
    pairs = zip(node.keys, node.values, strict=True)
    return {str(key.value): _kind(value, depth) for key, value in pairs if isinstance(key, ast.Constant)}


def _generic(name: str, parts: list[ast.expr], depth: int) -> Kind:
    if name == "Literal":
        return _literal(parts)
    kinds = [_kind(part, depth) for part in parts]
    if name in _COLLECTIONS:
        return _list(kinds[0], _COLLECTIONS[name])
    if name in _MAPPINGS and len(kinds) == 2:
        return _dict(kinds[0], kinds[1])
    if name in ("tuple", "Tuple"):
        is_open = len(parts) == 2 and ast.unparse(parts[1]) == "..."
        return _list(kinds[0], "tuple") if is_open else _tuple(kinds)
    return _WRAPPERS[name](kinds) if name in _WRAPPERS else NAMED.get(name, ANY)


def _literal(parts: list[ast.expr]) -> Kind:
    labels = [ast.literal_eval(part) for part in parts]
    return _labels(labels) if all(isinstance(label, (str, int, bool, type(None))) for label in labels) else ANY


_COLLECTIONS = {
    **dict.fromkeys(("list", "List", "Sequence", "Iterable", "Iterator", "Collection", "Generator", "deque"), "list"),
    **dict.fromkeys(("set", "Set"), "set"),
    **dict.fromkeys(("frozenset", "FrozenSet"), "frozenset"),
}
_WRAPPERS: dict[str, Callable[[list[Kind]], Kind]] = {
    "Optional": lambda kinds: _either(kinds[0], NOTHING),
    "Union": lambda kinds: functools.reduce(_either, kinds),
    **dict.fromkeys(("Annotated", "Final", "Awaitable"), lambda kinds: kinds[0]),
    "Coroutine": lambda kinds: kinds[-1],
}
_MAPPINGS = ("dict", "Dict", "Mapping", "defaultdict", "OrderedDict")


# --- simple types -------------------------------------------------------------------------------------------------


def _fit_any(value: Any) -> Any:
    return value


def _fit_nothing(value: Any) -> None:
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none", "null")):
        return
    raise Misfit(f"{_short(value)} is not None")


def _fit_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    answer = _YES.get(str(value).strip().strip(".!").lower()) if isinstance(value, (str, int)) else None
    if answer is None:
        raise Misfit(f"{_short(value)} is neither true nor false")
    return answer


def _fit_number(value: Any) -> int | float:
    if isinstance(value, str):
        text = value.strip()
        written = _NUMBER.fullmatch(text) if len(text) <= _MAX_NUMBER_CHARS else None
        if written is None:
            raise Misfit(f"{_short(value)} is not a number")
        digits = written[1].replace(",", "")
        value = int(digits) if digits.lstrip("-").isdecimal() else float(digits)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise Misfit(f"{_short(value)} is not a number")
    return value  # type: ignore[no-any-return]


def _fit_int(value: Any) -> int:
    number = _fit_number(value)
    if isinstance(number, float):
        if not number.is_integer():
            raise Misfit(f"{number!r} is not a whole number")
        return int(number)
    return number


def _fit_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (list, dict, tuple, set, Opaque)):
        raise Misfit(f"{_short(value)} is not text")
    return str(value)


def _fit_date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    text = value.strip(" \n.\"'") if isinstance(value, str) else ""
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(text).date()
    for form in _DATE_FORMATS:
        try:
            return datetime.datetime.strptime(text, form).date()
        except ValueError:
            continue
    raise Misfit(f"{_short(value)} is not a date; write it as YYYY-MM-DD")


def _fit_moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.datetime.fromisoformat(value.strip())
    day = _fit_date(value)
    return datetime.datetime(day.year, day.month, day.day)


def _fit_time(value: Any) -> datetime.time:
    if isinstance(value, datetime.time):
        return value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.time.fromisoformat(value.strip())
    raise Misfit(f"{_short(value)} is not a time; write it as HH:MM")


def _fit_span(value: Any) -> datetime.timedelta:
    if isinstance(value, str) and not re.fullmatch(r"-?[\d.]+\s*+(days?)?", value.strip()):
        raise Misfit(f"{_short(value)} is not a number of days")
    return value if isinstance(value, datetime.timedelta) else datetime.timedelta(days=_fit_number(value))


def _short(value: object) -> str:
    return brief(value, 80)


_TEXT = {"type": "string"}
ANY = Kind(
    "a value",
    {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}, "maxItems": _MAX_ITEMS}, {"type": "object"}]},
    _fit_any,
)
NOTHING: Kind = Kind("null", {"type": "null"}, _fit_nothing, 32)
BOOL = Kind("true or false", {"type": "boolean"}, _fit_bool, 32)
INT = Kind("a whole number", {"type": "integer"}, _fit_int, 48)
NUMBER = Kind("a number", {"type": "number"}, _fit_number, 48)
FLOAT = Kind("a number", {"type": "number"}, lambda value: float(_fit_number(value)), 48)
STR = Kind("text", _TEXT, _fit_str)
DATE = Kind(
    "a date, YYYY-MM-DD",
    {"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
    _fit_date,
    48,
)
MOMENT = Kind("a moment, YYYY-MM-DDTHH:MM:SS", {"type": "string"}, _fit_moment, 64)
TIME = Kind("a time, HH:MM", {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}, _fit_time, 32)


# --- types made of types ------------------------------------------------------------------------------------------


def _list(item: Kind, made: str = "list") -> Kind:
    def fit(value: Any) -> Any:
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise Misfit(f"{_short(value)} is not a list")
        try:
            return _MAKERS[made](item.fit(part) for part in value)
        except TypeError:  # a set of lists
            raise Misfit(f"{_short(value)} cannot be a {made}: its parts must be texts or numbers") from None

    unlike = " without repetition" if "set" in made else ""
    schema = {"type": "array", "items": dict(item.schema), "maxItems": _MAX_ITEMS}
    of = "" if item is ANY else f", each {item.words}"
    return Kind(f"a list{of}{unlike}", schema, fit, 1024)


def _tuple(items: list[Kind]) -> Kind:
    def fit(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(items):
            raise Misfit(f"{_short(value)} is not a list of {len(items)} values")
        return tuple(kind.fit(part) for kind, part in zip(items, value, strict=True))

    # Few endpoints know prefixItems: where the parts differ, each may be any of them, and `fit` checks them.
    schemas = list({str(kind.schema): dict(kind.schema) for kind in items}.values())
    part = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    schema = {"type": "array", "items": part, "minItems": len(items), "maxItems": len(items)}
    words = ", ".join(kind.words for kind in items)
    return Kind(f"a list of exactly {len(items)} values ({words})", schema, fit, 512)


def _dict(key: Kind, value: Kind) -> Kind:
    def fit(given: Any) -> dict[Any, Any]:
        if not isinstance(given, Mapping):
            raise Misfit(f"{_short(given)} is not an object")
        return {key.fit(name): value.fit(part) for name, part in given.items()}

    of = "" if value is ANY else f" whose values are each {value.words}"
    return Kind(f"an object{of}", {"type": "object", "additionalProperties": dict(value.schema)}, fit, 1024)


def _record(fields: Mapping[str, Kind]) -> Kind:
    def fit(given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise Misfit(f"{_short(given)} is not an object with {', '.join(fields)}")
        missing = [name for name in fields if name not in given]
        if missing:
            raise Misfit(f"the object lacks {missing[0]!r}")
        return {**given, **{name: kind.fit(given[name]) for name, kind in fields.items()}}

    words = ", ".join(f"{name}: {kind.words}" for name, kind in fields.items())
    schema = object_schema({name: kind.schema for name, kind in fields.items()})
    return Kind(f"an object with {words}", schema, fit, 1024)


def object_schema(fields: Mapping[str, Mapping[str, Any]], required: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others; by default, all are required."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "required": list(fields if required is None else required),
        "additionalProperties": False,
    }


def _labels(labels: list[Any]) -> Kind:
    def fit(value: Any) -> Any:
        for label in labels:
            if value == label and isinstance(value, bool) == isinstance(label, bool):
                return label
        is_plain = isinstance(value, (str, int, float))
        text = str(value).strip().strip(".\"'").casefold() if is_plain else None
        for label in labels:
            if text == str(label).casefold():
                return label
        raise Misfit(f"{_short(value)} is not one of {', '.join(map(repr, labels))}")

    return Kind(f"one of {', '.join(map(repr, labels))}", {"enum": labels}, fit, 64)


def _either(first: Kind, other: Kind) -> Kind:
    if STR in (first, other) and "enum" in (first if other is STR else other).schema:
        labels = first if other is STR else other

        def fit_label(value: Any) -> Any:
            try:
                return labels.fit(value)
            except Misfit:
                return _fit_str(value)

        return Kind(f"{labels.words}, or other text", _TEXT, fit_label)

    def fit(value: Any) -> Any:
        for kind in (first, other):  # a value that has one of the types is not converted to the other
            if _is_plainly(value, kind):
                return kind.fit(value)
        try:
            return first.fit(value)
        except Misfit:
            return other.fit(value)

    words = f"{first.words}, or {other.words}" + (" if it is not known" if other is NOTHING else "")
    return Kind(
        words, {"anyOf": [dict(first.schema), dict(other.schema)]}, fit, max(first.max_tokens, other.max_tokens)
    )


_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list, tuple, set),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip


def _is_plainly(value: Any, kind: Kind) -> bool:
    if "enum" in kind.schema:
        return value in kind.schema["enum"]
    return type(value) in _PLAIN.get(kind.schema.get("type", ""), ()) and "pattern" not in kind.schema


_MAKERS: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_PLAIN_LIST = _list(Kind("a value", {"anyOf": _SCALARS}, _fit_any))
NAMED: dict[str, Kind] = {
    "bool": BOOL, "int": INT, "number": NUMBER, "float": FLOAT, "str": STR, "date": DATE, "datetime": MOMENT,
    "time": TIME, "None": NOTHING, "NoneType": NOTHING, "string": STR, "boolean": BOOL, "integer": INT,
    "list": _PLAIN_LIST, "List": _PLAIN_LIST, "Sequence": _PLAIN_LIST, "Iterable": _PLAIN_LIST, "array": _PLAIN_LIST,
    "set": _list(ANY, "set"), "tuple": _list(ANY, "tuple"),
    "dict": _dict(STR, ANY), "Dict": _dict(STR, ANY), "object": ANY,
    "Decimal": Kind("a number", {"type": "number"}, lambda value: decimal.Decimal(str(_fit_number(value))), 48),
    "Fraction": Kind("a number", {"type": "number"}, lambda value: fractions.Fraction(str(_fit_number(value))), 48),
    "timedelta": Kind("a number of days", {"type": "number"}, _fit_span, 48),
}  # fmt: skip
