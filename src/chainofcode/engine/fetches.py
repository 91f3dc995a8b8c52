"""Request values for the calls of a program and its shadow, and hand them to the program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ..emulator import Answered, Emulator
from ..errors import BudgetError, EmulationError
from ..languages.guest.link import MAX_FRAME_MEMORY
from ..reasons import Reason
from ..sandbox import Job, Sandbox, Session
from ..sandbox.frames import Paused, Settled
from ..trace import Call, Returned, Sent
from ..values.codec import encode
from .log import Log, Unused, UsedValue
from .lookahead import Lookahead

_MAX_DECODED_BYTES = 2 * MAX_FRAME_MEMORY  # of the arguments of all requests in flight, as objects
_MAX_FORESEEN = 10_000  # calls that the shadow reported and the program has not made yet


@dataclass(eq=False)
class Fetch:
    """One request for a value, by the program or its shadow: a task, then its answer or failure."""

    request: Paused
    is_foreseen: bool = False
    paused: Paused | None = None  # the program's own pause, once it makes the call
    task: asyncio.Task[None] | None = None
    answered: Answered | None = None
    is_once: bool = False
    number: int = 0  # of the request
    failure: Callable[[int], None] | None = None  # called with the statement when the program makes the call
    seconds: float = 0.0
    uses: int = 0


class Fetches:
    """The requests of a run. A request begins when the program or its shadow makes a call.

    A failed request matters only if the program makes that call.
    """

    def __init__(
        self, emulator: Emulator, *, place: Sandbox, session: Session, job: Job, log: Log, share: bool
    ) -> None:
        self._emulator, self._session, self._job, self._log, self._share = emulator, session, job, log, share
        # Without a sandbox, the side effects of a shadow would reach the host.
        may_look = job.in_flight > 1 and session.wall != "none" and job.language.looks_ahead
        self._lookahead = Lookahead(place, job, session, self) if may_look else None
        self._gathers = emulator.gathers
        self._fetches: dict[int, Fetch] = {}  # by the number of the program's pause
        self._foreseen: dict[bytes, Fetch] = {}  # calls that the program has not made yet
        self._by_shadow: dict[int, Fetch] = {}  # the same, by the shadow's pause number
        self._requested: set[bytes] = set()  # calls, without expected types: the program shares the first value
        self._queue: deque[Fetch] = deque()
        self._free, self._begun, self._is_closing = job.in_flight, 0, False
        self._decoded = 0  # estimated bytes of the arguments of requests in flight
        self._calls: list[Call] = []  # finished requests that are not in the trace yet

    async def __aenter__(self) -> Fetches:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> Unused:
        """Cancel requests in flight and send no more. Return how many the program did not use."""
        if not self._is_closing:
            self._is_closing = True
            if self._lookahead is not None:
                await self._lookahead.close()
            fetches = [*self._fetches.values(), *self._foreseen.values()]
            tasks = [fetch.task for fetch in fetches if fetch.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._calls += self._emulator.abandoned()
        return Unused(
            wasted=sum(fetch.task is not None for fetch in self._foreseen.values()),
            unsettled=sum(fetch.answered is not None and not fetch.uses for fetch in self._fetches.values()),
        )

    def recorded(self) -> list[Call]:
        """Return the requests that were made since the last call, for the trace."""
        calls, self._calls = self._calls, []
        return calls

    def begin(self, paused: Paused) -> None:
        """Handle a pause of the program, at a call or a statement."""
        identity = self._identity(paused)
        fetch = self._foreseen.pop(self._key(paused, identity), None)
        if fetch is None:
            fetch = Fetch(paused)
        self._requested.add(identity)
        self._fetches[paused.id] = fetch
        fetch.paused = paused
        if self._lookahead is not None:
            self._lookahead.reach(is_foreseen=fetch.is_foreseen)
        most = self._job.limits.lm_calls
        if len(self._fetches) > most:
            self._lose(fetch, Reason.CALLS_LIMIT, f"the program made over {most} calls")
        elif fetch.answered is not None:
            self._resume(fetch, paused)
        elif fetch.failure is not None:
            fetch.failure(paused.statement)
        elif fetch.task is None:
            with contextlib.suppress(ValueError):
                self._queue.remove(fetch)
            if self._lookahead is None:  # a guest that requests many values at once gets them in order
                self._queue.append(fetch)
            else:
                self._queue.appendleft(fetch)
            self.pump()

    def _key(self, paused: Paused, identity: bytes) -> bytes:
        """Return the key of a call, the same for the program and its shadow; it includes the expected type."""
        if not identity:
            return b""
        use = self._log.use(paused)
        expected = [use.type, use.spec] if use is not None else []
        return hashlib.sha256(identity + msgspec.json.encode(expected)).digest()

    def _identity(self, paused: Paused) -> bytes:
        """Return what equal calls have in common; empty if the call cannot be compared with others."""
        if self._lookahead is None or not paused.is_known:
            return b""
        content = msgspec.json.encode([paused.text, paused.args, paused.kwargs, paused.known_by])
        return hashlib.sha256(content).digest()

    # --- calls that the shadow reports --------------------------------------------------------------------------

    def foresee(self, paused: Paused) -> bool:
        identity = self._identity(paused)
        key = self._key(paused, identity)
        self._by_shadow.pop(paused.id, None)  # an earlier shadow may have used this number
        if key in self._foreseen:
            self._by_shadow[paused.id] = self._foreseen[key]
        is_call = paused.kind == "call" and paused.name not in self._job.tools  # do not trust the shadow
        is_call = is_call and self._emulator.asks_ahead(paused.name)
        if not key or identity in self._requested or not is_call or len(self._foreseen) >= _MAX_FORESEEN:
            return False
        self._requested.add(identity)
        fetch = self._foreseen[key] = self._by_shadow[paused.id] = Fetch(paused, is_foreseen=True)
        self._queue.append(fetch)
        self.pump()
        return True

    def reorder(self, calls: list[int]) -> None:
        expected = [fetch for fetch in map(self._by_shadow.get, calls) if fetch is not None and fetch.task is None]
        self._queue = deque([fetch for fetch in self._queue if fetch.paused is not None])
        self._queue.extend(fetch for fetch in expected if fetch.paused is None)
        self.pump()

    @property
    def is_busy(self) -> bool:
        return len(self._queue) >= self._job.in_flight

    # --- requests -----------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start queued requests, up to the number allowed in flight."""
        if self._gathers and self._lookahead is not None and self._lookahead.holds:
            return
        while self._queue and self._has_room(self._queue[0]) and not self._is_closing:
            fetch = self._queue.popleft()
            if fetch.paused is None and self._begun >= self._job.limits.lm_calls:
                continue  # the program's own calls are counted in `begin`
            self._begun += 1
            self._free -= 1
            self._decoded += fetch.request.memory
            fetch.number = self._begun
            request = fetch.request
            line = self._log.line(request.statement)
            self._session.post(Sent(id=fetch.number, call=request.text, statement=request.statement, line=line))
            fetch.task = asyncio.create_task(self._fetch(fetch))

    def _has_room(self, fetch: Fetch) -> bool:
        """Whether a request may begin: there is a free place, and memory for its arguments."""
        return self._free > 0 and (not self._decoded or self._decoded + fetch.request.memory <= _MAX_DECODED_BYTES)

    async def _fetch(self, fetch: Fetch) -> None:
        started = time.monotonic()
        try:
            answered = await self._emulator.answer(self._log.pause(fetch.request, self._job))
            value = _carriable(fetch.request, answered.value)
            self._calls += _with_value(answered, fetch.request.text, value)
        except (EmulationError, BudgetError) as error:
            self._calls += error.calls
            self._lose(fetch, error.reason, str(error), code=error.code, about=error.about)
        except Exception as error:  # of the caller's emulator: raise it in the caller, not in this task
            self._fail(fetch, functools.partial(self._raise, error))
        except BaseException as error:  # cancelled or interrupted
            if not self._is_closing:
                self._fail(fetch, functools.partial(self._raise, error))
            raise
        else:
            fetch.seconds = time.monotonic() - started
            self._take_in(fetch, replace(answered, value=value))
        finally:
            self._free += 1
            self._decoded -= fetch.request.memory
            self._session.post(Returned(id=fetch.number))
            self.pump()
            if self._lookahead is not None:
                self._lookahead.end(fetch.request if fetch.is_foreseen else None)

    def _take_in(self, fetch: Fetch, answered: Answered) -> None:
        """Keep a value that has arrived, for the program and its shadow."""
        fetch.answered = answered
        fetch.is_once = answered.is_once or not self._share or answered.by == "tool"
        if self._lookahead is not None:
            reply = {"value": answered.value, "once": fetch.is_once or not fetch.request.is_known}
            failed = {"error": answered.error, "raised": answered.raised} if answered.error else {}
            self._lookahead.learn(fetch.request, {**reply, **failed})
        if fetch.paused is not None:
            self._resume(fetch, fetch.paused)

    def _resume(self, fetch: Fetch, paused: Paused) -> None:
        answered = fetch.answered
        if answered is not None:
            self._session.resume(paused, answered.value, answered.error, answered.raised, is_once=fetch.is_once)

    def _raise(self, error: BaseException, statement: int) -> None:
        self._session.fail(error)

    def _lose(self, fetch: Fetch, reason: Reason, message: str, *, code: str = "", about: str = "") -> None:
        def end(statement: int) -> None:
            line = self._log.line(statement)
            self._session.end(reason, message, statement=statement, line=line, code=code, about=about)

        self._fail(fetch, end)

    def _fail(self, fetch: Fetch, failure: Callable[[int], None]) -> None:
        fetch.failure = failure
        if fetch.paused is not None:
            failure(fetch.paused.statement)

    def take(self, settled: Settled) -> UsedValue:
        """Return the value that the program has taken."""
        fetch = self._fetches[settled.id]
        fetch.uses += 1
        if fetch.answered is None:  # the session settles only what it resumed
            raise AssertionError(f"pause {settled.id} has no answer")
        return UsedValue(
            paused=fetch.request,
            answered=fetch.answered,
            seconds=fetch.seconds,
            is_first=fetch.uses == 1,
            is_foreseen=fetch.is_foreseen,
        )


def _with_value(answered: Answered, text: str, value: Any) -> tuple[Call, ...]:
    """Return the requests for a value, with the value in the last one: a resumed run can use it."""
    if not answered.calls or answered.error is not None or text in answered.calls[-1].answers:
        return answered.calls
    *before, last = answered.calls
    return (*before, msgspec.structs.replace(last, answers={**last.answers, text: value}))


def _carriable(paused: Paused, value: Any) -> Any:
    """Encode a value for the guest. For a statement, it is a mapping of names to values. Raises EmulationError."""
    if paused.kind == "statement":
        if not isinstance(value, Mapping):
            raise EmulationError(f"the statement {paused.text} needs a mapping of names to values, not {value!r}")
        foreign = [name for name in value if name not in paused.names]
        if foreign:
            allowed = ", ".join(paused.names) or "nothing"
            raise EmulationError(f"the statement {paused.text} cannot set {foreign[0]!r}; it may set {allowed}")
        value = dict(value)

    def refuse(part: object) -> str:
        raise EmulationError(
            f"cannot send the value of {paused.text} to the program: "
            f"it contains a value of type {type(part).__name__}, or is too large"
        )

    return encode(value, brief=refuse)
