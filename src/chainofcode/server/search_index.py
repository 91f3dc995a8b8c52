"""The search index of the SQLite store: the trigrams of each run's words, in an FTS5 table.

A search looks up the trigrams of its words, then checks each candidate. Words of one or two characters, and SQLite
without FTS5, need a scan of the owner's runs. If the triggers exist, they have kept the index up to date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from .store import RunFilter, RunRecord

_SEARCHED_CHARS = 2000  # of a question, and of an answer
_TRIGRAM_CHARS = 3
_MAX_TRIGRAMS = 24  # of one search: more would exclude few further runs
# A rowid begins with the number of the run's owner, so that a search reads the entries of no other owner.
_OWNER_BITS = 40
_CREATE = """
CREATE TABLE IF NOT EXISTS owners (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO owners (name) SELECT DISTINCT owner FROM runs WHERE owner NOT IN (SELECT name FROM owners);
DROP VIEW IF EXISTS searchable;
CREATE VIEW searchable AS
    SELECT (owners.number << 40 | runs.number) AS place, runs.number, words FROM runs JOIN owners ON owner = name;
DROP TABLE IF EXISTS search;
CREATE VIRTUAL TABLE search USING fts5(words, content='', detail='none', tokenize='trigram case_sensitive 1');
INSERT INTO search (search, rank) VALUES ('hashsize', 67108864);
INSERT INTO search (rowid, words) SELECT place, words FROM searchable;
INSERT INTO search (search, rank) VALUES ('hashsize', 1048576);
CREATE TRIGGER search_added AFTER INSERT ON runs BEGIN
    INSERT INTO owners (name) SELECT new.owner WHERE NOT EXISTS (SELECT 1 FROM owners WHERE name = new.owner);
    INSERT INTO search (rowid, words) SELECT place, new.words FROM searchable WHERE number = new.number;
END;
CREATE TRIGGER search_changed AFTER UPDATE OF words ON runs WHEN old.words <> new.words BEGIN
    INSERT INTO search (search, rowid, words)
        SELECT 'delete', place, old.words FROM searchable WHERE number = new.number;
    INSERT INTO search (rowid, words) SELECT place, new.words FROM searchable WHERE number = new.number;
END;
CREATE TRIGGER search_removed BEFORE DELETE ON runs BEGIN
    INSERT INTO search (search, rowid, words)
        SELECT 'delete', place, old.words FROM searchable WHERE number = old.number;
END;
"""
_TRIGGERS = ("search_added", "search_changed", "search_removed")
_PROBE = "CREATE VIRTUAL TABLE temp.probe USING fts5(words, detail='none', tokenize='trigram case_sensitive 1')"
_PLAIN = "SELECT summary FROM runs WHERE owner = :owner AND number < :before"
_INDEXED = """SELECT summary FROM search CROSS JOIN runs ON runs.number = search.rowid & ((1 << 40) - 1)
WHERE search MATCH :trigrams AND search.rowid >= :first AND search.rowid < :first + :before AND runs.owner = :owner"""


_FACTS = {  # filters besides words
    "state": "runs.state = :state",
    "method": "runs.method = :method",
    "model": "runs.model = :model",
    "since": "runs.created >= :since",
    "until": "runs.created < :until",
}


class SearchQuery(NamedTuple):
    """A SELECT of summaries, the newest first, and its parameters."""

    sql: str
    given: dict[str, Any]


def prepare(database: sqlite3.Connection) -> bool:
    """Create the index of all runs if it is missing. Return whether this SQLite supports it."""
    sql = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (?, ?, ?)"
    (triggers,) = database.execute(sql, _TRIGGERS).fetchone()
    if not _has_trigrams(database):
        for name in _TRIGGERS:  # left by an SQLite with trigrams, which will build the index again
            database.execute(f"DROP TRIGGER IF EXISTS {name}")
        return False
    if triggers < len(_TRIGGERS):
        database.execute("BEGIN IMMEDIATE")
        for statement in statements(_CREATE):
            database.execute(statement)
        database.execute("COMMIT")
    return True


def _has_trigrams(database: sqlite3.Connection) -> bool:
    try:
        database.execute(_PROBE)
        database.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError:
        return False
    return True


def drop(database: sqlite3.Connection) -> None:
    """Remove what `prepare` creates from the table of runs, which is about to be replaced."""
    for name in _TRIGGERS:
        database.execute(f"DROP TRIGGER IF EXISTS {name}")
    database.execute("DROP VIEW IF EXISTS searchable")


def statements(script: str) -> list[str]:
    """The statements of a script. Not `executescript`: it would commit first."""
    found, begun = [], ""
    for line in script.strip().splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found


def query(
    database: sqlite3.Connection, owner: str, run_filter: RunFilter, *, before: str | None, has_index: bool
) -> SearchQuery:
    """The runs of an owner that match a filter; with `before`, only runs older than the one with that id."""
    given: dict[str, Any] = {"owner": owner, "before": _number(database, owner, before)}
    sql, folded = _PLAIN, [searched(word) for word in run_filter.words]
    trigrams = _trigrams(folded)
    if has_index and trigrams:
        sql = _INDEXED
        row = database.execute("SELECT number FROM owners WHERE name = ?", (owner,)).fetchone()
        given["first"] = (row[0] if row else 0) << _OWNER_BITS
        given["trigrams"] = " ".join('"{}"'.format(trigram.replace('"', '""')) for trigram in trigrams)
    for place, word in enumerate(folded):
        sql += f" AND instr(runs.words, :word{place})"
        given[f"word{place}"] = word
    for name, condition in _FACTS.items():
        if (value := getattr(run_filter, name)) is not None:
            sql += f" AND {condition}"
            given[name] = value
    order = "search.rowid" if sql.startswith(_INDEXED) else "runs.number"
    return SearchQuery(f"{sql} ORDER BY {order} DESC LIMIT :limit", given)


def _number(database: sqlite3.Connection, owner: str, id: str | None) -> int:
    """The number of a run (older runs have smaller ones); without an id, a number above all."""
    if id is None:
        return 1 << _OWNER_BITS
    row = database.execute("SELECT number FROM runs WHERE id = ? AND owner = ?", (id, owner)).fetchone()
    return int(row[0]) if row else 0


def _trigrams(words: Sequence[str]) -> list[str]:
    found = (word[place : place + _TRIGRAM_CHARS] for word in words for place in range(len(word) - _TRIGRAM_CHARS + 1))
    return list(dict.fromkeys(found))[:_MAX_TRIGRAMS]


def searched_words(run: RunRecord) -> str:
    """The searchable text of a run."""
    parts = (run.question, run.answer, run.method, run.model, run.reason, run.state, run.id)
    return searched("\n".join((part or "")[:_SEARCHED_CHARS] for part in parts))


def searched(text: str) -> str:
    """Text as it is indexed and searched: case-folded, without characters that SQLite's tokenizer stops at."""
    return text.casefold().replace("\0", " ").encode(errors="replace").decode()
