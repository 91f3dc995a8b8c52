"""How much of the work a statement does itself: none, when it states a literal or hands a value on.

What a hole gives is not Python's work; nor is a literal, however it is written down. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from .header import own_parts
from .statements import prose_number
from .syntax import called_name

STATES, HANDS_ON, WORKS = 0, 1, 2  # a literal; somebody else's value, perhaps in other words; its own
_WORDING = frozenset([
    "str", "int", "float", "bool", "repr", "print", "format", "tuple", "list",
    "strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "removeprefix", "removesuffix",
    "encode", "decode", "copy", "range",
])  # fmt: skip
_PLAIN = (
    ast.Assign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Break, ast.Continue, ast.Try, ast.Delete, ast.For,
    ast.AsyncFor,
)  # fmt: skip


def works(statement: ast.stmt, holes: Collection[str]) -> int:
    """What a statement (of a compound one, the header) does: the most that any part of it does.

    `holes` are the names whose calls are somebody else's work: the LM's, or that of statements elsewhere.
    """
    if prose_number(statement) is not None:
        return HANDS_ON
    if isinstance(statement, (ast.If, ast.While)) and isinstance(statement.test, ast.Constant):
        return STATES
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return _does(statement.iter, holes)
    if not isinstance(statement, _PLAIN):
        return WORKS
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        if any(not isinstance(target, (ast.Name, ast.Tuple, ast.List)) for target in targets):
            return WORKS  # it builds something up
        return _does(statement.value, holes) if statement.value is not None else STATES
    return max((_does(part, holes) for part in own_parts(statement)), default=STATES)


def _does(node: ast.AST, holes: Collection[str]) -> int:
    match node:
        case ast.Constant():
            return STATES
        case ast.Name():
            return HANDS_ON
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant()):
            return STATES
        case ast.Tuple() | ast.List() | ast.Set():
            return max((_does(part, holes) for part in node.elts), default=STATES)
        case ast.Dict():
            parts = [*filter(None, node.keys), *node.values]
            return max((_does(part, holes) for part in parts), default=STATES)
        case ast.JoinedStr():
            return max((_does(part, holes) for part in node.values), default=STATES)
        case ast.FormattedValue(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
            return _does(inner, holes)
        case ast.Lambda(body=inner):
            return _does(inner, holes)
        case ast.Call():
            return _calls(node, holes)
    return WORKS


def _calls(node: ast.Call, holes: Collection[str]) -> int:
    name = called_name(node)
    parts: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Attribute):
        parts.append(node.func.value)
    if name in holes:  # its arguments may be worked out, its value is not
        worked = [_does(part, holes) for part in parts]
        return WORKS if WORKS in worked else HANDS_ON
    if name in _WORDING:
        return max((_does(part, holes) for part in parts), default=STATES)
    return WORKS
