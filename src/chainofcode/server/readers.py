"""Threads that read from an SQLite database, each with its own connection. Owners take turns."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from .fair_share import SERVER, FairSlots
from .refusal import StorageError

T = TypeVar("T")
_OPERATIONS = 10_000  # of SQLite, between two checks of the timeout


class Readers:
    """Reads while another connection writes. `keeps_one_free` is for reads that take long: see `FairSlots`."""

    def __init__(self, path: Path, threads: int, *, keeps_one_free: bool = False) -> None:
        self._path, self._slots = path, FairSlots(threads, keeps_one_free=keeps_one_free)
        self._threads = ThreadPoolExecutor(threads, "reader")
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []

    async def do(
        self, function: Callable[[sqlite3.Connection], T], *, owner: str = SERVER, seconds: float | None = None
    ) -> T:
        """Read in the turn of an owner, or of the server itself.

        Raises TimeoutError after `seconds`, StorageError if the read fails.
        """
        async with self._slots.taken(owner):
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._do, function, seconds)

    def _do(self, function: Callable[[sqlite3.Connection], T], seconds: float | None) -> T:
        end = time.monotonic() + seconds if seconds is not None else float("inf")
        try:
            database = self._connection()
            database.set_progress_handler(lambda: time.monotonic() > end, _OPERATIONS)
            return function(database)
        except sqlite3.OperationalError as error:
            if time.monotonic() > end:
                raise TimeoutError from None
            raise StorageError(str(error)) from None

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._own, "connection"):
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA query_only = ON")
            self._opened.append(connection)
            self._own.connection = connection
        found: sqlite3.Connection = self._own.connection
        return found

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._opened:
            connection.close()
