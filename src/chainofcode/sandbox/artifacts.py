"""What a program left in its scratch directory, as it comes from a guest: checked, never believed."""

from __future__ import annotations

import msgspec

from ..languages.python.guest.run.scratch import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_NAME_BYTES


class Wrote(msgspec.Struct, frozen=True, tag="wrote"):
    """A part of a file; the parts of one file follow each other."""

    name: str
    data: bytes
    is_last: bool = True


class Artifacts:
    """The files of one run. `take` raises ValueError for what no guest of ours sends."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted, self._bytes = is_wanted, 0
        self._name: str | None = None  # of the file whose parts are coming
        self._parts = bytearray()
        self.files: dict[str, bytes] = {}  # whole ones

    def take(self, wrote: Wrote) -> None:
        if not self._is_wanted:
            raise ValueError("a file, where there is no scratch directory")
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
            raise ValueError(f"a file of the name {name[:100]!r}")
        if len(self.files) == MAX_FILES:
            raise ValueError(f"over {MAX_FILES} files")
        self._name = name


def is_name(name: str) -> bool:
    """Whether a name is a relative one, downwards, of printable text."""
    parts = name.split("/")
    return (
        len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES
        and name.isprintable()
        and "\\" not in name
        and all(part and not part.startswith(".") for part in parts)
    )
