"""A reply in OpenAI's chat format, as remote endpoints and the embedded llama.cpp server send it."""

from __future__ import annotations

from typing import Any

import msgspec

from .interface import Token

MAX_ALTERNATIVES = 20  # log probabilities per token; the most that OpenAI returns


class _Text(msgspec.Struct):
    content: str | None = None


class _Alternative(msgspec.Struct):
    token: str
    logprob: float


class _TokenLogprobs(msgspec.Struct):
    token: str
    logprob: float
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprobs] | None = None


class ChatChoice(msgspec.Struct):
    """One of the completions in a reply."""

    message: _Text
    finish_reason: str | None = None
    logprobs: Any = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens with their log probabilities; empty if these are malformed: the reply stays valid."""
        try:
            told = msgspec.convert(self.logprobs, _Logprobs | None)
        except msgspec.ValidationError:
            return ()
        return tuple(map(_token, (told.content if told is not None else None) or ()))


def _token(told: _TokenLogprobs) -> Token:
    others = (told.top_logprobs or [])[:MAX_ALTERNATIVES]  # some endpoints send more than they were asked for
    return Token(told.token, {told.token: told.logprob} | {other.token: other.logprob for other in others})


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ChatTokens(msgspec.Struct):
    """The token counts of a reply."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None

    @property
    def cached_tokens(self) -> int:
        return (self.prompt_tokens_details or _Details()).cached_tokens or 0

    @property
    def cache_write_tokens(self) -> int:
        return (self.prompt_tokens_details or _Details()).cache_write_tokens or 0


class ChatReply(msgspec.Struct):
    """The body of a reply."""

    choices: list[ChatChoice]
    usage: ChatTokens | None = None
