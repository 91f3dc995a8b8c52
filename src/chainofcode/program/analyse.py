"""What a program leaves open: its holes, the imports it forgot, and which `try` answers for which error.

A hole is a name used as a function, method, class or module that nobody defined, or a function declared but left
empty. Nothing of the program runs here. Standard library only.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .missing import MissingImport, Use, find_import
from .scopes import Comprehension, Function, Names, Scope

ALWAYS_DEFINED = frozenset(dir(builtins)) | {"exit", "quit", "__file__", "__builtins__", "__annotations__"}
# The parameter of a library function that takes a function: by position, and by name for any function.
_FUNCTION_FIRST = {
    "map", "filter", "reduce", "partial", "takewhile", "dropwhile", "filterfalse", "starmap", "submit", "apply",
    "applymap", "apply_async", "to_thread", "defaultdict", "imap", "imap_unordered", "cmp_to_key", "iter", "call_soon",
}  # fmt: skip
_FUNCTION_KEYWORDS = {"key", "func", "function", "fn", "f", "predicate", "callback", "target", "default_factory"}
_GATHERERS = {
    "gather", "create_task", "ensure_future", "wait_for", "wait", "as_completed", "shield", "run_until_complete",
    "run_coroutine_threadsafe", "timeout",
}  # fmt: skip
_TEXT_RUNNERS = {"eval", "exec", "compile"}
_NEVER_STUBS = {
    "abstractmethod", "abstractproperty", "overload", "singledispatch", "singledispatchmethod", "property", "setter",
    "deleter", "getter", "fixture",
}  # fmt: skip


@dataclass(frozen=True)
class Guard:
    """The lines that a `try` of the program covers and the exception names it catches (None: every one)."""

    start: tuple[int, int]
    end: tuple[int, int]
    catches: frozenset[str] | None


@dataclass
class Analysis:
    tree: ast.Module
    names: Names
    parents: dict[ast.AST, ast.AST]
    holes: set[str] = field(default_factory=set)  # undefined names that are called or handed on as functions
    module_holes: set[str] = field(default_factory=set)  # undefined names whose attributes are called
    awaited: set[str] = field(default_factory=set)  # holes whose calls must give awaitables
    imports: list[MissingImport] = field(default_factory=list)
    shadowed: list[ast.Name] = field(default_factory=list)  # the called `name` in `name = name(…)`
    methods: list[ast.Attribute] = field(default_factory=list)  # called attributes that nothing known has
    stubs: list[Function] = field(default_factory=list)
    text_runners: list[ast.Name] = field(default_factory=list)  # `eval`, `exec`, `compile`, where they are the builtins
    guards: list[Guard] = field(default_factory=list)

    def hole_calls(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parts of a statement where the LM may be asked."""
        stubs = {stub.name for stub in self.stubs}
        shadowed = {id(name) for name in self.shadowed}
        methods = {id(attribute) for attribute in self.methods}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                if child.id in self.holes or child.id in self.module_holes or id(child) in shadowed:
                    yield self.parents.get(child, child)
                elif child.id in stubs:
                    yield self.parents.get(child, child)
            elif isinstance(child, ast.Attribute) and (id(child) in methods or child.attr in stubs):
                yield self.parents.get(child, child)
            elif isinstance(child, ast.Attribute) and self._of_imported_hole(child):
                yield self.parents.get(child, child)

    def _of_imported_hole(self, node: ast.Attribute) -> bool:
        return isinstance(node.value, ast.Name) and node.value.id in self.unknown_modules

    @property
    def unknown_modules(self) -> set[str]:
        """Names bound by an import of a module that this Python does not have."""
        return {name for name, module in imported_names(self.tree) if module not in sys.stdlib_module_names}


def analyse(tree: ast.Module, *, defined: Collection[str] = (), packages: Collection[str] = ()) -> Analysis:
    """Find what the program leaves open; `defined` are names it is given, `packages` those it was granted."""
    names = Names(tree)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = Analysis(tree, names, parents)
    given = ALWAYS_DEFINED | set(defined)
    uses: dict[str, list[Use]] = {}
    for node, _scope in names.unresolved():
        if node.id in _TEXT_RUNNERS:
            found.text_runners.append(node)
        if node.id not in given and not node.id.startswith("$"):
            uses.setdefault(node.id, []).append(_use(node, found))
    known = set(names.module.bindings) | set(defined)
    for name, seen in uses.items():
        missing = find_import(name, seen, packages)
        if missing is not None:
            found.imports.append(missing)
        elif any(use.how in ("call", "function", "base") for use in seen):
            found.holes.add(name)
        elif any(use.how == "attribute" and use.is_called for use in seen) and not near_match(name, known):
            found.module_holes.add(name)
    found.shadowed = list(_self_shadowing(names, given))
    found.stubs = list(_stubs(tree, found))
    found.methods = list(_unknown_methods(tree, found, packages))
    found.guards = list(_guards(tree))
    found.awaited = _awaited(tree, found)
    return found


