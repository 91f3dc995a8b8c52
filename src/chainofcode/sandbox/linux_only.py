"""The error of sandboxes that need Linux. On other systems, it says where programs can run instead."""

from __future__ import annotations

import sys

from ..errors import SandboxError

IMAGE = "python:3.13-slim"  # one that guests can run in


def require_linux(what: str) -> None:
    """Raise SandboxError on macOS and Windows."""
    if sys.platform != "linux":
        raise SandboxError(f"{what} works on Linux only; {remedy()}")


def remedy() -> str:
    """What to do on this system to run programs."""
    here = "run coc in WSL" if sys.platform == "win32" else f"use --sandbox docker:{IMAGE} (or podman)"
    return f"{here}, or set COC_SANDBOX to the URL of a Linux machine that runs `coc serve --sandbox-only`"
