"""Ways to answer a question: a method is an async generator of events, composed of the same parts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from ..engine import Given, Options, Result, execute, new_trace
from ..errors import BudgetError
from ..guest.values import brief
from ..lm import LM, Message
from ..sandbox import Sandbox
from ..sandbox.frames import Failure
from ..trace import Answer, Call, Event

_MAX_PROGRAM_TOKENS = 2048
_SMALL = ("local:", "ollama:")  # models that run on a person's machine; their programs are short


async def ask(
    question: str, lm: LM, *, shots: int | None = None, sandbox: Sandbox | str = "auto", **options: Unpack[Given]
) -> AsyncIterator[Event]:
    """Chain of Code: the model writes a program, Python runs what it can, the model emulates the rest.

    `shots` is how many examples the model is shown before it writes (None: all there are, 0: none).
    """
    try:
        written = await write_program(question, lm, shots=shots, inputs=options.get("inputs", {}))
    except BudgetError as error:
        yield Answer(f"limit:{error.which}", error=Failure(f"limit:{error.which}", str(error)))
        return
    yield written
    async for event in execute(written.reply, lm, question=question, sandbox=sandbox, **options):
        yield event


async def write_program(question: str, lm: LM, *, shots: int | None = None, inputs: Mapping[str, Any] = {}) -> Call:
    """One request: the reply holds the program."""
    given = "".join(f"\n{name} = {brief(value, 500)}" for name, value in inputs.items())
    asked = f"Question: {question}" + (f"\nThese variables are set already:{given}" if given else "")
    messages = [Message("system", instructions(lm, shots)), Message("user", asked)]
    started = time.monotonic()
    (reply,) = await lm.complete(messages, stop=("\nQuestion:",), max_tokens=_MAX_PROGRAM_TOKENS)
    return Call(asked, reply.text, lm.name, reply.usage, time.monotonic() - started)


def instructions(lm: LM, shots: int | None = None) -> str:
    """What a model is told about writing programs: small models get fewer words and more examples."""
    size = "small" if lm.name.startswith(_SMALL) else "large"
    examples = _prompt(f"examples-{size}.md").split("\n\nQuestion: ")
    chosen = examples if shots is None else examples[:shots]
    return "\n\nQuestion: ".join([_prompt(f"program-{size}.md"), *(text.removeprefix("Question: ") for text in chosen)])


@functools.cache
def _prompt(name: str) -> str:
    return (Path(__file__).parent / "prompts" / name).read_text(encoding="utf-8").strip()


async def asolve(
    question: str, lm: LM, *, shots: int | None = None, sandbox: Sandbox | str = "auto", **options: Unpack[Given]
) -> Result:
    """Answer a question and keep the trace."""
    trace = new_trace(Options(question=question, **options))
    async for event in ask(question, lm, shots=shots, sandbox=sandbox, **options):
        trace.events.append(event)
    return Result.of(trace)


def solve(
    question: str, lm: LM, *, shots: int | None = None, sandbox: Sandbox | str = "auto", **options: Unpack[Given]
) -> Result:
    """`asolve` for code that is not async."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("solve() cannot be used inside a running event loop: await asolve() instead")
    return asyncio.run(asolve(question, lm, shots=shots, sandbox=sandbox, **options))
