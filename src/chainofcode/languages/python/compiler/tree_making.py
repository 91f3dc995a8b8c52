"""Helpers that build the syntax trees for lowering. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import TypeVar

    Node = TypeVar("Node", bound=ast.AST)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(name), list(arguments), [])


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def assign_from_delta(delta: ast.expr, names: Iterable[str]) -> list[ast.stmt]:
    """Return code that keeps a delta in `$delta` and assigns those of the names that it has."""
    body: list[ast.stmt] = [assign("$delta", delta)]
    for name in sorted(names):
        value = ast.Subscript(load("$delta"), ast.Constant(name), ast.Load())
        test = ast.Compare(ast.Constant(name), [ast.In()], [load("$delta")])
        body.append(ast.If(test, [assign(name, value)], []))
    return body


def at(where: ast.AST, node: Node) -> Node:
    """Copy an old node's location to a new node; its children get theirs when the whole tree is finished."""
    return ast.copy_location(node, where)
