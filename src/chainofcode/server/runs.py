"""Runs: stored before they are acknowledged, queued, followed by clients, and ended in every case.

Events of a run are only in its trace file: followers read it, and are woken when it has grown.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from ..engine import Result
from ..errors import ChainOfCodeError, WorkerLostError
from ..methods.presentation import in_words
from ..sandbox import Sandbox
from ..trace import Answer, Call, Event, Produced, Returned, Sent, as_json
from .active_run import ActiveRun, is_set_within
from .continuation import Continuation
from .draft import DraftReader
from .fair_share import FairSlots, has_room
from .peers import Peers
from .questions import asked_person
from .quotas import Ledger, MeteredLM
from .refusal import Refusal, StorageError, TakenOver
from .run_events import StreamEvent, stream_events
from .run_kinds import EventSource, Models, RunContext
from .settings import ServerSettings
from .store import ANY_RUN, AnyRun, QueueRoom, RunFilter, RunRecord, RunSummary, State, Store
from .telemetry import Telemetry
from .trace_reader import TraceReader
from .workers import Workers

KEEP_SECONDS = 15.0
_CANCEL_SECONDS = 15.0  # how long another server has to end a run
_MAX_RESUMED = 5  # so that a run that crashes workers is not resumed forever
_STILL_SECONDS = 0.02  # calls that are answered faster are not reported: they would only flicker
MAX_ANSWER_CHARS = 1_000_000
_MAX_VALUE_BYTES = 20_000  # of an answer as data; the trace has all of it


class Runs:
    """All runs of a server."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        store: Store,
        sandbox: Sandbox,
        models: Models,
        ledger: Ledger,
        telemetry: Telemetry,
        owners: Collection[str] | None = None,
    ) -> None:
        self._settings, self._store, self.sandbox, self._models = settings, store, sandbox, models
        self._ledger, self._telemetry = ledger, telemetry
        self._log, self._metrics = telemetry.log, telemetry.metrics
        self._active: dict[str, ActiveRun] = {}
        self._unsaved: dict[str, RunRecord] = {}  # finished runs that the store could not write
        self.owners: Collection[str] = settings.tokens if owners is None else owners
        self._slots = FairSlots(settings.runs, self.owners)
        self.peers: Peers | None = None
        if store.shared is not None:
            self.peers = Peers(store.shared, settings.runs, owners=self.owners, models=models.names, log=self._log)
        lowest = f"{settings.sandbox_at_least}+" if settings.sandbox_at_least else "auto"
        self.workers = Workers(self.owners, settings.limits.memory_bytes, sandbox=lowest)
        self.recorded: Callable[[RunRecord], Awaitable[Continuation | None]] = _nothing_recorded
        self.is_draining = False
        self._streams = 0
        self._metrics.gauges |= {
            "coc_runs_running": lambda: self._count("running"),
            "coc_runs_queued": lambda: self._count("queued"),
            "coc_streams": lambda: self._streams,
        }

    def _count(self, state: State) -> int:
        return sum(active.run.state == state for active in self._active.values())

    # --- starting ---------------------------------------------------------------------------------------------

    async def submit(
        self,
        run: RunRecord,
        source: EventSource,
        *,
        detach: bool = True,
        request: bytes | None = None,
        is_resumed: bool = False,
        is_claimed: bool = False,
    ) -> ActiveRun:
        """Store a run and queue it on this server. Raises Refusal when the queue is full.

        The run is started and resumed from `request`. The recorded part of a resumed run is read now, to prepare its
        trace for clients that follow it, and again when its turn comes: it may be too large to keep meanwhile. A run
        that is claimed from the shared queue is already stored and has its place.
        """
        if not is_claimed:
            self.check_room(run.owner)
        active = ActiveRun(
            run,
            source,
            self.sandbox,
            detach=detach,
            is_claimed=is_claimed,
            is_resumed=is_resumed,
            is_resumable=is_claimed or is_resumed or request is not None,
        )
        self._active[run.id] = active
        try:
            if is_resumed and not is_claimed:
                await self._prepare_trace(run)
            if not is_claimed:
                await self._store.keep(run, request=request)
        except asyncio.CancelledError:  # the client has disconnected, but the run is being written
            active.cancel("interrupted" if is_claimed else "cancelled")
            active.task = asyncio.create_task(self._carry_out(active))
            raise
        except BaseException:
            del self._active[run.id]
            raise
        self._log_taken("claimed" if is_claimed else "queued", run)
        active.task = asyncio.create_task(self._carry_out(active))
        return active

    def _log_taken(self, how: str, run: RunRecord) -> None:
        self._log.write(f"run {how}", {"question": run.question}, run=run.id, method=run.method, model=run.model)

    async def enqueue(self, run: RunRecord, request: bytes | None = None) -> None:
        """Queue a run for whichever server has a slot first. Raises Refusal when the queue is full."""
        assert self.peers is not None
        self.check_room(run.owner)
        places = QueueRoom(self._settings.runs + self._settings.queue, self._has_several_owners)
        await self.peers.queue.enqueue(run, request, places)
        self._log_taken("queued", run)

    def check_room(self, owner: str) -> None:
        if self.is_draining:
            raise Refusal(503, "stopping", "the server is shutting down", retry_seconds=self._settings.drain_seconds)
        held = sum(active.run.owner == owner for active in self._active.values())
        total = self._settings.runs + self._settings.queue
        if not has_room(held, len(self._active), total, is_shared=self._has_several_owners):
            raise Refusal(429, "busy", "too many runs are active or waiting", retry_seconds=5)

    @property
    def _has_several_owners(self) -> bool:
        return len(self.owners) > 1 or bool(self._settings.user_header)

    # --- carrying out -----------------------------------------------------------------------------------------

    async def _carry_out(self, active: ActiveRun) -> None:
        run, started = active.run, time.monotonic()
        active.is_begun = True
        try:
            if active.is_ending:
                raise asyncio.CancelledError
            async with self._turn(run):
                run.state, started = "running", time.monotonic()
                active.wake()
                messages = [("user", run.question)] if run.question else []
                with self._telemetry.spans.begun("invoke_agent", run.method, run.model, messages) as span:
                    span.set({"gen_ai.agent.name": run.method, "coc.run.id": run.id})
                    await self._work(active)
                    span.usage(active.usage.prompt_tokens, active.usage.completion_tokens)
                    span.set({"coc.run.reason": active.answer.reason})
                    span.content("gen_ai.output.messages", [("assistant", active.answer.text)])
            state: State = "done"
        except asyncio.CancelledError:
            state = active.state_if_cancelled
            if state == "interrupted" and active.asked:  # it continues when a person answers
                state = "waiting"
        except ChainOfCodeError as error:
            state, run.error = "failed", {"type": error.code, "message": self._store.without_paths(str(error))[:2000]}
        except TakenOver:
            state = "interrupted"
        except Refusal as error:  # what it needs could not be read, or nothing can be written
            state, run.error = active.state_if_refused, {"type": error.kind, "message": error.message}
        except Exception as error:  # one run: the others continue
            self._log.write("run error", {"error": str(error)}, run=run.id, error_type=type(error).__name__)
            state, run.error = "failed", {"type": "internal", "message": "internal error; see the server's log"}
        active.is_ending = True
        run.seconds = round((run.seconds or 0.0) + time.monotonic() - started, 6)
        await self._end(active, state)

    def _turn(self, run: RunRecord) -> contextlib.AbstractAsyncContextManager[None]:
        return self._slots.taken(run.owner) if self.peers is None else self.peers.turn(run)

    async def _work(self, active: ActiveRun) -> None:
        """Carry out a run. If its Ray worker is lost, resume it on another worker from its recorded part."""
        self.workers.share(active.run.owner)
        if active.is_resumed:
            await self._load_recorded(active)
        while True:
            try:
                await self._record_events(active)
                return
            except WorkerLostError:
                if active.run.resumed >= _MAX_RESUMED or not (active.is_resumable or active.file is None):
                    raise
                self._log.write("worker lost", run=active.run.id)
                active.run.resumed += 1
                await self._load_recorded(active)

    async def _load_recorded(self, active: ActiveRun) -> None:
        """Start from the recorded part of a run, if there is one."""
        if active.file is not None:
            await active.file.flush()
        continued = await self.recorded(active.run)
        active.begin(continued)
        if continued is not None:
            await self._rewrite(active, continued)
        active.wake()

    async def _record_events(self, active: ActiveRun) -> None:
        owner = active.run.owner
        context = RunContext(
            active.sandbox,
            lambda name: self._metered(name, owner),
            self.workers.inspecting(owner),
            functools.partial(asked_person, self._store, active),
            active.continued.resumed if active.continued is not None else None,
            active.write,
        )
        async with contextlib.aclosing(active.source(context)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, (Sent, Returned, Produced)) or await self._is_written(active, event):
                    active.note(event)
                    active.wake()

    async def _is_written(self, active: ActiveRun, event: Event) -> bool:
        """Write an event to the trace and return True, unless the recorded part of a resumed run has it."""
        continued = active.continued
        if continued is not None:
            if continued.is_recorded(event):
                return False
            if continued.has_diverged:
                continued.part()
                await self._rewrite(active, continued)
        active.file = active.file or await self._store.new_trace(active.run.id)
        active.file.append(event)
        if isinstance(event, Call) or active.file.is_behind:  # a call was paid for
            await active.file.flush()
        return True

    async def _rewrite(self, active: ActiveRun, continued: Continuation) -> None:
        before = active.file
        if before is not None:
            await before.flush()
            before.close()
        active.file = await self._store.replace_trace(active.run.id, continued.lines)

    async def _prepare_trace(self, run: RunRecord) -> None:
        """Reduce the trace of a run that is to be resumed to its recorded part, which clients can follow."""
        continued = await self.recorded(run)
        if continued is not None:
            (await self._store.replace_trace(run.id, continued.lines)).close()

    def _metered(self, name: str, owner: str) -> MeteredLM:
        return MeteredLM(self._models.shared(name, owner), owner, self._ledger, self._telemetry)

    async def _end(self, active: ActiveRun, state: State) -> None:
        run = active.run
        run.usage = msgspec.to_builtins(active.usage)
        if state == "done":
            run.reason, answer = active.answer.reason, active.answer
            if answer.is_answered:
                is_short = len(as_json(answer.value)) <= _MAX_VALUE_BYTES
                words = _words(answer) if is_short else await asyncio.to_thread(_words, answer)
                run.answer, run.value = words, answer.value if is_short else None
                run.confidence = active.confidence
            elif answer.error is not None:
                run.error = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
            run.artifacts = msgspec.to_builtins(answer.artifacts)
        try:
            if active.store:
                await self._store.keep_artifacts(run.id, active.store)
            run.state = await self._kept(active, state)
        except TakenOver as error:
            if active.file is not None:
                active.file.close()
            self._log.write("run taken over", run=run.id, why=error.message)
            run.state = state
        except Exception as error:  # followers are woken in any case
            if active.file is not None:
                active.file.close()
            self._log.write("run not saved", run=run.id, error_type=type(error).__name__)
            run.state, run.error = "failed", {"type": "storage", "message": "the run could not be stored"}
            self._unsaved[run.id] = run
        self._metrics.add("coc_runs_total", method=run.method, state=run.state)
        self._metrics.observe("coc_run_seconds", run.seconds or 0.0)
        content = {"question": run.question, "answer": run.answer}
        self._log.write("run ended", content, run=run.id, state=run.state, reason=run.reason, seconds=run.seconds)
        self._active.pop(run.id, None)
        if self.peers is not None:
            self.peers.release(run.id)
        active.over.set()
        active.wake()

    async def _kept(self, active: ActiveRun, state: State) -> State:
        """Store the end of a run. A claimed run that this server interrupts without an error returns to the queue."""
        run = active.run
        if state != "interrupted" or run.error is not None or not active.is_claimed or self.peers is None:
            await self._store.keep(msgspec.structs.replace(run, state=state), active.file)
            return state
        if active.file is not None:
            await active.file.flush()
            active.file.close()
        await self.peers.queue.enqueue(msgspec.structs.replace(run, state="queued", resumed=run.resumed + 1))
        return "queued"

    # --- reading ----------------------------------------------------------------------------------------------

    def active(self, id: str, owner: str) -> ActiveRun | None:
        active = self._active.get(id)
        return active if active is not None and active.run.owner == owner else None

    async def find(self, id: str, owner: str) -> RunRecord:
        return self._newest(id, owner) or await self._store.run(id, owner) or _not_found(id)

    async def find_summary(self, id: str, owner: str) -> RunSummary:
        """What is needed to follow a run, or to read its trace: its record may be large."""
        newest = self._newest(id, owner)
        run = RunSummary.of(newest) if newest is not None else await self._store.summary(id, owner)
        return run or _not_found(id)

    def _newest(self, id: str, owner: str) -> RunRecord | None:
        """A run that is newer than its record in the store."""
        run = self._active[id].run if id in self._active else self._unsaved.get(id)
        return run if run is not None and run.owner == owner else None

    async def listed(self, owner: str, limit: int, before: str | None, chosen: RunFilter = ANY_RUN) -> list[RunSummary]:
        kept = await self._store.runs(owner, limit, before, chosen)
        newest = [self._newest(run.id, owner) for run in kept]
        return [old if new is None else RunSummary.of(new) for old, new in zip(kept, newest, strict=True)]

    async def remove(self, run: RunSummary) -> None:
        """Remove a finished run."""
        unsaved = self._unsaved.pop(run.id, None)  # else `flush` would write it again
        try:
            await self._store.remove([run.id])
        except StorageError:
            if unsaved is not None:
                self._unsaved[run.id] = unsaved
            raise

    async def flush(self) -> None:
        """Write finished runs that could not be written before."""
        while self._unsaved:
            run = next(iter(self._unsaved.values()))
            with contextlib.suppress(TakenOver):  # another server writes the end of the run
                await self._store.keep(run)
            self._unsaved.pop(run.id, None)

    async def follow(
        self, run: AnyRun, after: int = -1, *, is_live: bool = True
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """Yield the events of a run after a number, in batches; `keep` while nothing happens, `end` at the end.

        `waiting` (calls in flight) and `draft` (a reply that the model is writing) have no number.
        If not live, stop after the events so far.
        """
        active, number, reported, drafts = self.active(run.id, run.owner), 0, b"[]", DraftReader()
        path = await self._store.local_trace(run.id)
        with self._counted_stream(active), contextlib.closing(TraceReader(path)) as reader:
            while True:
                changed = _next_change(active)  # taken before reading, so that later writes are noticed
                if changed is None and self.peers is not None:
                    active = self.active(run.id, run.owner)
                    changed, run = await self._stored_change(run, self.peers)
                lines = await reader.batch()
                events = stream_events(lines, number, after)
                number += len(lines)
                if events:
                    yield events
                if lines:
                    await asyncio.sleep(0)  # let others run during a long trace
                    continue
                if changed is None:
                    break
                waiting = as_json(active.waiting if active is not None else [])
                written = drafts.news(active.draft) if active is not None else None
                if written is not None:
                    yield [(None, "draft", written)]
                if not is_live:
                    yield [(None, "waiting", b'{"calls":%s}' % waiting)]
                    return
                is_new = waiting != reported
                if not await is_set_within(changed, _STILL_SECONDS if is_new else KEEP_SECONDS):
                    yield [(None, "waiting", b'{"calls":%s}' % waiting) if is_new else (None, "keep", b"")]
                    reported = waiting
            state = active.run.state if active is not None else run.state
            yield [(number, "end", msgspec.json.encode({"state": state}))]

    async def _stored_change(self, run: AnyRun, peers: Peers) -> tuple[asyncio.Event | None, AnyRun]:
        """The next change of a run that another server may have (None if it is not active), and its state."""
        changed = peers.change_of(run.id)
        stored = self._newest(run.id, run.owner) or await self._store.summary(run.id, run.owner) or run
        await self._store.local_trace(run.id)
        return changed if stored.state in ("queued", "running") else None, stored

    @contextlib.contextmanager
    def _counted_stream(self, active: ActiveRun | None) -> Iterator[None]:
        """Count a follower; when the last one disconnects, a run that is not detached is cancelled."""
        self._streams += 1
        if active is not None:
            active.followers += 1
        try:
            yield
        finally:
            self._streams -= 1
            if active is not None:
                active.followers -= 1
                if not active.followers and not active.is_detached:
                    active.cancel()

    # --- ending -----------------------------------------------------------------------------------------------

    async def cancel(self, run: RunRecord) -> RunRecord:
        active = self.active(run.id, run.owner)
        if active is None:
            if run.state == "waiting":
                run.state = "cancelled"
                await self._store.keep(run)
            elif self.peers is not None and not run.is_over:
                return await self._cancelled_elsewhere(run, self.peers)
            return run
        active.cancel()
        await active.over.wait()
        return active.run

    async def _cancelled_elsewhere(self, run: RunRecord, peers: Peers) -> RunRecord:
        await peers.queue.cancel(run.id)
        deadline = time.monotonic() + _CANCEL_SECONDS
        while True:
            changed, stored = await self._stored_change(run, peers)
            if changed is None or time.monotonic() > deadline:
                return msgspec.structs.replace(run, state=stored.state)
            await is_set_within(changed, 1.0)

    def keep_held(self, begun: Sequence[ActiveRun], held: Mapping[str, bool]) -> None:
        """End runs that clients cancelled on other servers, and those that another server has taken over."""
        for active in begun:
            if active.run.id not in held:
                active.cancel("interrupted")
            elif held[active.run.id]:
                active.cancel()

    @property
    def known(self) -> Collection[str]:
        return [*self._active, *self._unsaved]

    def has(self, id: str) -> bool:
        return id in self._active

    @property
    def begun(self) -> list[ActiveRun]:
        return [active for active in self._active.values() if active.is_begun]

    def drain(self) -> None:
        """Accept no new runs; interrupt active ones after `drain_seconds`."""
        if not self.is_draining:
            self.is_draining = True
            if self.peers is not None:
                self.peers.is_draining = True
            self._log.write("stopping", runs=len(self._active), drain_seconds=self._settings.drain_seconds)
            asyncio.get_running_loop().call_later(self._settings.drain_seconds, self.interrupt)

    def interrupt(self) -> None:
        for active in list(self._active.values()):
            active.cancel("interrupted")

    async def close(self) -> None:
        self.drain()
        await self.drained()

    async def drained(self) -> None:
        """Wait for the end of every run."""
        while tasks := [active.task for active in self._active.values() if active.task is not None]:
            await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing_recorded(run: RunRecord) -> Continuation | None:
    return None


def _not_found(id: str) -> NoReturn:
    raise Refusal(404, "not_found", f"there is no run {id[:100]!r}")


def _words(answer: Answer) -> str:
    return in_words(Result.of([answer]))[:MAX_ANSWER_CHARS]


def _next_change(active: ActiveRun | None) -> asyncio.Event | None:
    return active.changed if active is not None and not active.over.is_set() else None
