"""Artifacts, the files that a program leaves: written to a directory, listed, and shown in some terminals.

Names and contents are untrusted: nothing is written outside the directory, over an existing file, or as a hidden file.
A name that is taken gets a number: `plot.png`, `plot.2.png`.
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
from ..platforms import Directory
from ..render import plain
from .terminal import note, write_picture

_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_MAX_SHOWN_BYTES = 4 * 1024**2
_MAX_SHOWN_PIXELS = 40_000_000
_MAX_NUMBER = 1000
_MAX_PART_BYTES = 200
_KITTY_CHUNK = 4096


class ArtifactsAction(argparse.Action):
    """`--artifacts DIR`, which implies `--scratch`."""

    def __call__(self, parser: Any, given: argparse.Namespace, directory: Any, option: str | None = None) -> None:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            parser.error(f"--artifacts must be a directory, not the file {directory}")
        given.artifacts, given.scratch = Path(directory), True


def keep_artifacts(result: Result, given: argparse.Namespace, *, is_quiet: bool = False) -> None:
    """Write artifacts to `--artifacts`, or next to the trace, and list them on standard error."""
    next_to_trace = Path(f"{given.trace}.files") if given.trace else None
    directory: Path | None = given.artifacts or next_to_trace
    written = write(result.artifacts, directory) if directory is not None and result.artifacts else {}
    if is_quiet:
        return
    for name, data in result.artifacts.items():
        hint = "; --artifacts DIR keeps it" if directory is None else ""
        if directory is None or name in written:
            note(f"the program left {written.get(name, name)} ({len(data):,} bytes{hint})")
        show(data, sys.stderr, os.environ)
    if result.trace.answer is not None:
        for why in result.trace.answer.unsent:
            note(f"the program also left {why}")


# --- writing ------------------------------------------------------------------------------------------------------


def write(artifacts: Mapping[str, bytes], directory: Path) -> dict[str, Path]:
    """Write files below a directory, each with an unused name. Return their paths; report those that failed."""
    written: dict[str, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        Directory(directory).close()
    except OSError as error:
        raise InputError(f"cannot write into {directory}: {error.strerror}") from None
    for name, data in artifacts.items():
        try:
            written[name] = directory / _write(Directory(directory), _parts(name), data)
        except OSError as error:  # the others can still be written
            note(f"cannot write {plain(name)[:100]!r} into {directory}: {error.strerror}")
    return written


def _parts(name: str) -> list[str]:
    """Return the parts of a name as safe file names: printable, not hidden, not like an option, not too long."""
    parts = [re.sub(r'[<>:"|?*\\]', "_", plain(part)) for part in name.split("/") if part]
    return [re.sub(r"^[.\-~\s]", "_", _last_bytes(part)).rstrip() for part in parts] or ["_"]


def _last_bytes(part: str) -> str:
    """The end of a name, at most 100 characters and 200 bytes: file systems allow 255, and a number may be added."""
    return os.fsencode(part[-100:])[-_MAX_PART_BYTES:].decode(errors="ignore")


def _write(at: Directory, parts: list[str], data: bytes) -> str:
    """Write a file, entering one directory after the other without following links. Closes `at`."""
    *above, name = parts
    with contextlib.closing(at):
        made = [_enter(at, part) for part in above]
        for free in _numbered(name):
            with contextlib.suppress(FileExistsError):
                with os.fdopen(at.create(free), "wb") as file:
                    file.write(data)
                return "/".join([*made, free])
        raise FileExistsError(0, f"there are already {_MAX_NUMBER} files like {name}")


def _enter(at: Directory, name: str) -> str:
    """Enter a subdirectory, with a number in its name if a file or a link has that name. Return its name."""
    for free in _numbered(name):
        try:
            at.enter(free)
            return free
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
    raise FileExistsError(0, f"there are already {_MAX_NUMBER} files like {name}")


def _numbered(name: str) -> Iterator[str]:
    stem, dot, suffix = name.rpartition(".") if "." in name[1:] else (name, "", "")
    yield name
    yield from (f"{stem}.{number}{dot}{suffix}" for number in range(2, _MAX_NUMBER))


# --- showing ------------------------------------------------------------------------------------------------------


def show(data: bytes, stream: TextIO, environment: Mapping[str, str]) -> None:
    """Show a PNG of moderate size, if the terminal can."""
    draw = _protocol(environment) if stream.isatty() else None
    if draw is None or len(data) > _MAX_SHOWN_BYTES or not data.startswith(_PNG) or len(data) < 24:
        return
    width, height = struct.unpack_from(">II", data, 16)
    if 0 < width * height <= _MAX_SHOWN_PIXELS:
        write_picture(draw(data), stream)


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
