"""Channels: hidden data flow, by which a value reaches the answer without a statement that shows it.

Provenance treats them in three ways, from the most to the least precise:

- WORLD: state that a module's functions share, such as the clock or the random generator. Each call reads and changes
  it.
- SCOPES: functions that read or change names given as strings. A statement that calls one depends on everything before
  it, and everything after it depends on that statement.
- The rest (modules that are not in FOLLOWED, frames, cells, hooks): the answer depends on everything that runs.

Everything that is not known to be followed counts as a channel. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from .analyse import Analysis, imported_names
from .syntax import last_name

# Modules whose functions depend on their arguments only, and change nothing else.
FOLLOWED = frozenset([
    "__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "colorsys",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions",
    "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "io", "itertools", "json", "keyword", "math",
    "numbers", "operator", "pprint", "re", "reprlib", "shlex", "statistics", "string", "struct", "sys", "textwrap",
    "types", "typing", "unicodedata", "zlib", "zoneinfo",
])  # fmt: skip
# Modules whose functions share state: each call reads and changes it.
WORLD = frozenset(["random", "secrets", "time", "uuid"])
_WORLD_METHODS = frozenset(["now", "today", "utcnow"])  # of datetime's classes
# Functions that read or change names given as strings.
SCOPES = frozenset(["dir", "eval", "exec", "globals", "locals", "vars"])
# Functions and attributes that expose the program itself, other threads, or the environment.
_OPAQUE = frozenset([
    "__import__", "__main__", "__subclasses__", "breakpoint", "compile", "help", "input", "memoryview", "open",
    "cell_contents", "currentframe", "exc_info", "gi_frame", "cr_frame", "ag_frame", "gi_yieldfrom", "cr_await",
    "tb_frame", "tb_next", "f_back", "f_builtins", "f_code", "f_globals", "f_locals", "f_lasti", "f_lineno",
    "_getframe", "modules", "mro", "import_module", "get_type_hints", "with_traceback", "ModuleType", "FunctionType",
    "CellType", "gc", "getrefcount", "weakref", "ref", "finalize", "atexit", "settrace", "setprofile", "monitoring",
    "signal", "setrecursionlimit", "redirect_stdout", "redirect_stderr", "stdout", "stderr", "stdin",
    "getcontext", "setcontext", "localcontext", "setfirstweekday", "setlocale", "field_size_limit",
    "register_dialect", "unregister_dialect", "purge",
])  # fmt: skip
_SYS = frozenset([
    "argv", "byteorder", "exit", "float_info", "getsizeof", "hash_info", "int_info", "intern", "maxsize",
    "maxunicode", "platform", "version", "version_info",
])  # fmt: skip
# Special names that may be read; others expose code, or how a class was built.
_PLAIN_SPECIAL = frozenset(["__class__", "__debug__", "__dict__", "__name__", "__version__"])
# Methods that Python calls implicitly.
_HOOKS = frozenset([
    "__class_getitem__", "__copy__", "__deepcopy__", "__del__", "__delattr__", "__delete__", "__dir__", "__get__",
    "__getattr__", "__getattribute__", "__getnewargs__", "__getstate__", "__init_subclass__", "__instancecheck__",
    "__mro_entries__", "__prepare__", "__reduce__", "__reduce_ex__", "__set__", "__set_name__", "__setattr__",
    "__setstate__", "__subclasscheck__", "__subclasshook__",
])  # fmt: skip


class Channels:
    """The channels of one program; `everything`: one of them makes the answer depend on everything that runs."""

    def __init__(self, found: Analysis) -> None:
        nodes = found.syntax.nodes
        self._bound = frozenset(name for scope in found.names.scopes for name in scope.bindings)
        self._undefined = found.unknown_modules
        imported = [*imported_names(found.syntax), *((missing.name, missing.module) for missing in found.imports)]
        self._modules = {name: module.partition(".")[0] for name, module in imported}
        whole = [missing.name for missing in found.imports if missing.attribute is None]
        for node in nodes:
            if isinstance(node, ast.Import):
                whole += [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        self._whole = frozenset(whole) - self._undefined  # names of modules
        self.world = frozenset(name for name, module in self._modules.items() if module in WORLD)
        called = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
        bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        forgotten = (self._is_unknown(missing.module, missing.name) for missing in found.imports)
        self.everything = any(forgotten) or any(self._is_opaque(node, called, bases) for node in nodes)

    def touches_world(self, node: ast.AST) -> bool:
        """Whether an expression may read or change the clock, or draw a random number."""
        if isinstance(node, ast.Attribute):
            return node.attr in _WORLD_METHODS
        return isinstance(node, ast.Name) and node.id in self.world

    def _is_opaque(self, node: ast.AST, called: dict[int, ast.Call], bases: Collection[int]) -> bool:
        """Whether a node is a channel that makes the answer depend on everything that runs."""
        match node:
            case ast.Import(names=names):
                return any(self._is_unknown(one.name, one.asname or one.name.partition(".")[0]) for one in names)
            case ast.ImportFrom(module=module, names=names):
                return any(one.name == "*" or self._is_unknown(module, one.asname or one.name) for one in names)
            case ast.Lambda() | ast.GeneratorExp():  # it runs at an unknown time
                return any(self.touches_world(part) for part in ast.walk(node))
            case ast.ClassDef():
                return bool(node.keywords) or any(last_name(base) == "type" for base in node.bases)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return node.name in _HOOKS
            case ast.Name():
                return self._is_opaque_name(node, called, bases)
            case ast.Attribute():
                return self._is_opaque_attribute(node, called)
            case ast.Constant(value=str() as text):  # it may name an attribute, for `getattr`
                return text in _OPAQUE - _COMMON_WORDS or (_is_special(text) and text not in _PLAIN_TEXTS)
        return False

    def _is_unknown(self, module: str | None, name: str) -> bool:
        """Whether a module cannot be followed; a module that does not exist can: its functions are holes."""
        top = (module or "").partition(".")[0]
        return top == "__main__" or (name not in self._undefined and top not in FOLLOWED and top not in WORLD)

    def _is_opaque_name(self, node: ast.Name, called: dict[int, ast.Call], bases: Collection[int]) -> bool:
        text = node.id
        if not isinstance(node.ctx, ast.Load):
            return _is_special(text) and text != "__match_args__" and text != "__slots__"
        if text in self.world:  # passed as a value, it may be called anywhere
            return id(node) not in called and id(node) not in bases
        if text in self._whole:  # a module passed as a value may be changed
            return id(node) not in bases
        if text in self._modules and text not in self._undefined:
            return text in _OPAQUE or (self._modules[text] == "sys" and text not in _SYS)
        if text in self._bound:
            return False
        if text in SCOPES:
            return id(node) not in called
        if text == "type" and id(node) in called:
            return len(called[id(node)].args) != 1
        return text in _OPAQUE or (_is_special(text) and text not in _PLAIN_SPECIAL)

    def _is_opaque_attribute(self, node: ast.Attribute, called: dict[int, ast.Call]) -> bool:
        base = last_name(node.value) if isinstance(node.value, ast.Name) else None
        module = self._modules.get(base) if base is not None else None
        is_load = isinstance(node.ctx, ast.Load)
        if module is not None and not is_load:  # the program changes a module
            return True
        if module == "sys":
            return node.attr not in _SYS
        if (module in WORLD or node.attr in _WORLD_METHODS) and id(node) not in called:
            return True
        if _is_special(node.attr) and node.attr not in _OPAQUE:
            return not is_load or (id(node) not in called and node.attr not in _PLAIN_SPECIAL)
        return node.attr in _OPAQUE


# Words that are usually plain data in a program, not the name of an attribute.
_COMMON_WORDS = frozenset(["help", "input", "open", "modules", "signal", "ref", "gc", "mro", "purge", "compile"])
_PLAIN_TEXTS = _PLAIN_SPECIAL | {"__main__", "__init__"}


def _is_special(text: str) -> bool:
    return len(text) > 4 and text.startswith("__") and text.endswith("__")


def reads_scope(node: ast.AST) -> str | None:
    """Return the function by which a call reads or changes names as strings; `vars(x)` and `dir(x)` only read x."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    name = node.func.id
    is_scope = not node.args if name in ("dir", "vars") else name in SCOPES
    return name if is_scope else None
