"""Who may use a server: holders of tokens, and users whom a trusted proxy has signed in."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

from ..errors import InputError
from .access_tokens import OWNER, AccessToken, TokenStore, sha256_of
from .refusal import Refusal
from .settings import ServerSettings

ANYONE = AccessToken(owner="", sha256="")  # every client of a server without tokens


class Access:
    """Tokens of the settings, which never change, and of stores, whose changes `refresh` notices.

    Without any token the server is open. Once it has had one, it requires a token until its next start, even if
    every token is revoked.
    """

    def __init__(self, settings: ServerSettings, *stores: TokenStore) -> None:
        digests = {sha256_of(secret): name for name, secret in settings.tokens.items()}
        self._fixed = {digest: AccessToken(owner=name, sha256=digest) for digest, name in digests.items()}
        self._stores = stores
        self._kept = [store.tokens() for store in stores]
        self._tokens: dict[str, AccessToken] = {}
        self._requests: dict[str, set[asyncio.Timeout]] = {}  # their timeouts, by the digest of the token
        self.owners: set[str] = set()  # of valid tokens; updated in place, because other objects share the set
        self.is_required = bool(settings.tokens or settings.user_header)
        self._use()

    async def refresh(self) -> None:
        """Read the stores again. Raises InputError if one cannot be read; its tokens then stay unchanged."""
        problems: list[InputError] = []
        for place, store in enumerate(self._stores):
            try:
                self._kept[place] = await asyncio.to_thread(store.tokens)
            except InputError as error:
                problems.append(error)
        self._use()
        if problems:
            raise problems[0]

    def _use(self) -> None:
        now, kept = time.time(), [token for tokens in self._kept for token in tokens]
        self.is_required |= bool(kept)
        self._tokens = {token.sha256: token for token in kept if token.is_valid(now)} | self._fixed
        owners = {token.owner for token in self._tokens.values()}
        self.owners |= owners
        self.owners &= owners
        for digest in self._requests.keys() - self._tokens.keys():
            for request in self._requests.pop(digest):
                if not request.expired():
                    request.reschedule(0)  # now

    def holder(self, secret: str) -> AccessToken | None:
        """The valid token with this secret. The timing of a lookup by digest reveals nothing about the secret."""
        token = self._tokens.get(sha256_of(secret))
        return token if token is not None and token.is_valid(time.time()) else None

    def budget(self, owner: str) -> dict[str, float]:
        """The lowest limits of an owner's tokens."""
        limits: dict[str, float] = {}
        for token in self._tokens.values():
            if token.owner == owner:
                limits |= {which: min(limit, limits.get(which, limit)) for which, limit in token.budget.items()}
        return limits

    @contextlib.asynccontextmanager
    async def admitted(self, token: AccessToken) -> AsyncIterator[None]:
        """Stop a request when its token expires or is revoked, with a Refusal."""
        left = None if token.expires is None else token.expires - time.time()
        try:
            async with asyncio.timeout(left) as request:
                with self._registered(token, request):
                    yield
        except TimeoutError:
            if not request.expired():
                raise
            raise unauthorized() from None

    @contextlib.contextmanager
    def _registered(self, token: AccessToken, request: asyncio.Timeout) -> Iterator[None]:
        if not token.sha256:  # such a token is never revoked
            yield
            return
        others = self._requests.setdefault(token.sha256, set())
        others.add(request)
        try:
            yield
        finally:
            others.discard(request)
            if not others:
                self._requests.pop(token.sha256, None)


def signed_in(name: str) -> AccessToken | None:
    """A user whom a proxy has signed in, as a token without the scope `metrics`; None for an invalid name."""
    return AccessToken(owner=name, sha256="", scopes=("read", "run")) if OWNER.fullmatch(name) else None


def unauthorized() -> Refusal:
    return Refusal(401, "unauthorized", "missing or invalid token; send the header 'Authorization: Bearer TOKEN'")
