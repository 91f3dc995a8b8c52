"""SQLite as the engine of a query: tables in memory or a read-only database. Standard library only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ...guest.sqlite_files import allow_only_reading, distrust, functions, open_sqlite
from ..compiler.tokens import SyntaxProblem, tokens
from .engine import QueryError, quoted, to_text
from .tables import TypedRows, read_table

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_MAX_CELL_BYTES = 10_000_000
_MAX_ARGUMENTS = 100
_TYPES = {"int": "INTEGER", "float": "REAL", "bool": "BOOLEAN", "date": "TEXT", "timestamp": "TEXT", "text": "TEXT"}
_NEAR = re.compile(r'near "(.+)": syntax error', re.S)
_UNKNOWN = re.compile(
    r"(?:no such (?:column|table|function): |ambiguous column name: |misuse of \w+(?: function)? |to function )(.+)"
    r"|(\w+)\(\) may not be",
    re.S,
)


class SqliteEngine:
    """Runs queries in SQLite, on the loaded tables or the opened database only."""

    def __init__(self, memory_bytes: int, database: str | None = None) -> None:
        self._defined: set[str] = set()
        try:
            self._connection = _open(database)
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise QueryError(f"cannot read the database: {error}") from None

    def functions(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of all functions, and those of aggregate functions."""
        rows = functions()
        return frozenset(name for name, _ in rows), frozenset(name for name, kind in rows if kind in ("a", "w"))

    def load(self, name: str, path: str, kind: str, separator: str) -> None:
        """Load a file into a table."""
        if kind == "parquet":
            raise QueryError("SQLite cannot read Parquet; install DuckDB: pip install 'chainofcode[duckdb]'")
        self._fill(name, read_table(path, kind, separator))

    def _fill(self, name: str, table: TypedRows) -> None:
        columns = ", ".join(f"{quoted(column)} {_TYPES[kind]}" for column, kind in table.columns)
        marks = ", ".join("?" * len(table.columns))
        self._connection.execute("BEGIN")
        self._connection.execute(f"CREATE TEMP TABLE {quoted(name)} ({columns})")
        self._connection.executemany(f"INSERT INTO temp.{quoted(name)} VALUES ({marks})", table.rows())  # noqa: S608
        self._connection.execute("COMMIT")

    def tables(self) -> list[tuple[str, int]]:
        """Return the names of tables with their numbers of rows."""
        names = self._connection.execute(
            "SELECT name FROM sqlite_temp_master WHERE type = 'table' UNION ALL "
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        )
        return [(name, self._count(name)) for (name,) in names.fetchall()]

    def _count(self, name: str) -> int:
        try:
            (count,) = self._connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()  # noqa: S608
        except sqlite3.Error:  # a view that uses an unknown function
            return 0
        return int(count)

    def seal(self) -> None:
        """Restrict all later queries to reading what is open now."""
        distrust(self._connection)
        allow_only_reading(self._connection, cell_bytes=_MAX_CELL_BYTES, defined=self._defined)

    def define(self, name: str, function: Callable[..., Any], kind: str, *, is_bare: bool = False) -> None:
        """Register a function. SQLite needs neither the type of its values nor whether it takes arguments."""
        self._defined.add(name.lower())
        self._connection.create_function(name, -1, function)

    def check(self, text: str, functions: Mapping[str, str], bare: Collection[str] = ()) -> list[str]:
        """Check a query without running it. Returns no column names. Raises QueryError with the place."""
        for name, kind in functions.items():
            self.define(name, lambda *_: None, kind)
        try:
            self._connection.execute(f"EXPLAIN {text}")
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise QueryError(str(error), self._offset(text, str(error))) from None
        return []

    def run(self, text: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        """Run a query. Returns the names of its columns, and its rows."""
        try:
            cursor = self._connection.execute(text)
            names = [column[0] for column in cursor.description]
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise QueryError(str(error)) from None
        return names, self._rows(cursor)

    @staticmethod
    def _rows(cursor: sqlite3.Cursor) -> Iterator[Sequence[Any]]:
        try:
            yield from cursor
        except (sqlite3.Error, OverflowError) as error:
            raise QueryError(str(error)) from None

    def value(self, value: Any) -> Any:
        """Convert a value to one that an SQLite function may return."""
        if value is None or isinstance(value, (str, float, bytes)):
            return value
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return int(value)
        return to_text(value)

    def _offset(self, text: str, message: str) -> int | None:
        """Return where an error is: SQLite names the token, but not its place."""
        near, unknown = _NEAR.search(message), _UNKNOWN.search(message)
        try:
            flat, _ = tokens(text)
        except SyntaxProblem as problem:
            return problem.offset
        if "incomplete input" in message:
            return len(text)
        if near is not None:
            places = [token for token in flat if token.text.lower() == near[1].lower()][:_MAX_ARGUMENTS]
            return next((token.start for token in places if self._fails_at(text[: token.end], message)), None)
        if unknown is not None:
            name = (unknown[1] or unknown[2]).removesuffix("()").rpartition(".")[2].lower()
            return next((token.start for token in flat if token.text.strip('"`[]').lower() == name), None)
        return None

    def _fails_at(self, prefix: str, message: str) -> bool:
        """Whether the parser stops at the last token of a prefix: it accepts all prefixes before."""
        try:
            self._connection.execute(f"EXPLAIN {prefix}")
        except (sqlite3.Error, sqlite3.Warning) as error:
            return str(error) == message
        return False


def _open(database: str | None) -> sqlite3.Connection:
    """Open a database, or an empty one in memory for the tables that `load` fills."""
    if database is not None:
        return open_sqlite(database, isolation_level=None)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection
