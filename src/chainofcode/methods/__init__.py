"""Methods: ways to answer a question. A method takes an `Inquiry` and yields events."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypedDict, Unpack

import msgspec

from ..emulator import Answering, Judging
from ..emulator.accounting import accounted
from ..emulator.value_cache import Layer
from ..engine import Result, RunKeywords, RunOptions
from ..engine.blocking import blocking
from ..engine.closing import close_after
from ..errors import BudgetError, InputError
from ..lm import LM, as_lm
from ..sandbox import Sandbox
from ..trace import Answer, Event
from .answers import AnswerType, answer_type_of
from .baselines import cot, direct
from .code import first_of, interweave, programmed, read_by_lm, run_by_lm, run_in_python
from .composition import Doubts, judged, ladder, skipped_with_files, timed, typed, voted
from .input_files import Files, files_of
from .prompting import Inquiry, Method, Shown, failed
from .react import react

_RUNNERS = {
    "coc": interweave,
    "coc-python": run_in_python,
    "coc-lm": read_by_lm,
    "coc-lm-state": run_by_lm,
    "coc-try-lm": first_of(run_in_python, read_by_lm, "coc-lm"),
    "coc-try-lm-state": first_of(run_in_python, run_by_lm, "coc-lm-state"),
}
_WITHOUT_PROGRAM = {"direct": direct, "cot": cot, "react": react}
METHODS = {
    "coc": "Chain of Code: Python runs what it can, the model answers calls to undefined functions",
    "coc-python": "Python alone (PAL, Program of Thoughts): an undefined function is an error",
    "coc-lm": "the model reads its program and states the answer; nothing is run",
    "coc-lm-state": "the model runs its program by writing down every state (ScratchPad)",
    "coc-try-lm": "Python runs the whole program; if it fails, coc-lm takes over",
    "coc-try-lm-state": "Python runs the whole program; if it fails, coc-lm-state takes over",
    "cot": "Chain of Thought: reasons in words, then states the answer",
    "direct": "states the answer without reasoning",
    "react": "alternates thoughts and code, with persistent state",
}
LABELS = {  # the names of the methods on the web page
    "coc": "Code and judgement",
    "coc-python": "Code only",
    "coc-lm": "Code, read by the model",
    "coc-lm-state": "Code, simulated by the model",
    "coc-try-lm": "Code, else read by the model",
    "coc-try-lm-state": "Code, else simulated by the model",
    "cot": "Reasoning in words",
    "direct": "Direct answer",
    "react": "Code in small steps",
}
_JUDGES = ("cot", "direct")  # the methods that vote on an answer by judgement
LADDER = ("coc", "coc-lm-state", "cot", "direct")


def compose(
    method: str = "coc",
    *,
    repairs: int = 0,
    critique: bool = False,
    fallback: bool = False,
    votes: int = 1,
    doubts: Doubts | None = None,
    seconds: float | None = None,
) -> Method:
    """Return a method by name, with these options.

    - `repairs`: how many times a failed program goes back to the model
    - `critique`: whether the model reviews a run before the answer counts
    - `fallback`: whether other methods are tried if there is no answer, and vote on answers by judgement
    - `votes`: how many times to run all of this; the most frequent answer wins
    - `doubts`: finds reasons not to trust a vote, such as `chainofcode.audit.doubts`; the vote then counts half
    - `seconds`: the time limit of each method; after a method that exceeds it, only the quickest one is tried
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r} (expected one of: {', '.join(METHODS)})")

    def method_of(name: str) -> Method:
        if name in _WITHOUT_PROGRAM:
            return typed(_WITHOUT_PROGRAM[name])
        if name != method:  # a fallback: repairs did not help
            return skipped_with_files(name, programmed(_RUNNERS[name]))
        return programmed(_RUNNERS[name], repairs=max(repairs, critique), critique=critique)

    def limited(name: str, rung: Method) -> Method:
        return rung if seconds is None else timed(name, rung, seconds)

    whole = method_of(method)
    if fallback and method in _RUNNERS:
        whole = judged(whole, {name: method_of(name) for name in _JUDGES})
    if fallback:
        below = LADDER[LADDER.index(method) + 1 :] if method in LADDER else LADDER[-2:]
        rungs = {method: whole, **{name: method_of(name) for name in below}}
        whole = ladder({name: limited(name, rung) for name, rung in rungs.items()})
    else:
        whole = limited(method, whole)
    return voted(whole, votes, doubts) if votes > 1 else whole


