"""Packages from PyPI that conflict with the test environment: installed once into pytest's cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SECONDS = 900


def interpreter_with(cache: pytest.Cache, *packages: str) -> Path:
    """Return the Python of a virtual environment with these packages (`name==version`); skip the test if pip fails."""
    environments = cache.mkdir(f"python-{sys.version_info.major}.{sys.version_info.minor}")
    place = environments / "+".join(packages)
    python, stamp = place / "bin" / "python", place / "installed"
    with (environments / "lock").open("w") as lock:  # several test workers need the same packages
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            shutil.rmtree(place, ignore_errors=True)
            _installed(place, python, packages)
            stamp.touch()
    return python


def _installed(place: Path, python: Path, packages: tuple[str, ...]) -> None:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile", *packages]
    try:
        subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True, timeout=_SECONDS)
        done = subprocess.run(pip, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip took over {_SECONDS} s for {', '.join(packages)}")
    if done.returncode != 0:
        pytest.skip(f"pip cannot install {', '.join(packages)}: {done.stderr.strip()[-300:]}")
