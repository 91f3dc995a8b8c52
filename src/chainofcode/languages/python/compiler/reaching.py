"""Whether a value may be called: data flow through variables, containers, attributes, parameters and results.

An undefined name is a hole if the program may call its value: `f = is_fruit` and later `f(x)`, a value of a dict, a
default argument, a function's result. Attributes and methods are matched by name alone, for any object. Standard
library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from .syntax import FUNCTIONS, Function, Names, Scope, Syntax, annotated_fields, called_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Literal

    Kind = Literal["itself", "held"]  # the value, or a container of it
    Flow = tuple[ast.AST, Kind]

_ANY: tuple[Kind, Kind] = ("itself", "held")
_MAX_FLOWS = 20_000


def _is_parallel(target: ast.AST, value: ast.AST) -> bool:
    """Whether an assignment pairs targets with values, as in `a, b = x, y`."""
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(value, (ast.Tuple, ast.List)):
        return False
    parts = [*target.elts, *value.elts]
    return len(target.elts) == len(value.elts) and not any(isinstance(part, ast.Starred) for part in parts)


class Reaching:
    """The data flow of one program; its indexes are built on first use."""

    def __init__(self, syntax: Syntax, names: Names) -> None:
        self.syntax, self._names = syntax, names

    def is_called(self, node: ast.expr) -> bool:
        """Whether the value of an expression may be called, there or later."""
        pending: list[Flow] = [(node, "itself")]
        seen = set(pending)
        while pending and len(seen) < _MAX_FLOWS:
            current, kind = pending.pop()
            if kind == "itself" and self._is_called_here(current):
                return True
            for flow in self._flows(current, kind, self.syntax.parents.get(current)):
                if flow not in seen:
                    seen.add(flow)
                    pending.append(flow)
        return False

    def _is_called_here(self, value: ast.AST) -> bool:
        call = self.syntax.parents.get(value)
        if isinstance(call, ast.keyword):
            call = self.syntax.parents[call]
        if not isinstance(call, ast.Call) or not isinstance(value, ast.expr):
            return False
        return call.func is value or self.syntax.takes_function(call, value)

    # --- one step ---------------------------------------------------------------------------------------------

    def _flows(self, node: ast.AST, kind: Kind, parent: ast.AST | None) -> Iterator[Flow]:
        """Yield where the value of a node, or its container, flows next."""
        match parent:
            case ast.Call():
                yield from self._into_call(parent, node, kind)
            case ast.keyword():
                yield from self._into_call(self.syntax.parents[parent], node, kind)
            case ast.Attribute():
                yield from self._attribute(parent, kind)
            case ast.expr():
                yield from self._into_expression(parent, node, kind)
            case ast.comprehension(iter=iterable) if iterable is node and kind == "held":
                yield from self._bound(parent.target, _ANY)
            case _:
                yield from self._into_statement(parent, node, kind)

    def _into_expression(self, parent: ast.expr, node: ast.AST, kind: Kind) -> Iterator[Flow]:
        match parent:
            case ast.IfExp(test=test) if test is node:
                return
            case ast.Starred() | ast.IfExp() | ast.BoolOp() | ast.Await() | ast.NamedExpr() | ast.FormattedValue():
                if isinstance(parent, ast.NamedExpr):
                    yield from self._bound(parent.target, (kind,))
                yield parent, kind
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
                yield from self._into_container(parent, node, kind)
            case ast.BinOp() if kind == "held":
                yield parent, "held"
            case ast.Subscript(value=value) if value is node and kind == "held":
                yield from self._any(parent)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield parent, "held"
            case ast.Lambda():
                yield from self._returned(parent, kind)
            case ast.Yield() | ast.YieldFrom():
                yield from self._returned(parent, "held")

    def _into_statement(self, parent: ast.AST | None, node: ast.AST, kind: Kind) -> Iterator[Flow]:
        match parent:
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from self._assigned(target, node, kind)
            case ast.AnnAssign(value=value) | ast.AugAssign(value=value) if value is node:
                yield from self._assigned(parent.target, node, kind)
            case ast.For(iter=iterable) | ast.AsyncFor(iter=iterable) if iterable is node and kind == "held":
                yield from self._bound(parent.target, _ANY)
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from self._bound(target, _ANY)
            case ast.Match(subject=subject) if subject is node:
                yield from self._matched(parent)
            case ast.Return():
                yield from self._returned(parent, kind)
            case ast.arguments():
                yield from self._default(parent, node, kind)

    def _attribute(self, attribute: ast.Attribute, kind: Kind) -> Iterator[Flow]:
        call = self.syntax.parents.get(attribute)
        if kind == "held" and isinstance(call, ast.Call) and call.func is attribute:  # d.get(k), d.values(), fs.pop()
            yield from self._any(call)
        elif kind == "itself" and attribute.attr == "__call__":
            yield attribute, kind

    def _any(self, node: ast.AST) -> Iterator[Flow]:
        return ((node, kind) for kind in _ANY)

    # --- assignments ------------------------------------------------------------------------------------------

    def _assigned(self, target: ast.expr, value: ast.AST, kind: Kind) -> Iterator[Flow]:
        if not _is_parallel(target, value):  # else `_into_container` handles it
            yield from self._bound(target, (kind,))

    def _into_container(self, container: ast.AST, node: ast.AST, kind: Kind) -> Iterator[Flow]:
        yield container, "held"
        parent = self.syntax.parents.get(container)
        for target in parent.targets if isinstance(parent, ast.Assign) else ():
            if isinstance(target, (ast.Tuple, ast.List)) and _is_parallel(target, container):
                place = container.elts.index(node)  # type: ignore[attr-defined]
                yield from self._bound(target.elts[place], (kind,))

    def _bound(self, target: ast.AST, kinds: tuple[Kind, ...]) -> Iterator[Flow]:
        """Yield the reads of an assignment target."""
        match target:
            case ast.Name():
                yield from self._read(target.id, self._names.scope_of.get(target), kinds)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self._bound(part, _ANY)
            case ast.Starred(value=inner):
                yield from self._bound(inner, ("held",))
            case ast.Attribute(attr=attr):
                yield from self._attributes(attr, kinds)
            case ast.Subscript():
                yield from self._kept_in(target.value)

    def _kept_in(self, container: ast.expr) -> Iterator[Flow]:
        """Yield the reads of a container that a value was put into, or of a container around it."""
        while isinstance(container, (ast.Subscript, ast.Call)):
            container = container.func if isinstance(container, ast.Call) else container.value
            if isinstance(container, ast.Attribute) and isinstance(self.syntax.parents.get(container), ast.Call):
                container = container.value  # d.setdefault(k, []).append(f)
        if isinstance(container, ast.Name):
            yield from self._read(container.id, self._names.scope_of.get(container), ("held",))
        elif isinstance(container, ast.Attribute):
            yield from self._attributes(container.attr, ("held",))

    def _read(self, name: str, scope: Scope | None, kinds: tuple[Kind, ...]) -> Iterator[Flow]:
        home = self._names.resolve(name, scope) if scope is not None else None
        if home is None:
            return
        for node in self._loads.get((id(home), name), ()):
            yield from ((node, kind) for kind in kinds)
        if home.kind == "class":
            yield from self._attributes(name, kinds)

    def _attributes(self, name: str, kinds: tuple[Kind, ...]) -> Iterator[Flow]:
        for node in self._attribute_loads.get(name, ()):
            yield from ((node, kind) for kind in kinds)

    def _matched(self, match: ast.Match) -> Iterator[Flow]:
        for case in match.cases:
            for node in ast.walk(case.pattern):
                name = getattr(node, "name", None) or getattr(node, "rest", None)
                if isinstance(name, str):
                    yield from self._read(name, self._names.scope_of.get(match), _ANY)

    # --- calls ------------------------------------------------------------------------------------------------

    def _into_call(self, call: ast.AST, value: ast.AST, kind: Kind) -> Iterator[Flow]:
        if not isinstance(call, ast.Call) or call.func is value:
            return
        name = called_name(call)
        own = self.syntax.own_functions(name)
        for function in own:
            for part, kinds in self._parameters(function, call, value, kind):
                if part is not None:
                    yield from self._read(part.arg, self._inner(function), kinds)
        fields = self._fields.get(name or "", ())
        for field in fields:  # e.g. of a dataclass
            yield from self._attributes(field, _ANY)
        if not own and not fields:
            yield from self._into_unknown_call(call, value, kind)

    def _into_unknown_call(self, call: ast.Call, value: ast.AST, kind: Kind) -> Iterator[Flow]:
        """An unknown function may return its arguments, or keep them in its object."""
        yield from self._any(call)
        if isinstance(call.func, ast.Attribute):
            yield from self._kept_in(call.func.value)
        parent = self.syntax.parents.get(value)
        if isinstance(parent, ast.keyword) and parent.arg is not None:  # SimpleNamespace(f=f)
            yield from self._attributes(parent.arg, (kind,))

    def _parameters(
        self, function: Function | ast.Lambda, call: ast.Call, value: ast.AST, kind: Kind
    ) -> list[tuple[ast.arg | None, tuple[Kind, ...]]]:
        """Return the parameters that an argument is bound to, and as what."""
        arguments = function.args
        parent = self.syntax.parents.get(value)
        if isinstance(value, ast.Starred) or (isinstance(parent, ast.keyword) and parent.arg is None):
            parts = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return [*((part, _ANY) for part in parts), (arguments.vararg, ("held",)), (arguments.kwarg, ("held",))]
        if isinstance(parent, ast.keyword):
            named = [part for part in (*arguments.args, *arguments.kwonlyargs) if part.arg == parent.arg]
            return [(named[0], (kind,))] if named else [(arguments.kwarg, ("held",))]
        for part, argument in zip(self._positional(function, call), call.args, strict=False):
            if argument is value:
                return [(part, (kind,))]
        return [(arguments.vararg, ("held",))]

    def _positional(self, function: Function | ast.Lambda, call: ast.Call) -> list[ast.arg]:
        """Return the parameters that a call fills by position, without `self` for a method call."""
        parts = [*function.args.posonlyargs, *function.args.args]
        is_method = isinstance(call.func, ast.Attribute) or getattr(function, "name", "") == "__init__"
        return parts[1:] if is_method and parts and parts[0].arg in ("self", "cls") else parts

    def _default(self, arguments: ast.arguments, node: ast.AST, kind: Kind) -> Iterator[Flow]:
        function = self.syntax.parents[arguments]
        positional = [*arguments.posonlyargs, *arguments.args]
        late = positional[len(positional) - len(arguments.defaults) :]
        pairs = [
            *zip(late, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for part, default in pairs:
            if default is node and isinstance(function, (*FUNCTIONS, ast.Lambda)):
                yield from self._read(part.arg, self._inner(function), (kind,))

    def _returned(self, node: ast.AST, kind: Kind) -> Iterator[Flow]:
        """Yield the calls of the function that returns a value."""
        function = self.syntax.enclosing(node, (*FUNCTIONS, ast.Lambda))
        if isinstance(function, ast.Lambda):
            parent = self.syntax.parents.get(function)
            if isinstance(parent, ast.Call) and parent.func is function:
                yield parent, kind
        for name, functions in self.syntax.functions.items():
            if function in functions:
                yield from ((call, kind) for call in self._calls_of.get(name, ()))

    def _inner(self, function: Function | ast.Lambda) -> Scope | None:
        body = function.body if isinstance(function, ast.Lambda) else function.body[0]
        return self._names.scope_of.get(body)

    # --- indexes ----------------------------------------------------------------------------------------------

    @cached_property
    def _loads(self) -> dict[tuple[int, str], list[ast.Name]]:
        found: dict[tuple[int, str], list[ast.Name]] = {}
        for scope in self._names.scopes:
            for node in scope.loads:
                home = self._names.resolve(node.id, scope)
                if home is not None:
                    found.setdefault((id(home), node.id), []).append(node)
        return found

    @cached_property
    def _attribute_loads(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.syntax.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append(node)
        return found

    @cached_property
    def _calls_of(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.syntax.calls:
            found.setdefault(called_name(call) or "", []).append(call)
        return found

    @cached_property
    def _fields(self) -> dict[str, list[str]]:
        """The annotated names of each class without an `__init__`: the fields of a dataclass or NamedTuple."""
        classes = [node for node in self.syntax.classes if not self.syntax.initializers.get(node.name)]
        return {node.name: list(annotated_fields(node)) for node in classes}
