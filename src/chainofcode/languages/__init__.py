"""Languages that a program can be written in.

A language brings a guest: a process that runs one program and speaks the protocol of `docs/protocol.md`. The engine and
the sessions need no more of it; the jail, lookahead and the audits support Python only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..boot import boot_command


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language: its name, and the command that starts its guest.

    `command` takes the Python interpreter of the sandbox and the guest's arguments: the descriptors to read frames from
    and to write them to.
    """

    name: str
    command: Callable[..., list[str]]


def _python(python: str, *arguments: str) -> list[str]:
    return boot_command(python, "languages.python.guest.main", *arguments)


PYTHON = Language(name="python", command=_python)
