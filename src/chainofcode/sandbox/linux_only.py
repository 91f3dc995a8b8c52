"""The error of sandboxes that need Linux, with the sandboxes that work on other systems."""

from __future__ import annotations

import sys

from ..errors import SandboxError

IMAGE = "python:3.13-slim"  # works for guests


def require_linux(what: str) -> None:
    """Raise SandboxError on macOS and Windows."""
    if sys.platform != "linux":
        raise SandboxError(f"{what} works on Linux only; {remedy()}")


def remedy() -> str:
    """How to run programs on this system, as text."""
    here = "run coc in WSL" if sys.platform == "win32" else f"use --sandbox docker:{IMAGE} (or podman)"
    return f"{here}, or set COC_SANDBOX to the URL of a Linux machine that runs `coc serve --sandbox-only`"
