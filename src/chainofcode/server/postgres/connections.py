"""Threads with their own connections to PostgreSQL, and what happens while it cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg

from ..fair_share import SERVER, FairSlots
from ..refusal import StorageError
from . import schema

T = TypeVar("T")
Postgres = psycopg.Connection[Any]
_CONNECT_SECONDS = 3
_DOWN_SECONDS = 1.0  # after a failed connection, in which other threads fail immediately
_FRESH_SECONDS = 1.0  # a connection used within this time is not checked
_RETRY_SECONDS = 0.5
PATIENCE_SECONDS = 120.0  # how long runs wait for a database that restarts
_SETTINGS = "SET search_path = {schema}, public; SET statement_timeout = '30s'; SET lock_timeout = '10s'"


class Connections:
    """A fixed number of threads; each runs transactions on its own connection. Owners take turns.

    `keeps_one_free` is for transactions that take long: see `FairSlots`.
    """

    def __init__(self, url: str, threads: int, name: str, *, keeps_one_free: bool = False) -> None:
        self._url, self._slots = url, FairSlots(threads, keeps_one_free=keeps_one_free)
        self._threads = ThreadPoolExecutor(threads, name)
        self._own = threading.local()
        self._opened: set[Postgres] = set()
        self._down_until = 0.0

    async def do(self, function: Callable[[Postgres], T], *, owner: str = SERVER, seconds: float | None = None) -> T:
        """Run a function in a transaction, in the turn of an owner or of the server itself.

        Raises TimeoutError after `seconds`, StorageError if the database fails.
        """
        async with self._slots.taken(owner):
            return await asyncio.get_running_loop().run_in_executor(self._threads, self.now, function, seconds)

    async def do_patiently(self, function: Callable[[Postgres], T], *, owner: str = SERVER) -> T:
        """Like `do`, but wait for a database that restarts."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await self.do(function, owner=owner)
            except StorageError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    def wait_for(self, function: Callable[[Postgres], T]) -> T:
        """Like `do`, but block until it is done."""
        return self._threads.submit(self.now, function).result()

    def now(self, function: Callable[[Postgres], T], seconds: float | None = None) -> T:
        """Like `do`, in this thread."""
        with storage_errors():
            connection = self._connection()
            try:
                with connection.transaction():
                    if seconds is not None:
                        milliseconds = str(max(1, int(1000 * seconds)))
                        connection.execute("SELECT set_config('statement_timeout', %s, true)", (milliseconds,))
                    return function(connection)
            except psycopg.errors.QueryCanceled:
                if seconds is None:
                    raise
                raise TimeoutError from None
            except psycopg.InternalError:  # after a failover this may be a standby: the next connection is a new one
                connection.close()
                raise
            finally:
                self._own.used = time.monotonic()

    def _connection(self) -> Postgres:
        found: Postgres | None = getattr(self._own, "connection", None)
        if found is not None and not self._is_alive(found):
            self._opened.discard(found)
            found.close()
            found = None
        if found is None:
            if time.monotonic() < self._down_until:
                raise psycopg.OperationalError("PostgreSQL cannot be reached")
            try:
                found = self._own.connection = connected(self._url)
            except psycopg.OperationalError:
                self._down_until = time.monotonic() + _DOWN_SECONDS
                raise
            self._opened.add(found)
        return found

    def _is_alive(self, connection: Postgres) -> bool:
        if connection.closed:
            return False
        if time.monotonic() - self._own.used < _FRESH_SECONDS:
            return True
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._opened:
            connection.close()


def connected(url: str) -> Postgres:
    """A new connection. It notices within seconds if the server vanishes."""
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        application_name="coc serve",
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
    connection.execute(_SETTINGS.format(schema=schema.SCHEMA))
    return connection


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
        raise StorageError(reason(error)) from None


def reason(error: Exception) -> str:
    """Why PostgreSQL failed, without its address and user name."""
    state = getattr(error, "sqlstate", None)
    return f"PostgreSQL error {state}" if state else "PostgreSQL cannot be reached"
