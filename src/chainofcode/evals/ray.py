"""Evaluation on a Ray cluster: workers run the samples, and the driver collects the results.

Each worker has its own sandbox and model; one actor enforces the rate limit and the budget for all workers. Samples of
a lost node are run again, and each is counted once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import ray
from ray.exceptions import ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..engine import RunOptions
from ..errors import BudgetError, ChainOfCodeError, LMError
from ..lm import LM, Around, Completion, Message, Usage, connect
from ..lm.wrappers import Batched, Budget, RateLimit
from ..sandbox import Sandbox, open_sandbox
from ..sandbox.ray_guests import joined
from ..trace import Trace
from .runner import EarlyStop, EvalJob, is_cut_short, not_run, run_job, spending
from .samples import Score

_RESTART_SECONDS = 120.0  # for a worker to restart
_MAX_LOSSES = 5  # of one sample: it is then the likely cause


class Plan(msgspec.Struct, frozen=True):
    """The settings of all workers: the names of the model and the sandbox, and the budget that they share."""

    model: str
    sandbox: str = "auto"
    base_url: str | None = None
    at_once: int = 1  # samples in a worker
    in_flight: int = 64  # requests over all workers
    per_minute: int | None = None
    tokens: float | None = None
    dollars: float | None = None
    rows: int | None = None  # calls of one function in one prompt; None: the default of the model
    is_small: bool | None = None  # None: as `connect` decides
    has_images: bool | None = None
    effort: str = ""


class _Counter:
    """Counts requests and their usage, for all workers."""

    def __init__(self, plan: Plan) -> None:
        self._budget, self._rate = Budget(tokens=plan.tokens, dollars=plan.dollars), RateLimit(plan.per_minute)
        self._slots, self._held = asyncio.Semaphore(plan.in_flight), Counter[int]()

    async def begin(self, worker: int) -> str:
        """Wait for a turn; return which budget is spent, if any."""
        await self._slots.acquire()
        if spent := self._budget.exceeded():  # by requests that were sent in the meantime
            self._slots.release()
            return spent
        self._held[worker] += 1
        await self._rate.wait()
        return ""

    async def end(self, worker: int, used: bytes) -> None:
        self._budget.spent += msgspec.msgpack.decode(used, type=Usage)
        if self._held[worker] > 0:
            self._held[worker] -= 1
            self._slots.release()

    async def lose(self, worker: int) -> None:
        """Release the slots of a worker that is gone."""
        for _ in range(self._held.pop(worker, 0)):
            self._slots.release()


class _Counted(Around):
    """A model whose requests are counted in one place."""

    def __init__(self, lm: LM, counter: Any, worker: int) -> None:
        super().__init__(lm)
        self._counter, self._worker = counter, worker

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        turn = asyncio.ensure_future(self._counter.begin.remote(self._worker))
        try:
            spent = await asyncio.shield(turn)
        except asyncio.CancelledError:  # the turn is still granted, and must be given back
            turn.add_done_callback(self._give_back)
            raise
        if spent:
            raise BudgetError(spent, f"the budget of {'dollars' if spent == 'money' else spent} is spent")
        used = Usage()
        try:
            replies = await self._lm.complete(messages, **options)
            for reply in replies:
                used += reply.usage
            return replies
        finally:
            await self._counter.end.remote(self._worker, msgspec.msgpack.encode(used))

    def _give_back(self, turn: asyncio.Future[str]) -> None:
        if not turn.cancelled() and turn.exception() is None and not turn.result():
            self._counter.end.remote(self._worker, msgspec.msgpack.encode(Usage()))


class _Worker:
    """Runs samples on one machine, in a sandbox of its own."""

    def __init__(self, plan: Plan, number: int) -> None:
        self._plan, self._number = plan, number
        self._lm: LM | None = None
        self._sandbox: Sandbox | None = None

    async def run(
        self, job: EvalJob, options: RunOptions, counter: Any, api_key: str | None
    ) -> tuple[bytes, list[str], str]:
        """Return the score, the lines of the trace, and the error of the model, if any.

        The key is passed with each sample, because Ray stores the arguments of an actor's constructor.
        """
        try:
            lm, sandbox = self._opened(counter, api_key)
        except ChainOfCodeError as failure:
            return msgspec.msgpack.encode(not_run(job, failure)), [], str(failure)
        score, trace, error = await run_job(job, lm, sandbox, options)
        failed = str(error) if isinstance(error, LMError) else ""
        return msgspec.msgpack.encode(score), list(trace.lines()) if trace is not None else [], failed

    def _opened(self, counter: Any, api_key: str | None) -> tuple[LM, Sandbox]:
        if self._lm is None or self._sandbox is None:
            plan = self._plan
            lm = connect(
                plan.model,
                base_url=plan.base_url,
                api_key=api_key,
                is_small=plan.is_small,
                has_images=plan.has_images,
                effort=plan.effort,
            )
            counted = _Counted(lm, counter, self._number)
            self._lm = Batched(counted, plan.rows) if plan.rows else counted
            self._sandbox = open_sandbox(plan.sandbox, spares=1)
        return self._lm, self._sandbox


def run_on_ray(
    jobs: Sequence[EvalJob],
    plan: Plan,
    options: RunOptions,
    *,
    address: str | None = None,
    workers: int | None = None,
    api_key: str | None = None,
) -> Iterator[tuple[Score, Trace | None]]:
    """Yield scores and traces as the cluster at `address` returns them (None: only this machine).

    Raises LMError if the model replies to none of the first few samples, and BudgetError when a budget is spent.
    """
    with joined(address):
        cluster: Any = ray
        count = workers or max(1, int(cluster.cluster_resources().get("CPU", 1)))
        remote: Any = ray.remote
        here = NodeAffinitySchedulingStrategy(cluster.get_runtime_context().get_node_id(), soft=False)
        counter = remote(num_cpus=0, scheduling_strategy=here)(_Counter).remote(plan)  # not on a node that may be lost
        kind = remote(num_cpus=1, max_restarts=-1, max_concurrency=plan.at_once)(_Worker)
        crew = [kind.remote(plan, number) for number in range(count)]
        yield from _Driver(jobs, (options, counter, api_key), crew, plan.at_once).results()


class _Driver:
    """Sends samples to workers, collects the results, and sends lost samples again."""

    def __init__(
        self, jobs: Sequence[EvalJob], run_args: tuple[RunOptions, Any, str | None], workers: list[Any], at_once: int
    ) -> None:
        self._todo, self._run_args, self._workers = deque(jobs), run_args, workers
        self._idle = deque(place for place in range(len(workers)) for _ in range(at_once))
        self._counter = run_args[1]
        self._open: dict[Any, tuple[EvalJob, int]] = {}
        self._losses, self._early_stop = Counter[tuple[str, str]](), EarlyStop()
        self._last_result_at = time.monotonic()

    def results(self) -> Iterator[tuple[Score, Trace | None]]:
        spent: Score | None = None
        while self._todo or self._open:
            self._assign()
            done, _ = ray.wait(list(self._open), num_returns=1)
            for score, trace in filter(None, map(self._result, done)):
                if is_cut_short(score):
                    self._todo.clear()
                    spent = score
                else:
                    yield score, trace
        if spent is not None:
            raise spending(spent)

    def _assign(self) -> None:
        while self._todo and self._idle:
            job, place = self._todo.popleft(), self._idle.popleft()
            self._open[self._workers[place].run.remote(job, *self._run_args)] = (job, place)

    def _result(self, reference: Any) -> tuple[Score, Trace | None] | None:
        """Return the result of a worker; None if the sample will be run again."""
        job, place = self._open.pop(reference)
        self._idle.append(place)
        try:
            encoded, lines, failed = ray.get(reference)
        except RayError as error:  # the node or the worker was lost
            self._counter.lose.remote(place)
            lost = self._lose(job, error)
            return None if lost is None else (lost, None)
        self._last_result_at = time.monotonic()
        self._early_stop.note(LMError(failed) if failed else None)
        trace = Trace.parse([line.encode() for line in lines], is_own=True) if lines else None
        return msgspec.msgpack.decode(encoded, type=Score), trace

    def _lose(self, job: EvalJob, error: Exception) -> Score | None:
        """Queue a lost sample again; if it was lost several times, return a score with the error.

        A restarting worker loses the samples that it is given. These losses do not count while other results arrive.
        """
        is_restarting = isinstance(error, ActorUnavailableError)
        if is_restarting and time.monotonic() - self._last_result_at < _RESTART_SECONDS:
            self._todo.append(job)
            time.sleep(0.5)
            return None
        self._losses[job.key] += 1
        if self._losses[job.key] >= _MAX_LOSSES:
            return not_run(job, LMError(f"lost with its worker {_MAX_LOSSES} times: {str(error)[:300]}"))
        self._todo.append(job)  # at the end: the cluster may need time to recover
        time.sleep(0.1)
        return None
