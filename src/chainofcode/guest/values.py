"""Live value ↔ tagged JSON ↔ bounded text: the one value language of values files, frames and traces.

JSON holds None, bool, int, float, str, list and dict with text keys as they are. Everything else is an object with
one key that starts with `$`:

    {"$tuple": [1, 2]}        {"$set": [1, 2]}            {"$frozenset": [1, 2]}     {"$bytes": "aGk="}  (base64)
    {"$dict": [[1, "one"]]}   {"$int": "9223372036854775808"} (from 2**63; `0x…` too)
    {"$float": "nan"|"inf"|"-inf"}   {"$complex": [1.0, 2.0]}   {"$decimal": "1.10"}   {"$fraction": "1/3"}
    {"$date": "2024-02-14"}   {"$datetime": "2024-02-14T10:00:00"}   {"$time": "10:00:00"}
    {"$timedelta": [days, seconds, microseconds]}   {"$range": [0, 10, 2]}   {"$text": "…"} (text JSON cannot carry)
    {"$object": {"type": "Basket", "text": "<Basket>"}}   a value that stays in the guest: only named

Nothing here evaluates or unpickles. Standard library only: the guest runs this file too.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import fractions
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from itertools import islice

from .arrays import plain, sketch

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_DEPTH = 100
_MAX_SHOWN = 64  # parts of a container, in a short text
MAX_NODES = 500_000
MAX_BYTES = 5_000_000
MAX_COLLISIONS = 100  # values of one hash in a set or dict
MAX_FRACTION_CHARS = 20_000  # reducing a fraction takes the square of its length
_DECIMAL_DIGITS_BITS = 10_000  # past this int ↔ decimal text is quadratic (and capped by CPython): hexadecimal


class ValueFormatError(ValueError):
    """Tagged JSON that says nothing: unknown tag, wrong shape, nested too deep."""


class Opaque:
    """A value that stayed in the guest: its type's name and a short text."""

    __slots__ = ("text", "type_name")

    def __init__(self, type_name: str, text: str) -> None:
        self.type_name, self.text = type_name, text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and (self.type_name, self.text) == (other.type_name, other.text)

    def __hash__(self) -> int:
        return hash((self.type_name, self.text))


class Record(dict):  # type: ignore[type-arg]
    """An emulated object: a dict on which attribute access works too. A dict's own methods win over keys."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the emulated object has no {name!r}; it has {', '.join(self) or 'nothing'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __reduce__(self) -> Any:  # the program may pickle it: where it is read, this class may be unknown
        return dict, (dict(self),)

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


def type_name(value: object) -> str:
    """The name of a value's type, without running anything the type's metaclass defines."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name


# --- tagged JSON -------------------------------------------------------------------------------------------------


def encode(value: object, *, brief: Callable[[object], str] | None = None) -> Any:
    """A value as tagged JSON. What the language lacks becomes `$object`, named by `brief` (default: its type)."""
    encoder = _Encoder(brief or (lambda v: f"<{type_name(v)}>"))
    try:
        return encoder.encode(value, 0)
    except _TooLarge:  # never a part of a value
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
        if kind in _SIZES:
            self._bytes += _SIZES[kind](value)
        if self._nodes > MAX_NODES or self._bytes > MAX_BYTES or depth > MAX_DEPTH:
            raise _TooLarge
        simple = _SIMPLE.get(kind)
        if simple is not None:
            told = simple(value)
            return self.opaque(value) if told is None else told
        sequence = _SEQUENCES.get(kind)
        if sequence is not None:
            items = [self.encode(item, depth + 1) for item in tuple(value)]
            return items if sequence == "" else {sequence: items}
        if kind in _DICTS:
            pairs = [(key, self.encode(item, depth + 1)) for key, item in tuple(value.items())]
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


def _has_plain_zone(value: datetime.datetime | datetime.time) -> bool:
    """A zone of the program's own making would run the program's code here: only fixed offsets pass."""
    return value.tzinfo is None or type(value.tzinfo) is datetime.timezone


