"""What numpy and pandas hold, as Python's own values: an answer must leave the guest as data. Standard library only.

Neither package is imported here: a program that has such values has imported it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

MAX_CELLS = 200_000


def plain(value: Any) -> Any:
    """A scalar, list or dict for an array, a table, or one of their parts; anything else is itself."""
    try:
        return _plain(value, sys.modules.get("numpy"), sys.modules.get("pandas"))
    except BaseException:  # someone else's package, or what the program put in its place
        return value


def sketch(value: Any) -> str:
    """A short text for what `plain` would take apart; empty for anything else. Exact types only: nobody else's code."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    kind = type(value)
    try:
        if numpy is not None and kind.__module__ == "numpy" and issubclass(kind, numpy.generic):
            return repr(_scalar(value, numpy))[:100]
        if numpy is not None and kind is numpy.ndarray:
            return f"<array of {' × '.join(map(str, value.shape)) or 'one'} {value.dtype}>"
        if pandas is not None and kind is pandas.DataFrame:
            names = ", ".join(str(name)[:30] for name in value.columns[:10].tolist())
            return f"<DataFrame of {len(value)} rows: {names}{', …' if len(value.columns) > 10 else ''}>"
        if pandas is not None and kind is pandas.Series:
            return f"<Series of {len(value)} {value.dtype}>"
        if pandas is not None and kind is pandas.Timestamp:
            return repr(value)
    except BaseException:
        return ""
    return ""


def _plain(value: Any, numpy: Any, pandas: Any) -> Any:
    kind = type(value)
    if numpy is not None and issubclass(kind, numpy.generic):
        return _scalar(value, numpy)
    if numpy is not None and issubclass(kind, numpy.ndarray) and value.size <= MAX_CELLS:
        is_moment = value.dtype.kind in "mM"
        return (value.astype(f"{value.dtype.kind}8[us]") if is_moment else value).tolist()
    if pandas is None:
        return value
    if value is pandas.NaT or value is pandas.NA:
        return None
    if issubclass(kind, pandas.Timestamp):
        return value.to_pydatetime(warn=False)
    if issubclass(kind, pandas.Timedelta):
        return value.to_pytimedelta()
    if issubclass(kind, (pandas.DataFrame, pandas.Series, pandas.Index)) and value.size <= MAX_CELLS:
        return _table(value, pandas)
    return value


def _scalar(value: Any, numpy: Any) -> Any:
    if issubclass(type(value), (numpy.datetime64, numpy.timedelta64)):
        letter = "M" if issubclass(type(value), numpy.datetime64) else "m"
        return value.astype(f"{letter}8[us]").item()
    found = value.item()
    return float(found) if issubclass(type(found), numpy.generic) else found  # a number longer than Python's


def _table(value: Any, pandas: Any) -> Any:
    """Rows by column, with the index where it says something; a column as a list, or by its index.

    Where labels come again, a column is pairs, and the columns of a table have numbers: nothing gets lost.
    """
    if issubclass(type(value), pandas.Index):
        return value.tolist()
    is_numbered = issubclass(type(value.index), pandas.RangeIndex)
    if issubclass(type(value), pandas.Series):
        if not is_numbered and not value.index.is_unique:
            return list(zip(value.index.tolist(), value.tolist(), strict=True))
        return value.tolist() if is_numbered else value.to_dict()
    table = value if is_numbered else value.reset_index()
    if not table.columns.is_unique:
        table = table.set_axis(numbered(table.columns.tolist()), axis=1)
    return table.to_dict("records")


def numbered(labels: list[Any]) -> list[Any]:
    """Labels that are each their own: one that comes again has a number."""
    made: list[Any] = []
    numbers: dict[Any, int] = {}
    taken = set(labels)
    for label in labels:
        name, number = label, numbers.get(label, 1)
        while number > 1 and name in taken:
            name, number = f"{label}_{number}", number + 1
        numbers[label] = max(number, 2)
        taken.add(name)
        made.append(name)
    return made
