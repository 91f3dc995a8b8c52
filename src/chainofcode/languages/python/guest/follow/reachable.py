"""Finds the objects that are reachable from a value, without running program code. Standard library only.

Objects of plain types are opened. All others are *closed*: reading one may change it, as with an iterator, so
provenance counts each read of a closed object as a change of it.
"""

from __future__ import annotations

import gc
import opcode
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MethodType,
    ModuleType,
    TracebackType,
)

from .....values.atoms import ATOMS, CONTAINERS, MAPPINGS, PLAIN
from ...compiler.library import (
    CONTAINER_MUTATORS,
    MUTATING_BUILTINS,
    MUTATING_MODULES,
    PURE_FUNCTIONS,
    PURE_METHODS,
    STATELESS_MODULES,
)
from ..run.holes import Hole, HoleModule, stub
from ..run.places import FILENAME

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

UNCHANGING = ATOMS | {Hole, HoleModule}
_PLAIN_BASES = CONTAINERS | {object, type, FunctionType}
_WRAPPERS = frozenset(map(id, (CellType, property, staticmethod, classmethod)))
_MANY_KEYS = 2000
ABSENT: Any = object()
_names_in: dict[int, tuple[CodeType, set[str], bool]] = {}  # by id: hashing code takes long
_own_classes: dict[int, tuple[type, bool]] = {}  # by id: a metaclass may define `__hash__`


def reachable(
    value: Any, names: dict[str, Any], on_lambda: Callable[[Any, CodeType], None] = lambda value, code: None
) -> Iterator[tuple[Any, bool]]:
    """Yield every mutable object that is reachable from a value, and whether it is closed.

    `names` is the module's namespace: objects are reachable from a lambda through the names in its code.
    """
    built_in = names.get("__builtins__")
    pending, seen = [value], {id(built_in), id(vars(built_in)) if type(built_in) is ModuleType else 0}
    while pending:
        current = pending.pop()
        kind = type(current)
        if kind in UNCHANGING or id(current) in seen:
            continue
        seen.add(id(current))
        if kind in CONTAINERS:
            if kind is not tuple and kind is not frozenset:
                yield current, False
            pending += _changing(current.values() if kind in MAPPINGS else ())
            pending += _changing(current)
            if kind is defaultdict:
                pending.append(current.default_factory)
            continue
        code = _code_of(current)
        if code is not None and is_lambda(code):
            on_lambda(current, code)
        is_closed, held = _inside(current, kind, names)
        if is_closed is not None:
            yield current, is_closed
        pending += held


def can_change(value: Any) -> bool:
    """Whether a value, or an object that is reachable from it, may be changed."""
    return type(value) not in UNCHANGING and value is not ABSENT


def _changing(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if type(value) not in UNCHANGING]


def _code_of(value: Any) -> CodeType | None:
    if type(value) is FunctionType:
        return value.__code__
    return value.gi_code if type(value) is GeneratorType else None


def _inside(value: Any, kind: type, names: dict[str, Any]) -> tuple[bool | None, list[Any]]:
    """Return whether a value is closed (None: it cannot be changed), and the objects that it refers to."""
    if kind is FunctionType:
        return (False if value.__dict__ else None), [*_held_by(value, names), *value.__dict__.values()]
    if kind is BuiltinFunctionType or kind is MethodType:
        return None, [value.__self__, getattr(value, "__func__", None)]
    if kind is ModuleType:
        return (None if _top(vars(value).get("__name__")) in STATELESS_MODULES else True), []
    if id(kind) in _WRAPPERS:
        return None, _changing(gc.get_referents(value))
    if issubclass(kind, type):
        if not is_own_class(value):
            return None, []
        return False, [*filter(is_own_class, _mro(value)[1:]), *_changing(_namespace(value).values())]
    if is_own_class(kind):
        return False, [kind, *_changing(gc.get_referents(value))]
    is_guest_object = _top(_namespace(kind).get("__module__")) == _top(
        __name__
    )  # it refers to no object of the program
    if is_guest_object or kind is FrameType or kind is TracebackType:
        return True, []
    parts = gc.get_referents(value)
    held = [part for part in parts if not issubclass(type(part), (type, ModuleType)) and part is not names]
    code = _code_of(value)
    return True, held + (_named_by(code, names) if code is not None and is_lambda(code) else [])


