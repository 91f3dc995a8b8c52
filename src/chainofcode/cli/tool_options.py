"""Options that grant tools to programs, and the approval of their calls."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import importlib
import os
import re
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

from ..emulator import Tool, Toolbox, tool
from ..emulator.tools import ToolFailed
from ..errors import InputError
from ..render import plain
from .parser import add_list
from .terminal import note

NOBODY_TO_ASK = "there is no terminal to ask at"
_WITH_BASE = re.compile(r"(.+?)=(https?://.*)", re.S)


def add_tools(parser: argparse.ArgumentParser) -> None:
    add_list(
        parser,
        "--tool",
        "MODULE:FUNCTION",
        "let the program call a function of yours, which runs here, with your rights",
    )
    add_list(
        parser,
        "--openapi",
        "FILE[=URL]",
        "let it call the operations of an OpenAPI 3 document, at the server it names or at URL; credentials are "
        "taken from COC_OPENAPI_TOKEN and COC_OPENAPI_KEY",
    )
    add_list(
        parser,
        "--mcp",
        "COMMAND|URL",
        "let it call the tools of an MCP server: a command to start, or an address (streamable HTTP)",
    )
    parser.add_argument(
        "--approve",
        choices=["always", "effects", "never"],
        default="effects",
        help="when you are asked before a tool is called: effects (the default) is unless it is read-only",
    )


@contextlib.contextmanager
def chosen_tools(given: argparse.Namespace) -> Iterator[list[Tool]]:
    """The granted tools, with the MCP servers that they need."""
    tools = [*map(_imported, given.tool), *(_operations(given.openapi) if given.openapi else ())]
    if not given.mcp:
        yield tools
        return
    try:
        from ..emulator.mcp_client import mcp_tools  # an extra
    except ImportError:
        raise InputError("--mcp needs the package mcp: pip install 'chainofcode[mcp]'") from None
    with mcp_tools(given.mcp, [tool.name for tool in tools], note) as served:
        yield [*tools, *served]


def toolbox_of(
    tools: Sequence[Tool],
    given: argparse.Namespace,
    screen: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
) -> Toolbox:
    """Tools whose calls a person approves. `screen` is entered while a question is open."""
    return Toolbox.of(tools, _Approval(given.approve, screen))


def _imported(text: str) -> Tool:
    """The tool MODULE:FUNCTION, from the working directory or an installed package."""
    module, _, name = text.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"--tool takes MODULE:FUNCTION, as in shop:price_of; not {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        found = _module(module)
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), n=1)
            where = getattr(found, "__file__", None) or module
            raise InputError(f"{where} has no {name}" + (f"; did you mean {near[0]}?" if near else ""))
        return tool(getattr(found, name), name=name)
    except InputError as error:
        raise InputError(f"--tool {text}: {error}") from None


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code
        if isinstance(error, ModuleNotFoundError) and error.name in (name, name.partition(".")[0]):
            raise InputError(f"there is no module {error.name} here, and none is installed") from None
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}") from None


def _operations(given: Sequence[str]) -> list[Tool]:
    from ..emulator.rest import rest_tools  # late: it imports a TLS library

    named = [_WITH_BASE.fullmatch(text) or text for text in given]
    documents = [(Path(one), None) if isinstance(one, str) else (Path(one[1]), one[2]) for one in named]
    return rest_tools(documents, os.environ, note)


class _Approval:
    """Asks the person at the terminal. A refused call stays refused when the program repeats it."""

    def __init__(self, when: str, screen: Callable[[], AbstractContextManager[object]]) -> None:
        self._when, self._screen = when, screen
        self._lock = asyncio.Lock()
        self._refused: set[str] = set()

    async def __call__(self, used: Tool, call: str) -> bool:
        if self._when == "never" or (self._when == "effects" and not used.has_effect):
            return True
        async with self._lock:  # one question at a time
            if call in self._refused:
                return False
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise ToolFailed(f"{used.name} was not approved: {NOBODY_TO_ASK}")
            with self._screen():
                is_allowed = await _ask(f"coc: the program wants to call {plain(call)} — allow? [y/N] ")
            if not is_allowed:
                self._refused.add(call)
            return is_allowed


async def _ask(question: str) -> bool:
    """Ask a yes-or-no question at the terminal. Unlike a thread that reads, this can be cancelled."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # drop what was typed before the question
    print(question, end="", file=sys.stderr, flush=True)
    loop.add_reader(sys.stdin, answered.set)
    try:
        await answered.wait()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except asyncio.CancelledError:
        print(file=sys.stderr)
        raise
    finally:
        loop.remove_reader(sys.stdin)
