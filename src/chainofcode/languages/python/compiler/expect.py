"""Infers the type that the program expects from each hole: from its declaration, its uses and its name.

A type is given as the text of a Python annotation (`bool`, `list[str]`, `Literal['a', 'b']`), with `number` for an int
or a float, and `{'name': str}` for a class of the program. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .analyse import Analysis
from .kinds import (
    Appearance,
    Resolved,
    by_name,
    copy,
    final_type,
    formatted,
    is_total,
    literals,
    merge,
    pattern_values,
    type_of_sliced,
    type_with_attribute,
)
from .library import ARGUMENT_TYPES, ELEMENT_TYPES
from .record import Data
from .syntax import COMPREHENSIONS, FUNCTIONS, Function, Scope, called_name, last_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

MAX_TYPE_CHARS = 2000
_MAX_HOPS = 4  # through variables and functions of the program
_MAX_LOOKS = 50_000  # bounds the time for a long program
_MAX_LOADS = 50  # of one variable
_TEXT_WORDS = {"name", "surname", "title", "word", "letter", "label", "city", "country", "language", "color", "colour"}
_TIME_WORDS = {"date", "day", "birthday", "time", "when", "deadline", "year", "month"}


class ExpectedType(Data):
    """A hole in a statement: the type expected of it there, and the statement that specifies it (a stub), if any."""

    statement: int
    name: str
    type: str
    spec: int | None = None


def expected(found: Analysis) -> list[ExpectedType]:
    """Return the uses of holes that have a known type or a declaration. Call it before the tree is lowered."""
    occurrences = list(_occurrences(found))
    if not occurrences and not found.stubs:
        return []
    reader = _Reader(found)
    uses: dict[tuple[int, str], list[str]] = {}
    everywhere: dict[str, list[str]] = {}
    for name, node in occurrences:
        kind = reader.type_of(name, node)
        uses.setdefault((reader.statement_of(node), name), []).append(kind)
        everywhere.setdefault(name, []).append(kind)
    declared = {stub.name: found.facts.numbers.get(stub) for stub in found.stubs}
    merged = {name: merge(kinds) for name, kinds in everywhere.items()}
    expected = []
    for (statement, name), kinds in uses.items():
        # Merged from all places: the same call has the same value everywhere.
        kind = merged[name] or merge(kinds).replace("truth", "")
        kind = final_type(kind, by_name(name))
        expected.append(ExpectedType(statement, name, kind if len(kind) <= MAX_TYPE_CHARS else "", declared.get(name)))
    return [use for use in expected if use.type or use.spec is not None]


def _occurrences(found: Analysis) -> Iterator[tuple[str, ast.expr]]:
    """Yield each use of a hole: its name in requests, and its node."""
    stubs = {stub.name for stub in found.stubs}
    names, chosen = found.holes | stubs, {*found.shadowed, *found.methods}
    modules = found.module_holes | found.unknown_modules
    for node in found.syntax.nodes:
        match node:
            case ast.Name(ctx=ast.Load()):
                is_called = isinstance(found.syntax.parents.get(node), ast.Call)
                if node in chosen or node.id in names or (is_called and node.id in found.unknown_modules):
                    yield node.id, node
            case ast.Attribute(attr=name) if node in chosen or name in stubs:
                yield name, node
            case ast.Attribute(value=ast.Name(id=module)) if module in modules:
                yield f"{module}.{node.attr}", node


class _Reader:
    """Infers types after one walk over the tree; a type is empty if nothing is known."""

    def __init__(self, found: Analysis) -> None:
        self._found, self._parents = found, found.syntax.parents
        self._numbers = found.facts.numbers
        self._stubs = {stub.name: stub for stub in found.stubs}
        self._classes = {node.name: node for node in found.syntax.classes}
        self._looks, self._looks_left = Appearance(found), _MAX_LOOKS
        self._known: dict[tuple[str, str, Scope | None, int], str] = {}
        self._loads: dict[str, list[ast.Name]] = {}
        for node in found.syntax.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)

    def statement_of(self, node: ast.AST) -> int:
        statement = self._found.syntax.enclosing(node, (ast.stmt,))
        return self._numbers[statement] if isinstance(statement, ast.stmt) else 0

    def type_of(self, name: str, node: ast.expr) -> str:
        """Return the type from `ret_type=`, else from an annotation, else from how the value is used."""
        parent = self._parents.get(node)
        called = parent if isinstance(parent, ast.Call) and parent.func is node else None
        for keyword in called.keywords if called is not None else ():
            if keyword.arg == "ret_type":
                return self._annotation(keyword.value)
        stub = self._stubs.get(name.rpartition(".")[2])
        if stub is not None and stub.returns is not None:
            return self._annotation(stub.returns)
        return self._used(called, 0) if called is not None else self._passed_on(node)

    def _annotation(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return ast.unparse(Resolved(self._found, self._classes).visit(copy(node)))

    # --- how a value is used ----------------------------------------------------------------------------------

    def _passed_on(self, node: ast.expr) -> str:
        """Return the type of a hole passed as a function: `filter(f, xs)`, `sorted(xs, key=f)`, `map(f, xs)`."""
        parent = self._parents.get(node)
        call = self._parents.get(parent) if isinstance(parent, ast.keyword) else parent
        name = called_name(call) if isinstance(call, ast.Call) else ""
        if isinstance(parent, ast.keyword):
            words = set((last_name(node) or "").lower().split("_"))
            is_measure = name in ("max", "min", "sorted", "sort") and not words & (_TEXT_WORDS | _TIME_WORDS)
            return "number" if is_measure else ""
        if name in ("filter", "takewhile", "dropwhile", "filterfalse"):
            return "truth"
        if name in ("map", "apply", "starmap", "imap") and isinstance(parent, ast.Call):
            return self._element(parent, 0)
        return ""

    def _used(self, node: ast.expr, hops: int) -> str:
        """Return the type that the context of a value requires."""
        parent = self._parents.get(node)
        self._looks_left -= 1
        if hops > _MAX_HOPS or parent is None or self._looks_left < 0:
            return ""
        if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)) and parent.test is node:
            return "truth"
        if isinstance(parent, (ast.Await, ast.BoolOp, ast.IfExp)):  # the value of the part is the value of the whole
            return self._used(parent, hops)
        if isinstance(parent, (*COMPREHENSIONS, ast.List, ast.Tuple, ast.Set)):
            return self._element(parent, hops) if getattr(parent, "key", None) is not node else ""
        used: Callable[[Any, ast.expr, int], str] | None = getattr(self, f"_in_{type(parent).__name__}", None)
        return used(parent, node, hops) if used is not None else self._shown_by(parent, node, hops)

    def _shown_by(self, parent: ast.AST, node: ast.expr, hops: int) -> str:
        """Return the type that the syntax around a value shows on its own."""
        match parent:
            case ast.UnaryOp(op=operator):
                return "truth" if isinstance(operator, ast.Not) else "number"
            case ast.comprehension(iter=iterable):
                return "list" if iterable is node else "truth"
            case ast.Starred() | ast.For() | ast.AsyncFor() | ast.YieldFrom():
                return "list"
            case ast.NamedExpr(target=target):
                return merge([self._used(parent, hops), self._of_name(target, hops)])
            case ast.keyword() if isinstance(call := self._parents.get(parent), ast.Call):
                return self._in_Call(call, node, hops)
            case ast.Attribute(attr=attribute):
                kind = type_with_attribute(attribute) or self._field(parent, attribute, hops)
                return kind if kind != "Any" else ""
            case ast.AnnAssign(annotation=annotation):
                return self._annotation(annotation)
            case ast.FormattedValue():
                return formatted(parent)
            case ast.Slice():
                return "int"
        return ""

    def _in_Match(self, parent: ast.Match, node: ast.expr, hops: int) -> str:
        return literals([value for case in parent.cases for value in pattern_values(case.pattern)], is_total(parent))

    def _in_Compare(self, compare: ast.Compare, node: ast.expr, hops: int) -> str:
        operands = [compare.left, *compare.comparators]
        place = operands.index(node)
        kinds = []
        for index, operator in enumerate(compare.ops):
            if place in (index, index + 1):
                other = operands[index + 1 if place == index else index]
                kinds.append(self._compared_with(compare, operator, other, is_left=place == index))
        return merge(kinds)

    def _compared_with(self, compare: ast.Compare, operator: ast.cmpop, other: ast.expr, *, is_left: bool) -> str:
        other_kind = self._looks.like(other)
        match operator, other:
            case _, ast.Constant(value=None):
                return "None"
            case ast.In() | ast.NotIn(), _:
                return literals(self._looks.literals(other), True) if is_left else ""
            case ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE(), _:
                return other_kind if other_kind in ("number", "str", "date") else ""
            case ast.Eq(), ast.Constant(value=value):
                return literals([value], self._has_else(compare))
            case ast.NotEq(), ast.Constant(value=value):
                return literals([value], True)
        return "date" if other_kind == "date" else ""

    def _has_else(self, compare: ast.Compare) -> bool:
        """Whether a value that equals none of the literals has a branch of its own."""
        parent = self._parents.get(compare)
        while isinstance(parent, ast.If):
            if not parent.orelse:
                return False
            if len(parent.orelse) > 1 or not isinstance(parent.orelse[0], ast.If):
                return True
            parent = parent.orelse[0]
        return False

    def _in_BinOp(self, operation: ast.BinOp, node: ast.expr, hops: int) -> str:
        other_kind = self._looks.like(operation.right if operation.left is node else operation.left)
        if other_kind in ("date", "span"):
            return "date" if other_kind == "span" or isinstance(operation.op, ast.Sub) else ""
        if other_kind == "number":
            return "number"
        if isinstance(operation.op, ast.Add):
            return other_kind
        return "int" if other_kind == "list" and isinstance(operation.op, ast.Mult) else ""

    def _in_AugAssign(self, statement: ast.AugAssign, node: ast.expr, hops: int) -> str:
        """`total += f(x)`: the type of the variable's first value."""
        sources = self._looks.sources(statement.target)
        kinds = {self._looks.like(source) for source in sources if not isinstance(source, ast.AugAssign)} - {""}
        return kinds.pop() if len(kinds) == 1 and kinds <= {"number", "str", "list"} else ""

    def _in_Call(self, call: ast.Call, node: ast.expr, hops: int) -> str:
        """Return the type of an argument of a well-known function, or of the program's own annotated function."""
        name = called_name(call) or ""
        if isinstance(call.func, ast.Attribute):
            if name in ("append", "add", "insert"):
                return self._element_of(call.func.value, hops + 1)
            if name in ("get", "count", "index", "setdefault"):
                return literals(self._looks.literals(call.func.value), True)
        for function in self._found.syntax.functions.get(name, []):
            for annotation in _annotations_of(function, call, node):
                return self._annotation(annotation)
        return ARGUMENT_TYPES.get(name, "")

    def _in_Subscript(self, subscript: ast.Subscript, node: ast.expr, hops: int) -> str:
        if subscript.slice is node:
            held = self._looks.display(subscript.value)
            if isinstance(held, (ast.List, ast.Tuple)):
                return "int"
            return literals(self._looks.literals(held), False) if isinstance(held, ast.Dict) else ""
        if isinstance(subscript.slice, ast.Slice):
            return type_of_sliced(self._used(subscript, hops))
        if isinstance(subscript.slice, ast.Constant) and isinstance(subscript.slice.value, str):
            return self._field(subscript, subscript.slice.value, hops)
        return ""

    def _field(self, node: ast.expr, name: str, hops: int) -> str:
        """`f(x).city`, `f(x)["city"]`: an object with that field. A called attribute shows no type."""
        parent = self._parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return ""
        return f"{{{name!r}: {self._used(node, hops + 1) or 'Any'}}}"

    def _in_Assign(self, statement: ast.Assign, node: ast.expr, hops: int) -> str:
        kinds = []
        for target in statement.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                is_open = any(isinstance(element, ast.Starred) for element in target.elts)
                kinds.append("list" if is_open else f"tuple[{', '.join(['Any'] * len(target.elts))}]")
            elif isinstance(target, ast.Name):
                kinds.append(self._of_name(target, hops + 1))
            elif isinstance(target, ast.Subscript):
                kinds.append(self._element_of(target.value, hops + 1))
        return merge(kinds)

    def _of_name(self, target: ast.expr, hops: int) -> str:
        return self._remembered(self._used, target, hops + 1)

    def _element_of(self, target: ast.expr, hops: int) -> str:
        return self._remembered(self._element, target, hops + 1)

    def _remembered(self, look: Callable[[ast.expr, int], str], target: ast.expr, hops: int) -> str:
        """Return the type that all reads of a variable require; computed once."""
        names = self._found.names
        scope = names.scope_of.get(target)
        if not isinstance(target, ast.Name) or scope is None:
            return ""
        home = names.resolve(target.id, scope)
        key = (look.__name__, target.id, home, hops)
        if key not in self._known:
            self._known[key] = ""  # ends the recursion if a variable depends on itself
            loads = self._loads.get(target.id, [])[:_MAX_LOADS]
            here = [load for load in loads if names.resolve(target.id, names.scope_of.get(load, scope)) is home]
            self._known[key] = merge([look(load, hops) for load in here])
        return self._known[key]

    def _in_Return(self, statement: ast.Return, node: ast.expr, hops: int) -> str:
        function = self._found.syntax.enclosing(statement, FUNCTIONS)
        if not isinstance(function, FUNCTIONS):
            return ""
        if function.returns is not None:
            return self._annotation(function.returns)
        kinds = []
        for load in self._loads.get(function.name, [])[:_MAX_LOADS]:
            call = self._parents.get(load)
            is_called = isinstance(call, ast.Call) and call.func is load
            kinds.append(self._used(call, hops + 1) if is_called else self._passed_on(load))  # type: ignore[arg-type]
        return merge(kinds)

    # --- elements of containers -------------------------------------------------------------------------------

    def _element(self, container: ast.expr, hops: int) -> str:
        """Return the type required of the elements of a comprehension, a display or `map`."""
        parent = self._parents.get(container)
        if hops > _MAX_HOPS:
            return ""
        match parent:
            case ast.Call() if container in parent.args:
                return self._element_given(parent, hops)
            case ast.Assign():
                return merge([self._element_of(target, hops + 1) for target in parent.targets])
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return self._of_name(parent.target, hops + 1) if isinstance(parent.target, ast.Name) else ""
            case ast.Attribute():
                return self._element_of_method(parent, hops)
            case ast.Subscript(slice=ast.Slice()):
                return self._element(parent, hops)
            case ast.Subscript() if parent.value is container:
                return self._used(parent, hops + 1)
            case ast.Compare(left=ast.Constant(value=value), ops=[ast.In() | ast.NotIn(), *_]):
                return literals([value], True)
        return ""

    def _element_given(self, call: ast.Call, hops: int) -> str:
        """Return the type that a function requires of the elements of its argument."""
        name = called_name(call) or ""
        if name in ELEMENT_TYPES:
            return ELEMENT_TYPES[name]
        if name in ("max", "min"):
            return "number" if not call.keywords else ""
        return self._element(call, hops + 1) if name in ("list", "tuple", "set", "sorted", "Counter") else ""

    def _element_of_method(self, method: ast.Attribute, hops: int) -> str:
        """Return the type that a method of a container requires of its elements."""
        parent = self._parents.get(method)
        call = parent if isinstance(parent, ast.Call) else None
        if method.attr == "count" and call is not None:
            return literals([arg.value for arg in call.args if isinstance(arg, ast.Constant)], True)
        if method.attr == "values" and isinstance(parent, ast.expr):
            return self._element(parent, hops + 1)
        is_called = call is not None and call.func is method
        return "number" if method.attr == "get" and not is_called else ""  # max(d, key=d.get)


def _annotations_of(function: Function | ast.Lambda, call: ast.Call, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the annotation of the parameter that an argument of a call is bound to."""
    named = {keyword.arg for keyword in call.keywords if keyword.value is node}
    for index, parameter in enumerate([*function.args.posonlyargs, *function.args.args]):
        is_taken = node in call.args[index : index + 1] or parameter.arg in named
        if is_taken and parameter.annotation is not None:
            yield parameter.annotation
