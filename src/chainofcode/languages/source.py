"""The text of a program, before any language looks at it. Standard library only."""

from __future__ import annotations

MAX_SOURCE_BYTES = 1_000_000


class NotAProgram(ValueError):
    """The reply holds nothing that could be run."""


def check_readable(reply: str) -> None:
    """Refuse what no parser need see: too large, or with characters that no source can hold."""
    try:
        size = len(reply.encode())
    except UnicodeEncodeError as error:
        line = reply.count("\n", 0, error.start) + 1
        raise NotAProgram(f"line {line} holds a lone surrogate, which no program can") from None
    if size > MAX_SOURCE_BYTES:
        raise NotAProgram(f"the source has {size:,} bytes; over {MAX_SOURCE_BYTES:,} is refused")
    if "\0" in reply:
        line = reply.count("\n", 0, reply.index("\0")) + 1
        raise NotAProgram(f"line {line} holds a null byte, which no program can")
