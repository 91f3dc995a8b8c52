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
        self._loop_targets: set[str] = set()
        for node in ast.walk(tree):
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            self._note(node)
        called = {call.func.id for call in self.calls if isinstance(call.func, ast.Name)}
        self.called_names = called | {call.func.attr for call in self.calls if isinstance(call.func, ast.Attribute)}
        self._called_results = {called_name(call.func) for call in self.calls if isinstance(call.func, ast.Call)}
        # `d[k](…)`, or `f(…)` where f is the target of a loop: functions are called out of containers
        self.calls_out_of_containers = bool(called & self._loop_targets) or any(
            isinstance(call.func, (ast.Subscript, ast.Call)) for call in self.calls
        )

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
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._loop_targets |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}

    # --- functions handed on ----------------------------------------------------------------------------------

    def takes_function(self, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a call uses this argument as a function: known higher-order functions, and the program's own."""
        name = called_name(call)
        if name in FUNCTION_FIRST and call.args and call.args[0] is argument:
            return True
        if name == "run_in_executor" and argument in call.args[1:2]:
            return True
        is_own = name in self.functions or name in self.initializers or name == "dict"
        if not is_own and any(k.value is argument and k.arg in FUNCTION_KEYWORDS for k in call.keywords):
            return True
        if name in ("append", "add", "insert", "setdefault") and isinstance(call.func, ast.Attribute):
            return self.calls_out_of_containers
        for function in [*self.functions.get(name or "", ()), *self.initializers.get(name or "", ())]:
            parameter = _parameter(function, call, argument)
            if parameter and (calls_parameter(function, parameter) or self._keeps_and_calls(function, parameter)):
                return True
        return False

    def _keeps_and_calls(self, function: Function | ast.Lambda, parameter: str) -> bool:
        """`self.f = f`, and somewhere `x.f(…)`."""
        return any(
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Name)
            and node.value.id == parameter
            and any(isinstance(target, ast.Attribute) and target.attr in self.called_names for target in node.targets)
            for node in ast.walk(function)
        )

    def reaches_call(self, node: ast.expr) -> bool:
        """Whether a bare name is kept in a variable or container out of which the program calls functions."""
        parent = self.parents.get(node)
        in_container = False
        while isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.IfExp, ast.BoolOp, ast.keyword)):
            in_container = in_container or not isinstance(parent, (ast.IfExp, ast.BoolOp, ast.keyword))
            parent = self.parents.get(parent)
        if isinstance(parent, ast.Assign) and any(isinstance(target, ast.Tuple) for target in parent.targets):
            targets = {n.id for target in parent.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            return bool(targets & self.called_names)
        if isinstance(parent, ast.Return):
            return self._function_around(parent) in self._called_results
        if in_container:
            holders = (ast.Assign, ast.For, ast.comprehension, ast.Call, ast.Attribute, ast.Subscript)
            return isinstance(parent, holders) and self.calls_out_of_containers
        if isinstance(parent, ast.Assign):
            return any(isinstance(target, ast.Name) and target.id in self.called_names for target in parent.targets)
        if isinstance(parent, ast.arguments):
            function = self.parents[parent]
            return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and any(
                calls_parameter(function, arg.arg) for arg in [*parent.args, *parent.kwonlyargs]
            )
        return False

    def _function_around(self, node: ast.AST) -> str | None:
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parent = self.parents.get(parent)
        return parent.name if parent is not None else None

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


def calls_parameter(function: Function | ast.Lambda, parameter: str) -> bool:
    """Whether a function's body calls its parameter, or hands it on where a function is wanted."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            handed_on = [node.func, *(node.args[:1] if called_name(node) in FUNCTION_FIRST else [])]
            handed_on += [keyword.value for keyword in node.keywords if keyword.arg in FUNCTION_KEYWORDS]
            if any(isinstance(value, ast.Name) and value.id == parameter for value in handed_on):
                return True
    return False


def _parameter(function: Function | ast.Lambda, call: ast.Call, argument: ast.expr) -> str | None:
    """The parameter that an argument of a call becomes."""
    for keyword in call.keywords:
        if keyword.value is argument:
            return keyword.arg
    position = next((i for i, arg in enumerate(call.args) if arg is argument), None)
    parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    is_method = isinstance(call.func, ast.Attribute) or (
        isinstance(function, ast.FunctionDef) and function.name == "__init__"
    )
    if is_method and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    return parameters[position] if position is not None and position < len(parameters) else None


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
