"""Databases as older versions of the server wrote them, for tests of upgrades."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

_RUNS = """CREATE TABLE older (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, state TEXT NOT NULL,
    record BLOB NOT NULL, words TEXT NOT NULL DEFAULT '')"""
_COPY = "INSERT INTO older SELECT number, id, owner, state, record, words FROM runs JOIN records USING (number)"


def write_as_older_version(path: Path, *, has_words: bool = True) -> None:
    """Rewrite an SQLite database: the records in the rows of the runs, and perhaps no words to search for."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TRIGGER search_added; DROP TRIGGER search_changed; DROP TRIGGER search_removed")
        database.executescript("DROP TABLE search; DROP VIEW searchable; DROP TABLE owners")
        database.executescript(f"{_RUNS}; {_COPY}; DROP TABLE runs; DROP TABLE records")
        database.executescript("ALTER TABLE older RENAME TO runs; CREATE INDEX runs_of ON runs (owner, number)")
        database.executescript("CREATE INDEX runs_open ON runs (state) WHERE state IN ('queued', 'running')")
        if not has_words:
            database.execute("ALTER TABLE runs DROP COLUMN words")


def write_as_version_2(url: str) -> None:
    """Rewrite a PostgreSQL database: no summaries of runs."""
    import psycopg

    with psycopg.connect(url) as database:
        database.execute("ALTER TABLE chainofcode.runs DROP COLUMN summary")
        database.execute("UPDATE chainofcode.version SET number = 2")
