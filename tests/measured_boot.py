"""The entry point of guests, zygotes and parsers in a coverage run: runs `boot.py` and records which lines run.

    python measured_boot.py MODULE ARGUMENT…    instead of boot.py
    python measured_boot.py coc ARGUMENT…       the command, with guests that are measured

A guest cannot write files, and the host kills it as soon as it has the answer. So the modules of this package are compiled
with a probe before each statement: it sets a byte in a file that was mapped into memory before the sandbox was set up.
Tracing by the engine or by the program is not affected.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    import ast
    from types import CodeType, ModuleType
    from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE = os.path.join(ROOT, "src", "chainofcode")
_BOOT = os.path.join(_PACKAGE, "boot.py")
_HOME = os.path.join(ROOT, ".coverage-guests")
_LINES = os.path.join(_HOME, "lines")
_OWNER = "COC_LINES_OWNER"  # the process that creates the map and saves it
_READ, _WRITE, _SHARED = 1, 2, 1  # for mmap(2)
PROBED = "_lines_that_ran"  # the variable of a module that holds its part of the map


class LineMap:
    """A byte for each line of each file, shared by all guests. A file gets as many bytes as it has on disk."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}  # path: first byte, bytes
        self.size = 0
        for directory, _, names in sorted(os.walk(_PACKAGE)):
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(directory, name)
                    self.places[path] = self.size, os.stat(path).st_size + 1
                    self.size += self.places[path][1]

    def open(self) -> None:
        """Map the file. Unlike Python's `mmap`, this keeps no descriptor open, which some tests would find."""
        call = ctypes.CDLL(None).mmap
        call.restype = ctypes.c_void_p
        call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
        with open(_LINES, "r+b") as file:
            self._address = call(None, self.size, _READ | _WRITE, _SHARED, file.fileno(), 0)
        assert self._address != ctypes.c_void_p(-1).value, "mmap failed"

    def of(self, path: str) -> ctypes.Array[ctypes.c_ubyte]:
        first, size = self.places[path]
        return (ctypes.c_ubyte * size).from_address(self._address + first)


# --- in the tests -------------------------------------------------------------------------------------------------


def begin_measuring() -> None:
    """Make this process start its guests with this file. The first process of the tests creates the map."""
    import shutil

    if os.environ.setdefault(_OWNER, str(os.getpid())) == str(os.getpid()):
        shutil.rmtree(_HOME, ignore_errors=True)  # it may have bytecode with older probes
        os.makedirs(_HOME)
        with open(_LINES, "wb") as file:
            file.truncate(LineMap().size)
    _replace_boot()


def _replace_boot() -> None:
    from chainofcode import boot

    boot.__file__ = os.path.abspath(__file__)
    boot.FILES = (*boot.FILES, boot.__file__)  # for containers


def save_lines() -> None:
    """Write the recorded lines to a data file for `coverage combine`."""
    from coverage import CoverageData

    if os.environ.get(_OWNER) != str(os.getpid()):
        return
    lines = LineMap()
    lines.open()
    ran = {path: [line for line, was_run in enumerate(lines.of(path)) if was_run] for path in lines.places}
    data = CoverageData(os.path.join(ROOT, ".coverage"), suffix="guests")
    data.erase()
    data.add_lines(ran)
    data.write()


def run_coc(*arguments: str) -> None:
    """Run a command whose guests are measured."""
    import runpy

    sys.path[0], sys.argv = os.getcwd(), ["coc", *arguments]
    _replace_boot()
    runpy.run_module("chainofcode", run_name="__main__")


# --- in a guest ---------------------------------------------------------------------------------------------------


class MeasuredLoader(importlib.machinery.SourceFileLoader):
    """Loads a module with probes, and caches the bytecode in a separate directory."""

    def __init__(self, name: str, path: str, lines: LineMap) -> None:
        super().__init__(name, path)
        self._lines = lines

    def get_code(self, fullname: str) -> CodeType | None:
        usual, sys.pycache_prefix = sys.pycache_prefix, _HOME
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix = usual

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        import ast

        tree = ast.parse(data)
        add_probes(tree)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, PROBED, self._lines.of(self.path))
        super().exec_module(module)


class MeasuredModules:
    """Finds the modules of this package, for `sys.meta_path`."""

    def __init__(self, lines: LineMap) -> None:
        self._lines = lines

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("chainofcode."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin in self._lines.places:
            spec.loader = MeasuredLoader(name, spec.origin, self._lines)
        return spec


def add_probes(tree: ast.Module) -> None:
    """Put a probe before each statement, but after docstrings and `from __future__`, which must come first."""
    import ast

    for node in list(ast.walk(tree)):
        for block in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                first = [part for part in block if _must_be_first(part)]
                ran = [part for part in first if isinstance(part, ast.ImportFrom)]
                if isinstance(node, ast.ExceptHandler | ast.match_case):
                    ran.append(getattr(node, "pattern", node))
                others = [part for part in block if part not in first]
                block[:] = [*first, *(_probe(part.lineno) for part in ran)]
                for part in others:
                    block += [*(_probe(place.lineno) for place in (part, *getattr(part, "decorator_list", ()))), part]
    ast.fix_missing_locations(tree)


def _must_be_first(statement: ast.stmt) -> bool:
    import ast

    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _probe(line: int) -> ast.stmt:
    import ast

    byte = ast.Subscript(ast.Name(PROBED, ast.Load()), ast.Constant(line), ast.Store())
    return ast.Assign([byte], ast.Constant(1), lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)


def run_boot() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "__file__": _BOOT}
    lines = LineMap()
    loader = importlib.machinery.SourceFileLoader("__main__", _BOOT)
    if os.path.exists(_LINES):  # not in a container
        lines.open()
        loader, names[PROBED] = MeasuredLoader("__main__", _BOOT, lines), lines.of(_BOOT)
        sys.meta_path.insert(0, MeasuredModules(lines))  # type: ignore[arg-type]
    code = loader.get_code("__main__")
    assert code is not None
    exec(code, names)


if __name__ == "__main__":
    if sys.argv[1] == "coc":
        run_coc(*sys.argv[2:])
    else:
        run_boot()
