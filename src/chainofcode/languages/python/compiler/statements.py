"""Statements: their order, the names they bind, the objects they may change. Standard library only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from .parse import PROSE_NAME
from .scopes import Function


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement in the order it is written."""
    for statement in body:
        yield statement
        for name in ("body", "handlers", "cases", "orelse", "finalbody"):
            for child in getattr(statement, name, ()):
                yield from statements(child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child])


def prose_number(statement: ast.stmt) -> int | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Name) and call.func.id == PROSE_NAME and isinstance(call.args[0], ast.Constant):
            number = call.args[0].value
            return number if isinstance(number, int) else None
    return None


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def empty_body(function: Function) -> list[ast.stmt]:
    """Return the body of an empty function without its `raise`: the function is called to check its arguments."""
    docstring = [statement for statement in function.body[:1] if is_docstring(statement)]
    return [*docstring, ast.copy_location(ast.Pass(), function.body[-1])]


def last_expressions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The expression statements that may be the program's last: the last of the body, and of the blocks after it."""
    for statement in reversed(body):
        if isinstance(statement, ast.Expr) and prose_number(statement) is None:
            yield statement
            return
        if isinstance(statement, (ast.If, ast.With, ast.Try)):
            yield from last_expressions(statement.body)
            yield from last_expressions(getattr(statement, "orelse", []))


_BORING = (
    ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
    ast.stmt, ast.ExceptHandler, ast.match_case,
)  # fmt: skip
_BORING_AND_LAMBDA = (*_BORING, ast.Lambda)


def own_nodes(node: ast.AST, *, into_lambdas: bool = False) -> list[ast.AST]:
    """A statement's nodes in order: no nested statements, no constants and, unless asked for, nothing in a lambda."""
    found: list[ast.AST] = []
    pending = [node]
    while pending:
        current = pending.pop()
        found.append(current)
        children: list[ast.AST] = []
        for field in current._fields:
            value = getattr(current, field, None)
            if isinstance(value, list):
                children += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                children.append(value)
        skipped = _BORING if into_lambdas else _BORING_AND_LAMBDA
        pending += [child for child in reversed(children) if not isinstance(child, skipped)]
    return found


def written(node: ast.AST) -> list[str]:
    """The names a statement (or header) binds itself, in order."""
    names: list[str] = []
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*"]
    nodes = own_nodes(node)
    for child in nodes:
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            names.append(child.id)
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            names.append(child.name)
        elif isinstance(child, ast.MatchMapping) and child.rest:
            names.append(child.rest)
    comprehension = {
        n.id for c in nodes if isinstance(c, ast.comprehension) for n in ast.walk(c.target) if isinstance(n, ast.Name)
    }
    return [name for name in dict.fromkeys(names) if name not in comprehension and not name.startswith("$")]


def written_in(statement: ast.stmt) -> set[str]:
    return {name for node in ast.walk(statement) if isinstance(node, ast.stmt) for name in written(node)}


def bases_of_targets(statement: ast.stmt, *, and_receivers: bool = False) -> Iterator[str]:
    """`d` of `d["x"] = …`, and on request `xs` of `xs.append(…)`: changed in place."""
    for node in ast.walk(statement):
        is_target = isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)
        if and_receivers and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node, is_target = node.func, True
        if is_target:
            while isinstance(node, (ast.Subscript, ast.Attribute)):
                node = node.value
            if isinstance(node, ast.Name):
                yield node.id


def may_mutate(node: ast.AST) -> bool:
    """Whether running this may change an object in place: a call, an await, a store into something."""
    return any(
        isinstance(child, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom))
        or (isinstance(child, (ast.Subscript, ast.Attribute)) and not isinstance(child.ctx, ast.Load))
        for child in own_nodes(node)
    )


_INLINES = sys.version_info >= (3, 12)  # comprehensions are inlined: they have no code object


def first_line(statement: ast.stmt) -> int:
    """Return the line of the first instruction of a statement or header: that of the part evaluated first."""
    node: ast.AST | None = statement
    line = statement.lineno
    while node is not None:
        line = getattr(node, "lineno", line)  # a node made by lowering has no line yet
        node = _first_part(node)
    return line


def _first_part(node: ast.AST) -> ast.expr | None:
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return node.value
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return node.iter
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)) and _INLINES:
        return node.generators[0].iter
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.JoinedStr)):
        return None
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value:
            value = value[0].context_expr if isinstance(value[0], ast.withitem) else value[0]
        if isinstance(value, ast.expr):
            return value
        if isinstance(value, ast.AST) and not isinstance(value, (ast.operator, ast.unaryop, ast.expr_context)):
            return None
    return None


def put_instead(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Replace a child of a node."""
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
