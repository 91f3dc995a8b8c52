"""Whether a program works its answer out, or only states one that its author had in mind. Standard library only."""

from __future__ import annotations

import ast

from .statements import prose_number


def states_its_answer(tree: ast.Module) -> bool:
    """Whether the answer is a literal with nothing behind it: `answer = 42`, also by way of other names.

    A literal that is chosen by a condition, or changed later, counts as worked out.
    """
    if "answer" in _changed(tree):
        return False
    answers = [node for node in ast.walk(tree) if "answer" in _targets(node)]
    stated = _assigned(answers, tree) if answers else _printed(tree)
    values = _single_values(tree)
    return bool(stated) and all(_is_literal(value, values, 0) for value in stated)


def _assigned(answers: list[ast.AST], tree: ast.Module) -> list[ast.expr]:
    """The value of `answer`, where it is assigned once and at the top."""
    last = answers[0]
    if len(answers) > 1 or last not in tree.body or not isinstance(last, (ast.Assign, ast.AnnAssign)):
        return []
    return [last.value] if last.value is not None else []


def _printed(tree: ast.Module) -> list[ast.expr]:
    """The value of the last expression; of a `print`, what it prints."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or prose_number(last) is not None:
        return []
    value = last.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        return value.args
    return [value]


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.stmt):
        return []
    return [
        name.id for target in targets if target is not None for name in ast.walk(target) if isinstance(name, ast.Name)
    ]


def _changed(tree: ast.Module) -> set[str]:
    """Names of objects that may be changed in place, or bound by the way: `xs.append(…)`, `d[k] = …`, `(n := …)`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr):
            names.add(node.target.id)
        is_store = isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        root: ast.AST = node.func if is_method else node  # type: ignore[attr-defined]
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if (is_store or is_method) and isinstance(root, ast.Name):
            names.add(root.id)
        if isinstance(node, ast.Call):  # what is handed to a function may come back changed
            names |= {arg.id for arg in node.args if isinstance(arg, ast.Name)}
    return names


def _single_values(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that are assigned once, at the top, and what they are assigned."""
    values: dict[str, list[ast.expr | None]] = {}
    top = set(tree.body)
    for node in ast.walk(tree):
        for name in _targets(node):
            is_plain = isinstance(node, (ast.Assign, ast.AnnAssign)) and node in top
            values.setdefault(name, []).append(node.value if is_plain else None)  # type: ignore[attr-defined]
    changed = _changed(tree)
    single = {name: found[0] for name, found in values.items() if len(found) == 1 and name not in changed}
    return {name: value for name, value in single.items() if value is not None}


def _is_literal(node: ast.expr, values: dict[str, ast.expr], depth: int) -> bool:
    if isinstance(node, ast.Name):
        return node.id in values and depth < 20 and _is_literal(values[node.id], values, depth + 1)
    parts = _literal_parts(node)
    return parts is not None and all(_is_literal(part, values, depth) for part in parts)


def _literal_parts(node: ast.expr) -> list[ast.expr] | None:
    """The expressions that must be literals for this one to be; None for one that works something out."""
    match node:
        case ast.Constant():
            return []
        case ast.UnaryOp(operand=inner):
            return [inner]
        case ast.Tuple() | ast.List() | ast.Set():
            return node.elts
        case ast.Dict():
            return [*filter(None, node.keys), *node.values]
        case ast.JoinedStr():
            return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        case ast.Call(func=ast.Name(id="str" | "int" | "float" | "bool")):
            return node.args
    return None
