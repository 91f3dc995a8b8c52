"""A syntax tree with its parents, calls, functions and scopes: Python's scoping rules. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .library import ASYNCIO_GATHERERS, FUNCTION_FIRST, FUNCTION_KEYWORDS, GATHERERS

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# --- one node -----------------------------------------------------------------------------------------------------


def text_of(node: ast.AST | None) -> str | None:
    """The last name of a name or an attribute: `c` of `c` and of `a.b.c`."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def called_name(call: ast.Call) -> str | None:
    """The last name of the called expression: `f` of `f(…)` and of `a.f(…)`."""
    return text_of(call.func)


def last_name(node: ast.AST | None) -> str | None:
    """`c` of `c`, `a.c`, `a.c(…)` and `a.c[…]`."""
    if isinstance(node, ast.Call):
        return text_of(node.func)
    return text_of(node.value if isinstance(node, ast.Subscript) else node)


def is_read(node: ast.AST) -> bool:
    """Whether a name, an attribute or an item is read, not assigned or deleted."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def is_target(node: ast.AST) -> bool:
    """Whether an attribute or an item is assigned or deleted."""
    return isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)


def arguments_of(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def display_parts(node: ast.AST | None) -> list[ast.expr] | None:
    """The parts of a tuple, list, set, dict or f-string; None for another expression."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return node.elts
        case ast.Dict():
            return [*filter(None, node.keys), *node.values]
        case ast.JoinedStr():
            return node.values
    return None


def root_name(node: ast.AST) -> str | None:
    """`d` of `d`, `d.x` and `d["k"].x`; None if an expression does not begin with a name."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def annotated_fields(node: ast.ClassDef | None) -> dict[str, ast.expr]:
    """The annotated names of a class body: the fields of a dataclass or NamedTuple."""
    lines = [line for line in (node.body if node is not None else ()) if isinstance(line, ast.AnnAssign)]
    return {line.target.id: line.annotation for line in lines if isinstance(line.target, ast.Name)}


def parameters_of(args: ast.arguments) -> list[ast.arg]:
    extra = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def defaults_of(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *(default for default in args.kw_defaults if default is not None)]


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The name that each part of an import binds (or `*`), and the top-level module it comes from."""
    for alias in node.names:
        top = alias.name.partition(".")[0]
        if isinstance(node, ast.Import):
            yield alias.asname or top, top
        else:
            yield alias.asname or alias.name, (node.module or "").partition(".")[0]


# --- the tree -----------------------------------------------------------------------------------------------------


