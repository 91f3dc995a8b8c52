"""Files as tables for SQLite: CSV with typed columns, JSON, JSON lines. Standard library only.

A column is int, float, bool, date or timestamp if all its cells are; in doubt it is text. Empty cells are NULL.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ....values.arrays import numbered
from .engine import QueryError, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_COLUMNS = 1000
_MAX_FIELD_CHARS = 100_000_000
# DuckDB uses the same patterns (`duck_engine`), so that both engines see the same types.
PATTERNS = {
    "int": r"[+-]?(0|[1-9][0-9]{0,17})",
    "float": r"[+-]?((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?",
    "bool": r"[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?",
}
_MATCHES = {kind: re.compile(pattern).fullmatch for kind, pattern in PATTERNS.items()}


@dataclass
class TypedRows:
    """Columns with their types, and a function that yields the rows."""

    columns: list[tuple[str, str]]
    rows: Callable[[], Iterator[Sequence[Any]]]


def read_table(path: str, kind: str, separator: str) -> TypedRows:
    """Read a file. Raises QueryError for one that is not a table."""
    try:
        if kind == "rows":
            return _csv(path, separator or ",")
        return _records(_lines(path) if kind == "lines" else _json(path), path)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, RecursionError) as error:
        raise QueryError(f"cannot read {os.path.basename(path)}: {error}") from None


def column_names(names: Sequence[str]) -> list[str]:
    """Return names that are not empty and not repeated."""
    if len(names) > MAX_COLUMNS:
        raise ValueError(f"it has {len(names):,} columns; the limit is {MAX_COLUMNS:,}")
    found = numbered([name.strip() or f"column{number}" for number, name in enumerate(names, 1)])
    return [str(name) for name in found]


def _csv(path: str, separator: str) -> TypedRows:
    csv.field_size_limit(_MAX_FIELD_CHARS)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=separator)
        names = column_names(next(reader, []))
        if not names:
            raise ValueError("it is empty: the first line of a CSV file must name the columns")
        kinds = _kinds(reader, len(names))

    def rows() -> Iterator[Sequence[Any]]:
        converted = [_CONVERSIONS.get(kind) for kind in kinds]
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=separator)
            next(reader)
            for row in reader:
                if row:
                    cells = row + [""] * (len(names) - len(row))
                    yield [_cell(cell, convert) for cell, convert in zip(cells, converted, strict=True)]

    return TypedRows(list(zip(names, kinds, strict=True)), rows)


def _cell(cell: str, convert: Callable[[str], Any] | None) -> Any:
    if not cell:
        return None
    return cell if convert is None else convert(cell)


_CONVERSIONS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda cell: int(cell.lower() == "true"),
}


def _kinds(reader: Any, width: int) -> list[str]:
    """Return the type of each column: the first that all its cells have."""
    possible: list[list[str]] = [list(PATTERNS) for _ in range(width)]
    is_empty = [True] * width
    for row in reader:
        if len(row) > width:
            raise ValueError(f"line {reader.line_num} has {len(row)} cells; the first line has {width}")
        for number, cell in enumerate(row):
            kinds = possible[number]
            if cell and (kinds or is_empty[number]):
                is_empty[number] = False
                possible[number] = kinds if kinds and _is(kinds[0], cell) and len(kinds) == 1 else _left(kinds, cell)
    return ["text" if empty or not kinds else kinds[0] for kinds, empty in zip(possible, is_empty, strict=True)]


def _left(kinds: list[str], cell: str) -> list[str]:
    return [kind for kind in kinds if _is(kind, cell)]


def _is(kind: str, cell: str) -> bool:
    if _MATCHES[kind](cell) is None:
        return False
    if kind in ("date", "timestamp"):
        try:
            datetime.datetime.fromisoformat(cell)
        except ValueError:
            return False
    return True


def _json(path: str) -> list[Any]:
    with open(path, encoding="utf-8-sig") as file:
        read = json.load(file)
    if not isinstance(read, list):
        raise ValueError("a table in JSON must be a list of objects")
    return read


def _lines(path: str) -> list[Any]:
    with open(path, encoding="utf-8-sig") as file:
        return [json.loads(line) for line in file if line.strip()]


def _records(records: list[Any], path: str) -> TypedRows:
    names: dict[str, set[type]] = {}
    for record in records:
        if not isinstance(record, dict):
            raise ValueError(f"each row of a table in JSON must be an object, not {type(record).__name__}")
        for name, value in record.items():
            names.setdefault(name, set()).add(type(value))
    if not names:
        raise ValueError("it has no columns")
    kinds = [_json_kind(found - {type(None)}) for found in names.values()]
    shown = column_names(list(names))

    def rows() -> Iterator[Sequence[Any]]:
        for record in records:
            yield [_plain(record.get(name)) for name in names]

    return TypedRows(list(zip(shown, kinds, strict=True)), rows)


def _json_kind(types: set[type]) -> str:
    if types == {bool}:
        return "bool"
    if types == {int}:
        return "int"
    return "float" if types and types <= {int, float} else "text"


def _plain(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return to_text(value) if isinstance(value, (list, dict)) else value
