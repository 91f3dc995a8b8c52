"""numpy and pandas values as plain Python values, so that an answer can leave the guest. Standard library only.

Neither package is imported here: a program that has such values has imported it.
"""

from __future__ import annotations

import datetime
import sys
from types import ModuleType

from .atoms import SCALARS
from .records import ids_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_CELLS = 200_000
MAX_SHOWN_CELLS = 10_000  # of one column of objects


def plain(value: Any) -> Any:
    """Return a scalar, list or dict for an array, a table, or an element of one; return other values unchanged."""
    numpy = sys.modules["numpy"] if class_in("numpy", "generic") is not None else None
    pandas = sys.modules["pandas"] if class_in("pandas", "DataFrame") is not None else None
    try:
        return _plain(value, numpy, pandas)
    except Exception:  # raised by the package, or by the program's replacement of it
        return value


def sketch(value: Any) -> str:
    """Return a short text for an array or table; empty for anything else. Exact types only, so no program code runs."""
    kind = type(value)
    try:
        if class_in("numpy", type.__dict__["__name__"].__get__(kind)) is kind:
            return _array_text(value, kind)
        if kind is class_in("pandas", "DataFrame"):
            names = ", ".join(_label(name)[:30] for name in value.columns[:10].tolist())
            return f"<DataFrame of {len(value)} rows: {names}{', …' if len(value.columns) > 10 else ''}>"
        if kind is class_in("pandas", "Series"):
            return f"<Series of {len(value)} {value.dtype}>"
        if kind is class_in("pandas", "Timestamp") and _is_known_zone(type(value.tzinfo)):
            return repr(value)
    except Exception:
        return ""
    return ""


_LABELS = ids_of(*(SCALARS - {complex}), datetime.date, datetime.datetime)


def _is_known_zone(kind: type) -> bool:
    return kind is type(None) or kind is datetime.timezone or kind is class_in("zoneinfo", "ZoneInfo")


def _array_text(value: Any, kind: type) -> str:
    numpy = sys.modules["numpy"]
    if kind is numpy.ndarray:
        return f"<array of {' × '.join(map(str, value.shape)) or 'one'} {value.dtype}>"
    if not issubclass(kind, numpy.generic):
        return ""
    found = _scalar(value, numpy)
    return repr(found)[:100] if id(type(found)) in _SCALARS else ""


_SCALARS = ids_of(*(SCALARS - {type(None)}), datetime.datetime, datetime.timedelta)


def _label(name: Any) -> str:
    return str(name) if id(type(name)) in _LABELS else f"<{type.__dict__['__name__'].__get__(type(name))}>"


def class_in(package: str, name: Any) -> Any:
    """Return a class of a package, if the program imported the package and did not replace the class."""
    module = sys.modules.get(package)
    found = module.__dict__.get(name) if type(module) is ModuleType and type(name) is str else None
    return found if type(found) is type else None


def holds_plain_data(value: Any) -> bool:
    """Whether an array, table or column holds only plain data: showing the program's objects would run their code."""
    columns = [value]
    if type(value) is class_in("pandas", "DataFrame"):
        columns = [value.columns, value.index, *(value.iloc[:, number] for number in range(value.shape[1]))]
    elif type(value) is class_in("pandas", "Series"):
        columns = [value, value.index]
    return all(column.dtype.kind != "O" or _are_plain(column) for column in columns)


def _are_plain(column: Any) -> bool:
    """Whether all cells are plain data. Text columns have the dtype `object`, too."""
    cells = column.ravel() if type(column) is class_in("numpy", "ndarray") else column  # a column has one dimension
    return column.size <= MAX_SHOWN_CELLS and all(id(type(cell)) in _LABELS for cell in cells.tolist())


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
    return float(found) if issubclass(type(found), numpy.generic) else found  # a longdouble


def _table(value: Any, pandas: Any) -> Any:
    """Return a table as a list of dicts, one for each row; a column as a list, or as a dict if it has an index.

    A plain range is not an index. With repeated labels, a column becomes a list of pairs, and the columns of a table
    are numbered, so that nothing is lost.
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
    """Make labels unique: add a number to repeated ones."""
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
