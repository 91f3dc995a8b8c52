"""Answers requests about DuckDB databases. Standard library, and the granted package duckdb."""

from __future__ import annotations

import importlib

from .outcomes import AS_PART, QueryFailure, first_line, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_SCHEMA = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal"
_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
    "temp_directory": "",
    "threads": "2",
}


def duckdb_result(path: str, request: dict[str, Any]) -> dict[str, Any]:
    duckdb: Any = importlib.import_module("duckdb")
    settings = {**_SETTINGS, "memory_limit": f"{request['memory'] // 2}B"}
    try:
        connection = duckdb.connect(path, read_only=True, config=settings)
        if request["wanted"] == "schema":
            return {"schema": "\n".join(sql for (sql,) in connection.execute(_SCHEMA).fetchall() if sql)}
    except duckdb.Error as error:
        return {"unreadable": first_line(error)}
    query = request["query"]
    try:
        if len(connection.extract_statements(query)) != 1:
            raise QueryFailure("it is more than one statement")
        connection.execute(AS_PART.format(query))
        return {"rows": rows_of(connection.execute(query), request)}
    except duckdb.Error as error:
        raise QueryFailure(first_line(error)) from None
