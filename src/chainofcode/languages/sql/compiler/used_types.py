"""Infers the type expected of a function's value from its place in a query. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence

from ...python.compiler.kinds import literals
from .tokens import Group, Node, SqlToken, parts, unquoted

_COMPARISONS = frozenset(["=", "==", "<>", "!=", "<", ">", "<=", ">="])
_ARITHMETIC = frozenset(["+", "-", "*", "/", "%"])
_ARGUMENTS = {
    **dict.fromkeys(("SUM", "AVG", "TOTAL", "ROUND", "ABS", "MEDIAN", "STDDEV", "VARIANCE", "CEIL", "FLOOR"), "number"),
    **dict.fromkeys(("LOWER", "UPPER", "LENGTH", "TRIM", "SUBSTR", "SUBSTRING", "REPLACE", "INSTR"), "str"),
    **dict.fromkeys(("BOOL_AND", "BOOL_OR", "COUNT_IF"), "truth"),
}


def kind_at(leaf: Sequence[Node], index: int, *, is_condition: bool, inside: str) -> str:
    """Return the type of the call at `index` of an expression without AND and OR; empty if nothing is known.

    `inside` is the function that the expression is an argument of.
    """
    before = leaf[index - 1] if index else None
    after = leaf[index + 2] if index + 2 < len(leaf) else None
    if before is None and after is None:
        return "truth" if is_condition else _ARGUMENTS.get(inside, "")
    return _by_next_operator(leaf, index + 2) or _by_previous_operator(leaf, index - 1)


def _by_next_operator(leaf: Sequence[Node], index: int) -> str:
    """Return the type that the operator after a call suggests."""
    if index >= len(leaf):
        return ""
    operator = leaf[index]
    word = operator.word
    if word == "NOT" and index + 1 < len(leaf):
        return _by_next_operator(leaf, index + 1)
    if word == "IN" and index + 1 < len(leaf) and isinstance(leaf[index + 1], Group):
        group = leaf[index + 1]
        assert isinstance(group, Group)
        values = [_literal(part) for part in parts(group.items)]
        return literals([value for value in values if value is not None], True) if None not in values else ""
    if word in ("LIKE", "ILIKE", "GLOB", "SIMILAR"):
        return "str"
    if word == "BETWEEN":
        return _of(_literal(leaf[index + 1 : index + 2]))
    if word == "IS":
        last = leaf[-1].word
        return "truth" if last in ("TRUE", "FALSE") else ""
    text = operator.text if isinstance(operator, SqlToken) else ""
    return _by_symbol(text, leaf[index + 1 :])


def _by_previous_operator(leaf: Sequence[Node], index: int) -> str:
    """Return the type that the operator before a call suggests."""
    if index < 1 or not isinstance(leaf[index], SqlToken):
        return "number" if index == 0 and getattr(leaf[0], "text", "") in ("-", "+") else ""
    operator = leaf[index]
    assert isinstance(operator, SqlToken)
    return _by_symbol(operator.text, leaf[index - 1 : index])


def _by_symbol(symbol: str, other: Sequence[Node]) -> str:
    if symbol in _COMPARISONS:
        return _of(_literal(other))
    if symbol in _ARITHMETIC:
        return "number"
    return "str" if symbol == "||" else ""


def _literal(items: Sequence[Node]) -> object:
    """Return the literal that nodes begin with; None for anything else."""
    nodes = list(items)
    sign = 1
    if len(nodes) > 1 and getattr(nodes[0], "text", "") == "-":
        sign, nodes = -1, nodes[1:]
    first = nodes[0] if nodes else None
    if not isinstance(first, SqlToken):
        return None
    if first.kind == "string":
        return unquoted(first)
    if first.kind == "number":
        try:
            return sign * float(first.text)
        except ValueError:
            return None
    return {"TRUE": True, "FALSE": False}.get(first.word)


def _of(value: object) -> str:
    if value is None:
        return ""
    return "truth" if isinstance(value, bool) else literals([value], False)


def labels_of_case(items: Sequence[Node]) -> str:
    """Return the type of the operand of CASE: one of the literals after WHEN."""
    values = [_literal(items[index + 1 : index + 3]) for index, item in enumerate(items) if item.word == "WHEN"]
    is_open = any(item.word == "ELSE" for item in items)
    return "" if None in values else literals(values, is_open)
