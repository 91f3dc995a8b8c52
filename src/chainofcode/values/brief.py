"""Values as short text, read through C-level methods of exact types only. Standard library only: both sides use it."""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from itertools import chain, islice

from .arrays import sketch
from .atoms import PLAIN, SCALARS
from .records import Opaque, Record, exact, has_plain_zone, ids_of, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_SHOWN = 64  # parts of a container
MAX_NESTED = 4
MAX_ORDERED = 10_000  # keys; a longer OrderedDict is shown by its length
_MAX_SHORT_CHARS = 400
_MAX_FLAT_BYTES, _MAX_FLAT_CHARS = 256, 110  # smaller integers are shown in full
_size = sys.getsizeof  # the program may replace it


def brief(value: object, limit: int = 160) -> str:
    """Return a value as text of about `limit` characters, without running the program's own code.

    Exact builtin and standard-library types are shown as Python shows them; anything else only by its type's name.
    Each container is copied in one step, because another thread may change it.
    """
    if type(value) is int:  # the commonest case
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
        self.errors = errors  # how many exceptions this text is nested in

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
    """Return the text of all the parts of a container, if they are few, small and not containers (a fast path)."""
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
    """Return the first pairs of an OrderedDict if its keys are plain: iterating hashes them and may run their code."""
    keys = list(dict.keys(value)) if len(value) <= MAX_ORDERED else []
    if not keys or not all(map(_is_plain_key, keys)):
        return []
    try:
        return list(islice(OrderedDict.items(value), MAX_SHOWN + 1))
    except (KeyError, RuntimeError) as error:  # the order is inconsistent, as after `dict.__delitem__`
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # raised by a signal handler of the program
        return []


def _is_plain_key(key: object, depth: int = 0) -> bool:
    kind = type(key)
    if kind is tuple and depth < MAX_NESTED:
        return all(_is_plain_key(part, depth + 1) for part in key)  # type: ignore[attr-defined]
    return id(kind) in _PLAIN_KEYS


def _other(value: Any) -> str:
    kind = type(value)
    if issubclass(kind, type):  # not `isinstance`: that reads the value's `__class__`
        return f"<class '{exact(type.__dict__['__name__'].__get__(value))}'>"
    return sketch(value) or f"<{type_name(value)}>"


_INT = id(int)
_FLAT = ids_of(*PLAIN)
_TEXTS = ids_of(str, bytes, bytearray)
_PLAIN_KEYS = ids_of(*SCALARS)
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
    """Show all values of a type as this text."""
    _NAMED[id(kind)] = lambda value: text


def _moment(value: datetime.datetime | datetime.time) -> str:
    return repr(value) if has_plain_zone(value) else _other(value)


def _fraction_text(value: fractions.Fraction) -> str:
    return f"Fraction({brief(value.numerator)}, {brief(value.denominator)})"


_NAMED: dict[int, Callable[[Any], str]] = {
    id(type(math)): lambda v: f"<module '{exact(v.__dict__.get('__name__'))}'>",
    id(type(_other)): lambda v: f"<function {exact(v.__name__)}>",
    id(type(len)): lambda v: f"<built-in function {exact(v.__name__)}>",
    id(range): _range,
    id(fractions.Fraction): _fraction_text,
    id(Opaque): lambda v: exact(v.text)[:100],
    id(datetime.datetime): _moment,
    id(datetime.time): _moment,
}
