"""What a run does: a question to a model, a program with its values, a trace again. From what was sent to events.

What is sent comes from anywhere. It can name models and methods that are offered and files that were uploaded; no path,
no tool, no grant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..audit import Changes, areplay, call_and_value, runs_of
from ..emulator import Emulator, First, Table, asking
from ..engine import RunOptions, execute
from ..errors import InputError
from ..lm import LM, connect
from ..lm.wrappers import Limited
from ..methods import METHODS, AnswerType, answer_type_of, ask, compose, files_of
from ..sandbox import Sandbox
from ..trace import Event, Produced, Trace
from ..values.codec import ValueFormatError, decode, encode
from . import patterns
from .settings import MAX_QUESTION_CHARS, Refusal, Terms

_REPAIRS = 2
_MAX_FILES = 16
_MAX_VALUES = 10_000
_MAX_CHANGES_CHARS = 20_000  # in all: looking for the value in a change may take as long as the square of it


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/runs: a question, or a program with values for its calls."""

    question: str | None = None
    method: str = "coc"
    model: str | None = None
    type: str | None = None
    files: list[str] = []
    inputs: dict[str, Any] = {}
    program: str | None = None
    values: list[dict[str, Any] | str] = []  # {"call": …, "value": …}, or CALL=VALUE with a Python literal
    detach: bool = True


