"""What engines have in common: errors with a place, quoting, and values as text. Standard library only."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    class Engine(Protocol):
        """A database engine in the guest."""

        def functions(self) -> tuple[frozenset[str], frozenset[str]]: ...
        def load(self, name: str, path: str, kind: str, separator: str) -> None: ...
        def tables(self) -> list[tuple[str, int]]: ...
        def seal(self) -> None: ...
        def define(self, name: str, function: Callable[..., Any], kind: str, *, is_bare: bool = False) -> None: ...
        def check(self, text: str, functions: Mapping[str, str], bare: Collection[str] = ()) -> list[str]: ...
        def run(self, text: str) -> tuple[list[str], Iterator[Sequence[Any]]]: ...
        def value(self, value: Any) -> Any: ...


class QueryError(Exception):
    """A query failed, or a file cannot be read; with the place in the query, if it is known."""

    def __init__(self, message: str, offset: int | None = None, kind: str = "QueryError") -> None:
        super().__init__(message)
        self.offset, self.kind = offset, kind


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def to_text(value: Any) -> str:
    """Return a value that SQL has no type for as text, in JSON if possible."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
