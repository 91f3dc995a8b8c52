"""What may be evaluated ahead of its time without anybody noticing: what is free of effects, transitively.

A call of a hole is free: it only asks. So are calls of the library's pure functions, of methods that change nothing,
and of functions of the program that are free themselves. Whatever is not known to be free has effects. An objection is
a reason in words; an empty one means that there is none. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from .analyse import ALWAYS_DEFINED, Analysis
from .scopes import Comprehension, Function, Scope
from .syntax import called_name, last_name
from .whole import whole_objection

_BUILTINS = frozenset([
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "format", "frozenset", "hash", "hex", "int", "isinstance", "issubclass", "len", "list", "map", "max",
    "min", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum",
    "tuple", "zip",
])  # fmt: skip
HARMLESS = _BUILTINS | {"print", "type", "callable", "id"}  # they change nothing that they are given
METHODS = frozenset([
    "capitalize", "casefold", "center", "count", "decode", "encode", "endswith", "expandtabs", "find", "format",
    "format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip",
    "split", "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill", "copy", "get",
    "items", "keys", "values", "difference", "intersection", "isdisjoint", "issubset", "issuperset",
    "symmetric_difference", "union", "bit_length", "is_integer", "as_integer_ratio", "conjugate", "date", "time",
    "isoformat", "weekday", "isoweekday", "strftime", "total_seconds", "toordinal", "most_common", "group",
    "groups", "groupdict", "start", "end", "span",
])  # fmt: skip
PURE_MODULES = frozenset([
    "math", "cmath", "statistics", "string", "re", "json", "textwrap", "unicodedata", "operator", "datetime",
    "calendar", "decimal", "fractions", "itertools", "collections",
])  # fmt: skip
_NOT_TWICE = frozenset([
    "now", "today", "utcnow", "setcontext", "localcontext", "getcontext", "cycle", "count", "repeat", "tee", "purge",
    "attrgetter", "methodcaller", "itemgetter", "call", "iand", "ior", "ixor", "isub", "itruediv", "ifloordiv", "imod",
    "ipow", "ilshift", "irshift", "imatmul", "setitem", "delitem", "iadd", "iconcat", "imul", "deque", "defaultdict",
    "load", "dump", "compile", "iter", "setfirstweekday",
])  # fmt: skip
_MAKERS = frozenset(["list", "dict", "set", "Counter"])
CHANGES = frozenset([
    "append", "add", "extend", "insert", "update", "pop", "remove", "discard", "sort", "reverse", "setdefault",
    "clear", "popleft", "appendleft", "popitem",
])  # fmt: skip
_FORBIDDEN = (
    ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom,
    ast.Delete, ast.While, ast.With, ast.AsyncWith, ast.AsyncFor, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef,
    ast.Try, ast.TryStar, ast.Raise, ast.Match, ast.Assert,
)  # fmt: skip
_NAMES = frozenset(["True", "False", "None", "Ellipsis", "NotImplemented", "__name__", "object", "bytearray"])
_KNOWN_METHODS = frozenset(name for kind in (str, list, dict, set, bytes, int, float) for name in dir(kind))
_WORDS = {ast.NamedExpr: ":=", ast.FunctionDef: "def", ast.ClassDef: "class", ast.TryStar: "try"}


class Effects:
    """Answers for one program, from its syntax alone."""

    def __init__(self, found: Analysis, tools: Collection[str] = ()) -> None:
        self._found, self._tools = found, frozenset(tools)
        self._names = found.names
        self.holes = (found.holes | {stub.name for stub in found.stubs}) - self._tools
        self._shadowed = {name.id.removeprefix("$") for name in found.shadowed}
        self._unknown_methods = set(found.methods)
        self._imported = _imported(found)
        self._inner = {name for scope in found.names.scopes if scope.parent for name in scope.bindings}
        self._objections: dict[ast.AST, str] = {}
        self._functions: dict[str, str | None] = {}  # name → objection; None while it is being looked at
        self._bodies: dict[Function, str] = {}
        self._changes: dict[str, set[str]] = {}  # function → names outside of it that it touches
        self._methods: dict[str, list[Function]] = {}
        for nodes in found.syntax.functions.values():
            for node in nodes:
                if not isinstance(node, ast.Lambda) and isinstance(found.syntax.parents.get(node), ast.ClassDef):
                    self._methods.setdefault(node.name, []).append(node)
        self.whole = ""  # an objection to looking ahead in this program at all
        self.whole = whole_objection(found, self._imported, self._methods, self._body)
        for name in found.syntax.functions:  # all while the tree is as the program has it
            self.of(name)
            self._touched_in(name)
        for methods in self._methods.values():
            for method in methods:
                self._body(method)

    # --- expressions ------------------------------------------------------------------------------------------

    def objection(self, node: ast.AST, own: frozenset[str] = frozenset()) -> str:
        """Why this cannot be evaluated ahead; `own` are names bound to containers that were made just here."""
        if own:
            return self._objection(node, own)
        if node not in self._objections:
            self._objections[node] = self._objection(node, own)
        return self._objections[node]

    def _objection(self, node: ast.AST, own: frozenset[str]) -> str:
        for child in ast.walk(node):
            objection = ""
            if isinstance(child, _FORBIDDEN):
                objection = f"`{_WORDS.get(type(child), type(child).__name__.lower())}` cannot be done twice"
            elif isinstance(child, ast.Call):
                objection = self._call(child, own)
            elif isinstance(child, ast.comprehension) and child.is_async:
                objection = "it is asynchronous"
            elif isinstance(child, ast.AugAssign) and not isinstance(child.target, ast.Name):
                objection = f"it changes `{ast.unparse(child.target)[:40]}`"
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                objection = self._mentioned(child)
            elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load):
                objection = self._handed_on(child)
            elif isinstance(child, (ast.Attribute, ast.Subscript)) and not isinstance(child.ctx, ast.Load):
                if not (isinstance(child.value, ast.Name) and child.value.id in own):
                    objection = f"it changes `{ast.unparse(child)[:40]}`"
            elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name) and child.target.id not in own:
                objection = self._in_place(child.target.id, child)
            if objection:
                return objection
        return ""

    def _mentioned(self, node: ast.Name) -> str:
        """A name that is read, and perhaps handed on as a function: to be called by whoever gets it."""
        name = node.id
        if name in self._found.syntax.functions:
            return self.of(name)
        if name.startswith("$") or name in self.holes or name in self._names.module.bindings or name in self._inner:
            return ""
        is_harmless = name in _BUILTINS or name in _NAMES or name not in ALWAYS_DEFINED
        return "" if is_harmless or name.endswith(("Error", "Exception")) else f"`{name}` may have effects"

    def _handed_on(self, node: ast.Attribute) -> str:
        """A method that is handed on as a function."""
        parent = self._found.syntax.parents.get(node)
        if (isinstance(parent, ast.Call) and parent.func is node) or isinstance(parent, ast.Attribute):
            return ""
        is_function = node.attr in self._methods or node.attr in _KNOWN_METHODS or self._imports(node) != ""
        return self._method(node, frozenset()) if is_function else ""

    def _imports(self, node: ast.Attribute) -> str:
        """The module that a dotted name begins with."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return self._imported.get(root.id, ("", ""))[0] if isinstance(root, ast.Name) else ""

    def _in_place(self, name: str, node: ast.AST) -> str:
        """`x += …` changes a list that others may hold; a number or text made here is nobody else's."""
        for source in self._sources(name, node):
            is_plain = isinstance(source, (ast.Constant, ast.JoinedStr, ast.AugAssign)) or (
                isinstance(source, ast.Call) and called_name(source) in ("int", "float", "str", "len", "sum", "round")
            )
            if not is_plain:
                return f"`{name}` may be changed in place"
        return ""

    def _sources(self, name: str, node: ast.AST) -> list[ast.AST | None]:
        scope = self._names.scope_of.get(node, self._names.module)
        home = self._names.resolve(name, scope)
        return home.bindings[name] if home is not None else [None]

    def _call(self, call: ast.Call, own: frozenset[str]) -> str:
        function = call.func
        if isinstance(function, ast.Name):
            return self._named(function)
        if isinstance(function, ast.Attribute):
            return "" if function in self._unknown_methods else self._method(function, own)
        if isinstance(function, ast.Call) and called_name(function) == "$attribute":
            return ""  # a method that nobody has, as lowering writes it
        return "nobody knows what it calls"

    def _named(self, node: ast.Name) -> str:
        name = node.id
        if name in self._tools:
            return f"`{name}` is a tool"
        if name in self._found.awaited:
            return f"`{name}` is awaited"
        if name.startswith("$"):  # as lowering writes the called name of `name = name(…)`, and what loops go through
            return "" if name[1:] in self._shadowed or name in ("$iter", "$attribute") else "it runs a text"
        if node in self._found.shadowed:
            return ""
        if name in self._inner:
            return f"nobody knows what `{name}` is there" if name not in self._found.syntax.functions else self.of(name)
        if name in self._found.syntax.functions:
            return self.of(name)
        if name in self._names.module.bindings:
            return self._bound(name)
        if name in self.holes or name in _BUILTINS:
            return ""
        missing = {missing.name: missing for missing in self._found.imports}.get(name)
        if missing is not None and str(missing).split()[1].partition(".")[0] in PURE_MODULES and name not in _NOT_TWICE:
            return ""
        return f"`{name}` may have effects"

    def _bound(self, name: str) -> str:
        module, original = self._imported.get(name, ("", ""))
        if module in PURE_MODULES and original not in _NOT_TWICE and len(self._names.module.bindings[name]) == 1:
            return ""
        if name in self._found.unknown_modules:
            return ""  # imported from a module that exists nowhere
        return "" if self._is_plain_class(name) else f"nobody knows what `{name}` does"

    def _method(self, function: ast.Attribute, own: frozenset[str]) -> str:
        name, root = function.attr, function.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self._inner:
            if root.id in self._found.module_holes | self._found.unknown_modules:
                return ""
            module = self._imported.get(root.id, ("", ""))[0]
            missing = {str(missing).split()[1]: missing for missing in self._found.imports if missing.name == root.id}
            module = module or next(iter(missing), "")
            if module:
                is_pure = module.partition(".")[0] in PURE_MODULES and name not in _NOT_TWICE
                return "" if is_pure else f"`{ast.unparse(function)[:40]}` may have effects"
        if name in self._methods and name in CHANGES:
            return f"`.{name}` may be a list's"
        if name in self._methods:
            return next(filter(None, map(self._body, self._methods[name])), "")
        if name in METHODS:
            return ""
        if name in CHANGES and isinstance(function.value, ast.Name):
            return "" if function.value.id in own else f"`{function.value.id}.{name}` changes {function.value.id}"
        return f"nobody knows what `.{name}` does"

    # --- functions and classes of the program -----------------------------------------------------------------

    def of(self, name: str) -> str:
        """Why a function of the program cannot be called ahead."""
        if name in self._functions:
            known = self._functions[name]
            return known if known is not None else f"`{name}` calls itself"
        self._functions[name] = None
        found = ""
        homes = [scope for scope in self._names.scopes if name in scope.bindings]
        if len(homes) != 1 or len(homes[0].bindings[name]) != 1 or homes[0].kind == "class":
            found = f"`{name}` is bound more than once"
        for node in self._found.syntax.functions[name]:
            found = found or (self.objection(node.body) if isinstance(node, ast.Lambda) else self._body(node))
        self._functions[name] = found
        return found

    def _body(self, function: Function) -> str:
        if function not in self._bodies:
            self._bodies[function] = f"`{function.name}` calls itself"
            self._bodies[function] = self._body_objection(function)
        return self._bodies[function]

    def _body_objection(self, function: Function) -> str:
        if function in self._found.stubs:
            return ""
        if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
            return f"`{function.name}` is async or decorated"
        own = made_here(function)
        for statement in function.body:
            objection = self.objection(statement, own)
            if objection:
                return f"`{function.name}`: {objection}"
        return ""

    def _is_plain_class(self, name: str) -> bool:
        """A class of the program whose making runs nothing of the program's."""
        for node in self._found.syntax.nodes:
            if isinstance(node, ast.ClassDef) and node.name == name:
                makers = {"__init__", "__new__", "__post_init__", "__init_subclass__"}
                is_plain = not node.keywords and all(last_name(base) in ("NamedTuple", "object") for base in node.bases)
                decorated = all(last_name(one) == "dataclass" for one in node.decorator_list)
                made = [
                    k.value
                    for c in ast.walk(node)
                    if isinstance(c, ast.Call)
                    for k in c.keywords
                    if k.arg == "default_factory"
                ]
                is_plain = is_plain and all(last_name(factory) in _MAKERS for factory in made)
                is_plain = is_plain and len(self._names.module.bindings.get(name, ())) == 1
                return is_plain and decorated and not any(getattr(line, "name", "") in makers for line in node.body)
        return False

    # --- what changes -----------------------------------------------------------------------------------------

    def touched(self, nodes: Iterable[ast.AST]) -> set[str]:
        """The names that these parts of the program may bind, or whose objects they may change."""
        names: set[str] = set()
        for child in nodes:
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
                names.add(child.id)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(child.name)
            elif isinstance(child, ast.alias):
                names.add((child.asname or child.name).partition(".")[0])
            elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
                names.add(child.name)
            elif isinstance(child, (ast.Attribute, ast.Subscript)) and not isinstance(child.ctx, ast.Load):
                names |= _roots(child)
            elif isinstance(child, ast.Call):
                names |= self._touched_by(child)
        return names

    def _touched_by(self, call: ast.Call) -> set[str]:
        if not self._call(call, frozenset()):
            return set()
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        names = set() if called_name(call) in HARMLESS else {name for arg in given for name in _roots(arg)}
        if isinstance(call.func, ast.Attribute):
            names |= _roots(call.func.value)
        if isinstance(call.func, ast.Name):
            names |= self._touched_in(call.func.id)
        return names

    def _touched_in(self, name: str) -> set[str]:
        """What calling a function of the program touches outside of it."""
        if name not in self._changes:
            self._changes[name] = set()  # it may call itself
            for function in self._found.syntax.functions.get(name, ()):
                scope = self._scope_in(function)
                inner = self.touched(ast.walk(function))
                self._changes[name] |= {one for one in inner if scope is None or one not in scope.bindings}
        return self._changes[name]

    def _scope_in(self, function: Function | ast.Lambda) -> Scope | None:
        first = function.body if isinstance(function, ast.Lambda) else function.body[0]
        return self._names.scope_of.get(first)


