"""Runs: kept before they are acknowledged, taken in turn, followed by whoever asks, and ended in every case.

A run's trace file is the one place its events are: who follows a run reads it, and is woken when it has grown.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from ..audit import parted
from ..engine import Result
from ..errors import ChainOfCodeError
from ..lm import Usage
from ..methods.presentation import in_words
from ..reasons import Reason
from ..render import cut
from ..sandbox import Sandbox
from ..trace import Answer, Call, Event, Produced, Returned, Sent, as_json
from .metrics import Log, Metrics
from .quotas import Ledger, Metered
from .run_kinds import Job, Models, Workshop
from .settings import Refusal, Terms
from .spans import Spans
from .store import NotKept, Run, State, Store, TraceFile, TraceReader

KEEP_SECONDS = 15.0
_STILL_SECONDS = 0.02  # calls that come and go faster than this are not told: who looks would not see them
MAX_ANSWER_CHARS = 1_000_000
_MAX_VALUE_BYTES = 20_000  # of an answer as data; the trace has it whole
_MAX_WAITING, _MAX_CALL_CHARS = 64, 300
Told = tuple[int | None, str, bytes]  # number, kind, data: an event as those who follow a run hear of it


class Live:
    """A run that is not over."""

    def __init__(self, run: Run, job: Job, sandbox: Sandbox, *, detach: bool) -> None:
        self.run, self.job, self.is_detached = run, job, detach
        self.sandbox = sandbox
        self._sent: dict[int, Sent] = {}  # calls that are under way
        self.task: asyncio.Task[None] | None = None
        self.store: dict[str, bytes] = {}
        self.file: TraceFile | None = None
        self.usage, self.answer = Usage(), Answer(Reason.INTERRUPTED)
        self.ends_as: State = "cancelled"  # if it is cancelled
        self.is_begun = self.is_over = False
        self.followers = 0
        self.changed, self.over = asyncio.Event(), asyncio.Event()

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """The calls that are under way, as the page shows them."""
        calls = itertools.islice(self._sent.values(), _MAX_WAITING)
        return [
            {"id": call.id, "line": call.line, "statement": call.statement, "text": cut(call.call, _MAX_CALL_CHARS)}
            for call in calls
        ]

    def note(self, event: Event) -> None:
        """Keep what the server needs to know of an event."""
        match event:
            case Sent():
                self._sent[event.id] = event
            case Returned():
                self._sent.pop(event.id, None)
            case Produced():
                self.store |= event.files
            case Call():
                self.usage += event.usage
            case Answer():
                self.answer = event
                self._sent.clear()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def cancel(self, ends_as: State = "cancelled") -> None:
        if not self.is_over:
            self.ends_as = ends_as
            self.is_over = True  # from here on it only ends
            if self.task is not None and self.is_begun:  # one that never began would not get to its end, either
                self.task.cancel()


class Runs:
    """All runs of a server; close it at the end."""

    def __init__(
        self,
        terms: Terms,
        store: Store,
        sandbox: Sandbox,
        models: Models,
        ledger: Ledger,
        metrics: Metrics,
        log: Log,
        spans: Spans,
    ) -> None:
        self._spans = spans
        self._terms, self._store, self.sandbox, self._models = terms, store, sandbox, models
        self._ledger, self._metrics, self._log = ledger, metrics, log
        self._lives: dict[str, Live] = {}
        self._unkept: dict[str, Run] = {}  # over, but the disk did not take it
        self.slots = asyncio.Semaphore(terms.runs)
        self.is_draining = False
        self._streams = 0
        metrics.gauges["coc_runs_running"] = lambda: sum(live.run.state == "running" for live in self._lives.values())
        metrics.gauges["coc_runs_queued"] = lambda: sum(live.run.state == "queued" for live in self._lives.values())
        metrics.gauges["coc_streams"] = lambda: self._streams

    # --- starting ---------------------------------------------------------------------------------------------

    async def submit(self, run: Run, job: Job, *, detach: bool = True) -> Live:
        """Keep a run and have it carried out; raises Refusal where there is no room for it."""
        self.check_room()
        live = self._lives[run.id] = Live(run, job, self.sandbox, detach=detach)
        try:
            await self._store.keep(run)
        except asyncio.CancelledError:  # whoever asked is gone, but what was asked is on its way to the disk
            live.cancel()
            live.task = asyncio.create_task(self._carry_out(live))
            raise
        except BaseException:
            del self._lives[run.id]
            raise
        self._log.say("run queued", {"question": run.question}, run=run.id, method=run.method, model=run.model)
        live.task = asyncio.create_task(self._carry_out(live))
        return live

    def check_room(self) -> None:
        if self.is_draining:
            raise Refusal(503, "stopping", "the server is about to stop", retry_seconds=self._terms.drain_seconds)
        if len(self._lives) >= self._terms.runs + self._terms.queue:
            raise Refusal(429, "busy", "too many runs are under way or waiting", retry_seconds=5)

    # --- carrying out -----------------------------------------------------------------------------------------

    async def _carry_out(self, live: Live) -> None:
        run, started = live.run, time.monotonic()
        live.is_begun = True
        try:
            if live.is_over:
                raise asyncio.CancelledError
            async with self.slots:
                run.state, started = "running", time.monotonic()
                live.wake()
                asked = [("user", run.question)] if run.question else []
                with self._spans.begun("invoke_agent", run.method, run.model, asked) as span:
                    span.tell({"gen_ai.agent.name": run.method, "coc.run.id": run.id})
                    await self._work(live)
                    span.usage(live.usage.prompt_tokens, live.usage.completion_tokens)
                    span.tell({"coc.run.reason": live.answer.reason})
                    span.content("gen_ai.output.messages", [("assistant", live.answer.text)])
            state: State = "done"
        except asyncio.CancelledError:
            state = live.ends_as
        except ChainOfCodeError as error:
            state, run.error = "failed", {"type": error.code, "message": self._store.without_paths(str(error))[:2000]}
        except NotKept as error:
            state, run.error = "failed", {"type": error.kind, "message": error.message}
        except Exception as error:  # a served run: whatever it is, the others go on
            self._log.say("run broke", {"error": str(error)}, run=run.id, error_type=type(error).__name__)
            state, run.error = "failed", {"type": "internal", "message": "something went wrong on the server"}
        live.is_over = True
        run.seconds = round(time.monotonic() - started, 6)
        await self._end(live, state)

    async def _work(self, live: Live) -> None:
        workshop = Workshop(live.sandbox, lambda name: self._metered(name, live.run.owner))
        async with contextlib.aclosing(live.job(workshop)) as events:  # type: ignore[type-var]
            async for event in events:
                if not isinstance(event, (Sent, Returned, Produced)):
                    live.file = live.file or TraceFile(self._store.trace_path(live.run.id))
                    live.file.append(event)
                live.note(event)
                live.wake()

    def _metered(self, name: str, owner: str) -> Metered:
        return Metered(self._models[name], owner, self._ledger, self._metrics, self._spans)

    async def _end(self, live: Live, state: State) -> None:
        run = live.run
        run.usage = msgspec.to_builtins(live.usage)
        if state == "done":
            run.reason, answer = live.answer.reason, live.answer
            if answer.is_answered:
                run.answer = in_words(Result.of([answer]))[:MAX_ANSWER_CHARS]
                run.value = answer.value if len(as_json(answer.value)) <= _MAX_VALUE_BYTES else None
            elif answer.error is not None:
                run.error = {"type": answer.error.type, "message": answer.error.message, "line": answer.error.line}
            run.artifacts = msgspec.to_builtins(answer.artifacts)
        try:
            if live.store:
                await self._store.keep_artifacts(run.id, live.store)
            await self._store.keep(msgspec.structs.replace(run, state=state), live.file)
            run.state = state
        except Exception as error:  # the disk is full, perhaps: those who wait are told in any case
            if live.file is not None:
                live.file.close()
            self._log.say("run not kept", run=run.id, error_type=type(error).__name__)
            run.state, run.error = "failed", {"type": "storage", "message": "the run could not be kept"}
            self._unkept[run.id] = run
        self._metrics.add("coc_runs_total", method=run.method, state=run.state)
        self._metrics.observe("coc_run_seconds", run.seconds or 0.0)
        said = {"question": run.question, "answer": run.answer}
        self._log.say("run over", said, run=run.id, state=run.state, reason=run.reason, seconds=run.seconds)
        self._lives.pop(run.id, None)
        live.over.set()
        live.wake()

    # --- looking ----------------------------------------------------------------------------------------------

    def live(self, id: str, owner: str) -> Live | None:
        live = self._lives.get(id)
        return live if live is not None and live.run.owner == owner else None

    async def find(self, id: str, owner: str) -> Run:
        run = self._newest(id, owner) or await self._store.run(id, owner)
        if run is None:
            raise Refusal(404, "not_found", f"there is no run {id[:100]!r}")
        return run

    def _newest(self, id: str, owner: str) -> Run | None:
        """A run of which the store does not know everything yet."""
        run = self._lives[id].run if id in self._lives else self._unkept.get(id)
        return run if run is not None and run.owner == owner else None

    async def listed(self, owner: str, limit: int, before: str | None, words: Sequence[str] = ()) -> list[Run]:
        kept = await self._store.runs(owner, limit, before, words)
        return [self._newest(run.id, owner) or run for run in kept]

    async def remove(self, run: Run) -> None:
        """A run that is over."""
        unkept = self._unkept.pop(run.id, None)  # or it would be kept later on
        try:
            await self._store.remove([run.id])
        except NotKept:
            if unkept is not None:
                self._unkept[run.id] = unkept
            raise

    async def flush(self) -> None:
        """Try again to keep what could not be kept."""
        while self._unkept:  # it may be removed meanwhile
            run = next(iter(self._unkept.values()))
            await self._store.keep(run)
            self._unkept.pop(run.id, None)

    async def follow(self, run: Run, after: int = -1) -> AsyncGenerator[list[Told], None]:
        """The events of a run from one on, together what came together; `keep` where nothing comes; `end` is last."""
        live, number, told = self.live(run.id, run.owner), 0, b"[]"
        reader = TraceReader(self._store.trace_path(run.id))
        self._streams += 1
        if live is not None:
            live.followers += 1
        try:
            while True:
                is_over, changed = live is None or live.over.is_set(), live.changed if live is not None else None
                lines = reader.some()
                more: list[Told] = [
                    (n, _kind(line), parted(line)[0]) for n, line in enumerate(lines, number) if n > after
                ]
                number += len(lines)
                if more:
                    yield more
                if lines:
                    await asyncio.sleep(0)  # a long trace is not the only one
                    continue
                if is_over or live is None or changed is None:
                    break
                waiting = as_json(live.waiting)
                try:
                    async with asyncio.timeout(KEEP_SECONDS if waiting == told else _STILL_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    is_new, told = waiting != told, waiting
                    yield [(None, "waiting", b'{"calls":%s}' % waiting) if is_new else (None, "keep", b"")]
            state = live.run.state if live is not None else run.state
            yield [(number, "end", msgspec.json.encode({"state": state}))]
        finally:
            self._streams -= 1
            reader.close()
            if live is not None:
                live.followers -= 1
                if not live.followers and not live.is_detached:
                    live.cancel()  # nobody is left who would read it

    # --- ending -----------------------------------------------------------------------------------------------

    async def cancel(self, run: Run) -> Run:
        live = self.live(run.id, run.owner)
        if live is None:
            return run
        live.cancel()
        await live.over.wait()
        return live.run

    def drain(self) -> None:
        """No new runs; those there are may go on for a while."""
        if not self.is_draining:
            self.is_draining = True
            self._log.say("stopping", runs=len(self._lives), drain_seconds=self._terms.drain_seconds)
            asyncio.get_running_loop().call_later(self._terms.drain_seconds, self.interrupt)

    def interrupt(self) -> None:
        for live in list(self._lives.values()):
            live.cancel("interrupted")

    async def close(self) -> None:
        """Wait until every run is over."""
        self.drain()
        while tasks := [live.task for live in self._lives.values() if live.task is not None]:
            await asyncio.gather(*tasks, return_exceptions=True)


def _kind(line: bytes) -> str:
    """The event of a line: its first member."""
    return line[10 : line.index(b'"', 10)].decode() if line.startswith(b'{"event":"') else "step"


def new_run(owner: str, question: str | None, method: str, model: str | None, **more: Any) -> Run:
    """A run as it is before it begins; nobody can guess its id."""
    created = round(time.time(), 3)
    return Run(secrets.token_hex(12), "queued", question, method, model, created, owner=owner, **more)


__all__ = ["KEEP_SECONDS", "Live", "Runs", "Told", "new_run"]
