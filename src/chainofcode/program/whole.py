"""What makes a whole program unfit for looking ahead: what may run, change or be used up without being seen.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from .analyse import Analysis
from .scopes import Function
from .syntax import called_name, last_name

# What can change anything from anywhere, or sees what we do.
_SWEEPING = frozenset([
    "globals", "vars", "setattr", "delattr", "exec", "__builtins__", "builtins", "__dict__", "__code__", "__class__",
    "mock", "patch", "monkeypatch", "settrace", "setprofile", "signal", "_thread", "weakref", "warnings", "gc",
    "getcontext", "setcontext", "localcontext", "cached_property", "__missing__", "tracemalloc", "ctypes",
])  # fmt: skip
_CONSUMERS = frozenset([
    "abs", "all", "any", "bool", "bytes", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "set",
    "sorted", "str", "sum", "tuple", "next", "Counter", "deque", "prod",
])  # fmt: skip
_LAZY = frozenset(["enumerate", "filter", "map", "reversed", "zip", "iter", "open"])
_ITERATOR_METHODS = frozenset(["finditer", "scandir", "iterdir"])


def whole_objection(
    found: Analysis,
    imported: dict[str, tuple[str, str]],
    methods: dict[str, list[Function]],
    body: Callable[[Function], str],
) -> str:
    """Why nothing of a program should be evaluated ahead; empty where nothing speaks against it."""
    return _Whole(found, imported, methods, body).objection()


class _Whole:
    def __init__(
        self,
        found: Analysis,
        imported: dict[str, tuple[str, str]],
        methods: dict[str, list[Function]],
        body: Callable[[Function], str],
    ) -> None:
        self._found, self._imported, self._methods, self._body = found, imported, methods, body
        self._classes = {node.name for node in found.syntax.nodes if isinstance(node, ast.ClassDef)}

    def objection(self) -> str:
        """What may run, or be used up, without being seen in an expression."""
        for name, methods in self._methods.items():
            if name.startswith("__") and name not in ("__init__", "__post_init__", "__new__", "__repr__", "__str__"):
                return f"a class of the program defines `{name}`, which may run unseen"
            if name in ("__repr__", "__str__") and any(map(self._body, methods)):
                return f"a class of the program defines `{name}` with effects"
            if any(method.decorator_list for method in methods):
                return f"`{name}` of a class of the program is decorated, and may run unseen"
        generators = self._generators() | {
            name for name, (module, what) in self._imported.items() if module in ("itertools", "glob") and what
        }
        for node in self._found.syntax.nodes:
            objection = self._sweeping(node)
            if objection:
                return objection
            if _is_lazy(node, generators) and self._is_kept(node):
                return f"an iterator is kept where nobody sees it: `{ast.unparse(node)[:40]}`"
            if isinstance(node, ast.Call) and called_name(node) == "defaultdict" and not self._is_named(node):
                return f"a defaultdict, which reading changes, is kept where nobody sees it: `{ast.unparse(node)[:40]}`"
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and self._is_module(node.value):
                return f"`{ast.unparse(node)[:40]}` of a module is changed"
        return ""

    def _sweeping(self, node: ast.AST) -> str:
        """What may change functions, classes or modules behind everybody's back, or run where nothing is called."""
        names = [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.alias):
            names = node.name.split(".")
        for name in names:
            if name in _SWEEPING:
                return f"`{name}` may change, or see, what cannot be foreseen"
        if isinstance(node, ast.Call) and called_name(node) == "type" and len(node.args) > 1:
            return "a class is made by `type`"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and self._is_definition(node.value):
            return f"`{ast.unparse(node)[:40]}` is changed"
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                for target in line.targets if isinstance(line, ast.Assign) else ():
                    is_special = isinstance(target, ast.Name) and target.id.startswith("__")
                    if is_special or isinstance(line.value, (ast.Call, ast.Lambda)):  # type: ignore[attr-defined]
                        return f"a class of the program sets `{ast.unparse(target)}`, which may run unseen"
        return ""

    def _is_definition(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and (node.id in self._classes or node.id in self._found.syntax.functions)

    def _generators(self) -> set[str]:
        yields = [node for node in self._found.syntax.nodes if isinstance(node, (ast.Yield, ast.YieldFrom))]
        homes = set[ast.AST]()
        for node in yields:
            home: ast.AST | None = node
            while home is not None and not isinstance(home, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                home = self._found.syntax.parents.get(home)
            homes |= {home} if home is not None else set()
        return {name for name, nodes in self._found.syntax.functions.items() if not homes.isdisjoint(nodes)}

    def _is_module(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._imported and not self._imported[node.id][1]

    def _is_named(self, node: ast.AST) -> bool:
        """Whether something is bound to a variable: whoever looks ahead sees then what it is."""
        parent = self._found.syntax.parents.get(node)
        while isinstance(parent, ast.Lambda) or (isinstance(parent, ast.Call) and called_name(parent) == "defaultdict"):
            node, parent = parent, self._found.syntax.parents.get(parent)
        return (isinstance(parent, ast.Assign) and _is_name(parent.targets)) or (
            isinstance(parent, ast.AnnAssign) and isinstance(parent.target, ast.Name)
        )

    def _is_kept(self, node: ast.AST) -> bool:
        """Whether an iterator outlives the expression that makes it: nobody could tell who has used it up."""
        parent = self._found.syntax.parents.get(node)
        if isinstance(parent, ast.Starred):
            return False
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            return parent.iter is not node
        if isinstance(parent, ast.withitem) or self._is_named(node):
            return False
        if isinstance(parent, ast.Call) and node in parent.args:
            if isinstance(parent.func, ast.Attribute):
                return parent.func.attr not in ("join", "extend", "update", "union", "fromkeys", "from_iterable")
            if _is_lazy(parent, set()):
                return self._is_kept(parent)
            name = called_name(parent)
            return not (isinstance(parent.func, ast.Name) and name in _CONSUMERS)
        return not isinstance(parent, ast.Compare)


def _is_name(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name)


def _is_lazy(node: ast.AST, generators: Collection[str]) -> bool:
    """Whether this makes an iterator."""
    if isinstance(node, ast.GeneratorExp):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node)
    of_itertools = isinstance(node.func, ast.Attribute) and last_name(node.func.value) == "itertools"
    of_itertools = of_itertools or (isinstance(node.func, ast.Attribute) and name in _ITERATOR_METHODS)
    return of_itertools or (isinstance(node.func, ast.Name) and name in _LAZY) or name in generators
