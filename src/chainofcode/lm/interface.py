"""The `LM` protocol: the messages that a language model accepts and the completions that it returns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from ..errors import LMError

if TYPE_CHECKING:
    from .batches import BatchOptions

_CHARS_PER_TOKEN = 4
_IMAGE_TOKENS = 1500  # about as many as vendors count for a photograph
_MAX_TOKENS = 1_000_000_000  # of one request


class Image(msgspec.Struct, frozen=True):
    """An image in a message. `media_type`, such as `image/png`, is detected from its first bytes."""

    data: bytes
    media_type: str


class Message(msgspec.Struct, frozen=True):
    """One part of a conversation. Consecutive messages of the same role are one turn.

    The next request is likely to repeat all parts but the last, so models may cache them.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    is_kept: bool = False  # many requests share the conversation up to here: worth caching on disk
    images: tuple[Image, ...] = ()  # only in user turns, for models with `has_images`


def turns(messages: Sequence[Message]) -> list[Message]:
    """Join the texts of each turn, separated by an empty line."""
    return [
        Message(role, "\n\n".join(part.content for part in parts))
        for role, parts in itertools.groupby(messages, key=lambda message: message.role)
    ]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cost of requests. `dollars` is None if the price is unknown, and 0 if it is free.

    `cached_tokens` is the part of `prompt_tokens` that came from a cache.
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


def bounded_tokens(reported: object, estimate: int = 0) -> int:
    """Return the token count that an endpoint reports, within bounds, so that no count lowers the spending.

    Without a positive number, return the estimate: budgets also hold for endpoints that report nothing.
    """
    return int(min(reported, _MAX_TOKENS)) if isinstance(reported, (int, float)) and reported > 0 else estimate


def estimated_tokens(text: str) -> int:
    return math.ceil(len(text) / _CHARS_PER_TOKEN)


class Token(msgspec.Struct, frozen=True):
    """A token of a reply, with the log probabilities of the likeliest tokens at its position, including its own.

    Some endpoints send NaN and infinities, which JSON cannot represent: they are dropped. Values above 0 become 0.
    """

    text: str
    alternatives: dict[str, float] = {}

    def __post_init__(self) -> None:
        if not all(-math.inf < logprob <= 0 for logprob in self.alternatives.values()):
            known = {text: min(logprob, 0.0) for text, logprob in self.alternatives.items() if math.isfinite(logprob)}
            msgspec.structs.force_setattr(self, "alternatives", known)


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reply of a model. If one request returns several replies, the first carries its usage."""

    text: str
    usage: Usage = Usage(requests=1)
    seconds: float = 0.0
    finish_reason: str = "stop"
    tokens: tuple[Token, ...] = ()  # if log probabilities were requested and the endpoint returns them
    is_cached: bool = False  # no request was made


@runtime_checkable
class LM(Protocol):
    """A language model. Subclass it to get the defaults; `as_lm` adds them to an object that lacks them."""

    name: str
    in_flight: int = 1  # how many requests it accepts at once
    rows: int = 1  # how many calls of one function to put into one prompt
    has_logprobs: bool = False  # whether `complete` accepts `logprobs`
    has_effort: bool = False  # whether `complete` accepts `is_quick`, for requests that need no reasoning
    has_images: bool = False  # whether messages may have images
    has_batches: bool = False  # whether `defer` is possible: half the price, replies within a day
    has_stream: bool = False  # whether `complete` accepts `on_text`: called with the reply so far, whenever it grows
    is_small: bool = False  # whether it gets shorter prompts and more examples
    version: str = ""  # distinguishes models of the same name in caches, for example by endpoint

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
        logprobs: bool = False,
    ) -> list[Completion]:
        """Return `n` completions of a conversation, with the log probabilities of their tokens if `logprobs`."""
        ...

    async def prepare(self, messages: Sequence[Message] = ()) -> None:
        """Do now what the first request would wait for: download, load, read the start of a conversation."""
        return

    def estimate(self, messages: Sequence[Message]) -> Usage:
        """Estimate the cost of a cancelled request from its prompt: how much the model wrote is unknown."""
        characters = sum(len(message.content) for message in messages)
        images = sum(len(message.images) for message in messages)
        return Usage(requests=1, prompt_tokens=characters // _CHARS_PER_TOKEN + images * _IMAGE_TOKENS)

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        """Whether a shared prefix of `longer` tokens is cheaper than a shorter one of `tokens` without caching."""
        return False

    def defer(self, options: BatchOptions) -> None:
        """Send all later requests in batches. Raises LMError if the model has no batch endpoint."""
        raise LMError(f"{self.name} has no batch endpoint")

    async def problem(self) -> str:
        """Return why requests would fail now; empty if no reason is known. This costs no tokens and no money."""
        return ""

    def close(self) -> None:
        """Release resources, such as a process or a file. Closing twice is safe."""
        return


def as_lm(given: object) -> LM:
    """Return a model with every attribute of `LM`. An object needs only a `name` and a method `complete`."""
    if isinstance(given, LM):
        return given
    if hasattr(given, "name") and hasattr(given, "complete"):
        return _MinimalLM(given)
    raise TypeError(f"expected a model, got {type(given).__name__}: connect('local:…') returns one")


_OPTIONAL = (
    *("in_flight", "rows", "has_logprobs", "has_effort", "has_images", "has_batches", "has_stream", "is_small"),
    *("version", "prepare", "prefers_longer", "defer", "problem", "close"),
)


class _MinimalLM(LM):
    """A model around an object that lacks some attributes of `LM`."""

    def __init__(self, given: Any) -> None:
        self._given, self.name = given, given.name
        for name in _OPTIONAL:
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
        self.has_logprobs, self.has_effort = lm.has_logprobs, lm.has_effort
        self.has_images, self.has_stream, self.has_batches = lm.has_images, lm.has_stream, lm.has_batches
        self.is_small, self.version = lm.is_small, lm.version

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await self._lm.complete(messages, **options)

    async def prepare(self, messages: Sequence[Message] = ()) -> None:
        await self._lm.prepare(messages)

    def estimate(self, messages: Sequence[Message]) -> Usage:
        return self._lm.estimate(messages)

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        return self._lm.prefers_longer(tokens, longer)

    def defer(self, options: BatchOptions) -> None:
        self._lm.defer(options)
        self.in_flight = self._lm.in_flight

    async def problem(self) -> str:
        return await self._lm.problem()

    def close(self) -> None:
        self._lm.close()
