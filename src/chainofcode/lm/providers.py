"""Models by name: `provider:model`. Providers are imported on use, which keeps start-up fast.

A package can add a provider: an entry point in the group `chainofcode.providers`, named after the provider, is a
function `connect(model, *, base_url=None, api_key=None)` that returns an `LM`.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import ChainOfCodeError, LMError
from .interface import LM, as_lm
from .names import unknown_model

if TYPE_CHECKING:
    from .weights import Progress

ENTRY_POINTS = "chainofcode.providers"
_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/openai"
_OLLAMA_IN_FLIGHT = 4  # Ollama's own default; it queues the rest
_MAX_IN_FLIGHT = 256
_TRUTHS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """The arguments of `connect` without the provider."""

    model: str
    base_url: str | None = None
    api_key: str | None = None
    in_flight: int | None = None
    effort: str = ""
    progress: Progress = field(default=lambda done, total, what: None)


def connect(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    is_small: bool | None = None,
    has_images: bool | None = None,
    in_flight: int | None = None,
    effort: str = "",
    progress: Progress = lambda done, total, what: None,
) -> LM:
    """Return the model `provider:model`. Nothing is requested or loaded yet.

    Providers, to which installed packages may add others:

    - `openai:gpt-4o-mini`: any OpenAI-compatible endpoint (`OPENAI_BASE_URL`, `OPENAI_API_KEY`)
    - `anthropic:…`: Claude (`ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`)
    - `gemini:…`: Gemini (`GEMINI_API_KEY`)
    - `ollama:llama3.2`: a model in Ollama (`OLLAMA_HOST`)
    - `local:qwen2.5-coder-1.5b` or `local:PATH.gguf`: runs in a child process (`local`: the embedded default)
    - `scripted:PATH`: reads replies from a file

    Options:

    - `is_small`: whether the model gets shorter prompts and more examples (None: `COC_SMALL`, else by provider)
    - `has_images`: whether it sees images (None: `COC_IMAGES`, else by its name, see `vision.py`)
    - `in_flight`: how many requests it accepts at once
    - `effort`: how much an OpenAI-compatible model reasons, such as `low` (empty: as little as possible for values)
    - `progress`: called during downloads and loading
    """
    name = resolved(name)
    provider, _, model = name.partition(":")
    wanted = _Wanted(
        model=model, base_url=base_url, api_key=api_key, in_flight=in_flight, effort=effort, progress=progress
    )
    make = _BUILT_IN.get(provider)
    lm = make(wanted) if make is not None else _of_package(provider, wanted)
    small = _flag("COC_SMALL") if is_small is None else is_small
    if small is not None:
        lm.is_small = small
    seeing = _flag("COC_IMAGES") if has_images is None else has_images
    if seeing is not None and provider != "local":  # the embedded server accepts only text
        lm.has_images = seeing
    if in_flight is not None and provider not in ("local", "scripted"):
        lm.in_flight = in_flight
    return lm


def resolved(name: str) -> str:
    """Return the full name of a model, even for `local` alone. Raises LMError, with suggestions, if it is unknown."""
    if name == "local":
        from .choose import embedded_model

        return embedded_model()[0]
    provider, _, model = name.partition(":")
    if not model or provider not in providers():
        from .weights import MODELS

        raise LMError(unknown_model(name, providers(), MODELS))
    return name


def providers() -> list[str]:
    """Return the names of all providers: those built in, then those of installed packages."""
    added = {entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return [*_BUILT_IN, *sorted(added - _BUILT_IN.keys())]


def _flag(variable: str) -> bool | None:
    text = os.environ.get(variable, "").strip().lower()
    if text and text not in _TRUTHS:
        raise LMError(f"{variable} must be 1 or 0, not {text[:100]!r}")
    return _TRUTHS.get(text)


def _of_package(provider: str, wanted: _Wanted) -> LM:
    """Return a model of a provider that an installed package adds."""
    (entry, *others) = importlib.metadata.entry_points(group=ENTRY_POINTS, name=provider)
    packages = ", ".join(sorted({found.dist.name for found in (entry, *others) if found.dist is not None}))
    if others:
        raise LMError(f"{len(others) + 1} packages add the provider {provider!r}: {packages}; uninstall all but one")
    try:
        made = entry.load()(wanted.model, base_url=wanted.base_url, api_key=wanted.api_key)
        lm = as_lm(made)
    except ChainOfCodeError:
        raise
    except Exception as error:  # the package's code
        text = f"the provider {provider!r} of the package {packages} failed: {type(error).__name__}: {error}"
        raise LMError(text) from error
    if not str(lm.name).startswith(f"{provider}:"):  # traces, caches and budgets tell models apart by their names
        raise LMError(
            f"the provider {provider!r} of the package {packages} named its model {lm.name!r}; "
            f"the name must begin with '{provider}:'"
        )
    return lm


def _local(wanted: _Wanted) -> LM:
    from .local import LocalLM

    _check_offline("local", wanted)
    return LocalLM(wanted.model, progress=wanted.progress)


def _scripted(wanted: _Wanted) -> LM:
    from .scripted import read_script

    _check_offline("scripted", wanted)
    return read_script(wanted.model)


def _check_offline(provider: str, wanted: _Wanted) -> None:
    for option, given in (("base URL", wanted.base_url), ("key", wanted.api_key)):
        if given is not None:
            raise LMError(f"{provider}:{wanted.model} takes no {option}: it does not use the network")


def _openai(wanted: _Wanted) -> LM:
    from .openai import OpenAILM
    from .wrappers import Retried

    _check_key("openai", wanted)
    return Retried(OpenAILM(wanted.model, base_url=wanted.base_url, api_key=wanted.api_key, effort=wanted.effort))


def _gemini(wanted: _Wanted) -> LM:
    """Return a Gemini model, through its OpenAI-compatible endpoint, which accepts schemas."""
    from .dialects import GEMINI
    from .openai import OpenAILM
    from .wrappers import Retried

    _check_key("gemini", wanted)
    lm = OpenAILM(
        wanted.model,
        dialect=GEMINI,
        effort=wanted.effort,
        base_url=wanted.base_url or os.environ.get("GEMINI_BASE_URL") or _GEMINI_URL,
        api_key=wanted.api_key or os.environ.get("GEMINI_API_KEY") or "none",  # never the key of OpenAI
        name=f"gemini:{wanted.model}",
    )
    lm.key_variable, lm.has_batches = "GEMINI_API_KEY", False
    return Retried(lm)


def _anthropic(wanted: _Wanted) -> LM:
    from .anthropic import AnthropicLM
    from .wrappers import Retried

    _check_key("anthropic", wanted)
    return Retried(AnthropicLM(wanted.model, base_url=wanted.base_url, api_key=wanted.api_key))


def _check_key(provider: str, wanted: _Wanted) -> None:
    """Raise LMError if the vendor's own endpoint lacks a key. Other endpoints with its protocol may need none."""
    variable = f"{provider.upper()}_API_KEY"
    is_vendor = not (wanted.base_url or os.environ.get(f"{provider.upper()}_BASE_URL"))
    if is_vendor and not (wanted.api_key or os.environ.get(variable)):
        name = f"{provider}:{wanted.model}"
        raise LMError(f"{name} needs a key: set {variable}, or choose another endpoint with --base-url")


def _ollama(wanted: _Wanted) -> LM:
    from .choose import ollama_url
    from .openai import OpenAILM
    from .wrappers import Limited, Retried

    base = wanted.base_url.rstrip("/").removesuffix("/v1") if wanted.base_url else ollama_url()
    name = f"ollama:{wanted.model}"
    key = wanted.api_key or "ollama"
    lm = OpenAILM(wanted.model, base_url=f"{base}/v1", api_key=key, name=name, effort=wanted.effort)
    lm.is_small, lm.lists_models, lm.has_batches, lm.in_flight = True, True, False, _MAX_IN_FLIGHT
    return Retried(Limited(lm, in_flight=wanted.in_flight or _ollama_in_flight()))


def _ollama_in_flight() -> int:
    """Return how many requests Ollama answers at once, from its own environment variable."""
    setting = os.environ.get("OLLAMA_NUM_PARALLEL", "")
    is_number = setting.isdecimal() and 0 < int(setting) <= _MAX_IN_FLIGHT
    return int(setting) if is_number else _OLLAMA_IN_FLIGHT


_BUILT_IN: dict[str, Callable[[_Wanted], LM]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "local": _local,
    "scripted": _scripted,
}
