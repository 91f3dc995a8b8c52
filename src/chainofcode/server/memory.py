"""Returns freed memory to the system. With its default settings, glibc keeps it.

glibc raises the size above which it maps a block separately to as much as 32 MiB, and has many heaps. After a few large
responses, the process would stay at its peak size.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of `mallopt`
_MAPPED_BYTES = 128 * 1024
_ARENAS = 2
_LOOK_SECONDS = 5.0
_GROWN_BYTES = 8 * 1024**2


async def return_freed_memory() -> None:
    """Return freed memory at intervals. Do nothing if the C library is not glibc."""
    library = _glibc()
    if library is None:
        return
    library.mallopt(_ARENA_MAX, _ARENAS)
    library.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
    library.mallopt(_TRIM_THRESHOLD, _MAPPED_BYTES)
    least = _resident_bytes()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if _resident_bytes() > least + _GROWN_BYTES:
            await asyncio.to_thread(library.malloc_trim, 0)
            least = _resident_bytes()
        least = min(least, _resident_bytes())


def _glibc() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (is it glibc?)
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        return library
    return None


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
