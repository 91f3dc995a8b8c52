"""What an expression of a program looks like, without running it: number, text, date, list; its literals.

Standard library only.
"""

from __future__ import annotations

import ast

from .analyse import Analysis
from .syntax import called_name, last_name

_DATE_MAKERS = {"date", "today", "fromisoformat", "strptime", "fromtimestamp", "fromordinal"}
_NUMBER_MAKERS = {"len", "sum", "int", "float", "round", "abs", "count", "sqrt", "floor", "ceil", "Decimal", "Fraction"}
_MAX_DEPTH = 6


class Looks:
    """Answers for one program; empty where nothing is known."""

    def __init__(self, found: Analysis) -> None:
        self._names = found.names

    def like(self, node: ast.AST | None, depth: int = 0) -> str:
        """`number`, `str`, `date`, `span` (of time) or `list`."""
        if depth > _MAX_DEPTH:
            return ""
        match node:
            case ast.Constant(value=value):
                is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
                return "number" if is_number else "str" if isinstance(value, str) else ""
            case ast.JoinedStr():
                return "str"
            case ast.List() | ast.ListComp():
                return "list"
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return self.like(inner, depth + 1)
            case ast.BinOp(left=left, right=right):
                return self._sum(self.like(left, depth + 1), self.like(right, depth + 1))
            case ast.AugAssign(value=value):
                return self.like(value, depth + 1) or "same"
            case ast.Call():
                return self._call(node)
            case ast.Name():
                kinds = {self.like(source, depth + 1) for source in self.sources(node)} - {"same"}
                return kinds.pop() if len(kinds) == 1 else ""
        return ""

    def _sum(self, left: str, right: str) -> str:
        if "date" in (left, right):
            return "date" if {left, right} != {"date"} else "span"
        return left if left == right else ""

    def _call(self, call: ast.Call) -> str:
        name = called_name(call) or ""
        if name == "timedelta":
            return "span"
        if name in _DATE_MAKERS and last_name(call.func) == name:
            return "date"
        if name in _NUMBER_MAKERS:
            return "number"
        return "str" if name in ("str", "join", "lower", "upper", "strip", "format", "title") else ""

    def sources(self, node: ast.expr) -> list[ast.AST | None]:
        """What the variable that a name stands for is bound to; nothing where one of them cannot be told."""
        scope = self._names.scope_of.get(node)
        if not isinstance(node, ast.Name) or scope is None:
            return []
        home = self._names.resolve(node.id, scope)
        return home.bindings.get(node.id, []) if home is not None else []

    def display(self, node: ast.expr) -> ast.expr:
        """A display, or the one that a variable holds."""
        sources = self.sources(node)
        only = sources[0] if len(sources) == 1 else None
        return only if isinstance(only, (ast.List, ast.Tuple, ast.Set, ast.Dict)) else node

    def literals(self, node: ast.expr) -> list[object]:
        """The literals of a display (of a dict, its keys), if it holds nothing else."""
        shown = self.display(node)
        items = shown.keys if isinstance(shown, ast.Dict) else getattr(shown, "elts", [])
        constants: list[object] = [item.value for item in items if isinstance(item, ast.Constant)]
        return constants if len(constants) == len(items) else []
