"""Emulation by a language model: the prompt, the JSON schema, one retry.

What stays the same from call to call comes first (instructions, question, program), what changes comes last (earlier
answers, state, the line, the call): an endpoint that caches prefixes evaluates little more than the call.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import BudgetError, EmulationError
from ..lm import LM, Completion, Message, as_lm
from ..trace import Call
from ..values.codec import Opaque, decode, encode
from .pause import Answered, Emulator, Pause
from .replies import delta_in, value_in
from .types import ANY, Kind, Misfit, kind_of, object_schema

_MAX_EARLIER = 16  # answers of the same function shown; beyond them only what was not said yet
_MAX_VOCABULARY = 32
_MAX_QUESTION_CHARS = 4000
_MAX_PROGRAM_CHARS = 12_000
_MAX_CALL_CHARS = 6000
_MAX_STATE_CHARS = 1500
_SMALL_STATE_CHARS = 0
_MAX_NAMES = 40
_VOTING_TEMPERATURE = 0.7


class Asking(Emulator):
    """A language model, asked for one value per request; it sees what each function answered before in this run.

    Requests that overlap do not see each other's answers, so that timing changes no prompt.
    """

    reads_state = True

    def __init__(self, lm: LM, votes: int = 1, seen: Sequence[tuple[str, Any]] = ()) -> None:
        self._lm, self._votes, self._seen = as_lm(lm), votes, seen
        self.in_flight = self._lm.in_flight
        self._earlier: dict[str, list[tuple[str, Any]]] = {}
        for text, value in seen:
            self._earlier.setdefault(text.partition("(")[0], []).append((_cut(text, 200), decode(value)))
        self._begun = self._open = 0
        self._held: list[tuple[int, Pause, Any]] = []  # answers that the requests under way do not see

    def fresh(self) -> Asking:
        return Asking(self._lm, self._votes, self._seen)

    async def answer(self, pause: Pause) -> Answered:
        if pause.kind == "statement":
            return await self._ask(pause, _delta_kind(pause), delta_in)
        self._begun += 1
        self._open += 1
        turn = self._begun
        try:
            answered = await self._ask(pause, self.kind(pause), value_in)
            self._held.append((turn, pause, answered.value))
            return answered
        finally:
            self._open -= 1
            if not self._open:
                for _, asked, value in sorted(self._held, key=lambda held: held[0]):
                    self.remember(asked, value)
                self._held.clear()

    async def _ask(self, pause: Pause, kind: Kind, read: Callable[[str, bool], Any]) -> Answered:
        schema: Mapping[str, Any] = kind.schema
        if pause.kind == "call":
            schema = object_schema({"value": kind.schema})
        messages = self._messages(pause, kind)
        calls: list[Call] = []
        for _ in range(2):
            options = {"schema": dict(schema), "max_tokens": kind.max_tokens, **self._dice}
            try:
                replies = await requested(self._lm, messages, as_text(messages), **options)
            except BudgetError as error:
                error.calls = tuple(calls)  # they were paid for
                raise
            fitting, said = [], replies[-1][0]
            for reply, call in replies:
                calls.append(call)
                try:
                    fitting.append(kind.fit(read(reply.text, kind.is_text)))
                except Misfit as error:
                    why = "it was cut off: write less" if reply.finish_reason == "length" else str(error)
            if fitting:
                return Answered(_most_frequent(fitting), tuple(calls))
            again = f"That does not fit: {why}. Reply again with JSON alone.\ntype: {kind.words}\ndelta state:"
            messages = [*messages, Message("assistant", said.text[:_MAX_CALL_CHARS]), Message("user", again)]
        what = "statement" if pause.kind == "statement" else "call"
        raise EmulationError(f"{self._lm.name} gave no fitting value for the {what} {pause.text}: {why}", tuple(calls))

    @property
    def _dice(self) -> dict[str, Any]:
        return {"n": self._votes, "temperature": _VOTING_TEMPERATURE} if self._votes > 1 else {}

    def kind(self, pause: Pause) -> Kind:
        """Return the expected type: as the program says, else as the call itself does."""
        given = pause.kwargs.get("ret_type")
        if isinstance(given, Opaque):
            given = given.text
        said = given if isinstance(given, str) else ""
        return kind_of(pause.type or said.removeprefix("<class '").removesuffix("'>"))

    def remember(self, pause: Pause, value: Any) -> None:
        """Append an answer. The list is never changed otherwise: the beginning of the prompt stays the same."""
        earlier = self._earlier.setdefault(pause.name, [])
        is_new = all(known != value for _, known in earlier)
        if len(earlier) < (_MAX_VOCABULARY if is_new else _MAX_EARLIER):
            earlier.append((_cut(pause.text, 200), value))

    def _messages(self, pause: Pause, kind: Kind) -> list[Message]:
        return self._asked(pause, [*self._told(pause), f"type: {kind.words}", "delta state:"])

    def messages_for(self, pauses: Sequence[Pause], kind: Kind) -> list[Message]:
        """Return the prompt for several calls of one function, by number."""
        lines = [line for line in self._told(pauses[0]) if not line.startswith(("call: ", "state: "))]
        calls = [f"call {number}: {_cut(pause.text, _MAX_CALL_CHARS)}" for number, pause in enumerate(pauses, 1)]
        numbers = ", ".join(f'"{number}": …' for number in range(1, min(len(pauses), 3) + 1))
        wanted = f"type: {kind.words} for each call, by its number: {{{numbers}}}"
        return self._asked(pauses[0], [*lines, *calls, wanted, "delta state:"])

    def _asked(self, pause: Pause, lines: Sequence[str]) -> list[Message]:
        question = f"Question: {_cut(pause.question, _MAX_QUESTION_CHARS)}\n\n" if pause.question else ""
        program = f"{question}Program:\n```python\n{_cut(pause.program.source.rstrip(), _MAX_PROGRAM_CHARS)}\n```"
        return [*_instructions(), Message("user", program), Message("user", "\n".join(lines))]

    def _told(self, pause: Pause) -> list[str]:
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
        """Show what the function answered before. Not a lone True or False: small models repeat it."""
        earlier = self._earlier.get(pause.name, ())
        is_lopsided = {value for _, value in earlier if isinstance(value, bool)} in ({True}, {False})
        if not earlier or is_lopsided:
            return []
        return ["earlier calls:", *(f"{text} → {_shown(value)}" for text, value in earlier), ""]


async def requested(lm: LM, messages: Sequence[Message], prompt: str, **options: Any) -> list[tuple[Completion, Call]]:
    """Ask a model. Return each reply, and the request as the trace keeps it: with `prompt` for the messages."""
    started = time.monotonic()
    replies = await lm.complete(messages, **options)
    seconds = time.monotonic() - started
    return [
        (reply, Call(prompt=prompt, reply=reply.text, model=lm.name, usage=reply.usage, seconds=seconds))
        for reply in replies
    ]


def _most_frequent(values: list[Any]) -> Any:
    return max(values, key=lambda value: sum(value == other for other in values))


def _delta_kind(pause: Pause) -> Kind:
    """Return the type of a delta: names that the statement may set; it must set those it mentions that are unset."""
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
    """Show the variables that the line reads, then others while there is room: they distract small models."""
    line = _line(pause)
    told: list[str] = []
    for name, value in pause.state.items():
        text = f"{name} = {_cut(value, 300)}"
        is_read = re.search(rf"\b{re.escape(name)}\b", line) is not None
        if not is_read and sum(map(len, told)) + len(text) > room:
            continue
        told.append(text)
        if sum(map(len, told)) > _MAX_STATE_CHARS:
            break
    return "; ".join(told)


def _line(pause: Pause) -> str:
    source = pause.program.source.split("\n")
    return source[pause.line - 1].strip() if 0 < pause.line <= len(source) else pause.text


def _shown(value: Any) -> str:
    return _cut(json.dumps(encode(value), ensure_ascii=False), 200)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def as_text(messages: list[Message]) -> str:
    """Return a request as the trace keeps it: without what is the same for every program."""
    return "\n\n".join(message.content for message in messages[len(_instructions()) :])


@functools.cache
def _instructions() -> tuple[Message, ...]:
    """Return what is the same for every program: the task, and examples as turns of the conversation."""
    text = Path(__file__).with_name("emulate.md").read_text(encoding="utf-8").strip()
    task, _, examples = text.partition("\n\n")
    messages = [Message("system", task)]
    for example in re.split(r"(?<=\})\n\n", examples):
        asked, _, reply = example.rpartition("delta state: ")
        messages += [Message("user", f"{asked}delta state:"), Message("assistant", reply)]
    return (*messages[:-1], Message("assistant", messages[-1].content, is_kept=True))
