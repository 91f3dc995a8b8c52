"""The first file of every process of ours: `python boot.py guest.main 3 4` calls `main("3", "4")` in that module.

Loads modules without running any package, so that a guest imports nothing but what it needs.
"""

import importlib
import os
import sys
import types

if __name__ == "__main__":
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in ("", "program", "guest", "sandbox", "methods"):
        package = types.ModuleType(f"chainofcode.{name}".rstrip("."))
        package.__path__ = [os.path.join(root, name)]
        sys.modules[package.__name__] = package
    importlib.import_module(f"chainofcode.{sys.argv[1]}").main(*sys.argv[2:])
