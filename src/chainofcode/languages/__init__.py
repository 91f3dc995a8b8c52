"""Languages that a program can be written in.

Each language has a folder next to this file and a `Language` below. Its guest, `languages/NAME/guest/main.py`, runs one
program in a separate process and speaks the protocol of `docs/protocol.md`; the engine needs nothing else.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from ..boot import boot_command
from ..errors import InputError

Actor = Literal["python", "javascript", "sql", "lm", "tool"]  # what performs a step of a trace


def _guest(python: str, *arguments: str) -> list[str]:
    return boot_command(python, "languages.guest.entry", *arguments)


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language: its name, which is also its folder, and what its guest needs.

    `command` returns the command line of the guest. Its arguments are the sandbox's Python interpreter and the guest's
    arguments: the descriptors to read frames from and to write them to. The jail cannot start a guest with a command of
    its own: it forks all guests from a Python process.
    """

    name: str
    title: str = ""
    actor: Actor = "python"  # of its steps in a trace
    suffixes: tuple[str, ...] = ()  # of program files
    packages: tuple[str, ...] = ()  # that the guest imports, besides the standard library
    extra: str = ""  # the pip extra that installs these packages
    locks_files: bool = False  # its engine locks the files that it reads; in the jail, locking is a no-op
    looks_ahead: bool = False  # its guest can run as a shadow, to find calls before the program makes them
    command: Callable[..., list[str]] = _guest

    def package_paths(self) -> list[str]:
        """Return the directories of its packages. Raises InputError if one is not installed."""
        specs = {name: importlib.util.find_spec(name) for name in self.packages}
        missing = [name for name, spec in specs.items() if spec is None or spec.origin is None]
        if missing:
            raise InputError(
                f"{self.title} needs a package that is not installed; run pip install 'chainofcode[{self.extra}]'"
            )
        return sorted({os.path.dirname(spec.origin) for spec in specs.values() if spec is not None and spec.origin})

    @property
    def is_forkable(self) -> bool:
        """Whether its guest is a Python process of this project, which the jail can fork."""
        return self.command is _guest


PYTHON = Language(name="python", title="Python", suffixes=(".py",), looks_ahead=True)
JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript",
    actor="javascript",
    suffixes=(".js", ".mjs", ".ts"),
    packages=("_quickjs",),
    extra="js",
    looks_ahead=True,
)
SQL = Language(name="sql", title="SQL", actor="sql", suffixes=(".sql",), extra="duckdb", locks_files=True)
LANGUAGES = {language.name: language for language in (PYTHON, JAVASCRIPT, SQL)}
# Not a programming language: its guest inspects and queries databases for the host.
DATABASE = Language(name="database", title="database", actor="sql", extra="duckdb", locks_files=True)
_GUESTS = {**LANGUAGES, DATABASE.name: DATABASE}
LOCKING = frozenset(name for name, language in _GUESTS.items() if language.locks_files)


def language_named(name: str) -> Language:
    """Return the language with a name. Raises InputError if there is none."""
    if name not in LANGUAGES:
        raise InputError(f"unknown language {name!r} (expected one of: {', '.join(LANGUAGES)})")
    return LANGUAGES[name]


def guest_language_named(name: str) -> Language:
    """Like `language_named`, but also finds `DATABASE`, which programs are not written in."""
    return _GUESTS[name] if name in _GUESTS else language_named(name)


def language_of_file(path: PurePath) -> Language:
    """Return the language of a file by its suffix; Python if no language has that suffix."""
    found = (language for language in LANGUAGES.values() if path.suffix.lower() in language.suffixes)
    return next(found, PYTHON)
