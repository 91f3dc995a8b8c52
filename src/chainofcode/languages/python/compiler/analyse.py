"""What a program leaves open: its holes, its missing imports, and which `try` catches which errors.

A hole is a name used as a function, method, class or module that is not defined, or a function declared but left
empty. No program code runs here. Standard library only.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence

from .library import (
    ALWAYS_DEFINED,
    EMPTY_FUNCTION_DECORATORS,
    FUNCTION_MAKERS,
    KNOWN_PACKAGES,
    MODULE_ALIASES,
    NOISY_MODULES,
    PLAIN_MANAGERS,
    TEXT_RUNNERS,
)
from .missing import MissingImport, Occurrence, find_import
from .reaching import Reaching
from .record import Data
from .statements import TreeFacts
from .syntax import DEFINITIONS, FUNCTIONS, Function, Names, Syntax, called_name, last_name, text_of

_CALLED = ("call", "function")
_MAX_PLACES, _MAX_SEARCHED_BYTES = 10_000, 2_000  # of holes, for readers of the program
_EXCEPTIONS = frozenset(name for name, kind in vars(builtins).items() if isinstance(kind, type))


class GuardedLines(Data):
    """The lines that a `try` of the program covers and the exception names it catches (None: every one)."""

    start: tuple[int, int]
    end: tuple[int, int]
    catches: frozenset[str] | None
    is_try: bool = True  # else a `with`, whose manager may swallow errors


class Analysis:
    def __init__(self, syntax: Syntax, names: Names) -> None:
        self.syntax, self.names, self.reaching = syntax, names, Reaching(syntax, names)
        self.facts = TreeFacts(syntax.tree)
        self.given = ALWAYS_DEFINED  # names defined before the program starts
        self.holes: set[str] = set()  # undefined names that are called or passed as functions
        self.module_holes: set[str] = set()  # undefined names whose attributes are called
        self.awaited: set[str] = set()  # functions whose calls must return awaitables, if they are holes
        self.imports: list[MissingImport] = []
        self.unknown_modules: set[str] = set()  # names bound by imports of unknown modules
        self.shadowed: list[ast.Name] = []  # the called `name` in `name = name(…)`
        self.methods: list[ast.Attribute] = []  # called attributes that no known object has
        self.stubs: list[Function] = []
        self.text_runners: list[ast.Name] = []  # `eval`, `exec`, `compile`, where they are the builtins
        self.guards: list[GuardedLines] = []

    def hole_calls(self) -> Iterator[ast.AST]:
        """Return the parts of the program at which a value may be requested."""
        return (self.syntax.parents.get(name, name) for name in self.hole_names())

    def hole_names(self) -> Iterator[ast.Name | ast.Attribute]:
        """The names and attributes that mean holes."""
        stubs = {stub.name for stub in self.stubs}
        names = self.holes | self.module_holes | stubs
        chosen: set[ast.AST] = {*self.shadowed, *self.methods}
        for node in self.syntax.nodes:
            if isinstance(node, ast.Name):
                if node in chosen or (node.id in names and isinstance(node.ctx, ast.Load)):
                    yield node
            elif isinstance(node, ast.Attribute):
                module = node.value.id if isinstance(node.value, ast.Name) else None
                if node in chosen or node.attr in stubs or module in self.unknown_modules:
                    yield node


def analyse(
    tree: ast.Module, *, defined: Collection[str] = (), packages: Collection[str] = (), tools: Collection[str] = ()
) -> Analysis:
    """Find what the program leaves open. `defined`: names of its inputs; `packages`: granted packages; `tools`:
    functions that the host runs, which are holes even if the library exports the name.
    """
    found = Analysis(Syntax(tree), Names(tree))
    given = ALWAYS_DEFINED | set(defined) | _star_imported(found.syntax)
    found.given = frozenset(given)
    uses: dict[str, list[Occurrence]] = {}
    for node in found.names.unresolved():
        if node.id in TEXT_RUNNERS:
            found.text_runners.append(node)
        if node.id not in given and not node.id.startswith("$"):
            uses.setdefault(node.id, []).append(_use(node, found.reaching))
    known = set(found.names.module.bindings) | set(defined)
    for name, seen in uses.items():
        missing = find_import(name, seen, packages) if name not in tools else None
        if missing is not None:
            found.imports.append(missing)
        elif name in tools or _is_hole(name, seen, known):
            found.holes.add(name)
        elif any(use.is_called for use in seen) and not _is_package(name) and not near_match(name, known):
            found.module_holes.add(name)
    library = sys.stdlib_module_names | set(packages)
    found.unknown_modules = {name for name, module in found.syntax.imported_names() if module not in library}
    found.shadowed = list(_self_shadowing(found.names, given))
    found.stubs = list(_stubs(found.syntax))
    found.methods = list(_unknown_methods(found))
    found.guards = list(_guards(found.syntax))
    found.awaited = found.syntax.awaited_names()
    return found


def _is_package(name: str) -> bool:
    return MODULE_ALIASES.get(name, name).partition(".")[0] in KNOWN_PACKAGES


def hole_places(found: Analysis, source: str) -> list[list[int]]:
    """Return the places of hole names in the source, for display: line, first and last column, in UTF-8 bytes."""
    lines, encoded, places = source.split("\n"), dict[int, bytes](), list[list[int]]()
    for node in found.hole_names():
        name = (node.attr if isinstance(node, ast.Attribute) else node.id.removeprefix("$")).encode()
        number, end = node.end_lineno or 0, node.end_col_offset or 0
        if not 0 < number <= len(lines) or len(places) == _MAX_PLACES:
            continue
        line = encoded.setdefault(number, lines[number - 1].encode(errors="replace"))
        start = end - len(name)
        if line[max(start, 0) : end] != name and len(line) <= _MAX_SEARCHED_BYTES and line.count(name) == 1:
            start = line.find(name)  # CPython 3.11 misplaces expressions of f-strings
        if line[max(start, 0) : start + len(name)] == name:
            parent = found.syntax.parents.get(node)
            end = start + len(name)
            if isinstance(node, ast.Name) and isinstance(parent, ast.Attribute):  # `nlp.sentiment`
                end = min(end + 1 + len(parent.attr.encode()), len(line))
            places.append([number, start, end])
    return sorted(places)


def _is_hole(name: str, uses: Iterable[Occurrence], known: Iterable[str]) -> bool:
    """Whether an undefined name is used as a function. One that is never called directly may be misspelt."""
    ways = {use.how for use in uses}
    if not ways.isdisjoint(["call", "base"]):
        return True
    return "function" in ways and near_match(name, known) is None


def near_match(name: str, known: Iterable[str]) -> str | None:
    """Return the defined name that `name` probably misspells."""
    import difflib  # imported lazily: few programs need it

    matches = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return matches[0] if matches else None


def _star_imported(syntax: Syntax) -> set[str]:
    """Return the names that `from math import *` binds."""
    names: set[str] = set()
    for node in syntax.imports:
        name = node.module if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" else None
        if name in sys.stdlib_module_names - NOISY_MODULES:
            module = importlib.import_module(name)
            names.update(getattr(module, "__all__", [word for word in vars(module) if not word.startswith("_")]))
    return names


def _use(node: ast.expr, reaching: Reaching) -> Occurrence:
    """Return how an occurrence of a name, or of an attribute, is used."""
    syntax = reaching.syntax
    parent = syntax.parents.get(node)
    use: Occurrence | None = None
    match parent:
        case ast.Call() | ast.keyword():
            use = _use_in_call(node, parent, syntax)
        case ast.Attribute():
            outer: ast.expr = parent
            while isinstance(around := syntax.parents.get(outer), ast.Attribute):
                outer = around
            is_called = _use(outer, reaching).how in _CALLED  # `a.b.c` is called, or passed as a function
            use = Occurrence("attribute", attribute=parent.attr, is_called=is_called)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node in parent.decorator_list:
            use = Occurrence("call", arity=1)
        case ast.ClassDef():
            use = Occurrence("base")
        case ast.Subscript(value=value) if value is node:
            use = Occurrence("type")
    if use is None and syntax.is_in_annotation(node):
        use = Occurrence("type")
    return use or Occurrence("function" if reaching.is_called(node) else "read")


def _use_in_call(node: ast.expr, parent: ast.Call | ast.keyword, syntax: Syntax) -> Occurrence | None:
    """Return how a name is used as the function or an argument of a call, if the call determines it."""
    call = parent if isinstance(parent, ast.Call) else syntax.parents[parent]
    if not isinstance(call, ast.Call):
        return None
    if call.func is node:
        if isinstance(syntax.parents.get(call), ast.Raise):
            return Occurrence("raise")
        is_open = call.keywords or any(isinstance(arg, ast.Starred) for arg in call.args)
        return Occurrence("call", arity=None if is_open else len(call.args))
    if syntax.takes_function(call, node):
        return Occurrence("function")
    is_type = called_name(call) in ("isinstance", "issubclass") and node in call.args[1:]
    return Occurrence("type") if is_type else None


# --- name = name(…) -----------------------------------------------------------------------------------------------


def _self_shadowing(names: Names, given: Collection[str]) -> Iterator[ast.Name]:
    """Yield the called `name` of `name = name(…)` if nothing else in scope binds that name."""
    calls_in = functools.cache(_calls_in)
    for scope in names.scopes:
        for name, sources in scope.bindings.items():
            if name in given or (scope.parent is not None and names.resolve(name, scope.parent) is not None):
                continue
            if all(name in calls_in(source) or not _may_be_function(source) for source in sources):
                for source in sources:
                    yield from calls_in(source).get(name, ())


def _may_be_function(source: ast.AST | None) -> bool:
    """Whether what a name is bound to could be called; None: a def, class, import, parameter or the like."""
    if isinstance(source, ast.Call):
        return called_name(source) in FUNCTION_MAKERS
    if isinstance(source, ast.IfExp):
        return _may_be_function(source.body) or _may_be_function(source.orelse)
    return source is None or isinstance(source, (ast.Lambda, ast.Name, ast.Attribute, ast.Subscript, ast.BoolOp))


def _calls_in(source: ast.AST | None) -> dict[str, list[ast.Name]]:
    """Return the names called while `source` is evaluated, without calls inside a lambda, which run later."""
    calls: dict[str, list[ast.Name]] = {}
    pending = [] if source is None or isinstance(source, ast.Lambda) else [source]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.setdefault(node.func.id, []).append(node.func)
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Lambda))
    return calls


# --- functions left empty -----------------------------------------------------------------------------------------


def _stubs(syntax: Syntax) -> Iterator[Function]:
    """Yield functions that are declared and left empty, and whose value is used."""
    overridden = _overridden_methods(syntax)
    handlers = [node for node in syntax.nodes if isinstance(node, ast.ExceptHandler)]
    is_handled = any("NotImplementedError" in (_caught([handler.type]) or ()) for handler in handlers)
    used, called = _used_names(syntax)
    functions = [node for nodes in syntax.functions.values() for node in nodes if isinstance(node, FUNCTIONS)]
    for node in filter(_is_empty, functions):
        is_left_open = not (is_handled and isinstance(node.body[-1], ast.Raise))
        if is_left_open and not _is_empty_on_purpose(node, syntax, overridden):
            # `def f(x): pass` without an annotation may be meant to do nothing: a call must use its value.
            is_bare = node.returns is None and all(isinstance(line, ast.Pass) for line in node.body)
            if node.name in (called if is_bare else used):
                yield node


def _is_empty_on_purpose(node: Function, syntax: Syntax, overridden: Collection[tuple[str, str]]) -> bool:
    """Whether an empty function is a special, abstract or overridden one."""
    decorators = {last_name(decorator) for decorator in node.decorator_list}
    if node.name.startswith("__") or decorators & EMPTY_FUNCTION_DECORATORS:
        return True
    home = syntax.parents.get(node)
    if not isinstance(home, ast.ClassDef):
        return False
    return bool({last_name(base) for base in home.bases} & {"Protocol", "ABC"}) or (home.name, node.name) in overridden


def _is_empty(function: Function) -> bool:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and line.value.value is ...)
        or (isinstance(line, ast.Raise) and last_name(line.exc) == "NotImplementedError")
        for line in body
    )


def _overridden_methods(syntax: Syntax) -> set[tuple[str, str]]:
    """Return (base class, method) pairs that a subclass in the program, at any distance, overrides."""
    bases = {node.name: [last_name(base) or "" for base in node.bases] for node in syntax.classes}
    pairs = set()
    for node in {node.name: node for node in syntax.classes}.values():
        pending, above = list(bases[node.name]), set[str]()
        while pending:
            base = pending.pop()
            pending += bases.get(base, ()) if base not in above else ()
            above.add(base)
        pairs |= {(base, method.name) for method in node.body if isinstance(method, FUNCTIONS) for base in above}
    return pairs


def _used_names(syntax: Syntax) -> tuple[set[str], set[str]]:
    """Return names and attributes used other than in calls whose value is dropped; and those called for their value."""
    used, called = set(), set()
    for node in syntax.nodes:
        name = text_of(node)
        if name is not None and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            parent = syntax.parents.get(node)
            outer = syntax.parents.get(parent) if isinstance(parent, ast.Call) and parent.func is node else None
            if isinstance(outer, ast.Await):
                outer = syntax.parents.get(outer)
            if not isinstance(outer, ast.Expr):
                used.add(name)
                called |= {name} if outer is not None else set()
    return used, called


# --- unknown methods ----------------------------------------------------------------------------------------------


def _unknown_methods(found: Analysis) -> Iterator[ast.Attribute]:
    """Yield called attributes that no builtin, no imported class and nothing in the program has."""
    known = _known_attributes(found)
    modules = {name for name, _ in found.syntax.imported_names()} | {missing.name for missing in found.imports}
    modules |= found.module_holes
    for node in found.syntax.nodes:
        match node:
            case ast.Attribute(value=ast.Call() as call) if called_name(call) == "super":
                continue
            case ast.Attribute(attr=name, ctx=ast.Load()) if name not in known and not name.startswith("__"):
                owner = node.value
                while isinstance(owner, ast.Attribute):
                    owner = owner.value
                is_of_module = isinstance(owner, ast.Name) and owner.id in modules
                if not is_of_module and _use(node, found.reaching).how in _CALLED:
                    yield node


@functools.cache
def _builtin_attributes() -> frozenset[str]:
    kinds = [kind for kind in vars(builtins).values() if isinstance(kind, type)]
    kinds += [type(lambda: None), type((lambda: (yield))()), type(sys)]
    return frozenset(name for kind in kinds for name in dir(kind))


def _known_attributes(found: Analysis) -> set[str]:
    """Return the attributes of builtins and of imported modules, and those that the program sets."""
    known = set(_builtin_attributes())
    for module_name in {module for _, module in found.syntax.imported_names()} & sys.stdlib_module_names:
        known |= _module_attributes(module_name)
    for node in found.syntax.nodes:
        if isinstance(node, DEFINITIONS):
            known.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            known.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            is_in_class = isinstance(found.syntax.enclosing(node, DEFINITIONS), ast.ClassDef)
            known |= {node.id} if is_in_class else set()
    return known


def _module_attributes(name: str) -> set[str]:
    """Return the attributes of a module and of its classes."""
    if name in NOISY_MODULES:
        return set()
    try:
        module = importlib.import_module(name)
    except ImportError:
        return set()
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    return {*dir(module), *(attribute for kind in kinds for attribute in dir(kind))}


# --- try ----------------------------------------------------------------------------------------------------------


def _guards(syntax: Syntax) -> Iterator[GuardedLines]:
    for node in syntax.nodes:
        if isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            yield _guard(node.body, [handler.type for handler in node.handlers])
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call) and called_name(item.context_expr) in ("suppress", "raises"):
                    yield _guard(node.body, list(item.context_expr.args))
                elif last_name(item.context_expr) not in PLAIN_MANAGERS:
                    yield _guard(node.body, [None], is_try=False)


def _guard(body: Sequence[ast.stmt], types: Sequence[ast.expr | None], *, is_try: bool = True) -> GuardedLines:
    start, end = body[0], body[-1]
    last = (end.end_lineno or end.lineno, end.end_col_offset or end.col_offset)
    return GuardedLines((start.lineno, start.col_offset), last, _caught(types), is_try)


def _caught(types: Sequence[ast.expr | None]) -> frozenset[str] | None:
    """Return the names of exceptions that handlers catch; None if one of them catches all, or is not known."""
    flat = [kind for kinds in types for kind in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])]
    names = [last_name(kind) or "" for kind in flat]
    are_known = all(name in _EXCEPTIONS or name.endswith(("Error", "Exception")) for name in names)
    return frozenset(names) if are_known else None
