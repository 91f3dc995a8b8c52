"""The inside of a process for one job: sets limits, reads a JSON job from stdin, writes a JSON result to stdout.

`isolated` is the parent's side. Standard library only, for start-up time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from ..platforms import limit_process

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_MAX_FILE_BYTES = 1024**2  # sorting stays in memory; SQLite writes a small index file next to some databases
_MAX_RESULT_BYTES = 64 * 1024**2


def carry_out(
    work: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    starts_guests: bool = False,
    write: Callable[[dict[str, Any]], str] = json.dumps,
) -> None:
    """Run the job on standard input; `write` turns the result into JSON. Use `end_after` for a stricter time limit.

    With `starts_guests`, the limits are not inherited by child processes: guests have their own.
    """
    job = json.load(sys.stdin)
    limit_process(job["seconds"], job["memory"], file_bytes=_MAX_FILE_BYTES, is_inherited=not starts_guests)
    try:
        text = write(work(job))
        if len(text) > _MAX_RESULT_BYTES:
            text = json.dumps({"error": "its result is too large"})
    except MemoryError:
        text = json.dumps({"error": "it used too much memory"})
    sys.stdout.write(text)
