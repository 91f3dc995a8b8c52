"""One of several servers with the same store: its slots are filled from the shared queue, in turn by token.

A run that a client waits for stays on the server that accepted it, but waits for its turn in the same queue.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol

from .active_run import ActiveRun, is_set_within
from .fair_share import reserved
from .metrics import ServerLog
from .refusal import Refusal, StorageError, TakenOver
from .store import ClaimedRun, RunRecord, SharedQueue, Store

_POLL_SECONDS = 2.0  # between checks of the queue without a notification
_RETRY_SECONDS = 1.0


class HeldRuns(Protocol):
    """The runs of this server, as `Peers` sees them."""

    @property
    def begun(self) -> list[ActiveRun]: ...

    def keep_held(self, begun: Sequence[ActiveRun], held: dict[str, bool]) -> None: ...

    @property
    def known(self) -> Collection[str]:
        """The ids of all runs that are not over, or whose end could not be written yet."""

    def has(self, id: str) -> bool: ...

    async def close(self) -> None:
        """Let runs finish, or return them to the queue."""


class Peers:
    """Claims runs from the shared queue for the free slots of this server."""

    def __init__(
        self, queue: SharedQueue, total: int, *, owners: Collection[str], models: Sequence[str], log: ServerLog
    ) -> None:
        self.queue, self._total, self._owners, self._models, self._log = queue, total, owners, models, log
        self._held: collections.Counter[str] = collections.Counter()
        self._granted: dict[str, str] = {}  # owners of the runs that have a slot, by the id of the run
        self._turns: dict[str, asyncio.Future[None]] = {}  # of runs that only this server can carry out
        self._changes: weakref.WeakValueDictionary[str, asyncio.Event] = weakref.WeakValueDictionary()
        self._has_queued, self._is_held_stale = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_claiming = False  # still true after a failure: the claim may have been committed
        self.is_draining = False  # then only runs that no other server can carry out are claimed

    @contextlib.asynccontextmanager
    async def open(
        self, store: Store, runs: HeldRuns, start_claimed: Callable[[ClaimedRun], Awaitable[None]]
    ) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def notified(kind: str, id: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._on_notification, kind, id)

        self.queue.listen(notified)
        begin = functools.partial(self._begin, store, start_claimed)
        loops = [asyncio.create_task(self._claim_all(runs, begin)), asyncio.create_task(self._check_held(runs))]
        try:
            yield
        finally:
            await runs.close()  # heartbeats continue until the last run is over
            for task in (*loops, *self._tasks):
                task.cancel()
            await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
            await asyncio.to_thread(self.queue.leave)

    def _on_notification(self, kind: str, id: str) -> None:
        if kind == "queued":
            self._has_queued.set()
        elif kind == "held":
            self._is_held_stale.set()
        elif kind == "changed":
            for name in [id] if id else list(self._changes):
                changed = self._changes.pop(name, None)
                if changed is not None:
                    changed.set()

    def change_of(self, run: str) -> asyncio.Event:
        """An event that is set at the next change of a run, on any server."""
        event = self._changes.get(run)
        if event is None:
            event = self._changes[run] = asyncio.Event()
        return event

    # --- slots ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def turn(self, run: RunRecord) -> AsyncIterator[None]:
        """Wait until a run is claimed, and hold its slot."""
        try:
            if run.id not in self._granted:
                self._turns[run.id] = asyncio.get_running_loop().create_future()
                self._has_queued.set()
                await self._turns[run.id]
            yield
        finally:
            self._turns.pop(run.id, None)
            self.release(run.id)

    def release(self, run: str) -> None:
        owner = self._granted.pop(run, None)
        if owner is not None:
            self._held[owner] -= 1
            self._has_queued.set()

    def _free(self) -> int:
        return self._total - sum(self._held.values())

    def _must_wait(self) -> list[str]:
        """The owners whose runs may not take a slot now: the free slots are reserved for other owners."""
        free = self._free()
        return [owner for owner in self._held if free <= reserved(owner, self._held, self._owners, self._total)]

    async def _claim_all(self, runs: HeldRuns, begin: Callable[[ClaimedRun], Coroutine[Any, Any, None]]) -> None:
        while True:
            await is_set_within(self._has_queued, _POLL_SECONDS)
            self._has_queued.clear()
            try:
                while self._free():
                    claimed = await self._claimed(runs)
                    if claimed is None:
                        break
                    self._grant(claimed, runs, begin)
            except Exception as error:  # the loop must go on
                self._log_unread(error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _claimed(self, runs: HeldRuns) -> ClaimedRun | None:
        """Claim a run. If an earlier claim failed after it was committed, return the run of that claim."""
        if self._is_claiming:
            waiting = self._turns.keys()
            lost = await self.queue.lost_claim([*self._granted, *(id for id in runs.known if id not in waiting)])
            self._is_claiming = False
            if lost is not None:
                return lost
        self._is_claiming = True
        claimed = await self.queue.claim(self._must_wait(), self._models, only_own=self.is_draining)
        self._is_claiming = False
        return claimed

    def _grant(
        self, claimed: ClaimedRun, runs: HeldRuns, begin: Callable[[ClaimedRun], Coroutine[Any, Any, None]]
    ) -> None:
        run = claimed.run
        self._granted[run.id] = run.owner
        self._held[run.owner] += 1
        turn = self._turns.pop(run.id, None)
        if turn is not None and not turn.done():
            turn.set_result(None)
        elif not claimed.is_own or not runs.has(run.id):  # otherwise `turn` finds its slot
            if claimed.is_own:  # it has just been cancelled, or its client was refused when the store failed
                run.state = "cancelled"
            task = asyncio.create_task(begin(claimed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(
        self, store: Store, start_claimed: Callable[[ClaimedRun], Awaitable[None]], claimed: ClaimedRun
    ) -> None:
        """Start a claimed run. If it cannot be started, it fails; if it cannot be resumed, it is interrupted.
        Retry while the store is unavailable."""
        run = claimed.run
        while True:
            try:
                if run.state == "running":
                    await start_claimed(claimed)
                else:
                    await store.keep(run)
                    self.release(run.id)
                return
            except StorageError:
                await asyncio.sleep(_RETRY_SECONDS)
            except TakenOver:
                self.release(run.id)
                return
            except Refusal as error:
                run.state = "interrupted" if run.resumed else "failed"
                run.error = {"type": error.kind, "message": error.message}
            except Exception as error:  # one run: the others continue
                self._log.write("run not started", {"error": str(error)}, run=run.id, error_type=type(error).__name__)
                run.state, run.error = "failed", {"type": "internal", "message": "internal error; see the server's log"}
                await asyncio.sleep(_RETRY_SECONDS)  # it may be the store

    # --- leases -----------------------------------------------------------------------------------------------

    async def _check_held(self, runs: HeldRuns) -> None:
        while True:
            await self._is_held_stale.wait()
            self._is_held_stale.clear()
            begun = runs.begun  # before the store is read: a run that begins meanwhile is not a lost one
            try:
                runs.keep_held(begun, await self.queue.held())
            except Exception as error:  # the loop must go on
                self._log_unread(error)

    def _log_unread(self, error: Exception) -> None:
        if isinstance(error, StorageError):
            self._log.write("queue unavailable", why=error.message)
        else:
            self._log.write("queue unavailable", {"error": str(error)}, error_type=type(error).__name__)
