"""Local copies of objects: programs read uploads as files, responses stream artifacts. Old copies are removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path

from ..objects import ObjectStorage
from ..refusal import StorageError

_MAX_BYTES = 4 * 1024**3
_IN_USE_SECONDS = 3600.0  # a copy used within this time is kept
_LOOK_SECONDS = 60.0


class LocalCopies:
    """Copies in a directory of limited size; only copies used in the last hour may exceed it."""

    def __init__(self, directory: Path, objects: ObjectStorage) -> None:
        self._directory, self._objects = directory, objects
        self._checked_at = time.monotonic()

    async def fetch(self, key: str, place: Path) -> Path:
        """The local copy of an object; the path does not exist if the object does not."""
        path = self._directory / place
        if not path.exists():
            await asyncio.to_thread(self._copy, key, path)
        self.use(path)
        return path

    def _copy(self, key: str, path: Path) -> None:
        partial = self._directory / f"{secrets.token_hex(8)}.partial"
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._objects.fetch(key, partial)
            partial.replace(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None
        finally:
            partial.unlink(missing_ok=True)

    def use(self, path: Path) -> None:
        """Note that a copy is used; from time to time, remove old copies."""
        with contextlib.suppress(OSError):
            os.utime(path)
        if time.monotonic() - self._checked_at > _LOOK_SECONDS:
            self._checked_at = time.monotonic()
            asyncio.get_running_loop().run_in_executor(None, self._shrink)

    def forget(self, key: str) -> None:
        """Remove the copy of an object that was removed."""
        kind, _, name = key.partition("/")
        if kind == "files":
            shutil.rmtree(self._directory / kind / name, ignore_errors=True)
        elif kind == "artifacts":
            (self._directory / kind / name).unlink(missing_ok=True)

    def _shrink(self) -> None:
        found = []
        for path in self._directory.glob("*/**/*"):
            with contextlib.suppress(OSError):
                if path.is_file():
                    found.append((path.stat().st_mtime, path.stat().st_size, path))
        size, oldest = sum(size for _, size, _ in found), time.time() - _IN_USE_SECONDS
        for used, bytes, path in sorted(found):
            if size <= _MAX_BYTES or used > oldest:
                return
            path.unlink(missing_ok=True)
            size -= bytes
