"""Types as strings: inferred from literals, attributes, names and expressions, merged, and resolved.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .analyse import Analysis
from .library import RESULT_TYPES
from .syntax import annotated_fields, called_name

_MAX_DEPTH = 6
_BOOL_NAMES = {"is", "has", "have", "are", "can", "should", "does", "did", "was", "were", "contains", "includes"}
_STR_METHODS = frozenset(dir(str)) - frozenset(dir(list)) - frozenset(dir(object))
_LIST_METHODS = frozenset(dir(list)) - frozenset(dir(str)) - frozenset(dir(object))
_DICT_METHODS = frozenset(dir(dict)) - frozenset(dir(list)) - frozenset(dir(object))
_DATE_ATTRIBUTES = {"year", "month", "day", "weekday", "isoweekday", "toordinal", "strftime"}
_EITHER = {"count", "index", "copy", "replace", "isoformat", "hour", "minute", "second", "date", "time"}


class Resolved(ast.NodeTransformer):
    """Replaces the program's classes and aliases in an annotation: a class by its fields, an alias by its value."""

    def __init__(self, found: Analysis, classes: dict[str, ast.ClassDef], opened: tuple[str, ...] = ()) -> None:
        self._found, self._classes, self._opened = found, classes, opened

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._opened or len(self._opened) > 3:  # a class that refers to itself is any object
            return ast.Name("Any")
        inner = Resolved(self._found, self._classes, (*self._opened, node.id))
        fields = annotated_fields(self._classes.get(node.id))
        if fields:
            keys: list[ast.expr | None] = [ast.Constant(name) for name in fields]
            return ast.Dict(keys, [inner.visit(copy(annotation)) for annotation in fields.values()])
        sources = self._found.names.module.bindings.get(node.id, [])
        if len(sources) == 1 and isinstance(sources[0], (ast.Subscript, ast.BinOp)):
            return inner.visit(copy(sources[0]))  # type: ignore[no-any-return]
        return node


class Appearance:
    """The types of a program's expressions, as far as its syntax shows them; empty if unknown."""

    def __init__(self, found: Analysis) -> None:
        self._names = found.names

    def like(self, node: ast.AST | None, depth: int = 0) -> str:
        """Return `number`, `str`, `date`, `span` (of time) or `list`."""
        if depth > _MAX_DEPTH:
            return ""
        match node:
            case ast.Constant(value=value):
                return _CONSTANTS.get(type(value), "")
            case ast.JoinedStr() | ast.List() | ast.ListComp():
                return "str" if isinstance(node, ast.JoinedStr) else "list"
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return self.like(inner, depth + 1)
            case ast.BinOp(left=left, right=right):
                one, other = self.like(left, depth + 1), self.like(right, depth + 1)
                if "date" in (one, other):
                    return "span" if one == other else "date"
                return one if one == other else ""
            case ast.AugAssign(value=value):
                return self.like(value, depth + 1) or "same"
            case ast.Call():
                return RESULT_TYPES.get(called_name(node) or "", "")
            case ast.Name():
                kinds = {self.like(source, depth + 1) for source in self.sources(node)} - {"same"}
                return kinds.pop() if len(kinds) == 1 else ""
        return ""

    def sources(self, node: ast.expr) -> list[ast.AST | None]:
        """Return what a variable is bound to; None for a binding without an expression."""
        scope = self._names.scope_of.get(node)
        if not isinstance(node, ast.Name) or scope is None:
            return []
        home = self._names.resolve(node.id, scope)
        return home.bindings.get(node.id, []) if home is not None else []

    def display(self, node: ast.expr) -> ast.expr:
        """Return the display that a variable is bound to, if that is its only binding; else the node itself."""
        match self.sources(node):
            case [ast.List() | ast.Tuple() | ast.Set() | ast.Dict() as only]:
                return only
        return node

    def literals(self, node: ast.expr) -> list[object]:
        """Return the literals of a display (of a dict, its keys), if it contains nothing else."""
        shown = self.display(node)
        items = shown.keys if isinstance(shown, ast.Dict) else getattr(shown, "elts", [])
        constants: list[object] = [item.value for item in items if isinstance(item, ast.Constant)]
        return constants if len(constants) == len(items) else []


_CONSTANTS = {int: "number", float: "number", str: "str"}


def by_name(name: str) -> str:
    """Return the type that a function's name suggests."""
    words = name.rpartition(".")[2].lower().lstrip("_").split("_")
    if words[0] in _BOOL_NAMES and len(words) > 1:
        return "bool"
    is_count = words[0] in ("count", "num") and len(words) > 1
    if is_count or words[:2] in (["how", "many"], ["number", "of"]):
        return "int"
    return ""


def merge(kinds: Iterable[str]) -> str:
    """Merge the types of several uses into one. An empty type is unknown, and so is the type of contradictory uses.

    `truth`: only tested; `None`: compared with None; `sized`: measured with `len`.
    """
    uses = list(dict.fromkeys(part for kind in kinds for part in _without_none(kind)))
    only_tested = _ONLY_TESTED.get(frozenset(uses))
    if only_tested is not None:
        return only_tested
    known = [kind for kind in uses if kind not in ("", "truth", "None", "sized")]
    base = "list | str" if not known and "sized" in uses else _agreed(known)
    if "None" in uses and not base.endswith("| None"):
        return f"{base or 'Any'} | None"
    return base


