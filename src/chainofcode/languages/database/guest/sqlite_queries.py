"""Answers requests about SQLite databases. Standard library only."""

from __future__ import annotations

import sqlite3

from ....values.brief import brief
from ...guest.sqlite_files import allow_only_reading, distrust, open_sqlite
from .outcomes import AS_PART, CELL_BYTES, QueryFailure, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_SCHEMA = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
_UNKNOWN = ("no such table", "no such column", "no such function")  # errors that mean nothing without a database
_NAME_CHARS = 200


def sqlite_result(path: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        connection = open_sqlite(path, has_log=request["has_log"])
        if request["wanted"] == "tables":
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL_BYTES)
            return _tables(connection, request)
        if request["wanted"] == "schema":
            allow_only_reading(connection, cell_bytes=CELL_BYTES)
            return {"schema": "\n".join(f"{sql};" for (sql,) in connection.execute(_SCHEMA) if sql)}
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return {"unreadable": str(error)}
    return {"rows": _rows(connection, request)}


def syntax_problem(query: str) -> str:
    """Return the error in a query without a database, or an empty text. Unknown names may exist in a database."""
    connection = sqlite3.connect(":memory:")
    distrust(connection)
    try:
        allow_only_reading(connection, cell_bytes=CELL_BYTES)
        connection.execute(AS_PART.format(query))
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return "" if str(error).startswith(_UNKNOWN) else str(error)
    return ""


def _rows(connection: sqlite3.Connection, request: dict[str, Any]) -> list[dict[str, Any]]:
    allow_only_reading(connection, cell_bytes=CELL_BYTES)
    try:
        connection.execute(AS_PART.format(request["query"]))
        return rows_of(connection.execute(request["query"]), request)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise QueryFailure(str(error)) from None


def _tables(connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
    """Describe the first tables: their columns, their number of rows, and their first rows as short text."""
    names = [name for (name,) in connection.execute(_TABLES)]
    shown = names[: request["tables"]]
    columns = {name: _columns(connection, name) for name in shown}
    allow_only_reading(connection, cell_bytes=CELL_BYTES)
    return {
        "count": len(names),
        "tables": [[name, columns[name], *_content(connection, name, request)] for name in shown],
    }


def _columns(connection: sqlite3.Connection, name: str) -> list[list[str]]:
    """Return the names and types of columns, cut to a length."""
    found = connection.execute(f"PRAGMA table_info({_quote(name)})")
    return [[str(column)[:_NAME_CHARS], str(kind)[:_NAME_CHARS]] for _, column, kind, *_ in found]


def _content(connection: sqlite3.Connection, name: str, request: dict[str, Any]) -> tuple[int, list[str]]:
    ((count,),) = connection.execute(f"SELECT count(*) FROM {_quote(name)}")  # noqa: S608
    rows = connection.execute(f"SELECT * FROM {_quote(name)} LIMIT {int(request['rows'])}")  # noqa: S608
    return count, [brief(row, request["chars"]) for row in rows]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
