"""Requests sent together through a provider's batch endpoint: at half price, with replies within a day.

Requests wait in a queue, which is sent once no new request has arrived for a while. When the whole batch has ended, its
replies are delivered in the order of the requests. Later requests therefore do not depend on timing: a resumed
evaluation makes the same requests again and finds their replies in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from ..errors import LMError
from .batch_store import BatchStore

IN_FLIGHT = 256  # requests of one program, and samples of an evaluation, that wait at once
_QUIET_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 300.0  # of a request, while new ones keep arriving
_POLL_SECONDS = 1.0  # before the second poll of a batch
_LONGEST_POLL_SECONDS = 60.0
_POLL_GROWTH = 1.5
_MAX_BATCH_SECONDS = 26 * 3600  # providers end a batch after 24 hours
_ATTEMPTS = 8
_KEPT_AT_ONCE = 200
_LINE_BYTES = 200  # that a batch adds to each body
_REPLIED = 200  # the HTTP status of a reply
_Value = TypeVar("_Value")
Reply = tuple[int, bytes]  # the HTTP status and the body that the ordinary endpoint would have returned
Keep = Callable[[str, Reply | None], None]  # a custom id and its result; None for a request that was cancelled
Tell = Callable[[str, bool], None]  # a message for the user, and whether it only reports progress


@dataclass(frozen=True, kw_only=True)
class BatchState:
    """The progress of a batch. `problem`: why results may be missing; `is_transient`: sending again may help."""

    is_ended: bool
    done: int
    total: int
    problem: str = ""
    is_transient: bool = True


@dataclass(frozen=True)
class BatchOptions:
    """Where batches are stored, how the user is informed, and the intervals for sending and polling batches."""

    store: BatchStore
    tell: Tell = lambda text, is_progress: None
    quiet_seconds: float = _QUIET_SECONDS
    poll_seconds: float = _POLL_SECONDS
    _queues: dict[str, BatchQueue] = field(default_factory=dict)

    def queue(self, endpoint: BatchEndpoint, model: str) -> BatchQueue:
        """Return the only queue of a model: a second one would treat the batches of the first as abandoned.

        `model` identifies the model in the store, by its name and its endpoint.
        """
        return self._queues.setdefault(model, BatchQueue(endpoint, model, self))


class BatchEndpoint(Protocol):
    """The batch endpoint of a provider. All methods raise LMError."""

    max_requests: int
    max_bytes: int
    has_tokens: bool  # whether `candidates` finds batches by token, rather than by time and size

    async def send(self, token: str, requests: Sequence[tuple[str, dict[str, Any]]]) -> str:
        """Send a batch of bodies by custom id, and return its id."""
        ...

    async def look_up(self, batch_id: str) -> BatchState: ...

    async def candidates(self, token: str, noted: float, size: int) -> list[str]:
        """Return the ids of batches that may be the one with this token."""
        ...

    async def read_results(self, batch_id: str, keep: Keep) -> None:
        """Call `keep` for each request of a batch that has ended."""
        ...


@dataclass
class _Waiting:
    """A request whose caller waits for the reply."""

    body: dict[str, Any]
    digest: bytes
    size: int
    reply: asyncio.Future[Reply]
    custom_id: str = ""


@dataclass
class _Batch:
    """A batch that was sent, and the requests in it that callers wait for."""

    token: str
    id: str = ""
    size: int = 0
    waiting: list[_Waiting] = field(default_factory=list)
    failures: dict[str, Reply] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the event loop ended before the batch did."""
        return self.task is not None and self.task.cancelled()


