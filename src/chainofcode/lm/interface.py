"""What a language model is: the `LM` protocol, the messages it takes, the completions it returns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec


class Message(msgspec.Struct, frozen=True):
    """One part of a conversation. Consecutive messages of the same role are one turn.

    All parts but the last are likely to come again with the next request: models may cache them.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    is_kept: bool = False  # the conversation up to here comes with many requests: worth caching on disk


def turns(messages: Sequence[Message]) -> list[Message]:
    """Join the parts of each turn, separated by an empty line."""
    return [
        Message(role, "\n\n".join(part.content for part in parts))
        for role, parts in itertools.groupby(messages, key=lambda message: message.role)
    ]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What requests cost. `dollars` is None when the price is unknown, which is not the same as nothing.

    `cached_tokens` are those of `prompt_tokens` that were not evaluated again.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float | None = 0.0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        is_priced = self.dollars is not None and other.dollars is not None
        return Usage(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if is_priced else None,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


class Completion(msgspec.Struct, frozen=True):
    """One reply of a model. The usage of a request with several replies is that of its first."""

    text: str
    usage: Usage = Usage(requests=1)
    seconds: float = 0.0
    finish_reason: str = "stop"


@runtime_checkable
class LM(Protocol):
    """A language model. Subclass it to get the defaults; `as_lm` adds them to an object without."""

    name: str
    in_flight: int = 1  # how many requests it takes at once
    rows: int = 1  # how many calls of one function to put into one prompt

    @property
    def is_small(self) -> bool:
        """Whether it gets shorter prompts and more examples, as models on a person's machine do."""
        return self.name.startswith(("local:", "ollama:"))

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        temperature: float = 0.0,
        n: int = 1,
        seed: int | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a conversation."""
        ...

    def close(self) -> None:
        """Free what it holds: a process, a file. Closing twice does no harm."""
        return


def as_lm(given: object) -> LM:
    """Return a model with every attribute of `LM`. An object needs only a `name` and a method `complete`."""
    if isinstance(given, LM):
        return given
    if hasattr(given, "name") and hasattr(given, "complete"):
        return _MinimalLM(given)
    raise TypeError(f"a {type(given).__name__} cannot be asked: give a model, as connect('local:…') makes it")


class _MinimalLM(LM):
    """A model around an object that lacks some attributes of `LM`."""

    def __init__(self, given: Any) -> None:
        self._given, self.name = given, given.name
        for name in ("in_flight", "rows", "close"):
            if hasattr(given, name):
                setattr(self, name, getattr(given, name))

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        replies: list[Completion] = await self._given.complete(messages, **options)
        return replies


class Around(LM):
    """A model that passes everything on to another: the base of wrappers, which override `complete`."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm = as_lm(lm)
        self.name, self.in_flight, self.rows = lm.name, lm.in_flight, lm.rows

    @property
    def is_small(self) -> bool:
        return self._lm.is_small

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **options)

    def close(self) -> None:
        self._lm.close()
