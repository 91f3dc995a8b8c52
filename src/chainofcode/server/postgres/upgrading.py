"""Creates and upgrades the tables of a database when a server starts."""

from __future__ import annotations

import psycopg

from ...errors import InputError
from . import run_rows, schema
from .connections import connected, reason


def prepare(url: str) -> None:
    """Create or upgrade the tables of a database. Raises InputError."""
    try:
        with connected(url) as connection:
            schema.prepare(connection)
            run_rows.add_summaries(connection)
    except psycopg.Error as error:
        message = str(error).partition("\n")[0][:300] or reason(error)
        raise InputError(f"cannot use the PostgreSQL database: {message}") from None
