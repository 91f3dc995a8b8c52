"""Mutations of programs and values: replaced literals, dropped elements, set variables, other values."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...languages.python.compiler.statements import statements
from ...languages.python.compiler.syntax import called_name
from ...program import Program
from ...trace import Step
from ...values.codec import ValueFormatError, decode

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_MAX_SOURCE_CHARS = 100_000
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_PLACING = ("chr", "bytes", "bytearray", "group")  # their numbers are character codes or positions
_MAX_NEAR = 2
_MAX_TEXT = 60
SENTINEL_TEXT, SENTINEL_NUMBER = "quince", 4711  # sentinels that no program contains
_NEXT_DIGIT = str.maketrans("0123456789", "1234567892")


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A change to a program. Expressions are named by their index in `ast.walk`, statements by their number."""

    replaced: Mapping[int, str] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()  # constants whose element of a list, tuple, set or dict is dropped
    before: int = -1  # the statement that `inserted` goes before
    inserted: str = ""

    def applied_to(self, source: str) -> str | None:
        """Return the changed program; None if it cannot be written."""
        try:
            tree = ast.parse(source)
            nodes = list(ast.walk(tree))
            replaced = {id(nodes[place]): ast.parse(text, mode="eval").body for place, text in self.replaced.items()}
            dropped = {id(nodes[place]) for place in self.dropped}
            before = list(statements(tree.body))[self.before] if self.inserted else None
            changed = _Rewriting(replaced, dropped, before, ast.parse(self.inserted).body).visit(tree)
            return ast.unparse(ast.fix_missing_locations(changed))
        except UNREADABLE:
            return None


class _Rewriting(ast.NodeTransformer):
    def __init__(
        self,
        replaced: Mapping[int, ast.expr],
        dropped: Collection[int],
        before: ast.stmt | None,
        inserted: Sequence[ast.stmt],
    ) -> None:
        self._replaced, self._dropped, self._before, self._inserted = replaced, dropped, before, inserted

    def visit(self, node: ast.AST) -> Any:
        if id(node) in self._replaced:
            return self._replaced[id(node)]
        is_dropped = isinstance(node, _DISPLAYS) and is_literal(node) and self._is_dropped(node)
        if is_dropped and isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            kept = [pair for pair in pairs if not any(map(self._is_dropped, pair))]
            node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        elif is_dropped:
            node.elts = [part for part in node.elts if not self._is_dropped(part)]  # type: ignore[attr-defined]
        changed = self.generic_visit(node)
        return [*self._inserted, changed] if node is self._before else changed

    def _is_dropped(self, part: ast.AST | None) -> bool:
        return part is not None and any(id(node) in self._dropped for node in ast.walk(part))


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A constant in a program: its index in `ast.walk`, its statement, and its parents in the syntax tree."""

    place: int
    value: Any
    node: ast.Constant
    parents: tuple[ast.AST, ...]  # from the inside out, up to the statement
    statement: int = -1
    name: str = ""  # the variable that the statement sets, if any

    @property
    def whole(self) -> ast.AST:
        """The largest list, tuple, set or dict around it that holds only literals; else the constant itself."""
        found: ast.AST = self.node
        for parent in self.parents:
            if not isinstance(parent, (*_DISPLAYS, ast.UnaryOp)) or not is_literal(parent):
                break
            found = parent
        return found

    @property
    def is_index(self) -> bool:
        """Whether it is an index, a format, or a character code or offset rather than data."""
        inner: ast.AST = self.node
        for parent in self.parents:
            match parent:
                case ast.Subscript(slice=key) if key is inner:
                    return isinstance(inner, (ast.Constant, ast.Slice, ast.UnaryOp, ast.Tuple))
                case ast.FormattedValue(format_spec=spec) if spec is inner:
                    return True
                case ast.Call() if called_name(parent) in _PLACING and not isinstance(self.value, str):
                    return not isinstance(self.whole, _DISPLAYS)
            inner = parent
        return False


def literals_of(program: Program) -> list[Literal] | None:
    """Return the constants of a program in the order of its syntax tree; None if it cannot be changed."""
    if program.prose or len(program.source) > _MAX_SOURCE_CHARS:
        return None
    try:
        tree = ast.parse(program.source)
        nodes = list(ast.walk(tree))
        ast.unparse(tree)
    except UNREADABLE:
        return None
    numbers = {id(node): number for number, node in enumerate(statements(tree.body))}
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    found = []
    for place, node in enumerate(nodes):
        if not isinstance(node, ast.Constant):
            continue
        around: list[ast.AST] = []
        parent = parents.get(id(node))
        while parent is not None and id(parent) not in numbers:
            around.append(parent)
            parent = parents.get(id(parent))
        number, name = numbers.get(id(parent), -1), ""
        match parent:
            case ast.Assign(targets=[ast.Name(id=target)]):
                name = target
        found.append(
            Literal(place=place, value=node.value, node=node, parents=tuple(around), statement=number, name=name)
        )
    return found


def nodes_of(source: str) -> list[ast.AST]:
    """Return all nodes of a program's syntax tree; none if it has prose."""
    try:
        return list(ast.walk(ast.parse(source)))
    except UNREADABLE:
        return []


