"""Input files: inspected before a model is asked, read inside the guest, shown to the model in a few lines.

Tables are DataFrames where pandas is granted, else CSV and TSV are lists of dicts. Tables for pandas are inspected in a
guest, too: only text and JSON are parsed on the host.
"""

from __future__ import annotations

import asyncio
import builtins
import csv
import itertools
import keyword
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ..engine import RunOptions, arun
from ..errors import InputError
from ..sandbox import File, Sandbox
from ..sandbox.packages import is_installed
from ..values.codec import brief

MAX_BYTES = 100 * 1024**2
_SHOWN_ROWS = 3
_SHOWN_COLUMNS = 50
_SHOWN_CHARS = 600
_SNIFFED_CHARS = 8192
_SEPARATORS = ",;\t|"
_KINDS = {
    ".csv": "rows", ".tsv": "rows", ".tab": "rows", ".parquet": "parquet", ".pq": "parquet", ".xlsx": "excel",
    ".xlsm": "excel", ".xls": "excel", ".json": "json", ".jsonl": "lines", ".ndjson": "lines", ".txt": "text",
    ".md": "text", ".markdown": "text", ".text": "text", ".log": "text", ".png": "path", ".jpg": "path",
    ".jpeg": "path", ".gif": "path", ".webp": "path", ".bmp": "path", ".tif": "path", ".tiff": "path", ".svg": "path",
}  # fmt: skip
_READ_WITH = {".parquet": "pyarrow", ".pq": "pyarrow", ".xlsx": "openpyxl", ".xlsm": "openpyxl", ".xls": "xlrd"}
_MEANT_OTHERWISE = {*sys.stdlib_module_names, "answer", "pd", "np", "plt", "pandas", "numpy"}
_LOOK = """
answer = {}
for name, table in tables.items():
    types = [[str(column), str(kind)] for column, kind in list(table.dtypes.items())[:50]]
    head = table.iloc[:3, :50].to_csv(index=False)
    answer[name] = [len(table), len(table.columns), types, head[:2000]]
"""


@dataclass(frozen=True)
class Files:
    """What files grant to a program and set in it, and what the model is told of them."""

    reads: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    prelude: tuple[File, ...] = ()
    told: str = ""

    def granted(self, options: RunOptions) -> RunOptions:
        """Return the options with the files granted."""
        if not self.prelude:
            return options
        packages = tuple(dict.fromkeys((*options.packages, *self.packages)))
        reads = (*options.reads, *self.reads)
        return replace(options, reads=reads, packages=packages, prelude=self.prelude)


async def files_of(
    paths: Files | Iterable[str | os.PathLike[str]], options: RunOptions, sandbox: Sandbox | str = "auto"
) -> Files:
    """Inspect files. Raises InputError for one that is missing, too large, or not of the type of its name."""
    if isinstance(paths, Files):
        return paths
    listed = [os.fspath(path) for path in paths]
    kinds = {path: _kind(path) for path in listed}
    packages = _packages(listed, kinds, options.packages)
    taken = {"question", *options.inputs, *options.toolbox.tools}
    prelude, told = [], []
    for path in listed:
        name = _name(Path(path).stem, taken)
        taken.add(name)
        read, words = await asyncio.to_thread(_looked_at, name, path, kinds[path], "pandas" in packages)
        prelude.append(read)
        told.append(words)
    files = Files(tuple(listed), packages, tuple(prelude))
    tables = await _look(files, options, sandbox)
    shown = [f"{file.name} = {tables.get(file.name, words)}" for file, words in zip(prelude, told, strict=True)]
    return Files(files.reads, packages, files.prelude, "\n".join(shown))


def _kind(path: str) -> str:
    suffix = Path(path).suffix.lower()
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read {path}: {why}") from None
    if not stat.S_ISREG(found.st_mode):
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise InputError(f"cannot read {path}: it is {what}; name a file (--allow-read grants directories)")
    if found.st_size > MAX_BYTES:
        raise InputError(f"{path} has {found.st_size:,} bytes; {MAX_BYTES:,} are allowed (--allow-read grants more)")
    return _KINDS.get(suffix, "text")


def _packages(paths: Sequence[str], kinds: dict[str, str], granted: Sequence[str]) -> tuple[str, ...]:
    """Return the packages to read files with: pandas, where it is granted or required, and its own readers."""
    wanted = [name for name in ("pandas",) if name in granted]
    for path in paths:
        if kinds[path] in ("parquet", "excel"):
            needed = ["pandas", _READ_WITH[Path(path).suffix.lower()]]
            missing = [name for name in needed if not is_installed(name)]
            if missing:
                raise InputError(
                    f"reading {path} takes {' and '.join(needed)}: pip install 'chainofcode[tables]' "
                    f"(or pip install {' '.join(missing)})"
                )
            wanted += needed
    return tuple(dict.fromkeys(wanted))


def _name(stem: str, taken: set[str]) -> str:
    """Return a variable name for a file that is not taken and has no meaning in Python."""
    name = re.sub(r"\W+", "_", stem).strip("_") or "file"
    if not name.isidentifier():
        name = f"file_{name}"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name) or name in _MEANT_OTHERWISE:
        name += "_file"
    candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(unique for unique in candidates if unique not in taken)


# --- a look at each -----------------------------------------------------------------------------------------------


