"""`coc ask --language auto`: the files decide whether the model writes Python or SQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chainofcode.cli import main

duckdb = pytest.importorskip("duckdb")
Ask = Callable[..., tuple[int, dict[str, Any], str]]
QUERY = "```sql\nSELECT count(*) AS n FROM items WHERE is_fragile(name)\n```"
PROGRAM = "```python\nanswer = sum(1 for item in items if is_fragile(item['name']))\n```"
MADE = "CREATE TABLE items AS SELECT 'cup' AS name UNION ALL SELECT 'rope'"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Ask a model that replies with SQL where the prompt is about SQL, and with Python otherwise."""
    monkeypatch.chdir(tmp_path)
    rules = [
        {"when": "call: is_fragile('cup')", "reply": '{"value": true}'},
        {"when": "call: is_fragile", "reply": '{"value": false}'},
        {"when": "These tables are there:", "reply": QUERY},
        {"when": "These variables are set already:", "reply": PROGRAM},
    ]
    Path("script.jsonl").write_text("\n".join(map(json.dumps, rules)))

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = main(["ask", "How many?", "--model", "scripted:script.jsonl", "--json", *arguments])
        output = capsys.readouterr()
        return code, json.loads(output.out or "{}"), output.err

    return run


def test_python_for_a_small_table(ask: Ask) -> None:
    Path("items.csv").write_text("name\ncup\nrope\n")
    code, data, err = ask("--file", "items.csv")
    assert (code, data["value"], data["program"].startswith("answer")) == (0, 1, True)
    assert "writes SQL" not in err


def test_sql_for_a_large_table(ask: Ask) -> None:
    Path("items.csv").write_text("name,note\n" + f"cup,{'x' * 100}\nrope,{'y' * 100}\n" * 50_000)
    code, data, err = ask("--file", "items.csv")
    assert (code, data["value"], data["lm_calls"]) == (0, [{"n": 50_000}], 2)
    assert "the model writes SQL: the tables are large" in err
    assert ask("--file", "items.csv", "--type", "int")[1]["value"] == 50_000  # a typed answer needs Python


def test_sql_for_a_duckdb_database(ask: Ask) -> None:
    connection = duckdb.connect("shop.duckdb")
    connection.execute(MADE)
    connection.close()
    code, data, err = ask("--file", "shop.duckdb", "--trace", "t.jsonl")
    assert (code, data["value"]) == (0, [{"n": 1}])
    assert "shop.duckdb is a DuckDB database" in err
    assert main(["replay", "t.jsonl"]) == 0
    prompt = next(json.loads(line) for line in Path("t.jsonl").read_text().splitlines() if '"prompt"' in line)
    assert "CREATE TABLE items" in json.dumps(prompt)


def test_either_language_for_a_sqlite_database(ask: Ask) -> None:
    connection = sqlite3.connect("shop.sqlite")
    connection.execute(MADE)
    connection.commit()
    connection.close()
    assert "program" in ask("--file", "shop.sqlite")[1]  # Python gets a connection
    code, data, _ = ask("--file", "shop.sqlite", "--language", "sql")
    assert (code, data["value"]) == (0, [{"n": 1}])
    code, _, err = ask("--file", "shop.sqlite", "--file", "shop.sqlite", "--language", "sql")
    assert code == 2 and "a query can read only one database" in err
