"""Files that a program left: written where the user says, listed, shown in terminals that can.

Names and contents are a program's, so hostile: nothing is written outside the directory, over a file that is there, or
hidden. A name that is taken gets a number: `plot.png`, `plot.2.png`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import errno
import os
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from ..engine import Result
from ..errors import InputError
from ..render import plain

_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_MAX_SHOWN_BYTES = 4 * 1024**2
_MAX_SHOWN_PIXELS = 40_000_000
_MAX_NUMBER = 1000
_KITTY_CHUNK = 4096
_INTO = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Into(argparse.Action):
    """`--artifacts DIR`: files that are to come back must be written somewhere first."""

    def __call__(self, parser: Any, given: argparse.Namespace, directory: Any, option: str | None = None) -> None:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            parser.error(f"--artifacts takes a directory; {directory} is none")
        given.artifacts, given.scratch = Path(directory), True


def keep(result: Result, given: argparse.Namespace, *, is_quiet: bool = False) -> None:
    """Write what was left to `--artifacts`, else beside the trace; say so on standard error."""
    beside = Path(f"{given.trace}.files") if given.trace else None
    directory: Path | None = given.artifacts or beside
    written = write(result.artifacts, directory) if directory is not None and result.artifacts else {}
    if is_quiet:
        return
    for name, data in result.artifacts.items():
        where = plain(str(written.get(name, name)))
        hint = "" if name in written else "; --artifacts DIR keeps it"
        print(f"coc: the program left {where} ({len(data):,} bytes{hint})", file=sys.stderr)
        show(data, sys.stderr, os.environ)
    for why in result.trace.answer.unsent if result.trace.answer is not None else ():
        print(f"coc: the program also left {plain(why)}", file=sys.stderr)


# --- writing ------------------------------------------------------------------------------------------------------


def write(artifacts: Mapping[str, bytes], directory: Path) -> dict[str, Path]:
    """Write files below a directory, each under a name that nothing has; returns where each is."""
    written: dict[str, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in artifacts.items():
            written[name] = directory / _write(os.open(directory, _AT & ~os.O_NOFOLLOW), _parts(name), data)
    except OSError as error:
        raise InputError(f"cannot write into {directory}: {error.strerror}") from None
    return written


def _parts(name: str) -> list[str]:
    """The parts of a name, each harmless: printable, not hidden, no option, not too long."""
    parts = [re.sub(r'[<>:"|?*\\]', "_", plain(part)) for part in name.split("/") if part]
    return [re.sub(r"^[.\-~\s]", "_", part[-100:]).rstrip() for part in parts] or ["_"]


def _write(at: int, parts: list[str], data: bytes) -> str:
    """Step by step from the directory downwards: no link on the way leads anywhere else. Takes the descriptor."""
    *above, name = parts
    made: list[str] = []
    try:
        for part in above:
            free, below = _below(at, part)
            os.close(at)
            at = below
            made.append(free)
        for free in _numbered(name):
            with contextlib.suppress(FileExistsError):
                with os.fdopen(os.open(free, _INTO, 0o644, dir_fd=at), "wb") as file:
                    file.write(data)
                return "/".join([*made, free])
        raise FileExistsError(0, f"there are {_MAX_NUMBER} files like {name} already")
    finally:
        os.close(at)


def _below(at: int, name: str) -> tuple[str, int]:
    """A directory in a directory, new or one that is there; where a file or a link has its name, it gets a number."""
    for free in _numbered(name):
        with contextlib.suppress(FileExistsError):
            os.mkdir(free, 0o755, dir_fd=at)
        try:
            return free, os.open(free, _AT, dir_fd=at)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
    raise FileExistsError(0, f"there are {_MAX_NUMBER} files like {name} already")


def _numbered(name: str) -> Iterator[str]:
    stem, dot, suffix = name.rpartition(".") if "." in name[1:] else (name, "", "")
    yield name
    yield from (f"{stem}.{number}{dot}{suffix}" for number in range(2, _MAX_NUMBER))


# --- showing ------------------------------------------------------------------------------------------------------


def show(data: bytes, stream: TextIO, environment: Mapping[str, str]) -> None:
    """A PNG of a sensible size, where the terminal says that it can show one."""
    draw = _protocol(environment) if stream.isatty() else None
    if draw is None or len(data) > _MAX_SHOWN_BYTES or not data.startswith(_PNG) or len(data) < 24:
        return
    width, height = struct.unpack_from(">II", data, 16)
    if 0 < width * height <= _MAX_SHOWN_PIXELS:
        stream.write(draw(data) + "\n")
        stream.flush()


def _protocol(environment: Mapping[str, str]) -> Any:
    terminal, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if terminal.startswith(("screen", "tmux", "dumb")):
        return None
    if terminal in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return _kitty
    return _iterm if program in ("iTerm.app", "WezTerm") else None


def _kitty(data: bytes) -> str:
    text = base64.b64encode(data).decode()
    chunks = [text[start : start + _KITTY_CHUNK] for start in range(0, len(text), _KITTY_CHUNK)]
    drawn = []
    for number, chunk in enumerate(chunks):
        first = "a=T,f=100,q=2," if number == 0 else ""
        drawn.append(f"\x1b_G{first}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(drawn)


def _iterm(data: bytes) -> str:
    return f"\x1b]1337;File=inline=1;size={len(data)}:{base64.b64encode(data).decode()}\x07"
