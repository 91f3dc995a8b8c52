"""Names of models, `provider:model`, and suggestions for invalid names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator

_VENDORS = {
    "openai": re.compile(r"gpt-|chatgpt-|o\d(-|$)|codex", re.IGNORECASE),
    "anthropic": re.compile(r"claude", re.IGNORECASE),
    "gemini": re.compile(r"gemini|gemma-\d+-.*-it", re.IGNORECASE),
}
_MAX_SHOWN_CHARS = 100


def unknown_model(name: str, providers: Collection[str], embedded: Collection[str]) -> str:
    """Return the error message for a name without a known provider: suggestions, and the list of providers."""
    kinds = ", ".join(providers)
    likely = list(_likely(name, providers, embedded))
    meant = f"; did you mean {' or '.join(likely)}?" if likely else ""
    return f"unknown model {name[:_MAX_SHOWN_CHARS]!r}{meant} (expected PROVIDER:MODEL; providers: {kinds})"


def _likely(name: str, providers: Collection[str], embedded: Collection[str]) -> Iterator[str]:
    provider, colon, model = name.partition(":")
    if len(name) > _MAX_SHOWN_CHARS or not name.strip() or provider in providers:  # a provider without a model
        return
    near_providers = difflib.get_close_matches(provider, providers, n=1, cutoff=0.75) if colon else []
    vendors = [vendor for vendor, pattern in _VENDORS.items() if vendor in providers and pattern.match(name)]
    if near_providers:
        yield f"{near_providers[0]}:{model}"
    elif name.endswith(".gguf"):
        yield f"local:{name}"
    elif name.endswith(".jsonl"):
        yield f"scripted:{name}"
    elif vendors:
        yield f"{vendors[0]}:{name}"
    elif colon and re.fullmatch(r"[\w.-]+:[\w.-]+", name):  # `llama3.2:1b`: Ollama's names have tags
        yield f"ollama:{name}"
    elif not colon:
        yield from (f"local:{near}" for near in difflib.get_close_matches(name, embedded, n=1, cutoff=0.8))
        yield f"ollama:{name}"
        yield f"openai:{name}"