def _held_by(function: FunctionType, names: dict[str, Any]) -> list[Any]:
    held = [*(function.__closure__ or ()), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    code = function.__code__
    return held + (_named_by(code, names) if is_lambda(code) else [])


def held_by_lambda(value: Any, names: dict[str, Any]) -> list[Any]:
    """Return the objects that a lambda or a generator expression refers to, besides its arguments."""
    return _held_by(value, names) if type(value) is FunctionType else _named_by(value.gi_code, names)


def _named_by(code: CodeType, names: dict[str, Any]) -> list[Any]:
    return [names[name] for name in names_in(code) if name in names]


def names_in(code: CodeType) -> set[str]:
    """Return the names that code looks up in enclosing functions, its module or objects; includes nested code."""
    known = _names_in.get(id(code))
    if known is None:
        found = {*code.co_names, *code.co_freevars}
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                found |= names_in(constant)
        known = _names_in[id(code)] = (code, found, not PURE_METHODS.issuperset(_methods_in(code)))
    return known[1]


def may_change_names(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether the code of a lambda may change the objects it names: it calls methods or unknown functions."""
    for text in names_in(code):
        known = names.get(text, ABSENT)
        if text in CONTAINER_MUTATORS or (known is ABSENT and text in MUTATING_BUILTINS):
            return True
        is_known_kind = type(known) in CONTAINERS | {FunctionType, ModuleType} or issubclass(type(known), type)
        if can_change(known) and not is_known_kind:
            return True
    return _names_in[id(code)][2]


def _methods_in(code: CodeType) -> Iterator[str]:
    """Yield the names of the methods that code calls."""
    more = 0
    for place in range(0, len(code.co_code), 2):
        name, argument = opcode.opname[code.co_code[place]], code.co_code[place + 1] | more
        more = argument << 8 if name == "EXTENDED_ARG" else 0
        if name == "LOAD_METHOD":
            yield code.co_names[argument]
        elif name == "LOAD_ATTR" and sys.version_info >= (3, 12) and argument & 1:
            yield code.co_names[argument >> 1]
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _methods_in(constant)


def is_lambda(code: CodeType) -> bool:
    """Whether code is part of a statement and has no watched statements of its own."""
    return code.co_filename == FILENAME and code.co_name.startswith("<") and code.co_name != "<module>"


def is_own_class(kind: type) -> bool:
    known = _own_classes.get(id(kind))
    if known is None:
        home = _namespace(kind).get("__module__")
        known = _own_classes[id(kind)] = (kind, type(home) is str and home == "__main__")
    return known[1]


def is_plain(value: Any) -> bool:
    """Whether a store into a value changes only that value, apart from changes that the program's statements record."""
    kind = type(value)
    return kind in CONTAINERS or all(is_own_class(base) or base in _PLAIN_BASES for base in _mro(kind))


def _namespace(kind: type) -> Any:
    """Return a class's own namespace, bypassing its metaclass."""
    return type.__dict__["__dict__"].__get__(kind)


def _mro(kind: type) -> tuple[type, ...]:
    return tuple(type.__dict__["__mro__"].__get__(kind))


def fields_of(value: Any) -> Any:
    """Return the attribute dict of an object of the program's classes; the object itself if it has none.

    Changes of the object and of its dict are recorded together: `vars(x)["a"] = 1` changes x.
    """
    kind = type(value)
    if kind in CONTAINERS or not is_own_class(kind) or issubclass(kind, type):
        return value
    for base in _mro(kind):
        found = _namespace(base).get("__dict__")
        if found is not None:
            fields = found.__get__(value) if type(found) is GetSetDescriptorType else value
            return fields if type(fields) is dict else value
    return value


# --- one step from an object to a part of it ----------------------------------------------------------------------


def step(value: Any, how: str, key: Any) -> tuple[Any, Any]:
    """Return a part of a value and the key it is stored under; ABSENT if there is none, or reading may run code."""
    kind = type(value)
    if how == "attr":
        return (_attribute(value, key), key) if is_own_class(kind) else (ABSENT, None)
    if type(key) not in PLAIN:
        return ABSENT, None
    if kind in (list, tuple) and type(key) is int and -len(value) <= key < len(value):
        return value[key], key % len(value)
    if kind in MAPPINGS and has_key(value, key):
        return value[key], key
    return ABSENT, None


def has_key(value: Any, key: Any) -> bool:
    """Whether a dict has a plain key; False if it has too many keys, or keys whose `__eq__` may be program code."""
    if type(key) not in PLAIN or len(value) > _MANY_KEYS or not {*map(type, value)} <= PLAIN:
        return False
    return key in value


def _attribute(value: Any, name: str) -> Any:
    fields = fields_of(value)
    if fields is value or type(fields) is not dict or not has_key(fields, name):
        return ABSENT
    spaces = [_namespace(base) for base in _mro(type(value)) if base is not object]
    is_plain = all(name not in space and "__getattribute__" not in space for space in spaces)
    return fields[name] if is_plain else ABSENT


def stored_key(value: Any, how: str, key: Any) -> Any:
    """Return the key that a store sets; ABSENT if it may be any key."""
    kind = type(value)
    if how == "attr":
        return key if is_own_class(kind) and not key.startswith("__") else ABSENT
    if type(key) not in PLAIN:
        return ABSENT
    if kind is list and type(key) is int and value:
        return key % len(value)
    return key if kind in MAPPINGS else ABSENT


# --- what calls change --------------------------------------------------------------------------------------------


def changes_of_function(function: Any, arguments: list[Any]) -> list[Any]:
    """Return the objects that a call may change, apart from changes that the function's own statements record."""
    kind = type(function)
    if kind is FunctionType:
        return [function, *arguments] if _may_change_arguments(function) else []
    if kind is MethodType:
        return changes_of_function(function.__func__, [function.__self__, *arguments])
    if issubclass(kind, type) or kind is Hole:
        return []  # it may keep its arguments, but does not change them
    if kind is not BuiltinFunctionType:
        return [function, *arguments]
    owner = function.__self__
    if owner is not None and type(owner) is not ModuleType:
        return [owner] if type(owner) in CONTAINERS else [owner, *arguments]
    is_changing = _may_change(getattr(function, "__module__", None)) or function.__name__ in MUTATING_BUILTINS
    return arguments if is_changing else []


def _may_change_arguments(function: FunctionType) -> bool:
    """Whether a function written in Python may change its arguments, other than by statements that are followed."""
    code = function.__code__
    if code.co_filename == stub.__code__.co_filename:
        return False
    if code.co_filename == FILENAME:
        return is_lambda(code) and not names_in(code) <= PURE_METHODS | PURE_FUNCTIONS
    return _may_change(function.__module__)


def changes_of_method(receiver: Any, method: str, arguments: list[Any]) -> list[Any]:
    """Return the same for a method. A plain container's own method changes only the container."""
    kind = type(receiver)
    if kind in UNCHANGING:
        return []
    if kind in CONTAINERS:
        return [receiver] if method not in PURE_METHODS else []
    if kind is ModuleType:
        return changes_of_function(vars(receiver).get(method), arguments)
    owner = receiver if issubclass(kind, type) else kind
    if is_own_class(owner):
        for base in _mro(owner):
            found = _namespace(base).get(method)
            if found is not None:
                return [] if _is_followed(found) else [receiver, *arguments]
    return [receiver, *arguments]


def changes_of_super(receiver: Any, method: str, arguments: list[Any]) -> list[Any]:
    """Return the same for a method of `super()`. Methods of the program's own classes record their changes."""
    bases = [base for base in _mro(type(receiver)) if base is not object and not is_own_class(base)]
    return [receiver, *arguments] if any(method in _namespace(base) for base in bases) else []


def _is_followed(found: Any) -> bool:
    if type(found) in (staticmethod, classmethod):
        found = found.__func__
    return type(found) is FunctionType and found.__code__.co_filename == FILENAME and not is_lambda(found.__code__)


def _top(module: Any) -> str:
    return module.partition(".")[0] if type(module) is str else ""


def _may_change(module: Any) -> bool:
    top = _top(module).lstrip("_")  # `_heapq` implements `heapq`
    return top in MUTATING_MODULES or top not in STATELESS_MODULES
