"""Input files: inspected before a model is asked, read inside the guest, shown to the model in a few lines.

Tables are DataFrames if pandas is granted to a Python program, else CSV and TSV are lists of dicts (in JavaScript,
arrays of objects). Text and JSON are inspected in a process with limits (`file_inspection`), tables for pandas and
databases in a guest: this process parses none of them.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..engine import RunOptions, arun
from ..errors import InputError
from ..languages import JAVASCRIPT, PYTHON, Language
from ..sandbox import File, Sandbox
from ..sandbox.packages import is_installed
from .databases import description_of
from .file_inspection import fenced, file_name, listed
from .isolated import Worker, arun_isolated

MAX_BYTES = 100 * 1024**2
_MAX_FILES = 100  # each is inspected in a process of its own, and described in the prompt
INSPECTION_SECONDS, INSPECTION_BYTES = 60.0, 1024**3
_KINDS = {
    ".csv": "rows", ".tsv": "rows", ".tab": "rows", ".parquet": "parquet", ".pq": "parquet", ".xlsx": "excel",
    ".xlsm": "excel", ".json": "json", ".jsonl": "lines", ".ndjson": "lines", ".txt": "text",
    ".md": "text", ".markdown": "text", ".text": "text", ".log": "text", ".png": "path", ".jpg": "path",
    ".db": "database", ".sqlite": "database", ".sqlite3": "database",
    ".jpeg": "path", ".gif": "path", ".webp": "path", ".bmp": "path", ".tif": "path", ".tiff": "path", ".svg": "path",
}  # fmt: skip
_OTHER_DATA = {".duckdb", ".ddb", ".html", ".ipynb", ".toml", ".xml", ".yaml", ".yml"}
_READ_WITH = {".parquet": "pyarrow", ".pq": "pyarrow", ".xlsx": "openpyxl", ".xlsm": "openpyxl"}
_MEANT_OTHERWISE = {*sys.stdlib_module_names, "answer", "pd", "np", "plt", "pandas", "numpy"}
_JAVASCRIPT_WORDS = """
arguments async await break case catch class const continue debugger default delete do else enum eval export extends
false finally for function get if implements import in instanceof interface let new null of package private protected
public return set static super switch this throw true try typeof undefined var void while with yield
AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DOMException DataView Date Error
EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array
InternalError Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set
SharedArrayBuffer String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray
WeakMap WeakRef WeakSet answer clearInterval clearTimeout console decodeURI decodeURIComponent encodeURI
encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt performance queueMicrotask setInterval
setTimeout structuredClone unescape
"""
_TAKEN_IN_JAVASCRIPT = frozenset(_JAVASCRIPT_WORDS.split())
_LOOK = """
answer = {}
for name, table in tables.items():
    types = [[str(column), str(kind)] for column, kind in list(table.dtypes.items())[:50]]
    head = table.iloc[:3, :50].to_csv(index=False)
    answer[name] = [len(table), len(table.columns), types, head[:2000]]
