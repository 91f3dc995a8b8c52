"""Names that a program cannot spell, put into its tree for the guest to bind (in place). Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .ahead import Loop
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


def tell_iterations(loops: Sequence[Loop]) -> None:
    """`for x in xs:` → `for x in $iter(7, "for", xs):`, so that whoever looks ahead knows what comes (in place)."""
    for index, loop in enumerate(loops):
        is_method = isinstance(loop.node, ast.Call) and isinstance(loop.node.func, ast.Attribute)
        kind = {ast.For: "for", ast.comprehension: "comprehension"}.get(
            type(loop.node), "sort" if is_method else "call"
        )
        told = [ast.Constant(index), ast.Constant(kind), loop.iterable]
        new = ast.copy_location(ast.Call(ast.Name("$iter", ast.Load()), told, []), loop.iterable)
        put_instead(loop.node.func if is_method else loop.node, loop.iterable, new)  # type: ignore[attr-defined]
