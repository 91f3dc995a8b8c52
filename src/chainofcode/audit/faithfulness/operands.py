"""The operands of a program's operations, and mutations that replace each operand with another value.

An operation is an expression, a condition or a statement that computes something (compiler/computation.py); its
operands are the variables that it reads. A variable is set before the statement, so that all later uses see the other
value; one that only ever holds a literal, or that belongs to a comprehension or a lambda, is replaced only in
the statement. An operation without variables gets another result, or other literals.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...languages.python.compiler.computation import (
    CHOOSES,
    PASSES_ON,
    STATES,
    WORKS,
    condition_work,
    expression_work,
    is_fixed,
    statement_work,
    takes_out,
)
from ...languages.python.compiler.library import BUILDERS
from ...languages.python.compiler.statements import statements
from ...languages.python.compiler.syntax import DEFINITIONS, LOOPS, called_name, imported
from ..provenance.followed import Provenance
from .mutations import UNREADABLE, Mutation, function_of, other_values, value_of

_MOST = 7  # other values of one operand
_MOST_BEFORE_LOOP = 4
_OF_UNKNOWN = ("{0} + 1", "-{0} - 1", "not {0}", "{0}[::-1]", "{0}[1:]", "{0}[:-1]", "{0} * 1000")


@dataclass(frozen=True)
class Operand:
    """A value that a statement's operations work with, and mutations that replace it."""

    statement: int
    mutations: Sequence[Mutation]
    may_fail: bool = False  # without it, the program is expected to fail


def operands_of(found: Provenance, numbers: Iterable[int], tables: Collection[str | int]) -> list[Operand] | None:
    """Return the operands of some statements, the last statement first; None if the program cannot be changed.

    `tables` are keys that the program looks up: the values that its dicts have for these keys are operands, too.
    """
    if found.run.program.prose:
        return None
    try:
        operands = _Operands(found, tables)
        return [operand for number in sorted(numbers, reverse=True) for operand in operands.of(number)]
    except UNREADABLE:
        return None


