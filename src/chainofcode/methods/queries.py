"""SQL queries over files and databases, in which a model answers calls of functions that the engine does not have.

    result = sql("SELECT movie FROM reviews WHERE is_sarcastic(text)", lm, files=["reviews.csv"])
    result.rows, result.dataframe()

Each file is a table with its name; one file may be a database. The guest reads the files: this process parses none of
them.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from ..emulator import Answered, Answering, AroundEmulator, Emulator, First, Function, Pause, Table
from ..engine import Result, RunKeywords, RunOptions, execute_program
from ..engine.blocking import blocking
from ..engine.closing import close_after
from ..errors import InputError
from ..languages import SQL
from ..sandbox import File, Sandbox
from ..sandbox.packages import is_installed
from ..trace import Event
from .databases import engine_of
from .input_files import MAX_BYTES, Files, check_file, inspected, inspection_of
from .isolated import Worker
from .sql import schema_of

EngineName = Literal["auto", "duckdb", "sqlite"]
_UNLIMITED = 10**6
_DUCKDB = ("duckdb", "numpy")  # DuckDB needs NumPy to call Python functions
_KINDS: dict[str, Any] = {
    ".csv": "rows", ".tsv": "rows", ".tab": "rows", ".parquet": "parquet", ".pq": "parquet", ".json": "json",
    ".jsonl": "lines", ".ndjson": "lines",
}  # fmt: skip


_DATABASES = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
_PANDAS = ("pandas", "pyarrow")  # required to read Parquet in a Python program
_LARGE_BYTES = 10_000_000  # a Python program loops over each row; a database does not


class QueryResult(Result):
    """The outcome of a query: its rows, and everything that a Result has."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows by column name; empty without an answer."""
        return self.answer if isinstance(self.answer, list) else []

    @property
    def columns(self) -> list[str]:
        """The names of the columns; unknown, thus empty, without rows."""
        return list(self.rows[0]) if self.rows else []

    def dataframe(self) -> Any:
        """The rows as a pandas DataFrame."""
        if not is_installed("pandas"):
            raise InputError("a DataFrame needs pandas: pip install 'chainofcode[tables]' (or pip install pandas)")
        return importlib.import_module("pandas").DataFrame(self.rows)


async def tables_of(
    paths: Iterable[str | os.PathLike[str]],
    *,
    database: str | os.PathLike[str] | None = None,
    engine: str = "auto",
    sandbox: Sandbox | str = "auto",
    worker: Worker = inspected,
) -> Files:
    """Inspect the files of a query, a database in a guest of `sandbox`.

    Raises InputError for a file or an engine that cannot be used.
    """
    prelude: list[File] = []
    descriptions: list[str] = []
    listed = [os.fspath(path) for path in paths]
    databases = [path for path in listed if _is_database(path)]
    if len(databases) > (1 if database is None else 0):
        raise InputError(f"cannot read {databases[-1]}: a query can read only one database")
    if databases:
        listed.remove(databases[0])
        database = databases[0]
        check_file(database, MAX_BYTES)
        schema = await schema_of(Path(database), sandbox)
        descriptions.append(f"the tables of {Path(database).name}:\n{schema}")
    chosen = _engine(engine, None if database is None else Path(database))
    taken: set[str] = set()
    for path in listed:
        kind = _kind(path, chosen)
        name = _table_name(Path(path).stem, taken)
        taken.add(name)
        words, separator = await _described(path, kind, worker)
        prelude.append(_file(name, path, kind, separator))
        descriptions.append(f"{name}: {words}")
    if database is not None:
        prelude.append(_file("database", os.fspath(database), "database"))
        listed.append(os.fspath(database))
    packages = _DUCKDB if chosen == "duckdb" else ()
    return Files(tuple(listed), packages, tuple(prelude), "\n".join(descriptions))


def _is_database(path: str) -> bool:
    return Path(path).suffix.lower() in _DATABASES


def needs_sql(paths: Iterable[str]) -> str:
    """Return why only SQL can read a file, empty if Python can: a DuckDB database, or Parquet without pandas."""
    for path in paths:
        kind = Path(path).suffix.lower()
        if _is_database(path) and os.path.isfile(path) and engine_of(Path(path)) == "DuckDB":
            return f"{path} is a DuckDB database"
        if _KINDS.get(kind) == "parquet" and not all(map(is_installed, _PANDAS)) and all(map(is_installed, _DUCKDB)):
            return f"{path} is Parquet, and pandas is not installed"
    return ""


def are_large_tables(paths: Sequence[str]) -> bool:
    """Whether all files are tables, and so large that a database should go through their rows."""
    if not all(Path(path).suffix.lower() in _KINDS for path in paths):
        return False
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) >= _LARGE_BYTES


def _file(name: str, path: str, kind: Any, separator: str = "") -> File:
    return File(name, os.path.abspath(path), kind, separator)


