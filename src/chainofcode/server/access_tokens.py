"""Tokens that an operator adds and revokes while the server runs, and the store that keeps them.

A secret has 256 random bits and is shown once. Only its SHA-256 is stored. A slow password hash would not make such a
secret harder to guess, and every request would have to compute it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ..errors import InputError
from ..platforms import lock, lock_directory

SCOPES: Mapping[str, str] = {
    "read": "get runs, events, traces, audits and files",
    "run": "start, answer, resume, cancel and delete runs, upload files; OpenAI's protocols and MCP",
    "metrics": "/metrics and /readyz, which describe the whole server",
}
OWNER = re.compile(r"[A-Za-z][\w.@+-]{0,253}", re.ASCII)
_PREFIX = "coc_"  # lets secret scanners recognise a leaked token
_ID_CHARS = 12
_MAX_FILE_BYTES = 16 * 1024**2


class AccessToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token without its secret. An owner can have several; they share the owner's runs, files and budget.

    `budget` is what the owner may use per day: `tokens`, `dollars`. Times are in seconds since 1970.
    """

    owner: str
    sha256: str  # of the secret, in hexadecimal
    scopes: tuple[str, ...] = tuple(SCOPES)
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    budget: dict[str, float] = {}

    @property
    def id(self) -> str:
        return self.sha256[:_ID_CHARS]

    def is_valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


def sha256_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def new_token(
    owner: str,
    *,
    scopes: Sequence[str] = ("read", "run"),
    expires: float | None = None,
    budget: Mapping[str, float] | None = None,
) -> tuple[str, AccessToken]:
    """Return a new secret and its token. Raises InputError for an invalid owner or scope."""
    if not OWNER.fullmatch(owner):
        raise InputError(f"invalid name {owner[:300]!r}: a name is a letter, then letters, digits and . _ @ + -")
    for scope in scopes:
        if scope not in SCOPES:
            raise InputError(f"unknown scope {scope[:100]!r} (expected one of: {', '.join(SCOPES)})")
    secret = _PREFIX + secrets.token_urlsafe(32)
    token = AccessToken(
        owner=owner,
        sha256=sha256_of(secret),
        scopes=tuple(dict.fromkeys(scopes)),
        created=round(time.time(), 3),
        expires=expires,
        budget=dict(budget or {}),
    )
    return secret, token


class TokenStore(Protocol):
    """Keeps tokens. Its methods may block and raise InputError. A server reads all tokens about once a second.

    Revoked tokens stay, so that a server whose last token was revoked does not become open to everyone.
    """

    def tokens(self) -> Sequence[AccessToken]: ...

    def add(self, token: AccessToken) -> None: ...

    def revoke(self, ids: Collection[str], when: float) -> None: ...


class TokenFile:
    """A `TokenStore` in `tokens.json`, in a server's data directory. Changes are atomic."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._path = directory, directory / "tokens.json"
        self._turn = threading.Lock()
        self._version: tuple[int, ...] | None = None
        self._read: list[AccessToken] = []

    def tokens(self) -> Sequence[AccessToken]:
        """Return all tokens. The file is read again only if it has changed."""
        with self._turn, self._input_errors():
            try:
                found = self._path.stat()
            except FileNotFoundError:
                self._version, self._read = None, []
                return []
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            if version != self._version:
                self._read = self._decoded()
                self._version = version
            return self._read

    def add(self, token: AccessToken) -> None:
        with self._input_errors(), self._locked():
            self._write([*self._decoded(), token])

    def revoke(self, ids: Collection[str], when: float) -> None:
        with self._input_errors(), self._locked():
            self._write(
                [
                    msgspec.structs.replace(token, revoked=when) if token.id in ids else token
                    for token in self._decoded()
                ]
            )

    def _decoded(self) -> list[AccessToken]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise InputError(f"{self._path} is over {_MAX_FILE_BYTES:,} bytes")
        return msgspec.json.decode(data, type=list[AccessToken])

    def _write(self, tokens: Sequence[AccessToken]) -> None:
        descriptor, name = tempfile.mkstemp(dir=self._directory, prefix="tokens.")
        try:
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(tokens), indent=1) + b"\n")
                file.flush()
                self._give_to_server(descriptor)
                os.fsync(descriptor)
            os.replace(name, self._path)
        except BaseException:
            os.unlink(name)
            raise

    def _give_to_server(self, descriptor: int) -> None:
        """Make the owner of the directory the owner of a file that root wrote, so that the server can read it."""
        if os.geteuid() == 0:
            owner = self._directory.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = lock_directory(self._directory)
        try:
            lock(directory, waits=True)
            yield
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def _input_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot store tokens in {self._path}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{self._path} is not a list of tokens: {error}") from None
