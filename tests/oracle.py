"""Find by brute force what an answer depends on: plain CPython runs the program again with one change.

A separate process reads programs as JSON lines and forks for each, so that a program cannot change modules for the next
one. A trial changes the value of one call of an undefined function, or removes statements.
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
import random
import signal
import subprocess
import sys
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from programs import HOLES

from chainofcode import Limits, Pause, arun
from chainofcode.audit.provenance.slices import asked_steps, slice_of
from chainofcode.languages.python.guest.run.world import Clock, RandomGenerators
from chainofcode.sandbox import Sandbox

_SECONDS = 5
_NUMBERS = (0, 3, 5, 8)  # values that the generated programs can handle


def other_values(value: Any) -> list[Any]:
    """Return other values of the same type."""
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
    """The separate process."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def tried(self, source: str, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the result of each trial: the text of the `answer`, or the `error` and its traceback's `lines`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"source": source, "trials": trials}) + "\n")
        self._process.stdin.flush()
        found: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found


async def objections(source: str, sandbox: Sandbox, oracle: Oracle) -> list[str]:
    """Return the cases in which a slice leaves out something that changes the answer.

    Removing a statement may break a statement that needs it. This does not count if the broken statement is outside
    the slice, too. A failure after a changed value does not count either, because there is no answer.
    """
    limits = Limits(run_seconds=10, lm_calls=100_000)
    result = await arun(source, _answer, sandbox=sandbox, limits=limits, follow=True)
    program, answer = result.trace.program, result.trace.answer
    assert result.reason == "answered" and result.lineage is not None, (result.error, source)
    assert program is not None and answer is not None
    found, steps = slice_of(result.lineage, program, answer), asked_steps(result.trace.steps)
    inside = {steps[value].call for value in found.values if value < len(steps)}
    values = {step.call: step.value for step in steps if step.call not in inside}
    ran = {node.statement for node in result.lineage.nodes}
    outside = {number for number in ran if number >= 0} - found.statements
    trials: list[dict[str, Any]] = [
        {"changed": call, "value": other} for call in values for other in other_values(values[call])
    ]
    trials += [{"without": [number]} for number in sorted(outside)] + (
        [{"without": sorted(outside)}] if outside else []
    )
    if not trials:
        return []
    base, *results = oracle.tried(source, [{}, *trials])
    assert base.get("answer") == repr(result.answer), (base, result.answer, source)
    lines = {line: number for number, place in enumerate(program.statements) for line in _lines(source, place.line)}
    return [
        f"{trial}: {one.get('answer', one.get('error'))} instead of {base['answer']}\n{source}"
        for trial, one in zip(trials, results, strict=True)
        if _is_objection(
            trial, one, base["answer"], [lines.get(line) not in found.statements for line in one.get("lines", ())]
        )
    ]


def _is_objection(trial: dict[str, Any], result: dict[str, Any], base: str, is_outside: list[bool]) -> bool:
    if "answer" in result:
        return bool(result["answer"] != base)
    is_invalid = result["error"].startswith(("SyntaxError", "TimeoutError"))  # an invalid program, or an endless one
    return "without" in trial and not is_invalid and not any(is_outside)


def _lines(source: str, line: int) -> Iterator[int]:
    """Yield the first line of a statement, and the lines of its decorators."""
    texts = source.split("\n")
    yield line
    while line > 1 and texts[line - 2].lstrip().startswith("@"):
        line -= 1
        yield line


def _answer(pause: Pause) -> Any:
    return HOLES[pause.name](*pause.args)


# --- in the separate process --------------------------------------------------------------------------------------


def without(source: str, numbers: Collection[int]) -> ast.Module:
    """Return a program without some of its statements; the others keep their line numbers."""
    tree = ast.parse(source)
    order = {node: number for number, node in enumerate(_statements(tree))}

    class Remover(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            is_gone = isinstance(node, ast.stmt) and order[node] in numbers
            return ast.copy_location(ast.Pass(), node) if is_gone else self.generic_visit(node)

    return ast.fix_missing_locations(Remover().visit(tree))  # type: ignore[no-any-return]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a program in source order."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt):
            yield child
        yield from _statements(child)


def _holes(trial: dict[str, Any], called: dict[str, Any]) -> dict[str, Any]:
    def hole(name: str) -> Any:
        def ask(*given: Any) -> Any:
            text = f"{name}({', '.join(map(repr, given))})"
            value = HOLES[name](*given)
            called[text] = value
            return trial["value"] if text == trial.get("changed") else value

        return ask

    return {name: hole(name) for name in HOLES}


class World:
    """The guest's clock and random numbers, reset for every trial; sleeping takes no time."""

    def __init__(self) -> None:
        self._clock = Clock(1_000_000_000)
        self._clock._real_sleep = lambda seconds: None
        self._clock.install()
        RandomGenerators(0).install()
        self._clock.settle()

    def restart(self) -> None:
        self._clock._now_ns = self._clock.start_ns
        random.seed(0)


def _run(source: str, trial: dict[str, Any]) -> dict[str, Any]:
    called: dict[str, Any] = {}
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    vars(builtins).update(_holes(trial, called))
    signal.alarm(_SECONDS)
    output = io.StringIO()
    try:
        code = compile(without(source, trial.get("without", ())), "<program>", "exec", dont_inherit=True)
        with contextlib.redirect_stdout(output):
            exec(code, vars(module))
    except BaseException as error:
        lines, trace = [], error.__traceback__
        while trace is not None:
            lines += [trace.tb_lineno] if trace.tb_frame.f_code.co_filename == "<program>" else []
            trace = trace.tb_next
        return {"error": f"{type(error).__name__}: {error}", "lines": lines, "asked": called}
    finally:
        signal.alarm(0)
    if "answer" not in vars(module):
        lines = [line for line in output.getvalue().split("\n") if line.strip()]
        return {"answer": lines[-1] if lines else "", "asked": called}
    return {"answer": repr(vars(module)["answer"]), "asked": called}


def _run_all(source: str, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def stop(*given: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    world, found = World(), []
    for trial in trials:
        world.restart()
        found.append(_run(source, trial))
    return found


def _forked(source: str, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            data = pickle.dumps(_run_all(source, trials))
        except BaseException as error:
            data = pickle.dumps([{"error": repr(error), "lines": []}])
        with os.fdopen(writer, "wb") as out:
            out.write(data)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as given:
        data = given.read()
    os.waitpid(child, 0)
    found: list[dict[str, Any]] = pickle.loads(data) if data else []
    return found


def _serve() -> None:
    for name in ("asyncio", "concurrent.futures.thread", "dataclasses", "decimal", "inspect", "logging"):
        importlib.import_module(name)  # once, not in every trial
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        found = _forked(request["source"], request["trials"])
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
