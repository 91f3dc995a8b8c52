"""From values to the objects they hold on to, without running anything of the program's. Standard library only.

What is known to be plain is looked into; what is not is *closed*: nobody can tell what reading it does, as with an
iterator, so whoever follows a run takes each look at it for a change of it, too.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import gc
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GeneratorType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)

from ..program.effects import CHANGES, HARMLESS, METHODS, PURE_MODULES
from .holes import Hole, HoleModule, stub
from .places import FILENAME
from .values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

ATOMS = frozenset([
    str, int, float, bool, type(None), bytes, complex, range, slice, type(Ellipsis), type(NotImplemented),
    decimal.Decimal, fractions.Fraction, datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    datetime.timezone, Hole, HoleModule, re.Pattern, re.Match, CodeType, GenericAlias, GetSetDescriptorType,
    MemberDescriptorType, MethodDescriptorType, ClassMethodDescriptorType, WrapperDescriptorType,
])  # fmt: skip
SEQUENCES = frozenset([list, deque, tuple, set, frozenset])
MAPPINGS = frozenset([dict, Record, Counter, OrderedDict, defaultdict])
CONTAINERS = SEQUENCES | MAPPINGS
_WRAPPERS = frozenset([CellType, property, staticmethod, classmethod])
_INDEXED = frozenset([list, tuple])
_KEYS = frozenset([str, int, bool, float, type(None)])
_STATELESS = PURE_MODULES | {
    "functools", "copy", "heapq", "bisect", "dataclasses", "enum", "typing", "numbers", "builtins", "abc", "types",
    "keyword", "html", "string", "struct", "base64", "hashlib", "zlib", "difflib", "pprint", "time",
}  # fmt: skip
_CHANGING_MODULES = frozenset(["heapq", "bisect", "random", "copy"])
ABSENT: Any = object()


def reachable(
    value: Any, names: dict[str, Any], code: Callable[[CodeType], None] = lambda code: None
) -> Iterator[tuple[Any, bool]]:
    """Every object that can be changed and that a value holds on to, with whether it is closed.

    `names` are the module's: a lambda reads them when it is called, wherever that is; its `code` is told.
    """
    pending, seen = [value], set[int]()
    while pending:
        current = pending.pop()
        kind = type(current)
        if kind in ATOMS or id(current) in seen:
            continue
        seen.add(id(current))
        if kind in MAPPINGS:
            yield current, False
            pending += [part for part in current.values() if type(part) not in ATOMS]
            pending += [key for key in current if type(key) not in ATOMS]
        elif kind in SEQUENCES:
            if kind is not tuple and kind is not frozenset:
                yield current, False
            pending += [part for part in current if type(part) not in ATOMS]
        else:
            if kind is FunctionType and is_lambda(current.__code__):
                code(current.__code__)
            elif kind is GeneratorType and is_lambda(current.gi_code):
                code(current.gi_code)
            is_closed, held = _inside(current, kind, names)
            if is_closed is not None:
                yield current, is_closed
            pending += held


def _inside(value: Any, kind: type, names: dict[str, Any]) -> tuple[bool | None, list[Any]]:
    """Whether it is closed (None: it cannot be changed at all), and what it holds on to."""
    if kind is FunctionType:
        return None, _held_by(value, names)
    if kind in _WRAPPERS:
        return None, [part for part in gc.get_referents(value) if type(part) not in ATOMS]
    if kind is ModuleType:
        return (None if value.__name__.partition(".")[0] in _STATELESS else True), []
    if kind is BuiltinFunctionType or kind is MethodType:
        return None, [value.__self__, getattr(value, "__func__", None)]
    if isinstance(value, type):
        if not is_own_class(value):
            return None, []
        return False, [part for part in type.__getattribute__(value, "__dict__").values() if type(part) not in ATOMS]
    if is_own_class(kind):
        return False, [kind, *(part for part in gc.get_referents(value) if type(part) not in ATOMS)]
    held = [part for part in gc.get_referents(value) if not isinstance(part, (type, ModuleType)) and part is not names]
    if kind is GeneratorType and is_lambda(value.gi_code):
        held += _named_by(value.gi_code, names)
    return True, held


def _held_by(function: FunctionType, names: dict[str, Any]) -> list[Any]:
    held = [*(function.__closure__ or ()), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    code = function.__code__
    return held + (_named_by(code, names) if is_lambda(code) else [])


def _named_by(code: CodeType, names: dict[str, Any]) -> list[Any]:
    return [names[name] for name in names_in(code) if name in names]


def names_in(code: CodeType) -> set[str]:
    """The names that code asks the functions around it, its module or an object for, code inside of it included."""
    found = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
    return found


def is_lambda(code: CodeType) -> bool:
    """Whether code is part of a statement: its own statements are nobody's to watch."""
    return code.co_filename == FILENAME and code.co_name.startswith("<") and code.co_name != "<module>"


