"""Fair sharing of slots between token holders: no owner waits behind the queue of another."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping

from .refusal import Refusal

SEARCH_SECONDS = 5.0  # timeout of a search
SERVER = "\0server"  # takes turns like an owner; no token has this name


class FairSlots:
    """A fixed number of slots, shared by owners: the owner that holds the fewest is next; equals take turns.

    One slot is kept free for each of `owners` that holds none, up to half of all slots, so that its first job does not
    wait for the hundred jobs of another owner. The collection may change when tokens are added or revoked. Where the
    owners are unknown, `keeps_one_free` keeps the last free slot for an owner that holds none.
    """

    def __init__(self, total: int, owners: Collection[str] = (), *, keeps_one_free: bool = False) -> None:
        self.total, self._free, self._owners = total, total, owners
        self._least = int(keeps_one_free)
        self._held: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, collections.deque[asyncio.Future[None]]] = {}  # in turn, the next owner first

    def count_waiting(self, owner: str) -> int:
        return len(self._waiting.get(owner, ()))

    def count_all(self, owner: str) -> int:
        """How many jobs of an owner hold a slot or wait for one."""
        return self._held[owner] + self.count_waiting(owner)

    @contextlib.asynccontextmanager
    async def taken(self, owner: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, collections.deque()).append(turn)
        self._assign_slots()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:  # the slot was already handed out
                self._give_back(owner)
            raise
        try:
            yield
        finally:
            self._give_back(owner)

    def _assign_slots(self) -> None:
        while (owner := self._next()) is not None:
            turns = self._waiting.pop(owner)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns  # now last in turn
            if not turn.cancelled():
                self._free -= 1
                self._held[owner] += 1
                turn.set_result(None)

    def _next(self) -> str | None:
        """The owner that gets the next slot; None if no slot is available."""
        may_take = [owner for owner in self._waiting if self._free > self._reserved(owner)]
        return min(may_take, key=lambda owner: self._held[owner], default=None)

    def _reserved(self, owner: str) -> int:
        if not self._held[owner]:
            return 0
        return max(self._least, reserved(owner, self._held, self._owners, self.total))

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(owner)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[owner]

    def _give_back(self, owner: str) -> None:
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._assign_slots()


@contextlib.contextmanager
def refuse_if_slow() -> Iterator[None]:
    """Raise Refusal if a search times out."""
    try:
        yield
    except TimeoutError:
        raise Refusal(
            503, "too_slow", "the search took too long: use longer words or fewer filters", retry_seconds=5
        ) from None


def reserved(owner: str, held: Mapping[str, int], owners: Collection[str], total: int) -> int:
    """How many free slots of `total` this owner may not take, because they are kept for owners that hold none."""
    if not held.get(owner):
        return 0
    idle = sum(other != owner and not held.get(other) for other in owners)
    return min(idle, total // 2)


def has_room(held: int, taken: int, total: int, *, is_shared: bool) -> bool:
    """Whether an owner who holds `held` of `total` places may take one more; all owners together hold `taken`.

    If places are shared, no owner may hold more than remain free, so that a newcomer always finds room.
    """
    free = total - taken
    return free > (held if is_shared else 0)
