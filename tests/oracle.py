"""What really matters to an answer, by brute force: plain CPython runs the program again with one thing changed.

A process of its own takes programs as JSON lines and forks for every trial, so that no trial sees what another did to a
module. A trial changes the value of one call of an undefined function, or takes statements away.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import importlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from programs import HOLES

from chainofcode.guest.world import Chance, Clock

_SECONDS = 5
_NUMBERS = (0, 1, 3, 4, 5, 8)  # what the generated programs can work with


def others(value: Any) -> list[Any]:
    """Other values of the same type."""
    match value:
        case bool():
            return [not value]
        case int():
            return [number for number in _NUMBERS if number != value]
        case str():
            return [value + "x", "z", "b"]
        case list():
            return [value[:-1], [*value, 1], value[::-1]]
    return []


class Oracle:
    """The process, and what it says of one program."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def tried(self, source: str, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What came of each trial: `answer`, the text of the answer; or the `error`, and the `line` it came from."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"source": source, "trials": trials}) + "\n")
        self._process.stdin.flush()
        found: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found


# --- in the process -----------------------------------------------------------------------------------------------


def without(source: str, numbers: Collection[int]) -> ast.Module:
    """A program with some of its statements gone; those that stay keep their lines."""
    tree = ast.parse(source)
    order = {node: number for number, node in enumerate(_statements(tree))}

    class Remover(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            is_gone = isinstance(node, ast.stmt) and order[node] in numbers
            return ast.copy_location(ast.Pass(), node) if is_gone else self.generic_visit(node)

    return ast.fix_missing_locations(Remover().visit(tree))  # type: ignore[no-any-return]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a program in the order in which they are written."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt):
            yield child
        yield from _statements(child)


def _holes(trial: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    def hole(name: str) -> Any:
        def ask(*given: Any) -> Any:
            text = f"{name}({', '.join(map(repr, given))})"
            value = HOLES[name](*given)
            asked[text] = value
            return trial["value"] if text == trial.get("changed") else value

        return ask

    return {name: hole(name) for name in HOLES}


def _install_clock() -> None:
    """The guest's clock, so that sleeping takes no time and every trial starts at the same moment."""
    clock = Clock(1_000_000_000)
    clock._real_sleep = lambda seconds: None
    clock.install()
    Chance(0).install()
    clock.settle()


def _run(source: str, trial: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    vars(builtins).update(_holes(trial, asked))
    _install_clock()
    signal.alarm(_SECONDS)
    output = io.StringIO()
    try:
        code = compile(without(source, trial.get("without", ())), "<program>", "exec", dont_inherit=True)
        with contextlib.redirect_stdout(output):
            exec(code, vars(module))
    except BaseException as error:
        line, trace = 0, error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "<program>" else line
            trace = trace.tb_next
        return {"error": f"{type(error).__name__}: {error}", "line": line, "asked": asked}
    if "answer" not in vars(module):
        lines = [line for line in output.getvalue().split("\n") if line.strip()]
        return {"answer": lines[-1] if lines else "", "asked": asked}
    return {"answer": repr(vars(module)["answer"]), "asked": asked}


def _forked(source: str, trial: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            told = pickle.dumps(_run(source, trial))
        except BaseException as error:
            told = pickle.dumps({"error": repr(error), "line": 0, "asked": {}})
        with os.fdopen(writer, "wb") as out:
            out.write(told)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as given:
        told = given.read()
    os.waitpid(child, 0)
    return pickle.loads(told) if told else {"error": "died", "line": 0, "asked": {}}


def _serve() -> None:
    for name in ("asyncio", "concurrent.futures.thread", "dataclasses", "random", "decimal", "inspect", "logging"):
        importlib.import_module(name)  # once, not in every trial
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        found = [_forked(request["source"], trial) for trial in request["trials"]]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
