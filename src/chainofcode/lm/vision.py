"""Which models see images: a table of names, from the documentation of their vendors as of November 2026.

Models that are not listed count as text-only: an error before the request is better than an answer about an image that
the model never saw. `connect(…, has_images=True)`, `--images` and `COC_IMAGES` override the table.
"""

from __future__ import annotations

import re

_BLIND = re.compile(
    r"audio|realtime|transcribe|tts|embed|-search|rerank"  # variants for other tasks
    r"|o1-(mini|preview)|o3-mini|gpt-4-turbo-preview"
    r"|gemma-?3:?-?(270m|1b)|gemma-?3n"
)
_SEEING = re.compile(
    r"(^|/)(chatgpt-4o|gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-4-vision|gpt-[5-9]|o[134](-|$))"
    r"|(^|/)claude-(?!instant|[12])"
    r"|(^|/)gemini-|gemma-?[34]"
    r"|vision|llava|moondream|minicpm-v|pixtral|llama-?4|mistral-small-?3\.[12]"
    r"|(^|[-./\d])vl([-:]|$)|internvl"
)


def sees_images(model: str) -> bool:
    """Return whether a model accepts images, by its name at the provider, such as `gpt-4o` or `qwen2.5vl:7b`."""
    name = model.lower()
    return _SEEING.search(name) is not None and _BLIND.search(name) is None
