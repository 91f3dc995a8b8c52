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
import builtins
import datetime
import decimal
import fractions
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from itertools import chain, islice

from .arrays import plain, sketch

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_DEPTH = 100
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
    return _exact(type.__dict__["__name__"].__get__(type(value)))


def _exact(text: object) -> str:
    """Text that a program may have set to a subclass of `str`, whose methods are not ours to run."""
    return str.__str__(text) if issubclass(type(text), str) else "?"


def ids_of(*kinds: type) -> frozenset[int]:
    """Types to look for by identity: hashing or comparing a type runs what its metaclass defines."""
    return frozenset(map(id, kinds))


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
        size = _SIZES.get(id(kind))
        if size is not None:
            self._bytes += size(value)
        if self._nodes > MAX_NODES or self._bytes > MAX_BYTES or depth > MAX_DEPTH:
            raise _TooLarge
        simple = _SIMPLE.get(id(kind))
        if simple is not None:
            told = simple(value)
            return self.opaque(value) if told is None else told
        sequence = _SEQUENCES.get(id(kind))
        if sequence is not None:
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


def _has_plain_zone(value: datetime.datetime | datetime.time) -> bool:
    """A zone of the program's own making would run the program's code here: only fixed offsets pass."""
    zone = value.tzinfo
    if type(zone) is not datetime.timezone:
        return zone is None
    return all(id(type(part)) in _ZONE_PARTS for part in zone.__getinitargs__())  # type: ignore[attr-defined]


_ZONE_PARTS = ids_of(datetime.timedelta, str)


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
    id(datetime.datetime): lambda v: {"$datetime": v.isoformat()} if _has_plain_zone(v) else None,
    id(datetime.time): lambda v: {"$time": v.isoformat()} if _has_plain_zone(v) else None,
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

MAX_SHOWN = 64  # parts of a container
MAX_NESTED = 4
MAX_ORDERED = 10_000  # keys of an OrderedDict that are looked at
_MAX_SHORT_CHARS = 400
_MAX_FLAT_BYTES, _MAX_FLAT_CHARS = 256, 110  # fewer than an integer has that is shown by its size
_size = sys.getsizeof  # the program may replace it


def brief(value: object, limit: int = 160) -> str:
    """A value as text of about `limit` characters, never running the program's own code.

    Exact builtin and standard-library types are shown as Python shows them; anything else only by its type's name.
    Containers are read in one step each: another thread may change them meanwhile.
    """
    if type(value) is int:  # most of what is shown
        return _integer(value)
    if type(value) is str and len(value) <= limit:
        return repr(value)
    writer = _Writer(limit)
    writer.write(value, 0)
    return "".join(writer.parts)


class _Writer:
    def __init__(self, limit: int, errors: int = 0) -> None:
        self.parts: list[str] = []
        self.left = limit
        self.errors = errors  # exceptions around this text

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.left -= len(text)

    def write(self, value: Any, depth: int) -> None:
        kind = id(type(value))
        if kind in _SHORT:
            text = repr(value)
            self.put(text if len(text) <= _MAX_SHORT_CHARS else f"{text[:100]}… {len(text)} long")
        elif kind == _INT:
            self.put(_integer(value))
        elif kind in _TEXTS:
            room = max(self.left, 12)
            self.put(repr(value) if len(value) <= room else f"{value[:room]!r}… {len(value)} long")
        elif kind in _BRACKETS:
            self._write_items(value, depth)
        elif kind in _ERRORS:
            self._write_error(value)
        else:
            self.put(_NAMED.get(kind, _other)(value))

    def _write_items(self, value: Any, depth: int) -> None:
        opening, closing, empty, first, pairs = _BRACKETS[id(type(value))]
        length = len(value)
        if length == 0:
            self.put(empty)
            return
        self.put(opening(value) if callable(opening) else opening)
        if depth >= MAX_NESTED or self.left <= 0:
            self.put(f"…{closing}")
            return
        items = first(value)
        flat = _flat(items, pairs) if length == len(items) else None
        if flat is not None and len(flat) < self.left - 8:
            self.put(flat)
        else:
            self._write_each(items, length, pairs, depth)
        if type(value) is tuple and length == 1:
            self.put(",")
        self.put(closing)

    def _write_each(self, items: list[Any], length: int, pairs: bool, depth: int) -> None:
        if not items:
            self.put(f"… {length} in all")
        for shown, item in enumerate(items):
            if shown:
                self.put(", ")
            if self.left <= 0 or shown >= MAX_SHOWN:
                self.put(f"… {length} in all")
                break
            if pairs:
                self.write(item[0], depth + 1)
                self.put(": ")
            self.write(item[1] if pairs else item, depth + 1)

    def _write_error(self, error: BaseException) -> None:
        if self.errors >= MAX_NESTED:
            self.put(f"{type_name(error)}(…)")
            return
        texts = []
        for argument in BaseException.args.__get__(error)[:3]:  # type: ignore[attr-defined]
            writer = _Writer(60, self.errors + 1)
            writer.write(argument, 0)
            texts.append("".join(writer.parts))
        self.put(f"{type_name(error)}({', '.join(texts)})")


