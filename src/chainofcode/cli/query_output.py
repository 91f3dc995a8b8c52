"""Rows of a query as a table in the terminal, as CSV, JSON lines or Parquet."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..methods.queries import QueryResult
from ..render import cut, fit, plain
from ..sandbox.packages import is_installed
from .terminal import note, output_style, print_line, print_result

_MAX_CELL = 60
_MAX_ROWS = 200
_SUFFIXES = (".csv", ".jsonl", ".parquet")


def check_output(given: argparse.Namespace) -> None:
    """Check the options for the output. Raises InputError before anything is run."""
    if given.json and given.csv:
        raise InputError("--json and --csv cannot be combined")
    if given.out is None:
        return
    if given.out.suffix.lower() not in _SUFFIXES:
        raise InputError(f"cannot write {given.out}: the name must end with one of {', '.join(_SUFFIXES)}")
    if given.out.suffix.lower() == ".parquet" and not is_installed("pyarrow"):
        raise InputError("writing Parquet needs pyarrow: pip install 'chainofcode[tables]' (or pip install pyarrow)")


def print_table(result: QueryResult) -> None:
    """Print rows with aligned columns, cut to the width of the terminal."""
    rows, names = result.rows, result.columns
    width, _ = output_style()
    cells = [[_cell(row[name]) for name in names] for row in rows[:_MAX_ROWS]]
    widths = [max(len(cut(plain(name), _MAX_CELL)), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    for line in ([cut(plain(name), _MAX_CELL) for name in names], *cells) if rows else ():
        text = "  ".join(fit(cell, size) for cell, size in zip(line, widths, strict=True))
        print_line(cut(text.rstrip(), max(width, 40)))
    if len(rows) > _MAX_ROWS:
        print_line(f"… {len(rows) - _MAX_ROWS:,} more rows (--csv and --out have all)")
    calls = result.trace.lm_calls
    note(f"{len(rows):,} row{'' if len(rows) == 1 else 's'}, {calls:,} call{'' if calls == 1 else 's'}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return cut(plain(value if isinstance(value, str) else json.dumps(value, default=str)), _MAX_CELL)


def print_csv(result: QueryResult) -> None:
    print_result(_csv(result).rstrip("\n"))


def _csv(result: QueryResult) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, result.columns, lineterminator="\n")
    writer.writeheader()
    for row in result.rows:
        writer.writerow({name: _flat(value) for name, value in row.items()})
    return text.getvalue()


def _flat(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def write_output(result: QueryResult, path: Path) -> None:
    """Write rows to a file, in the format of its suffix."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".csv":
            path.write_text(_csv(result), encoding="utf-8")
        elif suffix == ".jsonl":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in result.rows), encoding="utf-8")
        else:
            table = importlib.import_module("pyarrow").Table.from_pylist(result.rows)
            importlib.import_module("pyarrow.parquet").write_table(table, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    note(f"{len(result.rows):,} rows in {path}")
