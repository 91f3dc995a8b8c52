"""How a statement may leave its block, and which of its parts run when it does. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WAYS = {ast.Return: "return", ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue"}


def ownways(node: ast.AST) -> set[str]:
    return set(ways(node))


def ways(node: ast.AST, in_loop: bool = False) -> Iterator[str]:
    """Yield the jumps in a statement (return, raise, break, continue, yield) that affect the enclosing block."""
    way = _WAYS.get(type(node))
    if way is not None and not (in_loop and way in ("break", "continue")):
        yield way
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        yield "yield"
    if isinstance(node, (*_DEFINITIONS, ast.Lambda, ast.GeneratorExp)):
        return
    for child in ast.iter_child_nodes(node):
        yield from ways(child, in_loop or isinstance(node, _LOOPS))


def ways_of(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        yield from ways(statement)


def executed(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement that run when it does, without function bodies."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_DEFINITIONS, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
