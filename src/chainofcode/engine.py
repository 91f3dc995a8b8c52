"""The loop: Python takes what it can, the emulator takes each pause, and everything that happens is an event."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

from msgspec import structs

from .emulator import Answered, Answering, Emulator, Pause, Tool, Toolbox, as_emulator
from .errors import BudgetError, EmulationError
from .guest.values import Opaque, ValueFormatError, brief, decode, encode
from .lm import Usage
from .program import Program, Use
from .program.kinds import by_name
from .sandbox import File, Job, Limits, Sandbox, Session, opened
from .sandbox.frames import Ended, Failure, Parsed, Paused, Ran, RanStep, Settled
from .trace import Answer, Artifact, Call, Event, Step, Trace


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


class Options(Given, total=False):
    question: str | None


async def execute(
    program: str | Program, emulator: Answering = None, *, sandbox: Sandbox | str = "auto", **options: Unpack[Options]
) -> AsyncIterator[Event]:
    """Run a program to its end: Python takes what it can, the emulator (a model, a table, a function) each pause.

    `program` may be a model's whole reply. Yields the Program, each Step (with the Calls it took), and the Answer.
    `sandbox` is the name of one to make for this program, or one of your own, which starts programs faster.
    """
    log, tools = _Log(options.pop("store", {})), Toolbox.of(options.pop("tools", ()))
    answering = tools.around(as_emulator(emulator))
    job = _job(program, options, tools=tuple(tools.tools), with_state=getattr(answering, "reads_state", False))
    async with (
        opened(sandbox) as place,
        place.start(job) as session,
        _Answers(answering, session, job, log) as answers,
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
                case Settled(pause):
                    for event in log.emulated(*answers.take(pause)):  # in program order
                        yield event
                case Ended():
                    for event in log.ended(signal, session.wall, session.artifacts):
                        yield event


def _job(program: str | Program, options: Any, **more: Any) -> Job:
    known = Options.__optional_keys__
    unknown = options.keys() - known
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}; there are {', '.join(sorted(known))} and sandbox")
    if isinstance(program, Program):
        return Job(program.source, is_reply=False, **more, **options)
    if not isinstance(program, str):
        raise TypeError(f"a program is text or a Program, not {type(program).__name__}")
    return Job(program, **more, **options)


class _Answers:
    """Answers being fetched: begun when the guest pauses, taken when the program has used them."""

    def __init__(self, emulator: Emulator, session: Session, job: Job, log: _Log) -> None:
        self._emulator, self._session, self._job, self._log = emulator, session, job, log
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetched: dict[int, tuple[Paused, Answered, float]] = {}
        self._begun = 0

    async def __aenter__(self) -> _Answers:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, paused: Paused) -> None:
        self._begun += 1
        allowed = self._job.limits.lm_calls
        if self._begun > allowed:
            self._session.end("limit:calls", f"the program asked for over {allowed} calls", *self._log.place(paused))
            return
        task = asyncio.create_task(self._fetch(paused))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, paused: Paused) -> None:
        started = time.monotonic()
        try:
            answered = await self._emulator.answer(self._log.pause(paused, self._job))
            value = _carriable(paused, answered.value)
        except EmulationError as error:
            self._log.lost += error.calls
            self._session.end("emulation failed", str(error), *self._log.place(paused))
        except BudgetError as error:
            self._log.lost += error.calls
            self._session.end(f"limit:{error.which}", str(error), *self._log.place(paused))
        except Exception as error:  # someone else's code: it is the caller's to see, not the task's to keep
            self._session.fail(error)
        except BaseException as error:  # cancelled, by us or by itself; interrupted
            self._session.fail(error)
            raise
        else:
            self._fetched[paused.id] = (paused, replace(answered, value=value), time.monotonic() - started)
            self._session.resume(paused, value, answered.error)

    def take(self, pause: int) -> tuple[Paused, Answered, float]:
        return self._fetched.pop(pause)


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

    def __init__(self, store: dict[str, bytes]) -> None:
        self._program, self._store = Program(""), store
        self._uses: dict[tuple[int | None, str], Use] = {}
        self._steps = 0
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

    def place(self, paused: Paused) -> tuple[int, int]:
        return paused.statement, self._line(paused.statement)

    def pause(self, paused: Paused, job: Job) -> Pause:
        try:
            args = tuple(decode(arg) for arg in paused.args)
            kwargs = {name: decode(value) for name, value in paused.kwargs.items()}
        except ValueFormatError:  # the guest may lie about its values; they are only for the emulator to read
            args, kwargs = (Opaque("unknown", "<unreadable>"),), {}
        use = self._uses.get((paused.statement, paused.name)) or self._uses.get((None, paused.name))
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

    def emulated(self, paused: Paused, answered: Answered, seconds: float) -> list[Event]:
        delta: dict[str, str | None] = {}
        if paused.kind == "statement":
            delta = {name: brief(value) for name, value in decode(answered.value).items()}
        step = Step(
            self._number(),
            answered.by,
            paused.statement,
            self._line(paused.statement),
            delta=delta,
            call=paused.text,
            value=answered.value,
            seconds=seconds,
            error=answered.error,
        )
        return [*answered.calls, step]

    def ended(self, ended: Ended, wall: str, left: Mapping[str, bytes]) -> list[Event]:
        seconds = time.monotonic() - self._started
        answer = Answer(ended.reason, ended.answer, ended.text, ended.source, ended.error, ended.stderr, seconds, wall)
        artifacts = tuple(Artifact(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in left.items())
        self._store.update({artifact.sha256: left[artifact.name] for artifact in artifacts})
        return [*self.lost, structs.replace(answer, artifacts=artifacts, unsent=tuple(ended.unsent))]


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
    settings: dict[str, Any] = {}
    if options.get("policy", "strict") != "strict":
        settings["policy"] = options["policy"]
    settings |= {name: list(options[name]) for name in ("packages", "reads") if options.get(name)}
    settings |= {name: options[name] for name in ("clock", "seed") if name in options}
    if options.get("prelude"):
        settings["files"] = {file.name: file.path for file in options["prelude"]}
    if options.get("scratch"):
        settings["scratch"] = True
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
