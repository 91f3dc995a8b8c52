"""Answers that are SQL queries: one SELECT, checked by the database engine, and run if there is a database.

The database is opened read-only. A query is one statement that can only read, and has no access to other files or
extensions. A separate process (querying.py) limits the rows, their size, time and memory. Supports SQLite, and DuckDB
if its package is installed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..emulator.replies import unfenced
from ..emulator.types import Misfit
from ..errors import InputError
from ..sandbox.packages import is_installed
from ..values.codec import brief, decode
from .file_inspection import fenced
from .isolated import run_isolated

MAX_ROWS = 1000
MAX_SECONDS = 10.0
MAX_BYTES = 5_000_000
MAX_MEMORY_BYTES = 2 * 1024**3
_MAX_SCHEMA_CHARS = 8000
_MAX_QUERY_CHARS = 20_000
_START = re.compile(r"(?:\s|--[^\n]*\n|/\*(?>.*?\*/))*+(?:SELECT|WITH|VALUES)\b", re.S | re.I)


class Query:
    """An answer that is one SELECT: its text, or its rows in a database."""

    def __init__(self, database: str | Path | None) -> None:
        self._path = None if database is None else Path(database).absolute()
        self._engine = "SQLite" if self._path is None else engine_of(self._path)
        self.words = "one SQL statement that only reads (SELECT or WITH), as text, in the syntax of SQLite"
        self.schema = ""  # the tables of the database, as the model sees them
        if self._path is not None:
            self.schema = self._tables()
            self.words = (
                f"one SQL statement that only reads (SELECT or WITH), as text, for this {self._engine} database. "
                f"It is run for you; its rows, {MAX_ROWS:,} at most, are what is wanted:\n{self.schema}\n"
            )

    def _tables(self) -> str:
        outcome = self._carry_out(None)
        schema = outcome.get("schema", "")
        if not schema:
            raise InputError(
                f"{self._path} has no tables" if "schema" in outcome else f"{self._path}: {outcome['error']}"
            )
        return fenced(schema if len(schema) <= _MAX_SCHEMA_CHARS else schema[:_MAX_SCHEMA_CHARS] + "\n…")

    def read(self, value: Any) -> Any:
        query = _one_statement(value)
        outcome = self._carry_out(query)
        if "rows" not in outcome:
            raise Misfit(f"{brief(query, 300)} fails: {outcome['error']}")
        return query if self._path is None else decode(outcome["rows"])

    def _carry_out(self, query: str | None) -> dict[str, Any]:
        """Run a query, or list the tables (None), in a process with limits."""
        job = {
            "engine": self._engine,
            "path": None if self._path is None else str(self._path),
            "query": query,
            "rows": MAX_ROWS,
            "bytes": MAX_BYTES,
        }
        outcome = run_isolated("methods.querying", job, seconds=MAX_SECONDS, memory=MAX_MEMORY_BYTES)
        if "unreadable" in outcome:
            raise InputError(f"cannot read the database {self._path}: {outcome['unreadable']}")
        return outcome


def _one_statement(value: Any) -> str:
    import sqlite3  # on use, for start-up time

    if not isinstance(value, str):
        raise Misfit(f"{brief(value, 100)} is not the text of an SQL statement")
    query = unfenced(value).strip().rstrip(";").strip()
    if not query or len(query) > _MAX_QUERY_CHARS:
        raise Misfit(f"a statement has from 1 to {_MAX_QUERY_CHARS:,} characters, not {len(query):,}")
    if _START.match(query) is None:
        raise Misfit(f"{brief(query, 100)} is not a statement that only reads")
    ends = [place for place, letter in enumerate(query) if letter == ";"]
    if any(sqlite3.complete_statement(query[: place + 1]) for place in ends[:1000]):
        raise Misfit(f"{brief(query, 100)} is more than one statement")
    return query


def engine_of(path: Path) -> str:
    """Return which engine made a database file."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise InputError(f"cannot read the database {path}: {error.strerror}") from None
    if head.startswith(b"SQLite format 3\0"):
        return "SQLite"
    if head[8:12] != b"DUCK":
        raise InputError(f"{path} is not a SQLite or DuckDB database")
    if not is_installed("duckdb"):
        raise InputError(f"{path} is a DuckDB database: pip install 'chainofcode[duckdb]' (or pip install duckdb)")
    return "DuckDB"
