"""Answers that are SQL queries: one SELECT, checked by the database engine, and run if there is a database.

The database is opened read-only, in a guest (`databases`). A query is one statement that can only read, and has no
access to other files or extensions. Its rows, their size, time and memory are limited. Supports SQLite, and DuckDB if
its package is installed. Without a database, a worker process checks the syntax.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..emulator.replies import unfenced
from ..emulator.types import Misfit
from ..errors import InputError
from ..sandbox import Sandbox
from ..values.codec import brief
from .databases import engine_of, read_database
from .file_inspection import fenced
from .isolated import run_cancellable, run_isolated

MAX_ROWS = 1000
MAX_SECONDS = 10.0
MAX_BYTES = 5_000_000
MAX_MEMORY_BYTES = 2 * 1024**3
_MAX_SCHEMA_CHARS = 8000
_MAX_QUERY_CHARS = 20_000
_START = re.compile(r"(?:\s|--[^\n]*\n|/\*(?>.*?\*/))*+(?:SELECT|WITH|VALUES)\b", re.S | re.I)


class Query:
    """An answer that is one SELECT: its text, or its rows in a database, which guests of `sandbox` read."""

    def __init__(self, database: str | Path | None, sandbox: Sandbox | str = "auto") -> None:
        self._path = None if database is None else Path(database).absolute()
        self._sandbox = sandbox
        self.words = "one SQL statement that only reads (SELECT or WITH), as text, in the syntax of SQLite"
        if self._path is not None:
            engine, schema = engine_of(self._path), run_cancellable(schema_of(self._path, sandbox))
            self.words = (
                f"one SQL statement that only reads (SELECT or WITH), as text, for this {engine} database. "
                f"It is run for you; its rows, {MAX_ROWS:,} at most, are what is wanted:\n{schema}\n"
            )

    def read(self, value: Any) -> Any:
        query = _one_statement(value)
        if self._path is None:
            job = {"path": None, "query": query}
            outcome = run_isolated("methods.querying", job, seconds=MAX_SECONDS, memory=MAX_MEMORY_BYTES)
            outcome.setdefault("rows", query)
        else:
            outcome = run_cancellable(_rows_of(self._path, query, self._sandbox))
        if "error" in outcome:
            raise Misfit(f"{brief(query, 300)} fails: {outcome['error']}")
        return outcome["rows"]


async def schema_of(path: Path, sandbox: Sandbox | str) -> str:
    """Return the tables of a database as the model sees them. Raises InputError if there are none."""
    request = {"wanted": "schema"}
    outcome = await read_database(path, request, sandbox, seconds=MAX_SECONDS, memory=MAX_MEMORY_BYTES)
    if "error" in outcome:
        raise InputError(f"{path}: {outcome['error']}")
    schema: str = outcome["schema"]
    if not schema:
        raise InputError(f"{path} has no tables")
    return fenced(schema if len(schema) <= _MAX_SCHEMA_CHARS else schema[:_MAX_SCHEMA_CHARS] + "\n…")


async def _rows_of(path: Path, query: str, sandbox: Sandbox | str) -> dict[str, Any]:
    request = {"wanted": "rows", "query": query, "rows": MAX_ROWS, "bytes": MAX_BYTES}
    outcome = await read_database(path, request, sandbox, seconds=MAX_SECONDS, memory=MAX_MEMORY_BYTES)
    rows = outcome.get("rows")
    if "error" not in outcome and not (isinstance(rows, list) and len(rows) <= MAX_ROWS):
        return {"error": "its result is malformed"}
    return outcome


def _one_statement(value: Any) -> str:
    import sqlite3  # on use, for start-up time

    if not isinstance(value, str):
        raise Misfit(f"{brief(value, 100)} is not the text of an SQL statement")
    query = unfenced(value).strip().rstrip(";").strip()
    if not query or len(query) > _MAX_QUERY_CHARS:
        raise Misfit(f"a statement has from 1 to {_MAX_QUERY_CHARS:,} characters, not {len(query):,}")
    if "\0" in query or any("\ud800" <= letter <= "\udfff" for letter in query):
        raise Misfit(f"{brief(query, 100)} has characters that no statement has")
    if _START.match(query) is None:
        raise Misfit(f"{brief(query, 100)} is not a statement that only reads")
    ends = [place for place, letter in enumerate(query) if letter == ";"]
    if any(sqlite3.complete_statement(query[: place + 1]) for place in ends[:1000]):
        raise Misfit(f"{brief(query, 100)} is more than one statement")
    return query
