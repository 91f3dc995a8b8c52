"""Values that can be read, handed to functions and kept without anybody noticing. Standard library only."""

from __future__ import annotations

import datetime
import sys
from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, ModuleType

from .holes import Hole, HoleModule, stub
from .places import FILENAME
from .values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

_ATOMS = frozenset([
    str, int, float, bool, type(None), bytes, complex, range, Decimal, Fraction, slice, type(Ellipsis),
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, Hole,
])  # fmt: skip
_SEQUENCES = frozenset([list, tuple, set, frozenset])
_MAPPINGS = frozenset([dict, Record, Counter, OrderedDict])
_BUILTINS = frozenset([*_ATOMS, *_SEQUENCES, *_MAPPINGS, object, type, enumerate, zip, map, filter, reversed])
_LOOKED_AT = 1000  # of a container; what comes after is taken to be like it
_MAX_DEPTH = 6


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is data through and through: no iterator, file, lock, queue or the like anywhere in it."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if depth > _MAX_DEPTH:
        return False
    if kind in _SEQUENCES:
        items = value if len(value) <= _LOOKED_AT else list(value)[:_LOOKED_AT]
        return all(type(item) in _ATOMS or is_plain(item, depth + 1) for item in items)
    if kind in _MAPPINGS:
        pairs = value.items() if len(value) <= _LOOKED_AT else list(value.items())[:_LOOKED_AT]
        return all(is_plain(key, depth + 1) and is_plain(item, depth + 1) for key, item in pairs)
    if kind is FunctionType:
        return _is_own(value, depth)
    if kind is type:
        return value in _BUILTINS or _is_own_class(value) or value.__module__ == "builtins"
    if kind in (ModuleType, HoleModule):
        return kind is HoleModule or sys.modules.get(value.__name__) is value
    if kind is BuiltinFunctionType:
        return value.__self__ is None or type(value.__self__) is ModuleType
    return _is_own_class(kind) and _is_object_plain(value, depth)


def _is_own(function: FunctionType, depth: int) -> bool:
    """A function of the program, that closes over nothing but data."""
    if function.__code__.co_filename == stub.__code__.co_filename:  # it declares a hole
        return True
    if function.__code__.co_filename != FILENAME:
        return False
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        if held is not function and not is_plain(held, depth + 1):
            return False
    return all(is_plain(default, depth + 1) for default in function.__defaults__ or ())


def _is_own_class(kind: type) -> bool:
    return type.__getattribute__(kind, "__module__") == "__main__" and type(kind) is type


def _is_object_plain(value: Any, depth: int) -> bool:
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return type(fields) is dict and all(is_plain(item, depth + 1) for item in fields.values())