def near_match(name: str, known: Iterable[str]) -> str | None:
    """The defined name that `name` probably misspells."""
    matches = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return matches[0] if matches else None


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name bound, top-level module) for every import of the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, node.module.partition(".")[0]


# --- how a name is used -------------------------------------------------------------------------------------------


def _use(node: ast.expr, found: Analysis) -> Use:
    parent = found.parents.get(node)
    if isinstance(parent, ast.Call):
        if parent.func is node:
            if isinstance(found.parents.get(parent), ast.Raise):
                return Use("raise")
            plain = not any(isinstance(arg, ast.Starred) for arg in parent.args) and not parent.keywords
            return Use("call", arity=len(parent.args) if plain else None)
        if _takes_function(parent, node, found):
            return Use("function")
        if _called_name(parent) in ("isinstance", "issubclass") and node in parent.args[1:]:
            return Use("type")
    if isinstance(parent, ast.keyword):
        call = found.parents[parent]
        if parent.arg in _FUNCTION_KEYWORDS or isinstance(call, ast.Call) and _takes_function(call, node, found):
            return Use("function")
    if isinstance(parent, ast.Attribute):
        return Use("attribute", attribute=parent.attr, is_called=_chain_is_called(parent, found))
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if node in parent.decorator_list:
            return Use("call", arity=1)
        return Use("base" if isinstance(parent, ast.ClassDef) else "type")
    if isinstance(parent, (ast.arg, ast.AnnAssign)) and parent.annotation is node:
        return Use("type")
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return Use("type")
    if _reaches_call(node, found):
        return Use("function")
    return Use("type" if _in_annotation(node, found) else "read")


def _chain_is_called(node: ast.expr, found: Analysis) -> bool:
    """Whether `a.b.c` ends in a call, or is handed on as a function."""
    parent = found.parents.get(node)
    while isinstance(parent, ast.Attribute):
        node, parent = parent, found.parents.get(parent)
    return _use(node, found).how in ("call", "function")


def _called_name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _takes_function(call: ast.Call, argument: ast.expr, found: Analysis) -> bool:
    """Whether a call uses this argument as a function: a known higher-order function, or one of the program's own."""
    name = _called_name(call)
    if name in _FUNCTION_FIRST and call.args and call.args[0] is argument:
        return True
    if isinstance(call.func, ast.Attribute) and name in ("map", "apply") and argument in call.args[:1]:
        return True
    for function in _functions_called(name, found.tree):
        parameter = _parameter(function, call, argument)
        if parameter and _calls(function, parameter):
            return True
    return False


def _functions_called(name: str | None, tree: ast.Module) -> Iterator[Function | ast.Lambda]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                yield node.value


def _parameter(function: Function | ast.Lambda, call: ast.Call, argument: ast.expr) -> str | None:
    for keyword in call.keywords:
        if keyword.value is argument:
            return keyword.arg
    position = next((i for i, arg in enumerate(call.args) if arg is argument), None)
    parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    return parameters[position] if position is not None and position < len(parameters) else None


