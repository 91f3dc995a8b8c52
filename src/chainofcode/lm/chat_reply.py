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
            logprobs = msgspec.convert(self.logprobs, _Logprobs | None)
        except msgspec.ValidationError:
            return ()
        return tuple(map(_token, (logprobs.content if logprobs is not None else None) or ()))


def _token(entry: _TokenLogprobs) -> Token:
    others = (entry.top_logprobs or [])[:MAX_ALTERNATIVES]  # some endpoints send more than requested
    return Token(entry.token, {entry.token: entry.logprob} | {other.token: other.logprob for other in others})


class ChatTokens(msgspec.Struct):
    """The token counts of a reply, as the endpoint reports them: read each with `bounded_tokens`."""

    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None

    @property
    def cached_tokens(self) -> Any:
        return self._detail("cached_tokens")

    @property
    def cache_write_tokens(self) -> Any:
        return self._detail("cache_write_tokens")

    def _detail(self, name: str) -> Any:
        details = self.prompt_tokens_details
        return details.get(name) if isinstance(details, dict) else None


class ChatReply(msgspec.Struct):
    """The body of a reply."""

    choices: list[ChatChoice]
    usage: Any = None

    @property
    def tokens(self) -> ChatTokens:
        """The token counts; a reply without them, or with malformed ones, stays valid: it was paid for."""
        return msgspec.convert(self.usage, ChatTokens) if isinstance(self.usage, dict) else ChatTokens()
