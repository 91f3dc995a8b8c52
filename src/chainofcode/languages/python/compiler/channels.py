"""Channels: hidden data flow, by which a value reaches the answer without a statement that shows it.

Provenance treats them in three ways, from the most to the least precise:

- The world: state that a module's functions share, such as the clock or the random generator. Each call reads and
  changes it.
- Scopes: functions that read or change names given as strings. A statement that calls one depends on everything before
  it, and everything after it depends on that statement.
- The rest (modules that are not in FOLLOWED_MODULES, frames, cells, hooks): the answer depends on everything that runs.

Everything that is not known to be followed counts as a channel. Standard library only.
"""

from __future__ import annotations

import ast

from .analyse import Analysis
from .library import (
    CLOCK_METHODS,
    COMMON_WORDS,
    FOLLOWED_MODULES,
    HOOKS,
    OPAQUE_NAMES,
    PLAIN_SPECIAL_NAMES,
    PLAIN_SYS_NAMES,
    SCOPE_FUNCTIONS,
    SHARED_STATE_MODULES,
)
from .syntax import imported, last_name

_PLAIN_TEXTS = PLAIN_SPECIAL_NAMES | {"__main__", "__init__"}
_PLAIN_ASSIGNED = frozenset(["__match_args__", "__slots__"])


class Channels:
    """The channels of one program; `everything`: one of them makes the answer depend on everything that runs."""

    def __init__(self, found: Analysis) -> None:
        syntax = found.syntax
        self._bound = frozenset(name for scope in found.names.scopes for name in scope.bindings)
        self._undefined = found.unknown_modules
        self._modules = dict(syntax.imported_names()) | {
            missing.name: _top(missing.module) for missing in found.imports
        }
        own = [name for node in syntax.imports if isinstance(node, ast.Import) for name, _ in imported(node)]
        forgotten = [missing.name for missing in found.imports if missing.attribute is None]
        self._whole = frozenset([*own, *forgotten]) - self._undefined  # names of modules
        self.world = frozenset(name for name, module in self._modules.items() if module in SHARED_STATE_MODULES)
        self._called = {id(call.func): call for call in syntax.calls}
        self._bases = {id(node.value) for node in syntax.nodes if isinstance(node, ast.Attribute)}
        is_forgotten = any(self._is_unknown(missing.module, missing.name) for missing in found.imports)
        self.everything = is_forgotten or any(map(self._is_opaque, syntax.nodes))

    def touches_world(self, node: ast.AST) -> bool:
        """Whether an expression may read or change the clock, or draw a random number."""
        if isinstance(node, ast.Attribute):
            return node.attr in CLOCK_METHODS
        return isinstance(node, ast.Name) and node.id in self.world

    def _is_opaque(self, node: ast.AST) -> bool:
        """Whether a node is a channel that makes the answer depend on everything that runs."""
        match node:
            case ast.Name(ctx=ast.Load()):
                return self._is_opaque_name(node)
            case ast.Name(id=text):
                return _is_special(text) and text not in _PLAIN_ASSIGNED
            case ast.Attribute():
                return self._is_opaque_attribute(node)
            case ast.Constant(value=str() as text):  # it may name an attribute, for `getattr`
                return text in OPAQUE_NAMES - COMMON_WORDS or (_is_special(text) and text not in _PLAIN_TEXTS)
            case ast.Import() | ast.ImportFrom():
                return any(name == "*" or self._is_unknown(module, name) for name, module in imported(node))
            case ast.Lambda() | ast.GeneratorExp():  # it runs at an unknown time
                return any(map(self.touches_world, ast.walk(node)))
            case ast.ClassDef():
                return bool(node.keywords) or "type" in map(last_name, node.bases)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return node.name in HOOKS
        return False

    def _is_unknown(self, module: str, name: str) -> bool:
        """Whether a module cannot be followed; a module that does not exist can: its functions are holes."""
        top = _top(module)
        is_known = name in self._undefined or top in FOLLOWED_MODULES or top in SHARED_STATE_MODULES
        return top == "__main__" or not is_known

    def _is_opaque_name(self, node: ast.Name) -> bool:
        text, call = node.id, self._called.get(id(node))
        if text in self.world:  # passed as a value, it may be called anywhere
            return call is None and id(node) not in self._bases
        if text in self._whole:  # a module passed as a value may be changed
            return id(node) not in self._bases
        if text in self._modules and text not in self._undefined:
            return text in OPAQUE_NAMES or (self._modules[text] == "sys" and text not in PLAIN_SYS_NAMES)
        return text not in self._bound and _is_opaque_builtin(text, call)

    def _is_opaque_attribute(self, node: ast.Attribute) -> bool:
        module = self._modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
        is_read, is_called = isinstance(node.ctx, ast.Load), id(node) in self._called
        if module is not None and not is_read:  # the program changes a module
            return True
        if module == "sys":
            return node.attr not in PLAIN_SYS_NAMES
        if not is_called and (module in SHARED_STATE_MODULES or node.attr in CLOCK_METHODS):
            return True
        if node.attr in OPAQUE_NAMES:
            return True
        is_plain = is_read and (is_called or node.attr in PLAIN_SPECIAL_NAMES)
        return _is_special(node.attr) and not is_plain


def _is_opaque_builtin(text: str, call: ast.Call | None) -> bool:
    if text in SCOPE_FUNCTIONS:
        return call is None
    if text == "type" and call is not None:
        return len(call.args) != 1
    return text in OPAQUE_NAMES or (_is_special(text) and text not in PLAIN_SPECIAL_NAMES)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_special(text: str) -> bool:
    return len(text) > 4 and text.startswith("__") and text.endswith("__")


def reads_scope(node: ast.AST) -> str | None:
    """Return the function by which a call reads or changes names as strings; `vars(x)` and `dir(x)` only read x."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    name = node.func.id
    is_scope = not node.args if name in ("dir", "vars") else name in SCOPE_FUNCTIONS
    return name if is_scope else None
