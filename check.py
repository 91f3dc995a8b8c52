#!/usr/bin/env python3
"""All checks and tests of the project, in one command: `python3 check.py`.

    python3 check.py              what every change must pass: lint, types, tests
    python3 check.py --quick      a contributor's check before each commit: lint, types, fast tests
    python3 check.py --lint       lint and types
    python3 check.py --all        the nightly run: all cases of all tests, on every version
    python3 check.py --coverage   all cases; lists the lines that no test runs, fails if coverage is too low
    python3 check.py -k prose     other arguments go to pytest

Makes a virtual environment for each installed Python (3.11 to 3.14, also in ~/.pyenv/versions) and installs the project
into it. CONTRIBUTING.md describes which cases of each test run, and how long it takes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.txt"
WANTED = ("3.11", "3.12", "3.13", "3.14")
DEV_PACKAGES = (f"{ROOT}[dev]",)
# For the tests that depend on the version: a tenth of the size of [dev].
VERSION_TEST_PACKAGES = (
    f"{ROOT}[server]",
    "hypothesis",
    "matplotlib",
    "numpy",
    "pandas",
    "pytest",
    "pytest-xdist",
    "PyYAML",
    "sympy",
)
WORKERS = (os.cpu_count() or 1) + 1  # a worker often waits for a server; with two more, time limits are missed
COVERAGE = ("coverage", "run", "-m")


def interpreters() -> dict[str, str]:
    """Find a working interpreter for each wanted version."""
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


def environment(version: str, interpreter: str, packages: tuple[str, ...]) -> Path:
    """Return a virtual environment's bin directory; set it up again if pyproject.toml or the lock file changed."""
    home = ROOT / f".venv-{version}"
    stamp = home / "installed"
    facts = [(ROOT / "pyproject.toml").read_bytes(), LOCK.read_bytes(), " ".join(packages).encode()]
    wanted = hashlib.sha256(b"".join(facts)).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        run(interpreter, "-m", "venv", str(home))
        install(home / "bin", "--constraint", str(LOCK), "--editable", *packages)
        stamp.write_text(wanted)
    return home / "bin"


def install(tools: Path, *packages: str) -> None:
    """Install with uv, in a tenth of pip's time; with pip where uv does not reach a package index."""
    python = str(tools / "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    failures = range(1, 256)
    has_uv = run(*pip, "uv", fine=(0, *failures)) == 0
    uv = (python, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    if not has_uv or run(*uv, *packages, fine=(0, *failures)) != 0:
        run(*pip, "--no-compile", *packages)  # not compiled: the tests import a small part of it


def run(*command: str, fine: tuple[int, ...] = (0,)) -> int:
    print("$", " ".join(Path(part).name if "/bin/" in part else part for part in command), flush=True)
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode not in fine:
        sys.exit(done.returncode)
    return done.returncode


def tests(tools: Path, chosen: str, arguments: list[str], *under: str) -> None:
    # The tests of a file share servers and browsers, so they start on one worker; idle workers take tests from others.
    spread = ("-n", str(WORKERS), "--dist", "worksteal")
    run(str(tools / "python"), "-m", *under, "pytest", *spread, "-m", chosen, *arguments, fine=fine_codes(arguments))


def fine_codes(arguments: list[str]) -> tuple[int, ...]:
    """Return the accepted exit codes of pytest: arguments may leave one part without any test (5)."""
    return (0, 5) if arguments else (0,)


def main() -> None:
    parser = argparse.ArgumentParser(
        "check.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="lint, types and fast tests")
    parser.add_argument("--lint", action="store_true", help="lint and types")
    parser.add_argument("--all", action="store_true", help="all cases of all tests")
    parser.add_argument("--coverage", action="store_true", help="measure which lines the tests run")
    wish, arguments = parser.parse_known_args()
    found = interpreters()
    if not found:
        sys.exit(f"check.py: found none of these versions of Python: {', '.join(WANTED)}")
    if wish.all or wish.coverage:
        os.environ["COC_ALL"] = "1"
    first, *others = found
    with ThreadPoolExecutor() as pool:
        packages = DEV_PACKAGES if wish.all else VERSION_TEST_PACKAGES
        made = [pool.submit(environment, version, found[version], packages) for version in others if not wish.quick]
        tools = environment(first, found[first], DEV_PACKAGES)
        run(str(tools / "ruff"), "check", ".")
        run(str(tools / "ruff"), "format", "--check", ".")
        run(str(tools / "mypy"))
        environments = [future.result() for future in made]
    if wish.lint:
        return
    print(f"\n== Python {first}", flush=True)
    tests(tools, "quick" if wish.quick else "not alone", arguments, *(COVERAGE if wish.coverage else ()))
    if wish.coverage:
        run(str(tools / "coverage"), "combine", "--quiet")
        run(str(tools / "coverage"), "report", *(["--fail-under=0"] if arguments else []))
    if wish.quick:
        return
    # These tests measure the response times of servers and pages, so nothing else runs at the same time.
    run(str(tools / "python"), "-m", "pytest", "-m", "alone", *arguments, fine=fine_codes(arguments))
    if not arguments:
        print("\n== as an ordinary user", flush=True)
        run(str(tools / "python"), "tests/ordinary_user.py")
    for version, tools in zip(others, environments, strict=True):
        print(f"\n== Python {version}", flush=True)
        tests(tools, "not alone" if wish.all else "not once", arguments)
    missing = [version for version in WANTED if version not in found]
    print(
        f"\nall checks passed on Python {', '.join(found)}"
        + (f"; not installed: {', '.join(missing)}" if missing else "")
    )


if __name__ == "__main__":
    main()
