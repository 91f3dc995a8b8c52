"""A model with prepared replies, or replies from a function: for tests, demos and replays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import msgspec

from ..errors import InputError, LMError
from ..platforms import read_whole
from .interface import LM, Completion, Message, Usage
from .reply_stream import OnText


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply to every request whose last message contains the text `when`. Only the last part of a turn counts."""

    when: str
    reply: str
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0  # how long the reply takes

    async def write(self, on_text: OnText | None) -> str:
        """Return the reply after `seconds`; meanwhile, stream it in pieces."""
        for piece in range(1, _PIECES + 1):
            await asyncio.sleep(self.seconds / _PIECES)
            if on_text is not None:
                on_text(self.reply[: len(self.reply) * piece // _PIECES])
        return self.reply


_PIECES = 8  # in which a reply with a `when` is streamed
_IN_FLIGHT = 64  # if no replies are used in order
_line: msgspec.json.Decoder[str | When] = msgspec.json.Decoder(str | When)


class ScriptedLM(LM):
    """Returns replies in order, or those of a function of the conversation. `requests` records the conversations.

    `whens` take precedence: a request gets the reply of the first that matches. Replies in order need `in_flight` 1.
    Set `keeps_requests=False` in a process that runs for a long time.
    """

    def __init__(
        self,
        replies: Iterable[str] | Callable[[Sequence[Message]], str],
        name: str = "scripted",
        whens: Sequence[When] = (),
        in_flight: int = 1,
        keeps_requests: bool = True,
    ) -> None:
        self.name, self.in_flight, self.has_images, self.has_stream = name, in_flight, True, True
        self.requests: list[tuple[Message, ...]] = []
        self._requested, self._taken, self._keeps_requests = 0, 0, keeps_requests
        self._whens = whens
        self._function = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)

    async def complete(
        self, messages: Sequence[Message], *, n: int = 1, on_text: OnText | None = None, **options: Any
    ) -> list[Completion]:
        self._requested += 1
        if self._keeps_requests:
            self.requests.append(tuple(messages))
        last = messages[-1].content if messages else ""
        rule = next((rule for rule in self._whens if rule.when in last), None)
        texts = [await rule.write(on_text)] * n if rule is not None else [self._next(messages) for _ in range(n)]
        return [Completion(text, Usage(requests=1, dollars=0.0)) for text in texts]

    def _next(self, messages: Sequence[Message]) -> str:
        if self._function is not None:
            return self._function(messages)
        try:
            reply = next(self._replies)
        except StopIteration:
            why = ': no "when" matches' if self._whens and not self._taken else ""
            raise LMError(f"{self.name} has no reply left for request {self._requested}{why}") from None
        self._taken += 1
        return reply


def read_script(path: str) -> ScriptedLM:
    """Read replies from a file. A line is a JSON string, used in order, or {"when": …, "reply": …, "seconds": 0.5}."""
    try:
        text = read_whole(path).decode()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not UTF-8") from None
    lines = [_read(line, f"{path}, line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    replies = [line for line in lines if isinstance(line, str)]
    whens = [line for line in lines if isinstance(line, When)]
    return ScriptedLM(replies, f"scripted:{path}", whens, 1 if replies else _IN_FLIGHT, keeps_requests=False)


def _read(line: str, where: str) -> str | When:
    try:
        return _line.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f'{where}: expected a JSON string or {{"when": "…", "reply": "…"}} ({error})'
        raise InputError(text) from None