def _flat(items: list[Any], pairs: bool) -> str | None:
    """All the parts of a container, if they are few, small and no containers: the text that writing each gives."""
    parts = list(chain.from_iterable(items)) if pairs else items
    if len(parts) > MAX_SHOWN or not parts or not _FLAT.issuperset(map(id, map(type, parts))):
        return None
    if max(map(_size, parts)) > _MAX_FLAT_BYTES:
        return None
    text = ", ".join(map("%r: %r".__mod__, items)) if pairs else ", ".join(map(repr, items))
    return text if len(text) <= _MAX_FLAT_CHARS else None


def _integer(value: int) -> str:
    return repr(value) if value.bit_length() <= 400 else f"<int of {value.bit_length()} bits>"


def _range(value: range) -> str:
    step = "" if value.step == 1 else f", {_integer(value.step)}"
    return f"range({_integer(value.start)}, {_integer(value.stop)}{step})"


def _first_items(value: Iterable[Any]) -> list[Any]:
    return list(islice(value, MAX_SHOWN + 1))


def _first_pairs(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(islice(dict.items(value), MAX_SHOWN + 1))


def _first_ordered(value: OrderedDict[Any, Any]) -> list[tuple[Any, Any]]:
    """Going through an OrderedDict in its order hashes its keys, which is the program's code where they are its own."""
    keys = list(dict.keys(value)) if len(value) <= MAX_ORDERED else []
    if not keys or not all(map(_is_plain_key, keys)):
        return []
    try:
        return list(islice(OrderedDict.items(value), MAX_SHOWN + 1))
    except (KeyError, RuntimeError) as error:  # changed behind its back, as with `dict.__delitem__`
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # a signal handler of the program
        return []


def _is_plain_key(key: object, depth: int = 0) -> bool:
    kind = type(key)
    if kind is tuple and depth < MAX_NESTED:
        return all(_is_plain_key(part, depth + 1) for part in key)  # type: ignore[attr-defined]
    return id(kind) in _PLAIN_KEYS


def _other(value: Any) -> str:
    kind = type(value)
    if issubclass(kind, type):  # not `isinstance`: that asks the value for its `__class__`
        return f"<class '{_exact(type.__dict__['__name__'].__get__(value))}'>"
    return sketch(value) or f"<{type_name(value)}>"


_INT = id(int)
_FLAT = ids_of(str, int, float, bool, type(None))
_TEXTS = ids_of(str, bytes, bytearray)
_PLAIN_KEYS = ids_of(str, int, float, bool, complex, bytes, type(None))
_SHORT = ids_of(type(None), bool, float, complex, decimal.Decimal, datetime.date, datetime.timedelta)
_ERRORS = ids_of(*(v for v in vars(builtins).values() if isinstance(v, type) and issubclass(v, BaseException)))
_BRACKETS: dict[int, tuple[Any, str, str, Callable[[Any], list[Any]], bool]] = {
    id(list): ("[", "]", "[]", _first_items, False),
    id(tuple): ("(", ")", "()", _first_items, False),
    id(set): ("{", "}", "set()", _first_items, False),
    id(frozenset): ("frozenset({", "})", "frozenset()", _first_items, False),
    id(dict): ("{", "}", "{}", _first_pairs, True),
    id(Record): ("{", "}", "{}", _first_pairs, True),
    id(OrderedDict): ("OrderedDict({", "})", "OrderedDict()", _first_ordered, True),
    id(Counter): ("Counter({", "})", "Counter()", _first_pairs, True),
    id(defaultdict): (
        lambda d: f"defaultdict({brief(d.default_factory, 40)}, {{", "})", "defaultdict()", _first_pairs, True,
    ),
    id(deque): ("deque([", "])", "deque([])", _first_items, False),
}  # fmt: skip


def show_as(kind: type, text: str) -> None:
    """From now on, show values of a type by this text."""
    _NAMED[id(kind)] = lambda value: text


def _moment(value: datetime.datetime | datetime.time) -> str:
    return repr(value) if _has_plain_zone(value) else _other(value)


def _fraction_text(value: fractions.Fraction) -> str:
    return f"Fraction({brief(value.numerator)}, {brief(value.denominator)})"


_NAMED: dict[int, Callable[[Any], str]] = {
    id(type(math)): lambda v: f"<module '{_exact(v.__dict__.get('__name__'))}'>",
    id(type(_other)): lambda v: f"<function {_exact(v.__name__)}>",
    id(type(len)): lambda v: f"<built-in function {_exact(v.__name__)}>",
    id(range): _range,
    id(fractions.Fraction): _fraction_text,
    id(Opaque): lambda v: _exact(v.text)[:100],
    id(datetime.datetime): _moment,
    id(datetime.time): _moment,
}
