"""Models by name: `provider:model`. Providers are imported on use: start-up time counts, and a run needs one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import LMError
from .interface import LM

if TYPE_CHECKING:
    from .weights import Progress

PROVIDERS = {"openai": "MODEL", "anthropic": "MODEL", "ollama": "MODEL", "local": "MODEL", "scripted": "FILE"}
_OLLAMA_IN_FLIGHT = 4  # Ollama's own default; it queues the rest


def connect(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    progress: Progress = lambda done, total, what: None,
) -> LM:
    """Return a model by `provider:model`. Nothing is requested or loaded yet.

    `openai:gpt-4o-mini` is any endpoint of that protocol (`OPENAI_BASE_URL`, `OPENAI_API_KEY`), `anthropic:…` Claude
    (`ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`), `ollama:llama3.2` a model in Ollama (`OLLAMA_HOST`),
    `local:qwen2.5-coder-1.5b` or `local:PATH.gguf` runs in a child process, `scripted:PATH` reads replies from a
    file. `progress` is called during downloads and loading.
    """
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        kinds = ", ".join(f"{kind}:{what}" for kind, what in PROVIDERS.items())
        raise LMError(f"there is no model {name!r}: a model is one of {kinds}")
    if provider in ("local", "scripted"):
        for option, given in (("base URL", base_url), ("key", api_key)):
            if given is not None:
                raise LMError(f"{name} takes no {option}: it is not asked over a network")
    if provider == "local":
        from .local import LocalLM

        return LocalLM(model, progress=progress)
    if provider == "scripted":
        from .scripted import read_script

        return read_script(model)
    if provider == "ollama":
        return _ollama(model, base_url, api_key)
    return _vendor(provider, model, base_url, api_key)


def _vendor(provider: str, model: str, base_url: str | None, api_key: str | None) -> LM:
    """A model of a vendor, or of an endpoint that speaks its protocol. Only the vendor itself requires a key."""
    from .anthropic import AnthropicLM
    from .openai import OpenAILM
    from .wrappers import Retried

    variable = f"{provider.upper()}_API_KEY"
    is_vendor = not (base_url or os.environ.get(f"{provider.upper()}_BASE_URL"))
    if is_vendor and not (api_key or os.environ.get(variable)):
        raise LMError(f"{provider}:{model} needs a key: put it into {variable}, or name another endpoint (--base-url)")
    made = AnthropicLM if provider == "anthropic" else OpenAILM
    return Retried(made(model, base_url=base_url, api_key=api_key))


def _ollama(model: str, base_url: str | None, api_key: str | None) -> LM:
    from .choose import ollama_url
    from .openai import OpenAILM
    from .wrappers import Limited, Retried

    base = base_url.rstrip("/").removesuffix("/v1") if base_url else ollama_url()
    lm = OpenAILM(model, base_url=f"{base}/v1", api_key=api_key or "ollama", name=f"ollama:{model}")
    return Retried(Limited(lm, in_flight=_OLLAMA_IN_FLIGHT))
