"""Parts of methods: the question with its context, one request to the model, the answer in a reply."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ..emulator import Answering
from ..emulator.model import requested
from ..engine import RunOptions, execute_program
from ..lm import LM, Message
from ..reasons import Reason
from ..sandbox import Sandbox
from ..sandbox.frames import Failure
from ..trace import Answer, Call, Event
from ..values.codec import brief
from .answers import AnswerType
from .input_files import Files

MAX_TOKENS = 2048
_ANSWER = re.compile(r"^[ \t]*(?:\*\*)?A(?:nswer)?(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*(\S.*)", re.I | re.M)
_MARK = re.compile(r"^[ \t]*(?:\*\*)?A(?:nswer)?(?:\*\*)?[ \t]*:", re.M)  # `a:` may be a key of YAML
_SO = re.compile(r"\b(?:the|my) (?:final )?answer (?:is|would be)[: \t]+(.+?)(?:\.[ \t]+[A-Z].*)?$", re.I | re.M)
_BLOCK = re.compile(r"```[\w-]*\n(.*?)(?:```|\Z)", re.S)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}|####\s*(.+)")


Shown = str | Sequence[tuple[str, str]]  # examples: a text of them, or questions and replies


@dataclass(frozen=True)
class Inquiry:
    """A question and all that a method may use to answer it."""

    question: str
    lm: LM
    shots: int | None = None  # how many examples the model sees; None: all there are
    examples: Shown | None = None  # in place of the general ones
    seen: tuple[tuple[str, Any], ...] = ()  # calls with values, shown to the model as examples
    value_votes: int = 1  # how often each value is requested; the most frequent one counts
    sandbox: Sandbox | str = "auto"
    options: RunOptions = field(default_factory=RunOptions)
    written: Call | None = None  # a program that an earlier method wrote
    answer_type: AnswerType | None = None
    files: Files = field(default_factory=Files)  # the program finds each as a variable

    async def complete(self, before: str | list[Message], *turns: str, max_tokens: int = MAX_TOKENS) -> Call:
        """Make one request. `turns` alternate between the user and the model; the first and the last are the user's."""
        messages = [Message("system", before)] if isinstance(before, str) else list(before)
        messages += [Message("assistant" if n % 2 else "user", text) for n, text in enumerate(turns)]
        options = {"stop": ("\nQuestion:",), "max_tokens": max_tokens}
        ((_, call),) = await requested(self.lm, messages, "\n\n".join(turns), **options)
        return call

    def run(self, program: str, emulator: Answering) -> AsyncIterator[Event]:
        return execute_program(program, emulator, self.sandbox, self.options)

    def remembering(self) -> Inquiry:
        """Return the same with tools that remember their results: the next program does nothing twice."""
        box = self.options.toolbox
        if not box.tools:
            return self
        return replace(self, options=replace(self.options, tools=box.remembering()))

    @property
    def text(self) -> str:
        """The question as the model reads it, with what the program will find."""
        lines = [f"Question: {self.question}"]
        variables = [f"{name} = {brief(value, 500)}" for name, value in self.options.inputs.items()]
        if self.files.told:
            variables.append(self.files.told)
        if variables:
            lines += ["These variables are set already:", *variables]
        if packages := ", ".join(self.options.packages):
            lines.append(f"These packages may be imported: {packages}")
        if self.options.scratch:
            lines.append("Files that the program writes into its working directory are kept for whoever asks.")
        if tools := self.options.toolbox.told:
            lines.append(f"These functions are there to be called, and do what they say:\n{tools}")
        if self.answer_type is not None:
            lines.append(f"The answer must be {self.answer_type.words}")
        return "\n".join(lines)

    def stated(self, reply: str) -> Answer:
        """Return the answer that a reply states, or a NoAnswer error."""
        said = self.answer_in(reply)
        if not said:
            failure = Failure("NoAnswer", f"the reply states no answer: {reply[-200:]!r}")
            return Answer(Reason.ERROR, error=failure)
        return Answer(Reason.ANSWERED, said, repr(said), "reply")

    def answer_in(self, reply: str) -> str | None:
        return block_in(reply) if self.answer_type is not None and self.answer_type.is_text else answer_in(reply)

    def shown(self, name: str) -> list[Message]:
        """Return a prompt with its examples as turns. The prompt `program` has a version for each size of model."""
        size = "small" if self.lm.is_small else "large"
        listed = self.examples
        if name == "program":
            instructions, own = prompt(f"program-{size}"), f"examples-{size}"
        else:
            instructions, own = prompt(name), f"examples-{name}"
        if listed is None:
            listed = prompt(own)
        examples = _pairs(listed) if isinstance(listed, str) else list(listed)
        messages = [Message("system", instructions)]
        for question, reply in examples[: self.shots]:
            messages += [Message("user", f"Question: {question}"), Message("assistant", reply)]
        return [*messages[:-1], msgspec.structs.replace(messages[-1], is_kept=True)]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split a text of `Question: …` lines and replies, separated by empty lines."""
    parts = [part.partition("\n") for part in re.split(r"(?:^|\n\n)Question: ", text.strip()) if part.strip()]
    return [(question, reply) for question, _, reply in parts]


Method = Callable[[Inquiry], AsyncIterator[Event]]


@functools.cache
def prompt(name: str) -> str:
    path = Path(__file__).parent / "prompts" / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def answer_in(reply: str) -> str | None:
    """Return what follows `A: …`, `the answer is …`, `\\boxed{…}`, `#### …`; else the last line of a short reply."""
    text = reply.strip()
    boxed = _BOXED.findall(text)
    found = [a or b for a, b in boxed] or _ANSWER.findall(text) or _SO.findall(text)
    if found:
        return _tidy(found[-1])
    last = text.rpartition("\n")[2].strip()
    return _tidy(last) if last and len(last) <= 200 else None


def block_in(reply: str) -> str | None:
    """Return an answer of many lines: the last block, else what follows `A:`, else the whole reply."""
    blocks: list[str] = [block for block in _BLOCK.findall(reply) if block.strip()]
    if blocks:
        return blocks[-1]
    marks = list(_MARK.finditer(reply))
    return reply[marks[-1].end() :].strip() if marks else reply.strip() or None


def _tidy(text: str) -> str:
    text = text.strip().strip("*`").strip()
    text = text.removesuffix(".")
    return text.strip("\"'") if len(text) > 1 else text


def last_answer(events: Sequence[Event]) -> Answer | None:
    return next((event for event in reversed(events) if isinstance(event, Answer)), None)


def failed(reason: Reason, message: str, **more: Any) -> Answer:
    return Answer(reason, error=Failure(reason, message), **more)


def stepping(answer: Answer, then: str) -> Answer:
    """Mark an answer that is not the final one with what is tried next."""
    return msgspec.structs.replace(answer, then=then)
