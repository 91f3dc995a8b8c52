"""Recognises operations that only re-encode a literal: they reverse, slice, join, decode or count it.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .library import ADDERS, COUNTERS, CUTTERS, REENCODERS, SPELLERS
from .statements import statements
from .syntax import DEFINITIONS, called_name

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_SETTING = (ast.BitAnd, ast.BitOr)
_TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
_MAX_DEPTH = 10


class Operations:
    """What some statements of a program do; of compound statements, only the headers."""

    def __init__(self, source: str, wanted: Collection[int]) -> None:
        tree = ast.parse(source)
        own = list(statements(tree.body))
        chosen = [node for number, node in enumerate(own) if number in wanted]
        self._nodes = [node for statement in chosen for node in _own(statement)]
        self._calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        self._defined = {node.name for node in own if isinstance(node, DEFINITIONS)}
        self._values = _values(own)  # the first value of each name
        stores = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self._fixed = {name for name in self._values if stores.count(name) == 1}

    @property
    def reencodes(self) -> bool:
        """Whether the statements only re-encode: they do not sort, look up, compare with text or do other work."""
        if any(isinstance(node, ast.BinOp) and isinstance(node.op, _SETTING) for node in self._nodes):
            return False
        if any(map(self._compares_text, self._nodes)):
            return False
        # Joining strings is not enough: there must be a slice with a step, a loop, or a call.
        is_called = any(called_name(call) not in ("str", "print", "format") for call in self._calls)
        return (self._is_cut or self.loops or is_called) and all(map(self._is_turning, self._calls))

    @property
    def counts(self) -> bool:
        """Whether something is counted, or sliced with a step."""
        increments = [node.value for node in self._nodes if isinstance(node, ast.AugAssign)]
        is_called = any(called_name(call) in COUNTERS | ADDERS for call in self._calls)
        return any(map(_is_one, increments)) or is_called or self._is_cut

    @property
    def _is_cut(self) -> bool:
        return any(isinstance(node, ast.Slice) and node.step is not None for node in self._nodes)

    @property
    def calculates(self) -> bool:
        """Whether numbers are combined, beyond counting up."""
        return any(map(self._is_arithmetic, self._nodes)) or any(map(self._is_adding, self._calls))

    @property
    def only_turns(self) -> bool:
        """Whether nothing is compared or counted: the result is the input in another order or encoding."""
        is_tested = any(isinstance(node, (ast.Compare, ast.If)) for node in self._nodes)
        return not is_tested and not COUNTERS & {called_name(call) for call in self._calls}

    @property
    def compares_literals(self) -> bool:
        """Whether there are conditions, and all of them depend only on literals."""
        if any(isinstance(node, (ast.For, ast.comprehension, ast.Try)) for node in self._nodes):
            return False
        tests = [node.test for node in self._nodes if isinstance(node, (ast.If, ast.IfExp, ast.While))]
        keys = [node.slice for node in self._nodes if isinstance(node, ast.Subscript)]
        tests += [key for key in keys if any(isinstance(node, ast.Compare) for node in ast.walk(key))]
        tests += [node.subject for node in self._nodes if isinstance(node, ast.Match)]
        return bool(tests) and all(map(self._is_closed, tests)) and not any(map(self._is_adding, self._calls))

    @property
    def loops(self) -> bool:
        return any(isinstance(node, (ast.For, ast.While, ast.comprehension)) for node in self._nodes)

    @property
    def cuts(self) -> bool:
        """Whether parts of a string are extracted or counted, not only searched for."""
        for node in self._nodes:
            match node:
                case ast.Subscript(ctx=ast.Load()):
                    return True
                case ast.Call() if called_name(node) in CUTTERS:
                    return True
                case ast.For(iter=source) | ast.comprehension(iter=source) if not self._is_literal(source):
                    return True
        return False

    # --- literals ---------------------------------------------------------------------------------------------

    def _is_literal(self, node: ast.AST | None, depth: int = 0) -> bool:
        """Whether a value is a literal, here or where its name is set."""
        match node:
            case ast.Constant():
                return True
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(self._is_literal(part, depth) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return all(self._is_literal(part, depth) for part in [*keys, *values])
            case ast.Name(id=name) if depth < _MAX_DEPTH and name in self._fixed:
                return self._is_literal(self._values[name], depth + 1)
            case ast.Call(func=ast.Attribute(value=inner, attr="items" | "keys" | "values")):
                return self._is_literal(inner, depth)
        return False

    def _is_closed(self, test: ast.AST) -> bool:
        """Whether an expression reads only literals; arithmetic on names is work."""
        names = [node for node in ast.walk(test) if isinstance(node, ast.Name) and node.id not in REENCODERS]
        is_arithmetic = any(isinstance(node, ast.BinOp) for node in ast.walk(test))
        return all(map(self._is_literal, names)) and not (names and is_arithmetic)

    def _compares_text(self, node: ast.AST) -> bool:
        """Whether something is compared with a string, or two variables with each other."""
        if not isinstance(node, ast.Compare):
            return False
        sides = [node.left, *node.comparators]
        return not any(isinstance(side, ast.Constant) and not isinstance(side.value, str) for side in sides)

    def _is_turning(self, call: ast.Call) -> bool:
        name, parts = called_name(call) or "", call.args
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text))), args=[_]) if name == "count":
                return len(set(text)) < 2
            case ast.Call(args=[ast.Constant(value=str(text))]) if name == "len":  # not of a word
                return not text.isalpha() or len(set(text)) < 2 or list(text) == sorted(text)
            case ast.Call(func=ast.Attribute()) if name in ("split", "rsplit"):
                return any(called_name(other) == "len" and _has(other.args, call) for other in self._calls)
        is_kept = name[:1].isupper() and name != "Counter"  # a class only stores its arguments
        return (
            name in REENCODERS or name in self._defined or is_kept or (name in ADDERS and self._is_uniform(parts, name))
        )

    # --- numbers ----------------------------------------------------------------------------------------------

    def _is_arithmetic(self, node: ast.AST) -> bool:
        match node:
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _ARITHMETIC):
                is_count = isinstance(op, ast.Add) and _is_one(right) and isinstance(left, ast.Name)
                is_text = self._is_text(left) or self._is_text(right)
                return not is_count and not is_text and not self._is_spelling(node)
            case ast.AugAssign(op=op, value=value) if isinstance(op, _ARITHMETIC):
                return not _is_one(value) and not self._is_text(value)
        return False

    def _is_spelling(self, node: ast.AST) -> bool:
        """Whether the arithmetic is on a character code, or on an index."""
        for other in self._nodes:
            match other:
                case ast.Call() if called_name(other) in SPELLERS and _has(other.args, node):
                    return True
                case ast.Subscript(slice=key) if _has([key], node):
                    return True
        return False

    def _is_text(self, node: ast.AST | None, depth: int = 0) -> bool:
        """Whether a value is a string or a sequence, as far as the program shows it."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, (str, bytes))
            case ast.BinOp(left=left, right=right):
                return self._is_text(left, depth) or self._is_text(right, depth)
            case ast.Call():
                return called_name(node) in ("chr", "join", "str", "list", "tuple", "bytes", "upper", "lower", "pop")
            case ast.Name(id=name) if depth < _MAX_DEPTH:
                return self._is_text(self._values.get(name), depth + 1)
        return isinstance(node, _TEXTS)

    def _is_adding(self, call: ast.Call) -> bool:
        """Whether a call is `sum`, `max` or `min` of numbers that are not all alike, and not only counted."""
        return called_name(call) in ADDERS and bool(call.args) and not self._is_uniform(call.args, called_name(call))

    def _is_uniform(self, parts: Sequence[ast.AST], name: str | None) -> bool:
        match parts:
            case [ast.Call() as call]:
                return called_name(call) == "range" and name != "sum"
            case [ast.GeneratorExp(elt=element) | ast.ListComp(elt=element)]:
                return isinstance(element, ast.Constant)
            case [ast.BinOp(op=ast.Mult(), left=inner) | ast.Starred(value=inner)]:
                return self._is_uniform([inner], name)
            case [ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements)]:
                return len({ast.unparse(element) for element in elements}) < 2
            case [ast.Name(id=own)] if (value := self._values.get(own)) is not None:
                return self._is_uniform([value], name)
        return False


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield a statement's nodes, without those of the statements inside it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        inner = (ast.stmt, ast.ExceptHandler)
        pending += [child for child in ast.iter_child_nodes(node) if not isinstance(child, inner)]


def _values(own: Iterable[ast.stmt]) -> Mapping[str, ast.expr]:
    """Return the first value that each name is set to."""
    found: dict[str, ast.expr] = {}
    for statement in own:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, value)
    return found


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _has(parts: Iterable[ast.AST], wanted: ast.AST) -> bool:
    return any(node is wanted for part in parts for node in ast.walk(part))
