"""A disk cache of evaluated prompt prefixes: evaluation takes seconds, reading milliseconds.

Each file ends with a checksum, because some damaged files crash llama.cpp. Nothing here raises: a prefix that cannot
be cached is evaluated again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path
from typing import BinaryIO

_KEPT = 8
_SEAL_BYTES = 32
_CHUNK_BYTES = 1 << 20
_ABANDONED_SECONDS = 3600


def forget(directory: Path, model: str) -> int:
    """Delete the cached prefixes of a model, given the name of its file; return how many there were."""
    found = list(directory.glob(f"{_mark(model)}-*.state"))
    for path in found:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return len(found)


class Prefixes:
    """The files of one model in a directory that all models share; the newest are kept.

    A file is used only with the same `identity`, such as the version of llama.cpp.
    """

    def __init__(self, directory: Path, model: str, identity: str) -> None:
        self._directory, self._model, self._identity = directory, model, identity

    def name(self, prefix: str) -> str:
        digest = hashlib.sha256(f"{self._model} {self._identity}\n{prefix}".encode()).hexdigest()
        return f"{_mark(self._model)}-{digest}.state"

    def part(self) -> str:
        """Return a temporary file name, for `keep` to replace."""
        return secrets.token_hex(8) + ".part"

    def has(self, name: str) -> bool:
        """Whether there is an intact file. Deletes a damaged one."""
        try:
            with (self._directory / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size - _SEAL_BYTES
                if size > 0 and _checksum(file, size) == file.read():
                    os.utime(file.fileno())  # recently used: others are deleted first
                    return True
        except OSError:
            return False
        self.remove(name)
        return False

    def keep(self, part: str, name: str) -> None:
        """Append the checksum to a file, and rename it."""
        with contextlib.suppress(OSError):
            with (self._directory / part).open("r+b") as file:
                checksum = _checksum(file, os.fstat(file.fileno()).st_size)
                file.seek(0, os.SEEK_END)
                file.write(checksum)
            os.replace(self._directory / part, self._directory / name)
        self.remove(part)
        self._tidy()

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._directory / name).unlink(missing_ok=True)

    def _tidy(self) -> None:
        with contextlib.suppress(OSError):  # another process may tidy, too
            states = [(path.stat().st_mtime, path) for path in self._directory.glob("*.state")]
            for _, path in sorted(states, reverse=True)[_KEPT:]:
                self.remove(path.name)
            for path in self._directory.glob("*.part"):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    self.remove(path.name)


def _mark(model: str) -> str:
    """Return the prefix of the file names of a model."""
    return hashlib.sha256(model.encode()).hexdigest()[:16]


def _checksum(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of the next `size` bytes of an open file."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()
