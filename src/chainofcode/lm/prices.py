"""Cost estimates, before any request is made."""

from __future__ import annotations

from ..errors import InputError

BATCH_SHARE = 0.5  # of the usual price, at OpenAI and Anthropic (documentation as of November 2026)


def estimated_dollars(model: str, prompt_tokens: int, written_tokens: int) -> float | None:
    """Return the price of tokens for a model `provider:name`; None if it is unknown."""
    provider, colon, name = model.partition(":")
    if not colon:
        raise InputError(f"invalid model name {model!r} (expected PROVIDER:MODEL)")
    if provider in ("local", "ollama", "scripted"):
        return 0.0
    try:
        from genai_prices import Usage, calc_price  # optional
    except ImportError:
        return None
    try:
        usage = Usage(input_tokens=prompt_tokens, output_tokens=written_tokens)
        return float(calc_price(usage, model_ref=name, provider_id=provider).total_price)
    except LookupError:
        return None
