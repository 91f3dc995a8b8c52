"""DuckDB as the engine of a query: files become tables in memory, then all outside access is disabled.

Standard library, and the granted package duckdb.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ..compiler.words import aggregating
from .engine import QueryError, quoted, to_text
from .tables import PATTERNS, column_names

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_FETCHED_ROWS = 1000
_ORDERED = frozenset(["percentile_cont", "percentile_disc"])  # aggregates that only the parser knows: WITHIN GROUP
_CALLED = re.compile(r'\b(?:\w+(?="?\s*\()|over\b)')
_SETTINGS = {
    "threads": "1",  # calls come in the same order every time
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "errors_as_json": "true",
    "python_enable_replacements": "false",
}
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP"}
_VALUES = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "number": "DOUBLE", "text": "VARCHAR"}
_DATABASE = "coc_database"


class DuckEngine:
    """Runs queries in DuckDB, on the loaded tables and the attached database only."""

    def __init__(self, memory_bytes: int, database: str | None = None) -> None:
        self._duckdb: Any = importlib.import_module("duckdb")
        settings = {**_SETTINGS, "memory_limit": f"{memory_bytes // 2}B"}
        self._connection = self._duckdb.connect(":memory:", config=settings)
        self._defined: set[str] = set()
        self._is_volatile = True  # DuckDB then calls functions only where the query does
        if database is not None:
            self._attach(database)

    def _attach(self, database: str) -> None:
        escaped = database.replace("'", "''")
        try:
            self._connection.execute(f"ATTACH '{escaped}' AS {_DATABASE} (READ_ONLY)")
            self._connection.execute(f"SET search_path = 'memory.main,{_DATABASE}.main'")
        except self._duckdb.Error as error:
            raise QueryError(f"cannot read {os.path.basename(database)}: {self._message_of(error)[0]}") from None

    def functions(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of all functions that expressions can call, and those of aggregate functions."""
        query = (
            "SELECT DISTINCT lower(function_name), function_type, lower(macro_definition) FROM duckdb_functions() "
            "WHERE function_type NOT IN ('table', 'table_macro', 'pragma')"
        )
        rows = self._connection.execute(query).fetchall()
        aggregates = _ORDERED.union(name for name, kind, _ in rows if kind == "aggregate")
        macros: dict[str, list[str]] = {name: [] for name in _ORDERED}
        for name, _, body in rows:
            macros.setdefault(name, []).extend(_CALLED.findall(body or ""))
        return frozenset(macros), aggregating(macros, aggregates)

    def load(self, name: str, path: str, kind: str, separator: str) -> None:
        """Load a file into a table."""
        try:
            if kind == "rows":
                self._load_csv(name, path, separator or ",")
            elif kind == "parquet":
                self._connection.execute(f"CREATE TABLE {quoted(name)} AS FROM read_parquet(?)", [path])
            else:
                shape = "newline_delimited" if kind == "lines" else "array"
                reading = "read_json(?, format = ?, records = true, sample_size = -1, maximum_object_size = 100000000)"
                self._connection.execute(f"CREATE TABLE {quoted(name)} AS FROM {reading}", [path, shape])
        except (self._duckdb.Error, ValueError) as error:
            raise QueryError(f"cannot read {os.path.basename(path)}: {self._message_of(error)[0]}") from None

    def _load_csv(self, name: str, path: str, separator: str) -> None:
        """Read all cells as text, then give each column the first type that all its cells have."""
        run = self._connection.execute
        run(
            "CREATE TEMP TABLE coc_cells AS FROM read_csv(?, header = true, all_varchar = true, delim = ?, "
            "quote = '\"', escape = '\"', nullstr = '', null_padding = true, auto_detect = true, sample_size = -1, "
            "max_line_size = 100000000, strict_mode = false, parallel = false)",
            [path, separator],
        )
        given = [column for column, *_ in run("DESCRIBE coc_cells").fetchall()]
        names = column_names(given)
        tests = [f"coalesce(bool_and({_test(kind, quoted(column))}), false)" for column in given for kind in PATTERNS]
        found = run(f"SELECT {', '.join(tests)} FROM coc_cells").fetchone()  # noqa: S608
        columns = []
        for number, (column, shown) in enumerate(zip(given, names, strict=True)):
            own = found[number * len(PATTERNS) : (number + 1) * len(PATTERNS)]
            kind = next((kind for kind, fits in zip(PATTERNS, own, strict=True) if fits), "")
            cell = f"CAST({quoted(column)} AS {_TYPES[kind]})" if kind else quoted(column)
            columns.append(f"{cell} AS {quoted(shown)}")
        run(f"CREATE TABLE {quoted(name)} AS SELECT {', '.join(columns)} FROM coc_cells")  # noqa: S608
        run("DROP TABLE coc_cells")

    def tables(self) -> list[tuple[str, int]]:
        """Return the names of tables with their numbers of rows."""
        found = self._connection.execute("SELECT table_name, estimated_size FROM duckdb_tables() WHERE NOT internal")
        return [(name, int(size)) for name, size in found.fetchall()]

    def seal(self) -> None:
        """Block all later access to files, the network, extensions and settings."""
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def define(self, name: str, function: Callable[..., Any], kind: str, *, is_bare: bool = False) -> None:
        """Register a function whose values have a type; an earlier one of that name is replaced.

        A bare function takes no arguments.
        """
        if name in self._defined:
            self._connection.remove_function(name)
        self._defined.add(name)
        function.__annotations__.clear()  # DuckDB evaluates them
        called = (lambda: function()) if is_bare else function  # `*args` needs one argument in DuckDB
        self._connection.create_function(
            name,
            called,
            [] if is_bare else None,
            _VALUES.get(kind, "VARCHAR"),
            null_handling="special",
            side_effects=self._is_volatile,
        )

    def check(self, text: str, functions: Mapping[str, str], bare: Collection[str] = ()) -> list[str]:
        """Check a query without running it. Returns the names of its columns. Raises QueryError with the place."""
        self._is_volatile = True
        try:
            return self._checked(text, functions, bare)
        except QueryError as error:
            self._is_volatile = False  # volatile functions cannot be used everywhere, in windows for example
            try:
                return self._checked(text, functions, bare)
            except QueryError:
                raise error from None

    def _checked(self, text: str, functions: Mapping[str, str], bare: Collection[str]) -> list[str]:
        for name, kind in functions.items():
            self.define(name, lambda *_: None, kind, is_bare=name in bare)
        try:
            return [name for name, *_ in self._connection.execute(f"DESCRIBE {text}").fetchall()]
        except self._duckdb.Error as error:
            message, offset = self._message_of(error)
            length = len(b"DESCRIBE ")
            if offset is None or offset < length:
                raise QueryError(message) from None
            before = text.encode()[: offset - length].decode(errors="replace")
            raise QueryError(message, len(before)) from None
        finally:
            for name in functions:
                with contextlib.suppress(self._duckdb.Error):
                    self._connection.remove_function(name)
                self._defined.discard(name)

    def run(self, text: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        """Run a query. Returns the names of its columns, and its rows."""
        try:
            cursor = self._connection.execute(text)
        except self._duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from None
        except self._duckdb.Error as error:
            raise QueryError(self._message_of(error)[0]) from None
        return [column[0] for column in cursor.description], self._rows(cursor)

    def _rows(self, cursor: Any) -> Iterator[Sequence[Any]]:
        try:
            while rows := cursor.fetchmany(_FETCHED_ROWS):
                yield from rows
        except self._duckdb.Error as error:
            raise QueryError(self._message_of(error)[0]) from None

    def value(self, value: Any) -> Any:
        """Convert a value to one that a function may return; `define` sets the type of all values of a function."""
        if value is None or isinstance(value, (str, float, bool)):
            return value
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return value
        return to_text(value)

    @staticmethod
    def _message_of(error: Exception) -> tuple[str, int | None]:
        """Return the message of an error, and its place in bytes."""
        kind, _, body = str(error).partition(": {")
        try:
            details = json.loads("{" + body) if body else {}
        except ValueError:
            details = {}
        if "exception_message" not in details:
            return str(error).partition("\n")[0][:500], None
        message = " ".join(str(details["exception_message"]).partition("\n\n")[0].split())[:500]
        place = str(details.get("position"))
        return f"{kind}: {message}", int(place) if place.isdigit() else None


def _test(kind: str, column: str) -> str:
    """Return the SQL that tests whether a cell has a type."""
    matches = f"regexp_full_match({column}, '{PATTERNS[kind]}')"
    if kind in ("date", "timestamp"):
        return f"({matches} AND try_cast({column} AS {_TYPES[kind]}) IS NOT NULL)"
    return matches
