"""Queries cannot reach outside the database: both the engine and the sandbox prevent it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from chainofcode import InputError, Jail, Limits
from chainofcode.engine import RunOptions
from chainofcode.languages.sql.guest.duck_engine import DuckEngine
from chainofcode.languages.sql.guest.engine import QueryError
from chainofcode.languages.sql.guest.sqlite_engine import SqliteEngine
from chainofcode.methods.queries import QueryResult, asql, execute_query, query_options, tables_of

duckdb = pytest.importorskip("duckdb")
SECRET = "seven-green-bottles"
BOTH = [
    "ATTACH '{folder}/other.db' AS other",
    "WITH x AS (SELECT 1) DELETE FROM t",
    "INSERT INTO t VALUES (2, 'b')",
    "CREATE TABLE stolen AS SELECT * FROM t",
    "SELECT 1; DROP TABLE t",
    "PRAGMA database_list",
    "SELECT load_extension('{folder}/evil.so') FROM t",
    "EXPLAIN SELECT 1",
]
ATTACKS = {
    "sqlite": [
        *BOTH,
        "VACUUM INTO '{folder}/copy.db'",
        "SELECT * FROM pragma_database_list",
        "SELECT readfile('{folder}/secret.txt') AS text FROM t",
        "SELECT writefile('{folder}/written.txt', 'x') AS n FROM t",
        "DETACH main",
        "SELECT hex(fts3_tokenizer('simple')) AS x FROM t",
        "SELECT * FROM dbstat",
        "SELECT * FROM pragma_function_list",
    ],
    "duckdb": [
        *BOTH,
        "SELECT * FROM read_text('{folder}/secret.txt')",
        "SELECT * FROM read_csv('{folder}/secret.txt')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')",
        "COPY t TO '{folder}/written.csv'",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "EXPORT DATABASE '{folder}/written'",
        "INSTALL httpfs",
        "LOAD '{folder}/evil.so'",
        "SET enable_external_access = true",
        "SELECT * FROM sniff_csv('{folder}/secret.csv')",
        "SELECT getenv('HOME') AS home FROM t",
        "SELECT * FROM SECRET",
        "SELECT * FROM query('COPY t TO ''{folder}/written.csv''')",
        "SELECT * FROM query('SELECT * FROM read_text(''{folder}/secret.txt'')')",
        "SELECT * FROM query_table('{folder}/secret.csv')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_blob(''{folder}/secret.txt'')'))",
        "SELECT * FROM parquet_metadata('{folder}/secret.txt')",
        "SELECT * FROM enable_logging()",
        "CREATE MACRO steal() AS (SELECT content FROM read_text('{folder}/secret.txt')); SELECT steal()",
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("outside")
    (home / "secret.txt").write_text(SECRET)
    (home / "secret.csv").write_text(f"word\n{SECRET}\n")
    (home / "t.csv").write_text("id,word\n1,a\n")
    sqlite3.connect(home / "other.db").execute(f"CREATE TABLE s AS SELECT '{SECRET}' AS word").connection.commit()
    return home


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_attacks_are_refused(engine: str, folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())

    async def run_all() -> list[tuple[str, QueryResult]]:
        options = query_options(RunOptions(), await tables_of([folder / "t.csv"], engine=engine))
        found = []
        with Jail(spares=1) as jail:
            for attack in ATTACKS[engine]:
                query = attack.format(folder=folder)
                events = [event async for event in execute_query(query, None, jail, options)]
                found.append((query, QueryResult.of(events)))
        return found

    results = asyncio.run(run_all())
    assert len(results) >= 10
    for query, result in results:
        assert not result.is_answered, f"{query}: {result.rows}"
        assert result.error is not None
        assert SECRET not in result.error.message
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_engine_refuses_attacks_without_the_sandbox(engine: str, folder: Path) -> None:
    """Statements that reach outside, without the sandbox and without the check that a program is one query."""
    opened: Any = DuckEngine(1024**3) if engine == "duckdb" else SqliteEngine(1024**3)
    opened.load("t", str(folder / "t.csv"), "rows", ",")
    opened.seal()
    reaching = [
        attack for attack in ATTACKS[engine] if "{folder}" in attack or "http" in attack or attack.startswith("SET")
    ]
    assert len(reaching) >= 5
    for attack in reaching:
        with pytest.raises(QueryError):
            list(opened.run(attack.format(folder=folder).partition(";")[0])[1])
    assert not (folder / "written.csv").exists()
    assert list(opened.run("SELECT word FROM t")[1]) == [("a",)]


def test_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE items (name TEXT, price REAL)")
    connection.execute("INSERT INTO items VALUES ('cup', 2.5), ('lamp', 30)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    query = "SELECT name FROM items WHERE is_fragile(name) AND price > 1"
    values = {"is_fragile('cup')": True, "is_fragile('lamp')": True}
    result = asyncio.run(asql(query, values, database=path))
    assert result.rows == [{"name": "cup"}, {"name": "lamp"}]
    assert path.read_bytes() == before
    assert sorted(other.name for other in tmp_path.iterdir()) == ["shop.sqlite"]


def test_a_million_rows_with_fifty_values_make_fifty_calls(tmp_path: Path) -> None:
    path = tmp_path / "big.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute(
        "CREATE TABLE events AS SELECT i AS id, 'kind of event ' || (i % 50) AS kind FROM range(1000000) t(i)"
    )
    connection.close()
    limits = Limits(memory_bytes=1024**3)
    query = "SELECT count(*) AS n FROM events WHERE is_urgent(kind)"
    result = asyncio.run(asql(query, lambda pause: pause.args[0].endswith("7"), database=path, limits=limits))
    assert result.rows == [{"n": 100_000}]
    assert result.trace.lm_calls == 50


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_limits_end_a_query(engine: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n" + "\n".join(map(str, range(2000))))
    query = "SELECT count(*) AS n FROM t a, t b, t c, t d WHERE is_odd(a.id) AND a.id + b.id + c.id + d.id > 3"
    limits = Limits(run_seconds=1)
    result = asyncio.run(asql(query, lambda pause: True, files=[tmp_path / "t.csv"], engine=engine, limits=limits))
    assert result.reason in ("limit:run", "limit:calls", "limit:cpu")


def test_database_with_a_write_ahead_log_is_refused(tmp_path: Path) -> None:
    """Its last changes are only in the log, which the guest cannot read."""
    path = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE items (name TEXT)")
    connection.commit()
    with pytest.raises(InputError, match="has changes in"):
        asyncio.run(asql("SELECT * FROM items", None, database=path))
    connection.close()
