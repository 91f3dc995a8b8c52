"""Hides the guest functions that lowered code calls: they are constants of the code, not names.

Lowered trees use names such as `$attribute` and `$last`. A program that lists its builtins must not find them there, so
a tree is compiled with a placeholder for each such name, and the guest puts the objects into the code's constants.
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

# Variables that lowering assigns itself; a flag, because a constant test would be optimised away
# (guest/run/checkpoints.py replaces it with a jump).
_SHOWN = {"$error", "$delta", "$on"}


class Hidden(ast.Constant, ast.Name):
    """A name for code that reads the tree, but a constant for the compiler, which checks for constants first."""

    _fields = ("value", "kind")


def finish(tree: ast.Module) -> None:
    """Give each node a location, as `ast.fix_missing_locations` does, and hide names that start with `$` (in place).

    One walk does both, to keep the start of a guest fast.
    """
    pending: list[tuple[ast.AST, Place]] = [(tree, (1, 0, 1, 0))]
    while pending:
        node, place = pending.pop()
        if "lineno" in node._attributes:
            place = _placed(node, place)
        is_hidden = type(node) is ast.Name and isinstance(node.ctx, ast.Load) and node.id not in _SHOWN
        if is_hidden and node.id.startswith("$"):  # type: ignore[attr-defined]
            node.__class__ = Hidden
            hidden: Any = node
            hidden.value, hidden.kind = _placeholder(hidden.id), None
        pending += [(child, place) for child in ast.iter_child_nodes(node)]


def _placed(node: Any, place: Place) -> Place:
    if not hasattr(node, "lineno"):
        node.lineno, node.col_offset = place[0], place[1]
    if getattr(node, "end_lineno", None) is None:
        node.end_lineno = place[2]
    if getattr(node, "end_col_offset", None) is None:
        node.end_col_offset = place[3]
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _placeholder(name: str) -> frozenset[frozenset[str]]:
    """Return a constant that cannot come from source: the compiler folds sets, but not nested sets."""
    return frozenset([frozenset([name])])


def compiled(tree: ast.Module | ast.Expression, filename: str, mode: str = "exec") -> CodeType:
    """Compile a finished tree, without CPython's warning that a constant is called."""
    usual = warnings.filters
    # Set directly: `warnings.simplefilter` would reset which warnings were already shown.
    warnings.filters = [("ignore", None, SyntaxWarning, None, 0)]
    try:
        return compile(tree, filename, mode, dont_inherit=True)
    finally:
        warnings.filters = usual


def built_into(code: CodeType, values: Mapping[str, Any]) -> CodeType:
    """Return the code with objects in place of its placeholders, nested code included."""
    known = {_placeholder(name): value for name, value in values.items()}

    def filled(constant: Any) -> Any:
        if type(constant) is CodeType:
            return constant.replace(co_consts=tuple(map(filled, constant.co_consts)))
        return known.get(constant, constant) if type(constant) is frozenset else constant

    found: CodeType = filled(code)
    return found
