"""Runs as rows of the SQLite store: short columns for lists and searches, and the records in a table of their own.

SQLite reads a row up to the column it needs, through all pages of a large value before it. Lists of runs with large
answers would read every answer. Therefore `runs` has only short columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from ..trace import as_json
from . import search_index
from .store import RunFilter, RunRecord, RunSummary

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, state TEXT NOT NULL,
    method TEXT NOT NULL, model TEXT, created REAL NOT NULL, words TEXT NOT NULL, summary BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS runs_of ON runs (owner, number);
CREATE INDEX IF NOT EXISTS runs_open ON runs (state) WHERE state IN ('queued', 'running');
CREATE INDEX IF NOT EXISTS runs_ended ON runs (created) WHERE state NOT IN ('queued', 'running', 'waiting');
"""
_KEEP = """INSERT INTO runs (number, id, owner, state, method, model, created, words, summary)
VALUES (:number, :id, :owner, :state, :method, :model, :created, :words, :summary)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, method = excluded.method, model = excluded.model,
created = excluded.created, words = excluded.words, summary = excluded.summary"""
_KEEP_RECORD = """INSERT INTO records SELECT number, :record FROM runs WHERE id = :id
ON CONFLICT (number) DO UPDATE SET record = excluded.record"""
_RECORD = "SELECT record FROM records JOIN runs USING (number) WHERE id = ? AND owner = ?"
_SUMMARY = "SELECT summary FROM runs WHERE id = ? AND owner = ?"
_RECORDS = "SELECT record FROM records ORDER BY number"


def row_of(run: RunRecord, number: int | None = None) -> dict[str, Any]:
    """The columns of a run, with its searchable text. A new run gets the next number."""
    return {
        "number": number,
        "id": run.id,
        "owner": run.owner,
        "state": run.state,
        "method": _plain(run.method),
        "model": _plain(run.model),
        "created": run.created,
        "words": search_index.searched_words(run),
        "summary": as_json(RunSummary.of(run)),
        "record": as_json(run),
    }


def keep(database: sqlite3.Connection, row: dict[str, Any]) -> None:
    """Insert or replace a run."""
    database.execute(_KEEP, row)
    database.execute(_KEEP_RECORD, row)


def record(database: sqlite3.Connection, id: str, owner: str) -> RunRecord | None:
    row = database.execute(_RECORD, (id, owner)).fetchone()
    return msgspec.json.decode(row[0], type=RunRecord) if row else None


def summary(database: sqlite3.Connection, id: str, owner: str) -> RunSummary | None:
    row = database.execute(_SUMMARY, (id, owner)).fetchone()
    return msgspec.json.decode(row[0], type=RunSummary) if row else None


def summaries(
    database: sqlite3.Connection,
    owner: str,
    run_filter: RunFilter,
    *,
    limit: int,
    before: str | None,
    has_index: bool,
) -> list[RunSummary]:
    """The newest runs of an owner that match a filter."""
    sql, given = search_index.query(database, owner, run_filter, before=before, has_index=has_index)
    rows = database.execute(sql, {**given, "limit": limit})
    return [msgspec.json.decode(row[0], type=RunSummary) for row in rows]


def every_record(database: sqlite3.Connection) -> Iterator[bytes]:
    """The records of all runs, one at a time."""
    for row in database.execute(_RECORDS):
        yield row[0]


def _plain(text: str | None) -> str | None:
    """Text that SQLite can store: a lone surrogate cannot be encoded."""
    return text.encode(errors="replace").decode() if text is not None else None


# --- upgrades -----------------------------------------------------------------------------------------------------


def upgrade(database: sqlite3.Connection) -> None:
    """Move the records of an older database, which are in the rows of the runs, to a table of their own.

    It reads one record at a time. An interruption leaves the database as it was.
    """
    columns = {column[1] for column in database.execute("PRAGMA table_info(runs)")}
    if "record" not in columns:
        return
    database.execute("BEGIN IMMEDIATE")
    search_index.drop(database)
    database.execute("ALTER TABLE runs RENAME TO older_runs")
    for index in ("runs_of", "runs_open", "runs_paused"):
        database.execute(f"DROP INDEX IF EXISTS {index}")
    for statement in search_index.statements(TABLES):
        database.execute(statement)
    for number, state, found in database.execute("SELECT number, state, record FROM older_runs ORDER BY number"):
        run = msgspec.json.decode(found, type=RunRecord)
        run.state = state
        keep(database, row_of(run, number))
    (last,) = database.execute("SELECT max(seq) FROM sqlite_sequence WHERE name IN ('runs', 'older_runs')").fetchone()
    database.execute("DROP TABLE older_runs")
    database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'runs'", (last,))  # numbers are never used again
    database.execute("COMMIT")