_SIMPLE: dict[type, Callable[[Any], Any]] = {
    str: _encode_str,
    int: _encode_int,
    float: _encode_float,
    complex: lambda v: {"$complex": [_encode_float(v.real), _encode_float(v.imag)]},
    bytes: lambda v: {"$bytes": base64.b64encode(v).decode()},
    decimal.Decimal: lambda v: {"$decimal": str(v)},
    fractions.Fraction: lambda v: (
        {"$fraction": f"{v.numerator:#x}/{v.denominator:#x}"}
        if v.numerator.bit_length() > _DECIMAL_DIGITS_BITS or v.denominator.bit_length() > _DECIMAL_DIGITS_BITS
        else {"$fraction": str(v)}
    ),
    datetime.date: lambda v: {"$date": v.isoformat()},
    datetime.datetime: lambda v: {"$datetime": v.isoformat()} if _has_plain_zone(v) else None,
    datetime.time: lambda v: {"$time": v.isoformat()} if _has_plain_zone(v) else None,
    datetime.timedelta: lambda v: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    range: lambda v: {"$range": [_encode_int(v.start), _encode_int(v.stop), _encode_int(v.step)]},
}
_SIZES: dict[type, Callable[[Any], int]] = {str: len, bytes: len, int: lambda v: v.bit_length() // 4}
_SEQUENCES: dict[type, str] = {list: "", tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_DICTS = (dict, Record)


def decode(data: Any, *, record: type[dict[str, Any]] = dict) -> Any:
    """Tagged JSON as a value; objects become `record`. Raises ValueFormatError on anything else."""
    try:
        return _Decoder(record).decode(data, 0)
    except ValueFormatError:
        raise
    except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        raise ValueFormatError(f"not a tagged value: {error}") from None


class _Decoder:
    """Bounded as the encoder is: a guest may send what no encoder of ours made."""

    def __init__(self, record: type[dict[str, Any]]) -> None:
        self._record = record
        self._nodes = 0

    def decode(self, data: Any, depth: int) -> Any:
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        self._nodes += len(data) if isinstance(data, (list, dict)) else 1
        if depth > MAX_DEPTH or self._nodes > 2 * MAX_NODES:
            raise ValueFormatError(f"nested deeper than {MAX_DEPTH} levels, or of over {2 * MAX_NODES:,} parts")
        if isinstance(data, list):
            return [self.decode(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            raise ValueFormatError(f"{type(data).__name__} is not JSON")
        if len(data) == 1:
            (tag,) = data
            if isinstance(tag, str) and tag.startswith("$"):
                return self._untag(tag, data[tag], depth)
        return self._record((str(key), self.decode(item, depth + 1)) for key, item in data.items())

    def _untag(self, tag: str, body: Any, depth: int) -> Any:
        if tag in _UNTAG_MANY:
            if not isinstance(body, list):
                raise ValueFormatError(f"{tag} takes a list")
            items = [self.decode(item, depth + 1) for item in body]
            if tag != "$tuple":
                _check_hashes([item[0] for item in items] if tag == "$dict" else items)
            return _UNTAG_MANY[tag](items)
        if tag in _UNTAG_ONE:
            return _UNTAG_ONE[tag](body)
        raise ValueFormatError(f"unknown tag {tag!r}; a dict with such a key is written as $dict")


def _check_hashes(keys: list[Any]) -> None:
    """Values made to collide would take a set hours to hold."""
    hashes = sorted(map(hash, keys))
    if any(hashes[i] == hashes[i - MAX_COLLISIONS] for i in range(MAX_COLLISIONS, len(hashes))):
        raise ValueFormatError("values made to collide")


def _int(text: Any) -> int:
    return int(text, 0) if isinstance(text, str) else int(text)


def _special(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueFormatError("$float takes nan, inf or -inf: others are numbers in JSON")
    return float(text)


def _float(number: Any) -> float:
    return _special(number["$float"]) if isinstance(number, dict) else float(number)


def _big(item: Any) -> int:
    return _int(item["$int"]) if isinstance(item, dict) else _int(item)


def _fraction(text: str) -> fractions.Fraction:
    if len(text) > MAX_FRACTION_CHARS:
        raise ValueFormatError("a fraction too long to reduce")
    numerator, _, denominator = text.partition("/")
    return fractions.Fraction(_int(numerator), _int(denominator or "1"))


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
    "$decimal": decimal.Decimal,
    "$fraction": _fraction,
    "$date": datetime.date.fromisoformat,
    "$datetime": datetime.datetime.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda body: datetime.timedelta(*body),
    "$range": lambda body: range(*(_big(item) for item in body)),
    "$text": lambda body: base64.b64decode(body, validate=True).decode("utf-8", "surrogatepass"),
    "$object": lambda body: Opaque(str(body["type"]), str(body["text"])),
}


# --- bounded text ------------------------------------------------------------------------------------------------


def brief(value: object, limit: int = 160, depth: int = 0) -> str:
    """A value as text of about `limit` characters, never running the program's own code.

    Exact builtin and standard-library types are shown as Python shows them; anything else only by its type's name.
    """
    writer = _Writer(limit)
    writer.write(value, depth)
    return "".join(writer.parts)


class _Writer:
    def __init__(self, limit: int) -> None:
        self.parts: list[str] = []
        self.left = limit

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.left -= len(text)

    def write(self, value: Any, depth: int) -> None:
        kind = type(value)
        if value is None or kind is bool or kind in _SHORT:
            self.put(repr(value))
        elif kind is int:
            self.put(repr(value) if value.bit_length() <= 400 else f"<int of {value.bit_length()} bits>")
        elif kind is str or kind is bytes or kind is bytearray:
            room = max(self.left, 12)
            self.put(repr(value) if len(value) <= room else f"{value[:room]!r}… {len(value)} long")
        elif kind in _BRACKETS:
            self._write_items(value, depth)
        elif issubclass(kind, BaseException) and kind.__module__ == "builtins":
            self._write_error(value, depth)
        else:
            self.put(_NAMED.get(kind, _other)(value))

    def _write_error(self, value: BaseException, depth: int) -> None:
        """An exception with its arguments, which may be exceptions in turn."""
        arguments = BaseException.args.__get__(value)[:3] if depth < 4 else ()  # type: ignore[attr-defined]
        self.put(f"{type_name(value)}({', '.join(brief(argument, 60, depth + 1) for argument in arguments)})")

    def _write_items(self, value: Any, depth: int) -> None:
        opening, closing, empty, pairs = _BRACKETS[type(value)]
        if len(value) == 0:
            self.put(empty)
            return
        self.put(opening(value) if callable(opening) else opening)
        if depth >= 4 or self.left <= 0:
            self.put(f"…{closing}")
            return
        for shown, item in enumerate(_first_of(value, pairs)):
            if shown:
                self.put(", ")
            if self.left <= 0 or shown >= _MAX_SHOWN:
                self.put(f"… {len(value)} in all")
                break
            if pairs:
                self.write(item[0], depth + 1)
                self.put(": ")
            self.write(item[1] if pairs else item, depth + 1)
        if type(value) is tuple and len(value) == 1:
            self.put(",")
        self.put(closing)


def _first_of(value: Any, pairs: bool) -> list[Any]:
    """The first parts of a container, which another thread may change meanwhile."""
    for _ in range(100):
        with contextlib.suppress(RuntimeError):
            return list(islice(value.items() if pairs else value, _MAX_SHOWN + 1))
    return []


def _other(value: Any) -> str:
    kind = type(value)
    if issubclass(kind, type):  # not `isinstance`: that asks the value for its `__class__`
        return f"<class '{type.__dict__['__name__'].__get__(value)}'>"
    return sketch(value) or f"<{type_name(value)}>"


_SHORT = (float, complex, decimal.Decimal, range, datetime.date, datetime.timedelta)
_BRACKETS: dict[type, tuple[Any, str, str, bool]] = {
    list: ("[", "]", "[]", False),
    tuple: ("(", ")", "()", False),
    set: ("{", "}", "set()", False),
    frozenset: ("frozenset({", "})", "frozenset()", False),
    dict: ("{", "}", "{}", True),
    Record: ("{", "}", "{}", True),
    OrderedDict: ("OrderedDict({", "})", "OrderedDict()", True),
    Counter: ("Counter({", "})", "Counter()", True),
    defaultdict: (lambda d: f"defaultdict({brief(d.default_factory, 40)}, {{", "})", "defaultdict()", True),
    deque: ("deque([", "])", "deque([])", False),
}


def show_as(kind: type, text: str) -> None:
    """From now on, show values of a type by this text."""
    _NAMED[kind] = lambda value: text


def _moment(value: datetime.datetime | datetime.time) -> str:
    return repr(value) if _has_plain_zone(value) else _other(value)


def _fraction_text(value: fractions.Fraction) -> str:
    return f"Fraction({brief(value.numerator)}, {brief(value.denominator)})"


_NAMED: dict[type, Callable[[Any], str]] = {
    type(math): lambda v: f"<module '{v.__dict__.get('__name__', '?')}'>",
    type(_other): lambda v: f"<function {v.__name__}>",
    type(len): lambda v: f"<built-in function {v.__name__}>",
    fractions.Fraction: _fraction_text,
    Opaque: lambda v: v.text[:100],
    datetime.datetime: _moment,
    datetime.time: _moment,
}