def is_own_class(kind: type) -> bool:
    return bool(type.__getattribute__(kind, "__module__") == "__main__")


# --- one step from an object to a part of it ----------------------------------------------------------------------


def step(value: Any, how: str, key: Any) -> tuple[Any, Any]:
    """A part of a value and the key that it is kept under; ABSENT where nobody can tell without running something."""
    kind = type(value)
    if how == "attr":
        return (_attribute(value, key), key) if is_own_class(kind) else (ABSENT, None)
    if type(key) not in _KEYS:
        return ABSENT, None
    if kind in _INDEXED and type(key) is int and -len(value) <= key < len(value):
        return value[key], key % len(value)
    if kind in MAPPINGS and kind is not defaultdict and key in value:
        return value[key], key
    return ABSENT, None


def _attribute(value: Any, name: str) -> Any:
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return ABSENT
    if type(fields) is not dict or name not in fields:
        return ABSENT
    mro = type.__dict__["__mro__"].__get__(type(value))
    is_plain = all(
        name not in vars(base) and "__getattribute__" not in vars(base) for base in mro if base is not object
    )
    return fields[name] if is_plain else ABSENT


def stored_key(value: Any, how: str, key: Any) -> Any:
    """The key that a store goes to; ABSENT where it may be any."""
    kind = type(value)
    if how == "attr":
        return key if is_own_class(kind) else ABSENT
    if type(key) not in _KEYS:
        return ABSENT
    if kind is list and type(key) is int and value:
        return key % len(value)
    return key if kind in MAPPINGS else ABSENT


# --- what calls change --------------------------------------------------------------------------------------------


def changes_of_function(function: Any, handed: list[Any]) -> list[Any]:
    """What calling a function may change of what it is handed, where its own statements do not tell."""
    kind = type(function)
    if kind is FunctionType:
        code = function.__code__
        if code.co_filename == stub.__code__.co_filename:
            return []
        if code.co_filename == FILENAME:
            return [function, *handed] if is_lambda(code) and not names_in(code) <= METHODS | HARMLESS else []
        return handed if _may_change(function.__module__) else []
    if kind is MethodType:
        return changes_of_function(function.__func__, [function.__self__, *handed])
    if isinstance(function, type) or kind is Hole:
        return []  # what it is handed may be kept, not changed
    if kind is BuiltinFunctionType:
        owner = function.__self__
        if owner is None or type(owner) is ModuleType:
            is_changing = _may_change(getattr(function, "__module__", None)) or function.__name__ in ("next", "setattr")
            return handed if is_changing else []
        return [owner] if type(owner) in CONTAINERS else [owner, *handed]
    return [function, *handed]


def changes_of_method(receiver: Any, method: str, handed: list[Any]) -> list[Any]:
    """The same of a method; a plain container's own method changes the container alone."""
    kind = type(receiver)
    if kind in ATOMS:
        return []
    if kind in CONTAINERS:
        return [receiver] if method in CHANGES or method.startswith("__") or method not in METHODS else []
    if kind is ModuleType:
        return changes_of_function(vars(receiver).get(method), handed)
    owner = receiver if isinstance(receiver, type) else kind
    if is_own_class(owner):
        for base in type.__dict__["__mro__"].__get__(owner):
            found = vars(base).get(method)
            if found is not None:
                is_told = getattr(found, "__code__", getattr(getattr(found, "__func__", None), "__code__", None))
                is_told = is_told is not None and is_told.co_filename == FILENAME
                return [] if is_told else [receiver]
    return [receiver, *handed]


def _may_change(module: str | None) -> bool:
    top = (module or "").partition(".")[0].lstrip("_")  # `_heapq` is what `heapq` is made of
    return top in _CHANGING_MODULES or top not in _STATELESS
