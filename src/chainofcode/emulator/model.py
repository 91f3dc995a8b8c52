"""Emulation by a language model: the prompt, the JSON schema, one retry.

The parts that stay the same from call to call come first (instructions, question, program), the parts that change come
last (earlier answers, state, the line, the call): an endpoint that caches prefixes evaluates little more than the call.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ..errors import BudgetError, EmulationError
from ..lm import LM, Completion, Message
from ..trace import Call
from ..values.codec import Opaque, decode, encode
from .accounting import accounted, unshared_part
from .confidence import is_unsure, judged, likelihood, reconsidered, sampled
from .image_arguments import images_of
from .pause import Answered, Emulator, Pause
from .replies import delta_in, value_in
from .types import ANY, Kind, Misfit, kind_of, object_schema

_MAX_EARLIER = 16  # earlier values of the same function that are shown; after that, only new ones
_MAX_VOCABULARY = 32
_MAX_QUESTION_CHARS = 4000
_MAX_PROGRAM_CHARS = 12_000
_MAX_CALL_CHARS = 6000
_MAX_STATE_CHARS = 1500
_SMALL_STATE_CHARS = 0
_MAX_NAMES = 40
_VOTING_TEMPERATURE = 0.7
_MAX_REASONS_CHARS, _MAX_REASONS_TOKENS = 300, 120
_REASONS_FIRST = "Give your reasons first, in one or two short sentences, then the value they lead to."


@dataclass(frozen=True)
class Judging:
    """How a model is asked for values."""

    votes: int = 1  # replies for each value; the most frequent counts
    seen: tuple[tuple[str, Any], ...] = ()  # calls with values, shown as examples
    thinks: bool = False  # a value that the model is unsure of is requested again, with its reasons first


ONE_REPLY = Judging()


class Asking(Emulator):
    """A language model, asked for one value per request; a prompt shows earlier values of the function in this run.

    Requests that overlap do not see each other's answers, so timing does not change prompts.
    """

    reads_state = True

    def __init__(self, lm: LM, judging: Judging = ONE_REPLY) -> None:
        self._lm, self._judging = accounted(lm), judging
        self.in_flight, self._fixed = self._lm.in_flight, fixed_part(self._lm)
        self._earlier: dict[str, list[tuple[str, Any]]] = {}
        for text, value in judging.seen:
            self._earlier.setdefault(text.partition("(")[0], []).append((_cut(text, 200), decode(value)))
        self._begun = self._open = 0
        self._held: list[tuple[int, Pause, Any]] = []  # answers that pending requests do not see

    def abandoned(self) -> list[Call]:
        return self._lm.abandoned()

    def fresh(self) -> Asking:
        return Asking(self._lm, self._judging)

    async def answer(self, pause: Pause) -> Answered:
        if pause.kind == "statement":
            return await self._ask(pause, _delta_kind(pause), delta_in)
        self._begun += 1
        self._open += 1
        turn = self._begun
        try:
            answered = await self.considered(pause, await self._ask(pause, self.kind(pause), value_in))
            self._held.append((turn, pause, answered.value))
            return answered
        finally:
            self._open -= 1
            if not self._open:
                for _, earlier, value in sorted(self._held, key=lambda held: held[0]):
                    self.remember(earlier, value)
                self._held.clear()

    async def considered(self, pause: Pause, answered: Answered) -> Answered:
        """Return the answer or, if the model was unsure, the answer to a second request, reasons first."""
        if not self._judging.thinks or not is_unsure(answered.confidence):
            return answered
        kind = self.kind(pause)
        reasons = {"type": "string", "maxLength": _MAX_REASONS_CHARS}
        messages = self._conversation(
            pause, [*self._context(pause), f"type: {kind.words}", _REASONS_FIRST, "delta state:"]
        )
        options = {
            "schema": object_schema({"reasons": reasons, "value": kind.schema}),
            "max_tokens": kind.max_tokens + _MAX_REASONS_TOKENS,
            **self.logprobs,
        }
        with self._paid(answered.calls):
            ((reply, call),) = await requested(self._lm, messages, unshared_part(messages), **options)
        try:
            value = kind.fit(value_in(reply.text))
        except Misfit:  # the first value stands
            return replace(answered, calls=(*answered.calls, call))
        value, confidence = judged(reply, "value", value, kind, pause)
        if confidence is not None and answered.confidence is not None:
            confidence = reconsidered((answered.value, answered.confidence), (value, confidence))
        return replace(answered, value=value, calls=(*answered.calls, call), confidence=confidence)

    async def _ask(self, pause: Pause, kind: Kind, read: Callable[[str, bool], Any]) -> Answered:
        schema: Mapping[str, Any] = kind.schema
        if pause.kind == "call":
            schema = object_schema({"value": kind.schema})
        messages = self._messages(pause, kind)
        calls: list[Call] = []
        for _ in range(2):
            options = {"schema": dict(schema), "max_tokens": kind.max_tokens, **self.logprobs, **self._sampling}
            with self._paid(calls):
                replies = await requested(self._lm, messages, unshared_part(messages), **options)
            fitting, last_reply = [], replies[-1][0]
            for reply, call in replies:
                calls.append(call)
                try:
                    fitting.append((kind.fit(read(reply.text, kind.is_text)), reply))
                except Misfit as error:
                    why = "it was cut off: write less" if reply.finish_reason == "length" else str(error)
            if len(fitting) == 1:
                ((value, reply),) = fitting
                value, confidence = judged(reply, "value", value, kind, pause)
                return Answered(value, tuple(calls), confidence=confidence, likelihood=likelihood(reply, "value"))
            if fitting:
                value, confidence = sampled([value for value, _ in fitting])
                return Answered(value, tuple(calls), confidence=confidence)
            again = f"That does not fit: {why}. Reply again with JSON alone.\ntype: {kind.words}\ndelta state:"
            messages = [*messages, Message("assistant", last_reply.text[:_MAX_CALL_CHARS]), Message("user", again)]
        what = "statement" if pause.kind == "statement" else "call"
        raise EmulationError(f"{self._lm.name} gave no fitting value for the {what} {pause.text}: {why}", tuple(calls))

    @contextlib.contextmanager
    def _paid(self, calls: Sequence[Call]) -> Iterator[None]:
        """Keep the requests so far if the next one is cancelled or exceeds the budget: they were paid for."""
        try:
            with self._lm.keep_if_cancelled(calls):
                yield
        except BudgetError as error:
            error.calls = tuple(calls)
            raise

    @property
    def logprobs(self) -> dict[str, Any]:
        """The options of every request for a value, if the model supports them: log probabilities, no reasoning."""
        supported = {"logprobs": self._lm.has_logprobs, "is_quick": self._lm.has_effort}
        return {name: True for name, is_taken in supported.items() if is_taken}

    @property
    def _sampling(self) -> dict[str, Any]:
        votes = self._judging.votes
        return {"n": votes, "temperature": _VOTING_TEMPERATURE} if votes > 1 else {}

    def kind(self, pause: Pause) -> Kind:
        return wanted_kind(pause)

    def remember(self, pause: Pause, value: Any) -> None:
        """Append an answer. Earlier entries never change, so that the beginning of the prompt stays the same."""
        earlier = self._earlier.setdefault(pause.name, [])
        is_new = all(known != value for _, known in earlier)
        if len(earlier) < (_MAX_VOCABULARY if is_new else _MAX_EARLIER):
            earlier.append((_cut(pause.text, 200), value))

    def _messages(self, pause: Pause, kind: Kind) -> list[Message]:
        return self._conversation(pause, [*self._context(pause), f"type: {kind.words}", "delta state:"])

    def prompt(self, pause: Pause) -> list[Message]:
        """Return the request for one call."""
        return self._messages(pause, self.kind(pause))

    def messages_for(self, pauses: Sequence[Pause], kind: Kind) -> list[Message]:
        """Return the prompt for several numbered calls of one function."""
        lines = [line for line in self._context(pauses[0]) if not line.startswith(("call: ", "state: "))]
        calls = [f"call {number}: {_cut(pause.text, _MAX_CALL_CHARS)}" for number, pause in enumerate(pauses, 1)]
        numbers = ", ".join(f'"{number}": …' for number in range(1, min(len(pauses), 3) + 1))
        wanted = f"type: {kind.words} for each call, by its number: {{{numbers}}}"
        return self._conversation(pauses[0], [*lines, *calls, wanted, "delta state:"])

    def _conversation(self, pause: Pause, lines: Sequence[str]) -> list[Message]:
        question = f"Question: {_cut(pause.question, _MAX_QUESTION_CHARS)}\n\n" if pause.question else ""
        source = _cut(pause.program.source.rstrip(), _MAX_PROGRAM_CHARS)
        program = f"{question}Program:\n```{pause.program.language}\n{source}\n```"
        images = images_of(pause, self._lm)
        about = ["images: those of the call, in the order of its arguments"] if len(images) > 1 else []
        request = Message("user", "\n".join([*about, *lines]), images=images)
        return [*self._fixed, Message("user", program), request]

    def _context(self, pause: Pause) -> list[str]:
        room = _SMALL_STATE_CHARS if self._lm.is_small else _MAX_STATE_CHARS
        line = _line(pause)
        lines = self._earlier_calls(pause)
        if state := _state(pause, room):
            lines.append(f"state: {state}")
        lines.append(f"line: {_cut(line, 500)}")
        if pause.spec:
            lines.append(_cut(pause.spec.strip(), 1500))
        if pause.error:
            lines.append(f"error: {_cut(pause.error, 300)}")
        if pause.kind == "call":
            lines.append(f"call: {_cut(pause.text, _MAX_CALL_CHARS)}")
        elif pause.text.strip() != line:
            lines.append(_cut(pause.text, _MAX_CALL_CHARS))
        return lines

    def _earlier_calls(self, pause: Pause) -> list[str]:
        """Show what the function answered before, unless all are True or all False: small models repeat them."""
        earlier = self._earlier.get(pause.name, ())
        is_lopsided = {value for _, value in earlier if isinstance(value, bool)} in ({True}, {False})
        if not earlier or is_lopsided:
            return []
        return ["earlier calls:", *(f"{text} → {_shown(value)}" for text, value in earlier), ""]


def wanted_kind(pause: Pause) -> Kind:
    return kind_of(wanted_type(pause))


def wanted_type(pause: Pause) -> str:
    """Return the expected type as the text of an annotation: from the program, else from the call's `ret_type`."""
    given = pause.kwargs.get("ret_type")
    if isinstance(given, Opaque):
        given = given.text
    annotation = given if isinstance(given, str) else ""
    return pause.type or annotation.removeprefix("<class '").removesuffix("'>")