class Again(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/runs/ID/replay."""

    set: list[str] = []
    edit: str | None = None


@dataclass
class Workshop:
    """What a run works with: the sandbox, its models, and where files that programs leave are put."""

    sandbox: Sandbox
    lm: Callable[[str], LM]


Job = Callable[[Workshop], AsyncIterator[Event]]


class Models:
    """The models that are offered, one connection each, asked for so many things at once."""

    def __init__(self, names: Sequence[str], requests: int) -> None:
        self.names = tuple(names)
        self._raw = {name: connect(name) for name in self.names}
        self._lms: dict[str, LM] = {name: Limited(lm, in_flight=requests) for name, lm in self._raw.items()}

    def __getitem__(self, name: str) -> LM:
        return self._lms[name]

    def named(self, name: str | None) -> str:
        """The full name of an offered model: None is the first, `local` the first one of that provider."""
        if name is None:
            return self.names[0]
        for known in self.names:
            if name in (known, known.partition(":")[0]):
                return known
        known = ", ".join(self.names)[:500]
        raise Refusal(404, "model_not_found", f"there is no model {name[:200]!r} here; there is {known}", param="model")

    def close(self) -> None:
        for lm in self._raw.values():
            lm.close()


def check_counts(request: Request) -> None:
    """Raises Refusal for more than anybody should look through."""
    for name, most in (("files", _MAX_FILES), ("values", _MAX_VALUES)):
        if len(getattr(request, name)) > most:
            raise Refusal(400, "invalid_request", f"a run takes {most:,} {name} at most")


def job_of(
    request: Request, paths: Sequence[Path], terms: Terms, model: str | None, schema: Mapping[str, Any] | None = None
) -> Job:
    """Raises Refusal for what cannot be done, before anything is begun."""
    if request.method not in METHODS:
        known = ", ".join(METHODS)
        raise Refusal(400, "invalid_request", f"there is no method {request.method[:100]!r}; there are {known}")
    if len(request.question or "") > MAX_QUESTION_CHARS:
        raise Refusal(400, "invalid_request", f"a question has {MAX_QUESTION_CHARS:,} characters at most")
    options = _options(request, terms)
    if request.program is not None:
        return _programmed(request, paths, options, model)
    if request.values:
        raise Refusal(400, "invalid_request", "values go with a program: a question is answered by a model")
    question = request.question or ""
    if not patterns.fits(patterns.SAYS_SOMETHING, question):
        raise Refusal(400, "invalid_request", "a run needs a question or a program")
    wanted = _wanted(request.type) if schema is None else schema
    return _asked(question.strip(), request.method, model or "", wanted, paths, options=options)


def _options(request: Request, terms: Terms) -> RunOptions:
    try:
        inputs = {name: decode(value) for name, value in request.inputs.items()}
    except (ValueFormatError, RecursionError) as error:
        raise Refusal(400, "invalid_request", f"inputs: {error}") from None
    for name in inputs:
        if not patterns.is_variable(name):
            raise Refusal(400, "invalid_request", f"an input is a variable: {name[:100]!r} cannot be one")
    return RunOptions(
        question=request.question,
        inputs=inputs,
        packages=terms.packages,
        scratch=terms.has_scratch,
        limits=terms.limits,
    )


def _wanted(text: str | None) -> AnswerType | None:
    """An answer type by its text alone: one that is a path would have us read a file here."""
    if text is None:
        return None
    if len(text) > patterns.MAX_TYPE_CHARS or not patterns.fits(patterns.TYPE, text):
        raise Refusal(400, "invalid_request", "a type is int, list[str], json, choice:A,B and the like")
    try:
        return answer_type_of(text)
    except (InputError, RecursionError) as error:
        raise Refusal(400, "invalid_request", str(error).replace(" and SCHEMA.json", "")) from None


def _asked(
    question: str,
    method: str,
    model: str,
    wanted: AnswerType | Mapping[str, Any] | None,
    paths: Sequence[Path],
    *,
    options: RunOptions,
) -> Job:
    whole = compose(method, repairs=_REPAIRS, fallback=True)

    async def answer(workshop: Workshop) -> AsyncIterator[Event]:
        kind = wanted
        if isinstance(wanted, Mapping):  # whether a schema is one takes a moment to tell
            kind = await asyncio.to_thread(answer_type_of, wanted)
        events = ask(
            question,
            workshop.lm(model),
            method=whole,
            answer_type=kind,
            files=paths,
            sandbox=workshop.sandbox,
            options=options,
        )
        async for event in events:
            yield event

    return answer


def _programmed(request: Request, paths: Sequence[Path], options: RunOptions, model: str | None) -> Job:
    if request.type is not None or request.method != "coc":
        raise Refusal(400, "invalid_request", "a program takes no method and no type: those are for questions")
    program = request.program or ""
    try:
        table = Table.of_records(_records(request.values), "values")
    except (InputError, RecursionError) as error:
        raise Refusal(400, "invalid_request", str(error)) from None

    async def run(workshop: Workshop) -> AsyncIterator[Event]:
        granted = (await files_of(paths, options, workshop.sandbox)).granted(options)
        emulator: Emulator = table if model is None else First(table, asking(workshop.lm(model)))
        async for event in execute(program, emulator, sandbox=workshop.sandbox, options=granted):
            yield event

    return run


def _records(values: Sequence[dict[str, Any] | str]) -> list[dict[str, Any]]:
    """Values as JSON has them, or all as a person types them."""
    records = [value for value in values if not isinstance(value, str)]
    typed = [value for value in values if isinstance(value, str)]
    if typed and (records or len(typed) > patterns.MAX_TYPED):
        raise InputError(f"values are objects, or {patterns.MAX_TYPED} texts at most")
    for value in typed:
        if len(value) > patterns.MAX_TYPED_CHARS or not patterns.fits(patterns.CALL_AND_VALUE, value):
            raise InputError(f"a value is CALL=VALUE, with a Python literal (text in quotes); not {value[:300]!r}")
        call, given = call_and_value(value)
        records.append({"call": call, "value": encode(given)})
    return records


def replay_of(trace: Trace, again: Again) -> Job:
    """A trace run again, as it was or with changes. Raises Refusal for changes that say nothing to it."""
    is_long = sum(map(len, again.set)) > _MAX_CHANGES_CHARS or len(again.set) > patterns.MAX_CHANGES
    if is_long or any(len(change) > patterns.MAX_CHANGE_CHARS for change in again.set):
        raise Refusal(400, "invalid_request", f"changes have {_MAX_CHANGES_CHARS:,} characters at most")
    if not all(patterns.fits(patterns.CHANGE, change) for change in again.set):
        raise Refusal(400, "invalid_request", "a change is CALL=VALUE, step:NUMBER=VALUE or NAME=VALUE")
    try:
        changes = Changes.parse(again.set, trace) if again.set else None
        runs = runs_of(trace)
        if not runs:
            raise InputError("the run has nothing to run again: no program of it was run")
        if changes is not None:
            changes.check_steps(runs[-1].steps)
    except (InputError, RecursionError) as error:
        raise Refusal(409, "does_not_fit", str(error)) from None

    async def run(workshop: Workshop) -> AsyncIterator[Event]:
        done = await areplay(trace, changes=changes, program=again.edit, sandbox=workshop.sandbox)
        yield done.trace.header
        yield Produced(dict(done.artifacts or {}))
        for event in done.trace.events:
            yield event

    return run


def decoded(data: bytes, kind: type[Any]) -> Any:
    """A body as what it must be. Raises Refusal."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "invalid_request", f"the body is not as it should be: {error}") from None


__all__ = ["Again", "Job", "Models", "Request", "Workshop", "check_counts", "decoded", "job_of", "replay_of"]