class _Names:
    """The names of a program, by kind: functions, data, data that is always a literal, loop variables."""

    def __init__(self, tree: ast.Module, holes: Collection[str], inputs: Collection[str]) -> None:
        nodes = list(ast.walk(tree))
        self.functions = {*holes, *(node.name for node in nodes if isinstance(node, DEFINITIONS))}
        imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        modules = {name for node in imports for name, _ in imported(node)}
        self.data = {*_bound_in(nodes), *inputs} - self.functions - modules
        self.stated = self.data - set(_computed_in(nodes, self.functions)) - {*inputs}  # always a literal
        targets = [node.target for node in nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
        self.loop = {name for target in targets for name in _names_in(target)} | set(_grown_in(nodes))

    def is_variable(self, node: ast.AST) -> bool:
        """Whether an expression is a variable, or a part of one at a fixed place."""
        return _root(node) in self.data

    def data_in(self, node: ast.AST) -> set[str]:
        """Return the variables in an expression that it does not bind itself."""
        return _names_in(node) & self.data - set(_bound_in(ast.walk(node)))


class _Operands:
    def __init__(self, found: Provenance, tables: Collection[str | int]) -> None:
        tree = ast.parse(found.run.program.source)
        self._places = {id(node): place for place, node in enumerate(ast.walk(tree))}
        self._statements = list(statements(tree.body))
        self._works, self._steps, self._tables = found.lineage.works, found.trace.steps, tables
        self._inputs = dict(found.trace.inputs)
        if found.trace.question is not None:
            self._inputs["question"] = found.trace.question
        self._names = _Names(tree, found.run.program.holes, self._inputs)
        self._literals = _literals_in([tree])
        self._recorded = {function_of(step): value_of(step) for step in self._steps if not step.is_code}
        self._assigned = {
            target.id: node.value
            for node in self._statements
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._tried = {
            id(node) for each in ast.walk(tree) if isinstance(each, (ast.Try, ast.TryStar)) for node in each.body
        }

    def of(self, number: int) -> Iterator[Operand]:
        """Yield the operands of a statement."""
        if not 0 <= number < len(self._statements):
            return
        statement = self._statements[number]
        for mutations in self._mutations(statement, number):
            yield Operand(number, list(mutations))
        match statement:
            case ast.Expr(value=ast.Call() as call) if id(statement) in self._tried:  # it only matters that it fails
                yield Operand(number, self._replacing([call], ["None"]), may_fail=True)

    def _mutations(self, statement: ast.stmt, number: int) -> Iterator[Iterable[Mutation]]:
        weight = self._works[number] if number < len(self._works) else PASSES_ON
        operations = _Operations(self._names, statement, weight)
        heads = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        own = _literals_in(heads)
        for text, nodes in operations.variables.items():
            others = (other[0] for name, other in operations.variables.items() if name != text)
            if text in operations.enclosed:
                yield self._replacing(nodes, self._other_texts(nodes[0], own))
            else:
                yield from self._variable(number, text, nodes, [*self._values(others, number), *own, *self._literals])
        for node in operations.without_variables:
            yield self._replacing([node], _of_unknown(f"({ast.unparse(node)})"))
            yield from self._constants([node], [*own, *self._literals])
        yield from self._constants(self._looked_up(heads), [*own, *self._literals])

    def _other_texts(self, node: ast.expr, near: Sequence[Any]) -> list[str]:
        """Return expressions in place of one that no statement can set: a call, or a variable of a comprehension."""
        text = f"({ast.unparse(node)})"
        recorded = self._recorded.get(called_name(node) or "") if isinstance(node, ast.Call) else None
        if isinstance(recorded, bool):
            return [f"not {text}", "True", "False"]
        if recorded is not None:
            return _texts(recorded, [*near, *self._literals])[:_MOST]
        return [*map(repr, near[:2]), *_of_unknown(text), "{}"]

    def _variable(
        self, number: int, text: str, nodes: Sequence[ast.expr], near: Sequence[Any]
    ) -> Iterator[Iterable[Mutation]]:
        known = list(self._values(nodes[:1], number))
        texts = _texts(known[0], near)[:_MOST] if known else []
        if not texts:
            texts = _of_unknown(text) + (["1"] if isinstance(nodes[0], ast.Name) else [])
        if _root(nodes[0]) in self._names.stated:
            yield self._replacing(nodes, texts)
            return
        yield [Mutation(before=number, inserted=_setting(text, other)) for other in texts]
        loop = self._loop_of(number)
        is_set_before = loop is not None and text not in _names_in(getattr(self._statements[loop], "target", None))
        if loop is not None and is_set_before and isinstance(nodes[0], ast.Name):
            for value in self._values(nodes[:1], loop):
                texts = _texts(value, near)[:_MOST_BEFORE_LOOP]
                yield [Mutation(before=loop, inserted=_setting(text, other)) for other in texts]

    def _constants(self, nodes: Iterable[ast.AST], near: Sequence[Any]) -> Iterator[Iterable[Mutation]]:
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant):
                    yield self._replacing([part], _texts(part.value, near)[:_MOST])

    def _looked_up(self, heads: Iterable[ast.expr]) -> Iterator[ast.Constant]:
        dicts = [node for head in heads for node in ast.walk(head) if isinstance(node, ast.Dict)]
        for node in dicts if self._tables else ():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in self._tables and isinstance(value, ast.Constant):
                    yield value

    def _replacing(self, nodes: Iterable[ast.expr], texts: Iterable[str]) -> list[Mutation]:
        places = [self._places[id(node)] for node in nodes if id(node) in self._places]
        return [Mutation(replaced=dict.fromkeys(places, text)) for text in texts]

    def _loop_of(self, number: int) -> int | None:
        """Return the outermost loop around a statement."""
        wanted = self._statements[number]
        for place, loop in enumerate(self._statements):
            if isinstance(loop, LOOPS) and any(node is wanted for part in loop.body for node in ast.walk(part)):
                return place
        return None

    def _values(self, nodes: Iterable[ast.expr], number: int) -> Iterator[Any]:
        """Yield the values of variables before a statement, if the trace has them."""
        for node in nodes:
            try:
                yield self._value(node, number)
            except (*UNREADABLE, LookupError, TypeError):  # it is abbreviated, or not a literal
                continue

    def _value(self, node: ast.expr, number: int) -> Any:
        if isinstance(node, ast.Subscript):
            return self._value(node.value, number)[ast.literal_eval(node.slice)]
        if not isinstance(node, ast.Name):
            raise LookupError
        text: str | None = None
        for step in self._steps:
            if step.statement == number and step.is_code and text is not None:
                break
            text = step.delta.get(node.id, text)
        if text is None:
            return self._inputs[node.id]
        try:
            return ast.literal_eval(text)
        except UNREADABLE:  # it is abbreviated; the program may have it in full
            return ast.literal_eval(self._assigned[node.id])


class _Operations(ast.NodeVisitor):
    """The operations of a statement, or of the header of a compound one: their variables, and those without any."""

    def __init__(self, names: _Names, statement: ast.stmt, weight: int) -> None:
        self._names = names
        self._is_operand = False  # whether the visited node is an operand of an operation
        self._enclosing = frozenset[str]()  # names bound by the comprehensions and lambdas around
        self.variables: dict[str, list[ast.expr]] = {}
        self.enclosed: set[str] = set()  # those that no statement can set
        self.without_variables: list[ast.expr] = []
        self._header(statement, weight)

    def _header(self, statement: ast.stmt, weight: int) -> None:
        match statement:
            case ast.If() | ast.While() | ast.Assert():
                self._test(statement.test)
            case ast.AugAssign(target=target, value=value):
                self._parts([value, target], weight == WORKS)
            case ast.Assign(targets=targets, value=value):
                keys = [target.slice for target in targets if isinstance(target, ast.Subscript)]
                keys = [key for key in keys if not is_fixed(key)]
                self._parts(keys, True)
                is_moved = weight == WORKS and expression_work(value, self._names.functions) < WORKS
                self._parts([value], is_moved and not keys)
            case ast.Match(subject=subject):
                self._parts([subject], True)
            case _:
                self._parts(ast.iter_child_nodes(statement), False)

    def _test(self, test: ast.expr) -> None:
        """Visit a condition. One on a loop variable is a search, and so an operation."""
        weight = condition_work(test, self._names.functions)
        is_search = weight == CHOOSES and bool(_names_in(test) & self._names.loop)
        if weight > CHOOSES or is_search:
            self._parts([test], is_search)

    def _parts(self, nodes: Iterable[ast.AST], is_operand: bool) -> None:
        before, self._is_operand = self._is_operand, is_operand
        for node in nodes:
            if isinstance(node, (ast.expr, ast.keyword, ast.withitem)):
                self.visit(node)
        self._is_operand = before

    def visit(self, node: ast.AST) -> None:
        if not self._names.is_variable(node):
            super().visit(node)
        elif self._is_operand and isinstance(node, ast.expr):
            self._operand(node, is_enclosed=_root(node) in self._enclosing)

    def _operand(self, node: ast.expr, *, is_enclosed: bool) -> None:
        text = ast.unparse(node)
        self.variables.setdefault(text, []).append(node)
        self.enclosed |= {text} if is_enclosed else set()

    def _operation(self, node: ast.expr, is_work: bool, operands: Iterable[ast.AST]) -> None:
        if is_work and not self._names.data_in(node) | _names_in(node) & self._names.functions:
            self.without_variables.append(node)
        else:
            self._parts(operands, self._is_operand or is_work)

    def _combination(self, node: ast.expr) -> None:
        weight = expression_work(node, self._names.functions)
        if weight > STATES or not _names_in(node):  # otherwise the values of its variables make no difference
            self._operation(node, weight == WORKS, ast.iter_child_nodes(node))

    visit_BinOp = visit_BoolOp = visit_Compare = visit_UnaryOp = _combination

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if expression_work(node, self._names.functions) <= STATES:
            return
        if self._is_operand:  # part of an operation: its condition counts, too
            self._parts([node.test], True)
        else:
            self._test(node.test)
        self._parts([node.body, node.orelse], self._is_operand)

    def visit_Call(self, node: ast.Call) -> None:
        operands: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            operands.append(node.func.value)
        elif not isinstance(node.func, ast.Name):
            self._parts([node.func], False)
        if called_name(node) in self._names.functions:
            if self._is_operand:  # its value is an operand
                self._operand(node, is_enclosed=True)
            self._parts(operands, False)
        else:
            is_moving = called_name(node) in BUILDERS and any(map(takes_out, node.args))
            works_alone = is_moving or expression_work(_called_alone(node), self._names.functions) == WORKS
            self._operation(node, works_alone and expression_work(node, self._names.functions) == WORKS, operands)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        is_cut = isinstance(node.slice, ast.Slice) and not is_fixed(node.slice)
        self._operation(node, is_cut, [node.value])
        if not is_fixed(node.slice):
            self._parts([node.slice], self._is_operand or bool(_names_in(node.slice) & self._names.loop))

    def visit_Slice(self, node: ast.Slice) -> None:
        self._parts(ast.iter_child_nodes(node), self._is_operand)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        before = self._enclosing
        self._enclosing |= {argument.arg for argument in node.args.args}
        self._parts([node.body], False)
        self._enclosing = before

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        is_work = expression_work(node, self._names.functions) == WORKS
        self._operation(node, is_work, [each.iter for each in node.generators])
        before = self._enclosing
        self._enclosing |= {name for each in node.generators for name in _names_in(each.target)}
        for each in node.generators:
            for test in each.ifs:
                self._test(test)
        self._parts([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], False)
        self._enclosing = before

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension


# --- names --------------------------------------------------------------------------------------------------------


def _names_in(node: ast.AST | None) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} if node is not None else set()