async def requested(lm: LM, messages: Sequence[Message], prompt: str, **options: Any) -> list[tuple[Completion, Call]]:
    """Ask a model. Return each reply with its `Call` for the trace, in which `prompt` stands for the messages."""
    begun, started = time.time(), time.monotonic()
    replies = await lm.complete(messages, **options)
    seconds, model = time.monotonic() - started, lm.name

    def recorded(reply: Completion) -> Call:
        return Call(
            prompt=prompt,
            reply=reply.text,
            model=model,
            usage=reply.usage,
            seconds=seconds,
            started=round(begun, 3),
            is_cached=reply.is_cached,
        )

    return [(reply, recorded(reply)) for reply in replies]


def _delta_kind(pause: Pause) -> Kind:
    """Return the type of a delta: the names that the statement may set. New names that it mentions are required."""
    names = pause.names[:_MAX_NAMES]
    mentioned = set(re.findall(r"\w+", pause.text))
    must = [name for name in names if name in mentioned and name not in pause.state]

    def fit(delta: Any) -> dict[str, Any]:
        foreign = [name for name in delta if name not in pause.names]
        if foreign:
            raise Misfit(f"the statement cannot set {foreign[0]!r}; it may set {', '.join(names)}")
        missing = [name for name in must if name not in delta]
        if missing:
            raise Misfit(f"it lacks the new value of {missing[0]!r}")
        return dict(delta)

    schema = object_schema(dict.fromkeys(names, ANY.schema), must)
    return Kind(f"an object with the new values of the names it sets, of {', '.join(names)}", schema, fit, 1024)