async def ask(
    question: str,
    lm: LM,
    *,
    emulator: Answering = None,
    cache: Layer | None = None,
    method: str | Method = "coc",
    shots: int | None = None,
    examples: Shown | None = None,
    seen: Iterable[tuple[str, Any]] = (),
    value_votes: int = 1,
    think: bool = False,
    answer_type: Any = None,
    database: str | None = None,
    files: Files | Iterable[str | os.PathLike[str]] = (),
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> AsyncIterator[Event]:
    """Answer a question, as a stream of events: the trace's Header first, the Answer last.

    - `lm`: the model that writes the program
    - `emulator`: answers calls of undefined functions: a model, a `Cascade`, a mapping, or a function (None: `lm`)
    - `cache`: keeps the values of models for later runs, such as a `ValueCache`
    - `method`: a name of METHODS, or the result of `compose`
    - `shots`: how many examples the model sees (None: all)
    - `examples`: your own examples instead: pairs of question and reply, a string of `Question: …` lines and replies,
      separated by empty lines, or a mapping of prompts (`program`, `cot`, `direct`) to examples
    - `seen`: calls with values, as examples of emulation
    - `value_votes`: how often to request each value; the majority counts
    - `think`: whether the model gives its reasons before a value that it is unsure of
    - `answer_type`: the type of the answer: a name such as `int`, `choice:A,B` or `sql` (the rows, if `database` names
      a file), a Python type, a dataclass, a Struct, a Pydantic model or a JSON schema
    - `files`: granted for reading; the program finds each as a variable
    - `sandbox`, `options` and the other options are those of `execute`
    """
    started = time.monotonic()
    whole = typed(compose(method) if isinstance(method, str) else method)
    wanted = answer_type_of(answer_type, database, sandbox)
    chosen = RunOptions.of(options, given, question)
    found = await files_of(files, chosen, sandbox)
    chosen = found.granted(chosen)
    yield chosen.header()
    model = accounted(as_lm(lm) if cache is None else cache.model(lm))
    inquiry = Inquiry(
        question=question,
        lm=model,
        emulating=as_lm(lm) if emulator is None else emulator,  # its requests have their own keys and records
        cache=cache,
        shots=shots,
        examples=examples,
        judging=Judging(votes=value_votes, seen=tuple(seen), thinks=think),
        sandbox=sandbox,
        options=chosen,
        answer_type=wanted,
        files=found,
    )
    try:
        async with close_after(whole(inquiry)) as events:
            async for event in events:
                if isinstance(event, Answer):  # requests that a time limit cancelled
                    for call in model.abandoned():
                        yield call
                yield _with_total(event, started)
    except BudgetError as error:
        yield _with_total(failed(error.reason, str(error)), started)
    except asyncio.CancelledError:
        for call in model.abandoned():
            yield call
        raise


def _with_total(event: Event, started: float) -> Event:
    """Return the last answer with the duration of the whole run; other events unchanged."""
    if not isinstance(event, Answer) or event.then:
        return event
    return msgspec.structs.replace(event, total_seconds=time.monotonic() - started)


class Ways(TypedDict, total=False):
    """The options of `ask` about how the question is answered."""

    emulator: Answering
    cache: Layer | None
    method: str | Method
    shots: int | None
    examples: Shown | None
    seen: Iterable[tuple[str, Any]]
    value_votes: int
    think: bool
    answer_type: Any
    database: str | None
    files: Files | Iterable[str | os.PathLike[str]]


class AskKeywords(Ways, RunKeywords, total=False):
    """All keyword arguments of `ask`."""

    sandbox: Sandbox | str
    options: RunOptions | None


async def asolve(question: str, lm: LM, **given: Unpack[AskKeywords]) -> Result:
    """Answer a question and return the result with its trace; the options are those of `ask`."""
    wanted = answer_type_of(given.get("answer_type"), given.pop("database", None), given.get("sandbox", "auto"))
    given["answer_type"] = wanted
    result = Result.of([event async for event in ask(question, lm, **given)])
    if wanted is None or not result.is_answered:
        return result
    return dataclasses.replace(result, answer=wanted.convert(result.answer))


def solve(question: str, lm: LM, **given: Unpack[AskKeywords]) -> Result:
    """Answer a question and return the result with its trace; in async code, use `asolve`.

    The options are those of `ask`.
    """
    return blocking(asolve(question, lm, **given))


__all__ = [
    "LABELS",
    "LADDER",
    "METHODS",
    "AnswerType",
    "Files",
    "Inquiry",
    "Method",
    "Ways",
    "answer_type_of",
    "ask",
    "asolve",
    "compose",
    "files_of",
    "solve",
]
