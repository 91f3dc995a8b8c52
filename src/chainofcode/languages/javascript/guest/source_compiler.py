"""Compiles JavaScript: acorn and the compiler run in a separate QuickJS engine. Standard library only.

The files are read when this module is imported, before the sandbox closes. `_quickjs` is granted after that, so it is
imported lazily.
"""

from __future__ import annotations

import json
import os
import re

from ...source import NotAProgram, check_readable

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMPILER = ("syntax", "holes", "types", "views", "instrument", "shadow", "lineage")
_RUNTIME = ("natives", "brief", "encoder", "requests", "probes", "ending", "world", "console", "clone", "locale")
_STACK_BYTES, _STACK_RESERVE = 32 << 20, 8 << 20  # a call takes about 1.7 KB: deeper recursion than in Node
# Possessive quantifiers, so that the line of a fence is never scanned twice.
_FENCE = re.compile(
    r"^[ \t]*+(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+-]*+)[^\n`]*+\n"
    r"(?P<body>.*?)"
    r"(?:^[ \t]*+(?P=fence)[ \t]*+$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_JAVASCRIPT_LABELS = {"javascript", "js", "jsx", "mjs", "node", "typescript", "ts"}


def _read(*path: str) -> str:
    with open(os.path.join(_HOME, *path), encoding="utf-8") as file:
        return file.read()


def _typescript() -> str:
    """Return acorn-typescript as a script: it is a module, so replace its import and remove its exports."""
    text = _read("acorn", "acorn-typescript.js")
    text = text.replace('import * as acornNamespace from "acorn";', "const acornNamespace = acorn;")
    return text[: text.rindex("export {")]


def _runtime() -> str:
    """Return the runtime: several files that are the body of one function of its settings and inputs."""
    parts = "\n".join(_read("guest", "runtime", f"{name}.js") for name in _RUNTIME)
    return f'(function (settings, inputs) {{"use strict";\n{parts}\nreturn {{ start, end, arrived, nextTimer }};\n}})'


RUNTIME, SHADOW_RUNTIME = _runtime(), _read("guest", "shadow.js")
_SOURCES = [
    "const LANGUAGE = Object.getOwnPropertyNames(globalThis);",  # before the compiler adds globals of its own
    _read("acorn", "acorn.js"),
    _typescript(),
    "\n".join(_read("compiler", f"{name}.js") for name in _COMPILER),
]


def stack_bytes() -> int:
    """Return how much of the stack an engine may use. Raises the limit of this process, once."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_BYTES + _STACK_RESERVE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    return _STACK_BYTES if soft == resource.RLIM_INFINITY else min(soft - _STACK_RESERVE // 2, _STACK_BYTES)


class SourceCompiler:
    """An engine that contains acorn and the compiler."""

    def __init__(self) -> None:
        import _quickjs

        self._context = _quickjs.Context()
        self._context.set_max_stack_size(stack_bytes())
        for source in _SOURCES:
            self._context.eval(source)
        self._prepare = self._context.eval("prepare")

    def prepare(self, source: str, **given: Any) -> dict[str, Any]:
        """Compile a program. Raises NotAProgram with the line of the syntax error."""
        request = json.dumps({"source": source, "prefix": _prefix(), **given})
        prepared: dict[str, Any] = json.loads(self._prepare(request))
        if "error" in prepared:
            raise NotAProgram(prepared["error"])
        return prepared


def _prefix() -> str:
    """Return the prefix of the compiler's variables in a program. It is random: no program can guess it."""
    return "$" + os.urandom(8).hex()


_compilers: list[SourceCompiler] = []


def compiler() -> SourceCompiler:
    """Return the compiler of this process, created on first use; forks of the process inherit it."""
    if not _compilers:
        _compilers.append(SourceCompiler())
    return _compilers[0]


def find_program(reply: str, *, is_reply: bool) -> str:
    """Return the program in a reply: its last block of JavaScript, else its last unmarked block, else all of it."""
    check_readable(reply)
    text = reply.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    blocks = [(found["language"].lower(), found["body"]) for found in _FENCE.finditer(text)] if is_reply else []
    bodies = [body for language, body in blocks if language in _JAVASCRIPT_LABELS] or [
        body for language, body in blocks if not language
    ]
    source = bodies[-1] if bodies else text
    if not source.strip():
        raise NotAProgram("there is no program: the text is empty")
    return source
