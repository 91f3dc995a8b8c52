"""What OpenAI-compatible endpoints support beyond the common protocol, according to their documentation.

OpenAI: platform documentation as of November 2026. Gemini: ai.google.dev, OpenAI compatibility, as of November 2026.
Other servers (vLLM, SGLang, llama.cpp, Ollama…) get the common part: `max_tokens`, `response_format` with a JSON
schema, log probabilities, `n` and seeds. Ollama ignores `n`, and llama.cpp writes as many replies as it has slots:
`OpenAILM` requests the missing replies one by one. vLLM removed its own `guided_json` in 0.12; `response_format` works
in all versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Keywords that strict schemas may have, and those that can be dropped: the value is checked again in any case.
_KNOWN = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description",
    "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems",
    "maxItems",
}  # fmt: skip
_DROPPED = {"minLength", "maxLength", "uniqueItems", "default", "title"}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What an endpoint accepts."""

    max_tokens: str = "max_tokens"  # the name of the limit
    is_strict: bool = False  # `strict: true` guarantees the schema
    efforts: tuple[str, ...] = ()  # reasoning efforts, the lowest first: some models accept only the later ones
    has_cache_key: bool = False  # `prompt_cache_key` routes requests with the same prefix to the same machine
    cache_minimum: int = 0  # tokens of the shortest prefix that is cached; 0: unknown, or no minimum
    marked: str = ""  # pattern of the models that cache prefixes only up to `prompt_cache_breakpoint`


PLAIN = Dialect()
OPENAI = Dialect(
    max_tokens="max_completion_tokens",
    is_strict=True,
    efforts=("none", "minimal", "low"),
    has_cache_key=True,
    cache_minimum=1024,
    marked=r"gpt-(5\.[6-9]|[6-9])",
)
GEMINI = Dialect(efforts=("none", "minimal", "low"), cache_minimum=2048)  # 4,096 from Gemini 3 on


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema for `strict`; None if `strict` cannot express it: objects with any keys, values of any type."""
    if schema.keys() - _KNOWN - _DROPPED or not schema.keys() & {"type", "enum", "const", "anyOf"}:
        return None
    strict = {name: value for name, value in schema.items() if name not in _DROPPED}
    parts: list[tuple[str, Any]] = []
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(fields):
            return None
        strict["properties"] = {name: strict_form(field) for name, field in fields.items()}
        parts += strict["properties"].items()
    elif schema.get("type") == "array":
        strict["items"] = strict_form(schema.get("items", {}))
        parts.append(("items", strict["items"]))
    if "anyOf" in schema:
        strict["anyOf"] = [strict_form(choice) for choice in schema["anyOf"]]
        parts += [("anyOf", choice) for choice in strict["anyOf"]]
    return None if any(part is None for _, part in parts) else strict
