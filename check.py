#!/usr/bin/env python3
"""Everything that must hold, in one command: `python3 check.py`.

Makes a virtual environment per Python that the machine has (3.11, 3.12, 3.13; ~/.pyenv/versions is searched too),
installs the project into it, then runs ruff, mypy and the whole test suite on the first of them, and on the others the
tests that depend on the version. Arguments go to pytest; `-m ""` runs all tests on each.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
WANTED = ("3.11", "3.12", "3.13")


def interpreters() -> dict[str, str]:
    """A working interpreter for each wanted version."""
    found: dict[str, str] = {}
    for version in WANTED:
        candidates = [sys.executable, shutil.which(f"python{version}")]
        candidates += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), reverse=True)
        for candidate in filter(None, candidates):
            asked = subprocess.run(
                [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
            )
            if asked.returncode == 0 and asked.stdout.strip() == version:
                found[version] = candidate
                break
    return found


def environment(version: str, interpreter: str) -> Path:
    """The virtual environment's bin directory, set up anew when pyproject.toml has changed."""
    home = ROOT / f".venv-{version}"
    stamp = home / "installed"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        run(interpreter, "-m", "venv", str(home))
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run(*pip, "--editable", f"{ROOT}[dev]")
        stamp.write_text(wanted)
    return home / "bin"


def run(*command: str) -> None:
    print("$", " ".join(Path(part).name if "/bin/" in part else part for part in command), flush=True)
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main() -> None:
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(__doc__)
    found = interpreters()
    if not found:
        sys.exit(f"check.py: no Python of {', '.join(WANTED)} on this machine")
    for version, interpreter in found.items():
        print(f"\n== Python {version}", flush=True)
        tools = environment(version, interpreter)
        is_first = version == next(iter(found))
        if is_first:
            run(str(tools / "ruff"), "check", ".")
            run(str(tools / "ruff"), "format", "--check", ".")
            run(str(tools / "mypy"))
        chosen = () if is_first else ("-m", "not once")
        run(str(tools / "python"), "-m", "pytest", "-n", "auto", *chosen, *sys.argv[1:])
    missing = [version for version in WANTED if version not in found]
    print(
        f"\nall well on Python {', '.join(found)}" + (f"; not on this machine: {', '.join(missing)}" if missing else "")
    )


if __name__ == "__main__":
    main()
