"""Runs one SQL query in a separate process: only the kernel can end a query inside a database function.

No third-party packages, except DuckDB for its own databases.
"""

from __future__ import annotations

import importlib
import json
import os
from urllib.parse import quote

from ..platforms import end_after
from ..values.arrays import numbered
from ..values.codec import encode
from .job_process import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_MAX_CELL_BYTES = 1_000_000
_UNKNOWN = ("no such table", "no such column", "no such function")  # errors that mean nothing without a database
_AS_PART = "EXPLAIN SELECT * FROM (\n{}\n)"  # only a query parses there
_SQLITE_TABLES = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
_DUCK_TABLES = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal"


class _Failed(Exception):
    """A query that fails, and why."""


def main() -> None:
    carry_out(_queried)


def _queried(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return (_duck if job["engine"] == "DuckDB" else _sqlite)(job)
    except _Failed as error:
        return {"error": str(error)}


def _sqlite(job: dict[str, Any]) -> dict[str, Any]:
    import sqlite3  # on use, for start-up time

    path, query = job["path"], job["query"]
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    try:
        connection = sqlite3.connect(_address(path), uri=True)
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        if query is None:
            return {"schema": "\n".join(f"{sql};" for (sql,) in connection.execute(_SQLITE_TABLES) if sql)}
    except sqlite3.Error as error:
        return {"unreadable": str(error)}
    connection.set_authorizer(lambda what, *_: sqlite3.SQLITE_OK if what in reading else sqlite3.SQLITE_DENY)
    try:
        with end_after(job["seconds"]):
            connection.execute(_AS_PART.format(query))
            return {"rows": [] if path is None else _rows(connection.execute(query), job)}
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        if path is None and str(error).startswith(_UNKNOWN):
            return {"rows": []}
        raise _Failed(str(error)) from None


def _address(path: str | None) -> str:
    """Return the SQLite URI of a file, opened read-only, or of an empty database."""
    if path is None:
        return "file::memory:"
    with open(path, "rb") as file:
        has_log = file.read(20)[18:] == b"\2\2"
    # A database in WAL mode that has no log now: opening it normally would create one.
    is_quiet = has_log and not os.path.exists(f"{path}-wal")
    return f"file:{quote(path)}?mode=ro{'&immutable=1' if is_quiet else ''}"


def _duck(job: dict[str, Any]) -> dict[str, Any]:
    duckdb: Any = importlib.import_module("duckdb")
    settings = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "memory_limit": f"{job['memory'] // 2}B",
        "temp_directory": "",
        "threads": "2",
    }
    query = job["query"]
    try:
        connection = duckdb.connect(job["path"], read_only=True, config=settings)
        if query is None:
            listed = connection.execute(_DUCK_TABLES).fetchall()
            return {"schema": "\n".join(sql for (sql,) in listed if sql)}
    except duckdb.Error as error:
        return {"unreadable": _first_line(error)}
    try:
        with end_after(job["seconds"]):
            if len(connection.extract_statements(query)) != 1:
                raise _Failed("it is more than one statement")
            connection.execute(_AS_PART.format(query))
            return {"rows": _rows(connection.execute(query), job)}
    except duckdb.Error as error:
        raise _Failed(_first_line(error)) from None


def _rows(cursor: Any, job: dict[str, Any]) -> list[Any]:
    names = numbered([column[0] for column in cursor.description])
    rows: list[Any] = []
    left = job["bytes"]
    while (row := cursor.fetchone()) is not None:
        if len(rows) == job["rows"]:
            raise _Failed(f"it returns over {len(rows):,} rows; select fewer, or add LIMIT {len(rows)}")
        is_long = sum(len(cell) for cell in row if isinstance(cell, (str, bytes))) > left
        if not is_long:
            rows.append(encode(dict(zip(names, row, strict=True))))
            left -= len(json.dumps(rows[-1]))
        if is_long or left < 0:
            raise _Failed(f"its rows have over {job['bytes']:,} bytes; select less")
    return rows


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
