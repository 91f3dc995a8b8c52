"""Functions that run without an explicit call: passed as values, or called by Python itself. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from .header import FUNCTIONS
from .regions import Region
from .scopes import Function
from .syntax import last_name

_LIKE_ATTRIBUTES = frozenset(["property", "cached_property", "setter", "getter", "deleter"])
_MAKERS = frozenset(["__init__", "__post_init__", "__new__", "__init_subclass__", "__set_name__"])
_BY_TEXT = frozenset(["getattr", "eval", "exec", "globals", "locals", "vars", "methodcaller", "attrgetter", "__dict__"])


def has_effects(region: Region, functions: Collection[str]) -> bool:
    """Whether a region has side effects, beyond mutating the program's functions."""
    objects = [text for _, text in region.objects if text not in functions]
    return bool(region.names or objects or region.is_dynamic or region.opens_instances or region.opens_all)


def keeping(nodes: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the classes whose constructors only store their arguments, without changing them."""
    found = [node for node in nodes if isinstance(node, ast.ClassDef) and not node.decorator_list]
    return frozenset(node.name for node in found if not node.bases and all(map(_only_keeps, node.body)))


def _only_keeps(node: ast.stmt) -> bool:
    if not isinstance(node, FUNCTIONS) or node.name not in _MAKERS:
        return True
    assigned = [line.targets[0] for line in node.body if isinstance(line, ast.Assign) and len(line.targets) == 1]
    calls = any(isinstance(part, (ast.Call, ast.comprehension)) for part in ast.walk(node))
    first = node.args.args[0].arg if node.args.args else ""
    return not calls and len(assigned) == len(node.body) and all(_is_field(one, first) for one in assigned)


def _is_field(target: ast.expr, first: str) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == first


def is_by_itself(node: Function) -> bool:
    """Whether Python calls a method implicitly. Constructors do not count: they change the new object only."""
    names = {last_name(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
    if names:
        return names <= _LIKE_ATTRIBUTES
    return node.name.startswith("__") and node.name not in _MAKERS


def escaping(nodes: Iterable[ast.AST]) -> set[str] | None:
    """Return the names of functions that are passed as values or run later; None if that may be any function."""
    found: set[str] = set()
    called: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
            found |= {text for part in ast.walk(node) for text in _texts(part)}
        elif isinstance(node, ast.Call):
            called.add(id(node.func))
    for node in nodes:
        if id(node) not in called and isinstance(getattr(node, "ctx", None), ast.Load):
            found |= _texts(node)
        if not _texts(node).isdisjoint(_BY_TEXT):
            return None
    return found


def _texts(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id}
    return {node.attr} if isinstance(node, ast.Attribute) else set()
