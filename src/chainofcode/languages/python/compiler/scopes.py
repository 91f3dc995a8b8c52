"""Which name means what where: Python's scoping rules over a syntax tree. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """One namespace of the program; `bindings` maps each name it binds to what each binding takes its value from."""

    def __init__(self, kind: Literal["module", "function", "class", "comprehension"], parent: Scope | None) -> None:
        self.kind, self.parent = kind, parent
        self.bindings: dict[str, list[ast.AST | None]] = {}
        self.global_names: set[str] = set()
        self.nonlocal_names: set[str] = set()
        self.loads: list[ast.Name] = []

    def bind(self, name: str, source: ast.AST | None = None) -> None:
        self.bindings.setdefault(name, []).append(source)


class Names:
    """Every scope of a tree, the scope each statement and name stands in, and what a name resolves to."""

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
        """The scope whose binding `name` means when read in `scope`; None when no scope of the program binds it."""
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

    def _new(self, kind: Literal["function", "class", "comprehension"], parent: Scope) -> Scope:
        scope = Scope(kind, parent)
        self.scopes.append(scope)
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
        home = scope
        while home.kind == "comprehension" and home.parent is not None:
            home = home.parent
        self._bind_targets([node.target], node.value, home)

    def _For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._visit(node.iter, scope)
        self._bind_targets([node.target], node.iter, scope)
        self._visit_all([*node.body, *node.orelse], scope)

    _AsyncFor = _For

    def _FunctionDef(self, node: Function, scope: Scope) -> None:
        scope.bind(node.name)
        self._visit_all(list(node.decorator_list), scope)
        outer = self._type_parameters(node, scope)
        self._visit_all([d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None], scope)
        annotations = [arg.annotation for arg in _arguments(node.args) if arg.annotation is not None]
        self._visit_all(annotations + ([node.returns] if node.returns is not None else []), outer)
        inner = self._new("function", outer)
        for arg in _arguments(node.args):
            inner.bind(arg.arg)
        self._visit_all(node.body, inner)

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        self._visit_all([d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None], scope)
        inner = self._new("function", scope)
        for arg in _arguments(node.args):
            inner.bind(arg.arg)
        self._visit(node.body, inner)

    def _ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        scope.bind(node.name)
        self._visit_all(list(node.decorator_list), scope)
        outer = self._type_parameters(node, scope)
        self._visit_all([*node.bases, *(keyword.value for keyword in node.keywords)], outer)
        inner = self._new("class", outer)
        for name in ("__module__", "__qualname__", "__class__"):
            inner.bind(name)
        self._visit_all(node.body, inner)

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
        for alias in node.names:
            if alias.name != "*":
                scope.bind(alias.asname or alias.name.partition(".")[0])

    _ImportFrom = _Import

    def _Global(self, node: ast.Global, scope: Scope) -> None:
        if scope.kind != "module":
            scope.global_names.update(node.names)

    def _Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.nonlocal_names.update(node.names)

    def _ExceptHandler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name)
        self._children(node, scope)

    def _MatchAs(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name)
        self._children(node, scope)

    _MatchStar = _MatchAs

    def _MatchMapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            scope.bind(node.rest)
        self._children(node, scope)


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]
