"""The tables of the PostgreSQL store. The first server creates them; a newer one upgrades them.

Text that may hold any character is `bytea`: PostgreSQL's `text` cannot hold NUL.
"""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg

from ...errors import InputError

SCHEMA = "chainofcode"
_VERSION = 3
_MIGRATING = 7263001  # advisory locks; any numbers that nothing else uses
CLAIMING = 7263002
OWNER_LOCKS = 7263003
ARTIFACT_LOCKS = 7263004
_TABLES = """
CREATE TABLE runs (
    number bigserial PRIMARY KEY, id text NOT NULL UNIQUE, owner text NOT NULL, state text NOT NULL,
    method text NOT NULL, model text, created double precision NOT NULL, record bytea NOT NULL, words text NOT NULL,
    server text, is_cancelled boolean NOT NULL DEFAULT false, generation integer NOT NULL DEFAULT 0, trace_key text);
CREATE INDEX runs_of ON runs (owner, number);
CREATE INDEX runs_open ON runs (state, owner, number) WHERE state IN ('queued', 'running');
CREATE INDEX runs_paused ON runs (number) WHERE state = 'interrupted';
CREATE INDEX runs_ended ON runs (created) WHERE state NOT IN ('queued', 'running');
CREATE TABLE chunks (
    run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE, generation integer NOT NULL, start bigint NOT NULL,
    data bytea NOT NULL, PRIMARY KEY (run, generation, start));
ALTER TABLE chunks ALTER COLUMN data SET STORAGE MAIN;
CREATE TABLE requests (run text PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, request bytea NOT NULL);
CREATE TABLE questions (
    id text PRIMARY KEY, run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE, call bytea NOT NULL,
    type bytea NOT NULL, line integer NOT NULL, asked double precision NOT NULL, answer bytea);
CREATE UNIQUE INDEX questions_of ON questions (run, sha256(call));
CREATE TABLE files (
    id text PRIMARY KEY, owner text NOT NULL, name text NOT NULL, bytes bigint NOT NULL, sha256 text NOT NULL,
    created double precision NOT NULL);
CREATE INDEX files_of ON files (owner);
CREATE TABLE uses (
    file text NOT NULL, run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE, PRIMARY KEY (file, run));
CREATE INDEX uses_of ON uses (run);
CREATE TABLE artifacts (sha256 text NOT NULL, run text NOT NULL, PRIMARY KEY (sha256, run));
CREATE INDEX artifacts_of ON artifacts (run);
CREATE TABLE spent (
    day text NOT NULL, owner text NOT NULL, tokens bigint NOT NULL, dollars double precision NOT NULL,
    PRIMARY KEY (day, owner));
CREATE TABLE servers (id text PRIMARY KEY, seen timestamptz NOT NULL);
CREATE TABLE turns (owner text PRIMARY KEY, claimed bigint NOT NULL);
CREATE SEQUENCE claims;
CREATE TABLE garbage (key text PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE version (number integer NOT NULL);
"""
_TOKENS = "CREATE TABLE tokens (sha256 text PRIMARY KEY, added bigserial NOT NULL, record bytea NOT NULL)"
# What lists show of a run; NULL until `run_rows.add_summaries`, and in a row that an older server has written since.
_SUMMARIES = """
ALTER TABLE runs ADD COLUMN IF NOT EXISTS summary bytea;
CREATE INDEX IF NOT EXISTS runs_unsummarised ON runs (number) WHERE summary IS NULL;
"""
_UPGRADES = {2: _TOKENS, 3: _SUMMARIES}  # by the version that they lead to
_SEARCHED = "CREATE INDEX runs_words ON runs USING gin (words public.gin_trgm_ops)"


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Create or upgrade the tables, one server at a time. Raises InputError for tables of a newer version."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        row = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.version",)).fetchone()
        if row is None or row[0] is None:
            connection.execute(_TABLES)
            connection.execute("INSERT INTO version VALUES (1)")
            _index_words(connection)
        found = connection.execute("SELECT number FROM version").fetchone()
        if found is None or found[0] > _VERSION:
            raise InputError("the database was made by a newer version of chainofcode: upgrade this server")
        for number in range(found[0] + 1, _VERSION + 1):
            connection.execute(_UPGRADES[number])
            connection.execute("UPDATE version SET number = %s", (number,))


def _index_words(connection: psycopg.Connection[Any]) -> None:
    """Index the words of runs, if the database has the extension `pg_trgm`, which comes with PostgreSQL."""
    with contextlib.suppress(psycopg.Error), connection.transaction():
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public")
        connection.execute(_SEARCHED)