def _engine(engine: str, database: Path | None) -> str:
    """Return which engine to use: the one that made the database, else DuckDB if it is installed."""
    if engine not in ("auto", "duckdb", "sqlite"):
        raise InputError(f"unknown engine {engine!r} (expected one of: auto, duckdb, sqlite)")
    missing = [name for name in _DUCKDB if not is_installed(name)]
    if database is not None:
        made_by = engine_of(database).lower()
        _check_log(database)
        if engine not in ("auto", made_by):
            raise InputError(f"{database} is a {made_by} database; {engine} cannot read it")
        engine = made_by
    if engine == "duckdb" and missing:
        raise InputError(f"DuckDB needs {' and '.join(missing)}: pip install 'chainofcode[duckdb]'")
    if engine == "auto":
        return "sqlite" if missing else "duckdb"
    return engine


def _check_log(database: Path) -> None:
    """Raise InputError for a database with changes that are only in its log: the guest sees the database alone."""
    for log in (f"{database}-wal", f"{database}.wal"):
        if os.path.exists(log) and os.path.getsize(log):
            raise InputError(f"{database} has changes in {log}; close the programs that use it, or CHECKPOINT it")


def _kind(path: str, engine: str) -> Any:
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise InputError(
            f"cannot read {path} as a table (expected one of: {', '.join(_KINDS)}; use --database for databases)"
        )
    check_file(path, MAX_BYTES)
    if kind == "parquet" and engine == "sqlite":
        raise InputError(f"SQLite cannot read {path}; Parquet needs DuckDB: pip install 'chainofcode[duckdb]'")
    return kind


def _table_name(stem: str, taken: set[str]) -> str:
    name = re.sub(r"\W+", "_", stem).strip("_") or "file"
    if name[0].isdigit():
        name = f"file_{name}"
    candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(unique for unique in candidates if unique not in taken)


async def _described(path: str, kind: str, worker: Worker) -> tuple[str, str]:
    """Return a description of a file for a model, and the separator of its rows."""
    if kind == "parquet":
        return f"a table from {Path(path).name}", ""
    inspection = await inspection_of(path, kind, worker)
    return inspection["words"], inspection.get("separator", "")


# --- running ------------------------------------------------------------------------------------------------------


def query_options(options: RunOptions, files: Files) -> RunOptions:
    """Return the options of a run with the language and the files of a query."""
    packages = tuple(dict.fromkeys((*options.packages, *files.packages)))
    reads = (*options.reads, *files.reads)
    return dataclasses.replace(options, language=SQL, packages=packages, reads=reads, prelude=files.prelude)


async def execute_query(
    query: str, emulator: Answering, sandbox: Sandbox | str, options: RunOptions
) -> AsyncIterator[Event]:
    """Run a query whose options come from `query_options`. Yields the events of the trace."""
    yield options.header()
    async with close_after(execute_program(query, emulator, sandbox, options)) as events:
        async for event in events:
            yield event


class QueryKeywords(RunKeywords, total=False):
    """All keyword arguments of `asql` and `sql`.

    `files` are CSV, TSV, JSON, JSON lines and Parquet; each is a table with the name of the file. `database` is a file
    of SQLite or DuckDB, opened read-only.
    """

    files: Iterable[str | os.PathLike[str]]
    database: str | os.PathLike[str] | None
    engine: EngineName
    sandbox: Sandbox | str
    options: RunOptions | None


async def asql(query: str, emulator: Answering = None, **given: Unpack[QueryKeywords]) -> QueryResult:
    """Run a query over files; a model, a table of values or a function answers calls of undefined functions."""
    files, database = given.pop("files", ()), given.pop("database", None)
    sandbox, options = given.pop("sandbox", "auto"), given.pop("options", None)
    tables = await tables_of(files, database=database, engine=given.pop("engine", "auto"), sandbox=sandbox)
    chosen = query_options(RunOptions.of(options, given), tables)
    return QueryResult.of([event async for event in execute_query(query, emulator, sandbox, chosen)])


def sql(query: str, emulator: Answering = None, **given: Unpack[QueryKeywords]) -> QueryResult:
    """Run a query over files and return its rows with the trace; in async code, use `asql`."""
    return blocking(asql(query, emulator, **given))


# --- partial results ----------------------------------------------------------------------------------------------


class RecordingEmulator(AroundEmulator):
    """Records the values of another emulator, including those that a run did not use because it ended early."""

    def __init__(self, emulator: Emulator) -> None:
        super().__init__(emulator)
        self.values: dict[str, Any] = {}  # by call

    def fresh(self) -> RecordingEmulator:
        return self

    async def answer(self, pause: Pause) -> Answered:
        answered = await super().answer(pause)
        if answered.error is None:
            self.values[pause.text] = answered.value
        return answered


async def known_rows(query: str, values: Mapping[str, Any], sandbox: Sandbox | str, options: RunOptions) -> QueryResult:
    """Run a query again with the values that are known; calls without a value are NULL."""
    unknown = Function(lambda pause: None)
    limits = dataclasses.replace(options.limits, lm_calls=_UNLIMITED)  # no request is made for these calls
    free = dataclasses.replace(options, limits=limits)
    events = execute_query(query, First(Table(values.items()), unknown), sandbox, free)
    return QueryResult.of([event async for event in events])


__all__ = [
    "EngineName",
    "QueryKeywords",
    "QueryResult",
    "RecordingEmulator",
    "are_large_tables",
    "asql",
    "execute_query",
    "known_rows",
    "needs_sql",
    "query_options",
    "sql",
    "tables_of",
]
