"""Where a program works something out, and what it works with: the places at which a value could have been another.

The program is written out again with a call around each of these, by which whoever runs it can put another value there:
`guest/trials.py` does. An *operation* is a part that works something out, or chooses; its *leaves* are what it reads.
Where a leaf is a variable of the scope that it stands in, the variable itself is set, so that what is asked about it
and what is done with it stay one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...languages.python.compiler.statements import last_expressions, statements
from ...languages.python.compiler.stores import (
    bound_in,
    called_alone,
    grown_in,
    literals_in,
    own_expressions,
    worked_in,
)
from ...languages.python.compiler.syntax import called_name
from ...languages.python.compiler.works import (
    BUILDING,
    CHOOSES,
    PREPARES,
    STATES,
    WORKS,
    decides,
    does,
    is_fixed,
    key_does,
    takes_out,
    works,
)
from ...program import Program

VARY, KEEP, LAST_VALUE = "__vary__", "__keep__", "__last__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_LITERALS = 40


@dataclass
class Operation:
    """A part of a statement that does some of the work: the places of what it reads, and the one of what it gives."""

    statement: int
    does: int  # CHOOSES or WORKS
    leaves: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    result: int | None = None
    is_dropped: bool = False  # a call in a `try`, which is skipped
    is_open: bool = False  # a condition that may hold or not though no single thing that it reads is another


@dataclass
class Sites:
    """A program that can be varied: its text, its operations, and for each place literals that might stand there."""

    source: str
    operations: list[Operation]
    near: list[list[object]]
    literals: list[object]  # of the whole program


def sites_of(
    program: Program, done: Sequence[int], inputs: Collection[str] = (), tables: Collection[str | int] = ()
) -> Sites | None:
    """Mark a program's places; `done` says what each statement does, `tables` which keys something is looked up by.

    None where it cannot be written out again.
    """
    try:
        tree = ast.parse(program.source)
        literals = literals_in([tree], _MAX_LITERALS)
        marking = _Marking(tree, frozenset(program.holes), done, {*inputs}, tables)
        marking.block(tree.body, _Scope(tree))
        source = "\n".join([*program.imports, ast.unparse(ast.fix_missing_locations(tree))])
        return Sites(source, marking.operations, marking.near, literals)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Scope:
    """What a name means in a body of statements: which are its own, which are those of a loop, which may be set."""

    def __init__(self, node: ast.AST | None, loops: frozenset[str] = frozenset(), *, is_open: bool = True) -> None:
        self.own = frozenset(bound_in(node)) if node is not None and is_open else frozenset[str]()
        self.loops, self.is_in_try = loops, False

    def inside(self, targets: Iterable[ast.AST], *, is_open: bool) -> _Scope:
        """The same, within a loop; in a comprehension no name can be set."""
        inner = _Scope(None)
        names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        inner.own, inner.loops, inner.is_in_try = self.own if is_open else frozenset(), self.loops | names, False
        return inner


class _Marking:
    def __init__(
        self,
        tree: ast.Module,
        holes: frozenset[str],
        done: Sequence[int],
        inputs: set[str],
        tables: Collection[str | int],
    ) -> None:
        self._holes, self._tables = holes, tables
        self._numbers = {id(node): number for number, node in enumerate(statements(tree.body))}
        self._done = done
        defined = {node.name for node in ast.walk(tree) if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
        imported = {alias.asname or alias.name.partition(".")[0] for node in ast.walk(tree)
                    if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}  # fmt: skip
        self._others = holes | defined  # whose calls are the work of others
        self._no_data = self._others | imported
        self._bound = {*bound_in(tree, everywhere=True), *inputs}
        self._grown = set(grown_in(tree))
        self._stated = self._bound - set(worked_in(tree, self._others))
        self._is_plain = False  # within what only chooses, nothing is worked out
        self.operations: list[Operation] = []
        self.near: list[list[object]] = []
        self._around: list[Operation] = []  # operations that what is looked at now is read by
        self._statement, self._literals = 0, list[object]()
        self._last = {id(node) for node in last_expressions(tree.body)}

    # --- statements -------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], scope: _Scope) -> None:
        for place, statement in enumerate(body):
            if isinstance(statement, _FUNCTIONS) and statement.name in self._holes:
                body[place] = ast.copy_location(ast.Pass(), statement)  # only declared: somebody else is asked
                continue
            self._statement = self._numbers.get(id(statement), 0)
            self._literals = literals_in(own_expressions(statement))
            self._header(statement, scope)
            if id(statement) in self._last and isinstance(statement, ast.Expr):
                kept = ast.Assign([ast.Name(LAST_VALUE, ast.Store())], statement.value)
                body[place] = ast.copy_location(kept, statement)
            for part, inner in self._bodies(statement, scope):
                self.block(part, inner)

    def _bodies(self, statement: ast.stmt, scope: _Scope) -> Iterator[tuple[list[ast.stmt], _Scope]]:
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            yield statement.body, _Scope(statement, is_open=not isinstance(statement, ast.ClassDef))
            return
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            scope = scope.inside([statement.target], is_open=True)
        for name in ("body", "orelse", "finalbody"):
            if part := getattr(statement, name, None):
                inner = scope.inside([], is_open=True)
                inner.is_in_try = isinstance(statement, (ast.Try, ast.TryStar)) and name == "body"
                yield part, inner
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield handler.body, scope

    def _header(self, statement: ast.stmt, scope: _Scope) -> None:
        match statement:
            case ast.If() | ast.While():
                statement.test = self._test(statement.test, scope)
            case ast.For() | ast.AsyncFor():
                statement.iter = self._part(statement.iter, 0, scope)
            case ast.Match():
                does_it = max(CHOOSES, does(statement.subject, self._others))
                statement.subject = self._operation(
                    statement.subject, self._weight(does_it, statement.subject, scope), scope
                )
                for case in statement.cases:
                    if case.guard is not None:
                        case.guard = self._test(case.guard, scope)
            case ast.AugAssign(target=target, value=value):
                is_work = works(statement, self._others) == WORKS
                statement.value = self._operation(value, WORKS, scope) if is_work else self._part(value, 0, scope)
                self._keys(target, scope)
            case ast.Assign(targets=targets, value=value):
                is_moved = self._is_moved(statement) and does(value, self._others) < WORKS
                with_keys = [self._keys(target, scope) for target in targets]
                if is_moved and not any(with_keys):
                    statement.value = self._operation(value, WORKS, scope)
                else:
                    statement.value = self._part(value, WORKS if is_moved else 0, scope)
            case ast.AnnAssign(value=ast.expr() as value):
                statement.value = self._part(value, 0, scope)
            case ast.Return(value=ast.expr() as value):
                statement.value = self._part(value, 0, scope)
            case ast.Expr(value=value) if not isinstance(value, ast.Constant):
                statement.value = self._part(value, 0, scope)
                if scope.is_in_try and isinstance(value, ast.Call):  # only whether it fails matters
                    kept = Operation(self._statement, WORKS, result=self._place(), is_dropped=True)
                    self.operations.append(kept)
                    asked = ast.Call(ast.Name(KEEP, ast.Load()), [ast.Constant(kept.result)], [])
                    statement.value = ast.BoolOp(ast.And(), [asked, statement.value])

    def _is_moved(self, statement: ast.stmt) -> bool:
        """Whether it counts as work for where it puts something."""
        number = self._numbers.get(id(statement), -1)
        return 0 <= number < len(self._done) and self._done[number] == WORKS

    def _keys(self, target: ast.expr, scope: _Scope) -> bool:
        """The place where something is stored is worked out."""
        if not isinstance(target, ast.Subscript) or is_fixed(target.slice) or isinstance(target.slice, ast.Slice):
            return False
        target.slice = self._operation(target.slice, WORKS, scope)
        return True

    # --- expressions ------------------------------------------------------------------------------------------

    def _test(self, test: ast.expr, scope: _Scope) -> ast.expr:
        weight = self._weight(decides(test, self._others), test, scope)
        if weight < CHOOSES:  # it holds, or does not, whatever comes
            return test
        before, self._is_plain = self._is_plain, self._is_plain or decides(test, self._others) == CHOOSES
        varied = self._operation(test, weight, scope, is_test=True)
        self._is_plain = before
        return varied

    def _weight(self, own: int, node: ast.expr, scope: _Scope) -> int:
        """To ask the same of one thing after another is to search; what a loop has made is worked out, too."""
        read = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        own = CHOOSES if own == PREPARES else own
        return WORKS if own == CHOOSES and read & (scope.loops | self._grown) else own

    def _operation(
        self, node: ast.expr, weight: int, scope: _Scope, *, reads: Sequence[str] = (), is_test: bool = False
    ) -> ast.expr:
        """A part that does some of the work: what it reads may be another, and so may what it gives."""
        operation = Operation(self._statement, weight)
        self.operations.append(operation)
        self._around.append(operation)
        operation.is_open = is_test and not self._is_comparison(node)  # else it may contradict what comes after
        is_leaf = isinstance(node, ast.Constant) or self._is_path(node) or isinstance(node, ast.Call)
        inner = self._part(node, weight, scope) if is_leaf else self._inside(node, weight, scope, reads)
        self._around.pop()
        return self._result(operation, inner)

    def _is_comparison(self, test: ast.expr) -> bool:
        """Whether it holds a variable against another, or against a literal."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self._is_comparison(inner)
            case ast.Compare(left=left, comparators=others):
                return all(isinstance(side, ast.Constant) or self._is_path(side) for side in (left, *others))
        return self._is_path(test)

    def _inside(self, node: ast.expr, weight: int, scope: _Scope, reads: Sequence[str] = ()) -> ast.expr:
        """The parts of an expression; those in `reads` are what the operation works with, the others are handed on."""
        for name, value in ast.iter_fields(node):
            own = weight if not reads or name in reads else 0
            if isinstance(value, ast.expr):
                setattr(node, name, self._part(value, own, scope))
            elif isinstance(value, list) and name != "generators":
                value[:] = [self._part(one, own, scope) if isinstance(one, ast.expr) else one for one in value]
        return node

    def _part(self, node: ast.expr, weight: int, scope: _Scope) -> ast.expr:
        """An expression whose value is worked with, as far as `weight` says; 0 where it is handed on."""
        if self._is_path(node):
            return self._leaf(node, scope) if weight >= CHOOSES else node
        if does(node, self._others) == STATES and not self._tables:  # whatever it mentions makes no difference
            return node
        match node:
            case ast.Constant() | ast.Name():
                return node
            case ast.Call():
                return self._call(node, weight, scope)
            case ast.IfExp():
                node.test = self._test(node.test, scope)
                node.body, node.orelse = self._part(node.body, weight, scope), self._part(node.orelse, weight, scope)
                return node
            case ast.Subscript(slice=key) if not is_fixed(key):
                return self._taken(node, weight, scope)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, weight, scope)
            case ast.Dict(keys=keys) if len(keys) > 1 and self._tables:
                for place, label in enumerate(keys):
                    is_asked = isinstance(label, ast.Constant) and label.value in self._tables
                    part = node.values[place]
                    node.values[place] = (
                        self._operation(part, WORKS, scope) if is_asked else self._part(part, weight, scope)
                    )
                return node
            case ast.Lambda():
                closed = scope.inside([], is_open=False)
                node.body = self._part(node.body, 0, closed)
                return node
            case ast.BinOp() | ast.BoolOp() | ast.Compare() | ast.UnaryOp() if self._is_work(node):
                return self._operation(node, WORKS, scope)
        return self._inside(node, weight, scope)

    def _taken(self, node: ast.Subscript, weight: int, scope: _Scope) -> ast.expr:
        """A part at a place that is worked out."""
        if isinstance(node.slice, ast.Slice):
            return self._operation(node, WORKS, scope)
        own = self._weight(key_does(node.slice, self._others), node.slice, scope)
        node.value = self._part(node.value, weight, scope)
        return self._operation(node, own, scope, reads=["slice"]) if own >= CHOOSES else node

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, weight: int, scope: _Scope
    ) -> ast.expr:
        is_work = self._is_work(node)
        closed = scope.inside([each.target for each in node.generators], is_open=False)
        if is_work:
            operation = Operation(self._statement, WORKS)
            self.operations.append(operation)
            self._around.append(operation)
        for each in node.generators:
            each.iter = self._part(each.iter, WORKS if is_work else weight, closed)
            each.ifs = [self._test(test, closed) for test in each.ifs]
        for name in ("elt", "key", "value"):
            if (part := getattr(node, name, None)) is not None:
                is_taken = is_work and (isinstance(node, ast.DictComp) or takes_out(part))
                setattr(node, name, self._part(part, WORKS if is_taken else weight, closed))
        if not is_work or isinstance(node, ast.GeneratorExp):
            if is_work:
                self._around.pop()
            return node
        self._around.pop()
        return self._result(operation, node)

    def _call(self, node: ast.Call, weight: int, scope: _Scope) -> ast.expr:
        name = called_name(node)
        if name == "super":
            return node
        is_value = isinstance(node.func, ast.Name) and name in self._bound  # a function that is kept as one
        if name in self._others or is_value:
            self._arguments(node, 0, scope)
            return self._leaf(node, scope) if weight >= CHOOSES else node
        if name == "chr" and does(node, self._others) < WORKS:
            return node
        is_moved = name in BUILDING and any(map(takes_out, node.args))
        is_work = self._is_work(node) and (is_moved or self._is_work(called_alone(node)))
        if not is_work:
            self._arguments(node, weight, scope)
            return node
        operation = Operation(self._statement, WORKS)
        self.operations.append(operation)
        self._around.append(operation)
        self._arguments(node, WORKS, scope)
        self._around.pop()
        return self._result(operation, node)

    def _is_work(self, node: ast.expr) -> bool:
        return not self._is_plain and does(node, self._others) == WORKS

    def _arguments(self, node: ast.Call, weight: int, scope: _Scope) -> None:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self._part(node.func.value, weight, scope)
        elif not isinstance(node.func, ast.Name):
            node.func = self._part(node.func, 0, scope)
        node.args = [self._part(arg, weight, scope) for arg in node.args]
        for keyword in node.keywords:
            keyword.value = self._part(keyword.value, weight, scope)

    # --- places -----------------------------------------------------------------------------------------------

    def _is_path(self, node: ast.AST) -> bool:
        """Whether it names data: a variable, or a part of one at a fixed place."""
        while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and is_fixed(node.slice)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._bound and node.id not in self._no_data

    def _leaf(self, node: ast.expr, scope: _Scope) -> ast.expr:
        place, text = self._place(), ast.unparse(node)
        for operation in self._around:
            operation.leaves.append(place)
            operation.names.add(text)
        varied = self._varied(place, node)
        if isinstance(node, ast.Name) and node.id in scope.own - self._stated:
            return ast.NamedExpr(ast.Name(node.id, ast.Store()), varied)
        return varied

    def _result(self, operation: Operation, node: ast.expr) -> ast.expr:
        """What it gives may be another; not where it mentions data that make no difference to it."""
        mentioned = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        mentioned -= set(bound_in(node, everywhere=True))  # those of lambdas and comprehensions are its own
        if not operation.leaves and mentioned & (self._bound - self._no_data):
            return node
        operation.result = self._place()
        return self._varied(operation.result, node)

    def _place(self) -> int:
        self.near.append(self._literals)
        return len(self.near) - 1

    def _varied(self, place: int, node: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(VARY, ast.Load()), [ast.Constant(place), node], [])


__all__ = ["Operation", "Sites", "sites_of"]
