"""Identities of arguments that the value language cannot express, to recognise repeated calls. Standard library only.

Types, functions, modules and enum members are identified by their names, dataclasses and named tuples by their fields.
Other objects of the program may have changed between two calls, and have no identity. No program code runs.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, GenericAlias, GetSetDescriptorType, ModuleType, UnionType

from .holes import Hole

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


def identity(value: Any) -> str | None:
    """Return the name that identifies a value, if it has one."""
    kind = type(value)
    if issubclass(kind, type):
        return _class_name(value)
    if kind is FunctionType:
        return _function_name(value)
    if kind is BuiltinFunctionType:
        owner = value.__self__
        return f"{value.__module__}.{value.__qualname__}" if owner is None or type(owner) is ModuleType else None
    if kind is ModuleType:
        return f"module {vars(value).get('__name__')}"
    if kind is Hole:
        return f"hole {Hole.__repr__(value)}"
    if kind in (GenericAlias, UnionType) or _is_from_typing(kind):
        return repr(value)
    return _member_name(value)


def fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass or a named tuple, without running a property of its class."""
    kind = type(value)
    names = _namespace(kind)
    if issubclass(kind, tuple) and type(names.get("_fields")) is tuple:
        return dict(zip(names["_fields"], tuple.__iter__(value), strict=False))
    if _class_name(kind) is None or not any("__dataclass_fields__" in _namespace(base) for base in _bases(kind)):
        return None
    for base in _bases(kind):
        kept = _namespace(base).get("__dict__")
        if type(kept) is GetSetDescriptorType:
            return {"$type": _class_name(kind), **kept.__get__(value)}
    return None


def _function_name(function: FunctionType) -> str | None:
    """Return the name of a top-level function or method; None with a closure or defaults, whose values may differ."""
    is_made_with_values = function.__closure__ or function.__defaults__ or function.__kwdefaults__
    if is_made_with_values or "<" in function.__qualname__:
        return None
    return f"{function.__module__}.{function.__qualname__} {function.__code__.co_firstlineno}"


def _member_name(value: Any) -> str | None:
    enum = sys.modules.get("enum")
    kind = type(value)
    if enum is None or type(kind) is not enum.EnumType:
        return None
    name = object.__getattribute__(value, "__dict__").get("_name_")
    owner = _class_name(kind)
    return f"{owner}.{name}" if owner is not None and type(name) is str else None


def _is_from_typing(kind: type) -> bool:
    typing = sys.modules.get("typing")
    return typing is not None and vars(typing).get(type.__dict__["__name__"].__get__(kind)) is kind


def _class_name(kind: type) -> str | None:
    """Return the name of a class, unless it was defined in a function, which may define it more than once."""
    name = type.__dict__["__qualname__"].__get__(kind)
    return None if "<" in name else f"{_namespace(kind).get('__module__')}.{name}"


def _bases(kind: type) -> tuple[type, ...]:
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return bases


def _namespace(kind: type) -> Any:
    return type.__dict__["__dict__"].__get__(kind)
