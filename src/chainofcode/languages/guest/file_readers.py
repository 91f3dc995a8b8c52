"""Reads files into variables, inside the guest, before the program's first statement. Standard library only."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable

from ...values.cells import Column
from .sqlite_files import open_sqlite

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


class FileError(ValueError):
    """A file cannot be read as the kind that its name indicates."""


def read_file(path: str, kind: str, separator: str) -> Any:
    try:
        return _READERS[kind](path, separator)
    except MemoryError:
        raise
    except Exception as error:  # pandas and its parsers raise exceptions of every type
        message = " ".join(str(error).split())[:300]
        raise FileError(f"cannot read {os.path.basename(path)}: {type(error).__name__}: {message}") from None


def _rows(path: str, separator: str) -> list[dict[str, Any]]:
    """Read a table as dicts; a column of numbers, truth values or dates has such values, and None for empty cells."""
    import csv

    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=separator)
        header = next(reader, [])
        rows = [row for row in reader if row]
    columns = [Column() for _ in header]
    for row in rows:
        for column, cell in zip(columns, row, strict=False):
            column.add(cell)
    missing = [None] * len(header)
    return [dict(zip(header, [*map(Column.value, columns, row), *missing[len(row) :]], strict=False)) for row in rows]


def _database(path: str, separator: str) -> Any:
    """Open an SQLite database. `immutable`: the program cannot create the files that locking needs."""
    return open_sqlite(path)


def _text(path: str, separator: str) -> str:
    with open(path, encoding="utf-8-sig") as file:
        return file.read()


def _json(path: str, separator: str) -> Any:
    import json

    return json.loads(_text(path, ""))


def _lines(path: str, separator: str) -> list[Any]:
    import json

    with open(path, encoding="utf-8-sig") as file:
        return [json.loads(line) for line in file if line.strip()]


def _pandas() -> Any:
    return importlib.import_module("pandas")


_READERS: dict[str, Callable[[str, str], Any]] = {
    "rows": _rows,
    "database": _database,
    "table": lambda path, separator: _pandas().read_csv(path, sep=separator, encoding="utf-8-sig"),
    "parquet": lambda path, separator: _pandas().read_parquet(path),
    "excel": lambda path, separator: _pandas().read_excel(path),
    "json": _json,
    "lines": _lines,
    "text": _text,
    "path": lambda path, separator: path,
}
