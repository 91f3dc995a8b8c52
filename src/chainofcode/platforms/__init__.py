"""System calls that differ between Linux, macOS and Windows. Standard library only.

They lock files, limit a process, and open directories and files without following links. `sandbox` has its own:
programs run on Linux only, everything else on all three systems.
"""

from __future__ import annotations

import sys

from .whole_files import read_start, read_stream, read_whole

if sys.platform == "win32":
    from .windows import (
        OUT_OF_TIME,
        discard_typed_input,
        end_after,
        environment,
        is_own,
        kill_group,
        limit_process,
        lock,
        lock_directory,
        make_directory_private,
        open_private,
        parent_timeout,
        usable_cores,
        why_not_private,
    )
    from .windows import WindowsDirectory as Directory
else:
    from .posix import (
        OUT_OF_TIME,
        discard_typed_input,
        end_after,
        environment,
        is_own,
        kill_group,
        limit_process,
        lock,
        lock_directory,
        make_directory_private,
        open_private,
        parent_timeout,
        usable_cores,
        why_not_private,
    )
    from .posix import PosixDirectory as Directory

__all__ = [
    "OUT_OF_TIME",
    "Directory",
    "discard_typed_input",
    "end_after",
    "environment",
    "is_own",
    "kill_group",
    "limit_process",
    "lock",
    "lock_directory",
    "make_directory_private",
    "open_private",
    "parent_timeout",
    "read_start",
    "read_stream",
    "read_whole",
    "usable_cores",
    "why_not_private",
]
