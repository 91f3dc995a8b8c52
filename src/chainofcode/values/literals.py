"""Read values as people and programs write them: Python literals and JSON. Standard library only."""

from __future__ import annotations

import ast
import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


def read_literal(text: str) -> Any:
    """Return the value of a Python literal or, failing that, of JSON. Raises ValueError."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
