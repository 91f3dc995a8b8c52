"""The kinds of runs: a question for a model, a program with values, a replay. Each turns a request into events.

Requests are untrusted. They can name models and methods that the server offers and files that were uploaded; they
cannot name paths, tools or grants.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..audit import Changes, areplay, call_and_value, runs_of
from ..audit.replay.resume import Resumed
from ..emulator import Emulator, First, Table, asking
from ..emulator.person import Asked, AskMe
from ..emulator.tools import Tool
from ..engine import RunOptions, execute
from ..engine.closing import close_after
from ..errors import InputError
from ..lm import LM, Around, Completion, Message, connect
from ..lm.reply_stream import OnText
from ..methods import METHODS, AnswerType, answer_type_of, ask, compose, files_of
from ..methods.isolated import Worker, in_thread
from ..methods.prompting import Inquiry
from ..sandbox import Sandbox
from ..sandbox.job import TaggedInputs
from ..trace import Event, Produced, Trace
from ..values.codec import ValueFormatError, decode, encode
from . import patterns
from .fair_share import FairSlots
from .metrics import ServerLog
from .model_states import ModelStates
from .refusal import Refusal, invalid
from .settings import MAX_QUESTION_CHARS, ServerSettings

T = TypeVar("T")
_REPAIRS = 2
_MAX_FILES = 16
_CHECK_SECONDS = 10.0  # between checks of the model; readiness probes come more often
_MAX_VALUES = 10_000
_MAX_CHANGES_CHARS = 20_000  # in all: finding the value in a change takes quadratic time


class RunRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/runs: a question, or a program with values for its calls.

    Values from clients stay JSON until they are checked: decoding hostile ones can take long.
    """

    question: str | None = None
    method: str = "coc"
    model: str | None = None
    type: str | None = None
    files: list[str] = []
    inputs: dict[str, msgspec.Raw] = {}
    program: str | None = None
    values: list[dict[str, msgspec.Raw] | str] = []  # {"call": …, "value": …}, or CALL=VALUE with a Python literal
    detach: bool = True
    ask_me: str | None = None  # functions whose calls a person answers: approve_.*|confirm


class ResumeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/runs/ID/resume."""

    model: str | None = None  # for the rest of the run; None: the same as before


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/runs/ID/replay."""

    set: list[str] = []
    edit: str | None = None
    model: str | None = None  # answers calls that the trace has no value for


@dataclass
class RunContext:
    """What a run uses: the sandbox, models by name, the worker that inspects files, and a way to ask a person.

    `resumed` is the recorded part of a resumed run; `on_text` gets the program while the model writes it.
    """

    sandbox: Sandbox
    lm: Callable[[str], LM]
    inspect: Worker
    asked: Asked
    resumed: Resumed | None = None
    on_text: OnText = lambda text: None

    def options(self, options: RunOptions) -> RunOptions:
        if self.resumed is None:
            return options
        return dataclasses.replace(options, tools=dataclasses.replace(options.toolbox, recall=self.resumed.recall))

    def writer(self, lm: LM) -> LM:
        """The model that writes programs: recorded replies are reused, not paid for again."""
        lm = _StreamedLM(lm, self.on_text) if lm.has_stream else lm
        return lm if self.resumed is None else self.resumed.model(lm)

    def layer(self, request: RunRequest) -> AskMe | None:
        return AskMe(request.ask_me, self.asked) if request.ask_me is not None else None


EventSource = Callable[[RunContext], AsyncIterator[Event]]


def deferred(make: Callable[[], Awaitable[EventSource]]) -> EventSource:
    """Make the source when the run's turn comes: until then neither its values nor a trace are in memory."""

    async def events(context: RunContext) -> AsyncIterator[Event]:
        source = await make()
        async with close_after(source(context)) as made:
            async for event in made:
                yield event

    return events


class _StreamedLM(Around):
    """A model whose replies are shown while it writes them."""

    def __init__(self, lm: LM, on_text: OnText) -> None:
        super().__init__(lm)
        self._on_text = on_text

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **{**options, "on_text": self._on_text})


