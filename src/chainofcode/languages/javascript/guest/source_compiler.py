"""Compiles JavaScript: acorn and our own compiler run in a QuickJS engine of their own. Standard library only.

The files are read when this module is imported, before the sandbox closes. `_quickjs` is granted after that: it is
imported when it is needed.
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
STACK_BYTES = 4 << 20  # the kernel gives a process 8 MiB
# Possessive quantifiers, so that the line of a fence is never scanned twice.
_FENCE = re.compile(
    r"^[ \t]*+(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+-]*+)[^\n`]*+\n"
    r"(?P<body>.*?)"
    r"(?:^[ \t]*+(?P=fence)[ \t]*+$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OUR_WORDS = {"javascript", "js", "jsx", "mjs", "node", "typescript", "ts"}


def _read(*path: str) -> str:
    with open(os.path.join(_HOME, *path), encoding="utf-8") as file:
        return file.read()


def _typescript() -> str:
    """acorn-typescript is a module: bind what it imports, and drop what it exports."""
    text = _read("acorn", "acorn-typescript.js")
    text = text.replace('import * as acornNamespace from "acorn";', "const acornNamespace = acorn;")
    return text[: text.rindex("export {")]


RUNTIME, SHADOW_RUNTIME = _read("guest", "runtime.js"), _read("guest", "shadow.js")
_SOURCES = [_read("acorn", "acorn.js"), _typescript(), "\n".join(_read("compiler", f"{name}.js") for name in _COMPILER)]


class SourceCompiler:
    """An engine with acorn and our compiler in it."""

    def __init__(self) -> None:
        import _quickjs

        self._context = _quickjs.Context()
        self._context.set_max_stack_size(STACK_BYTES)
        for source in _SOURCES:
            self._context.eval(source)
        self._prepare = self._context.eval("prepare")

    def prepare(self, source: str, **given: Any) -> dict[str, Any]:
        """Compile a program. Raises NotAProgram with the line of what JavaScript cannot read."""
        prepared: dict[str, Any] = json.loads(self._prepare(json.dumps({"source": source, **given})))
        if "error" in prepared:
            raise NotAProgram(prepared["error"])
        return prepared


_kept: list[SourceCompiler] = []


def compiler() -> SourceCompiler:
    """Return the compiler of this process, made once; forks of the process have it too."""
    if not _kept:
        _kept.append(SourceCompiler())
    return _kept[0]


def find_program(reply: str, *, is_reply: bool) -> str:
    """Return the program in a reply: its last block of JavaScript, else its last block, else all of it."""
    check_readable(reply)
    text = reply.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    blocks = [(found["language"].lower(), found["body"]) for found in _FENCE.finditer(text)] if is_reply else []
    ours = [body for language, body in blocks if language in _OUR_WORDS] or [
        body for language, body in blocks if not language
    ]
    source = ours[-1] if ours else text
    if not source.strip():
        raise NotAProgram("there is no program: the text is empty")
    return source
