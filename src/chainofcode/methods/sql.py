"""Answers that are queries: one SELECT, checked by the engine that would run it, and run where there is a database.

Covered: a database is opened read-only; nothing but reading is authorised, no second statement, no other file, no
extension; rows, their size and the time they take are bounded. SQLite, and DuckDB where its package is installed.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from ..emulator.types import Misfit
from ..errors import InputError
from ..guest.values import brief

MAX_ROWS = 1000
MAX_SECONDS = 10.0
_MAX_CELL_BYTES = 1_000_000
_MAX_SCHEMA_CHARS = 8000
_MAX_QUERY_CHARS = 20_000
_FENCED = re.compile(r"\s*```\w*\n(.*?)(?:```\s*|\Z)", re.S)
_START = re.compile(r"(?:\s|--[^\n]*\n|/\*(?>.*?\*/))*+(?:SELECT|WITH|VALUES)\b", re.S | re.I)
_UNKNOWN = ("no such table", "no such column", "no such function")  # without a database nobody can know
_AS_PART = "EXPLAIN SELECT * FROM (\n{}\n)"  # no statement that does anything else parses there
_OPS_BETWEEN_LOOKS = 10_000
Rows = list[dict[str, Any]]


class _Engine(Protocol):
    name: str

    def schema(self) -> str:
        """The statements that made its tables. Raises InputError where it is none of this engine's."""

    def run(self, query: str) -> Rows:
        """Its rows. Raises Misfit, for the model to read."""


class Query:
    """An answer that is one SELECT: its text, or its rows in a database."""

    def __init__(self, database: str | Path | None) -> None:
        self._engine = None if database is None else _engine(Path(database))
        self.words = "one SQL statement that only reads (SELECT or WITH), as text, in the syntax of SQLite"
        if self._engine is not None:
            schema = self._engine.schema()
            if not schema:
                raise InputError(f"{database} has no tables")
            cut = schema if len(schema) <= _MAX_SCHEMA_CHARS else schema[:_MAX_SCHEMA_CHARS] + "\n…"
            self.words = (
                f"one SQL statement that only reads (SELECT or WITH), as text, for this {self._engine.name} database. "
                f"It is run for you; its rows, {MAX_ROWS:,} at most, are what is wanted:\n{cut}\n"
            )

    def read(self, value: Any) -> Any:
        query = _one_statement(value)
        if self._engine is None:
            _Sqlite(None).check(query)
            return query
        return self._engine.run(query)


def _one_statement(value: Any) -> str:
    import sqlite3

    if not isinstance(value, str):
        raise Misfit(f"{brief(value, 100)} is no text of an SQL statement")
    fenced = _FENCED.fullmatch(value)
    query = (fenced[1] if fenced is not None else value).strip().rstrip(";").strip()
    if not query or len(query) > _MAX_QUERY_CHARS:
        raise Misfit(f"a statement has from 1 to {_MAX_QUERY_CHARS:,} characters, not {len(query):,}")
    if _START.match(query) is None:
        raise Misfit(f"{brief(query, 100)} is no statement that only reads")
    ends = [place for place, letter in enumerate(query) if letter == ";"]
    if any(sqlite3.complete_statement(query[: place + 1]) for place in ends[:1000]):
        raise Misfit(f"{brief(query, 100)} is more than one statement")
    return query


def _engine(path: Path) -> _Engine:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise InputError(f"cannot read the database {path}: {error.strerror}") from None
    if head.startswith(b"SQLite format 3\0"):
        return _Sqlite(path)
    if head[8:12] == b"DUCK":
        return _Duck(path)
    raise InputError(f"{path} is no database of SQLite or DuckDB")


class _Sqlite:
    name = "SQLite"

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def _connect(self) -> Any:
        import sqlite3
        from urllib.parse import quote

        place = ":memory:" if self._path is None else f"file:{quote(str(self._path.absolute()))}?mode=ro"
        connection = sqlite3.connect(place, uri=self._path is not None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    def schema(self) -> str:
        import contextlib
        import sqlite3

        listed = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        try:
            with contextlib.closing(self._connect()) as connection:
                return "\n".join(f"{sql};" for (sql,) in connection.execute(listed) if sql)
        except sqlite3.Error as error:
            raise InputError(f"cannot read the database {self._path}: {error}") from None

    def check(self, query: str) -> None:
        """Whether it parses. Raises Misfit."""
        self._carry_out(query, is_run=False)

    def run(self, query: str) -> Rows:
        return self._carry_out(query, is_run=True)

    def _carry_out(self, query: str, *, is_run: bool) -> Rows:
        import contextlib
        import sqlite3

        reading = (
            sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
        )  # fmt: skip
        deadline = time.monotonic() + MAX_SECONDS
        with contextlib.closing(self._connect()) as connection:
            connection.set_authorizer(lambda what, *_: sqlite3.SQLITE_OK if what in reading else sqlite3.SQLITE_DENY)
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPS_BETWEEN_LOOKS)
            try:
                connection.execute(_AS_PART.format(query))
                return _rows(connection.execute(query)) if is_run else []
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                if self._path is None and str(error).startswith(_UNKNOWN):
                    return []
                late = f"it took over {MAX_SECONDS:g} seconds" if time.monotonic() > deadline else str(error)
                raise Misfit(f"{brief(query, 300)} fails: {late}") from None


class _Duck:
    name = "DuckDB"

    def __init__(self, path: Path) -> None:
        try:
            import duckdb
        except ImportError:
            raise InputError(f"{path} is a database of DuckDB: pip install duckdb") from None
        self._path, self._duckdb = path, duckdb

    def _connect(self) -> Any:
        settings: dict[str, Any] = {
            "enable_external_access": "false",
            "lock_configuration": "true",
            "memory_limit": "1GB",
        }
        try:
            return self._duckdb.connect(str(self._path), read_only=True, config=settings)
        except self._duckdb.Error as error:
            raise InputError(f"cannot read the database {self._path}: {_first_line(error)}") from None

    def schema(self) -> str:
        listed = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal"
        with self._connect() as connection:
            return "\n".join(sql for (sql,) in connection.execute(listed).fetchall() if sql)

    def run(self, query: str) -> Rows:
        with self._connect() as connection:
            bell = threading.Timer(MAX_SECONDS, connection.interrupt)
            bell.start()
            try:
                connection.execute(_AS_PART.format(query))
                return _rows(connection.execute(query))
            except self._duckdb.Error as error:
                raise Misfit(f"{brief(query, 300)} fails: {_first_line(error)}") from None
            finally:
                bell.cancel()


def _rows(cursor: Any) -> Rows:
    """Rows by the names of their columns; a name that comes again has a number."""
    names: list[str] = []
    for column in cursor.description:
        taken = sum(name == column[0] or name.startswith(f"{column[0]}_") for name in names)
        names.append(f"{column[0]}_{taken + 1}" if column[0] in names else column[0])
    rows = cursor.fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise Misfit(f"the query gives over {MAX_ROWS:,} rows; ask for less, or say LIMIT {MAX_ROWS}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
