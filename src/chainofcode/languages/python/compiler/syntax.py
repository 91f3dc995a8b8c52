"""A syntax tree with what questions about it need: parents, calls, functions. Standard library only."""

from __future__ import annotations

import ast

from .scopes import Comprehension, Function

# The parameter of a library function that takes a function: the first of these, and by name for any function.
FUNCTION_FIRST = {
    "map", "filter", "reduce", "partial", "takewhile", "dropwhile", "filterfalse", "starmap", "submit", "apply",
    "applymap", "apply_async", "to_thread", "defaultdict", "imap", "imap_unordered", "cmp_to_key", "iter", "call_soon",
    "staticmethod", "classmethod",
}  # fmt: skip
FUNCTION_KEYWORDS = {"key", "func", "function", "fn", "f", "predicate", "callback", "target", "default_factory"}
_GATHERERS = {
    "gather", "create_task", "ensure_future", "wait_for", "as_completed", "run_until_complete",
    "run_coroutine_threadsafe",
}  # fmt: skip
_ASYNCIO_ONLY = {"run", "wait", "shield", "timeout"}  # words that other things are called, too


class Syntax:
    """One walk over a tree, and answers from what it saw."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: list[ast.AST] = []  # all of them, outer before inner
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.functions: dict[str, list[Function | ast.Lambda]] = {}
        self.initializers: dict[str, list[Function]] = {}
        for node in ast.walk(tree):
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            made = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
            self.initializers.setdefault(node.name, []).extend(made)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.functions.setdefault(target.id, []).append(node.value)

    # --- functions handed on ----------------------------------------------------------------------------------

    def takes_function(self, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a call of a known higher-order function uses this argument as a function.

        `reaching.py` answers that for the program's own functions.
        """
        name = called_name(call)
        if name in self.functions or name in self.initializers or name == "dict":
            return False
        if name in FUNCTION_FIRST and call.args and call.args[0] is argument:
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
        return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is child

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
        parent = self._around(call, (ast.Starred, ast.List, ast.Tuple, *Comprehension))
        return isinstance(parent, ast.Call) and _gathers(parent)

    def _is_held(self, call: ast.Call, holders: set[str]) -> bool:
        """tasks = [f(1), f(2)], tasks.append(f(1)), where tasks is awaited later."""
        parent = self._around(call, (ast.List, ast.Tuple, *Comprehension))
        if isinstance(parent, ast.Assign):
            return any(isinstance(target, ast.Name) and target.id in holders for target in parent.targets)
        if (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr in ("append", "add")
        ):
            return isinstance(parent.func.value, ast.Name) and parent.func.value.id in holders
        return False


def called_name(call: ast.Call) -> str | None:
    """The last name of what is called: `f` of `f(…)` and of `a.f(…)`."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _gathers(call: ast.Call) -> bool:
    """Whether a call takes awaitables."""
    of_asyncio = isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "asyncio"
    return called_name(call) in (_GATHERERS | _ASYNCIO_ONLY if of_asyncio else _GATHERERS)


def last_name(node: ast.AST | None) -> str | None:
    """`c` of `c`, `a.c`, `a.c(…)` and `a.c[…]`."""
    if isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _awaited_variables(node: ast.AST) -> list[str]:
    """The variables that a node awaits, or awaits the elements of."""
    if isinstance(node, ast.Await) and isinstance(node.value, ast.Name):
        return [node.value.id]
    if isinstance(node, ast.Call) and _gathers(node):
        given = [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
        return [value.id for value in given if isinstance(value, ast.Name)]
    if isinstance(node, (ast.For, *Comprehension)):  # `for t in tasks: await t` awaits what tasks holds
        awaited = {a.value.id for a in ast.walk(node) if isinstance(a, ast.Await) and isinstance(a.value, ast.Name)}
        return [
            loop.iter.id
            for loop in ([node] if isinstance(node, ast.For) else node.generators)
            if isinstance(loop.target, ast.Name) and loop.target.id in awaited and isinstance(loop.iter, ast.Name)
        ]
    return []