class BatchQueue:
    """Sends requests to one model in batches, and hands out the replies."""

    def __init__(self, endpoint: BatchEndpoint, model: str, options: BatchOptions) -> None:
        self._endpoint, self._model = endpoint, model
        self._store, self._tell = options.store, options.tell
        self._quiet_seconds, self._poll_seconds = options.quiet_seconds, options.poll_seconds
        self._queue: list[_Waiting] = []
        self._first = self._last = 0.0  # when the first and the last request of the queue arrived
        self._taken: set[str] = set()  # custom ids whose reply a caller of this process has or waits for
        self._open: dict[str, _Batch] = {}  # by token: batches without results, even if collecting them failed
        self._rounds: asyncio.Task[None] | None = None

    async def send(self, body: dict[str, Any]) -> Reply:
        """Return the reply to a request, after its batch has ended."""
        text = msgspec.json.encode([self._model, body], order="sorted")
        waiting = _Waiting(
            body, hashlib.sha256(text).digest(), len(text) + _LINE_BYTES, asyncio.get_running_loop().create_future()
        )
        self._enqueue(waiting)
        try:
            return await waiting.reply
        except asyncio.CancelledError:
            self._taken.discard(waiting.custom_id)  # another caller may use the reply
            raise

    def _enqueue(self, waiting: _Waiting) -> None:
        self._last = time.monotonic()
        if not self._queue:
            self._first = self._last
        self._queue.append(waiting)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run_rounds())
            self._rounds.add_done_callback(self._end_rounds)

    # --- rounds ---------------------------------------------------------------------------------------------------

    async def _run_rounds(self) -> None:
        self._recover()
        while self._queue:
            await self._wait_until_quiet()
            unsent = [request for request in self._queue if not request.reply.done() and not self._is_known(request)]
            self._queue = []  # only now: if the store fails, `_end_rounds` fails what is in the queue
            for part in self._parts(unsent):
                self._start(self._send(part), part)

    async def _wait_until_quiet(self) -> None:
        """Wait until no new request has arrived for a while."""
        while True:
            now = time.monotonic()
            left = min(self._last + self._quiet_seconds, self._first + _LONGEST_WAIT_SECONDS) - now
            if left <= 0:
                return
            await asyncio.sleep(left)

    def _is_known(self, request: _Waiting) -> bool:
        """Whether an earlier batch has this request. If so, the caller gets its reply, now or when that batch ends."""
        known = self._store.find(request.digest, self._taken)
        if known is None:
            return False
        request.custom_id = known.custom_id
        self._taken.add(known.custom_id)
        if known.reply is not None:
            request.reply.set_result((_REPLIED, known.reply))
        else:
            batch = self._open[known.token]
            batch.waiting.append(request)
            if batch.task is not None and batch.task.done():
                _pass_on_failure(batch.task, batch.waiting)
        return True

    def _parts(self, requests: Sequence[_Waiting]) -> Iterator[_Batch]:
        """Split requests into batches of a size that the provider accepts."""
        part, size = _Batch(""), 0
        for request in requests:
            is_full = size + request.size > self._endpoint.max_bytes or len(part.waiting) == self._endpoint.max_requests
            if part.waiting and is_full:
                yield part
                part, size = _Batch(""), 0
            part.waiting.append(request)
            size += request.size
        if part.waiting:
            yield part

    def _end_rounds(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            waiting, self._queue = self._queue, []
            _pass_on_failure(task, waiting)

    def _start(self, work: Coroutine[Any, Any, None], batch: _Batch) -> None:
        """Start work on a batch. If the work fails, so do the requests in the batch."""
        task = batch.task = asyncio.create_task(work)
        task.add_done_callback(lambda task: _pass_on_failure(task, batch.waiting))

    # --- one batch ------------------------------------------------------------------------------------------------

    async def _send(self, batch: _Batch) -> None:
        batch.token, custom_ids = self._store.begin(self._model, [request.digest for request in batch.waiting])
        self._open[batch.token], batch.size = batch, len(custom_ids)
        for request, custom_id in zip(batch.waiting, custom_ids, strict=True):
            request.custom_id = custom_id
            self._taken.add(custom_id)
        requests = [(request.custom_id, request.body) for request in batch.waiting]
        batch.id = await self._sent_id(batch.token, requests)
        self._store.note_sent(batch.token, batch.id)
        self._tell(f"{batch.id}: a batch of {batch.size:,} requests to {self._model} was sent", False)
        await self._collect(batch)

    async def _sent_id(self, token: str, requests: Sequence[tuple[str, dict[str, Any]]]) -> str:
        """Send a batch. After a failure that leaves open whether it arrived, look for it before sending it again."""
        noted, pause = time.time(), self._poll_seconds
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._endpoint.send(token, requests)
            except LMError as error:
                if not error.is_transient:
                    self._store.forget(token)
                    raise LMError(str(error)) from None
                if attempt == _ATTEMPTS:
                    raise LMError(f"a batch could not be sent: {error}; run the same command to try again") from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
            if (found := await self._found(token, noted, len(requests))) is not None:
                return found
        raise AssertionError("unreachable")

    async def _collect(self, batch: _Batch) -> None:
        """Wait for the end of a batch, keep its results, and hand them out."""
        state = await self._ended(batch.id)
        expected = {f"{batch.token}-{number}" for number in range(batch.size)}
        replies: list[tuple[str, bytes]] = []

        def keep(custom_id: str, reply: Reply | None) -> None:
            if reply is None or custom_id not in expected:
                return
            if reply[0] == _REPLIED:
                replies.append((custom_id, reply[1]))
            else:
                batch.failures[custom_id] = reply
            if len(replies) >= _KEPT_AT_ONCE:
                self._store.keep(replies)
                replies.clear()

        await self._with_retries(lambda: self._endpoint.read_results(batch.id, keep))
        self._store.keep(replies)
        self._store.finish(batch.token)
        self._open.pop(batch.token, None)
        self._hand_out(batch, state)

    def _hand_out(self, batch: _Batch, state: BatchState) -> None:
        missing = 0
        for request in batch.waiting:
            reply = self._store.reply(request.custom_id)
            result = (_REPLIED, reply) if reply is not None else batch.failures.get(request.custom_id)
            missing += result is None
            if request.reply.done():
                continue
            if result is not None:
                request.reply.set_result(result)
            else:
                text = f"the batch {batch.id} of {self._model} {state.problem or 'has no result for this request'}"
                request.reply.set_exception(LMError(text, is_transient=state.is_transient))
        failed = len(batch.failures) + missing
        trouble = f", {failed:,} without a reply" if failed else ""
        self._tell(f"{batch.id}: the batch has ended{trouble}", False)

    async def _ended(self, batch_id: str) -> BatchState:
        """Poll a batch, less and less often, until it has ended."""
        started, pause = time.monotonic(), self._poll_seconds
        while True:
            state = await self._with_retries(lambda: self._endpoint.look_up(batch_id))
            if state.is_ended:
                return state
            seconds = time.monotonic() - started
            if seconds > _MAX_BATCH_SECONDS:
                raise LMError(f"the batch {batch_id} of {self._model} has not ended after {seconds / 3600:.0f} hours")
            self._tell(f"{batch_id}: {state.done:,} of {state.total:,} requests done, {seconds / 60:.0f} min", True)
            await asyncio.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LONGEST_POLL_SECONDS)

    async def _with_retries(self, use: Callable[[], Awaitable[_Value]]) -> _Value:
        """Call the provider about a batch, with retries: the batch itself continues after a failed call."""
        pause = self._poll_seconds
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await use()
            except LMError as error:
                if not error.is_transient or attempt == _ATTEMPTS:
                    raise LMError(f"{error}; nothing is lost: run the same command to collect the batch") from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
        raise AssertionError("unreachable")

    # --- batches of an earlier process ----------------------------------------------------------------------------

    def _recover(self) -> None:
        """Wait for the batches of an earlier process or event loop, without delaying requests that are not in them."""
        for noted in self._store.open_batches(self._model):
            if noted.token not in self._open or self._open[noted.token].is_abandoned:
                batch = self._open[noted.token] = _Batch(noted.token, noted.id or "", noted.requests)
                self._start(self._recover_batch(batch, noted.noted), batch)

    async def _recover_batch(self, batch: _Batch, noted: float) -> None:
        """Collect a batch of an earlier process. If the provider never received it, its requests are sent now."""
        if not batch.id:
            found = await self._found(batch.token, noted, batch.size)
            if found is None:
                self._forget(batch)
                return
            self._store.note_sent(batch.token, found)
            batch.id = found
        self._tell(f"{batch.id}: waiting for the batch of {batch.size:,} requests that was sent earlier", False)
        await self._collect(batch)

    def _forget(self, batch: _Batch) -> None:
        self._store.forget(batch.token)
        del self._open[batch.token]
        for request in batch.waiting:
            if not request.reply.done():
                self._enqueue(request)

    async def _found(self, token: str, noted: float, size: int) -> str | None:
        """Return the id of a batch that may have been sent; None if the provider has no such batch."""
        found = await self._with_retries(lambda: self._endpoint.candidates(token, noted, size))
        if self._endpoint.has_tokens:
            return found[0] if found else None
        unknown = set(found) - self._store.known_ids()
        # All at once: batches of other users may run for a day.
        checks = [asyncio.create_task(self._id_if_token(batch_id, token)) for batch_id in unknown]
        try:
            for check in asyncio.as_completed(checks):
                if (batch_id := await check) is not None:
                    return batch_id
            return None
        finally:
            for pending in checks:
                pending.cancel()
            await asyncio.gather(*checks, return_exceptions=True)

    async def _id_if_token(self, batch_id: str, token: str) -> str | None:
        """Return the id of a batch if it is the one with this token: its results show that, once it has ended."""
        await self._ended(batch_id)
        custom_ids: set[str] = set()
        await self._with_retries(
            lambda: self._endpoint.read_results(batch_id, lambda custom_id, _: custom_ids.add(custom_id))
        )
        return batch_id if any(custom_id.startswith(f"{token}-") for custom_id in custom_ids) else None


def _pass_on_failure(task: asyncio.Task[None], waiting: Sequence[_Waiting]) -> None:
    """Fail or cancel the requests whose work has failed or was cancelled."""
    if task.cancelled():
        for request in waiting:
            request.reply.cancel()
    elif (error := task.exception()) is not None:
        for request in waiting:
            if not request.reply.done():
                request.reply.set_exception(error)
