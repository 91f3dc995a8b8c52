"""`python tests/ordinary_user.py` (as root): run some of the tests, and the README's first command, as another user.

A real user: setpriv changes the user id, without a namespace. The user gets a copy of the project, and its own home
directory and environment, because it may read neither root's home directory nor root's Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 30_000 + os.getpid() % 10_000  # without other processes, which signals of its tests could reach
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
# What the tests in `ORDINARY` (conftest.py) import: a tenth of the size of [dev].
PACKAGES = "duckdb hypothesis matplotlib numpy openpyxl pandas pyarrow pytest pytest-xdist PyYAML quickjs-ng sympy"
WORKERS = (os.cpu_count() or 1) + 1
TESTS_SECONDS, COMMAND_SECONDS = 1200, 1200


def main() -> None:
    if os.geteuid() != 0:
        print("not root: the other tests have run as an ordinary user already")
        return
    if shutil.which("setpriv") is None:
        sys.exit("setpriv is missing (Debian: apt-get install util-linux)")
    interpreter = find_interpreter()
    with tempfile.TemporaryDirectory(prefix="coc-user-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        project, home = place / "project", place / "home"
        (place / "tmp").mkdir()
        copy_project(project)
        home.mkdir()
        python = make_environment(place / "environment", interpreter, project)
        for path in (project, home, place / "tmp"):
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(path)], check=True)
        tests = [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", str(WORKERS), "--dist", "worksteal"]
        run_as_user([*tests, "-m", "ordinary", *sys.argv[1:]], project, home, TESTS_SECONDS)
        print(f"$ {readme_command()}", flush=True)
        output = run_as_user(["bash", "-c", readme_command()], project, home, COMMAND_SECONDS, first=interpreter)
        print(output)
        if "2" not in output.splitlines():
            sys.exit("the README's first command did not print the answer of the README")


def find_interpreter() -> str:
    """Find a Python of this version that another user can run, with its own libraries."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        described = [candidate, "-I", "-c", "import ssl, sys, venv; print(sys.version, sys.base_prefix)"]
        found = [
            subprocess.run([*prefix, *described], capture_output=True, text=True, check=False, cwd="/")
            for prefix in ([], AS_USER)
            if os.path.exists(candidate)
        ]
        if found and all(done.returncode == 0 for done in found) and found[0].stdout == found[1].stdout:
            return candidate
    sys.exit(f"no {name} that other users can run (Debian: apt-get install python3-venv)")


def copy_project(target: Path) -> None:
    """Copy the files of the project, without environments and caches."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def make_environment(directory: Path, interpreter: str, project: Path) -> str:
    """Make a virtual environment with what the tests need, and return its Python."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--seed", "--python", interpreter, str(directory)], check=True)
    python = str(directory / "bin" / "python")
    install = [*uv, "pip", "install", "--quiet", "--python", python, "--constraint", str(ROOT / "requirements.txt")]
    subprocess.run([*install, "--editable", f"{project}[server]", *PACKAGES.split()], check=True)
    return python


def readme_command() -> str:
    """Return the first command of the README."""
    found = re.search(r"^```bash\n(.+?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    if found is None:
        sys.exit("the README has no command")
    return found[1]


def run_as_user(command: list[str], project: Path, home: Path, seconds: float, *, first: str = "") -> str:
    """Run a command as the user; `first` is the Python that its `python3` is. Print its output if it fails."""
    shims = home / "bin"
    if first:
        shims.mkdir()
        (shims / "python3").symlink_to(first)
    removed = ("COC_", "OPENAI_", "ANTHROPIC_", "XDG_", "VIRTUAL_ENV", "PYTHON")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    variables |= {
        "HOME": str(home),
        "TMPDIR": str(home.parent / "tmp"),
        "PATH": f"{shims}:/usr/local/bin:/usr/bin:/bin",
    }
    quiet = bool(first)
    done = subprocess.run(
        [*AS_USER, *command],
        cwd=project,
        env=variables,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout or "")
        sys.exit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    main()
