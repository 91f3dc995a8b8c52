"""What each statement reads, binds, stores, calls and leaves: computed once per tree, for every analysis.

The facts of a compound statement are those of its header; the statements in it have facts of their own. Standard
library only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property

from .library import FIRST_ARGUMENT_MUTATORS
from .syntax import DEFINITIONS, FUNCTIONS, LOOPS, Function, called_name, defaults_of, imported, is_target, root_name

PROSE_NAME = "$prose"  # not a valid identifier in source code
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_YIELDS = (ast.Yield, ast.YieldFrom)
_INLINES = sys.version_info >= (3, 12)  # comprehensions are inlined: they have no code object


# --- statements and the statements in them ------------------------------------------------------------------------


def children(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside a statement, in the order they are written."""
    for field in _BLOCKS:
        for child in getattr(statement, field, ()):
            yield from child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child]


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement in the order it is written."""
    for statement in body:
        yield statement
        yield from statements(children(statement))


def inside(statement: ast.stmt, closed: tuple[type[ast.stmt], ...] = FUNCTIONS) -> Iterator[ast.stmt]:
    """The statements in a statement that run when it does: not those in functions (or other `closed` kinds)."""
    for child in children(statement):
        yield child
        if not isinstance(child, closed):
            yield from inside(child, closed)


def executed(statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those in it that run when it does, without the bodies of definitions."""
    return [statement, *(() if isinstance(statement, DEFINITIONS) else inside(statement, DEFINITIONS))]


def own_parts(node: ast.AST) -> list[ast.AST]:
    """The header of a statement as trees, with patterns and their guards; an expression is its own only part."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.decorator_list, *defaults_of(node.args)]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        case ast.Match():
            cases = [part for case in node.cases for part in (case.pattern, case.guard)]
            return [node.subject, *filter(None, cases)]
        case ast.Try() | ast.TryStar():
            return [*filter(None, (handler.type for handler in node.handlers))]
        case ast.stmt():
            return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return [node]


_SKIPPED = (
    ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
    ast.stmt, ast.ExceptHandler, ast.match_case,
)  # fmt: skip


def _nodes_in(part: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the nodes of a part of a statement in order, except constants, and whether they are in a lambda."""
    pending = [(part, isinstance(part, ast.Lambda))]
    while pending:
        node, is_later = pending.pop()
        yield node, is_later
        below: list[ast.AST] = []
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                below += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                below.append(value)
        pending += [
            (child, is_later or isinstance(child, ast.Lambda))
            for child in reversed(below)
            if not isinstance(child, _SKIPPED)
        ]


# --- facts --------------------------------------------------------------------------------------------------------


