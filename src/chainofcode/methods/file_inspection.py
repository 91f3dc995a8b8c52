"""Inspects one input file in a separate process, and describes it in a few lines for the model.

Every format takes time and memory in proportion to the file. Imports no third-party package except msgspec.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ..platforms import end_after
from ..values.brief import brief
from ..values.cells import Column
from .job_process import carry_out, file_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import TextIO

SHOWN_COLUMNS = 50
_SHOWN_ROWS = 3
_SHOWN_CHARS = 600
_SHOWN_NAME_CHARS = 60
_SNIFFED_CHARS = 8192
_CHUNK_CHARS = 1 << 20
_SEPARATORS = ",;\t|"


class _Words(NamedTuple):
    """The names that a language has for the values of input files."""

    text: str
    items: str
    record: str
    records: str
    nothing: str
    types: Mapping[str, str]  # of columns, where they differ from Python's
    row: Callable[[dict[str, Any]], str]


def _json_row(row: dict[str, Any]) -> str:
    return msgspec.json.encode(row).decode()[:_SHOWN_CHARS]


_WORDS = {
    "python": _Words("str", "a list", "a dict", "dicts", "None", {}, lambda row: brief(row, _SHOWN_CHARS)),
    "javascript": _Words(
        "string",
        "an array",
        "an object",
        "objects",
        "null",
        {
            "str": "string",
            "int": "number",
            "float": "number",
            "bool": "boolean",
            "date": "string with a date",
            "datetime": "string with a date and time",
        },
        _json_row,
    ),
}


class _Unreadable(Exception):
    """A file whose content is not of the type that its name indicates, with the reason."""


def main() -> None:
    carry_out(_inspected)


def _inspected(job: dict[str, Any]) -> dict[str, Any]:
    """Return `words` that describe a file, and the `separator` of its rows; or why it is `unreadable`."""
    path, words_for = job["path"], _WORDS[job.get("language", "python")]
    try:
        with end_after(job["seconds"], counts_cpu=True), _text_of(job) as file:
            if job["kind"] == "rows":
                return _table(path, file, words_for)
            words = {"json": _json, "lines": _lines, "text": _text}[job["kind"]](path, file, words_for)
    except _Unreadable as error:
        return {"unreadable": str(error)}
    except OSError as error:
        return {"unreadable": f"cannot read {path}: {error.strerror}"}
    except UnicodeDecodeError:
        return {"encoding": "not UTF-8"}
    return {"words": words}


def _text_of(job: dict[str, Any]) -> TextIO:
    """Open the file as text, with the line ends that the guest will see."""
    return open(file_of(job, job["path"]), newline="", encoding="utf-8-sig")


# --- formats ------------------------------------------------------------------------------------------------------


def _text(path: str, file: TextIO, words: _Words) -> str:
    begins = file.read(_SHOWN_CHARS + 1)
    size = len(begins)
    while chunk := file.read(_CHUNK_CHARS):
        size += len(chunk)
    is_cut = size > _SHOWN_CHARS
    shown = f"It begins:\n{fenced(begins[:_SHOWN_CHARS] + '…')}" if is_cut else f"It is:\n{fenced(begins)}"
    return f"the text of {file_name(path)} ({words.text}), {size:,} characters. {shown}"


def _table(path: str, file: TextIO, words: _Words) -> dict[str, Any]:
    """Return the separator of a file of rows, and its columns and first rows in words."""
    separator = "\t" if not path.lower().endswith(".csv") else _sniffed(file.readline(_SNIFFED_CHARS))
    file.seek(0)
    reader = csv.reader(file, delimiter=separator)
    try:
        header = next(reader, [])
        _check_header(path, header)
        columns = [Column() for _ in header]
        count, first = _counted(reader, columns)
    except (csv.Error, _Ragged) as error:
        raise _Unreadable(f"{path}, line {reader.line_num}: {error}") from None
    named = zip(header[:SHOWN_COLUMNS], columns, strict=False)
    typed = [f"{name[:_SHOWN_NAME_CHARS]!r}: {column.description(words.types)}" for name, column in named]
    more = [f"and {len(header) - SHOWN_COLUMNS} more keys"] if len(header) > SHOWN_COLUMNS else []
    values = [map(Column.value, columns, row) for row in first]
    rows = [words.row(dict(zip(header, row, strict=False))) for row in values]
    description = (
        f"{words.items} of {count:,} {words.records}, one for each row of {file_name(path)}; "
        f"a missing number or date is {words.nothing}. "
        "Keys with the types of their values, and the first rows:\n"
        + fenced("\n".join([*typed, *more, "", *rows]).rstrip())
    )
    return {"separator": separator, "words": description}


def _sniffed(line: str) -> str:
    """Return the most frequent separator of a line."""
    return max(_SEPARATORS, key=line.count)


def _check_header(path: str, header: list[str]) -> None:
    if not header:
        raise _Unreadable(f"{path} is empty: its first line must name the columns")
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise _Unreadable(f"{path} has two columns named {name[:100]!r}")
        seen.add(name)


class _Ragged(ValueError):
    """A row with more cells than columns."""


def _counted(rows: Iterator[list[str]], columns: list[Column]) -> tuple[int, list[list[str]]]:
    """Count the rows, add their cells to the columns, and return the first rows."""
    first: list[list[str]] = []
    count = 0
    for row in rows:
        if len(row) > len(columns):
            raise _Ragged(f"{len(row)} cells, but {len(columns)} columns")
        count += bool(row)
        for column, cell in zip(columns, row, strict=False):
            column.add(cell)
        if row and len(first) < _SHOWN_ROWS:
            first.append(row)
    return count, first


def _json(path: str, file: TextIO, words: _Words) -> str:
    data = file.read().encode()
    try:
        shape = msgspec.json.decode(data, type=list[msgspec.Raw] | dict[str, msgspec.Raw] | str | float | bool | None)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Unreadable(f"{path} is not JSON: {error}") from None
    begins = fenced(" ".join(data[: 2 * _SHOWN_CHARS].decode("utf-8", "replace").split())[:_SHOWN_CHARS])
    what = f"the data in {file_name(path)}"
    if isinstance(shape, list):
        return f"{what}: {words.items} of {len(shape):,}. It begins:\n{begins}"
    if isinstance(shape, dict):
        keys = ", ".join(repr(key[:_SHOWN_NAME_CHARS]) for key in list(shape)[:SHOWN_COLUMNS])
        return f"{what}: {words.record} with {len(shape):,} keys ({keys}). It begins:\n{begins}"
    return f"{what}:\n{begins}"


def _lines(path: str, file: TextIO, words: _Words) -> str:
    first: list[str] = []
    count = 0
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        try:
            msgspec.json.decode(line, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _Unreadable(f"{path}, line {number}: not JSON: {error}") from None
        count += 1
        if len(first) < _SHOWN_ROWS:
            first.append(line.strip()[:_SHOWN_CHARS])
    shown = fenced("\n".join(first))
    return f"{words.items} of {count:,}, one for each line of {file_name(path)}. The first:\n{shown}"


# --- words --------------------------------------------------------------------------------------------------------


def file_name(path: str) -> str:
    """Return a file's name for a prompt: on one line, and not long."""
    name = os.path.basename(path)
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name[:200])


def listed(columns: list[str], count: int) -> str:
    """List the first columns, of `count` in all."""
    more = count - SHOWN_COLUMNS
    return ", ".join(columns[:SHOWN_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def fenced(text: str) -> str:
    """Put text into a fence that it cannot close, so that it cannot pass for instructions."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
