"""The program's variables as a model sees them at a pause: as short texts, variables that the line reads first.

Unlike the texts of steps, these show the fields of dataclasses and the first rows of arrays and data frames. No program
code runs. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from types import FrameType, FunctionType, GetSetDescriptorType, ModuleType

from .....values.arrays import class_in, holds_plain_data
from .....values.codec import Record, brief, type_name
from ....guest.link import clean
from ..recursion import is_guest_error
from ..shadow.promises import is_promise
from .holes import Hole
from .places import CO_OPTIMIZED
from .watch import named, names_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_VALUE_CHARS = 400
MAX_STATE_CHARS = 3000
_MAX_ITEMS = 10  # of a list whose items are shown with their fields
_TABLES = (("numpy", "ndarray"), ("pandas", "DataFrame"), ("pandas", "Series"))
_HIDDEN_TYPES = (ModuleType, FunctionType, type(len), type, Hole)


def state(frame: FrameType | None, reads: Collection[str], hidden: Collection[str]) -> dict[str, str]:
    """Return the visible names with their values as text, up to a total length."""
    texts: dict[str, str] = {}
    if frame is None:
        return texts
    seen = _in_sight(frame)
    left = MAX_STATE_CHARS
    for name in dict.fromkeys([*filter(seen.__contains__, reads), *seen]):
        value = seen[name]
        if name in hidden or name.startswith(("__", "$")) or _is_hidden(value):
            continue
        texts[name] = clean(_text(value), MAX_VALUE_CHARS + 100)
        left -= len(name) + len(texts[name])
        if left < 0:
            break
    return texts


def _in_sight(frame: FrameType) -> dict[str, Any]:
    """Return globals and locals, without namespace keys that are not strings."""
    seen = named(frame.f_globals, None)
    own = names_of(frame)
    if not own and frame.f_code.co_flags & CO_OPTIMIZED:  # skipped by `names_of`: reading updates its `locals()`
        own = named(frame.f_locals, None)
    return {**seen, **own}


def _text(value: Any) -> str:
    try:
        return readable(value)
    except Exception as error:
        if not is_guest_error(error):
            raise
        return f"<{type_name(value)}>"


def _is_hidden(value: object) -> bool:
    return issubclass(type(value), _HIDDEN_TYPES) or is_promise(value)


def readable(value: Any) -> str:
    kind = type(value)
    for package, name in _TABLES:
        if kind is class_in(package, name) and holds_plain_data(value):
            return f"{name} of shape {value.shape}:\n{repr(value)[:MAX_VALUE_CHARS]}"
    if kind is list or kind is tuple:
        items = tuple(islice(value, _MAX_ITEMS + 1))
        if len(items) <= _MAX_ITEMS and any(_fields(item) is not None for item in items):
            return f"[{', '.join(_with_fields(item) for item in items)}]"[:MAX_VALUE_CHARS]
    return _with_fields(value)


def _with_fields(value: Any) -> str:
    fields = _fields(value)
    if fields is None:
        return brief(value, MAX_VALUE_CHARS)
    return f"{type_name(value)}({', '.join(f'{key}={brief(item, 100)}' for key, item in fields.items())})"


def _fields(value: object) -> dict[str, Any] | None:
    """Return the fields of an object of a class of the program, without running a property."""
    kind = type(value)
    module = _namespace(kind).get("__module__")
    if kind is Record or type(module) is not str or module != "__main__":
        return None
    for base in type.__dict__["__mro__"].__get__(kind):
        kept = _namespace(base).get("__dict__")
        if type(kept) is GetSetDescriptorType:
            return named(kept.__get__(value), None)
    return None


def _namespace(kind: type) -> Any:
    return type.__dict__["__dict__"].__get__(kind)