_ONLY_TESTED = {
    frozenset(["truth"]): "truth",
    frozenset(["truth", "None"]): "bool | None",
    frozenset(["None"]): "None",
}


def _without_none(kind: str) -> tuple[str, ...]:
    """Split an optional record or label type into the type itself and `None`."""
    if kind.startswith(("{", "Literal[")) and kind.endswith(" | None"):
        return kind.removesuffix(" | None"), "None"
    return (kind,)


def _agreed(known: list[str]) -> str:
    """Return the type that fits all of several types; empty if they contradict each other."""
    if len(known) < 2:
        return "".join(known)
    if any(kind.startswith("Literal[") for kind in known):
        return _one_label(known)
    if all(kind.startswith("{") or kind == "dict" for kind in known):
        return _one_record([kind for kind in known if kind.startswith("{")])
    for together, kind in _TOGETHER:
        if together.issuperset(known):
            return kind
    return ""


_TOGETHER: tuple[tuple[set[str], str], ...] = (
    ({"number", "int"}, "number"),
    ({"list", "dict"}, "dict"),
    ({"list", "list[str]"}, "list[str]"),
    ({"list", "list[number]"}, "list[number]"),
    ({"list", "str"}, "str"),
)


def _one_label(known: list[str]) -> str:
    """Return a type for all labels that several uses mention; with other uses, a number or any text, too."""
    labels = [kind for kind in known if kind.startswith("Literal[")]
    others = set(known).difference(labels)
    inner = ", ".join(dict.fromkeys(part for kind in labels for part in _label_parts(kind)))
    if others and others <= {"number", "int"}:
        return f"number | Literal[{inner}]"
    if not others <= {"str"}:
        return ""
    is_open = others or any(kind.endswith("| str") for kind in labels)
    return f"Literal[{inner}] | str" if is_open else f"Literal[{inner}]"


def _one_record(records: list[str]) -> str:
    """Return a record type with all fields that several uses mention."""
    fields: dict[str, list[str]] = {}
    for record in records:
        tree = ast.parse(record, mode="eval").body
        assert isinstance(tree, ast.Dict)
        for key, value in zip(tree.keys, tree.values, strict=True):
            fields.setdefault(ast.unparse(key) if key is not None else "", []).append(ast.unparse(value))
    merged = {name: merge(kind for kind in kinds if kind != "Any") or "Any" for name, kinds in fields.items()}
    return f"{{{', '.join(f'{name}: {kind}' for name, kind in merged.items())}}}"


def _label_parts(kind: str) -> list[str]:
    tree = ast.parse(kind.removesuffix(" | str"), mode="eval").body
    assert isinstance(tree, ast.Subscript)
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    return [ast.unparse(part) for part in parts]


def final_type(kind: str, named: str) -> str:
    """Return the final type. A bool by name stays a bool in arithmetic; a single label allows other strings, too."""
    if kind in ("truth", "None"):
        return "bool" if kind == "truth" else "Any | None"
    if not kind or (named == "bool" and kind in ("number", "int")):
        return named
    is_single = kind.startswith("Literal[") and kind.endswith("]") and len(_label_parts(kind)) == 1
    return f"{kind} | str" if is_single else kind


def literals(values: list[object], is_open: bool) -> str:
    """Return the type of one of some values; strings are labels. If open, it may be something else, too."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    kinds = {type(value) for value in known}
    if kinds == {str}:
        return f"Literal[{', '.join(map(repr, known))}]" + (" | str" if is_open else "")
    if kinds and kinds <= {int, float}:
        return "number"
    return "truth" if kinds == {bool} else ""


def type_of_sliced(kind: str) -> str:
    """Return the type of a value from that of its slice: the value's label, length and truth may differ."""
    if "Literal[" in kind:
        return "str"
    if kind.startswith("tuple["):
        return "list"
    return kind if kind in ("str", "list", "sized") or kind.startswith("list[") else ""


def type_with_attribute(attribute: str) -> str:
    """Return the type that has an attribute."""
    if attribute in _DATE_ATTRIBUTES:
        return "date"
    if attribute in _EITHER:
        return "Any"
    for names, kind in ((_STR_METHODS, "str"), (_LIST_METHODS, "list"), (_DICT_METHODS, "dict")):
        if attribute in names:
            return kind
    return ""


def pattern_values(pattern: ast.pattern) -> list[object]:
    if isinstance(pattern, ast.MatchOr):
        return [value for part in pattern.patterns for value in pattern_values(part)]
    if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
        return [pattern.value.value]
    return []


def is_total(statement: ast.Match) -> bool:
    return any(isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None for case in statement.cases)


def formatted(value: ast.FormattedValue) -> str:
    """`{x:.2f}` is a number, `{x:%Y-%m-%d}` a date."""
    spec = ast.unparse(value.format_spec).rstrip("'\"") if value.format_spec is not None else ""
    if "%" in spec[:-1]:
        return "date"
    return "number" if spec.endswith(("f", "d", "%", "e", "g", ",")) else ""


def copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body
