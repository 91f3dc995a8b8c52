"""What a statement writes: the names it binds, the objects it may change. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def own_nodes(node: ast.AST, *, into_lambdas: bool = False) -> Iterator[ast.AST]:
    """A statement's nodes, without nested statements and, unless asked for, without what a lambda does later."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            continue
        if into_lambdas or not isinstance(child, ast.Lambda):
            yield from own_nodes(child, into_lambdas=into_lambdas)


def written(node: ast.AST) -> list[str]:
    """The names a statement (or header) binds itself, in order."""
    names: list[str] = []
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*"]
    for child in own_nodes(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            names.append(child.id)
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            names.append(child.name)
        elif isinstance(child, ast.MatchMapping) and child.rest:
            names.append(child.rest)
    comprehension = {
        n.id
        for c in own_nodes(node)
        if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target)
        if isinstance(n, ast.Name)
    }
    return [name for name in dict.fromkeys(names) if name not in comprehension and not name.startswith("$")]


def written_in(statement: ast.stmt) -> set[str]:
    return {name for node in ast.walk(statement) if isinstance(node, ast.stmt) for name in written(node)}


def bases_of_targets(statement: ast.stmt) -> Iterator[str]:
    """`d` of `d["x"] = …`: changed in place."""
    for node in ast.walk(statement):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            base: ast.expr = node
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id


def may_mutate(node: ast.AST) -> bool:
    """Whether running this may change an object in place: a call, an await, a store into something."""
    return any(
        isinstance(child, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom))
        or (isinstance(child, (ast.Subscript, ast.Attribute)) and not isinstance(child.ctx, ast.Load))
        for child in own_nodes(node)
    )
