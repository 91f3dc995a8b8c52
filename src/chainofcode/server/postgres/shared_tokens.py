"""Tokens that are valid on all servers that share one database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import msgspec
import psycopg

from ...errors import InputError
from ..access_tokens import AccessToken
from ..refusal import StorageError
from .connections import Connections, Postgres
from .upgrading import prepare

T = TypeVar("T")
_ADD = "INSERT INTO tokens (sha256, record) VALUES (%s, %s)"
_WRITE = "UPDATE tokens SET record = %s WHERE sha256 = %s"


class SharedTokens:
    """A `TokenStore` in PostgreSQL. Its only connection is opened again after a failure."""

    def __init__(self, url: str) -> None:
        prepare(url)
        self._database = Connections(url, 1, "tokens")

    def close(self) -> None:
        self._database.close()

    def tokens(self) -> Sequence[AccessToken]:
        return self._do(_read)

    def add(self, token: AccessToken) -> None:
        self._do(lambda connection: connection.execute(_ADD, (token.sha256, msgspec.json.encode(token))))

    def revoke(self, ids: Collection[str], when: float) -> None:
        def revoke(connection: Postgres) -> None:
            connection.execute("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE")
            for token in _read(connection):
                if token.id in ids:
                    revoked = msgspec.structs.replace(token, revoked=when)
                    connection.execute(_WRITE, (msgspec.json.encode(revoked), token.sha256))

        self._do(revoke)

    def _do(self, function: Callable[[Postgres], T]) -> T:
        try:
            return self._database.wait_for(function)
        except StorageError as error:
            raise InputError(f"cannot store tokens: {error.message}") from None
        except (psycopg.Error, msgspec.DecodeError) as error:
            raise InputError(f"cannot store tokens: {str(error).partition(chr(10))[0][:300]}") from None


def _read(connection: Postgres) -> list[AccessToken]:
    rows = connection.execute("SELECT record FROM tokens ORDER BY added").fetchall()
    return [msgspec.json.decode(row[0], type=AccessToken) for row in rows]