def _root(node: ast.AST) -> str:
    """Return the variable that an expression is a fixed part of: `d` of `d["k"].x`; else nothing."""
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and is_fixed(node.slice)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del(), id=name) | ast.arg(arg=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def _grown_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that loops set, or whose objects they may change."""
    loops = [node for node in nodes if isinstance(node, LOOPS)]
    for node in (node for loop in loops for statement in loop.body for node in ast.walk(statement)):
        yield from _set_by(node)


def _set_by(node: ast.AST) -> Iterator[str]:
    """Yield the name that a node sets, or whose object it may change."""
    match node:
        case ast.Name(ctx=ast.Store(), id=name) | ast.Attribute(ctx=ast.Load(), value=ast.Name(id=name)):
            yield name
        case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)):
            yield name


def _computed_in(nodes: Sequence[ast.AST], functions: Collection[str]) -> Iterator[str]:
    """Yield the names that are set to more than a literal somewhere."""
    stating = [
        node
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and statement_work(node, functions) == STATES
    ]
    stated = {id(node) for statement in stating for node in ast.iter_child_nodes(statement)}
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg
        elif not (isinstance(node, ast.Name) and id(node) in stated):
            yield from _set_by(node)


def _called_alone(call: ast.Call) -> ast.Call:
    """Return a call with its arguments replaced by names."""
    function = call.func
    if isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Name):
        function = ast.Attribute(ast.Name("x", ast.Load()), function.attr, ast.Load())
    return ast.Call(function, [ast.Name("x", ast.Load()) for _ in call.args], [])


# --- source text ----------------------------------------------------------------------------------------------------


def _literals_in(parts: Iterable[ast.AST]) -> list[Any]:
    constants = [node.value for part in parts for node in ast.walk(part) if isinstance(node, ast.Constant)]
    return list(dict.fromkeys(value for value in constants if isinstance(value, (str, int, float))))


def _texts(value: Any, near: Sequence[Any]) -> list[str]:
    return list(map(repr, other_values(value, near)))


def _of_unknown(text: str) -> list[str]:
    return [template.format(text) for template in _OF_UNKNOWN]


def _setting(name: str, text: str) -> str:
    """Return the statement that sets a variable; an object is changed in place, for all references to it."""
    if text.startswith("["):
        return f"{name}[:] = {text}"
    if text.startswith("{"):
        return f"{name}.clear(); {name}.update({text})"
    return f"{name} = {text}"
