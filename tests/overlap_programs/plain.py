"""Runs programs under plain CPython, with real functions in place of the undefined ones.

As a script, reads a JSON list of programs on standard input, runs each in a fork of its own (programs may patch, exit
and print) and writes a JSON list of the results. `run_all` starts it, with the guest's hash seed.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

SECONDS = 20  # for one program, which should take milliseconds


@dataclass
class Plain:
    """What a program did."""

    answer: str = ""  # its repr
    error: str = ""  # type and message, if it ended with an error
    output: str = ""
    calls: list[str] = field(default_factory=list)  # of undefined functions, in order


def run_all(sources: Iterable[str], python: str = sys.executable) -> list[Plain]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [python, "-m", __name__]
    given = json.dumps(list(sources))
    done = subprocess.run(command, input=given, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [Plain(**one) for one in json.loads(done.stdout)]


def run_forked(source: str, called: dict[str, Any], awaited: dict[str, Any]) -> Plain:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS)
            os.close(reader)
            data = json.dumps(asdict(run(source, called, awaited))).encode()
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(data)
        finally:
            os._exit(0)  # in any case: only the parent runs the rest of this script
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return Plain(**json.loads(data)) if data else Plain(error="no end")


def run(source: str, called: dict[str, Any], awaited: dict[str, Any]) -> Plain:
    plain, module = Plain(), ModuleType("__main__")
    own = ModuleType("builtins")
    own.__dict__.update(vars(builtins))
    own.__dict__.update({name: _recorded(name, function, plain.calls) for name, function in called.items()})
    own.__dict__.update({name: _awaited(name, function, plain.calls) for name, function in awaited.items()})
    own.__dict__.update(exit=sys.exit)
    module.__dict__["__builtins__"] = own
    sys.modules["__main__"] = module
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(source, "<program>", "exec"), module.__dict__)
        except SystemExit as end:
            plain.error = f"SystemExit: {end}" if end.code else ""
        except BaseException as error:
            plain.error = f"{type(error).__name__}: {error}"
        atexit._run_exitfuncs()
    plain.output = printed.getvalue()
    if not plain.error and "answer" not in module.__dict__:
        plain.error = "NoAnswer"
    plain.answer = "" if plain.error else repr(module.__dict__["answer"])
    return plain


def call_text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a call as it is written in traces."""
    shown = [*map(repr, args), *(f"{key}={kwargs[key]!r}" for key in sorted(kwargs))]
    return f"{name}({', '.join(shown)})"


def _recorded(name: str, function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def hole(*args: Any, **kwargs: Any) -> Any:
        calls.append(call_text(name, args, kwargs))
        return function(*args, **kwargs)

    return hole


def _awaited(name: str, function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    """Make a function awaitable; like the engine, it lets other tasks run before the call."""

    async def hole(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        calls.append(call_text(name, args, kwargs))
        return function(*args, **kwargs)

    return hole


if __name__ == "__main__":
    from overlap_programs import AWAITED, CALLED

    programs = json.load(sys.stdin)
    json.dump([asdict(run_forked(source, CALLED, AWAITED)) for source in programs], sys.stdout)
