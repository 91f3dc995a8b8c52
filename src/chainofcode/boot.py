"""The entry point of child processes: `python boot.py sandbox.zygote 3 4` calls `main("3", "4")` in that module.

Modules are loaded without the `__init__` of their packages, so that a guest imports only what it needs.
"""

import importlib
import os
import sys
import types

_PACKAGES = (
    "",
    "languages",
    "languages.database",
    "languages.database.guest",
    "languages.guest",
    "languages.javascript",
    "languages.javascript.guest",
    "languages.python",
    "languages.python.compiler",
    "languages.python.guest",
    "languages.python.guest.follow",
    "languages.python.guest.run",
    "languages.python.guest.shadow",
    "languages.sql",
    "languages.sql.compiler",
    "languages.sql.guest",
    "methods",
    "sandbox",
    "values",
)
ROOT = os.path.dirname(os.path.abspath(__file__))
FILES = (os.path.abspath(__file__), os.path.join(ROOT, "languages"), os.path.join(ROOT, "values"))  # that guests need


def boot_command(python: str, module: str, *arguments: str) -> list[str]:
    """The command that runs `main` of a module, in an interpreter that finds only its standard library."""
    return [python, "-s", "-P", "-S", "-X", "utf8", os.path.abspath(__file__), module, *arguments]


def module_path() -> str:
    """The value of PYTHONPATH for other child processes: this process's own path, without the working directory.

    A file in the working directory must not run just because it has the name of a module.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed
        here = ""
    kept = [entry for entry in sys.path if os.path.isabs(entry) and os.path.realpath(entry) != here]
    home = os.path.dirname(ROOT)  # last, in case it is the working directory
    return os.pathsep.join(kept if home in kept else [*kept, home])


def _declare_packages() -> None:
    for name in _PACKAGES:
        package = types.ModuleType(f"chainofcode.{name}".rstrip("."))
        package.__path__ = [os.path.join(ROOT, *name.split("."))]
        sys.modules[package.__name__] = package


if __name__ == "__main__":
    _declare_packages()
    importlib.import_module(f"chainofcode.{sys.argv[1]}").main(*sys.argv[2:])
