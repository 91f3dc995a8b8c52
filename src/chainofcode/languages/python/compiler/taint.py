"""Taint: which names of a program may hold a model's value, or a value made from one. Scopes are not distinguished.

Speculative code guards only statements with tainted names. An extra name costs time, and a missing name costs a wrong
guess; neither changes what the program computes. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .analyse import Analysis
from .library import MUTATORS
from .statements import mutated
from .syntax import arguments_of, called_name, text_of

_HEADERS = {ast.If: "test", ast.While: "test", ast.For: "iter", ast.AsyncFor: "iter", ast.Match: "subject"}


class Taint:
    """The tainted names of a program; `touches(node)` returns whether a node mentions one."""

    def __init__(self, found: Analysis, set_by_prose: Iterable[str]) -> None:
        self._found = found
        self._flows: dict[str, set[str]] = {}  # name → names that take values from it
        for node in found.syntax.nodes:
            for source, targets in self._flows_of(node):
                names = set(targets)
                for name in _names(source):
                    self._flows.setdefault(name, set()).update(names)
        self._tainted = {*self._sources(), *set_by_prose}
        pending = list(self._tainted)
        while pending:
            reached = self._flows.get(pending.pop(), set()) - self._tainted
            self._tainted |= reached
            pending += reached

    def touches(self, node: ast.AST) -> bool:
        return any(name in self._tainted for name in _names(node))

    def _sources(self) -> Iterator[str]:
        for hole in self._found.hole_names():
            yield hole.attr if isinstance(hole, ast.Attribute) else hole.id
        if self._found.text_runners:  # the content of a string is known only when it runs
            yield from ("eval", "exec")
        yield from self._found.unknown_modules

    # --- where values go --------------------------------------------------------------------------------------

    def _flows_of(self, node: ast.AST) -> Iterator[tuple[ast.AST, Iterable[str]]]:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield value, [name for target in targets for name in _targets(target)]
            case ast.AugAssign() | ast.NamedExpr() | ast.AnnAssign(value=ast.expr()):
                yield node.value, _targets(node.target)  # type: ignore[misc]
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                yield node.iter, _targets(node.target)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield value, _targets(target)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for inner in ast.walk(node):
                    if isinstance(inner, (ast.Return, ast.Yield, ast.YieldFrom)) and inner.value is not None:
                        yield inner.value, [node.name]
            case ast.Call():
                yield from self._flows_of_call(node)
        if isinstance(node, ast.stmt) and type(node) in _HEADERS:
            header: ast.AST = getattr(node, _HEADERS[type(node)])
            yield header, self._found.facts.changed_in(node)

    def _flows_of_call(self, node: ast.Call) -> Iterator[tuple[ast.AST, Iterable[str]]]:
        """Arguments flow into parameters, even of functions passed as arguments, and into what the call mutates."""
        arguments = arguments_of(node)
        called = [called_name(node), *(argument.id for argument in arguments if isinstance(argument, ast.Name))]
        functions = [own for name in called for own in self._found.syntax.own_functions(name)]
        taking = [part.arg for own in functions for part in ast.walk(own.args) if isinstance(part, ast.arg)]
        changed = mutated(node, MUTATORS)
        taking += _targets(changed) if changed is not None else []
        for argument in arguments if taking else ():
            yield argument, taking


def _names(node: ast.AST) -> Iterator[str]:
    return (name for child in ast.walk(node) if (name := text_of(child)) is not None)


def _targets(target: ast.AST) -> list[str]:
    """Return the names that a value stored in a target taints: `items` for `self.items[key]`."""
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    if isinstance(target, ast.Attribute):
        return [target.attr]
    if isinstance(target, ast.Name):
        return [target.id]
    return [name for child in ast.iter_child_nodes(target) for name in _targets(child)]