def texts_in(source: str) -> list[str]:
    """Return the short string literals of a program, without duplicates."""
    texts = (node.value for node in nodes_of(source) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [text for text in dict.fromkeys(texts) if len(text) <= _MAX_TEXT]


def is_literal(node: ast.AST) -> bool:
    """Whether an expression consists of constants, lists, tuples, sets and dicts."""
    parts = (*_DISPLAYS, ast.Constant, ast.UnaryOp, ast.USub, ast.UAdd, ast.expr_context)
    return all(isinstance(part, parts) for part in ast.walk(node))


# --- other values -------------------------------------------------------------------------------------------------


def other_values(value: Any, near: Sequence[Any] = ()) -> list[Any]:
    """Return other values of the same kind; those in `near` that are of its type come first."""
    found: list[Any] = []
    for other in _candidates(value, near):
        if (other != value or type(other) is not type(value)) and other not in found:
            found.append(other)
    return found


def _candidates(value: Any, near: Sequence[Any]) -> list[Any]:
    same = [other for other in near if type(other) is type(value) and other != value][:_MAX_NEAR]
    match value:
        case None:
            return [1, SENTINEL_TEXT]
        case bool():
            return [not value]
        case int() | float():
            return [*same, value + 1, -value - 1, 0, value * 1000 + 7]
        case str():
            moved = value.translate(_NEXT_DIGIT)
            return [moved, *same, value[::-1], f"{value} {SENTINEL_TEXT}", SENTINEL_TEXT, value[:-1], ""]
        case list() | tuple():
            return [value[::-1], *_other_parts(value, near), value[1:], value[:-1], type(value)(), value * 2]
        case set():
            return [*_other_parts(value, near), set(list(value)[1:]), {*value, SENTINEL_TEXT}, set()]
        case dict():
            kept = list(value.values())
            turned = dict(zip(value, [*kept[1:], *kept[:1]], strict=True))
            return [turned, *_other_parts(value, near), dict(list(value.items())[1:]), {}]
    return []


def _other_parts(value: Any, near: Sequence[Any]) -> list[Any]:
    """Return a collection with each part replaced: by another value, and by one of those near."""
    made = []
    for known in ([], near):
        if isinstance(value, dict):
            made.append({key: first_other(part, known) for key, part in value.items()})
        else:
            made.append(type(value)(first_other(part, known) for part in value))
    return made


def first_other(value: Any, near: Sequence[Any] = ()) -> Any:
    """Return another value of the same kind; the value itself if there is none."""
    return next(iter(other_values(value, near)), value)


def function_of(step: Step) -> str:
    """Return the name of the function that a step called."""
    return (step.call or "").partition("(")[0]


def value_of(step: Step) -> Any:
    """Return a recorded value; None if there is none."""
    try:
        return decode(step.value) if step.error is None else None
    except ValueFormatError:
        return None
