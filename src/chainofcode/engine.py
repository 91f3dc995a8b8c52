"""The loop: Python takes what it can, the emulator takes each pause, and everything that happens is an event."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

import msgspec
from msgspec import structs

from .emulator import Answered, Answering, Emulator, Pause, Tool, Toolbox, as_emulator
from .errors import BudgetError, EmulationError
from .languages.python.compiler.kinds import by_name
from .lm import Usage
from .lookahead import Lookahead
from .markup import as_html
from .program import Program, Use
from .sandbox import File, Job, Limits, Sandbox, Session, opened
from .sandbox.frames import Ended, Failure, Lineage, Parsed, Paused, Ran, RanStep, Settled
from .trace import Answer, Artifact, Call, Event, Settings, Step, Trace
from .values.codec import Opaque, ValueFormatError, brief, decode, encode

_MAX_FORESEEN = 10_000  # calls that a shadow reported and the program has not made yet


class Given(TypedDict, total=False):
    """What a program is given beyond its text and the question; see `Job` for the defaults."""

    inputs: Mapping[str, Any]
    policy: Literal["strict", "paper"]
    packages: Sequence[str]
    reads: Sequence[str]
    prelude: Sequence[File]
    scratch: bool
    clock: float
    seed: int
    limits: Limits
    tools: Toolbox | Sequence[Callable[..., Any] | Tool]
    store: dict[str, bytes]  # where artifacts are put, by their SHA-256
    in_flight: int  # how many calls may be under way at once, if not as many as the emulator says; 1: one by one
    lineages: list[Lineage | None]  # where what came from what is put; the run is followed then, one call at a time
    share: bool  # whether the same call made again has the same value (else it is asked for again)


class Options(Given, total=False):
    question: str | None


async def execute(
    program: str | Program, emulator: Answering = None, *, sandbox: Sandbox | str = "auto", **options: Unpack[Options]
) -> AsyncIterator[Event]:
    """Run a program to its end: Python takes what it can, the emulator (a model, a table, a function) each pause.

    `program` may be a model's whole reply. Yields the Program, each Step (with the Calls it took), and the Answer.
    `sandbox` is the name of one to make for this program, or one of your own, which starts programs faster.
    """
    log, tools = _Log(options.pop("store", {}), options.pop("lineages", None)), Toolbox.of(options.pop("tools", ()))
    share, answering = options.pop("share", True), tools.around(as_emulator(emulator))
    options.setdefault("in_flight", getattr(answering, "in_flight", 1))
    if getattr(answering, "is_ordered", False) or log.is_followed:  # what it says depends on who asks first
        options["in_flight"] = 1
    more = {"with_state": getattr(answering, "reads_state", False), "is_recorded": log.is_followed}
    job = job_of(program, options, tools=tuple(tools.tools), **more)
    async with (
        opened(sandbox) as place,
        place.start(job) as session,
        _Answers(answering, place, session, job, log, share) as answers,
    ):
        async for signal in session:
            match signal:
                case Parsed(parsed):
                    yield log.open(parsed)
                case Ran(steps):
                    for step in steps:
                        yield log.python(step)
                case Paused():
                    answers.begin(signal)  # a task of its own: several may be open
                case Settled():
                    for event in log.emulated(signal, answers.take(signal)):  # in program order
                        yield event
                case Ended():
                    log.wasted(await answers.close())
                    for event in log.ended(signal, session.wall, session.artifacts):
                        yield event


def job_of(program: str | Program, options: Any, **more: Any) -> Job:
    """Return the sandbox job for a program."""
    known = Options.__optional_keys__
    unknown = options.keys() - known
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}; there are {', '.join(sorted(known))} and sandbox")
    if isinstance(program, Program):
        return Job(program.source, is_reply=False, **more, **options)
    if not isinstance(program, str):
        raise TypeError(f"a program is text or a Program, not {type(program).__name__}")
    return Job(program, **more, **options)


@dataclass(eq=False)
class _Fetch:
    """One request for a value, by the program or its shadow: a task, then its answer or failure."""

    asked: Paused
    is_foreseen: bool = False
    paused: Paused | None = None  # the program's own pause, once it makes the call
    task: asyncio.Task[None] | None = None
    answered: Answered | None = None
    is_once: bool = False
    failure: Callable[[int], None] | None = None  # called with the statement when the program makes the call
    seconds: float = 0.0
    uses: int = 0


class _Answers:
    """The requests of a run: begun when the program or its shadow makes a call, taken when the program uses the value.

    A failed request matters only if the program makes that call.
    """

    def __init__(
        self, emulator: Emulator, place: Sandbox, session: Session, job: Job, log: _Log, share: bool
    ) -> None:  # fmt: skip
        self._emulator, self._session, self._job, self._log, self._share = emulator, session, job, log, share
        # Without a sandbox, the side effects of a shadow would reach the host.
        may_look = job.in_flight > 1 and session.wall != "none"
        self._lookahead = Lookahead(place, job, session, self) if may_look else None
        self._gathers: bool = getattr(emulator, "gathers", False)
        self._fetches: dict[int, _Fetch] = {}  # by the number of the program's pause
        self._foreseen: dict[bytes, _Fetch] = {}  # calls that the program has not made yet
        self._by_shadow: dict[int, _Fetch] = {}  # the same, by the shadow's pause number
        self._keys: set[bytes] = set()  # of all calls requested
        self._queue: deque[_Fetch] = deque()
        self._free, self._begun, self._is_closing = job.in_flight, 0, False

    async def __aenter__(self) -> _Answers:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> list[_Fetch]:
        """Cancel requests in flight and send no more. Returns those sent ahead that the program did not use."""
        self._is_closing = True
        if self._lookahead is not None:
            await self._lookahead.close()
        tasks = [fetch.task for fetch in (*self._fetches.values(), *self._foreseen.values()) if fetch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [fetch for fetch in self._foreseen.values() if fetch.task is not None]

    def begin(self, paused: Paused) -> None:
        """Handle a pause of the program, at a call or a statement."""
        key = self._key(paused)
        fetch = self._foreseen.pop(key, None)
        if fetch is None:
            fetch = _Fetch(paused)
        self._keys.add(key)
        self._fetches[paused.id] = fetch
        fetch.paused = paused
        if self._lookahead is not None:
            self._lookahead.reach(is_foreseen=fetch.is_foreseen)
        if len(self._fetches) > self._job.limits.lm_calls:
            self._lose_to_limit(fetch)
        elif fetch.answered is not None:
            self._resume(fetch, paused)
        elif fetch.failure is not None:
            fetch.failure(paused.statement)
        elif fetch.task is None:
            with contextlib.suppress(ValueError):
                self._queue.remove(fetch)
            self._queue.appendleft(fetch)
            self.pump()

    def _key(self, paused: Paused) -> bytes:
        """Return the key of a call, the same for the program and its shadow; it includes the expected type."""
        if self._lookahead is None or paused.known_by is None:
            return b""
        use = self._log.use(paused)
        expected = [use.type, use.spec] if use is not None else []
        return msgspec.json.encode([paused.text, paused.args, paused.kwargs, paused.known_by, expected])

    # --- calls that the shadow reports --------------------------------------------------------------------------

    def foresee(self, paused: Paused) -> bool:
        key = self._key(paused)
        self._by_shadow.pop(paused.id, None)  # an earlier shadow may have used this number
        if key in self._foreseen:
            self._by_shadow[paused.id] = self._foreseen[key]
        is_call = paused.kind == "call" and paused.name not in self._job.tools  # do not trust the shadow
        if not key or key in self._keys or not is_call or len(self._foreseen) >= _MAX_FORESEEN:
            return False
        self._keys.add(key)
        fetch = self._foreseen[key] = self._by_shadow[paused.id] = _Fetch(paused, is_foreseen=True)
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
        while self._queue and self._free > 0 and not self._is_closing:
            fetch = self._queue.popleft()
            if fetch.paused is None and self._begun >= self._job.limits.lm_calls:
                continue  # the program's own calls are counted in `begin`
            self._begun += 1
            self._free -= 1
            fetch.task = asyncio.create_task(self._fetch(fetch))

    async def _fetch(self, fetch: _Fetch) -> None:
        started = time.monotonic()
        try:
            answered = await self._emulator.answer(self._log.pause(fetch.asked, self._job))
            value = _carriable(fetch.asked, answered.value)
        except (EmulationError, BudgetError) as error:
            self._log.lost += error.calls
            reason = "emulation failed" if isinstance(error, EmulationError) else f"limit:{error.which}"
            self._lose(fetch, reason, str(error))
        except Exception as error:  # someone else's code: it is the caller's to see, not the task's to keep
            self._fail(fetch, functools.partial(self._raise, error))
        except BaseException as error:  # cancelled, by us or by itself; interrupted
            if not self._is_closing:
                self._fail(fetch, functools.partial(self._raise, error))
            raise
        else:
            fetch.seconds = time.monotonic() - started
            fetch.is_once = answered.is_once or not self._share or answered.by == "tool"
            fetch.answered = replace(answered, value=value)
            self._learn(fetch)
            if fetch.paused is not None:
                self._resume(fetch, fetch.paused)
        finally:
            self._free += 1
            self.pump()
            if self._lookahead is not None:
                self._lookahead.end(fetch.asked if fetch.is_foreseen else None)

    def _learn(self, fetch: _Fetch) -> None:
        answered = fetch.answered
        if self._lookahead is not None and answered is not None:
            reply = {"value": answered.value, "once": fetch.is_once or fetch.asked.known_by is None}
            failed = {"error": answered.error, "raised": answered.raised} if answered.error else {}
            self._lookahead.learn(fetch.asked, {**reply, **failed})

    def _resume(self, fetch: _Fetch, paused: Paused) -> None:
        answered = fetch.answered
        if answered is not None:
            self._session.resume(paused, answered.value, answered.error, answered.raised, is_once=fetch.is_once)

    def _raise(self, error: BaseException, statement: int) -> None:
        self._session.fail(error)

    def _lose(self, fetch: _Fetch, reason: str, message: str) -> None:
        def end(statement: int) -> None:
            self._session.end(reason, message, *self._log.place(statement))

        self._fail(fetch, end)

    def _lose_to_limit(self, fetch: _Fetch) -> None:
        self._lose(fetch, "limit:calls", f"the program made over {self._job.limits.lm_calls} calls")

    def _fail(self, fetch: _Fetch, failure: Callable[[int], None]) -> None:
        fetch.failure = failure
        if fetch.paused is not None:
            failure(fetch.paused.statement)

    def take(self, settled: Settled) -> _Fetch:
        fetch = self._fetches[settled.id]
        fetch.uses += 1
        return fetch


def _carriable(paused: Paused, value: Any) -> Any:
    """A value as the guest can take it: of the value language, and for a statement a delta of names it may set."""
    if paused.kind == "statement":
        if not isinstance(value, Mapping):
            raise EmulationError(f"the statement {paused.text} needs a mapping of names to values, not {value!r}")
        foreign = [name for name in value if name not in paused.names]
        if foreign:
            allowed = ", ".join(paused.names) or "nothing"
            raise EmulationError(f"the statement {paused.text} cannot set {foreign[0]!r}; it may set {allowed}")
        value = dict(value)

    def refuse(part: object) -> str:
        raise EmulationError(f"the value of {paused.text} holds a {type(part).__name__}, which no frame can carry")

    return encode(value, brief=refuse)


class _Log:
    """Numbers the steps and puts what the guest says into words of the trace."""

    def __init__(self, store: dict[str, bytes], lineages: list[Lineage | None] | None) -> None:
        self._program, self._store, self._lineages = Program(""), store, lineages
        self.is_followed = lineages is not None
        self._uses: dict[tuple[int | None, str], Use] = {}
        self._steps = self._wasted = 0
        self.lost: tuple[Call, ...] = ()  # requests that brought no value
        self._started = time.monotonic()

    def open(self, program: Program) -> Program:
        self._program = program
        for use in program.uses:
            self._uses[use.statement, use.name] = self._uses[None, use.name] = use
        return program

    def _number(self) -> int:
        self._steps += 1
        return self._steps

    def _line(self, statement: int) -> int:
        return self._program.statements[statement].line if statement < len(self._program.statements) else 0

    def place(self, statement: int) -> tuple[int, int]:
        return statement, self._line(statement)

    def use(self, paused: Paused) -> Use | None:
        """Return what the analysis knows about the called hole."""
        return self._uses.get((paused.statement, paused.name)) or self._uses.get((None, paused.name))

    def pause(self, paused: Paused, job: Job) -> Pause:
        try:
            args = tuple(decode(arg) for arg in paused.args)
            kwargs = {name: decode(value) for name, value in paused.kwargs.items()}
        except ValueFormatError:  # the guest may lie about its values; they are only for the emulator to read
            args, kwargs = (Opaque("unknown", "<unreadable>"),), {}
        use = self.use(paused)
        is_declared = use is not None and use.spec is not None and use.spec < len(self._program.statements)
        return Pause(
            "statement" if paused.kind == "statement" else "call",
            paused.text,
            paused.name,
            args,
            kwargs,
            tuple(paused.names),
            self._line(paused.statement),
            paused.error,
            self._program,
            job.question,
            use.type if use is not None else by_name(paused.name),
            self._program.text(use.spec) if is_declared else "",  # type: ignore[union-attr, arg-type]
            paused.state,
        )

    def python(self, ran: RanStep) -> Step:
        line = self._line(ran.statement)
        number = self._number()
        return Step(number, "python", ran.statement, line, ran.visit, ran.delta, ran.outcome, ran.output)

    def emulated(self, settled: Settled, fetch: _Fetch) -> list[Event]:
        asked, answered = fetch.asked, fetch.answered
        if answered is None:  # the session lets none settle that it did not resume
            raise AssertionError(f"pause {settled.id} has no answer")
        delta: dict[str, str | None] = {}
        if asked.kind == "statement":
            delta = {name: brief(value) for name, value in decode(answered.value).items()}
        is_first = fetch.uses == 1
        how: Literal["ahead", "shared", "batched", ""] = "shared"
        if is_first:
            how = "batched" if answered.is_batched else "ahead" if fetch.is_foreseen else ""
        step = Step(
            self._number(),
            answered.by,
            settled.statement,
            self._line(settled.statement),
            delta=delta,
            call=asked.text,
            value=answered.value,
            seconds=fetch.seconds if is_first else 0.0,
            error=answered.error,
            raised=answered.raised,
            how=how,
        )
        return [*answered.calls, step] if is_first else [step]

    def wasted(self, fetches: Sequence[_Fetch]) -> None:
        """Calls that were sent ahead and that the program never got to: paid for, all the same."""
        self._wasted += len(fetches)
        self.lost += tuple(call for fetch in fetches if fetch.answered for call in fetch.answered.calls)

    def ended(self, ended: Ended, wall: str, left: Mapping[str, bytes]) -> list[Event]:
        if self._lineages is not None:
            self._lineages.append(ended.lineage)
        seconds = time.monotonic() - self._started
        answer = Answer(ended.reason, ended.answer, ended.text, ended.source, ended.error, ended.stderr, seconds, wall)
        artifacts = tuple(Artifact(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in left.items())
        self._store.update({artifact.sha256: left[artifact.name] for artifact in artifacts})
        more: dict[str, Any] = {"artifacts": artifacts, "unsent": tuple(ended.unsent), "wasted": self._wasted}
        return [*self.lost, structs.replace(answer, **more)]


@dataclass(frozen=True, repr=False)
class Result:
    """What came of a run. `answer` is the value (an Opaque where it could not leave the guest), None without one."""

    trace: Trace
    reason: str
    usage: Usage
    answer: Any = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)  # files that the program left in its scratch directory

    @property
    def error(self) -> Failure | None:
        """Why there is no answer: what happened, and on which line."""
        return self.trace.answer.error if self.trace.answer is not None else None

    def __repr__(self) -> str:
        told = f"answer={brief(self.answer)}" if self.error is None else f"error={self.error.message!r}"
        return f"<Result {self.reason}: {told}, {len(self.trace.steps)} steps, {self.trace.lm_calls} LM calls>"

    def _repr_html_(self) -> str:  # what a notebook shows
        return as_html(self.trace)

    @classmethod
    def of(cls, trace: Trace, store: Mapping[str, bytes] | None = None) -> Result:
        ended = trace.answer or Answer("guest died")
        try:
            value = decode(ended.value)
        except ValueFormatError:
            value = Opaque("unknown", ended.text)
        kept = {file.name: store[file.sha256] for file in ended.artifacts if store and file.sha256 in store}
        return cls(trace, ended.reason, trace.usage, value, kept)


def new_trace(options: Options) -> Trace:
    """An empty trace that remembers what the program was given."""
    settings = msgspec.to_builtins(Settings.of(options, Toolbox.of(options.get("tools", ())).tools))
    return Trace(options.get("question"), options.get("inputs", {}), settings)


async def arun(
    program: str | Program, emulator: Answering = None, *, sandbox: Sandbox | str = "auto", **options: Unpack[Options]
) -> Result:
    """Run a program to its end and keep the trace."""
    trace, store = new_trace(options), options.setdefault("store", {})
    async for event in execute(program, emulator, sandbox=sandbox, **options):
        trace.events.append(event)
    return Result.of(trace, store)


def run(
    program: str | Program, emulator: Answering = None, *, sandbox: Sandbox | str = "auto", **options: Unpack[Options]
) -> Result:
    """`arun` for code that is not async."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("run() cannot be used inside a running event loop: await arun() instead")
    return asyncio.run(arun(program, emulator, sandbox=sandbox, **options))