"""


@dataclass(frozen=True)
class Files:
    """The files and packages granted to a program, the variables it starts with, and a description for the model."""

    reads: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    prelude: tuple[File, ...] = ()
    description: str = ""

    def granted(self, options: RunOptions) -> RunOptions:
        """Return the options with the files granted."""
        if not self.prelude:
            return options
        packages = tuple(dict.fromkeys((*options.packages, *self.packages)))
        reads = (*options.reads, *self.reads)
        return replace(options, reads=reads, packages=packages, prelude=self.prelude)


async def inspected(module: str, job: dict[str, Any]) -> dict[str, Any]:
    """Inspect one file in a separate process; a server uses its shared workers instead."""
    return await arun_isolated(module, job, seconds=INSPECTION_SECONDS, memory=INSPECTION_BYTES)


async def files_of(
    paths: Files | Iterable[str | os.PathLike[str]],
    options: RunOptions,
    sandbox: Sandbox | str = "auto",
    worker: Worker = inspected,
) -> Files:
    """Inspect files. Raises InputError for one that is missing, too large, or not of the type its name implies."""
    if isinstance(paths, Files):
        return paths
    listed = [os.fspath(path) for path in paths]
    if len(listed) > _MAX_FILES:
        raise InputError(f"{len(listed):,} files given; the limit is {_MAX_FILES} (--allow-read grants directories)")
    language = options.language_or(PYTHON)
    kinds = {path: _kind(path) for path in listed}
    if language is JAVASCRIPT:
        _check_kinds(kinds)
    packages = _packages(listed, kinds, options.packages) if language is PYTHON else ()
    taken = {"question", *options.inputs, *options.toolbox.tools}
    prelude, descriptions = [], []
    for path in listed:
        name = _name(Path(path).stem, taken, language)
        taken.add(name)
        if kinds[path] == "database":
            words = await description_of(path, sandbox, seconds=INSPECTION_SECONDS, memory=INSPECTION_BYTES)
            read = _file(name, path, "database")
        else:
            read, words = await _described(name, path, kinds[path], worker, language)
        if read.kind == "rows" and "pandas" in packages:
            read = replace(read, kind="table")
        prelude.append(read)
        descriptions.append(words)
    files = Files(tuple(listed), packages, tuple(prelude))
    tables = await _described_by_pandas(files, options, sandbox)
    shown = [f"{file.name} = {tables.get(file.name, words)}" for file, words in zip(prelude, descriptions, strict=True)]
    return Files(files.reads, packages, files.prelude, "\n".join(shown))


def _kind(path: str) -> str:
    check_file(path, MAX_BYTES)
    if Path(path).suffix.lower() == ".xls":  # its only reader, xlrd, is hardly maintained
        raise InputError(f"cannot read {path}: Excel's old format is not supported; save the file as .xlsx or CSV")
    return _KINDS.get(Path(path).suffix.lower(), "text")


def holds_data(path: Path) -> bool:
    """Whether the suffix of a file says that it holds data, rather than text in which there may be a program."""
    suffix = path.suffix.lower()
    return _KINDS.get(suffix, "text") != "text" or suffix in _OTHER_DATA


def check_file(path: str, max_bytes: int) -> None:
    """Raise InputError if a path is not that of a regular file, or the file is too large."""
    if not _is_utf8(path):
        raise InputError(f"cannot read {path}: its name is not valid UTF-8; rename the file")
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read {path}: {why}") from None
    if not stat.S_ISREG(found.st_mode):
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise InputError(f"cannot read {path}: it is {what}; name a file (--allow-read grants directories)")
    if found.st_size > max_bytes:
        raise InputError(f"{path} has {found.st_size:,} bytes; the limit is {max_bytes:,} (--allow-read grants more)")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_kinds(kinds: dict[str, str]) -> None:
    """Raise InputError for a file whose data has no form in JavaScript."""
    for path, kind in kinds.items():
        if kind not in ("rows", "json", "lines", "text"):
            raise InputError(
                f"cannot pass {path} to a JavaScript program, which can read CSV, TSV, JSON, JSON lines and text; "
                "convert the file, or use --language python or sql"
            )


def _packages(paths: Sequence[str], kinds: dict[str, str], granted: Sequence[str]) -> tuple[str, ...]:
    """Return the packages to read files with: pandas, if it is granted or required, and the readers that it needs."""
    wanted = [name for name in ("pandas",) if name in granted]
    for path in paths:
        if kinds[path] in ("parquet", "excel"):
            needed = ["pandas", _READ_WITH[Path(path).suffix.lower()]]
            missing = [name for name in needed if not is_installed(name)]
            if missing:
                raise InputError(
                    f"reading {path} requires {' and '.join(needed)}: pip install 'chainofcode[tables]' "
                    f"(or pip install {' '.join(missing)})"
                )
            wanted += needed
    return tuple(dict.fromkeys(wanted))


def _name(stem: str, taken: set[str], language: Language) -> str:
    """Return a variable name for a file that is not taken and has no meaning in the language."""
    name = re.sub(r"\W+", "_", stem).strip("_") or "file"
    if not name.isidentifier():
        name = f"file_{name}"
    if _has_meaning(name, language):
        name += "_file"
    candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(unique for unique in candidates if unique not in taken)


def _has_meaning(name: str, language: Language) -> bool:
    if language is JAVASCRIPT:
        return name in _TAKEN_IN_JAVASCRIPT
    return keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name) or name in _MEANT_OTHERWISE


# --- inspection ---------------------------------------------------------------------------------------------------


async def _described(name: str, path: str, kind: str, worker: Worker, language: Language) -> tuple[File, str]:
    """Return how the guest reads a file, and its description for the model; empty if only a guest can describe it."""
    if kind == "path":
        file = _file(name, path, kind)
        return file, f"{file.path!r}, the path (str) of an image"
    if kind in ("parquet", "excel"):
        return _file(name, path, kind), ""
    inspection = await inspection_of(path, kind, worker, language)
    return _file(name, path, kind, inspection.get("separator", "")), inspection["words"]


async def inspection_of(path: str, kind: str, worker: Worker, language: Language = PYTHON) -> dict[str, Any]:
    """Return the result of inspecting a file: `words`, and the `separator` of rows. Raises InputError."""
    inspection = await worker("methods.file_inspection", {"path": path, "kind": kind, "language": language.name})
    _check_readable(path, inspection)
    return inspection


def _file(name: str, path: str, kind: Any, separator: str = "") -> File:
    return File(name, os.path.abspath(path), kind, separator)


def _check_readable(path: str, inspection: dict[str, Any]) -> None:
    if "unreadable" in inspection:
        raise InputError(inspection["unreadable"])
    if "error" in inspection:
        raise InputError(f"cannot read {path}: {inspection['error']}")
    if "encoding" in inspection:
        if os.path.splitext(path)[1].lower() in _KINDS:
            raise InputError(f"cannot read {path}: its text is not UTF-8; convert it first (iconv does that)")
        known = ", ".join(sorted(_KINDS))
        raise InputError(f"cannot read {path}: it is not UTF-8 text, and its name does not end in one of {known}")


async def _described_by_pandas(files: Files, options: RunOptions, sandbox: Sandbox | str) -> dict[str, str]:
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
    columns_shown = listed([f"{name[:60]!r} ({file_name(kind[:60])})" for name, kind in types], columns)
    return (
        f"a pandas DataFrame of {rows:,} rows, from {file_name(file.path)}. Columns: {columns_shown}. "
        f"The first rows, as CSV:\n{fenced(head.rstrip())}"
    )


__all__ = ["INSPECTION_BYTES", "INSPECTION_SECONDS", "MAX_BYTES", "Files", "check_file", "files_of", "inspection_of"]
