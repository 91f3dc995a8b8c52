"""Building blocks of methods: the question with its context, a request to the model, the answer in a reply."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ..emulator import Answering, Cascade, Emulator, Judging, as_emulator
from ..emulator.common_values import SharedValues
from ..emulator.model import requested
from ..emulator.value_cache import Layer
from ..engine import RunOptions, execute_program
from ..languages import PYTHON, SQL, Language
from ..lm import LM, Completion, Message
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
_QUESTION_AND_REPLY = re.compile(r"([^\n]*(?:\n {4}[^\n]*)*)(?:\n(.*))?", re.S)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}|####\s*(.+)")


_Examples = str | Sequence[tuple[str, str]]  # one text, or questions and replies
Shown = _Examples | Mapping[str, _Examples]  # for all methods, or by prompt: program, cot, direct


@dataclass(frozen=True)
class Inquiry:
    """A question and all that a method may use to answer it."""

    question: str
    lm: LM
    shots: int | None = None  # how many examples the model sees; None: all
    examples: Shown | None = None  # in place of the general ones
    judging: Judging = field(default_factory=Judging)
    shared: SharedValues | None = None  # values shared with other programs for the same question
    sandbox: Sandbox | str = "auto"
    options: RunOptions = field(default_factory=RunOptions)
    written: Call | None = None  # a program that an earlier method wrote
    answer_type: AnswerType | None = None
    files: Files = field(default_factory=Files)  # the program finds each as a variable
    emulating: Answering = None  # answers the calls of programs; None: `lm`
    cache: Layer | None = None  # of values, between runs

    async def complete(self, before: str | list[Message], *turns: str, **options: Any) -> Call:
        """Make one request. `turns` alternate between the user and the model; the first and the last are the user's."""
        _, call = await self._request(before, turns, options)
        return call

    async def state(self, before: str | list[Message], *turns: str, **options: Any) -> tuple[Call, Answer]:
        """Make one request for a reply that states the answer, with log probabilities: for short replies only."""
        more = {"logprobs": True} if self.lm.has_logprobs else {}
        reply, call = await self._request(before, turns, {**more, **options})
        answer = self.stated(call.reply)
        return call, msgspec.structs.replace(answer, confidence=_likelihood(answer, reply))

    async def _request(
        self, before: str | list[Message], turns: Sequence[str], options: dict[str, Any]
    ) -> tuple[Completion, Call]:
        messages = [Message("system", before)] if isinstance(before, str) else list(before)
        messages += [Message("assistant" if n % 2 else "user", text) for n, text in enumerate(turns)]
        options = {"stop": ("\nQuestion:",), "max_tokens": MAX_TOKENS, **options}
        ((reply, call),) = await requested(self.lm, messages, "\n\n".join(turns), **options)
        return reply, call

    def emulator(self) -> Emulator:
        """Return the emulator that answers calls of undefined functions in one run."""
        if self.shared is not None:
            return self.shared.emulator()
        answering = self.lm if self.emulating is None else self.emulating
        if self.cache is not None:
            return self.cache.emulator(answering, self.judging)
        return as_emulator(answering, self.judging)

    def run(self, program: str, emulator: Answering) -> AsyncIterator[Event]:
        return execute_program(program, emulator, self.sandbox, self.options)

    def remembering(self) -> Inquiry:
        """Return an inquiry whose tools remember their results: the next program repeats no call."""
        box = self.options.toolbox
        if not box.tools:
            return self
        return replace(self, options=replace(self.options, tools=box.remembering()))

    @property
    def language(self) -> Language:
        """The language that programs are written in."""
        return self.options.language_or(PYTHON)

    @property
    def is_in_words(self) -> bool:
        """Whether the words of the question are enough to answer it, without what only a program can reach."""
        options = self.options
        wants_text = self.answer_type is not None and self.answer_type.is_text
        return not (self.files.description or options.inputs or options.toolbox.tools or options.scratch or wants_text)

    @property
    def text(self) -> str:
        """The question as the model reads it, with what the program will find."""
        lines = [f"Question: {self.question}"]
        variables = [f"{name} = {brief(value, 500)}" for name, value in self.options.inputs.items()]
        if self.files.description:
            variables.append(self.files.description)
        if any(file.kind == "path" for file in self.files.prelude):
            variables.append(self._sight)
        is_query = self.language is SQL
        if variables:
            lines += ["These tables are there:" if is_query else "These variables are set already:", *variables]
        if (packages := ", ".join(self.options.packages)) and not is_query:
            lines.append(f"These packages may be imported: {packages}")
        if self.options.scratch:
            lines.append("Files that the program writes into its working directory are kept for whoever asks.")
        if tools := self.options.toolbox.descriptions:
            lines.append(f"These functions are there to be called, and do what they say:\n{tools}")
        if self.answer_type is not None:
            lines.append(f"The answer must be {self.answer_type.words}")
        return "\n".join(lines)

    @property
    def _sight(self) -> str:
        """What the model must know to use an image: whether the calls of its program can show it to a model."""
        answering = self.lm if self.emulating is None else self.emulating
        models = answering.models if isinstance(answering, Cascade) else [answering]
        if any(getattr(model, "has_images", True) for model in models):
            return "A function that you do not define can see an image: pass it the variable, as in describe(photo)."
        return "Functions that you do not define cannot see images."

    def stated(self, reply: str) -> Answer:
        """Return the answer that a reply states, or a NoAnswer error."""
        text = self.answer_in(reply)
        if not text:
            failure = Failure("NoAnswer", f"the reply states no answer: {reply[-200:]!r}")
            return Answer(Reason.ERROR, error=failure)
        return Answer(Reason.ANSWERED, text, repr(text), "reply")

    def answer_in(self, reply: str) -> str | None:
        return block_in(reply) if self.answer_type is not None and self.answer_type.is_text else answer_in(reply)

    def shown(self, name: str) -> list[Message]:
        """Return a prompt with its examples as turns. The prompt `program` has a version for each size of model."""
        size = "small" if self.lm.is_small else "large"
        listed = self.examples.get(name) if isinstance(self.examples, Mapping) else self.examples
        if name == "program" and self.language is not PYTHON:
            instructions, own = prompt(f"program-{self.language.name}"), f"examples-{self.language.name}"
        elif name == "program":
            instructions, own = prompt(f"program-{size}"), f"examples-{size}"
        else:
            instructions, own = prompt(name), f"examples-{name}"
        if listed is None:
            listed = prompt(own)
            if own == "examples-small" and any(file.kind == "rows" for file in self.files.prelude):
                listed += "\n\n" + prompt("examples-rows")
        examples = _pairs(listed) if isinstance(listed, str) else list(listed)
        messages = [Message("system", instructions)]
        for question, reply in examples[: self.shots]:
            messages += [Message("user", f"Question: {question}"), Message("assistant", reply)]
        return [*messages[:-1], msgspec.structs.replace(messages[-1], is_kept=True)]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split a text of `Question: …` lines and replies, separated by empty lines.

    Indented lines below a question belong to it: they describe the variables of its program.
    """
    pairs = []
    for part in re.split(r"(?:^|\n\n)Question: ", text.strip()):
        if part.strip():
            question, reply = _QUESTION_AND_REPLY.fullmatch(part).groups()  # type: ignore[union-attr]
            pairs.append((question.replace("\n    ", "\n"), reply or ""))
    return pairs


Method = Callable[[Inquiry], AsyncIterator[Event]]


def question_after(turns: Sequence[tuple[str, str]], question: str) -> str:
    """Return a question below the earlier turns of its conversation, given as pairs of speaker and text."""
    if not turns:
        return question
    before = [f"{speaker}: {text}" for speaker, text in turns]
    return "\n".join(["What was said before:", *before, "", f"The question now: {question}"])


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


def _likelihood(answer: Answer, reply: Completion) -> float | None:
    """Return the probability of an answer's words, given the reply before them."""
    text = "".join(token.text for token in reply.tokens)
    start = text.rfind(answer.value) if isinstance(answer.value, str) and answer.value else -1
    if start < 0:
        return None
    logprob, end = 0.0, 0
    for token in reply.tokens:
        begin, end = end, end + len(token.text)
        if end > start and begin < start + len(answer.value):
            if token.text not in token.alternatives:
                return None
            logprob += token.alternatives[token.text]
    return round(math.exp(logprob), 3)


def last_answer(events: Sequence[Event]) -> Answer | None:
    return next((event for event in reversed(events) if isinstance(event, Answer)), None)


def failed(reason: Reason, message: str, **more: Any) -> Answer:
    return Answer(reason, error=Failure(reason, message), **more)


def repeated(answer: Answer, **more: Any) -> Answer:
    """Return the answer of an earlier attempt as the final one: what the attempt counted is already in the trace."""
    return msgspec.structs.replace(answer, wasted=0, unsettled=0, **more)


def stepping(answer: Answer, then: str) -> Answer:
    """Mark an answer that is not the final one with what is tried next."""
    return msgspec.structs.replace(answer, then=then)
