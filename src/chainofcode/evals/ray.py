"""An evaluation on many machines: samples go to workers of a Ray cluster, results come back to one place.

Each worker has a sandbox and a model of its own; how fast a model is asked, and what it may use, is counted in one
place for all of them. Samples of a node that is lost are run again; each counts once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..engine import Given
from ..errors import BudgetError, InputError
from ..lm import LM, Completion, Message, Usage, connect
from ..sandbox import Sandbox, open_sandbox
from ..trace import Trace
from .runner import Job, run_jobs
from .samples import Score

_MAX_LOSSES = 5  # of one sample: whoever ends five workers is to blame itself


class Plan(msgspec.Struct, frozen=True):
    """What every worker is told: the model by name, the sandbox by name, what may be used in all."""

    model: str
    sandbox: str = "auto"
    base_url: str | None = None
    at_once: int = 1  # samples in a worker
    in_flight: int = 64  # requests over all workers
    per_minute: int | None = None
    tokens: float | None = None
    dollars: float | None = None


class _Counter:
    """Counts requests and what they used, for all workers."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._begun, self._spent = plan, deque[float](), Usage()
        self._slots = asyncio.Semaphore(plan.in_flight)

    async def begin(self) -> str:
        """Wait for a turn; gives what is spent, if something is."""
        if self._plan.tokens is not None:
            used = self._spent.prompt_tokens + self._spent.completion_tokens
            if used >= self._plan.tokens:
                return "tokens"
        if self._plan.dollars is not None and (self._spent.dollars or 0.0) >= self._plan.dollars:
            return "money"
        await self._slots.acquire()
        while self._plan.per_minute is not None:
            now = time.monotonic()
            while self._begun and self._begun[0] <= now - 60:
                self._begun.popleft()
            if len(self._begun) < self._plan.per_minute:
                self._begun.append(now)
                break
            await asyncio.sleep(self._begun[0] + 60 - now)
        return ""

    async def end(self, used: bytes) -> None:
        self._slots.release()
        self._spent += msgspec.msgpack.decode(used, type=Usage)


class _Counted:
    """A model whose requests are counted in one place."""

    def __init__(self, lm: LM, counter: Any) -> None:
        self._lm, self._counter, self.name = lm, counter, lm.name
        self.in_flight: int = getattr(lm, "in_flight", 1)
        self.rows: int = getattr(lm, "rows", 1)

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        spent = await self._counter.begin.remote()
        if spent:
            raise BudgetError(spent, f"the budget of {'dollars' if spent == 'money' else spent} is spent")
        used = Usage()
        try:
            replies = await self._lm.complete(messages, **options)
            for reply in replies:
                used += reply.usage
            return replies
        finally:
            await self._counter.end.remote(msgspec.msgpack.encode(used))


class _Worker:
    """Runs samples on one machine, in a sandbox of its own."""

    def __init__(self, plan: Plan, counter: Any) -> None:
        self._plan, self._counter = plan, counter
        self._lm: LM | None = None
        self._sandbox: Sandbox | None = None

    async def run(self, job: Job, given: Given) -> tuple[bytes, list[str]]:
        if self._lm is None or self._sandbox is None:
            self._lm = _Counted(connect(self._plan.model, base_url=self._plan.base_url), self._counter)
            self._sandbox = open_sandbox(self._plan.sandbox, spares=1)
        async for score, trace in run_jobs([job], self._lm, self._sandbox, given):
            return msgspec.msgpack.encode(score), list(trace.lines()) if trace is not None else []
        raise AssertionError("a job has a result")


def run_on_ray(
    jobs: Sequence[Job], plan: Plan, given: Given, *, address: str | None = None, workers: int | None = None
) -> Iterator[tuple[Score, Trace | None]]:
    """Scores and traces, as they come back from the cluster at `address` (None: this machine alone)."""
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        except (ConnectionError, RayError, ValueError) as error:
            raise InputError(f"there is no Ray cluster at {address}: {error}") from None
    try:
        cluster: Any = ray
        count = workers or max(1, int(cluster.cluster_resources().get("CPU", 1)))
        remote: Any = ray.remote
        here = NodeAffinitySchedulingStrategy(cluster.get_runtime_context().get_node_id(), soft=False)
        counter = remote(num_cpus=0, scheduling_strategy=here)(_Counter).remote(plan)  # not on a node that may be lost
        kind = remote(num_cpus=1, max_restarts=-1, max_concurrency=plan.at_once)(_Worker)
        yield from _Driver(jobs, given, [kind.remote(plan, counter) for _ in range(count)], plan.at_once).results()
    finally:
        if is_ours:
            ray.shutdown()


class _Driver:
    """Hands out samples, takes results back, hands out again what was lost."""

    def __init__(self, jobs: Sequence[Job], given: Given, workers: list[Any], at_once: int) -> None:
        self._todo, self._given, self._workers, self._at_once = deque(jobs), given, workers, at_once
        self._open: dict[Any, tuple[Job, int]] = {}
        self._losses: dict[tuple[str, str, int], int] = {}

    def results(self) -> Iterator[tuple[Score, Trace | None]]:
        idle = deque(place for place in range(len(self._workers)) for _ in range(self._at_once))
        while self._todo or self._open:
            while self._todo and idle:
                job, place = self._todo.popleft(), idle.popleft()
                self._open[self._workers[place].run.remote(job, self._given)] = (job, place)
            done, _ = ray.wait(list(self._open), num_returns=1)
            for reference in done:
                job, place = self._open.pop(reference)
                idle.append(place)
                try:
                    score, lines = ray.get(reference)
                except RayError as error:  # the node is gone, or the worker
                    self._lose(job, error)
                else:
                    trace = Trace.parse([line.encode() for line in lines]) if lines else None
                    yield msgspec.msgpack.decode(score, type=Score), trace

    def _lose(self, job: Job, error: Exception) -> None:
        lost = self._losses[job.key] = self._losses.get(job.key, 0) + 1
        if lost >= _MAX_LOSSES:
            raise InputError(f"{job.sample.id} was lost {lost} times with its worker: {str(error)[:300]}")
        self._todo.append(job)  # at the end: the cluster may need a while
        time.sleep(0.1)
