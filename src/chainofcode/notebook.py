"""Notebooks: after `%load_ext chainofcode.notebook`, a cell that starts with `%%coc` is a question or a program.

    %%coc [--model NAME] [--method NAME] [--type TYPE] [--input NAME]… [--sandbox WHICH]
    How many of these are fruit?

With --program, the cell is a program. Afterwards `answer` is the answer (None if there is none), and `_coc` the whole
result. Other variables of a program are not returned, because a trace has only their text.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import builtins
import contextlib
import re
import shlex
import sys
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn

from .engine import Result, arun
from .errors import ChainOfCodeError, InputError
from .lm import LM, connect
from .lm.choose import default_model
from .methods import METHODS, asolve, compose
from .sandbox import Sandbox, open_sandbox
from .values.codec import Opaque, encode

_CLOSE_SECONDS = 10.0


class Cells:
    """Runs cells in a thread with its own event loop, because the notebook's loop is already running.

    Keeps models and sandboxes for later cells.
    """

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables
        self._loop: asyncio.AbstractEventLoop | None = None
        self._models: dict[str, LM] = {}
        self._sandboxes: dict[str, Sandbox] = {}

    def coc(self, line: str, cell: str) -> Result:
        """%%coc [--program] [--model NAME] [--method NAME] [--type TYPE] [--input NAME]… [--sandbox WHICH]

        The cell is a question, or with --program a program that gets the notebook's variables that it names.
        """
        given = _parser().parse_args(shlex.split(line))
        self._variables["answer"] = self._variables["_coc"] = None  # not those of an earlier cell, if this one fails
        result = self._run(self._program(cell, given) if given.program else self._question(cell, given))
        self._variables["answer"] = None if isinstance(result.answer, Opaque) else result.answer
        self._variables["_coc"] = result
        return result

    def close(self) -> None:
        for lm in self._models.values():
            lm.close()
        for sandbox in self._sandboxes.values():
            sandbox.close()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _question(self, cell: str, given: argparse.Namespace) -> Result:
        if not cell.strip():
            raise InputError("the cell is empty; write a question or, with --program, a program")
        name, why = (given.model, "") if given.model else default_model()
        if why:
            print(f"coc: asking {name} ({why})")
        return await asolve(
            cell.strip(),
            self._model(name),
            method=compose(given.method, repairs=2, fallback=True),
            answer_type=given.type,
            sandbox=self._sandbox(given.sandbox),
            inputs={name: _plain(name, self._variables) for name in given.input},
        )

    async def _program(self, cell: str, given: argparse.Namespace) -> Result:
        inputs = {name: _plain(name, self._variables) for name in given.input}
        for name in _names(cell) - inputs.keys():
            with contextlib.suppress(InputError):  # functions, modules and the like are not sent
                inputs[name] = _plain(name, self._variables)
        model = self._model(given.model) if given.model else None
        return await arun(cell, model, sandbox=self._sandbox(given.sandbox), inputs=inputs)

    def _model(self, name: str) -> LM:
        if name not in self._models:
            self._models[name] = connect(name)
        return self._models[name]

    def _sandbox(self, name: str) -> Sandbox:
        if name not in self._sandboxes:
            self._sandboxes[name] = open_sandbox(name)
        return self._sandboxes[name]

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="coc cells", daemon=True).start()
        over = threading.Event()

        async def whole() -> Result:
            try:
                return await work
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            return future.result()
        except BaseException:  # usually KeyboardInterrupt: the guest must end, too
            future.cancel()
            over.wait(_CLOSE_SECONDS)
            raise


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"%%coc: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%coc", description="Answer a question, or run a program.", add_help=False)
    parser.add_argument("--program", action="store_true", help="the cell is a program; without --model, no model")
    parser.add_argument("--model", metavar="NAME", help="such as openai:gpt-4o-mini (default: as coc ask)")
    parser.add_argument("--method", metavar="NAME", default="coc", help=", ".join(METHODS))
    parser.add_argument("--type", metavar="TYPE", help="the type of the answer: int, date, choice:A,B…")
    parser.add_argument("--input", metavar="NAME", action="append", default=[], help="a variable for the program")
    parser.add_argument("--sandbox", metavar="WHICH", default="auto", help="as in coc run")
    return parser


def _plain(name: str, variables: Mapping[str, Any]) -> Any:
    """Return a variable of the notebook. Raises InputError if it cannot be sent to a program."""
    if name not in variables:
        raise InputError(f"%%coc: there is no variable {name!r} in this notebook")

    def refuse(part: object) -> str:
        raise InputError(
            f"%%coc: cannot send the variable {name!r} to a program: "
            f"it contains a value of type {type(part).__name__}, or is too large"
        )

    try:
        encode(variables[name], brief=refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, InputError) else InputError(f"%%coc: {name!r}: {error}") from None
    return variables[name]


def _names(program: str) -> set[str]:
    """Return the names in a program, without `In`, `_` and other names of the notebook itself."""
    try:
        found = {node.id for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = set(re.findall(r"[^\W\d]\w*", program))  # some lines may be prose
    own = {"In", "Out", "answer", *dir(builtins)}
    return {name for name in found if not name.startswith("_") and name not in own}


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext`."""
    cells = Cells(shell.user_ns)
    shell.register_magic_function(cells.coc, "cell", "coc")
    if hasattr(shell, "set_custom_exc"):
        shell.set_custom_exc((ChainOfCodeError,), _show_error)


def _show_error(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: Any = None
) -> list[str]:
    """Show an error in one line, because its traceback would only show code of this package."""
    text = f"{kind.__name__}: {error}"
    print(text, file=sys.stderr)
    return [text]


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext`."""
    if hasattr(shell, "set_custom_exc"):
        shell.set_custom_exc((), None)
    function = shell.magics_manager.magics["cell"].pop("coc", None)
    if function is not None:
        function.__self__.close()
