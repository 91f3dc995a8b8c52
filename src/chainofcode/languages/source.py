"""Checks the text of a program before it is parsed. Standard library only."""

from __future__ import annotations

MAX_SOURCE_BYTES = 1_000_000


class NotAProgram(ValueError):
    """The text cannot be run as a program."""


def check_readable(reply: str) -> None:
    """Raise NotAProgram for text that is too large or has characters that source code cannot contain."""
    try:
        size = len(reply.encode())
    except UnicodeEncodeError as error:
        line = reply.count("\n", 0, error.start) + 1
        raise NotAProgram(f"line {line} contains a lone surrogate, which source code cannot contain") from None
    if size > MAX_SOURCE_BYTES:
        raise NotAProgram(f"the source has {size:,} bytes; the limit is {MAX_SOURCE_BYTES:,}")
    if "\0" in reply:
        line = reply.count("\n", 0, reply.index("\0")) + 1
        raise NotAProgram(f"line {line} contains a null byte, which source code cannot contain")
