"""Convert values to tagged JSON and back: the value language of values files, frames and traces.

JSON holds None, bool, int, float, str, list and dict with text keys as they are. Everything else is an object with
one key that starts with `$`:

    {"$tuple": [1, 2]}        {"$set": [1, 2]}            {"$frozenset": [1, 2]}     {"$bytes": "aGk="}  (base64)
    {"$dict": [[1, "one"]]}   {"$int": "9223372036854775808"} (from 2**63; `0x…` too)
    {"$float": "nan"|"inf"|"-inf"}   {"$complex": [1.0, 2.0]}   {"$decimal": "1.10"}   {"$fraction": "1/3"}
    {"$date": "2024-02-14"}   {"$datetime": "2024-02-14T10:00:00"}   {"$time": "10:00:00"}
    {"$timedelta": [days, seconds, microseconds]}   {"$range": [0, 10, 2]}   {"$text": "…"} (text JSON cannot carry)
    {"$object": {"type": "Basket", "text": "<Basket>"}}   a value that stays in the guest: its type and a text

Nothing here evaluates or unpickles. Standard library only: the guest runs this file too.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import math
from collections.abc import Callable, Iterable

from .arrays import plain
from .brief import brief as brief
from .brief import show_as as show_as
from .hashes import check_hashes
from .records import Opaque as Opaque
from .records import Record as Record
from .records import has_plain_zone
from .records import type_name as type_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_DEPTH = 100
_MAX_SHOWN = 64  # parts of a container, in a short text
MAX_NODES = 500_000
MAX_BYTES = 5_000_000
MAX_QUOTIENT_CHARS = 20_000  # of a fraction or a range: division takes quadratic time
_DECIMAL_DIGITS_BITS = 10_000  # longer integers are hexadecimal: decimal text takes quadratic time


class ValueFormatError(ValueError):
    """Invalid tagged JSON: unknown tag, wrong shape, nested too deeply."""


# --- tagged JSON -------------------------------------------------------------------------------------------------


def encode(value: object, *, brief: Callable[[object], str] | None = None) -> Any:
    """Encode a value as tagged JSON. A value that this format lacks becomes `$object`, with the text `brief(value)`."""
    encoder = _Encoder(brief or (lambda v: f"<{type_name(v)}>"))
    try:
        return encoder.encode(value, 0)
    except _TooLarge:  # all of the value, because a part would be misleading
        return encoder.opaque(value)


class _TooLarge(Exception):
    pass


class _Encoder:
    def __init__(self, brief: Callable[[object], str]) -> None:
        self._brief, self._nodes, self._bytes = brief, 0, 0

    def encode(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        size = _SIZES.get(id(kind))
        if size is not None:
            self._bytes += size(value)
        if self._nodes > MAX_NODES or self._bytes > MAX_BYTES or depth > MAX_DEPTH:
            raise _TooLarge
        simple = _SIMPLE.get(id(kind))
        if simple is not None:
            encoded = simple(value)
            return self.opaque(value) if encoded is None else encoded
        sequence = _SEQUENCES.get(id(kind))
        if sequence is not None:  # here, not in a function: each level of nesting must take few stack frames
            items = [self.encode(item, depth + 1) for item in tuple(value)]
            return items if sequence == "" else {sequence: items}
        if kind is dict or kind is Record:
            pairs = [(key, self.encode(item, depth + 1)) for key, item in tuple(dict.items(value))]
            if all(type(key) is str and _plain_text(key) and not key.startswith("$") for key, _ in pairs):
                return dict(pairs)
            return {"$dict": [[self.encode(key, depth + 1), item] for key, item in pairs]}
        data = plain(value)
        return self.opaque(value) if data is value else self.encode(data, depth + 1)

    def opaque(self, value: object) -> Any:
        return {"$object": {"type": type_name(value), "text": self._brief(value)}}


def _plain_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON readers disagree about it
        return False
    return True


def _encode_str(value: str) -> Any:
    if _plain_text(value):
        return value
    return {"$text": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}


def _encode_int(value: int) -> Any:
    if -(2**63) <= value < 2**63:
        return value
    return {"$int": str(value) if value.bit_length() <= _DECIMAL_DIGITS_BITS else hex(value)}


def _encode_float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


_SIMPLE: dict[int, Callable[[Any], Any]] = {
    id(str): _encode_str,
    id(int): _encode_int,
    id(float): _encode_float,
    id(complex): lambda v: {"$complex": [_encode_float(v.real), _encode_float(v.imag)]},
    id(bytes): lambda v: {"$bytes": base64.b64encode(v).decode()},
    id(decimal.Decimal): lambda v: {"$decimal": str(v)},
    id(fractions.Fraction): lambda v: (
        {"$fraction": f"{v.numerator:#x}/{v.denominator:#x}"}
        if v.numerator.bit_length() > _DECIMAL_DIGITS_BITS or v.denominator.bit_length() > _DECIMAL_DIGITS_BITS
        else {"$fraction": str(v)}
    ),
    id(datetime.date): lambda v: {"$date": v.isoformat()},
    id(datetime.datetime): lambda v: {"$datetime": v.isoformat()} if has_plain_zone(v) else None,
    id(datetime.time): lambda v: {"$time": v.isoformat()} if has_plain_zone(v) else None,
    id(datetime.timedelta): lambda v: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    id(range): lambda v: {"$range": [_encode_int(v.start), _encode_int(v.stop), _encode_int(v.step)]},
}
_SIZES: dict[int, Callable[[Any], int]] = {id(str): len, id(bytes): len, id(int): lambda v: v.bit_length() // 4}
_SEQUENCES: dict[int, str] = {
    id(list): "",
    id(tuple): "$tuple",
    id(set): "$set",
    id(frozenset): "$frozenset",
}


def decode(data: Any, *, record: type[dict[str, Any]] = dict) -> Any:
    """Decode tagged JSON; objects become `record`. Raises ValueFormatError for anything else."""
    try:
        return _Decoder(record).decode(data, 0)
    except ValueFormatError:
        raise
    except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        raise ValueFormatError(f"not a tagged value: {error}") from None


class _Decoder:
    """Has limits like the encoder, because a hostile guest may send anything."""

    def __init__(self, record: type[dict[str, Any]]) -> None:
        self._record = record
        self._nodes = 0

    def decode(self, data: Any, depth: int) -> Any:
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        self._nodes += len(data) if isinstance(data, (list, dict)) else 1
        if depth > MAX_DEPTH or self._nodes > 2 * MAX_NODES:
            raise ValueFormatError(f"nested deeper than {MAX_DEPTH} levels, or more than {2 * MAX_NODES:,} parts")
        if isinstance(data, list):
            return [self.decode(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            raise ValueFormatError(f"{type(data).__name__} is not JSON")
        tag = next(iter(data)) if len(data) == 1 else ""
        if isinstance(tag, str) and tag.startswith("$"):
            return self._untag(tag, data[tag], depth)
        return self._record((str(key), self.decode(item, depth + 1)) for key, item in data.items())

    def _untag(self, tag: str, body: Any, depth: int) -> Any:
        if tag in _UNTAG_MANY:
            if not isinstance(body, list):
                raise ValueFormatError(f"{tag} takes a list, not {type(body).__name__}")
            items = [self.decode(item, depth + 1) for item in body]
            if tag != "$tuple":
                check_hashes([item[0] for item in items] if tag == "$dict" else items, is_set=tag != "$dict")
            return _UNTAG_MANY[tag](items)
        if tag in _UNTAG_ONE:
            return _UNTAG_ONE[tag](body)
        raise ValueFormatError(f"unknown tag {tag!r}; a dict with such a key is written as $dict")


def _text(body: Any) -> str:
    if type(body) is not str:
        raise ValueFormatError(f"expected a string below a tag, not {type(body).__name__}")
    return body


def _int(text: Any) -> int:
    return (
        text if type(text) is int else int(_text(text), 0)
    )  # CPython bounds decimal digits; other bases take linear time


def _special(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueFormatError("$float takes nan, inf or -inf; write other floats as JSON numbers")
    return float(text)


def _float(number: Any) -> float:
    return _special(number["$float"]) if isinstance(number, dict) else float(number)


def _quotient(*numbers: Any) -> list[int]:
    """Return the numbers of a fraction or a range, if they are short enough to be divided."""
    if sum(len(text) for text in numbers if isinstance(text, str)) > MAX_QUOTIENT_CHARS:
        raise ValueFormatError("the numbers of a fraction or range are too long")
    return [_int(number) for number in numbers]


def _fraction(text: Any) -> fractions.Fraction:
    numerator, _, denominator = _text(text).partition("/")
    return fractions.Fraction(*_quotient(numerator, denominator or "1"))


def _range(body: Any) -> range:
    return range(*_quotient(*(part["$int"] if isinstance(part, dict) else part for part in body)))


_UNTAG_MANY: dict[str, Callable[[Iterable[Any]], Any]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": dict,
}
_UNTAG_ONE: dict[str, Callable[[Any], Any]] = {
    "$int": _int,
    "$float": _special,
    "$complex": lambda body: complex(_float(body[0]), _float(body[1])),
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$decimal": lambda body: decimal.Decimal(body if isinstance(body, (int, float)) else _text(body)),
    "$fraction": _fraction,
    "$date": datetime.date.fromisoformat,
    "$datetime": datetime.datetime.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda body: datetime.timedelta(*body),
    "$range": _range,
    "$text": lambda body: base64.b64decode(body, validate=True).decode("utf-8", "surrogatepass"),
    "$object": lambda body: Opaque(_text(body["type"]), _text(body["text"])),
}
