"""Inspects a database, or runs one read-only query, inside a guest. Standard library and the package duckdb only.

The host sends a request as JSON, in place of a program: its `engine`, what it wants (`schema`, `tables` or `rows`) and
the bounds of the result. The answer is an object with the result, or with an `error`; `unreadable` says why the
file cannot be used.
"""

from __future__ import annotations

import json

from ....values.codec import encode
from ...guest.link import GuestLink
from .duckdb_queries import duckdb_result
from .outcomes import QueryFailure
from .sqlite_queries import sqlite_result

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


def rehearse() -> None:
    """Do nothing: this process has already imported what its forks need."""


def serve(link: GuestLink, start: dict[str, Any]) -> dict[str, Any]:
    """Answer one request and return how it ended."""
    ((_, path, *_),) = start["prelude"]
    request = {**json.loads(start["source"]), "memory": start["memory_bytes"]}
    try:
        found = result_of(path, request)
    except MemoryError:
        return {"reason": "limit:memory", "error": {"type": "MemoryError", "message": "the query ran out of memory"}}
    return {"reason": "answered", "answer": encode(found)}


def result_of(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request. A worker process, which is not a guest, also uses this."""
    try:
        return (duckdb_result if request["engine"] == "DuckDB" else sqlite_result)(path, request)
    except QueryFailure as error:
        return {"error": str(error)}
