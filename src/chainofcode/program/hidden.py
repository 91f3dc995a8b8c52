"""What lowering calls in a program, kept out of the program's sight: constants of its code, not names.

Lowered trees say `$attribute`, `$last` and so on. A program that lists its builtins must not find them there, so a
tree is compiled with a placeholder for each such name and the guest puts the objects into the code's constants.
Standard library only.
"""

from __future__ import annotations

import ast
import warnings
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Mapping
    from typing import Any

    Place = tuple[int, int, int, int]

_LOCAL = {"$error", "$delta"}  # variables that lowering assigns itself
_FLAG = "$on"  # a test of a constant would be folded away; guest/checkpoints.py puts a jump in its place


class Hidden(ast.Constant, ast.Name):
    """A name to whoever reads the tree, a constant to the compiler, which looks for that first."""

    _fields = ("value", "kind")


def finish(tree: ast.Module) -> None:
    """Give each node a place, as `ast.fix_missing_locations` does, and hide the names that start with `$` (in place).

    One walk for both: a guest's start is short.
    """
    pending: list[tuple[ast.AST, Place]] = [(tree, (1, 0, 1, 0))]
    while pending:
        node, place = pending.pop()
        if "lineno" in node._attributes:
            place = _placed(node, place)
        if type(node) is ast.Name and node.id.startswith("$") and _is_hidden(node):
            _hide(node)
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                pending.append((value, place))
            elif isinstance(value, list):
                pending += [(item, place) for item in value if isinstance(item, ast.AST)]


def _placed(node: Any, place: Place) -> Place:
    if not hasattr(node, "lineno"):
        node.lineno, node.col_offset = place[0], place[1]
    if getattr(node, "end_lineno", None) is None:
        node.end_lineno = place[2]
    if getattr(node, "end_col_offset", None) is None:
        node.end_col_offset = place[3]
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _is_hidden(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load) and name.id not in _LOCAL and name.id != _FLAG


def _hide(name: ast.Name) -> None:
    name.__class__ = Hidden
    hidden: Any = name
    hidden.value, hidden.kind = _placeholder(name.id), None


def _placeholder(name: str) -> frozenset[frozenset[str]]:
    """A constant that no source has: Python makes constants of sets, but not of sets in sets."""
    return frozenset([frozenset([name])])


def compiled(tree: ast.Module | ast.Expression, filename: str, mode: str = "exec") -> CodeType:
    """A finished tree as code, without the warning that a constant is called."""
    usual = warnings.filters
    # Set without telling the module, which would forget what it has warned of.
    warnings.filters = [("ignore", None, SyntaxWarning, None, 0)]
    try:
        return compile(tree, filename, mode, dont_inherit=True)
    finally:
        warnings.filters = usual


def built_into(code: CodeType, values: Mapping[str, Any]) -> CodeType:
    """The same code with objects for its placeholders, nested code included."""
    known = {_placeholder(name): value for name, value in values.items()}
    return _with_constants(code, known)


def _with_constants(code: CodeType, known: Mapping[Any, Any]) -> CodeType:
    constants: list[Any] = []
    for constant in code.co_consts:
        if type(constant) is CodeType:
            constants.append(_with_constants(constant, known))
        else:
            constants.append(known.get(constant, constant) if type(constant) is frozenset else constant)
    return code.replace(co_consts=tuple(constants))
