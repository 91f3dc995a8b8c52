"""Data of unfinished runs in the SQLite store: the requests to resume them from, and questions for a person."""

from __future__ import annotations

import sqlite3

from .store import PendingQuestion, take_first_questions

TABLES = """
CREATE TABLE IF NOT EXISTS requests (run TEXT PRIMARY KEY, request BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY, run TEXT NOT NULL, call TEXT NOT NULL, type TEXT NOT NULL, line INTEGER NOT NULL,
    asked REAL NOT NULL, answer TEXT, UNIQUE (run, call));
CREATE INDEX IF NOT EXISTS runs_paused ON runs (state) WHERE state IN ('waiting', 'interrupted');
"""
# SQLite uses a partial index only where the query repeats its condition.
BROKEN_OFF = """SELECT id, owner FROM runs WHERE state IN ('queued', 'running')
UNION ALL SELECT id, owner FROM runs WHERE state IN ('waiting', 'interrupted') AND state = 'waiting'"""
FORGET = ("DELETE FROM requests WHERE run = ?", "DELETE FROM questions WHERE run = ?")
_INTERRUPTED = """SELECT id, owner FROM runs WHERE state IN ('waiting', 'interrupted') AND state = 'interrupted'
AND EXISTS (SELECT 1 FROM requests WHERE run = runs.id) ORDER BY number"""
_OPEN = """SELECT questions.* FROM questions JOIN runs ON runs.id = run
WHERE owner = :owner AND answer IS NULL AND state IN ('queued', 'running', 'waiting') AND (:run IS NULL OR run = :run)
ORDER BY asked LIMIT :limit"""
_OWN = "SELECT questions.* FROM questions JOIN runs ON runs.id = run WHERE questions.id = ? AND owner = ?"


def forget(database: sqlite3.Connection, run: str) -> None:
    for statement in FORGET:
        database.execute(statement, (run,))


def request(database: sqlite3.Connection, run: str) -> bytes | None:
    row = database.execute("SELECT request FROM requests WHERE run = ?", (run,)).fetchone()
    return row[0] if row else None


def interrupted(database: sqlite3.Connection) -> list[tuple[str, str]]:
    return database.execute(_INTERRUPTED).fetchall()


def keep_question(database: sqlite3.Connection, question: PendingQuestion) -> None:
    row = (question.id, question.run, question.call, question.type, question.line, question.asked, question.answer)
    database.execute("INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def question(database: sqlite3.Connection, id: str, owner: str) -> PendingQuestion | None:
    return _read(database.execute(_OWN, (id, owner)).fetchone())


def question_of(database: sqlite3.Connection, run: str, call: str) -> PendingQuestion | None:
    return _read(database.execute("SELECT * FROM questions WHERE run = ? AND call = ?", (run, call)).fetchone())


def questions(database: sqlite3.Connection, owner: str, limit: int, run: str | None) -> list[PendingQuestion]:
    rows = database.execute(_OPEN, {"owner": owner, "limit": limit, "run": run})
    return take_first_questions(PendingQuestion(*row) for row in rows)


def answer_question(database: sqlite3.Connection, id: str, answer: str) -> bool:
    done = database.execute("UPDATE questions SET answer = ? WHERE id = ? AND answer IS NULL", (answer, id))
    return done.rowcount == 1


def _read(row: tuple[str, str, str, str, int, float, str | None] | None) -> PendingQuestion | None:
    return PendingQuestion(*row) if row is not None else None
