"""How much work each statement does itself: none if it states a literal or passes a value on.

The value of a hole is not Python's work. Nor is a literal in any notation, even if it is stored and taken out again, or
a condition with a fixed outcome. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .library import BUILDERS, PICKERS, RETYPERS
from .statements import prose_number
from .syntax import called_name, display_parts, is_target, root_name

# What a statement does: states a literal; passes a value on, perhaps reformatted; chooses one of several values;
# prepares the arguments of a hole; computes.
STATES, PASSES_ON, CHOOSES, PREPARES, WORKS = range(5)
_EMPTY = ("", b"", 0, None)
_PASSING = {  # expressions that have the value of one of their parts
    ast.FormattedValue: "value", ast.Starred: "value", ast.Await: "value", ast.NamedExpr: "value", ast.Lambda: "body",
    ast.Yield: "value", ast.YieldFrom: "value",
}  # fmt: skip


def works_by_statement(nodes: Iterable[ast.stmt], holes: Collection[str]) -> list[int]:
    """Return the work of each statement of a program, in source order."""
    statements, found = list(nodes), list[int]()
    for node in statements:
        try:
            found.append(statement_work(node, holes))
        except RecursionError:  # no real literal is nested that deep
            found.append(WORKS)
    for place in range(len(statements) - 2):
        if _is_swap(statements[place : place + 3]):
            found[place : place + 3] = [WORKS] * 3
    return found


def statement_work(statement: ast.stmt, holes: Collection[str]) -> int:
    """Return the work of a statement (of a compound one, the header): the most that any part of it does.

    `holes` are the names whose calls are not its own work, but that of the LM or of other statements.
    """
    if prose_number(statement) is not None:
        return PASSES_ON
    found = _header_work(statement, holes)
    if found is None:
        found = _line_work(statement, holes)
    return STATES if found is None else found  # else it declares, catches or jumps


def _header_work(statement: ast.stmt, holes: Collection[str]) -> int | None:
    """Return the work of the header of a compound statement; None for another statement."""
    match statement:
        case ast.If(body=body, orelse=[*others]) if list(map(ast.unparse, body)) == list(map(ast.unparse, others)):
            return STATES  # the same either way
        case ast.If() | ast.While():
            return condition_work(statement.test, holes)
        case ast.For() | ast.AsyncFor():
            return expression_work(statement.iter, holes)
        case ast.With() | ast.AsyncWith():
            return PASSES_ON
        case ast.Match():
            guards = [case.guard for case in statement.cases if case.guard is not None]
            return max(
                CHOOSES, expression_work(statement.subject, holes), *(condition_work(guard, holes) for guard in guards)
            )
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _most([*statement.args.defaults, *filter(None, statement.args.kw_defaults)], holes)
    return None


def _line_work(statement: ast.stmt, holes: Collection[str]) -> int | None:
    """Return the work of a simple statement; None for one without a value."""
    match statement:
        case ast.Assert():
            return condition_work(statement.test, holes)
        case ast.Raise(exc=ast.Call() as made):
            return _most([*made.args, *(keyword.value for keyword in made.keywords)], holes)
        case ast.AugAssign(op=ast.Add(), value=value) if _is_text(value):
            return max(PASSES_ON, expression_work(value, holes))
        case ast.AugAssign(target=target, op=op, value=value):
            return _combines(ast.BinOp(target, op, value), holes)
        case ast.Assign(targets=targets, value=value):
            return max(_stores(target, value, holes) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _stores(target, value, holes)
        case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
            return expression_work(value, holes)
    return None


def _stores(target: ast.expr, value: ast.expr, holes: Collection[str]) -> int:
    match target:
        case ast.Tuple() | ast.List() if isinstance(value, (ast.Tuple, ast.List)) and _moves(target.elts, value.elts):
            return WORKS
        case ast.Subscript(slice=key) if not is_fixed(key):
            return WORKS  # it builds a container
        case ast.Subscript() if takes_out(value):
            return WORKS  # moves an item from one place to another
    return expression_work(value, holes)


def _moves(targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> bool:
    """Whether values are swapped: `a, b = b, a`."""
    own, others = [ast.unparse(target) for target in targets], [ast.unparse(value) for value in values]
    return any(name in own and own.index(name) != place for place, name in enumerate(others))


def takes_out(node: ast.AST) -> bool:
    """Whether an item is taken out of a container: `d[k]`, `xs.pop()`."""
    parts = list(ast.walk(node))
    is_popped = any(isinstance(part, ast.Call) and called_name(part) in ("pop", "popleft") for part in parts)
    return is_popped or any(isinstance(part, ast.Subscript) for part in parts)


def _is_swap(three: Sequence[ast.stmt]) -> bool:
    """Whether statements swap values through a third variable: `t = a`, `a = b`, `b = t`."""
    names = []
    for statement in three:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=value)):
                names.append((target, value))
            case _:
                return False
    (kept, first), (changed, second), (last, source) = names
    return (changed, last, source) == (first, second, kept)


def _most(parts: Iterable[ast.AST], holes: Collection[str]) -> int:
    return max((expression_work(part, holes) for part in parts), default=STATES)


def expression_work(node: ast.AST, holes: Collection[str]) -> int:
    """Return the work of an expression: the most that any part of it does."""
    match node:
        case ast.BinOp():
            return _combines(node, holes)
        case ast.Call():
            return _calls(node, holes)
        case ast.Constant():
            return STATES
        case ast.Name():
            return PASSES_ON
        case ast.Attribute(value=inner):
            return max(PASSES_ON, expression_work(inner, holes))
        case ast.Subscript(value=inner, slice=key):
            return max(expression_work(inner, holes), key_work(key, holes))
        case ast.IfExp():
            return _selects(node, holes)
    if type(node) in _PASSING:
        passed = getattr(node, _PASSING[type(node)])
        return STATES if passed is None else expression_work(passed, holes)
    parts = display_parts(node)
    return _most(parts, holes) if parts is not None else _collects(node, holes)


def _collects(node: ast.AST, holes: Collection[str]) -> int:
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=ast.Constant()):
            return STATES
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() if not any(each.ifs for each in node.generators):
            made = WORKS if takes_out(node.elt) else expression_work(node.elt, holes)
            return max(made, _most([each.iter for each in node.generators], holes))
        case ast.BoolOp(op=ast.Or(), values=[ast.Constant(value=str(text)), *_]) if text:
            return STATES  # the rest is never evaluated
    return WORKS


def _selects(node: ast.IfExp, holes: Collection[str]) -> int:
    outcome = _known(node.test)
    if outcome is not None:
        return expression_work(node.body if outcome else node.orelse, holes)
    if ast.unparse(node.body) == ast.unparse(node.orelse):
        return expression_work(node.body, holes)
    return max(condition_work(node.test, holes), _most([node.body, node.orelse], holes))


def key_work(key: ast.expr, holes: Collection[str]) -> int:
    """Return the work of a key: an item at a fixed place is passed on, an item at any other place is chosen."""
    if is_fixed(key) or (not isinstance(key, ast.Slice) and expression_work(key, holes) == STATES):
        return STATES
    return WORKS if isinstance(key, ast.Slice) else max(CHOOSES, _moved(key, holes))


def is_fixed(key: ast.expr) -> bool:
    match key:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Tuple():
            return all(map(is_fixed, key.elts))
        case ast.Slice(lower=lower, upper=upper, step=None):
            return all(part is None or is_fixed(part) for part in (lower, upper))
    return False


def _moved(node: ast.expr, holes: Collection[str]) -> int:
    """Return the work of an index, without the addition or subtraction of a constant: `n - 1` chooses as `n` does."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ast.Constant) or ast.unparse(one).startswith("ord("):
                    return expression_work(other, holes)
    return expression_work(node, holes)


def condition_work(test: ast.expr, holes: Collection[str]) -> int:
    """Return the work of a condition: a condition with a fixed outcome, or a test for emptiness, computes nothing."""
    if _known(test) is not None:
        return STATES
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return condition_work(inner, holes)
        case ast.BoolOp(values=values):
            undecided = [value for value in values if _known(value) is None]
            most = max((condition_work(value, holes) for value in undecided), default=STATES)
            return most if len(undecided) < 2 else WORKS
        case ast.Compare(ops=[_]):
            return _compares(test, holes)
        case ast.Call() if called_name(test) in ("len", "isinstance"):
            return max(CHOOSES, _most(test.args, holes))
    return max(CHOOSES, expression_work(test, holes))


def _compares(test: ast.Compare, holes: Collection[str]) -> int:
    """Return the work of a comparison: with a label or an empty value, it only chooses."""
    operands = [test.left, *test.comparators]
    sides = [  # `len(xs) > 0` does not count
        side.args[0] if isinstance(side, ast.Call) and ast.unparse(side.func) == "len" and len(side.args) == 1 else side
        for side in operands
    ]
    fixed = [side for side in sides if isinstance(side, ast.Constant)]
    if fixed and fixed[0].value in _EMPTY:
        return max(CHOOSES, _most(sides, holes))
    if fixed and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        return max(CHOOSES, _most(operands, holes))
    return WORKS


def _known(test: ast.expr) -> bool | None:
    """Return the outcome that a condition has for all values, if its syntax shows one."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return None if (outcome := _known(inner)) is None else not outcome
        case ast.BoolOp(op=op, values=values):
            decisive = isinstance(op, ast.Or)
            parts = [_known(value) for value in values]
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]) if (
            ast.unparse(left) == ast.unparse(right)
        ):
            return True
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.IsNot() | ast.Lt() | ast.Gt()], comparators=[right]) if (
            ast.unparse(left) == ast.unparse(right)
        ):
            return False
    return None


def _combines(node: ast.BinOp, holes: Collection[str]) -> int:
    """Return the work of an operation: concatenated text is passed on, and so is a number that stays the same."""
    left, right = node.left, node.right
    if isinstance(node.op, (ast.Add, ast.Mod)) and (_is_text(left) or _is_text(right)):
        return _most([left, right], holes)
    left_number, right_number = _number(left), _number(right)
    match node.op:
        case ast.Add() | ast.Sub() if right_number == 0:
            return expression_work(left, holes)
        case ast.Add() if left_number == 0:
            return expression_work(right, holes)
        case ast.Mult() if left_number == 0 or right_number == 0:
            return STATES
        case ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Pow() if right_number == 1:
            return expression_work(left, holes)
        case ast.Mult() if left_number == 1:
            return expression_work(right, holes)
        case ast.Div() | ast.FloorDiv() | ast.Mod() if right_number == 0:
            return STATES
        case ast.Sub() | ast.Div() | ast.FloorDiv() | ast.BitXor() if ast.unparse(left) == ast.unparse(right):
            return STATES
    return WORKS


def _number(node: ast.expr) -> float | None:
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return node.value if is_number else None  # type: ignore[attr-defined]


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            return _is_text(left) or _is_text(right)
    return isinstance(node, ast.JoinedStr)


def _calls(node: ast.Call, holes: Collection[str]) -> int:
    name, function = called_name(node), node.func
    parts: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
    if name == "eval" and len(parts) == 1 and isinstance(parts[0], ast.Constant):
        try:
            return expression_work(ast.parse(str(parts[0].value).strip(), mode="eval").body, holes)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return WORKS
    if name == "chr" and len(node.args) == 1:
        return _moved(node.args[0], holes)
    if isinstance(function, ast.Attribute):
        parts.append(function.value)
    if name in holes:  # its arguments may be computed, its value is not
        return PREPARES if _most(parts, holes) >= PREPARES else PASSES_ON
    if name in BUILDERS:
        return WORKS if any(map(takes_out, node.args)) else _most(parts, holes)
    if _keeps_values(node, parts):
        return _most(parts, holes)
    if isinstance(function, (ast.Call, ast.Lambda, ast.Subscript)):
        return max(PASSES_ON, _most([*parts, function], holes))
    return WORKS


def _keeps_values(node: ast.Call, parts: Sequence[ast.AST]) -> bool:
    """Whether a call only formats, stores or picks its arguments."""
    name, function = called_name(node), node.func
    if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "random":
        return True
    is_class = name is not None and name[:1].isupper() and name != "Counter"
    return is_class or name in RETYPERS or (name in PICKERS and _are_alike(parts))


def _are_alike(parts: Sequence[ast.AST]) -> bool:
    match parts:
        case [ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements)]:
            return len({ast.unparse(element) for element in elements}) < 2
    return len(parts) > 1 and len(set(map(ast.unparse, parts))) < 2


# --- programs that only state an answer ---------------------------------------------------------------------------


def states_its_answer(tree: ast.Module) -> bool:
    """Whether the answer is only a literal: `answer = 42`, directly or through other names.

    A literal that is chosen by a condition, or changed later, counts as computed.
    """
    changed = set(_changed(tree))
    if "answer" in changed:
        return False
    assigned: dict[str, list[ast.expr | None]] = {}  # to each name; None: in another way, or not at the top level
    top = set(tree.body)
    for node in ast.walk(tree):
        is_plain = isinstance(node, (ast.Assign, ast.AnnAssign)) and node in top
        for name in _targets(node):
            assigned.setdefault(name, []).append(node.value if is_plain else None)  # type: ignore[attr-defined]
    single = {name: found[0] for name, found in assigned.items() if len(found) == 1 and name not in changed}
    stated = assigned.get("answer", [])
    if len(stated) > 1:
        return False
    stated = stated or [*_printed(tree)]
    return bool(stated) and all(_is_literal(value, single, 0) for value in stated)


def _changed(tree: ast.Module) -> Iterator[str | None]:
    """Names of objects changed in place, or bound in an expression: `xs.append(…)`, `d[k] = …`, `(n := …)`."""
    for node in ast.walk(tree):
        if is_target(node):
            yield root_name(node)
        match node:
            case ast.NamedExpr(target=target):
                yield target.id
            case ast.Call(func=function, args=args):  # a function may change its arguments
                yield root_name(function) if isinstance(function, ast.Attribute) else None
                yield from (arg.id for arg in args if isinstance(arg, ast.Name))


def _printed(tree: ast.Module) -> Sequence[ast.expr]:
    """Return the last expression; of a `print`, the printed arguments."""
    match tree.body[-1:]:
        case [ast.Expr() as last] if prose_number(last) is not None:
            return []
        case [ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=printed))]:
            return printed
        case [ast.Expr(value=value)]:
            return [value]
    return []


def _targets(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.stmt):
        return []
    parts = [part for target in targets if target is not None for part in ast.walk(target)]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _is_literal(node: ast.expr | None, values: Mapping[str, ast.expr | None], depth: int) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return depth < 20 and _is_literal(values.get(name), values, depth + 1)
        case ast.UnaryOp(operand=inner) | ast.FormattedValue(value=inner):
            return _is_literal(inner, values, depth)
    is_retyped = isinstance(node, ast.Call) and called_name(node) in ("str", "int", "float", "bool")
    parts = node.args if is_retyped and isinstance(node.func, ast.Name) else display_parts(node)  # type: ignore[union-attr]
    return parts is not None and all(_is_literal(part, values, depth) for part in parts)
