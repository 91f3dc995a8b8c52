"""Bounded rows and one-line errors, for both engines. Standard library only."""

from __future__ import annotations

import json

from ....values.arrays import numbered
from ....values.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

CELL_BYTES = 1_000_000
AS_PART = "EXPLAIN SELECT * FROM (\n{}\n)"  # only a query parses there


class QueryFailure(Exception):
    """A query failed; the message says why."""


def rows_of(cursor: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows by column name. Raises QueryFailure if they exceed the bounds of the request."""
    names = numbered([column[0] for column in cursor.description])
    rows: list[dict[str, Any]] = []
    left = request["bytes"]
    while (row := cursor.fetchone()) is not None:
        if len(rows) == request["rows"]:
            raise QueryFailure(f"it returns over {len(rows):,} rows; select fewer, or add LIMIT {len(rows)}")
        is_long = sum(len(cell) for cell in row if isinstance(cell, (str, bytes))) > left
        if not is_long:
            rows.append(dict(zip(names, row, strict=True)))
            left -= len(json.dumps(encode(rows[-1])))
        if is_long or left < 0:
            raise QueryFailure(f"its rows have over {request['bytes']:,} bytes; select less")
    return rows


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