class StatementFacts:
    """What a statement does itself; or what an expression or a target does."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        self.parts = own_parts(node)
        found = [pair for part in self.parts for pair in _nodes_in(part)]
        self.nodes = [child for child, _ in found]
        self.immediate = [child for child, is_later in found if not is_later]  # not in a lambda

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def targets(self) -> list[ast.Subscript | ast.Attribute]:
        """The items and attributes that are assigned or deleted."""
        return [node for node in self.nodes if is_target(node)]  # type: ignore[misc]

    @cached_property
    def mentioned(self) -> set[str]:
        """Every name of a variable."""
        return {node.id for node in self.nodes if isinstance(node, ast.Name)}

    @cached_property
    def yields(self) -> bool:
        return any(isinstance(node, _YIELDS) for node in self.immediate)

    @cached_property
    def bindings(self) -> list[tuple[str, ast.AST]]:
        """The names that are bound, each with a node in the scope of the name."""
        found: list[tuple[str, ast.AST]] = []
        if isinstance(self.node, DEFINITIONS):
            found.append((self.node.name, self.node))
        elif isinstance(self.node, (ast.Import, ast.ImportFrom)):
            found += [(name, self.node) for name, _ in imported(self.node) if name != "*"]
        for node in self.immediate:
            match node:
                case ast.Name(ctx=ast.Store() | ast.Del(), id=name):
                    found.append((name, node))
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                    found.append((name, self.node))
        handlers = getattr(self.node, "handlers", ())
        return found + [(handler.name, self.node) for handler in handlers if handler.name]

    @cached_property
    def binds(self) -> list[str]:
        """The names that the statement binds in its own scope, in order."""
        names = dict.fromkeys(name for name, _ in self.bindings)
        inner = {
            node.id
            for loop in self.immediate
            if isinstance(loop, ast.comprehension)
            for node in ast.walk(loop.target)
            if isinstance(node, ast.Name)
        }
        return [name for name in names if name not in inner and not name.startswith("$")]

    @cached_property
    def stored(self) -> list[str]:
        """`d` of `d["x"] = …` and of `d.x = …`: names whose objects are changed in place."""
        return _roots(self.targets)

    @cached_property
    def receivers(self) -> list[str]:
        """`xs` of `xs.append(…)` and of `xs[0].count(…)`."""
        return _roots(call.func for call in self.calls if isinstance(call.func, ast.Attribute))

    @cached_property
    def may_mutate(self) -> bool:
        """Whether running this may change an object in place: a call, an await, a store into something."""
        return any(isinstance(node, (ast.Call, ast.Await, *_YIELDS)) or is_target(node) for node in self.immediate)


def _roots(nodes: Iterable[ast.AST]) -> list[str]:
    return [root for root in map(root_name, nodes) if root is not None and not root.startswith("$")]


class TreeFacts:
    """The facts of every statement of a tree, made on first use, and the numbers of the statements."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._known: dict[ast.AST, StatementFacts] = {}

    @cached_property
    def numbers(self) -> dict[ast.stmt, int]:
        """A statement's number is its place in the order in which statements are written."""
        return {statement: number for number, statement in enumerate(statements(self._tree.body))}

    def of(self, node: ast.AST) -> StatementFacts:
        facts = self._known.get(node)
        if facts is None:
            facts = self._known[node] = StatementFacts(node)
        return facts

    def forget(self) -> None:
        """Compute all facts again on their next use: the tree has changed."""
        self._known.clear()

    def binds(self, node: ast.AST) -> list[str]:
        return self.of(node).binds

    def changed_in(self, statement: ast.stmt) -> set[str]:
        """The names that a statement and all those in it bind, or whose objects they may change in place."""
        found: set[str] = set()
        for inner in statements([statement]):
            facts = self.of(inner)
            found.update(facts.binds, facts.stored, facts.receivers)
        return found


def mutated(node: ast.AST, mutators: Iterable[str]) -> ast.expr | None:
    """The expression whose object a node changes in place, given the names of methods that change their receiver."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return value
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return node
        case ast.Call(args=[first, *_]) if called_name(node) in FIRST_ARGUMENT_MUTATORS:
            return first
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in mutators:
            return receiver
    return None


_WAYS = {ast.Return: "return", ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue"}


def ways_out(body: Iterable[ast.AST], in_loop: bool = False) -> set[str]:
    """The jumps in statements (return, raise, break, continue, yield) that affect the block around them."""
    found: set[str] = set()
    for node in body:
        way = "yield" if isinstance(node, _YIELDS) else _WAYS.get(type(node))
        if way is not None and not (in_loop and way in ("break", "continue")):
            found.add(way)
        if not isinstance(node, (*DEFINITIONS, ast.Lambda, ast.GeneratorExp)):
            found |= ways_out(ast.iter_child_nodes(node), in_loop or isinstance(node, LOOPS))
    return found


# --- special statements -------------------------------------------------------------------------------------------


def prose_number(statement: ast.AST) -> int | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int(number)), *_])):
            return number if name == PROSE_NAME else None
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


# --- places -------------------------------------------------------------------------------------------------------


def first_line(statement: ast.stmt) -> int:
    """Return the line of the first instruction of a statement or header: that of the part evaluated first."""
    node: ast.AST | None = statement
    line = statement.lineno
    while node is not None:
        line = getattr(node, "lineno", line)  # a node made by lowering has no line yet
        node = _first_part(node)
    return line


def _first_part(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.Assign(value=first) | ast.AnnAssign(value=first) | ast.NamedExpr(value=first):
            return first
        case ast.For(iter=first) | ast.AsyncFor(iter=first):
            return first
        case ast.ListComp() | ast.SetComp() | ast.DictComp():
            return node.generators[0].iter if _INLINES else None
        case ast.GeneratorExp() | ast.Lambda() | ast.JoinedStr():
            return None
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value:
            value = value[0].context_expr if isinstance(value[0], ast.withitem) else value[0]
        if isinstance(value, ast.expr):
            return value
        if isinstance(value, ast.AST) and not isinstance(value, (ast.operator, ast.unaryop, ast.expr_context)):
            return None
    return None
