"""Whether a trace file was changed: each line has a digest of itself and of all lines before it.

Detected: lines that were changed, removed, inserted or moved. Not detected: a rewrite of the whole chain, and missing
lines at the end; to detect these, keep the head (the last line's digest) elsewhere and compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import InputError, TraceError
from ...platforms import read_whole
from ...trace import DIGEST_CHARS, Trace, linked

_MEMBER = re.compile(rb',"chain":"([0-9a-f]{%d})"\}\Z' % DIGEST_CHARS)
_LOOKED_THROUGH_BYTES = 1 << 28  # in the search for the place that a line was moved from


@dataclass(frozen=True)
class Chain:
    """The state of a file's digests: `intact`, `none` if it has none, or `broken`, with the line and the reason."""

    state: Literal["intact", "none", "broken"]
    head: str = ""
    line: int | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.state == "intact":
            return f"chain intact, head {self.head}"
        return "no chain: the trace has no digests" if self.state == "none" else f"chain broken at {self.why}"


def read_checked(path: Path, head: str | None = None) -> tuple[Trace, Chain]:
    """Read a trace and check its digests in one pass, so that what is checked is what was read, even from a pipe.

    Raises InputError for an invalid head: an empty one would check nothing.
    """
    if head is not None and not re.fullmatch(rf"[0-9a-fA-F]{{{DIGEST_CHARS}}}", head):
        raise InputError(f"--head must be the {DIGEST_CHARS} hexadecimal digits of a digest, not {head[:100]!r}")
    lines = _read(path)
    return Trace.parse(lines, str(path)), check_chain(lines, head or "")


def check_chain(lines: Path | Iterable[bytes], head: str = "") -> Chain:
    """Check each line against its digest, and the last digest against a head that was kept elsewhere."""
    pairs = [parted(line) for line in (_read(lines) if isinstance(lines, Path) else lines)]
    digests = [digest for _, digest in pairs]
    if not any(digests):
        return Chain("none") if not head else Chain("broken", "", 1, "line 1: the trace has no digests")
    place = _first_broken(pairs)
    if place is not None:
        return Chain("broken", "", place + 1, f"line {place + 1}: {_why(pairs, place)}")
    before = digests[-1]
    if not head or before == head.lower():
        return Chain("intact", before)
    if head.lower() in digests:
        last = digests.index(head.lower()) + 1
        why = f"line {last + 1}: it was added later: the given head is the digest of line {last}"
        return Chain("broken", before, last + 1, why)
    return Chain(
        "broken", before, len(pairs), "at the end: the head differs; lines are missing, or the file was rewritten"
    )


def _first_broken(pairs: list[tuple[bytes, str]]) -> int | None:
    """Return the index of the first line that does not match its digest."""
    before = ""
    for place, (line, digest) in enumerate(pairs):
        if not digest or linked(before, line) != digest:
            return place
        before = digest
    return None


def _read(path: Path) -> list[bytes]:
    try:
        return read_whole(path).splitlines()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None


def parted(line: bytes) -> tuple[bytes, str]:
    """Split a line into the part that its digest covers, and the digest."""
    found = _MEMBER.search(line, max(len(line) - 2 * DIGEST_CHARS, 0))
    return (line[: found.start()] + b"}", found[1].decode()) if found else (line, "")


def _why(parted: list[tuple[bytes, str]], place: int) -> str:
    line, digest = parted[place]
    if not digest:
        return "it has no digest: it was inserted or changed"
    looked = 0
    for later, (other, known) in enumerate(parted[place + 1 :], place + 1):
        looked += len(line) + len(other)
        if looked > _LOOKED_THROUGH_BYTES:
            break
        if known and linked(known, line) == digest:
            return f"it was moved: it used to follow what is now line {later + 1}"
    before = parted[place - 1][1] if place else ""
    following = parted[place + 1] if place + 1 < len(parted) else (b"", "")
    if following[1] and linked(before, following[0]) == following[1]:
        return "it was inserted"
    return "it was changed, or lines before it were removed"


__all__ = ["Chain", "check_chain", "parted", "read_checked"]
