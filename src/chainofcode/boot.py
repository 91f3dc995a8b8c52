"""The first file of every process: `python boot.py sandbox.zygote 3 4` calls `main("3", "4")` in that module.

Loads modules without running a package's `__init__`, so that a guest imports only what it needs.
"""

import importlib
import os
import sys
import types

_PACKAGES = (
    "",
    "languages",
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
FILES = (os.path.abspath(__file__), os.path.join(ROOT, "languages"), os.path.join(ROOT, "values"))  # that a guest needs


def boot_command(python: str, module: str, *arguments: str) -> list[str]:
    """The command that runs `main` of a module, in an interpreter that reads nothing but its own library."""
    return [python, "-s", "-P", "-S", "-X", "utf8", os.path.abspath(__file__), module, *arguments]


def _declare_packages() -> None:
    for name in _PACKAGES:
        package = types.ModuleType(f"chainofcode.{name}".rstrip("."))
        package.__path__ = [os.path.join(ROOT, *name.split("."))]
        sys.modules[package.__name__] = package


if __name__ == "__main__":
    _declare_packages()
    importlib.import_module(f"chainofcode.{sys.argv[1]}").main(*sys.argv[2:])
