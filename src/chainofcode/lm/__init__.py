"""Asking language models. Knows nothing of programs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from ..errors import LMError

if TYPE_CHECKING:
    from .weights import Progress

PROVIDERS = {"openai": "MODEL", "anthropic": "MODEL", "ollama": "MODEL", "local": "MODEL", "scripted": "FILE"}


class Message(msgspec.Struct, frozen=True):
    """One part of a conversation: messages of one role that follow each other are one turn, given in parts.

    What comes before the last part is likely to come again with the next request: models keep what they can of it.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    is_kept: bool = False  # the conversation up to here comes again and again: worth keeping on disk


def turns(messages: Sequence[Message]) -> list[Message]:
    """A conversation with the parts of each turn joined, an empty line between them."""
    return [
        Message(role, "\n\n".join(part.content for part in parts))
        for role, parts in itertools.groupby(messages, key=lambda message: message.role)
    ]


def is_small(lm: LM) -> bool:
    """Whether a model runs on a person's machine: it gets fewer words and more examples."""
    return lm.name.startswith(("local:", "ollama:"))


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
        known = self.dollars is not None and other.dollars is not None
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            self.cached_tokens + other.cached_tokens,
        )


class Completion(msgspec.Struct, frozen=True):
    text: str
    usage: Usage = Usage(requests=1)
    seconds: float = 0.0
    finish_reason: str = "stop"


_VENDORS = ("anthropic", "openai")
_OLLAMA_IN_FLIGHT = 4  # what it does at once by itself; the rest would wait there


@runtime_checkable
class LM(Protocol):
    """A language model. One with an attribute `in_flight` above 1 is asked for that many things at once."""

    name: str

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
        """`n` completions of a conversation."""
        ...


def connect(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    progress: Progress = lambda done, total, what: None,
) -> LM:
    """A model by `provider:model`. Nothing is asked or loaded yet.

    `openai:gpt-4o-mini` is any endpoint of that protocol (`OPENAI_BASE_URL`, `OPENAI_API_KEY`), `anthropic:…` Claude
    (`ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`), `ollama:llama3.2` one on this machine (`OLLAMA_HOST`),
    `local:qwen2.5-coder-1.5b` or `local:PATH.gguf` runs in a process of ours, `scripted:PATH` reads replies from a
    file. `progress` hears of what takes long on this machine.
    """
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        kinds = ", ".join(f"{kind}:{what}" for kind, what in PROVIDERS.items())
        raise LMError(f"there is no model {name!r}: a model is one of {kinds}")
    for option, given in (("base URL", base_url), ("key", api_key)):
        if given is not None and provider in ("local", "scripted"):
            raise LMError(f"{name} takes no {option}: it is not asked over a network")
    if provider == "local":
        from .local import LocalLM

        return LocalLM(model, progress=progress)
    if provider == "scripted":
        from .scripted import read_script

        return read_script(model)
    return _endpoint(provider, model, base_url, api_key)


def _check_key(provider: str, model: str, base_url: str | None, api_key: str | None) -> None:
    """A vendor is not asked without a key; other endpoints may need none."""
    variable = f"{provider.upper()}_API_KEY"
    is_vendor = not (base_url or os.environ.get(f"{provider.upper()}_BASE_URL"))
    if is_vendor and not (api_key or os.environ.get(variable)):
        raise LMError(f"{provider}:{model} needs a key: put it into {variable}, or name another endpoint (--base-url)")


def _endpoint(provider: str, model: str, base_url: str | None, api_key: str | None) -> LM:
    from .anthropic import AnthropicLM
    from .choose import ollama_url
    from .openai import OpenAILM
    from .wrappers import Limited, Retried

    if provider in _VENDORS:
        _check_key(provider, model, base_url, api_key)
    if provider == "anthropic":
        return Retried(AnthropicLM(model, base_url=base_url, api_key=api_key))
    if provider == "openai":
        return Retried(OpenAILM(model, base_url=base_url, api_key=api_key))
    base = base_url.rstrip("/").removesuffix("/v1") if base_url else ollama_url()
    ollama = OpenAILM(model, base_url=f"{base}/v1", api_key=api_key or "ollama", name=f"ollama:{model}")
    return Retried(Limited(ollama, in_flight=_OLLAMA_IN_FLIGHT))
