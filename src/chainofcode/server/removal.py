"""Removal from the SQLite store: first rows, then the files that only they referred to.

A server that is killed in between leaves files without a row, never a row without files. The next start removes them.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from . import pending, sqlite_runs
from .trace_files import PARTIAL

TABLES = """
CREATE TABLE IF NOT EXISTS artifacts (sha256 TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (sha256, run));
CREATE INDEX IF NOT EXISTS artifacts_of ON artifacts (run);
CREATE TABLE IF NOT EXISTS uses (file TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (file, run));
CREATE INDEX IF NOT EXISTS uses_of ON uses (run);
"""
# Versions of the database: 0 had neither the owners of artifacts nor the times of uploads.
_KNOWS_ALL_FILES = 1
_HAS_UNKNOWN_FILES = 2  # created in a directory that already had files: those must stay
_ENDED = """SELECT id FROM runs WHERE state NOT IN ('queued', 'running', 'waiting') AND created < ?
ORDER BY created LIMIT ?"""
_FORGET = (
    "DELETE FROM records WHERE number = (SELECT number FROM runs WHERE id = ?)",
    "DELETE FROM runs WHERE id = ?",
    "DELETE FROM artifacts WHERE run = ?",
    "DELETE FROM uses WHERE run = ?",
    *pending.FORGET,
)
_UNUSED = "SELECT id FROM files WHERE created < ? AND NOT EXISTS (SELECT 1 FROM uses WHERE file = files.id)"


class _RunFacts(msgspec.Struct):
    """The fields of a run's record that matter here."""

    id: str
    artifacts: list[dict[str, object]] = []


def upgrade_and_sweep(database: sqlite3.Connection, directory: Path) -> None:
    """At the start: upgrade an old database, and remove what a killed server left in the directory.

    Files are removed only if the database knows all files of the directory. A new database next to old files does not.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        _upgrade(database, directory)
    elif version == _KNOWS_ALL_FILES:
        _sweep(database, directory)


def _upgrade(database: sqlite3.Connection, directory: Path) -> None:
    database.execute("BEGIN IMMEDIATE")
    if "created" not in [row[1] for row in database.execute("PRAGMA table_info(files)")]:
        database.execute("ALTER TABLE files ADD COLUMN created REAL")  # uploads without a time stay
    for record in sqlite_runs.every_record(database):
        kept = msgspec.json.decode(record, type=_RunFacts)
        link(database, kept.id, [str(file["sha256"]) for file in kept.artifacts])
    version = _HAS_UNKNOWN_FILES if any(_unknown(database, directory)) else _KNOWS_ALL_FILES
    database.execute(f"PRAGMA user_version = {version}")
    database.execute("COMMIT")


def link(database: sqlite3.Connection, run: str, artifacts: Iterable[str]) -> None:
    rows = [(sha256, run) for sha256 in artifacts]
    database.executemany("INSERT OR IGNORE INTO artifacts VALUES (?, ?)", rows)


def ended_before(database: sqlite3.Connection, time: float, most: int) -> list[str]:
    """Runs created before a time that have ended, the oldest first."""
    return [row[0] for row in database.execute(_ENDED, (time, most))]


def forget(database: sqlite3.Connection, runs: Iterable[str]) -> list[str]:
    """Delete the rows of runs. Return their artifacts."""
    artifacts: list[str] = []
    for run in runs:
        artifacts += [row[0] for row in database.execute("SELECT sha256 FROM artifacts WHERE run = ?", (run,))]
        for statement in _FORGET:
            database.execute(statement, (run,))
    return artifacts


def clear(database: sqlite3.Connection, directory: Path, runs: Iterable[str], artifacts: Iterable[str]) -> None:
    """Delete the files of runs that no longer have rows, except artifacts that another run has left again since."""
    for run in runs:
        for suffix in (".jsonl", PARTIAL):
            (directory / "traces" / f"{run}{suffix}").unlink(missing_ok=True)
    for sha256 in artifacts:
        if database.execute("SELECT 1 FROM artifacts WHERE sha256 = ?", (sha256,)).fetchone() is None:
            (directory / "artifacts" / sha256).unlink(missing_ok=True)


def forget_files(database: sqlite3.Connection, time: float) -> list[str]:
    """Delete the rows of uploads from before a time that no run uses. Return their ids."""
    ids = [row[0] for row in database.execute(_UNUSED, (time,)).fetchall()]
    database.executemany("DELETE FROM files WHERE id = ?", [(id,) for id in ids])
    return ids


def clear_files(directory: Path, ids: Iterable[str]) -> None:
    for id in ids:
        shutil.rmtree(directory / "files" / id, ignore_errors=True)


def _sweep(database: sqlite3.Connection, directory: Path) -> None:
    traces, files = _unknown(database, directory)
    clear(database, directory, traces, [path.name for path in (directory / "artifacts").iterdir()])
    clear_files(directory, files)


def _unknown(database: sqlite3.Connection, directory: Path) -> tuple[list[str], list[str]]:
    """Traces and uploads without a row."""
    runs = {row[0] for row in database.execute("SELECT id FROM runs")}
    files = {row[0] for row in database.execute("SELECT id FROM files")}
    traces = [path.stem for path in (directory / "traces").iterdir() if path.stem not in runs]
    return traces, [path.name for path in (directory / "files").iterdir() if path.name not in files]
