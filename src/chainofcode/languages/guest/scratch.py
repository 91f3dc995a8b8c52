"""Sends the files that a program leaves in its scratch directory to the host. Standard library only.

Only regular files, up to a number and a size: no links and no hidden files, in which packages keep caches. The host
enforces the same bounds itself.
"""

from __future__ import annotations

import base64
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from .link import GuestLink

MAX_FILES = 50
MAX_FILE_BYTES = 8 * 1024**2
MAX_BYTES = 32 * 1024**2
MAX_NAME_BYTES = 400
MAX_UNSENT = 20
_MAX_ENTRIES = 10_000
_CHUNK_BYTES = 192 * 1024


class ScratchFiles:
    """The files below a directory; `unsent` lists the files that are not sent, with reasons."""

    def __init__(self, home: str) -> None:
        self._home, self._files, self._bytes = home, 0, 0
        self.unsent: list[str] = []

    def send(self, link: GuestLink) -> None:
        try:
            names = self._names()
            for number, name in enumerate(names):
                if self._files == MAX_FILES:
                    self._leave(f"{len(names) - number:,} more", f"over {MAX_FILES} files")
                    break
                self._send(link, name)
        except Exception as error:  # the program may have replaced functions used here
            self._leave("the rest", f"{type(error).__name__}: {error}")

    def _names(self) -> list[str]:
        """Return the names relative to the directory, sorted."""
        found: list[str] = []
        pending, entries = [""], 0
        while pending:
            below = pending.pop()
            try:
                with os.scandir(os.path.join(self._home, below)) as listed:
                    for entry in listed:
                        entries += 1
                        if entries > _MAX_ENTRIES:
                            self._leave("the rest", f"over {_MAX_ENTRIES:,} files and directories")
                            return sorted(found)
                        if entry.name.startswith(".") or entry.name == "__pycache__":
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(os.path.join(below, entry.name))
                        elif entry.is_file(follow_symlinks=False):
                            found.append(os.path.join(below, entry.name))
            except OSError as error:  # the other directories are still read
                self._leave(below or "everything", str(error.strerror))
        return sorted(found)

    def _send(self, link: GuestLink, name: str) -> None:
        try:
            if len(name.encode()) > MAX_NAME_BYTES or not name.isprintable() or "\\" in name:
                raise ValueError
        except ValueError:
            self._leave(name, "the name is too long, or has characters that are not allowed")
            return
        try:
            fd = os.open(os.path.join(self._home, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            self._leave(name, str(error.strerror))
            return
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
                self._leave(name, f"{found.st_size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
            elif self._bytes + found.st_size > MAX_BYTES:
                self._leave(name, f"over {MAX_BYTES:,} bytes in all")
            else:
                self._files += 1
                self._bytes += found.st_size
                self._send_bytes(link, name, fd, found.st_size)
        finally:
            os.close(fd)

    def _send_bytes(self, link: GuestLink, name: str, fd: int, left: int) -> None:
        while True:
            data = os.read(fd, min(left, _CHUNK_BYTES)) if left else b""
            left -= len(data)
            is_last = not left or not data
            message: dict[str, Any] = {"type": "wrote", "name": name, "data": base64.b64encode(data).decode()}
            link.send({**message, "is_last": is_last})
            if is_last:
                return

    def _leave(self, name: str, why: str) -> None:
        if len(self.unsent) < MAX_UNSENT:
            shown = name.encode("utf-8", "backslashreplace").decode()
            self.unsent.append(f"{shown[:100]}: {why[:200]}")
