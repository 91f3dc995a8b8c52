"""Which names a program sets, where, and to what. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from .works import STATES, works

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LITERALS = (str, int, float)
_MAX_NEAR = 4


def bound_in(node: ast.AST, *, everywhere: bool = False) -> Iterator[str]:
    """The names that a body of statements sets; with `everywhere`, those of functions inside of it, too."""
    pending = [node]
    while pending:
        current = pending.pop()
        match current:
            case ast.Name(ctx=ast.Store() | ast.Del(), id=name) | ast.arg(arg=name):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
        closed = (*_FUNCTIONS, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        if everywhere or current is node or not isinstance(current, closed):
            pending += ast.iter_child_nodes(current)


def grown_in(tree: ast.AST) -> Iterator[str]:
    """The names that loops set, or whose objects they may change."""
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            for node in (part for statement in loop.body for part in ast.walk(statement)):
                match node:
                    case ast.Name(ctx=ast.Store(), id=name) | ast.Attribute(ctx=ast.Load(), value=ast.Name(id=name)):
                        yield name
                    case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)):
                        yield name


def worked_in(tree: ast.AST, others: Collection[str]) -> Iterator[str]:
    """The names that are set to more than a literal somewhere."""
    stated = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and works(node, others) == STATES
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store(), id=name) if id(node) not in stated:
                yield name
            case ast.arg(arg=name) | ast.Attribute(ctx=ast.Load(), value=ast.Name(id=name)):
                yield name
            case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)):
                yield name


def called_alone(call: ast.Call) -> ast.Call:
    """A call as it is without what its arguments do: with names in their place."""
    function = call.func
    if isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Name):
        function = ast.Attribute(ast.Name("x", ast.Load()), function.attr, ast.Load())
    return ast.Call(function, [ast.Name("x", ast.Load()) for _ in call.args], [])


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child


def literals_in(parts: Iterable[ast.AST], most: int = _MAX_NEAR) -> list[object]:
    found: list[object] = [
        node.value
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Constant) and isinstance(node.value, _LITERALS)
    ]
    return list(dict.fromkeys(found))[:most]
