"""Methods: ways to answer a question. A method is an async generator of events."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypedDict, Unpack

from ..engine import Result, RunKeywords, RunOptions
from ..errors import BudgetError, InputError
from ..lm import LM, as_lm
from ..sandbox import Sandbox
from ..trace import Event
from .answers import AnswerType, answer_type_of
from .baselines import cot, direct
from .code import first_of, interweave, programmed, read_by_lm, run_by_lm, run_in_python
from .composition import ladder, typed, voted
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
    "coc": "Chain of Code: Python runs what it can, the model answers calls nobody defined",
    "coc-python": "Python alone (PAL, Program of Thoughts): a call nobody defined is a failure",
    "coc-lm": "the model reads its program and states the answer; nothing is run",
    "coc-lm-state": "the model runs its program by writing down every state (ScratchPad)",
    "coc-try-lm": "Python runs the whole program; if it cannot, as coc-lm",
    "coc-try-lm-state": "Python runs the whole program; if it cannot, as coc-lm-state",
    "cot": "Chain of Thought: reasons in words, then states the answer",
    "direct": "states the answer at once",
    "react": "thoughts and code by turns, over one state that persists",
}
LADDER = ("coc", "coc-lm-state", "cot", "direct")


def compose(
    method: str = "coc", *, repairs: int = 0, critique: bool = False, fallback: bool = False, votes: int = 1
) -> Method:
    """Return a method by name, with repairs of its programs, a critique of them before the answer counts, a ladder of
    fallbacks where it brings no answer, and votes.
    """
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")

    def one(name: str) -> Method:
        if name in _WITHOUT_PROGRAM:
            return typed(_WITHOUT_PROGRAM[name])
        if name != method:  # a fallback: repairs did not help
            return programmed(_RUNNERS[name])
        return programmed(_RUNNERS[name], repairs=max(repairs, critique), critique=critique)

    whole = one(method)
    if fallback:
        below = LADDER[LADDER.index(method) + 1 :] if method in LADDER else LADDER[-2:]
        whole = ladder({method: whole, **{name: one(name) for name in below}}) if below else whole
    return voted(whole, votes) if votes > 1 else whole


async def ask(
    question: str,
    lm: LM,
    *,
    method: str | Method = "coc",
    shots: int | None = None,
    examples: Shown | None = None,
    seen: Iterable[tuple[str, Any]] = (),
    value_votes: int = 1,
    answer_type: Any = None,
    database: str | None = None,
    files: Files | Iterable[str | os.PathLike[str]] = (),
    sandbox: Sandbox | str = "auto",
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> AsyncIterator[Event]:
    """Answer a question, as a stream of events: the trace's Header first, the Answer last.

    `method` is a name of METHODS, or what `compose` returns. `shots` is how many examples the model sees (None: all),
    `examples` replaces them: pairs of question and reply, or a text of `Question: …` lines and replies, separated by
    empty lines; `seen` are calls with values, as examples of emulation. With `value_votes` above 1 each value is
    requested several times. `answer_type` is what the answer must be: `int`, `choice:A,B`, `sql` (its rows, with the
    file of a `database`) or the like, a Python type, a dataclass, a Struct, a Pydantic model, a JSON schema. `files`
    are granted for reading, and the program finds each as a variable.
    """
    whole = typed(compose(method) if isinstance(method, str) else method)
    wanted = answer_type_of(answer_type, database)
    chosen = RunOptions.of(options, given, question)
    found = await files_of(files, chosen, sandbox)
    chosen = found.granted(chosen)
    yield chosen.header()
    inquiry = Inquiry(
        question=question,
        lm=as_lm(lm),
        shots=shots,
        examples=examples,
        seen=tuple(seen),
        value_votes=value_votes,
        sandbox=sandbox,
        options=chosen,
        answer_type=wanted,
        files=found,
    )
    try:
        async for event in whole(inquiry):
            yield event
    except BudgetError as error:
        yield failed(error.reason, str(error))


class Ways(TypedDict, total=False):
    """The options of `ask` about how the question is answered."""

    method: str | Method
    shots: int | None
    examples: Shown | None
    seen: Iterable[tuple[str, Any]]
    value_votes: int
    answer_type: Any
    database: str | None
    files: Files | Iterable[str | os.PathLike[str]]


class AskKeywords(Ways, RunKeywords, total=False):
    """All keyword arguments of `ask`."""

    sandbox: Sandbox | str
    options: RunOptions | None


async def asolve(question: str, lm: LM, **given: Unpack[AskKeywords]) -> Result:
    """Answer a question and keep the trace; the options are those of `ask`."""
    wanted = answer_type_of(given.get("answer_type"), given.pop("database", None))
    given["answer_type"] = wanted
    result = Result.of([event async for event in ask(question, lm, **given)])
    if wanted is None or not result.is_answered:
        return result
    return dataclasses.replace(result, answer=wanted.made(result.answer))


def solve(question: str, lm: LM, **given: Unpack[AskKeywords]) -> Result:
    """Answer a question, in code that is not async; the options are those of `ask`."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("solve() cannot be used inside a running event loop: await asolve() instead")
    return asyncio.run(asolve(question, lm, **given))


__all__ = [
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
