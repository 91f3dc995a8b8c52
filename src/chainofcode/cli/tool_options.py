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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

from ..emulator import Tool, Toolbox, tool
from ..emulator.lookalikes import make_visible
from ..emulator.shown_call import ShownCall
from ..emulator.tools import ToolFailed
from ..errors import InputError
from .parser import add_list, option_group
from .terminal import ask_in_terminal, note

_WITH_BASE = re.compile(r"(.+?)=(https?://.*)", re.S)


def add_tools(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Tool options")
    add_list(
        options,
        "--tool",
        "MODULE:FUNCTION",
        "let the program call your function, which runs outside the sandbox, with your rights",
    )
    add_list(
        options,
        "--openapi",
        "FILE[=URL]",
        "let the program call the operations of an OpenAPI 3 document, at the server that it names or at URL; "
        "credentials come from COC_OPENAPI_TOKEN and COC_OPENAPI_KEY",
    )
    add_list(
        options,
        "--mcp",
        "COMMAND|URL",
        "let the program call the tools of an MCP server: the command that starts it, or its URL (streamable HTTP)",
    )
    options.add_argument(
        "--approve",
        choices=["always", "effects", "never"],
        default="effects",
        help="ask you before tool calls: always, never, or only for tools that are not read-only (effects)",
    )


@contextlib.contextmanager
def chosen_tools(given: argparse.Namespace) -> Iterator[list[Tool]]:
    """The granted tools, with their MCP servers running."""
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
    """Return tools whose calls the user approves. `screen` is entered while a question is open."""
    return Toolbox.of(tools, _Approval(given.approve, screen))


def _imported(text: str) -> Tool:
    """The tool MODULE:FUNCTION, from the working directory or an installed package."""
    module, _, name = text.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"--tool must be MODULE:FUNCTION, as in shop:price_of; not {text!r}")
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
    """Import a user's module from the working directory, which all other imports search last."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code
        if isinstance(error, ModuleNotFoundError) and error.name in (name, name.partition(".")[0]):
            raise InputError(f"no module named {error.name!r} in the working directory or installed") from None
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}") from None
    finally:
        with contextlib.suppress(ValueError):  # the module may have changed the path
            sys.path.remove(here)
        sys.path.append(here)


def _operations(given: Sequence[str]) -> list[Tool]:
    from ..emulator.rest import rest_tools  # late: it imports a TLS library

    named = [_WITH_BASE.fullmatch(text) or text for text in given]
    documents = [(Path(match), None) if isinstance(match, str) else (Path(match[1]), match[2]) for match in named]
    return rest_tools(documents, os.environ, note)


class _Approval:
    """Asks the user at the terminal. A refused call stays refused when the program repeats it."""

    def __init__(self, when: str, screen: Callable[[], AbstractContextManager[object]]) -> None:
        self._when, self._screen = when, screen
        self._lock = asyncio.Lock()
        self._refused: set[str] = set()
        self._is_explained = False

    async def __call__(self, used: Tool, call: ShownCall) -> bool:
        if self._when == "never" or (self._when == "effects" and not used.has_effect):
            return True
        async with self._lock:  # one question at a time
            if call.whole in self._refused:
                return False
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                self._explain()
                raise ToolFailed(f"{used.name} was not approved: there is no terminal to ask on")
            with self._screen():
                is_allowed = await self._is_allowed(call)
            if not is_allowed:
                self._refused.add(call.whole)
            return is_allowed

    async def _is_allowed(self, call: ShownCall) -> bool:
        shown = str(call)
        if shown != call.whole:
            note("this call is shortened; answer `all` to see it in full")
        while True:
            text, unusual = make_visible(shown)
            if unusual:
                note(f"this call has characters that are invisible or look like others: {', '.join(unusual)}")
            answer = await ask_in_terminal(f"the program wants to call {text} — allow? [y/N]")
            answer = answer.lower()
            if answer != "all":
                return answer in ("y", "yes")
            shown = call.whole

    def _explain(self) -> None:
        """Print once which option would help: the program may handle the error."""
        if not self._is_explained:
            self._is_explained = True
            with self._screen():
                note("a tool call was refused: there is no terminal to ask on; `--approve never` allows all calls")
