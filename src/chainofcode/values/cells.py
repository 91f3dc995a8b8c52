"""Infer the types of text columns: integers, decimals, booleans, dates; text if in doubt.

A CSV file has no types. Host and guest infer them in the same way, so that the model sees the types of the program.
Standard library only.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

# No leading zeros and at most 18 digits: `007` and card numbers are identifiers, not numbers.
_WHOLE = r"[+-]?(?:0|[1-9][0-9]{0,17})"
_PATTERNS = {
    "int": re.compile(_WHOLE),
    "float": re.compile(rf"(?:{_WHOLE}(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:[eE][+-]?[0-9]{{1,3}})?"),
    "bool": re.compile(r"true|false", re.IGNORECASE),
    "date": re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"),
    "datetime": re.compile(
        r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?"
    ),
}
_VALUE_OF: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() == "true",
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}
_MAX_CELL_CHARS = 40  # of a number or a date
_MAX_SHOWN, _MAX_SHOWN_CHARS = 5, 30


class Column:
    """Finds the type that all cells of a column fit. Empty cells fit every type; they are None unless it is text."""

    def __init__(self) -> None:
        self._kinds = list(_PATTERNS)
        self._count = 0
        self._least: Any = None
        self._most: Any = None
        self._some: list[str] = []  # the first few distinct strings

    def add(self, cell: str) -> None:
        text = cell.strip()
        if not text:
            return
        self._count += 1
        if self._kinds:
            self._kinds = [kind for kind in self._kinds if _fits(kind, text)]
            if self._kinds:
                self._extend(_VALUE_OF[self._kinds[0]](text))
        if len(self._some) <= _MAX_SHOWN and text[: _MAX_SHOWN_CHARS + 1] not in self._some:
            self._some.append(text[: _MAX_SHOWN_CHARS + 1])

    def _extend(self, value: Any) -> None:
        self._least = value if self._least is None else min(self._least, value)
        self._most = value if self._most is None else max(self._most, value)

    @property
    def kind(self) -> str:
        return self._kinds[0] if self._kinds and self._count else "str"

    def value(self, cell: str) -> Any:
        """Return the value of a cell. All cells must have been added."""
        kind = self.kind
        if kind == "str":
            return cell
        text = cell.strip()
        return _VALUE_OF[kind](text) if text else None

    def description(self, names: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the type with the range, or with some examples, for people and models. `names` replaces type names."""
        kind = names.get(self.kind, self.kind)
        if self.kind == "str":
            shown = [repr(text) for text in self._some[:_MAX_SHOWN] if len(text) <= _MAX_SHOWN_CHARS]
            more = ", …" if shown and len(shown) < len(self._some) else ""
            return f"{kind}: {', '.join(shown)}{more}" if shown else kind
        if self.kind == "bool":
            return kind
        of_kind = float if self.kind == "float" else lambda value: value  # the first values may have been integers
        return f"{kind}, {of_kind(self._least)} to {of_kind(self._most)}"


def _fits(kind: str, text: str) -> bool:
    if len(text) > _MAX_CELL_CHARS or _PATTERNS[kind].fullmatch(text) is None:
        return False
    if kind in ("date", "datetime"):  # 2023-02-30 matches the pattern
        try:
            _VALUE_OF[kind](text)
        except ValueError:
            return False
    return True
