"""Seals of traces, which show that this user recorded a trace and that it is unchanged.

Each line of a sealed trace has a keyed digest (HMAC-SHA256) of itself and of all lines before it, made with a secret
key of the user. Other users cannot make or change a line, or combine lines of several traces. The beginning of a trace
is sealed even if its end is missing. The key is a private file of 32 random bytes. Without a key, traces have no seals.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path

from .platforms import is_own, why_not_private

KEY_BYTES = 32
_SEAL_CHARS = 32
_MEMBERS = re.compile(rb',"seal":"([0-9a-f]{%d})","chain":"[0-9a-f]*"\}\Z' % _SEAL_CHARS)
_MAX_MEMBERS_CHARS = 200
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class KeyUnusable(Exception):
    """There is no key, or other users may know it; the message says why."""


class Seals:
    """Makes or checks the seals of one trace, line by line from the first. Without a key it makes none."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._last = b""

    def seal(self, line: bytes) -> bytes:
        """Return a line with its seal as the last member."""
        if self._key is None:
            return line
        self._last = self._seal_of(line, self._key)
        return b'%s,"seal":"%s"}' % (line[:-1], self._last)

    def check(self, line: bytes) -> bool:
        """Return whether a line of a file has the right seal."""
        found = _members(line)
        if found is None or self._key is None:
            return False
        self._last = self._seal_of(line[: found.start()] + b"}", self._key)
        return hmac.compare_digest(self._last, found[1])

    def _seal_of(self, line: bytes, key: bytes) -> bytes:
        return hmac.digest(key, self._last + line, "sha256").hex()[:_SEAL_CHARS].encode()


def _members(line: bytes) -> re.Match[bytes] | None:
    return _MEMBERS.search(line, max(len(line) - _MAX_MEMBERS_CHARS, 0))


def find_seal_problem(lines: list[bytes]) -> str:
    """Return why the seals do not show that this user recorded a trace; empty if they do."""
    if not lines or _members(lines[0]) is None:
        return "it has no seal"
    try:
        seals = Seals(read_key())
    except KeyUnusable as error:
        return f"its seal cannot be checked: {error}"
    wrong = next((number for number, line in enumerate(lines, 1) if not seals.check(line)), 0)
    if wrong == 1:
        return "another key sealed it, or its first line was changed"
    return f"line {wrong} was changed, or is from another trace" if wrong else ""


# --- the key ------------------------------------------------------------------------------------------------------


def key_file() -> Path:
    """Return where the key is. Raises KeyUnusable for a user without a home directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        directory = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise KeyUnusable("this user has no home directory") from None
    return directory / "chainofcode" / "trace.key"


def make_key() -> bytes | None:
    """Return the key, and create it if there is none. None if it cannot be stored, or is not private."""
    try:
        return read_key()
    except KeyUnusable:
        pass
    with contextlib.suppress(OSError, KeyUnusable):
        _create_key(key_file())
        return read_key()
    return None


def find_key_problem() -> str:
    """Return why `make_key` returns no key; empty if it returns one."""
    try:
        path = key_file()
        if not path.exists():
            return f"cannot store a key in {path.parent}"
        read_key()
    except (KeyUnusable, OSError) as error:
        return str(error)
    return ""


def read_key() -> bytes:
    """Return the key. Raises KeyUnusable if there is none, or other users could have read or replaced it."""
    path = key_file()
    try:
        _check_directory(path.parent)
        fd = os.open(path, _READ)
    except FileNotFoundError:
        raise KeyUnusable("this user has no key yet") from None
    except OSError as error:
        raise KeyUnusable(f"cannot read {path}: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size != KEY_BYTES:
            raise KeyUnusable(f"{path} is not a key; remove it, and the next trace gets a new one")
        if why := why_not_private(found):
            raise KeyUnusable(f"{path} {why}; remove it, and the next trace gets a new one")
        return os.read(fd, KEY_BYTES)
    finally:
        os.close(fd)


def _create_key(path: Path) -> None:
    """Create the key, unless another process does so first. The file gets its name only when it is complete."""
    existing = next(parent for parent in path.parents if parent.exists())
    if not is_own(existing.stat()):  # as with `sudo`, which may keep the HOME of another user
        return
    os.makedirs(path.parent, 0o700, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(partial, _CREATE, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(fd)
        _rename_to_new(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _rename_to_new(partial: Path, path: Path) -> None:
    try:
        os.link(partial, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links: if two processes do this at once, the last one wins
        if not path.exists():
            partial.replace(path)


def _check_directory(directory: Path) -> None:
    if why := why_not_private(directory.stat(), is_directory=True):
        raise KeyUnusable(f"the directory {directory} {why}")
