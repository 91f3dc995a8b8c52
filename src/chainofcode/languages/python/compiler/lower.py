"""AST → AST: the same program with watch marks, wrapped holes and prose as pauses. CPython runs the result.

Nothing is hoisted or reordered. Names that start with `$` belong to the guest and are hidden from the program
(guest_names.py). Watch marks are statements, too (marks.py). Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from .analyse import Analysis
from .guest_names import finish
from .marks import Mark as Mark
from .marks import Marks
from .parse import Prose
from .record import Data
from .speculate import speculate
from .statements import empty_body, first_line, is_docstring, last_expressions, prose_number
from .syntax import DEFINITIONS, Function, Scope
from .tree_making import assign_from_delta, at, call, load

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Literal

    from .marks import Phase

    Policy = Literal["strict", "paper"]

_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_SILENT = (ast.Global, ast.Nonlocal)
_WRAPPABLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


class Place(Data):
    """A statement's number is its index in preorder; positions are Python's (lines from 1, columns in UTF-8 bytes)."""

    start: tuple[int, int]
    end: tuple[int, int]
    kind: str


class Lowered(Data):
    tree: ast.Module
    places: tuple[Place, ...]
    marks: tuple[Mark, ...]
    stubs: tuple[str, ...]  # names of the empty functions, in the order of their `$stub` numbers
    writable: dict[int, frozenset[str]]  # for statements that may be emulated: the names that the delta may set
    hole_ranges: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    prose_of: dict[int, str]  # statement number → prose text
    policy: Policy
    checkpoints: tuple[tuple[int, ...], ...] = ()  # the marks at each checkpoint, by index


def lower(
    found: Analysis,
    prose: tuple[Prose, ...],
    *,
    watch_by_jump: bool,
    policy: Policy = "strict",
    is_recorded: bool = False,
) -> Lowered:
    """Lower an analysed tree (in place). Under the policy `paper`, every failing statement may be emulated.

    With `is_recorded`, there are marks around every statement.
    """
    return _Lowering(found, prose, watch_by_jump, policy, is_recorded).run()


def lower_shadow(found: Analysis, prose: tuple[Prose, ...]) -> Lowered:
    """Lower an analysed tree (in place) into speculative code, for a shadow of the program."""
    return _Lowering(found, prose, False, "strict", False).run_shadow()


class _Lowering:
    def __init__(
        self, found: Analysis, prose: tuple[Prose, ...], watch_by_jump: bool, policy: Policy, is_recorded: bool
    ) -> None:
        self.found, self.prose, self.policy = found, prose, policy
        self.watch_by_jump, self.is_recorded = watch_by_jump, is_recorded
        self.numbers = found.facts.numbers
        self.places: list[Place] = []
        self.marks = Marks(watch_by_jump)
        self.stubs: list[str] = []
        self.writable: dict[int, frozenset[str]] = {}
        self.prose_of: dict[int, str] = {}
        self.holding: set[ast.AST | None] = set()  # statements with holes
        self.last_expressions: set[ast.stmt] = set()
        self._prose_names_of: dict[Scope, frozenset[str]] = {}
        for statement in self.numbers:
            self._place(statement)

    def run(self) -> Lowered:
        tree, facts = self.found.syntax.tree, self.found.facts
        hole_nodes = {id(node): node for node in self.found.hole_calls()}
        ranges = [_range(node) for node in hole_nodes.values() if hasattr(node, "lineno")]
        self.holding = {self.found.syntax.enclosing(node, (ast.stmt,)) for node in hole_nodes.values()}
        for statement in self.numbers:
            if isinstance(statement, ast.Assign) and id(statement.value) in hole_nodes:
                ranges += [_range(target) for target in statement.targets]  # unpacking a hole's value fails there
        self._rewrite_names()
        if not any("answer" in facts.binds(line) for line in tree.body):  # else it would be kept alive needlessly
            self.last_expressions = set(last_expressions(tree.body))
        tree.body = self._block(tree.body, self.found.names.module)
        self.marks.join(tree)
        finish(tree)
        return self._lowered_with(tuple(ranges))

    def run_shadow(self) -> Lowered:
        self._rewrite_names()
        for statement, number in self.numbers.items():
            if number in self.prose_of:
                self.writable[number] = self._prose_names(self.found.names.scope_of[statement])
        speculate(self.found, self.numbers, self.writable)
        return self._lowered_with(())

    def _lowered_with(self, ranges: tuple[tuple[tuple[int, int], tuple[int, int]], ...]) -> Lowered:
        return Lowered(
            self.found.syntax.tree,
            tuple(self.places),
            tuple(self.marks.all),
            tuple(self.stubs),
            self.writable,
            ranges,
            self.prose_of,
            self.policy,
            tuple(map(tuple, self.marks.checkpoints)),
        )

    def _place(self, statement: ast.stmt) -> None:
        prose = prose_number(statement)
        if prose is not None:
            lines = self.prose[prose]
            place = Place((lines.line, statement.col_offset), (lines.end_line, 10**6), "Prose")
            self.prose_of[self.numbers[statement]] = lines.text
        else:
            first = (getattr(statement, "decorator_list", None) or [statement])[0]
            place = Place(_range(first)[0], _range(statement)[1], type(statement).__name__)
        self.places.append(place)

    # --- names and expressions -------------------------------------------------------------------------------

    def _rewrite_names(self) -> None:
        """Give holes without a name of their own a name that the guest binds."""
        for name in self.found.shadowed:
            name.id = "$" + name.id
        for attribute in self.found.methods:
            owner_and_name = [attribute.value, ast.Constant(attribute.attr)]
            _replace(
                self.found.syntax.parents[attribute], attribute, at(attribute, call("$attribute", *owner_and_name))
            )
        for runner in self.found.text_runners:
            _bind_holes_of_text(runner, self.found.syntax.parents.get(runner))
        for function in self.found.stubs:
            self.stubs.append(function.name)
            function.decorator_list.append(at(function, call("$stub", ast.Constant(len(self.stubs) - 1))))
        self.found.facts.forget()

    # --- blocks and marks ------------------------------------------------------------------------------------

    def _mark(
        self,
        statement: ast.stmt,
        phase: Phase,
        *,
        written: Iterable[str] = (),
        outcome: str | None = None,
        changed: Iterable[str] = (),
        reads: Iterable[str] = (),
        line: int | None = None,
    ) -> ast.stmt:
        number = self.numbers[statement]
        mark = Mark(number, phase, tuple(written), outcome, tuple(changed), tuple(reads))
        return self.marks.placed(mark, statement, line)

    def _block(self, body: list[ast.stmt], scope: Scope) -> list[ast.stmt]:
        lowered: list[ast.stmt] = []
        for index, statement in enumerate(body):
            if index == 0 and is_docstring(statement):
                lowered.append(statement)
            else:
                lowered.extend(self._statement(statement, scope))
        return lowered

    def _statement(self, statement: ast.stmt, scope: Scope) -> list[ast.stmt]:
        if isinstance(statement, _SILENT) or (is_docstring(statement) and statement not in self.last_expressions):
            return [statement]
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return [statement]
        if not self.is_recorded:
            return self._lowered(statement, scope)
        enter = self._mark(statement, "enter")
        return [enter, *self._lowered(statement, scope), self._mark(statement, "leave")]

    def _lowered(self, statement: ast.stmt, scope: Scope) -> list[ast.stmt]:
        if prose_number(statement) is not None:
            return self._prose(statement, scope)
        compound: Callable[[ast.stmt, Scope], list[ast.stmt]] | None = getattr(
            self, f"_{type(statement).__name__.removeprefix('Async')}", None
        )
        if compound is None:
            return self._simple(statement, scope)
        lowered = compound(statement, scope)
        if self.policy == "paper" and not isinstance(statement, DEFINITIONS):
            return [self._wrapped(statement, lowered, scope)]
        return lowered

    def _simple(self, statement: ast.stmt, scope: Scope) -> list[ast.stmt]:
        facts = self.found.facts.of(statement)
        core: list[ast.stmt] = [statement]
        after: list[ast.stmt] = []
        before: list[ast.stmt] = []
        if isinstance(statement, ast.Return):
            core = self._return(statement)
        elif isinstance(statement, _LEAVES):
            return [self._mark(statement, "reach"), statement]
        else:
            if statement in self.last_expressions and isinstance(statement, ast.Expr):
                statement.value = at(statement, call("$last", statement.value))
            changed = dict.fromkeys(facts.stored)
            after = [self._mark(statement, "after", written=facts.binds, changed=changed)]
            before = self._before(statement, statement)
        is_wrappable = isinstance(statement, _WRAPPABLE) and not facts.yields
        if is_wrappable and (statement in self.holding or self.policy == "paper"):
            core = [self._wrapped(statement, core, scope)]
        return before + core + after

    def _return(self, statement: ast.Return) -> list[ast.stmt]:
        """With watched jumps, `sys.monitoring` reports the returned value; otherwise a mark passes it on."""
        if self.watch_by_jump:
            return [statement]
        return [self.marks.passing(Mark(self.numbers[statement], "return"), statement), statement]

    # --- compound statements ---------------------------------------------------------------------------------

    def _before(self, statement: ast.stmt, header: ast.AST) -> list[ast.stmt]:
        facts = self.found.facts.of(header)
        if not facts.may_mutate:
            return []
        mentioned = {node.id for node in facts.immediate if isinstance(node, ast.Name)}
        return [self._mark(statement, "before", reads=sorted(mentioned & self.found.names.module.bindings.keys()))]

    def _branch(self, node: ast.If | ast.While, scope: Scope) -> list[ast.stmt]:
        before = self._before(node, node.test)
        bound = self.found.facts.binds(node.test)
        met = self._mark(node, "outcome", written=bound, outcome="True")
        node.body = [met, *self._block_in(node.body, scope)]
        unmet = self._mark(node, "outcome", written=bound, outcome="False")
        node.orelse = [unmet, *self._block_in(node.orelse, scope)]
        return [*before, node]

    _If = _While = _branch

    def _For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> list[ast.stmt]:
        before = self._before(node, node.iter)
        turn = self._mark(node, "turn", written=self.found.facts.binds(node.target))
        node.body = [turn, *self._block_in(node.body, scope)]
        node.orelse = self._block_in(node.orelse, scope)
        return [*before, node]

    def _With(self, node: ast.With | ast.AsyncWith, scope: Scope) -> list[ast.stmt]:
        bound = [name for item in node.items for name in self.found.facts.binds(item)]
        before = [self._mark(node, "before")]
        last = node.items[-1].optional_vars or node.items[-1].context_expr
        entered = self._mark(node, "after", written=bound, line=getattr(last, "lineno", node.lineno))
        node.body = [entered, *self._block_in(node.body, scope)]
        return [*before, node]

    def _Try(self, node: ast.Try | ast.TryStar, scope: Scope) -> list[ast.stmt]:
        node.body = self._block_in(node.body, scope)
        for handler in node.handlers:
            caught = f"except {ast.unparse(handler.type)}" if handler.type is not None else "except"
            bound = [handler.name] if handler.name else []
            mark = self._mark(node, "outcome", written=bound, outcome=caught, line=handler.lineno)
            handler.body = [mark, *self._block_in(handler.body, scope)]
        node.orelse = self._block_in(node.orelse, scope)
        node.finalbody = self._block_in(node.finalbody, scope)
        return [node]

    _TryStar = _Try

    def _Match(self, node: ast.Match, scope: Scope) -> list[ast.stmt]:
        before = self._before(node, node.subject)
        for case in node.cases:
            bound, shown = self.found.facts.binds(case.pattern), f"case {ast.unparse(case.pattern)[:60]}"
            mark = self._mark(node, "outcome", written=bound, outcome=shown, line=case.pattern.lineno)
            case.body = [mark, *self._block_in(case.body, scope)]
        return [*before, node]

    def _FunctionDef(self, node: Function, scope: Scope) -> list[ast.stmt]:
        inner = self.found.names.scope_of[node.body[0]]
        node.body = empty_body(node) if node in self.found.stubs else self._body(node, inner)
        return [node, self._mark(node, "after", written=[node.name])]

    def _body(self, node: Function | ast.ClassDef, inner: Scope) -> list[ast.stmt]:
        body = self._block(node.body, inner)
        if self.is_recorded:
            body.insert(1 if is_docstring(body[0]) else 0, self._mark(node, "start", line=first_line(node.body[0])))
        return body

    def _ClassDef(self, node: ast.ClassDef, scope: Scope) -> list[ast.stmt]:
        inner = self.found.names.scope_of[node.body[0]]
        node.body = self._body(node, inner)
        return [node, self._mark(node, "after", written=[node.name])]

    def _block_in(self, body: list[ast.stmt], scope: Scope) -> list[ast.stmt]:
        return [lowered for statement in body for lowered in self._statement(statement, scope)]

    # --- statements the LM may have to carry out --------------------------------------------------------------

    def _prose(self, statement: ast.stmt, scope: Scope) -> list[ast.stmt]:
        number = self.numbers[statement]
        names = self._prose_names(scope)
        is_return = self.prose_of[number].startswith("return") and scope.kind == "function"
        self.writable[number] = names | {"$value"} if is_return else names
        ask = call("$emulate", ast.Constant(number), ast.Constant(None))
        return self._apply_delta(statement, ask, names, scope, returns=is_return)

    def _wrapped(self, statement: ast.stmt, core: list[ast.stmt], scope: Scope) -> ast.stmt:
        """Wrap a statement in a `try`: the LM supplies its delta if it fails, unless the error is the program's bug."""
        number = self.numbers[statement]
        is_return = isinstance(statement, ast.Return)
        names = frozenset(["$value"] if is_return else self.found.facts.changed_in(statement))
        self.writable[number] = names
        # `d["x"] = …` changes d in place; if d belongs to another scope, an assignment would make it a local.
        own = scope.bindings.keys() | scope.global_names | scope.nonlocal_names
        is_bug = call("$is_bug", ast.Constant(number), load("$error"))
        ask = call("$emulate", ast.Constant(number), load("$error"))
        delta = self._apply_delta(statement, ask, names & own, scope, returns=is_return)
        handler = ast.ExceptHandler(load("$Exception"), "$error", [ast.If(is_bug, [ast.Raise(None, None)], []), *delta])
        return at(statement, ast.Try(core, [handler], [], []))

    def _apply_delta(
        self, statement: ast.stmt, ask: ast.expr, names: frozenset[str], scope: Scope, *, returns: bool
    ) -> list[ast.stmt]:
        """Return code that assigns a delta: before Python 3.13, a function's locals cannot be written from outside.

        Outside functions, the guest sets the names itself.
        """
        if scope.kind != "function":
            return [at(statement, ast.Expr(ask))]
        body = assign_from_delta(ask, names)
        if returns:
            get = ast.Attribute(load("$delta"), "get", ast.Load())
            body.append(ast.Return(ast.Call(get, [ast.Constant("$value")], [])))
        else:
            body.append(ast.Delete([ast.Name("$delta", ast.Del())]))
        return [at(statement, node) for node in body]

    def _prose_names(self, scope: Scope) -> frozenset[str]:
        """Return the names a prose statement may set: those of its scope, and those read there that nothing sets."""
        if scope in self._prose_names_of:
            return self._prose_names_of[scope]
        names = self.found.names
        home = scope.frame
        is_module = home.kind == "module"
        free = {node.id for node in names.unresolved() if is_module or names.scope_of[node] is home}
        known = {item.name for item in self.found.imports} | self.found.holes | self.found.module_holes
        own = set(home.bindings) | (free - known - self.found.given)
        own |= {"answer"} if is_module else home.global_names
        self._prose_names_of[scope] = frozenset(name for name in own if not name.startswith("$"))
        return self._prose_names_of[scope]


def _bind_holes_of_text(name: ast.Name, runs: ast.AST | None) -> None:
    """`eval(x)` → `$real(eval)($text(x))`: CPython's own `eval`, and the holes in the text bound before it runs."""
    if isinstance(runs, ast.Call) and runs.func is name and runs.args and not isinstance(runs.args[0], ast.Starred):
        runs.args[0] = at(runs.args[0], call("$text", runs.args[0]))
        runs.func = at(name, call("$real", name))


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Replace a child of a node."""
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]


def _range(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
