"""Receive the files that a program left in its scratch directory. What the guest sends is checked, never trusted."""

from __future__ import annotations

import msgspec

from ..languages.guest.scratch import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_NAME_BYTES


class Wrote(msgspec.Struct, frozen=True, tag="wrote"):
    """A part of a file. The parts of one file follow each other."""

    name: str
    data: bytes
    is_last: bool = True


class ReceivedFiles:
    """The files of one run. `add` raises ValueError for parts that an honest guest does not send."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted, self._bytes = is_wanted, 0
        self._name: str | None = None  # of the file that is being received
        self._parts = bytearray()
        self.files: dict[str, bytes] = {}  # complete ones

    def add(self, wrote: Wrote) -> None:
        if not self._is_wanted:
            raise ValueError("a file without a scratch directory")
        if wrote.name != self._name:
            if self._name is not None:
                raise ValueError("a file in the middle of another")
            self._begin(wrote.name)
        self._parts += wrote.data
        self._bytes += len(wrote.data)
        if len(self._parts) > MAX_FILE_BYTES or self._bytes > MAX_BYTES:
            raise ValueError(f"files of over {MAX_FILE_BYTES:,} bytes, or {MAX_BYTES:,} in all")
        if not wrote.is_last and not wrote.data:
            raise ValueError("an empty part of a file")
        if wrote.is_last:
            self.files[wrote.name] = bytes(self._parts)
            self._name, self._parts = None, bytearray()

    def _begin(self, name: str) -> None:
        if not is_name(name) or name in self.files:
            raise ValueError(f"a file with the name {name[:100]!r}")
        if len(self.files) == MAX_FILES:
            raise ValueError(f"over {MAX_FILES} files")
        self._name = name


def is_name(name: str) -> bool:
    """Whether a name is a relative path of printable text without hidden parts."""
    parts = name.split("/")
    return (
        len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES
        and name.isprintable()
        and "\\" not in name
        and all(part and not part.startswith(".") for part in parts)
    )
