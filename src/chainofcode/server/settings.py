"""The terms on which a server serves: what whoever starts it allows. And what those hear who go beyond them."""

from __future__ import annotations

import ipaddress
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
_MIN_TOKEN_CHARS = 16


@dataclass(frozen=True)
class Terms:
    """`models`: the first is asked where nobody names one, and none but these can be named. `tokens`: name → secret.

    `budget` is what each token may use in a day (UTC): `tokens`, `dollars`.
    """

    data: Path
    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8321
    tokens: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()  # further names that it is called by
    origins: tuple[str, ...] = ()  # whose pages may use it
    runs: int = 64  # at once
    queue: int = 1024  # and waiting for their turn
    requests: int = 256  # to one model at once, of all runs together
    per_minute: int = 6000  # requests of one token, or one address
    budget: Mapping[str, float] = field(default_factory=dict)
    drain_seconds: float = 30.0
    keep_days: float | None = None  # without: for good
    packages: tuple[str, ...] = ()
    has_scratch: bool = False
    limits: Limits = field(default_factory=Limits)
    log: Literal["text", "json"] = "text"
    logs_content: bool = False
    has_spans: bool = False

    def check(self) -> None:
        """Raises InputError for terms under which nobody should serve."""
        if not is_loopback(self.host) and not self.tokens:
            raise InputError(
                f"{self.host} can be reached from elsewhere: that needs --token (or COC_TOKEN), or --host 127.0.0.1"
            )
        for name, secret in self.tokens.items():
            if len(secret) < _MIN_TOKEN_CHARS or not secret.isascii() or not secret.isprintable() or " " in secret:
                which = f" of {name}" if name else ""
                raise InputError(f"the token{which} must have {_MIN_TOKEN_CHARS} or more plain characters, no spaces")
        if len(set(self.tokens.values())) < len(self.tokens):
            raise InputError("two tokens are the same: nobody could tell who asks")
        for name, least in (("runs", 1), ("queue", 0), ("requests", 1), ("per_minute", 1), ("drain_seconds", 0)):
            if not least <= getattr(self, name) <= 1_000_000:
                raise InputError(f"--{_OPTIONS.get(name, name)} takes {least} or more, not {getattr(self, name)}")
        if self.keep_days is not None and not 0 < self.keep_days <= 1_000_000:
            raise InputError(f"--keep takes a number of days above 0, not {self.keep_days:g}")
        for origin in self.origins:
            if "://" not in origin or origin.count("/") != 2:
                raise InputError(f"--allow-origin takes an origin as in https://example.org, not {origin!r}")

    def knows_host(self, name: str) -> bool:
        """Whether a request for this host is for us: a page elsewhere whose name leads here (DNS rebinding) is not."""
        if name in LOOPBACK or name == self.host.lower() or name in self.hosts:
            return True
        return not is_loopback(self.host) and is_address(name)


_OPTIONS = {"per_minute": "rate", "drain_seconds": "drain"}


class Refusal(Exception):
    """A request that is not done: the status, a word for it, and why; `param` is what was wrong of it."""

    def __init__(
        self, status: int, kind: str, message: str, *, retry_seconds: float | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.param = status, kind, message, param
        self.retry_seconds = retry_seconds


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or (is_address(host) and ipaddress.ip_address(host).is_loopback)