class SharedLM(Around):
    """A model for one owner: its requests take turns with those of other owners."""

    def __init__(
        self, lm: LM, owner: str, slots: FairSlots, request: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__(lm)
        self._owner, self._slots, self._request = owner, slots, request
        self.in_flight = min(self.in_flight, slots.total)

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        async with self._slots.taken(self._owner):
            with self._request():
                return await self._lm.complete(messages, **options)


class Models:
    """The models that the server offers: one connection each, and one limit on concurrent requests for all owners."""

    def __init__(self, names: Sequence[str], requests: int, owners: Collection[str] = ()) -> None:
        self.names, self.states = tuple(names), ModelStates()
        self._problem, self._checked = "", -math.inf
        self._raw = {name: connect(name, progress=self.states.progress(name)) for name in self.names}
        self._slots = {name: FairSlots(requests, owners) for name in self.names}

    def shared(self, name: str, owner: str) -> LM:
        return SharedLM(self._raw[name], owner, self._slots[name], functools.partial(self.states.request, name))

    async def prepare(self, log: ServerLog) -> None:
        """Get the default model ready to write programs. Other models load on their first request."""
        name, lm = next(iter(self._raw.items()))
        await self.states.prepare(name, lm, Inquiry("", lm).shown("program"), log)

    def named(self, name: str | None) -> str:
        """The full name of a model: None stands for the first model, a provider's name for its first model."""
        if name is None:
            return self.names[0]
        for known in self.names:
            if name in (known, known.partition(":")[0]):
                return known
        known = ", ".join(self.names)[:500]
        raise Refusal(404, "model_not_found", f"unknown model {name[:200]!r} (expected one of: {known})", param="model")

    async def problem(self) -> str:
        """Why requests to the first model would fail or wait now; empty if no reason is known.

        The result of a check is reused for a few seconds.
        """
        if not self.names:
            return ""
        first = self.names[0]
        if time.monotonic() > self._checked + _CHECK_SECONDS:
            self._problem = await _problem_of(self._raw[first])
            self._checked = time.monotonic()
        return "; ".join(filter(None, (self._problem, self.states.problem(first))))

    def close(self) -> None:
        for lm in self._raw.values():
            lm.close()


async def _problem_of(lm: LM) -> str:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await lm.problem()
    except TimeoutError:
        return f"{lm.name} could not be checked within {_CHECK_SECONDS:g} seconds"
    except Exception as error:  # of a provider in another package
        return f"{lm.name} could not be checked: {type(error).__name__}: {error}"


def check_counts(request: RunRequest) -> None:
    """Raise Refusal for requests with too many parts."""
    for name, most in (("files", _MAX_FILES), ("values", _MAX_VALUES)):
        if len(getattr(request, name)) > most:
            raise invalid(f"a run can have at most {most:,} {name}")


def source_of(
    request: RunRequest,
    paths: Sequence[Path],
    settings: ServerSettings,
    *,
    model: str | None,
    schema: Mapping[str, Any] | None = None,
    tools: Sequence[Tool] = (),
) -> EventSource:
    """Check a request and return its event source. `schema` is a JSON schema for the answer, `tools` are functions that
    the program may call. Raises Refusal."""
    if request.method not in METHODS:
        known = ", ".join(METHODS)
        raise invalid(f"unknown method {request.method[:100]!r} (expected one of: {known})")
    if len(request.question or "") > MAX_QUESTION_CHARS:
        raise invalid(f"a question can have at most {MAX_QUESTION_CHARS:,} characters")
    _check_ask_me(request.ask_me)
    options = dataclasses.replace(_options(request, settings), tools=tools)
    if request.program is not None:
        return _program_source(request, paths, options, model)
    if request.values:
        raise invalid("values need a program: a question is answered by a model")
    if not patterns.fits(patterns.SAYS_SOMETHING, request.question or ""):
        raise invalid("a run needs a question or a program")
    answer_type = _answer_type(request.type) if schema is None else schema
    return _question_source(request, paths, options, model=model or "", answer_type=answer_type)


def _check_ask_me(pattern: str | None) -> None:
    """Raise Refusal for a pattern outside a simple subset: matching other regular expressions could take forever."""
    if pattern is None:
        return
    if len(pattern) > patterns.MAX_ASK_ME_CHARS or not patterns.fits(patterns.ASK_ME, pattern):
        shown = f"not {pattern[:100]!r}"
        raise invalid(f"ask_me must be names of functions or prefixes, as in approve_.*|confirm, {shown}", "ask_me")


def _options(request: RunRequest, settings: ServerSettings) -> RunOptions:
    try:
        inputs = {name: decode(msgspec.json.decode(value)) for name, value in request.inputs.items()}
    except (ValueFormatError, msgspec.DecodeError, RecursionError) as error:
        raise invalid(f"inputs: {error}") from None
    for name in inputs:
        if not patterns.is_variable(name):
            raise invalid(f"an input must have the name of a variable, not {name[:100]!r}")
    return RunOptions(
        question=request.question,
        inputs=_with_tags(inputs),
        packages=settings.packages,
        scratch=settings.has_scratch,
        limits=settings.limits,
    )


def _with_tags(inputs: dict[str, Any]) -> dict[str, Any]:
    try:
        return TaggedInputs(inputs)
    except InputError:  # the run says so when it sends them to its program
        return inputs


def _answer_type(text: str | None) -> AnswerType | None:
    """An answer type by name. The path of a schema, which the CLI accepts, is refused."""
    if text is None:
        return None
    if len(text) > patterns.MAX_TYPE_CHARS or not patterns.fits(patterns.TYPE, text):
        raise invalid(f"unknown type {text[:100]!r} (expected one such as int, list[str], json or choice:A,B)")
    try:
        return answer_type_of(text)
    except (InputError, RecursionError) as error:
        raise invalid(str(error)) from None


def _question_source(
    request: RunRequest,
    paths: Sequence[Path],
    options: RunOptions,
    *,
    model: str,
    answer_type: AnswerType | Mapping[str, Any] | None,
) -> EventSource:
    question = (request.question or "").strip()
    method = compose(request.method, repairs=_REPAIRS, fallback=True)

    async def answer(context: RunContext) -> AsyncIterator[Event]:
        kind = answer_type
        if isinstance(answer_type, Mapping):  # checking a schema is slow
            kind = await in_thread(answer_type_of, answer_type)
        lm = context.lm(model)
        events = ask(
            question,
            context.writer(lm),
            emulator=lm,
            cache=context.layer(request),
            method=method,
            answer_type=kind,
            files=await files_of(paths, options, context.sandbox, context.inspect),
            sandbox=context.sandbox,
            options=context.options(options),
        )
        async with close_after(events) as made:
            async for event in made:
                yield event

    return answer


def _program_source(request: RunRequest, paths: Sequence[Path], options: RunOptions, model: str | None) -> EventSource:
    if request.type is not None or request.method != "coc":
        raise invalid("a program cannot have a method or a type: they are for questions")
    program = request.program or ""
    try:
        table = Table.of_records(_records(request.values), "values")
    except (InputError, msgspec.DecodeError, RecursionError) as error:
        raise invalid(str(error)) from None

    async def run(context: RunContext) -> AsyncIterator[Event]:
        granted = (await files_of(paths, options, context.sandbox, context.inspect)).granted(options)
        others: Emulator | None = asking(context.lm(model)) if model is not None else None
        layer = context.layer(request)
        if layer is not None:
            others = layer.emulator(others if others is not None else Table([]))
        emulator = First(table, others) if others is not None else table
        events = execute(program, emulator, sandbox=context.sandbox, options=context.options(granted))
        async with close_after(events) as made:
            async for event in made:
                yield event

    return run


def _records(values: Sequence[dict[str, msgspec.Raw] | str]) -> list[dict[str, Any]]:
    """Values, given as JSON objects or all as text that a person typed."""
    typed = [value for value in values if isinstance(value, str)]
    if not typed:
        objects = [value for value in values if not isinstance(value, str)]
        return [{name: msgspec.json.decode(part) for name, part in value.items()} for value in objects]
    if len(typed) < len(values) or len(typed) > patterns.MAX_TYPED:
        raise InputError(f"values must all be objects, or all be strings (at most {patterns.MAX_TYPED})")
    return [_typed_record(value) for value in typed]


def _typed_record(text: str) -> dict[str, Any]:
    if len(text) > patterns.MAX_TYPED_CHARS or not patterns.fits(patterns.CALL_AND_VALUE, text):
        raise InputError(f"a value must be CALL=VALUE, with a Python literal (text in quotes), not {text[:300]!r}")
    call, value = call_and_value(text)
    return {"call": call, "value": encode(value)}


def replay_of(trace: Trace, request: ReplayRequest, model: str | None) -> EventSource:
    """A replay of a trace, perhaps with changes. Raises Refusal for changes that do not apply to it."""
    _check_changes(request.set)
    try:
        changes = Changes.parse(request.set, trace) if request.set else None
        runs = runs_of(trace)
        if not runs:
            raise InputError("the run cannot be replayed: none of its programs was run")
        if changes is not None:
            changes.check_steps(runs[-1].steps)
    except (InputError, RecursionError) as error:
        raise Refusal(409, "does_not_fit", str(error)) from None

    async def run(context: RunContext) -> AsyncIterator[Event]:
        emulator = asking(context.lm(model)) if model is not None else None
        done = await areplay(trace, changes=changes, program=request.edit, emulator=emulator, sandbox=context.sandbox)
        yield done.trace.header
        yield Produced(dict(done.artifacts or {}))
        for event in done.trace.events:
            yield event

    return run


def _check_changes(changes: Sequence[str]) -> None:
    is_long = sum(map(len, changes)) > _MAX_CHANGES_CHARS or len(changes) > patterns.MAX_CHANGES
    if is_long or any(len(change) > patterns.MAX_CHANGE_CHARS for change in changes):
        raise invalid(f"the changes are too many or too long (at most {_MAX_CHANGES_CHARS:,} characters in all)")
    for change in changes:
        if not patterns.fits(patterns.CHANGE, change):
            raise invalid(f"a change must be CALL=VALUE, step:NUMBER=VALUE or NAME=VALUE, not {change[:100]!r}")


def decoded(data: bytes, kind: type[T]) -> T:
    """Decode a request body. Raises Refusal."""
    try:
        data.decode()  # msgspec does not check `Raw` parts
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"invalid request body: {str(error)[:300]}") from None
