"""Runs CPython's own tests as programs, under plain CPython and under the engine, in the same environment.

`python tests/cpython.py [NAME…]` runs them (by default all of `NAMES`) and prints the differences.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from chainofcode import Limits, run
from chainofcode.emulator import Answered, Pause

# Quick ones, then the rest.
QUICK = (
    "test_compare", "test_decorators", "test_generators", "test_grammar", "test_named_expressions", "test_patma",
    "test_positional_only_arg", "test_property", "test_raise", "test_scope", "test_super", "test_with",
)  # fmt: skip
NAMES = (
    *QUICK, "test_asyncgen", "test_bool", "test_call", "test_class", "test_contextlib", "test_coroutines",
    "test_dataclasses", "test_descr", "test_dict", "test_enum", "test_except_star", "test_exception_group",
    "test_exceptions", "test_fstring", "test_functools", "test_isinstance", "test_iter", "test_itertools",
    "test_keywordonlyarg", "test_list", "test_set", "test_slice", "test_string_literals", "test_syntax", "test_tuple",
    "test_types", "test_yield_from",
)  # fmt: skip
# It recurses in its own `except` up to the recursion limit: three more frames make it hundreds of times slower.
LEFT_OUT = {"test_exceptions": ("ExceptionTests.test_recursion_in_except_handler",)}
_LIMITS = Limits(cpu_seconds=300, run_seconds=300, output_bytes=20_000_000, lm_calls=10_000)
_MAIN = re.compile(r"^if __name__ ?== ?.__main__.:\n(?:[ \t]+.*\n|\n)*\Z", re.MULTILINE)
_COUNT = """

import sys as _sys, unittest as _unittest
_result = _unittest.TestResult()
_unittest.defaultTestLoader.loadTestsFromModule(_sys.modules["__main__"]).run(_result)
answer = {
    "run": _result.testsRun,
    "failures": sorted(test.id() for test, _ in _result.failures),
    "errors": sorted(test.id() for test, _ in _result.errors),
    "skipped": sorted(test.id() for test, _ in _result.skipped),
    "expected": len(_result.expectedFailures),
    "unexpected": len(_result.unexpectedSuccesses),
    "texts": "\\n".join(f"{test.id()}\\n{text[-1500:]}" for test, text in _result.failures + _result.errors),
}
"""
# The same environment as in the engine: `__main__` has no file, tracebacks show its lines, there are no arguments.
_PLAIN = """
import io, json, linecache, sys, types
source = sys.stdin.read()
linecache.cache["<program>"] = (len(source), None, source.splitlines(keepends=True), "<program>")
sys.stdin, sys.argv = io.StringIO(), ["program.py"]
told, sys.stdout, sys.stderr = sys.stdout, io.StringIO(), io.StringIO()
module = sys.modules["__main__"] = types.ModuleType("__main__")
module.__builtins__ = __builtins__
exec(compile(source, "<program>", "exec", dont_inherit=True), module.__dict__)
told.write(json.dumps(module.answer))
"""


def source_of(name: str) -> str | None:
    """Return a test of the installed CPython as a program that counts its results; None if it is not installed."""
    home = Path(sysconfig.get_path("stdlib")) / "test"
    for path in (home / f"{name}.py", home / name / "__init__.py"):
        if path.exists():
            left_out = "".join(f"\ndel {test}" for test in LEFT_OUT.get(name, ()))
            return _MAIN.sub("", path.read_text(encoding="utf-8")) + left_out + _COUNT
    return None


def under_cpython(source: str) -> dict[str, Any]:
    """Return the test results under CPython."""
    environment = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "")}
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-s", "-P", "-c", _PLAIN],
            input=source, capture_output=True, text=True, check=False, env=environment, cwd=directory,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counted: dict[str, Any] = json.loads(done.stdout)
    return counted


class CPythonEmulator:
    """An emulator that does what CPython does: an undefined name is an error, an empty function returns None."""

    async def answer(self, pause: Pause) -> Answered:
        if pause.kind == "statement":
            return Answered({})
        raised = re.search(r"raise NotImplementedError(?:\(['\"](.*)['\"]\))?", pause.spec)
        if raised is not None:
            return Answered(None, error="left empty", raised=("NotImplementedError", raised[1] or ""))
        if pause.spec:
            return Answered(None)
        return Answered(None, error="undefined", raised=("NameError", f"name {pause.name!r} is not defined"))


def under_engine(source: str) -> dict[str, Any]:
    """Return the test results under the engine."""
    result = run(source, CPythonEmulator(), sandbox="none", limits=_LIMITS)
    assert result.reason == "answered", result.error
    counted: dict[str, Any] = result.answer
    return counted


def differences(plain: dict[str, Any], engine: dict[str, Any]) -> set[str]:
    """Return the names of the tests whose results differ, and an entry for differing counts."""
    found = {
        test for outcome in ("failures", "errors", "skipped") for test in set(plain[outcome]) ^ set(engine[outcome])
    }
    names = {re.sub(r" .*", "", test).rpartition(".")[2] for test in found}
    return names | {name for name in ("run", "expected", "unexpected") if plain[name] != engine[name]}


def main(*names: str) -> None:
    for name in names or NAMES:
        source = source_of(name)
        if source is None:
            print(f"{name}: not installed", flush=True)
            continue
        try:
            plain = under_cpython(source)
            engine = under_engine(source)
        except AssertionError as error:
            print(f"{name}: {str(error)[-800:]}", flush=True)
            continue
        counts = {outcome: len(plain[outcome]) for outcome in ("failures", "errors", "skipped")}
        print(f"{name}: run {plain['run']}, {counts}, differ: {sorted(differences(plain, engine))}", flush=True)
        if differences(plain, engine) and os.environ.get("COC_TEXTS"):
            print(engine["texts"])


if __name__ == "__main__":
    main(*sys.argv[1:])
