"""The program as someone sees it who looks ahead: which parts hold holes, which loops, what comes after what.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from .analyse import Analysis
from .data import Data
from .effects import Effects
from .scopes import Comprehension, Function, Scope
from .statements import own_nodes, statements
from .syntax import called_name

_EACH = {"map": 1, "filter": 1, "sorted": 0, "max": 0, "min": 0}  # where their iterable stands
_SHORT = {"any", "all", "next"}
LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Loop(Data):
    """Something that goes through an iterable and holds holes: a `for`, one of a comprehension, `sorted(…, key=f)`.

    `node` is the `for` statement, the `comprehension`, or the call.
    """

    node: ast.AST
    iterable: ast.expr
    function: ast.expr | None = None  # what is called for each element, of a call


def holding(found: Analysis) -> set[ast.AST]:
    """Every node in which the LM may be asked, be it in a function of the program that is called there."""
    parents = found.syntax.parents
    marked: set[ast.AST] = set()
    mentions: dict[str, list[ast.AST]] = {}
    for node in found.syntax.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            mentions.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
    pending: list[ast.AST] = list(found.hole_names())
    while pending:
        inner: ast.AST | None = pending.pop()
        while inner is not None and inner not in marked:
            marked.add(inner)
            home = parents.get(inner)
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                pending += mentions.get(inner.name, ())
            elif isinstance(inner, ast.Lambda) and isinstance(home, ast.Assign):
                pending += [m for t in home.targets if isinstance(t, ast.Name) for m in mentions.get(t.id, ())]
            inner = home
    return marked


def loops(found: Analysis, marked: Collection[ast.AST] | None = None) -> list[Loop]:
    """Every loop that holds a hole, always in the same order."""
    marked = holding(found) if marked is None else marked
    chosen: list[Loop] = []
    for node in found.syntax.nodes:
        if isinstance(node, ast.For):
            chosen += [Loop(node, node.iter)] if any(line in marked for line in node.body) else []
        elif isinstance(node, ast.comprehension):
            chosen += [Loop(node, node.iter)] if found.syntax.parents[node] in marked and not node.is_async else []
        elif isinstance(node, ast.Call):
            chosen += [loop for loop in [each(node)] if loop is not None and loop.function in marked]
    return chosen


def each(call: ast.Call) -> Loop | None:
    """`map(f, xs)`, `sorted(xs, key=f)`, `xs.sort(key=f)` and their like, as loops."""
    key = next((keyword.value for keyword in call.keywords if keyword.arg == "key"), None)
    if isinstance(call.func, ast.Attribute):
        return Loop(call, call.func.value, key) if call.func.attr == "sort" and key is not None else None
    if not isinstance(call.func, ast.Name) or call.func.id not in _EACH:
        return None
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    place = _EACH[call.func.id]
    function = key if place == 0 else call.args[0] if call.args else None
    return Loop(call, call.args[place], function) if len(call.args) == place + 1 and function is not None else None


class Ahead:
    """Where things stand to each other, for one program; made before it is lowered, which changes its blocks."""

    def __init__(self, found: Analysis, tools: Collection[str] = ()) -> None:
        self.found = found
        self.parents = dict(found.syntax.parents)
        self.effects = Effects(found, tools)
        self.marked = holding(found)
        self.statements = list(statements(found.syntax.tree.body))
        self.number = {statement: number for number, statement in enumerate(self.statements)}
        self.loops = loops(found, self.marked)
        self.index = {loop.node: index for index, loop in enumerate(self.loops)}
        self._touched: dict[ast.AST, frozenset[str]] = {}
        self._leaving: dict[ast.AST, frozenset[type]] = {}
        self.weight: dict[ast.AST, int] = {}  # how many holes are named in a node
        for name in found.hole_names():
            around: ast.AST | None = name
            while around is not None:
                self.weight[around] = self.weight.get(around, 0) + 1
                around = found.syntax.parents.get(around)
        self._blocks: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}
        self._bodies: dict[tuple[ast.AST, str], list[ast.stmt]] = {}
        for node in (found.syntax.tree, *self.statements):
            for field, block in _blocks(node):
                self._blocks.update({statement: (block, place) for place, statement in enumerate(block)})
                self._bodies[node, field] = block
        for statement in reversed(self.statements):  # the inner ones first
            self._sum_up(statement)
        self.needed = self._needed()
        self._may_leave = {loop.node for loop in self.loops if self._leaves_early(loop)}
        self.loops_in: dict[int, list[int]] = {}  # statement → the loops in its own expressions
        for index, loop in enumerate(self.loops):
            if not isinstance(loop.node, ast.For) and not self._is_inner(loop.node):
                home = self._statement_of(loop.node)
                if home is not None:
                    self.loops_in.setdefault(self.number[home], []).append(index)

    def holds(self, node: ast.AST) -> bool:
        return node in self.marked

    def _sum_up(self, statement: ast.stmt) -> None:
        """What a statement touches, and how it may leave a loop or function."""
        nodes = own_nodes(statement, into_lambdas=True)
        handlers = getattr(statement, "handlers", ())
        touched = self.effects.touched([*nodes, *handlers])
        leaving = {type(statement)} if isinstance(statement, LEAVING) else set()
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for _, block in _blocks(statement):
                touched = touched.union(*(self._touched[line] for line in block))
                leaving = leaving.union(*(self._leaving[line] for line in block))
        self._touched[statement], self._leaving[statement] = frozenset(touched), frozenset(leaving)

    def _needed(self) -> set[str]:
        """Variables on which calls of holes hang: in their arguments, in what is gone through, in conditions."""
        sources: dict[str, set[str]] = {}
        needed: set[str] = set()
        for node in self.found.syntax.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and self._is_in_marked(node):
                needed.add(node.id)
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension)):
                value = node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.value
                read = (
                    {name.id for name in ast.walk(value) if isinstance(name, ast.Name)} if value is not None else set()
                )
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name):
                            sources.setdefault(name.id, set()).update(read)
        pending = list(needed)
        while pending:
            for source in sources.get(pending.pop(), ()):
                if source not in needed:
                    needed.add(source)
                    pending.append(source)
        return needed

    def _is_in_marked(self, node: ast.AST) -> bool:
        """Whether a name stands in an expression that holds a hole, or in the header of a statement that does."""
        parent = self.parents.get(node)
        while isinstance(parent, (ast.expr, ast.comprehension, ast.keyword, ast.arguments)):
            if parent in self.marked:
                return True
            parent = self.parents.get(parent)
        return isinstance(parent, (ast.If, ast.While, ast.For)) and parent in self.marked

    def touched(self, statement: ast.stmt) -> frozenset[str]:
        """The names that a statement may bind, or whose objects it may change."""
        return self._touched[statement]

    def leaves(self, statement: ast.stmt, *ways: type) -> bool:
        """Whether what comes after a statement may not be reached, by one of these ways."""
        return not self._leaving[statement].isdisjoint(ways or LEAVING)

    def block(self, node: ast.AST, field: str = "body") -> list[ast.stmt]:
        """A block of a statement as the program has it."""
        return self._bodies.get((node, field), [])

    @property
    def blocks(self) -> Iterable[list[ast.stmt]]:
        return self._bodies.values()

    def following(self, statement: ast.stmt) -> list[ast.stmt]:
        """What comes after a statement in its block."""
        block, place = self._blocks[statement]
        return block[place + 1 :]

    def around(self, statement: ast.stmt) -> ast.stmt | None:
        """The statement whose block this one stands in; None in a function's or the module's."""
        parent = self.parents.get(statement)
        while isinstance(parent, (ast.ExceptHandler, ast.match_case)):
            parent = self.parents.get(parent)
        return parent if isinstance(parent, ast.stmt) and not isinstance(parent, _DEFINITIONS) else None

    def function(self, name: str) -> Function | ast.Lambda | None:
        """The one function of the program that a name means wherever it is called."""
        nodes = self.found.syntax.functions.get(name, ())
        if len(nodes) != 1 or name in self.effects.holes or isinstance(nodes[0], ast.AsyncFunctionDef):
            return None
        homes = [scope for scope in self.found.names.scopes if name in scope.bindings]
        is_plain = len(homes) == 1 and len(homes[0].bindings[name]) == 1 and homes[0].kind != "class"
        return nodes[0] if is_plain else None

    def scope_in(self, function: Function | ast.Lambda) -> Scope:
        first = function.body if isinstance(function, ast.Lambda) else self.block(function)[0]
        return self.found.names.scope_of[first]

    def may_leave(self, loop: Loop) -> bool:
        """Whether a loop may end before its iterable does."""
        return loop.node in self._may_leave

    def _leaves_early(self, loop: Loop) -> bool:
        if isinstance(loop.node, ast.For):
            ways = (ast.Return, ast.Raise, ast.Break)
            return any(not self._leaving[line].isdisjoint(ways) for line in loop.node.body)
        owner = self.parents.get(loop.node)
        user = self.parents.get(owner) if isinstance(owner, ast.GeneratorExp) else None
        return isinstance(user, ast.Compare) or (isinstance(user, ast.Call) and called_name(user) in _SHORT)

    def reads(self, node: ast.AST) -> frozenset[str]:
        """The names of the module that functions of the program read which this calls, however deep."""
        names, seen, pending = set[str](), set[str](), [node]
        while pending:
            for child in ast.walk(pending.pop()):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                    names.add(child.id)
                    if child.id in self.found.syntax.functions and child.id not in seen:
                        seen.add(child.id)
                        pending += self.found.syntax.functions[child.id]
        return frozenset(names & self.found.names.module.bindings.keys())

    def _statement_of(self, node: ast.AST) -> ast.stmt | None:
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt):
            parent = self.parents.get(parent)
        return parent

    def _is_inner(self, node: ast.AST) -> bool:
        """A loop inside another, or in a function of its own: it comes up when the outer one is walked."""
        if isinstance(node, ast.comprehension):
            owner = self.parents[node]
            if owner.generators[0] is not node:  # type: ignore[attr-defined]
                return True
            node = owner
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, (ast.Lambda, ast.comprehension, *Comprehension)):
                return True
            parent = self.parents.get(parent)
        return False


def _blocks(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield field, block
    for place, part in enumerate((*getattr(node, "handlers", ()), *getattr(node, "cases", ()))):
        yield f"part {place}", part.body
