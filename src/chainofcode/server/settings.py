"""The settings of a server: what its operator allows."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..errors import InputError
from ..sandbox import Limits

LOOPBACK = frozenset(["localhost", "127.0.0.1", "::1"])
MAX_JSON_BYTES = 4 * 1024**2
MAX_FILE_BYTES = 32 * 1024**2
MAX_FILES_BYTES = 1024**3  # all uploads of one owner together
MAX_QUESTION_CHARS = 100_000
_STORES = ("postgresql://", "postgres://")
_MIN_TOKEN_CHARS = 16
_SECRET = re.compile(rf"[!-~]{{{_MIN_TOKEN_CHARS},}}")  # printable ASCII without spaces
_LEAST = (
    ("runs", "--runs", 1),
    ("queue", "--queue", 0),
    ("requests", "--requests", 1),
    ("per_minute", "--rate", 1),
    ("drain_seconds", "--drain", 0),
)


@dataclass(frozen=True)
class ServerSettings:
    """`models`: the only ones that requests can name; the first is the default. `tokens`: name → secret.

    `budget` is what each token may use per day (UTC): `tokens`, `dollars`.
    """

    data: Path
    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8321
    tokens: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()  # further host names of this server
    origins: tuple[str, ...] = ()  # of pages that may use it
    runs: int = 64  # concurrent
    queue: int = 1024  # waiting
    requests: int = 256  # concurrent, to one model, of all runs
    per_minute: int = 6000  # requests of one token, or one address
    budget: Mapping[str, float] = field(default_factory=dict)
    drain_seconds: float = 30.0
    keep_days: float | None = None  # None: forever
    packages: tuple[str, ...] = ()
    has_scratch: bool = False
    limits: Limits = field(default_factory=Limits)
    sandbox_at_least: str = ""  # the lowest tier that is allowed
    engine: Literal["local", "ray"] = "local"  # where programs run
    ray_address: str = "auto"
    log: Literal["text", "json"] = "text"
    logs_content: bool = False
    has_spans: bool = False
    resumes: bool = False  # interrupted runs, after a restart
    proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-* headers are trusted
    user_header: str = ""  # in which these proxies name the user whom they have signed in
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None  # for /healthz, /readyz and /metrics without a token; None: not opened
    store: str = ""  # the address of a PostgreSQL database that several servers share; empty: SQLite in `data`
    objects: str = ""  # where these servers keep files: a directory, or s3://BUCKET/PREFIX

    def check(self, *, has_tokens: bool = False) -> None:
        """Raise InputError for invalid or unsafe settings. `has_tokens`: there are tokens outside the settings."""
        self._check_tokens()
        self._check_proxies()
        self._check_public(has_tokens=has_tokens)
        for name, option, least in _LEAST:
            if not least <= getattr(self, name) <= 1_000_000:
                raise InputError(f"{option} must be from {least} to 1,000,000, not {getattr(self, name)}")
        if self.keep_days is not None and not 0 < self.keep_days <= 1_000_000:
            raise InputError(f"--keep must be a number of days above 0, not {self.keep_days:g}")
        if self.store:
            check_store(self.store)
        if bool(self.store) != bool(self.objects):
            raise InputError("use --store and --objects together: servers that share runs also share files")
        for origin in self.origins:
            if "://" not in origin or origin.count("/") != 2:
                raise InputError(f"--allow-origin must be an origin such as https://example.org, not {origin!r}")

    def _check_tokens(self) -> None:
        for name, secret in self.tokens.items():
            if not _SECRET.fullmatch(secret):
                which = f" of {name}" if name else ""
                raise InputError(f"the token{which} must have {_MIN_TOKEN_CHARS} or more ASCII characters, no spaces")
        if len(set(self.tokens.values())) < len(self.tokens):
            raise InputError("two tokens have the same secret; give each client a different one")

    def _check_public(self, *, has_tokens: bool) -> None:
        is_public = bool(self.proxies) or not is_loopback(self.host)
        if is_public and not (self.tokens or self.user_header or has_tokens):
            place = "a server behind a proxy" if self.proxies else self.host
            raise InputError(
                f"{place} can be reached from other machines: set --token (or COC_TOKEN), add a token with "
                "'coc tokens add NAME', or use --host 127.0.0.1"
            )

    def _check_proxies(self) -> None:
        for proxy in self.proxies:
            if not is_network(proxy):
                raise InputError(f"--proxy must be an address or a network such as 10.0.0.0/8, not {proxy!r}")
        if self.user_header and not self.proxies:
            raise InputError("--user-header needs --proxy: only a trusted proxy may name users")
        if self.user_header and not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,99}", self.user_header):
            raise InputError(f"--user-header must be the name of a header, not {self.user_header!r}")

    def knows_host(self, name: str) -> bool:
        """Whether a Host header names this server: any other name may be DNS rebinding."""
        if name in LOOPBACK or name == self.host.lower() or name in self.hosts:
            return True
        return not is_loopback(self.host) and is_address(name)


def check_store(url: str) -> None:
    """Raise InputError unless it is the address of a PostgreSQL database."""
    if not url.startswith(_STORES):
        raise InputError("--store must be an address such as postgresql://USER@HOST/DATABASE")


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or (is_address(host) and ipaddress.ip_address(host).is_loopback)
