"""A process for one job: it confines itself, and turns a JSON job on stdin into a JSON result on stdout.

The first line of the input is from the parent alone: the limits, and the files to open. Everything after it is
untrusted, and is read only after the process has given up its rights. `isolated` is the parent's side. Standard library
only, for start-up time.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable

from ..platforms import limit_process
from ..sandbox.worker_confinement import confine_worker, explain_failure

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_MAX_FILE_BYTES = 1024**2  # SQLite writes a small index file next to some databases
_MAX_RESULT_BYTES = 64 * 1024**2
# Imported in advance: without Landlock, nothing can be imported later.
_CODECS = ("utf-8-sig", "ascii", "latin-1", "punycode")
_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def carry_out(
    work: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    write: Callable[[dict[str, Any]], str] = json.dumps,
    confine: Callable[[dict[str, Any]], object] = lambda limits: confine_worker(),
) -> None:
    """Run the job on standard input; `write` turns the result into JSON. Use `end_after` for a stricter time limit.

    Files that the parent names are opened first, for `file_of`. Then `confine` gives up all rights. If the job starts
    guests, they do not inherit the limits: they have their own.
    """
    limits: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    is_inherited = not limits["starts_guests"]
    limit_process(limits["seconds"], limits["memory"], file_bytes=_MAX_FILE_BYTES, is_inherited=is_inherited)
    files = {path: _try_open(path) for path in limits["reads"]}
    for name in _CODECS:
        codecs.lookup(name)
    try:
        confine(limits)
    except OSError as error:
        sys.stdout.write(json.dumps({"error": explain_failure(error)}))
        return
    try:
        text = write(work({**json.load(sys.stdin.buffer), **limits, "files": files}))
        if len(text) > _MAX_RESULT_BYTES:
            text = json.dumps({"error": "its result is too large"})
    except MemoryError:
        text = json.dumps({"error": "it used too much memory"})
    sys.stdout.write(text)


def file_of(job: dict[str, Any], path: str) -> int:
    """Return the descriptor of a file of the job. Raises OSError if the file could not be opened."""
    found: int | OSError = job["files"][path]
    if isinstance(found, OSError):
        raise found
    os.lseek(found, 0, os.SEEK_SET)
    return found


def _try_open(path: str) -> int | OSError:
    try:
        return os.open(path, _OPEN)
    except OSError as error:
        return error
