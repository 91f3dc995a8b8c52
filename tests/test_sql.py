"""SQL with undefined functions: the results equal those of an engine that has the functions."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import part
from random_queries import RandomQuery
from sql_cases import DUCKDB_QUERIES, FUNCTIONS, KINDS, QUERIES, SQLITE_QUERIES, TABLES

from chainofcode import Jail, Pause
from chainofcode.emulator.tools import tool
from chainofcode.engine import RunOptions
from chainofcode.methods.queries import QueryResult, execute_query, query_options, tables_of
from chainofcode.values.arrays import numbered

duckdb = pytest.importorskip("duckdb")
ENGINES = ("duckdb", "sqlite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSON lines file for each table."""
    home = tmp_path_factory.mktemp("tables")
    for name, rows in TABLES.items():
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=1) as jail:
        yield jail


def judged(pause: Pause) -> Any:
    return FUNCTIONS[pause.name](*pause.args)


async def run(query: str, jail: Jail, options: RunOptions) -> QueryResult:
    return QueryResult.of([event async for event in execute_query(query, judged, jail, options)])


def expected_rows(engine: str, query: str) -> list[dict[str, Any]]:
    """The rows of a query in an engine that has the functions."""
    connection: Any = duckdb.connect() if engine == "duckdb" else sqlite3.connect(":memory:")
    for name, rows in TABLES.items():
        _fill(connection, engine, name, rows)
    for name, function in FUNCTIONS.items():
        strict = _strict(function)
        if engine == "duckdb":
            bare = name == "release_day"  # DuckDB takes no `*args` for a function without arguments
            own = FUNCTIONS[name] if bare else strict
            connection.create_function(name, own, [] if bare else None, KINDS[name], null_handling="special")
        else:
            connection.create_function(name, -1, strict)
    cursor = connection.execute(query)
    names = numbered([column[0] for column in cursor.description])
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _strict(function: Any) -> Any:
    return lambda *args: None if None in args else function(*args)