class Syntax:
    """Indexes of a tree, from one walk over it."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: list[ast.AST] = []  # all of them, outer before inner
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.classes: list[ast.ClassDef] = []
        self.functions: dict[str, list[Function | ast.Lambda]] = {}
        self.initializers: dict[str, list[Function]] = {}
        for node in ast.walk(tree):
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self.calls.append(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.setdefault(node.name, []).append(node)
                home = self.parents.get(node)
                if isinstance(home, ast.ClassDef) and node.name == "__init__":
                    self.initializers[home.name].append(node)
            case ast.ClassDef():
                self.classes.append(node)
                self.initializers.setdefault(node.name, [])
            case ast.Assign(value=ast.Lambda() as function):
                for name in [target.id for target in node.targets if isinstance(target, ast.Name)]:
                    self.functions.setdefault(name, []).append(function)
            case ast.Import() | ast.ImportFrom():
                self.imports.append(node)

    def imported_names(self) -> Iterator[tuple[str, str]]:
        """(name bound, top-level module) for every import of the program."""
        for node in self.imports:
            if isinstance(node, ast.Import) or (node.module and not node.level):
                yield from imported(node)

    def own_functions(self, name: str | None) -> list[Function | ast.Lambda]:
        """The program's functions that a call of this name may run: functions, methods and initializers."""
        return [*self.functions.get(name or "", ()), *self.initializers.get(name or "", ())]

    def enclosing(self, node: ast.AST | None, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        """The nearest node of some kinds that contains a node, or the node itself."""
        while node is not None and not isinstance(node, kinds):
            node = self.parents.get(node)
        return node

    # --- functions passed as arguments ------------------------------------------------------------------------

    def takes_function(self, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a call of a known higher-order function uses this argument as a function.

        `reaching.py` determines that for the program's own functions.
        """
        name = called_name(call)
        if name in self.functions or name in self.initializers or name == "dict":
            return False
        if name in FUNCTION_FIRST and argument in call.args[:1]:
            return True
        if name == "run_in_executor" and argument in call.args[1:2]:
            return True
        return any(keyword.value is argument and keyword.arg in FUNCTION_KEYWORDS for keyword in call.keywords)

    def is_in_annotation(self, node: ast.AST) -> bool:
        child, parent = node, self.parents.get(node)
        while isinstance(parent, ast.expr):
            child, parent = parent, self.parents.get(parent)
        if isinstance(parent, (ast.arg, ast.AnnAssign)):
            return parent.annotation is child
        return isinstance(parent, FUNCTIONS) and parent.returns is child

    # --- awaiting ---------------------------------------------------------------------------------------------

    def awaited_names(self) -> set[str]:
        """Names of functions of which some call is awaited or gathered, directly or through a variable."""
        holders = {name for node in self.nodes for name in _awaited_variables(node)}
        return {
            name
            for call in self.calls
            if (name := called_name(call)) and (self._is_awaited(call) or self._is_held(call, holders))
        }

    def _around(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        parent = self.parents.get(node)
        while isinstance(parent, kinds):
            parent = self.parents.get(parent)
        return parent

    def _is_awaited(self, call: ast.Call) -> bool:
        """await f(x), gather(f(1), f(2)), gather(*[f(x) for x in xs]), wait([f(1)])."""
        if isinstance(self.parents.get(call), ast.Await):
            return True
        parent = self._around(call, (ast.Starred, ast.List, ast.Tuple, *COMPREHENSIONS))
        return isinstance(parent, ast.Call) and _gathers(parent)

    def _is_held(self, call: ast.Call, holders: set[str]) -> bool:
        """tasks = [f(1), f(2)], tasks.append(f(1)), where tasks is awaited later."""
        match self._around(call, (ast.List, ast.Tuple, *COMPREHENSIONS)):
            case ast.Assign(targets=targets):
                return any(isinstance(target, ast.Name) and target.id in holders for target in targets)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add")):
                return name in holders
        return False


def _gathers(call: ast.Call) -> bool:
    """Whether a call accepts awaitables."""
    is_of_asyncio = isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "asyncio"
    return called_name(call) in (ASYNCIO_GATHERERS if is_of_asyncio else GATHERERS)


def _awaited_variables(node: ast.AST) -> list[str]:
    """The variables that a node awaits, or awaits the elements of."""
    match node:
        case ast.Await(value=ast.Name(id=name)):
            return [name]
        case ast.Call() if _gathers(node):
            given = [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
            return [value.id for value in given if isinstance(value, ast.Name)]
        case ast.For():
            return _awaited_elements(node, [node])
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return _awaited_elements(node, node.generators)
    return []


def _awaited_elements(node: ast.AST, loops: list[ast.For] | list[ast.comprehension]) -> list[str]:
    """`for t in tasks: await t` awaits the elements of tasks."""
    waits = [part.value for part in ast.walk(node) if isinstance(part, ast.Await)]
    awaited = {value.id for value in waits if isinstance(value, ast.Name)}
    return [
        loop.iter.id
        for loop in loops
        if isinstance(loop.target, ast.Name) and loop.target.id in awaited and isinstance(loop.iter, ast.Name)
    ]


# --- scopes -------------------------------------------------------------------------------------------------------


class Scope:
    """One namespace of the program; `bindings` maps each name it binds to what each binding takes its value from."""

    def __init__(self, kind: Literal["module", "function", "class", "comprehension"], parent: Scope | None) -> None:
        self.kind, self.parent = kind, parent
        self.bindings: dict[str, list[ast.AST | None]] = {}
        self.global_names: set[str] = set()
        self.nonlocal_names: set[str] = set()
        self.loads: list[ast.Name] = []

    @property
    def frame(self) -> Scope:
        """The scope whose frame this scope's code runs in; a comprehension counts as part of the scope around it."""
        scope = self
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        return scope

    def bind(self, name: str, source: ast.AST | None = None) -> None:
        self.bindings.setdefault(name, []).append(source)


class Names:
    """Every scope of a tree, the scope around each statement and name, and what a name resolves to."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", None)
        self.scopes = [self.module]
        self.scope_of: dict[ast.AST, Scope] = {}
        self._visit_all(tree.body, self.module)
        for scope in self.scopes:  # `global x` binds in the module, `nonlocal x` where x lives
            for name in scope.global_names & scope.bindings.keys():
                self.module.bindings.setdefault(name, []).extend(scope.bindings.pop(name))
            for name in scope.nonlocal_names & scope.bindings.keys():
                scope.bindings.pop(name)

    def resolve(self, name: str, scope: Scope) -> Scope | None:
        """Return the scope that binds `name` when it is read in `scope`; None if no scope of the program binds it."""
        current: Scope | None = scope
        while current is not None:
            if current.kind != "class" or current is scope:
                if name in current.global_names:
                    return self.module if name in self.module.bindings else None
                if name in current.bindings:
                    return current
            current = current.parent
        return None

    def unresolved(self) -> Iterator[ast.Name]:
        """Every read of a name that no scope of the program binds."""
        for scope in self.scopes:
            for node in scope.loads:
                if self.resolve(node.id, scope) is None:
                    yield node

    # --- walking ---------------------------------------------------------------------------------------------

    def _new(self, kind: Literal["function", "class", "comprehension"], parent: Scope, *names: str) -> Scope:
        scope = Scope(kind, parent)
        self.scopes.append(scope)
        for name in names:
            scope.bind(name)
        return scope

    def _visit_all(self, nodes: list[ast.stmt] | list[ast.expr] | list[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        self.scope_of[node] = scope
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            method(node, scope)
        else:
            self._children(node, scope)

    def _children(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def _Name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            scope.loads.append(node)
        else:
            scope.bind(node.id)

    def _AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        self._visit(node.value, scope)
        self._bind_targets([node.target], node, scope)

    def _Delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope_of[target] = scope
                scope.bind(target.id, node)
            else:
                self._visit(target, scope)

    def _bind_targets(self, targets: list[ast.expr], source: ast.AST | None, scope: Scope) -> None:
        for target in targets:
            for child in ast.walk(target):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    self.scope_of[child] = scope
                    scope.bind(child.id, source)
            self._visit_loads_of(target, scope)

    def _visit_loads_of(self, target: ast.expr, scope: Scope) -> None:
        """The parts of an assignment target that are read: `a[i].b = …` reads a and i."""
        self.scope_of[target] = scope
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._visit_loads_of(element, scope)
        elif isinstance(target, ast.Starred):
            self._visit_loads_of(target.value, scope)
        elif not isinstance(target, ast.Name):
            self._children(target, scope)

    def _Assign(self, node: ast.Assign, scope: Scope) -> None:
        self._visit(node.value, scope)
        self._bind_targets(node.targets, node.value, scope)

    def _AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._visit(node.annotation, scope)
        if node.value is not None:
            self._visit(node.value, scope)
        if node.value is not None or scope.kind == "function":
            self._bind_targets([node.target], node.value, scope)

    def _NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._visit(node.value, scope)
        self._bind_targets([node.target], node.value, scope.frame)

    def _For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._visit(node.iter, scope)
        self._bind_targets([node.target], node.iter, scope)
        self._visit_all([*node.body, *node.orelse], scope)

    _AsyncFor = _For

    def _FunctionDef(self, node: Function, scope: Scope) -> None:
        scope.bind(node.name)
        self._visit_all(list(node.decorator_list), scope)
        outer = self._type_parameters(node, scope)
        self._visit_all(defaults_of(node.args), scope)
        annotations = [arg.annotation for arg in parameters_of(node.args) if arg.annotation is not None]
        self._visit_all(annotations + ([node.returns] if node.returns is not None else []), outer)
        self._visit_all(node.body, self._new("function", outer, *(arg.arg for arg in parameters_of(node.args))))

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        self._visit_all(defaults_of(node.args), scope)
        self._visit(node.body, self._new("function", scope, *(arg.arg for arg in parameters_of(node.args))))

    def _ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        scope.bind(node.name)
        self._visit_all(list(node.decorator_list), scope)
        outer = self._type_parameters(node, scope)
        self._visit_all([*node.bases, *(keyword.value for keyword in node.keywords)], outer)
        self._visit_all(node.body, self._new("class", outer, "__module__", "__qualname__", "__class__"))

    def _TypeAlias(self, node: ast.AST, scope: Scope) -> None:
        name: ast.Name = node.name  # type: ignore[attr-defined]  # Python ≥ 3.12
        scope.bind(name.id)
        outer = self._type_parameters(node, scope)
        self._visit(node.value, outer)  # type: ignore[attr-defined]

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        parameters: list[ast.AST] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        outer = self._new("function", scope)
        for parameter in parameters:
            outer.bind(parameter.name)  # type: ignore[attr-defined]
            self._children(parameter, outer)
        return outer

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> None:
        inner = self._new("comprehension", scope)
        for index, generator in enumerate(node.generators):
            self._visit(generator.iter, scope if index == 0 else inner)
            self._bind_targets([generator.target], generator.iter, inner)
            self._visit_all(list(generator.ifs), inner)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._visit_all(elements, inner)

    _ListComp = _SetComp = _DictComp = _GeneratorExp = _comprehension

    def _Import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for name, _ in imported(node):
            if name != "*":
                scope.bind(name)

    _ImportFrom = _Import

    def _Global(self, node: ast.Global, scope: Scope) -> None:
        if scope.kind != "module":
            scope.global_names.update(node.names)

    def _Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.nonlocal_names.update(node.names)

    def _captures(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping, scope: Scope) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            scope.bind(name)
        self._children(node, scope)

    _ExceptHandler = _MatchAs = _MatchStar = _MatchMapping = _captures
