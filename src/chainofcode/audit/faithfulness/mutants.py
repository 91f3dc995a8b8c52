"""Mutants: re-runs of a recorded program with other literals, another question, or both."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ChainOfCodeError
from ...languages.python.compiler.statements import statements
from ...languages.python.compiler.syntax import called_name
from ...program import Program
from ...sandbox import Sandbox
from ...trace import Step, Trace
from ..replay.changes import Changes
from ..replay.rerun import areplay
from .echo import AsBefore

_MAX_SOURCE_CHARS = 100_000
_LEAST_SECONDS = 0.5
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_PLACING = ("chr", "bytes", "bytearray", "group")  # their numbers are character codes or positions
DROPPED = object()  # a mutation: drop the element of the list, tuple, set or dict that holds the literal


@dataclass(frozen=True)
class Literal:
    """A constant in a program: its index among all constants, its statement, and its parents in the syntax tree."""

    place: int
    value: Any
    statement: int
    node: ast.Constant
    parents: tuple[ast.AST, ...]  # from the inside out, up to the statement
    name: str = ""  # the variable that the statement sets, if any

    @property
    def whole(self) -> ast.AST:
        """The largest list, tuple, set or dict around it that holds only literals; else the constant itself."""
        found: ast.AST = self.node
        for parent in self.parents:
            if not isinstance(parent, (*_DISPLAYS, ast.UnaryOp)) or not _is_literal(parent):
                break
            found = parent
        return found

    @property
    def is_index(self) -> bool:
        """Whether it is an index, a format, or a character code or offset rather than data."""
        inner: ast.AST = self.node
        for parent in self.parents:
            match parent:
                case ast.Subscript(slice=key) if key is inner:
                    return isinstance(inner, (ast.Constant, ast.Slice, ast.UnaryOp, ast.Tuple))
                case ast.FormattedValue(format_spec=spec) if spec is inner:
                    return True
                case ast.Call() if called_name(parent) in _PLACING and not isinstance(self.value, str):
                    return not isinstance(self.whole, _DISPLAYS)
            inner = parent
        return False


def literals_of(program: Program) -> list[Literal] | None:
    """Return the constants of a program in the order of its syntax tree; None if it cannot be unparsed."""
    if program.prose or len(program.source) > _MAX_SOURCE_CHARS:
        return None
    try:
        tree = ast.parse(program.source)
        numbers = {id(node): number for number, node in enumerate(statements(tree.body))}
        parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        places = {id(node): place for place, node in enumerate(_constants(tree))}
        return [_literal(node, places[id(node)], parents, numbers) for node in _constants(tree)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literal(node: ast.Constant, place: int, parents: Mapping[int, ast.AST], numbers: Mapping[int, int]) -> Literal:
    around: list[ast.AST] = []
    inner: ast.AST = node
    while (parent := parents.get(id(inner))) is not None:
        if id(parent) in numbers:
            return Literal(place, node.value, numbers[id(parent)], node, tuple(around), _set_by(parent))
        around.append(parent)
        inner = parent
    return Literal(place, node.value, -1, node, tuple(around))


def _set_by(statement: ast.AST) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _constants(tree: ast.AST) -> Iterable[ast.Constant]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant))


def _is_literal(node: ast.AST) -> bool:
    parts = (*_DISPLAYS, ast.Constant, ast.UnaryOp, ast.USub, ast.UAdd, ast.expr_context)
    return all(isinstance(part, parts) for part in ast.walk(node))


class Mutants:
    """Runs mutants of one recorded run for a limited time.

    Calls get their recorded value, or the last value of the same function if their arguments changed.
    """

    def __init__(
        self, trace: Trace, program: Program, values: Iterable[Step], sandbox: Sandbox, seconds: float
    ) -> None:
        self._trace, self._program, self._sandbox = trace, program, sandbox
        self._values = list(values)
        self._ends = time.monotonic() + seconds

    @property
    def has_time(self) -> bool:
        return time.monotonic() < self._ends

    async def answer_with(self, literals: Mapping[int, Any] = {}, question: str | None = None) -> str | None:
        """Return the answer's text with other literals, by index, and another question; None without an answer."""
        source = self._written(literals) if literals else None
        if literals and source is None:
            return None
        changes = Changes(inputs={"question": question}) if question is not None else None
        try:
            again = areplay(
                self._trace,
                changes=changes,
                program=source,
                emulator=AsBefore(self._values),
                sandbox=self._sandbox,
            )
            seconds = max(_LEAST_SECONDS, self._ends - time.monotonic())
            answer = (await asyncio.wait_for(again, seconds)).trace.answer  # a mutant may loop forever
        except (ChainOfCodeError, TimeoutError):
            return None
        return answer.text if answer is not None and answer.reason == "answered" else None

    def _written(self, literals: Mapping[int, Any]) -> str | None:
        try:
            tree = ast.parse(self._program.source)
            dropped = set[int]()
            for place, node in enumerate(_constants(tree)):
                if literals.get(place) is DROPPED:
                    dropped.add(id(node))
                elif place in literals:
                    node.value = literals[place]
            if dropped:
                _drop(tree, dropped)
            return ast.unparse(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _drop(tree: ast.AST, dropped: set[int]) -> None:
    """Drop elements from the largest literals that hold them."""

    def is_out(part: ast.AST | None) -> bool:
        return part is not None and any(id(node) in dropped for node in ast.walk(part))

    for node in ast.walk(tree):  # outer before inner
        if not isinstance(node, _DISPLAYS) or not _is_literal(node) or not is_out(node):
            continue
        if isinstance(node, ast.Dict):
            kept = [pair for pair in zip(node.keys, node.values, strict=True) if not any(map(is_out, pair))]
            node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        else:
            node.elts = [part for part in node.elts if not is_out(part)]


__all__ = ["DROPPED", "Literal", "Mutants", "literals_of"]
