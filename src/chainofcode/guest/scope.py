"""The program's variables as a model should see them at a pause: those the line reads first, readable and bounded.

Unlike the watcher's texts these show the fields of dataclasses and the first rows of arrays and frames; like them they
never run the program's own code. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import FrameType, FunctionType, GetSetDescriptorType, ModuleType

from .holes import Hole
from .link import clean
from .promises import is_promise
from .values import Record, brief, type_name
from .watch import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_VALUE_CHARS = 400
MAX_STATE_CHARS = 3000
_TABLES = (("numpy", "ndarray"), ("pandas", "DataFrame"), ("pandas", "Series"))
_UNTOLD = (ModuleType, FunctionType, type(len), type, Hole)


def state(frame: FrameType | None, reads: Collection[str], hidden: Collection[str]) -> dict[str, str]:
    """Names in sight and their values as text, until there is enough."""
    told: dict[str, str] = {}
    if frame is None:
        return told
    seen = {**frame.f_globals, **names_of(frame)} if frame.f_code.co_name != "<module>" else frame.f_globals
    names = [name for name in reads if name in seen] + [name for name in seen if name not in reads]
    left = MAX_STATE_CHARS
    for name in names:
        value = seen[name]
        if name in hidden or name.startswith(("__", "$")) or _says_nothing(value) or is_promise(value):
            continue
        told[name] = clean(readable(value), MAX_VALUE_CHARS + 100)
        left -= len(name) + len(told[name])
        if left < 0:
            break
    return told


def _says_nothing(value: object) -> bool:
    return issubclass(type(value), _UNTOLD)


def readable(value: Any) -> str:
    kind = type(value)
    for module, name in _TABLES:
        if module in sys.modules and kind is getattr(sys.modules[module], name, None):
            return f"{name} of shape {value.shape}:\n{repr(value)[:MAX_VALUE_CHARS]}"
    if kind in (list, tuple) and 0 < len(value) <= 10 and any(_fields(item) is not None for item in value):
        return f"[{', '.join(_one(item) for item in value)}]"[:MAX_VALUE_CHARS]
    return _one(value)


def _one(value: Any) -> str:
    fields = _fields(value)
    if fields is None:
        return brief(value, MAX_VALUE_CHARS)
    return f"{type_name(value)}({', '.join(f'{key}={brief(item, 100)}' for key, item in fields.items())})"


def _fields(value: object) -> dict[str, Any] | None:
    """The fields of a dataclass, or of any plain object of the program's, without running a property of its class."""
    kind = type(value)
    if kind is Record or _namespace(kind).get("__module__") != "__main__":
        return None
    for base in type.__dict__["__mro__"].__get__(kind):
        kept = _namespace(base).get("__dict__")
        if type(kept) is GetSetDescriptorType:
            return dict(kept.__get__(value))
    return None


def _namespace(kind: type) -> Any:
    return type.__dict__["__dict__"].__get__(kind)