def _fill(connection: Any, engine: str, name: str, rows: list[dict[str, Any]]) -> None:
    kinds = {int: "BIGINT", float: "DOUBLE", str: "TEXT", bool: "BOOLEAN"}
    values = {column: [row[column] for row in rows if row[column] is not None] for column in rows[0]}
    dates = {"day", "moment"} if engine == "duckdb" else set()  # as DuckDB reads them from JSON
    columns = [f"{column} {'DATE' if column in dates else kinds[type(own[0])]}" for column, own in values.items()]
    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [list(row.values()) for row in rows])


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert dates to text and decimals to numbers, as in results."""
    return [{name: _plain(cell) for name, cell in row.items()} for row in rows]


def _plain(cell: Any) -> Any:
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return pytest.approx(float(cell)) if isinstance(cell, float) or hasattr(cell, "as_tuple") else cell


@pytest.mark.parametrize("engine", ENGINES)
def test_queries(engine: str, folder: Path, jail: Jail) -> None:
    """The rows equal those with real functions; there is one call for each distinct argument that needs a judgement."""
    files = sorted(folder.glob("*.jsonl"))
    cases = part(QUERIES + (DUCKDB_QUERIES if engine == "duckdb" else SQLITE_QUERIES), 3)

    async def run_all() -> list[QueryResult]:
        options = query_options(RunOptions(), await tables_of(files, engine=engine))
        return [await run(query, jail, options) for query, _ in cases]

    wrong = []
    for (query, calls), result in zip(cases, asyncio.run(run_all()), strict=True):
        if result.rows != plain(expected_rows(engine, query)):
            wrong.append(f"{query}\n   {result.error or result.rows}\n   {expected_rows(engine, query)}")
        elif calls >= 0 and result.trace.lm_calls != calls:
            wrong.append(
                f"{query}\n   {calls} calls expected: {[step.call for step in result.trace.steps if step.call]}"
            )
    assert not wrong, "\n".join(wrong)


MACROS = [
    (
        "CREATE MACRO total(x) AS sum(score(x));",
        "SELECT {} AS t FROM reviews LIMIT 1",
        "total(text)",
        "sum(score(text))",
    ),
    (
        "CREATE MACRO place(x, y) AS row_number() OVER (ORDER BY score(x), y);",
        "SELECT id, {} AS t FROM reviews WHERE text IS NOT NULL ORDER BY id LIMIT 2",
        "place(text, id)",
        "row_number() OVER (ORDER BY score(text), id)",
    ),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("macro", "query", "call", "body"), MACROS)
def test_macros_that_aggregate(
    engine: str, macro: str, query: str, call: str, body: str, folder: Path, jail: Jail
) -> None:
    options = query_options(RunOptions(), asyncio.run(tables_of(sorted(folder.glob("*.jsonl")), engine=engine)))
    result = asyncio.run(run(f"{macro} {query.format(call)}", jail, options))
    assert result.rows == plain(expected_rows(engine, query.format(body))), result.error


@pytest.mark.parametrize("engine", ENGINES)
def test_names_match_in_upper_and_lower_case(engine: str, folder: Path, jail: Jail) -> None:
    """A call has the spelling of its declaration or of the tool, else lower case."""
    options = query_options(RunOptions(), asyncio.run(tables_of(sorted(folder.glob("*.jsonl")), engine=engine)))
    query = 'SELECT id FROM reviews WHERE IS_Sarcastic(text) AND "is_SARCASTIC"(text) AND id = 4'

    async def calls(source: str, table: dict[str, bool]) -> tuple[list[dict[str, Any]] | None, list[str | None]]:
        result = QueryResult.of([event async for event in execute_query(source, table, jail, options)])
        return result.rows, [step.call for step in result.trace.steps if step.call]

    assert asyncio.run(calls(query, {"is_sarcastic('yeah right')": True})) == (
        [{"id": 4}],
        ["is_sarcastic('yeah right')"],
    )
    declared = f"-- isSarcastic(text) -> bool\n{query.replace('_', '')}"
    assert asyncio.run(calls(declared, {"isSarcastic('yeah right')": True})) == (
        [{"id": 4}],
        ["isSarcastic('yeah right')"],
    )

    tools = RunOptions(tools=[tool(FUNCTIONS["is_sarcastic"], name="isSarcastic")])
    options = query_options(tools, asyncio.run(tables_of(sorted(folder.glob("*.jsonl")), engine=engine)))
    assert asyncio.run(calls(query.replace("_", ""), {}))[0] == [{"id": 4}]


RANDOM_QUERIES = 40


@pytest.mark.parametrize("engine", ENGINES)
def test_random_queries(engine: str, folder: Path, jail: Jail) -> None:
    """The rows equal those with real functions; the number of calls is not checked."""
    files = sorted(folder.glob("*.jsonl"))
    queries = [RandomQuery(engine, seed) for seed in range(RANDOM_QUERIES)]

    async def run_all() -> list[QueryResult]:
        options = query_options(RunOptions(), await tables_of(files, engine=engine))
        return [await run(query.text, jail, options) for query in queries]

    wrong = []
    for query, result in zip(queries, asyncio.run(run_all()), strict=True):
        rows, expected = result.rows, plain(expected_rows(engine, query.text))
        if not query.is_ordered:
            rows, expected = in_order(rows), in_order(expected)
        if result.error or rows != expected:
            wrong.append(f"seed {query.seed}: {query.text}\n   {result.error or rows}\n   {expected}")
    assert not wrong, "\n".join(wrong)


def in_order(rows: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Sort rows by their text, with numbers rounded."""
    return sorted(rows or [], key=lambda row: [_text(cell) for cell in row.values()])


def _text(cell: Any) -> str:
    number = getattr(cell, "expected", cell)
    return repr(round(float(number), 6) if isinstance(number, float) else number)
