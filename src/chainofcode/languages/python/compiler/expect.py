"""What type of value the program expects from each hole, read off the program: how it is declared, used and named.

A type is told as the text of a Python annotation (`bool`, `list[str]`, `Literal['a', 'b']`), with `number` for what
may be an int or a float, and `{'name': str}` for a class of the program's. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .analyse import Analysis
from .appearance import Looks
from .kinds import Resolved, by_name, copy, formatted, having, is_total, literals, merge, pattern_values, settled
from .record import Data
from .scopes import Scope
from .statements import statements
from .syntax import called_name, last_name

MAX_TYPE_CHARS = 2000
_MAX_HOPS = 4  # through variables and functions of the program
_MAX_LOOKS = 50_000  # a long program's types are not worth seconds
_MAX_LOADS = 50  # of one variable
_TAKES = {  # what well-known functions take as their argument; what takes a text, a list or a dict says nothing
    "sum": "list[number]", "any": "list", "all": "list", "sorted": "list", "list": "list", "enumerate": "list",
    "Counter": "list", "int": "", "float": "number", "round": "number", "abs": "number", "range": "int",
    "bool": "truth", "sqrt": "number", "timedelta": "number", "Decimal": "number", "Fraction": "number",
    "len": "sized", "join": "list[str]", "fromisoformat": "str", "strptime": "str", "chr": "int", "ord": "str",
}  # fmt: skip
_TAKES_EACH = {"any": "truth", "all": "truth", "sum": "number", "join": "str"}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TEXT_WORDS = {"name", "surname", "title", "word", "letter", "label", "city", "country", "language", "color", "colour"}
_TIME_WORDS = {"date", "day", "birthday", "time", "when", "deadline", "year", "month"}


class Use(Data):
    """A hole in a statement: the type expected of it there, and the statement that specifies it (a stub), if any."""

    statement: int
    name: str
    type: str
    spec: int | None = None


def expected(found: Analysis) -> list[Use]:
    """The uses of holes about which something is known. Look before the tree is lowered."""
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
    declared = {stub.name: reader.numbers.get(stub) for stub in found.stubs}
    merged = {name: merge(kinds) for name, kinds in everywhere.items()}
    told = []
    for (statement, name), kinds in uses.items():
        # What all places say of the function: the same call has the same value wherever it is made.
        kind = merged[name] or merge(kinds).replace("truth", "")
        kind = settled(kind, by_name(name))
        told.append(Use(statement, name, kind if len(kind) <= MAX_TYPE_CHARS else "", declared.get(name)))
    return [use for use in told if use.type or use.spec is not None]


def _occurrences(found: Analysis) -> Iterator[tuple[str, ast.expr]]:
    """Each hole of the program by the name under which it is asked for, and where it stands."""
    stubs = {stub.name for stub in found.stubs}
    shadowed, methods = set(found.shadowed), set(found.methods)
    modules = found.module_holes | found.unknown_modules
    for node in found.syntax.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if (
                node in shadowed
                or node.id in found.holes
                or node.id in stubs
                or (node.id in found.unknown_modules and isinstance(found.syntax.parents.get(node), ast.Call))
            ):
                yield node.id, node
        elif isinstance(node, ast.Attribute):
            if node in methods or node.attr in stubs:
                yield node.attr, node
            elif isinstance(node.value, ast.Name) and node.value.id in modules:
                yield f"{node.value.id}.{node.attr}", node


class _Reader:
    """Answers from one walk over the tree; a type is empty where nothing is known."""

    def __init__(self, found: Analysis) -> None:
        self._found, self._parents = found, found.syntax.parents
        self.numbers = {statement: number for number, statement in enumerate(statements(found.syntax.tree.body))}
        self._stubs = {stub.name: stub for stub in found.stubs}
        self._classes = {node.name: node for node in found.syntax.nodes if isinstance(node, ast.ClassDef)}
        self._looks, self._looks_left = Looks(found), _MAX_LOOKS
        self._known: dict[tuple[str, str, Scope | None, int], str] = {}
        self._loads: dict[str, list[ast.Name]] = {}
        for node in found.syntax.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)

    def statement_of(self, node: ast.AST) -> int:
        current: ast.AST | None = node
        while current is not None and not (isinstance(current, ast.stmt) and current in self.numbers):
            current = self._parents.get(current)
        return self.numbers[current] if isinstance(current, ast.stmt) else 0

    def type_of(self, name: str, node: ast.expr) -> str:
        """`ret_type=`, then an annotation, then how the value is used."""
        parent = self._parents.get(node)
        called = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if called is not None:
            for keyword in called.keywords:
                if keyword.arg == "ret_type":
                    is_text = isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
                    return str(keyword.value.value) if is_text else self._annotation(keyword.value)  # type: ignore[attr-defined]
        stub = self._stubs.get(name.rpartition(".")[2])
        if stub is not None and stub.returns is not None:
            return self._annotation(stub.returns)
        return self._used(called, 0) if called is not None else self._handed_on(node)

    def _annotation(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return ast.unparse(Resolved(self._found, self._classes).visit(copy(node)))

    # --- how a value is used ----------------------------------------------------------------------------------

    def _handed_on(self, node: ast.expr) -> str:
        """A hole given as a function: `filter(f, xs)`, `sorted(xs, key=f)`, `map(f, xs)`."""
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
        """The type that the place where a value stands asks for."""
        parent = self._parents.get(node)
        self._looks_left -= 1
        if hops > _MAX_HOPS or parent is None or self._looks_left < 0:
            return ""
        match parent:
            case ast.If() | ast.While() | ast.Assert() | ast.IfExp() if parent.test is node:
                return "truth"
            case ast.UnaryOp():
                return "truth" if isinstance(parent.op, ast.Not) else "number"
            case ast.comprehension():
                return "list" if parent.iter is node else "truth"
            case ast.Await() | ast.BoolOp() | ast.IfExp():
                return self._used(parent, hops)
            case ast.NamedExpr():
                return merge([self._used(parent, hops), self._of_name(parent.target, hops)])
            case ast.Compare():
                return self._compared(parent, node)
            case ast.BinOp():
                return self._calculated(parent, node)
            case ast.AugAssign():
                return self._added(parent)
            case ast.Call():
                return self._given(parent, node, hops)
            case ast.keyword():
                call = self._parents.get(parent)
                return self._given(call, node, hops) if isinstance(call, ast.Call) else ""
            case ast.Starred() | ast.For() | ast.AsyncFor():
                return "list"
            case ast.YieldFrom():
                return "list"
            case ast.Subscript():
                return self._looked_up(parent, node, hops)
            case ast.Attribute():
                kind = having(parent.attr) or self._field(parent, parent.attr, hops)
                return kind if kind != "Any" else ""
            case ast.Assign():
                return self._assigned(parent, hops)
            case ast.AnnAssign():
                return self._annotation(parent.annotation)
            case ast.Return():
                return self._returned(parent, hops)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._element(parent, hops)
            case ast.DictComp() | ast.List() | ast.Tuple() | ast.Set():
                return self._element(parent, hops) if getattr(parent, "key", None) is not node else ""
            case ast.FormattedValue():
                return formatted(parent)
            case ast.Match():
                return literals([p for case in parent.cases for p in pattern_values(case.pattern)], is_total(parent))
        return ""

    def _compared(self, compare: ast.Compare, node: ast.expr) -> str:
        operands = [compare.left, *compare.comparators]
        place = operands.index(node)
        kinds = []
        for index, operator in enumerate(compare.ops):
            if place in (index, index + 1):
                other = operands[index + 1 if place == index else index]
                kinds.append(self._compared_with(compare, operator, other, is_left=place == index))
        return merge(kinds)

    def _compared_with(self, compare: ast.Compare, operator: ast.cmpop, other: ast.expr, *, is_left: bool) -> str:
        if isinstance(other, ast.Constant) and other.value is None:
            return "None"
        if isinstance(operator, (ast.In, ast.NotIn)):
            return literals(self._looks.literals(other), True) if is_left else ""
        beside = self._looks.like(other)
        if isinstance(operator, _ORDERED):
            return beside if beside in ("number", "str", "date") else ""
        if isinstance(other, ast.Constant) and isinstance(operator, (ast.Eq, ast.NotEq)):
            is_open = isinstance(operator, ast.NotEq) or self._has_else(compare)
            return literals([other.value], is_open)
        return "date" if beside == "date" else ""

    def _has_else(self, compare: ast.Compare) -> bool:
        """Whether what equals none of the literals has a branch of its own."""
        parent = self._parents.get(compare)
        while isinstance(parent, ast.If):
            if not parent.orelse:
                return False
            if len(parent.orelse) > 1 or not isinstance(parent.orelse[0], ast.If):
                return True
            parent = parent.orelse[0]
        return False

    def _calculated(self, operation: ast.BinOp, node: ast.expr) -> str:
        beside = self._looks.like(operation.right if operation.left is node else operation.left)
        if beside in ("date", "span"):
            return "date" if beside == "span" or isinstance(operation.op, ast.Sub) else ""
        if beside == "number":
            return "number"
        if isinstance(operation.op, ast.Add):
            return beside
        return "int" if beside == "list" and isinstance(operation.op, ast.Mult) else ""

    def _added(self, statement: ast.AugAssign) -> str:
        """`total += f(x)`: what the variable began as."""
        sources = self._looks.sources(statement.target)
        kinds = {self._looks.like(source) for source in sources if not isinstance(source, ast.AugAssign)} - {""}
        return kinds.pop() if len(kinds) == 1 and kinds <= {"number", "str", "list"} else ""

    def _given(self, call: ast.Call, node: ast.expr, hops: int) -> str:
        """A value handed to a function: a well-known one, or one of the program's own with annotations."""
        name = called_name(call) or ""
        if name in ("append", "add", "insert") and isinstance(call.func, ast.Attribute):
            return self._element_of(call.func.value, hops + 1)
        if name in ("get", "count", "index", "setdefault") and isinstance(call.func, ast.Attribute):
            return literals(self._looks.literals(call.func.value), True)
        for function in self._found.syntax.functions.get(name, []):
            arguments = [*function.args.posonlyargs, *function.args.args]
            named = {k.arg for k in call.keywords if k.value is node}
            place = next((i for i, arg in enumerate(call.args) if arg is node), -1)
            for index, argument in enumerate(arguments):
                if (index == place or argument.arg in named) and argument.annotation is not None:
                    return self._annotation(argument.annotation)
        return _TAKES.get(name, "")

    def _looked_up(self, subscript: ast.Subscript, node: ast.expr, hops: int) -> str:
        if subscript.slice is node:
            held = self._looks.display(subscript.value)
            if isinstance(held, (ast.List, ast.Tuple)):
                return "int"
            return literals(self._looks.literals(held), False) if isinstance(held, ast.Dict) else ""
        if isinstance(subscript.slice, ast.Constant) and isinstance(subscript.slice.value, str):
            return self._field(subscript, subscript.slice.value, hops)
        return ""

    def _field(self, node: ast.expr, name: str, hops: int) -> str:
        """`f(x).city`, `f(x)["city"]`: an object with that field. A method that nobody has says nothing."""
        parent = self._parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return ""
        return f"{{{name!r}: {self._used(node, hops + 1) or 'Any'}}}"

    def _assigned(self, statement: ast.Assign, hops: int) -> str:
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
        """What all the reads of the variable that a name stands for ask of it; looked up once."""
        names = self._found.names
        scope = names.scope_of.get(target)
        if not isinstance(target, ast.Name) or scope is None:
            return ""
        home = names.resolve(target.id, scope)
        key = (look.__name__, target.id, home, hops)
        if key not in self._known:
            self._known[key] = ""  # a variable that depends on itself says nothing about itself
            loads = self._loads.get(target.id, [])[:_MAX_LOADS]
            here = [load for load in loads if names.resolve(target.id, names.scope_of.get(load, scope)) is home]
            self._known[key] = merge([look(load, hops) for load in here])
        return self._known[key]

    def _returned(self, statement: ast.Return, hops: int) -> str:
        function = self._parents.get(statement)
        while function is not None and not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            function = self._parents.get(function)
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return ""
        if function.returns is not None:
            return self._annotation(function.returns)
        kinds = []
        for load in self._loads.get(function.name, [])[:_MAX_LOADS]:
            call = self._parents.get(load)
            is_called = isinstance(call, ast.Call) and call.func is load
            kinds.append(self._used(call, hops + 1) if is_called else self._handed_on(load))  # type: ignore[arg-type]
        return merge(kinds)

    # --- elements of containers -------------------------------------------------------------------------------

    def _element(self, container: ast.expr, hops: int) -> str:
        """The type asked of what a comprehension, a display or `map` yields."""
        parent = self._parents.get(container)
        if hops > _MAX_HOPS:
            return ""
        match parent:
            case ast.Call() if container in parent.args:
                name = called_name(parent) or ""
                if name in _TAKES_EACH:
                    return _TAKES_EACH[name]
                if name in ("max", "min"):
                    return "number" if not parent.keywords else ""
                return self._element(parent, hops + 1) if name in ("list", "tuple", "set", "sorted", "Counter") else ""
            case ast.Assign():
                return merge([self._element_of(target, hops + 1) for target in parent.targets])
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return self._of_name(parent.target, hops + 1) if isinstance(parent.target, ast.Name) else ""
            case ast.Attribute() if parent.attr == "count":
                return literals(_arguments(self._parents.get(parent)), True)
            case ast.Attribute() if parent.attr == "values":
                return self._element(self._parents[parent], hops + 1)  # type: ignore[arg-type]
            case ast.Attribute() if parent.attr == "get" and not _is_called(self._parents.get(parent), parent):
                return "number"  # max(d, key=d.get)
            case ast.Subscript() if parent.value is container:
                return self._used(parent, hops + 1)
            case ast.Compare() if isinstance(parent.ops[0], (ast.In, ast.NotIn)):
                return literals([parent.left.value] if isinstance(parent.left, ast.Constant) else [], True)
        return ""


def _arguments(call: ast.AST | None) -> list[object]:
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant)] if isinstance(call, ast.Call) else []


def _is_called(parent: ast.AST | None, node: ast.AST) -> bool:
    return isinstance(parent, ast.Call) and parent.func is node
