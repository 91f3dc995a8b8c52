"""Missing imports: undefined names that the standard library or a granted package exports.

Only modules that programs commonly use without importing are searched: the whole library exports words such as
`category` (unicodedata) or `summary` that a program means as a hole. Standard library only.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

from .library import AMBIGUOUS_EXPORTS, COMMON_MODULES, MODULE_ALIASES
from .record import Data

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


class MissingImport(Data):
    """`name` means `module` itself, or `module.attribute`."""

    name: str
    module: str
    attribute: str | None

    def load(self) -> Any:
        module = importlib.import_module(self.module)
        return module if self.attribute is None else getattr(module, self.attribute)

    def __str__(self) -> str:
        if self.attribute is not None:
            return f"from {self.module} import {self.attribute}"
        return f"import {self.module}" + ("" if self.name == self.module else f" as {self.name}")


class Occurrence(Data):
    """How one occurrence of an undefined name is used; `attribute` and `arity` only where they apply."""

    how: str  # call, raise, attribute, function, type, base, read
    attribute: str | None = None
    arity: int | None = None  # positional arguments of a plain call
    is_called: bool = False  # the attribute, or one of its own, is called


def find_import(name: str, uses: Sequence[Occurrence], packages: Iterable[str]) -> MissingImport | None:
    """The import that makes every use of `name` work, if there is one."""
    if len(name) == 1:  # `e` is far more often an exception than Euler's number
        return None
    for candidate in _candidates(name, packages):
        try:
            value = candidate.load()
        except (ImportError, AttributeError):
            continue
        if all(_fits(value, use) for use in uses):
            return candidate
    return None


def _candidates(name: str, packages: Iterable[str]) -> Iterable[MissingImport]:
    granted = set(packages)
    if name in sys.stdlib_module_names or name in granted:
        yield MissingImport(name, name, None)
    aliased = MODULE_ALIASES.get(name)
    if aliased and (aliased.partition(".")[0] in granted | sys.stdlib_module_names):
        yield MissingImport(name, aliased, None)
    for module_name in _exports(tuple(sorted(granted))).get(name, ()):
        yield MissingImport(name, module_name, name)


@functools.cache
def _exports(granted: tuple[str, ...]) -> dict[str, list[str]]:
    """Which of the searched modules export a name."""
    exports: dict[str, list[str]] = {}
    for module_name in (*COMMON_MODULES, *granted):
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        public = getattr(module, "__all__", None) or [word for word in vars(module) if not word.startswith("_")]
        for name in public:
            if name not in AMBIGUOUS_EXPORTS and not isinstance(getattr(module, name, None), ModuleType):
                exports.setdefault(name, []).append(module_name)
    return exports


def _fits(value: Any, use: Occurrence) -> bool:
    match use.how:
        case "call" | "raise":
            return callable(value) and _takes(value, use.arity)
        case "attribute":
            return use.attribute is not None and hasattr(value, use.attribute)
        case "function":
            return callable(value)
        case "type" | "base":
            return not isinstance(value, ModuleType)
        case _:  # only read: a constant such as pi; a function or module would hide a misspelt variable
            return not callable(value) and not isinstance(value, ModuleType)


def _takes(value: Any, arity: int | None) -> bool:
    if arity is None:
        return True
    import inspect  # imported lazily: few programs need it

    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return True  # a C function without a signature
    try:
        signature.bind(*range(arity))
    except TypeError:
        return False
    return True