def _looked_at(name: str, path: str, kind: Any, has_pandas: bool) -> tuple[File, str]:
    place = os.path.abspath(path)
    what = os.path.basename(path)
    match kind:
        case "rows":
            separator, words = _table(path)
            return File(name, place, "table" if has_pandas else "rows", separator), words
        case "json":
            return File(name, place, kind), f"the data in {what}: {_json(path)}"
        case "lines":
            return File(name, place, kind), _lines(path)
        case "text":
            with _opened(path) as file:
                text = file.read()
            is_cut = len(text) > _SHOWN_CHARS
            begins = f"It begins:\n{_fenced(text[:_SHOWN_CHARS] + '…')}" if is_cut else f"It is:\n{_fenced(text)}"
            return File(name, place, kind), f"the text of {what} (str), {len(text):,} characters. {begins}"
        case "path":
            return File(name, place, kind), f"{place!r}, the path (str) of an image"
    return File(name, place, kind), ""


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """Open a file as text, with the line ends that the guest will see."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        known = ", ".join(sorted(_KINDS))
        if os.path.splitext(path)[1].lower() in _KINDS:
            raise InputError(f"cannot read {path}: its text is not UTF-8; convert it first (iconv does that)") from None
        raise InputError(f"cannot read {path}: it is neither text in UTF-8 nor named as one of {known}") from None


def _table(path: str) -> tuple[str, str]:
    """Return the separator of a file of rows, and its columns and first rows in words."""
    with _opened(path) as file:
        separator = "\t" if not path.lower().endswith(".csv") else _sniffed(file.readline(_SNIFFED_CHARS))
        file.seek(0)
        reader = csv.reader(file, delimiter=separator)
        try:
            header = next(reader, [])
            count, first = _counted(reader, header)
        except (csv.Error, _Ragged) as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    if not header:
        raise InputError(f"{path} is empty: its first line must name the columns")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path} has two columns of the name {twice[:100]!r}")
    shown = "\n".join(brief(dict(zip(header, row, strict=False)), _SHOWN_CHARS) for row in first)
    return separator, (
        f"a list of {count:,} dicts, one for each row of {os.path.basename(path)}; every value is text (str). "
        f"Columns: {_listed([repr(name[:60]) for name in header])}. The first rows:\n{shown}"
    )


class _Ragged(ValueError):
    """A row with more cells than columns."""


def _counted(rows: Iterator[list[str]], header: list[str]) -> tuple[int, list[list[str]]]:
    """Count the rows, and return the first ones."""
    first: list[list[str]] = []
    count = 0
    for row in rows:
        if len(row) > len(header):
            raise _Ragged(f"{len(row)} cells, but {len(header)} columns")
        count += bool(row)
        if row and len(first) < _SHOWN_ROWS:
            first.append(row)
    return count, first


def _listed(columns: list[str], count: int | None = None) -> str:
    """List the first columns, of `count` in all."""
    more = (count or len(columns)) - _SHOWN_COLUMNS
    return ", ".join(columns[:_SHOWN_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def _sniffed(line: str) -> str:
    """Return the most frequent separator of a line."""
    return max(_SEPARATORS, key=line.count)


def _json(path: str) -> str:
    with _opened(path) as file:
        data = file.read().encode()
    try:
        shape = msgspec.json.decode(data, type=list[msgspec.Raw] | dict[str, msgspec.Raw] | str | float | bool | None)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    begins = " ".join(data[: 2 * _SHOWN_CHARS].decode("utf-8", "replace").split())[:_SHOWN_CHARS]
    if isinstance(shape, list):
        return f"a list of {len(shape):,}. It begins:\n{begins}"
    if isinstance(shape, dict):
        keys = ", ".join(repr(key[:60]) for key in list(shape)[:_SHOWN_COLUMNS])
        return f"a dict with {len(shape):,} keys ({keys}). It begins:\n{begins}"
    return begins


def _lines(path: str) -> str:
    first: list[str] = []
    count = 0
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                count += bool(line.strip()) and isinstance(msgspec.json.decode(line, type=msgspec.Raw), msgspec.Raw)
            except (msgspec.DecodeError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: not JSON: {error}") from None
            if line.strip() and len(first) < _SHOWN_ROWS:
                first.append(line.strip()[:_SHOWN_CHARS])
    shown = "\n".join(first)
    return f"a list of {count:,}, one for each line of {os.path.basename(path)}. The first:\n{shown}"


async def _look(files: Files, options: RunOptions, sandbox: Sandbox | str) -> dict[str, str]:
    """Describe the tables that pandas reads, in a guest."""
    tables = [file for file in files.prelude if file.kind in ("table", "parquet", "excel")]
    if not tables:
        return {}
    names = ", ".join(f"{file.name!r}: {file.name}" for file in tables)
    kept = RunOptions(reads=options.reads, packages=options.packages, limits=options.limits)
    alone = Files(files.reads, files.packages, tuple(tables)).granted(kept)
    result = await arun(f"tables = {{{names}}}{_LOOK}", sandbox=sandbox, options=alone)
    if not result.is_answered:
        why = result.error.message if result.error is not None else result.reason
        raise InputError(f"cannot read {tables[0].path}: {why}" if not why.startswith("cannot read") else why)
    return {file.name: _frame(file, *result.answer[file.name]) for file in tables}


def _frame(file: File, rows: int, columns: int, types: list[list[str]], head: str) -> str:
    listed = _listed([f"{name[:60]!r} ({kind})" for name, kind in types], columns)
    return (
        f"a pandas DataFrame of {rows:,} rows, from {os.path.basename(file.path)}. Columns: {listed}. "
        f"The first rows, as CSV:\n{_fenced(head.rstrip())}"
    )


def _fenced(text: str) -> str:
    """Put text into a fence that it cannot close: nothing in it passes for our own words."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


__all__ = ["MAX_BYTES", "Files", "files_of"]
