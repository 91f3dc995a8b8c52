"""Names that a program cannot spell, put into its tree for the guest to bind (in place). Standard library only."""

from __future__ import annotations

import ast

from .analyse import Analysis
from .statements import put_instead


def name_holes(found: Analysis) -> None:
    """Give holes that have no name of their own one that the guest binds (in place)."""
    for name in found.shadowed:
        name.id = "$" + name.id
    for attribute in found.methods:
        owner_and_name = [attribute.value, ast.Constant(attribute.attr)]
        call = ast.Call(ast.Name("$attribute", ast.Load()), owner_and_name, [])
        put_instead(found.syntax.parents[attribute], attribute, ast.copy_location(call, attribute))
    for runner in found.text_runners:
        _bind_holes_of_text(runner, found.syntax.parents.get(runner))


def _bind_holes_of_text(name: ast.Name, call: ast.AST | None) -> None:
    """`eval(x)` → `$real(eval)($text(x))`: CPython's own `eval`, and the holes in the text bound before it runs."""
    if isinstance(call, ast.Call) and call.func is name and call.args and not isinstance(call.args[0], ast.Starred):
        call.args[0] = ast.copy_location(ast.Call(ast.Name("$text", ast.Load()), [call.args[0]], []), call.args[0])
        call.func = ast.copy_location(ast.Call(ast.Name("$real", ast.Load()), [name], []), name)
