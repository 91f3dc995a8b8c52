"""What the tests share: where the given cases lie, and one way to run a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def shared(path: str) -> Path:
    """A file of the shared test material; skips the test where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"the shared test material has no {path} here")
    return found


def records(path: str) -> list[dict[str, Any]]:
    if not (SHARED / path).exists():
        return []
    return [json.loads(line) for line in (SHARED / path).read_text(encoding="utf-8").splitlines()]
