"""Reads a user's databases in a guest: this process parses neither the database nor the query.

The guest has the tier, the limits and the checks of a guest that runs a program. Systems on which the sandbox does not
work (macOS and Windows) use a worker process instead, unless the sandbox is on another machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, SandboxError
from ..languages import DATABASE
from ..platforms import read_start
from ..reasons import Reason
from ..sandbox import File, Jail, Job, Limits, NoSandbox, Sandbox, opened
from ..sandbox.frames import Ended
from ..sandbox.packages import is_installed
from ..values.codec import ValueFormatError, decode
from .file_inspection import fenced, file_name, listed
from .isolated import in_thread, run_isolated

_SHOWN_TABLES, _SHOWN_ROWS, _SHOWN_CHARS, _SHOWN_NAME_CHARS = 20, 3, 600, 60
_ATTEMPTS = 3
_START_SECONDS = 60  # for the guest, which imports DuckDB
_FRAME_BYTES = 64 * 1024**2
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_OUT_OF_TIME = (Reason.RUN_LIMIT, Reason.CPU_LIMIT, Reason.WALL_LIMIT)


def engine_of(path: Path) -> str:
    """Return which engine made a database file."""
    try:
        head = read_start(path, 16)
    except OSError as error:
        raise InputError(f"cannot read the database {path}: {error.strerror}") from None
    if head.startswith(b"SQLite format 3\0"):
        return "SQLite"
    if head[8:12] != b"DUCK":
        raise InputError(f"{path} is not a SQLite or DuckDB database")
    if not is_installed("duckdb"):
        raise InputError(f"{path} is a DuckDB database: pip install 'chainofcode[duckdb]' (or pip install duckdb)")
    return "DuckDB"


async def read_database(
    path: Path, request: Mapping[str, Any], sandbox: Sandbox | str, *, seconds: float, memory: int
) -> dict[str, Any]:
    """Return the result of a request (`languages/database/guest/main.py`), or an `error`.

    Raises InputError for a file that cannot be used.
    """
    engine = request.get("engine") or engine_of(path)
    path = _make_absolute(path)
    async with opened(sandbox) as chosen:
        for _ in range(_ATTEMPTS):
            before = _read_state(path)
            job = {"engine": engine, "has_log": len(before) > 1, **request}
            if sys.platform != "linux" and isinstance(chosen, (Jail, NoSandbox)):
                found = await _in_worker({**job, "path": str(path)}, seconds, memory)
            else:
                found = await _in_guest(job, list(before), chosen, seconds=seconds, memory=memory)
            if "unreadable" in found:
                raise InputError(f"cannot read the database {path}: {found['unreadable']}")
            if _read_state(path) == before:  # guests cannot lock files: what they read may have been half written
                return found
    raise InputError(f"cannot read the database {path}: it keeps changing; close the programs that use it")


def _make_absolute(path: Path) -> Path:
    return path.absolute()


def _read_state(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the file, and its log if it has one, with metadata that changes with the file. Raises InputError."""
    journal = Path(f"{path}-journal")
    try:
        if journal.exists() and read_start(journal, len(_JOURNAL)) == _JOURNAL:
            raise InputError(f"{path} has unfinished changes in {journal}; close the programs that use it")
        logs = [log for log in (f"{path}-wal", f"{path}.wal") if os.path.exists(log) and os.path.getsize(log)]
        found = {name: os.stat(name) for name in (str(path), *logs)}
    except OSError as error:
        raise InputError(f"cannot read the database {path}: {error.strerror}") from None
    return {name: (about.st_ino, about.st_size, about.st_mtime_ns) for name, about in found.items()}


async def _in_guest(
    request: Mapping[str, Any], reads: list[str], sandbox: Sandbox, *, seconds: float, memory: int
) -> dict[str, Any]:
    limits = Limits(
        cpu_seconds=seconds,
        run_seconds=seconds,
        wall_seconds=seconds + _START_SECONDS,
        memory_bytes=memory,
        frame_bytes=_FRAME_BYTES,
    )
    job = Job(
        source=json.dumps(request),
        language=DATABASE,
        is_reply=False,
        packages=("duckdb",) if request["engine"] == "DuckDB" else (),
        reads=reads,
        prelude=[File("database", reads[0], "database")],
        limits=limits,
    )
    async with sandbox.start(job) as session:
        async for signal in session:
            if isinstance(signal, Ended):
                return _read_result(signal, seconds)
    raise SandboxError("the guest that reads the database ended without a result")


def _read_result(ended: Ended, seconds: float) -> dict[str, Any]:
    """Return the result in the last frame of a guest, which may be hostile."""
    if ended.reason in _OUT_OF_TIME:
        return {"error": f"it took over {seconds:g} seconds"}
    if ended.reason == Reason.MEMORY_LIMIT:
        return {"error": "it used too much memory"}
    if ended.reason != Reason.ANSWERED:
        why = ended.error.message if ended.error is not None else ended.reason
        return {"error": f"it ended early: {' '.join(why.split())[:300]}"}
    try:
        found = decode(ended.answer)
    except ValueFormatError as error:
        return {"error": f"its result is malformed: {error}"}
    texts = ("schema", "error", "unreadable")
    if not isinstance(found, dict) or any(not isinstance(found.get(name, ""), str) for name in texts):
        return {"error": "its result is malformed"}
    return found


async def description_of(path: str, sandbox: Sandbox | str, *, seconds: float, memory: int) -> str:
    """Describe the tables of an SQLite database for a Python program. Raises InputError."""
    request = {
        "engine": "SQLite",
        "has_log": False,  # the program does not see the log either
        "wanted": "tables",
        "tables": _SHOWN_TABLES,
        "rows": _SHOWN_ROWS,
        "chars": _SHOWN_CHARS,
    }
    found = await read_database(Path(path), request, sandbox, seconds=seconds, memory=memory)
    if "error" in found:
        raise InputError(f"cannot read {path}: {found['error']}")
    try:
        tables = [_describe_table(*table) for table in found["tables"][:_SHOWN_TABLES]]
        left = int(found["count"]) - len(tables)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"cannot read {path}: its description is malformed") from None
    more = f"\nand {left:,} more tables" if left > 0 else ""
    return (
        f"an open sqlite3.Connection to {file_name(path)}, read-only: "
        "use .execute(SELECT …).fetchall(), which returns tuples. "
        f"Tables:\n{fenced(chr(10).join(tables) + more)}"
    )


def _describe_table(name: str, columns: list[list[str]], count: int, rows: list[str]) -> str:
    """Describe a table. Raises TypeError, ValueError or AttributeError if a part has another type."""
    quoted = '"' + name.replace('"', '""') + '"'
    typed = [f"{column[:_SHOWN_NAME_CHARS]} {kind[:_SHOWN_NAME_CHARS]}".rstrip() for column, kind in columns]
    shown = [f"  {row[:_SHOWN_CHARS]}" for row in rows[:_SHOWN_ROWS]]
    return "\n".join([f"{quoted[:200]} ({listed(typed, len(typed))}), {count:,} rows", *shown])


async def _in_worker(job: dict[str, Any], seconds: float, memory: int) -> dict[str, Any]:
    found = await in_thread(run_isolated, "methods.querying", job, seconds=seconds, memory=memory)
    return found if "error" in found else dict(decode(found["found"]))
