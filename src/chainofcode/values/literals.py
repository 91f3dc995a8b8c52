"""Values as people and programs write them: literals of Python, and JSON. Standard library only."""

from __future__ import annotations

import ast
import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


def read_literal(text: str) -> Any:
    """Return the value of a literal of Python or, with `true`, `false` and `null`, of JSON. Raises ValueError."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