def made_here(function: Function) -> frozenset[str]:
    """Local names that are only ever bound to containers made in this function: changing those is nobody's business."""
    made: dict[str, bool] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            fresh = isinstance(node.value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)) or (
                isinstance(node.value, ast.Call) and called_name(node.value) in _MAKERS
            )
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        made[name.id] = made.get(name.id, True) and fresh and target is name
        elif isinstance(node, (ast.For, ast.comprehension, ast.AnnAssign, ast.withitem)):
            bound = getattr(node, "target", None) or getattr(node, "optional_vars", None)
            for name in ast.walk(bound) if bound is not None else ():
                if isinstance(name, ast.Name):
                    made[name.id] = False
    parameters = {arg.arg for arg in ast.walk(function) if isinstance(arg, ast.arg)}
    return frozenset(name for name, is_fresh in made.items() if is_fresh and name not in parameters)


def _imported(found: Analysis) -> dict[str, tuple[str, str]]:
    """Names that imports bind: to which module, and what of it."""
    names: dict[str, tuple[str, str]] = {}
    for node in found.syntax.nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0]: (alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
    return names


def _roots(node: ast.AST) -> set[str]:
    """The variables through which an object is reached: `a` of `a.b[c]`; all of those in a literal or an operation."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Call):
        return _roots(node.func.value) if isinstance(node.func, ast.Attribute) else set()
    if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Lambda, *Comprehension)):
        return set()
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