def _state(pause: Pause, room: int) -> str:
    """Show the variables that the line reads, and others up to `room` characters: they distract small models."""
    line = _line(pause)
    shown: list[str] = []
    for name, value in pause.state.items():
        text = f"{name} = {_cut(value, 300)}"
        is_read = re.search(rf"\b{re.escape(name)}\b", line) is not None
        if not is_read and sum(map(len, shown)) + len(text) > room:
            continue
        shown.append(text)
        if sum(map(len, shown)) > _MAX_STATE_CHARS:
            break
    return "; ".join(shown)


def _line(pause: Pause) -> str:
    source = pause.program.source.split("\n")
    return source[pause.line - 1].strip() if 0 < pause.line <= len(source) else pause.text


def _shown(value: Any) -> str:
    return _cut(json.dumps(encode(value), ensure_ascii=False), 200)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def fixed_part(lm: LM) -> tuple[Message, ...]:
    """Return the part of a prompt that is the same for every program: the task, and examples as turns.

    Some endpoints cache only longer prefixes: they get more examples if that is cheaper.
    """
    short, longer = _instructions("emulate.md"), _instructions("emulate.md", "emulate-more.md")
    sizes = [LM.estimate(lm, messages).prompt_tokens for messages in (short, longer)]
    return longer if not lm.is_small and lm.prefers_longer(*sizes) else short


def instructions_digest(lm: LM) -> str:
    """Return a digest of the instructions and examples that a model gets."""
    return hashlib.sha256(msgspec.json.encode(fixed_part(lm))).hexdigest()


@functools.cache
def _instructions(*names: str) -> tuple[Message, ...]:
    texts = (Path(__file__).with_name(name).read_text(encoding="utf-8").strip() for name in names)
    task, _, examples = "\n\n".join(texts).partition("\n\n")
    messages = [Message("system", task)]
    for example in re.split(r"(?<=\})\n\n", examples):
        context, _, reply = example.rpartition("delta state: ")
        messages += [Message("user", f"{context}delta state:"), Message("assistant", reply)]
    return (*messages[:-1], Message("assistant", messages[-1].content, is_kept=True))