def _calls(function: Function | ast.Lambda, parameter: str) -> bool:
    """Whether a function's body calls its parameter, or hands it on where a function is wanted."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == parameter:
                return True
            handed_on = [a for a in node.args[:1] if _called_name(node) in _FUNCTION_FIRST]
            handed_on += [k.value for k in node.keywords if k.arg in _FUNCTION_KEYWORDS]
            if any(isinstance(value, ast.Name) and value.id == parameter for value in handed_on):
                return True
    return False


def _reaches_call(node: ast.expr, found: Analysis) -> bool:
    """Whether a bare name is kept in a variable or container out of which the program calls functions."""
    held: ast.AST = node
    parent = found.parents.get(held)
    in_container = False
    while isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.IfExp, ast.keyword)):
        in_container = in_container or not isinstance(parent, (ast.IfExp, ast.keyword))
        held, parent = parent, found.parents.get(parent)
    if in_container and isinstance(parent, (ast.Assign, ast.For, ast.comprehension, ast.Call, ast.Attribute, ast.Subscript)):
        return any(_is_indirect_call(call, found.tree) for call in ast.walk(found.tree) if isinstance(call, ast.Call))
    if isinstance(parent, ast.Assign):
        targets = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        return any(isinstance(call, ast.Call) and _called_name(call) in targets for call in ast.walk(found.tree))
    if isinstance(parent, ast.arguments):
        function = found.parents[parent]
        return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and any(
            _calls(function, arg.arg) for arg in [*parent.args, *parent.kwonlyargs]
        )
    return False


def _is_indirect_call(call: ast.Call, tree: ast.Module) -> bool:
    """`d[k](…)`, or `f(…)` where f is the target of a loop."""
    if isinstance(call.func, ast.Subscript):
        return True
    if not isinstance(call.func, ast.Name):
        return False
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            if any(isinstance(n, ast.Name) and n.id == call.func.id for n in ast.walk(node.target)):
                return True
    return False


def _in_annotation(node: ast.AST, found: Analysis) -> bool:
    child, parent = node, found.parents.get(node)
    while isinstance(parent, ast.expr):
        child, parent = parent, found.parents.get(parent)
    if isinstance(parent, (ast.arg, ast.AnnAssign)):
        return parent.annotation is child
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is child


# --- name = name(…), empty functions, methods nobody has ----------------------------------------------------------


def _self_shadowing(names: Names, given: Collection[str]) -> Iterator[ast.Name]:
    """The called `name` of `name = name(…)` where nothing else in sight binds that name."""
    for scope in names.scopes:
        for name, sources in scope.bindings.items():
            if name in given or None in sources or _bound_elsewhere(name, scope, names):
                continue
            called = [_calls_of(name, source) for source in sources if source is not None]
            if all(called):
                yield from (node for nodes in called for node in nodes)


def _bound_elsewhere(name: str, scope: Scope, names: Names) -> bool:
    return scope.parent is not None and names.resolve(name, scope.parent) is not None


def _calls_of(name: str, source: ast.AST) -> list[ast.Name]:
    """The calls made while `source` is evaluated; those inside a lambda come later."""
    calls: list[ast.Name] = []
    pending = [] if isinstance(source, ast.Lambda) else [source]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            calls.append(node.func)
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Lambda))
    return calls


def _stubs(tree: ast.Module, found: Analysis) -> Iterator[Function]:
    """Functions that are declared and left empty, and whose value somebody wants."""
    overridden = _overridden_methods(tree)
    handles = any(_catches(h, {"NotImplementedError"}) for h in ast.walk(tree) if isinstance(h, ast.ExceptHandler))
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not _is_empty(node):
            continue
        if node.name.startswith("__") or {_last_name(d) for d in node.decorator_list} & _NEVER_STUBS:
            continue
        home = found.parents.get(node)
        if isinstance(home, ast.ClassDef) and {_last_name(base) for base in home.bases} & {"Protocol", "ABC"}:
            continue
        if isinstance(home, ast.ClassDef) and (home.name, node.name) in overridden:
            continue
        if handles and isinstance(node.body[-1], ast.Raise):
            continue
        if _value_is_used(node.name, found):
            yield node


def _is_empty(function: Function) -> bool:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and statement.value.value is ...)
        or (isinstance(statement, ast.Raise) and _last_name(statement.exc) == "NotImplementedError")
        for statement in body
    )


def _last_name(node: ast.AST | None) -> str | None:
    if isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _overridden_methods(tree: ast.Module) -> set[tuple[str, str]]:
    """(base class, method) pairs that a subclass in the program defines again."""
    pairs = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [m.name for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))]
            pairs |= {(base, method) for b in node.bases if (base := _last_name(b)) for method in methods}
    return pairs


def _value_is_used(name: str, found: Analysis) -> bool:
    """Whether any mention of a function is more than a call whose value is dropped."""
    for node in ast.walk(found.tree):
        mentioned = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        if mentioned or (isinstance(node, ast.Attribute) and node.attr == name):
            parent = found.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return True
            outer = found.parents.get(parent)
            if isinstance(outer, ast.Await):
                outer = found.parents.get(outer)
            if not isinstance(outer, ast.Expr):
                return True
    return False


def _unknown_methods(tree: ast.Module, found: Analysis, packages: Collection[str]) -> Iterator[ast.Attribute]:
    """Called attributes that no builtin, no imported class and nothing in the program has."""
    known = _known_attributes(tree)
    modules = {name for name, _ in imported_names(tree)} | {missing.name for missing in found.imports}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or node.attr in known:
            continue
        if node.attr.startswith("__") or _root(node.value) in modules | found.module_holes:
            continue
        if isinstance(node.value, ast.Call) and _called_name(node.value) == "super":
            continue
        if _use(node, found).how in ("call", "function"):
            yield node


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _known_attributes(tree: ast.Module) -> set[str]:
    kinds = [kind for kind in vars(builtins).values() if isinstance(kind, type)]
    kinds += [type(lambda: None), type((lambda: (yield))()), type(sys)]
    known = {name for kind in kinds for name in dir(kind)}
    for _, module_name in imported_names(tree):
        if module_name in sys.stdlib_module_names and module_name not in ("antigravity", "this"):
            try:
                module = importlib.import_module(module_name)
            except ImportError:
                continue
            known.update(dir(module))
            known.update(name for kind in vars(module).values() if isinstance(kind, type) for name in dir(kind))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            known.add(node.attr)
        if isinstance(node, ast.ClassDef):
            known.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return known


# --- try and await ------------------------------------------------------------------------------------------------


def _guards(tree: ast.Module) -> Iterator[Guard]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            yield _guard(node.body, [handler.type for handler in node.handlers])
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call) and _called_name(item.context_expr) in ("suppress", "raises"):
                    yield _guard(node.body, list(item.context_expr.args))


def _guard(body: Sequence[ast.stmt], types: Sequence[ast.expr | None]) -> Guard:
    start, end = body[0], body[-1]
    flat = [e for t in types for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    names = [_last_name(e) if e is not None else None for e in flat]
    catches = None if None in names else frozenset(name for name in names if name)
    last = (end.end_lineno or end.lineno, end.end_col_offset or end.col_offset)
    return Guard((start.lineno, start.col_offset), last, catches)


def _catches(handler: ast.ExceptHandler, names: set[str]) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(kind) in names for kind in types if kind is not None)


def _awaited(tree: ast.Module, found: Analysis) -> set[str]:
    """Holes of which some call is awaited or gathered, directly or through a variable: they give awaitables."""
    holders = {name for node in ast.walk(tree) for name in _awaited_variables(node)}
    awaited = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _last_name(node.func)) and isinstance(node.func, (ast.Name, ast.Attribute)):
            if _is_awaited(node, found) or _is_held(node, holders, found):
                awaited.add(name)
    return awaited


def _awaited_variables(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Await) and isinstance(node.value, ast.Name):
        yield node.value.id
    elif isinstance(node, ast.Call) and _called_name(node) in _GATHERERS:
        for arg in node.args:
            inner = arg.value if isinstance(arg, ast.Starred) else arg
            if isinstance(inner, ast.Name):
                yield inner.id
    elif isinstance(node, (ast.For, *Comprehension)):  # `for t in tasks: await t` awaits what tasks holds
        awaited = {a.value.id for a in ast.walk(node) if isinstance(a, ast.Await) and isinstance(a.value, ast.Name)}
        for loop in [node] if isinstance(node, ast.For) else node.generators:
            if isinstance(loop.target, ast.Name) and loop.target.id in awaited and isinstance(loop.iter, ast.Name):
                yield loop.iter.id


def _is_awaited(call: ast.AST, found: Analysis) -> bool:
    parent = found.parents.get(call)
    if isinstance(parent, ast.Await):
        return True
    # gather(*[f(x) for x in xs]), gather(f(1), f(2)), wait([f(1), f(2)])
    inside: tuple[type[ast.AST], ...] = (ast.Starred, ast.List, ast.Tuple, *Comprehension)
    while isinstance(parent, inside):
        parent = found.parents.get(parent)
    return isinstance(parent, ast.Call) and _called_name(parent) in _GATHERERS


def _is_held(call: ast.AST, holders: set[str], found: Analysis) -> bool:
    parent = found.parents.get(call)
    inside: tuple[type[ast.AST], ...] = (ast.List, ast.Tuple, *Comprehension)
    while isinstance(parent, inside):
        parent = found.parents.get(parent)
    if isinstance(parent, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in holders for target in parent.targets)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr in ("append", "add"):
        return isinstance(parent.func.value, ast.Name) and parent.func.value.id in holders
    return False
