"""AST → AST: speculative code, which runs without the values that have not arrived. A shadow of the program runs it.

A value that has not arrived is a promise (guest/shadow/promises.py). A statement that needs the value is skipped, and
everything that it would have written becomes a promise. If that statement could have left the block, the rest of the
block is skipped with it. Names that start with `$` are bound by the guest. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .analyse import Analysis
from .library import FRAME_READERS, MUTATORS
from .record import Data
from .statements import executed, is_docstring, mutated, prose_number, ways_out
from .syntax import Function, Scope, called_name
from .taint import Taint
from .tree_making import assign, assign_from_delta, at, call, load

_PLAIN = (ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom)
_TYPE_ALIAS = getattr(ast, "TypeAlias", ast.Pass)  # Python ≥ 3.12
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
_UNCOUNTED = "$uncounted"  # a loop that no unknown condition can leave


def speculate(found: Analysis, numbers: dict[ast.stmt, int], prose_names: dict[int, frozenset[str]]) -> None:
    """Rewrite an analysed tree in place. `numbers`: statement numbers; `prose_names`: the names that prose may set."""
    lowering = _Speculation(found, numbers, prose_names)
    body = found.syntax.tree.body
    found.syntax.tree.body = lowering.block(body, _Around(found.names.module))
    ast.fix_missing_locations(found.syntax.tree)


class _Around(Data):
    """The context of a block: its scope, and the variable that counts the turns of the innermost loop."""

    scope: Scope
    loop: str = ""
    is_function: bool = False
    is_generator: bool = False

    def within(self, loop: str) -> _Around:
        return _Around(self.scope, loop, self.is_function, self.is_generator)


class _Speculation:
    def __init__(self, found: Analysis, numbers: dict[ast.stmt, int], prose_names: dict[int, frozenset[str]]) -> None:
        self._found, self._numbers, self._prose_names = found, numbers, prose_names
        self._set_by_prose = {name for names in prose_names.values() for name in names}
        self._taint = Taint(found, self._set_by_prose)
        self._expressions = _Expressions(found, self._taint)
        self._outer_names: dict[Scope, set[str]] = {}  # the names that a function must declare `nonlocal`
        self._loops = 0
        self._mutators = MUTATORS | found.syntax.functions.keys()  # methods of the program may change their objects
        self._global_writes = {
            name: self._writes_of_functions(functions) for name, functions in found.syntax.functions.items()
        }

    # --- blocks -----------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], around: _Around) -> list[ast.stmt]:
        lowered: list[ast.stmt] = []
        for index, statement in enumerate(body):
            if index == 0 and is_docstring(statement):
                lowered.append(statement)
            else:
                lowered += self._statement(statement, body[index + 1 :], around)
        return lowered

    def _statement(self, statement: ast.stmt, rest: Sequence[ast.stmt], around: _Around) -> list[ast.stmt]:
        if isinstance(statement, (*_PLAIN, _TYPE_ALIAS)) or self._is_certain(statement):
            return [statement]
        skipped: list[ast.stmt] = [_do("$skipped", ast.Constant(self._numbers[statement]))]
        skipped += self._forget([statement], around.scope)
        skipped += self._leave(statement, rest, around)
        number = prose_number(statement)
        if number is not None:
            lowered = self._prose(statement, around.scope)
        else:
            lower = getattr(self, f"_{type(statement).__name__.removeprefix('Async')}", self._simple)
            lowered = lower(statement, around)
        handler = ast.ExceptHandler(load("$Unknown"), None, skipped)
        return [at(statement, ast.Try(lowered, [handler], [], []))]

    def _is_certain(self, statement: ast.stmt) -> bool:
        """Whether a statement cannot meet a promise."""
        is_simple = isinstance(statement, _SIMPLE) and prose_number(statement) is None
        return is_simple and not self._taint.touches(statement)

    def _leave(self, statement: ast.stmt, rest: Sequence[ast.stmt], around: _Around) -> list[ast.stmt]:
        """Return the code to run after skipping a statement that could have left its block."""
        if isinstance(statement, ast.Return) and not around.is_generator:
            return [ast.Return(call("$unknown"))]
        ways = ways_out([statement])
        if "yield" in ways or isinstance(statement, (ast.Return, ast.Raise)):
            return [ast.Raise(None, None)]  # unknown to the caller or consumer, too
        if around.loop and ways:
            return self._leave_turn(ways, rest, around)
        if "return" not in ways:
            return []
        return [ast.Raise(None, None) if around.is_generator else ast.Return(call("$unknown"))]

    def _leave_turn(self, ways: set[str], rest: Sequence[ast.stmt], around: _Around) -> list[ast.stmt]:
        """Return the code that skips the rest of a loop's body, and counts that the loop may have ended."""
        left = [_do("$skipped", ast.Constant(self._numbers[line])) for line in rest]
        left += self._forget(rest, around.scope)
        if ways != {"continue"} and around.loop != _UNCOUNTED:
            left.append(_do_method(around.loop, "doubt", ast.Constant("return" in ways)))
        return [*left, ast.Continue()]

    # --- what becomes unknown ---------------------------------------------------------------------------------

    def _forget(self, statements: Iterable[ast.stmt], scope: Scope) -> list[ast.stmt]:
        """Return statements that assign promises to everything that skipped statements would have written."""
        names: dict[str, None] = {}
        places: dict[str, ast.expr] = {}
        for statement in statements:
            for line in executed(statement):
                names.update(dict.fromkeys(self._bound_by(line)))
                for place in self._changed_by(line):
                    if isinstance(place, ast.Name):
                        names[place.id] = None
                    elif isinstance(place, (ast.Attribute, ast.Subscript)):
                        places[ast.dump(place)] = place
        forgotten = [self._forget_name(name, scope) for name in sorted(names)]
        return [one for one in forgotten if one is not None] + [_forget_place(places[text]) for text in sorted(places)]

    def _bound_by(self, statement: ast.stmt) -> Iterator[str]:
        """Yield the names that a statement binds, functions that it calls included."""
        facts = self._found.facts.of(statement)
        yield from facts.binds
        if prose_number(statement) is not None:
            yield from self._prose_names.get(self._numbers[statement], ())
        for made in facts.calls:
            if isinstance(made.func, ast.Name):
                yield from self._global_writes.get(made.func.id, ())

    def _changed_by(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """Yield expressions whose objects a statement may change in place."""
        for node in self._found.facts.of(statement).immediate:
            place = mutated(node, self._mutators)
            while isinstance(place, ast.Call):  # `xs.copy().append(…)`
                place = place.func
            if place is not None:
                yield place

    def _writes_of_functions(self, functions: Sequence[Function | ast.Lambda]) -> list[str]:
        """Return the module's names that functions write when they are called."""
        names: set[str] = set()
        for function in functions:
            if isinstance(function, ast.Lambda):
                continue
            scope = self._found.names.scope_of[function.body[0]]
            names |= scope.global_names
            for node in ast.walk(function):
                place = mutated(node, self._mutators)
                if isinstance(place, ast.Name) and self._home(place.id, scope) is self._found.names.module:
                    names.add(place.id)
        return sorted(names)

    def _home(self, name: str, scope: Scope) -> Scope | None:
        return self._found.names.resolve(name, scope)

    def _forget_name(self, name: str, scope: Scope) -> ast.stmt | None:
        """Return a statement that assigns a promise to a name, if it is a variable of the module or of a function."""
        if name.startswith("$"):
            return None
        home = self._home(name, scope)
        forget = assign(name, call("$unknown"))
        if home is None:
            return forget if name in self._set_by_prose else None
        if home is scope or name in scope.global_names or name in scope.nonlocal_names:
            return forget
        if home.kind == "module":
            return _do("$forget", ast.Constant(name))
        if home.kind != "function" or scope.kind != "function":
            return None
        self._outer_names.setdefault(scope, set()).add(name)
        return forget

    # --- statements -------------------------------------------------------------------------------------------

    def _simple(self, statement: ast.stmt, around: _Around) -> list[ast.stmt]:
        self._expressions.rewrite(statement)
        return [statement]

    def _AnnAssign(self, node: ast.AnnAssign, around: _Around) -> list[ast.stmt]:
        self._expressions.rewrite(node.target)
        if node.value is not None:
            node.value = self._expressions.careful(node.value)
        return [node]

    def _prose(self, statement: ast.stmt, scope: Scope) -> list[ast.stmt]:
        """Assign the delta of a line of prose, if it is known."""
        number = self._numbers[statement]
        names = [name for name in self._prose_names.get(number, ()) if not name.startswith("$")]
        return assign_from_delta(call("$emulate", ast.Constant(number)), names)

    def _If(self, node: ast.If, around: _Around) -> list[ast.stmt]:
        node.test = self._expressions.careful(node.test)
        node.body, node.orelse = self.block(node.body, around), self.block(node.orelse, around)
        return [node]

    def _For(self, node: ast.For | ast.AsyncFor, around: _Around) -> list[ast.stmt]:
        node.iter = self._expressions.careful(node.iter)
        if isinstance(node, ast.For) and not ways_out(node.body) - {"continue"}:
            node.iter = call("$read_all", node.iter)
        self._expressions.rewrite(node.target)
        return self._loop(node, around)

    def _While(self, node: ast.While, around: _Around) -> list[ast.stmt]:
        node.test = self._expressions.careful(node.test)
        return self._loop(node, around)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, around: _Around) -> list[ast.stmt]:
        ways = ways_out(node.body)
        if not ways - {"continue"} or not self._taint.touches(node):
            inner = around.within(_UNCOUNTED) if ways else around.within("")
            node.body, node.orelse = self.block(node.body, inner), self.block(node.orelse, around)
            return [node]
        self._loops += 1
        loop = f"$loop{self._loops}"
        forget = self._forget([node], around.scope)
        ends = ast.If(_method(loop, "ends"), [ast.Break()], [])
        node.body = [ends, *self.block(node.body, around.within(loop))]
        if node.orelse:
            is_certain = ast.UnaryOp(ast.Not(), _attribute(loop, "is_doubtful"))
            node.orelse = [ast.If(is_certain, self.block(node.orelse, around), [])]
        after = [*forget, *self._leave_after(loop, ways, around)] or [ast.Pass()]
        start = assign(loop, call("$Loop"))
        return [start, node, ast.If(_attribute(loop, "is_doubtful"), after, [])]

    def _leave_after(self, loop: str, ways: set[str], around: _Around) -> list[ast.stmt]:
        """Return the code after a loop that could have returned: nothing after it is certain."""
        if "return" not in ways:
            return []
        if around.loop:
            leave: list[ast.stmt] = [_do_method(around.loop, "doubt", ast.Constant(True)), ast.Continue()]
        elif around.is_generator:
            leave = [ast.Raise(call("$Unknown"), None)]
        else:
            leave = [ast.Return(call("$unknown"))]
        return [ast.If(_attribute(loop, "may_return"), leave, [])]

    def _With(self, node: ast.With | ast.AsyncWith, around: _Around) -> list[ast.stmt]:
        for item in node.items:
            item.context_expr = self._expressions.careful(item.context_expr)
        node.body = self.block(node.body, around)
        return [node]

    def _Try(self, node: ast.Try | ast.TryStar, around: _Around) -> list[ast.stmt]:
        node.body = self.block(node.body, around)
        for handler in node.handlers:
            handler.body = self.block(handler.body, around)
        node.orelse, node.finalbody = self.block(node.orelse, around), self.block(node.finalbody, around)
        if isinstance(node, ast.Try) and node.handlers:
            own = ast.ExceptHandler(load("$Leaving"), None, [ast.Raise(None, None)])
            node.handlers.insert(0, own)  # the program's `except:` must not catch it
        return [node]

    _TryStar = _Try

    def _Match(self, node: ast.Match, around: _Around) -> list[ast.stmt]:
        node.subject = call("$need", self._expressions.careful(node.subject))
        for case in node.cases:
            if case.guard is not None:
                case.guard = self._expressions.careful(case.guard)
            case.body = self.block(case.body, around)
        return [node]

    def _FunctionDef(self, node: Function, around: _Around) -> list[ast.stmt]:
        scope = self._found.names.scope_of[node.body[0]]
        yields = "yield" in ways_out(node.body)
        body = self.block(node.body, _Around(scope, "", True, yields))
        outer = sorted(self._outer_names.get(scope, ()))
        if outer:
            body.insert(1 if is_docstring(body[0]) else 0, ast.Nonlocal(outer))
        node.body = body
        node.decorator_list = [self._expressions.careful(decorator) for decorator in node.decorator_list]
        node.args.defaults = [self._expressions.careful(default) for default in node.args.defaults]
        node.args.kw_defaults = [d and self._expressions.careful(d) for d in node.args.kw_defaults]
        return [node]

    def _ClassDef(self, node: ast.ClassDef, around: _Around) -> list[ast.stmt]:
        scope = self._found.names.scope_of[node.body[0]]
        node.body = self.block(node.body, _Around(scope))
        return [node]


class _Expressions(ast.NodeTransformer):
    """Rewrites calls, items and elements so that the value of an unknown part is a promise."""

    def __init__(self, found: Analysis, taint: Taint) -> None:
        self._scope_of, self._taint = found.names.scope_of, taint

    def careful(self, node: ast.expr) -> ast.expr:
        """Rewrite an expression if it may meet a promise."""
        careful: ast.expr = self.visit(node) if self._taint.touches(node) else node
        return careful

    def rewrite(self, node: ast.AST) -> None:
        """Rewrite all expressions in a statement or target, if they may meet a promise."""
        if self._taint.touches(node):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if called_name(node) in FRAME_READERS or (isinstance(node.func, ast.Name) and node.func.id.startswith("$")):
            return node
        return at(node, ast.Call(load("$call"), [node.func, *node.args], node.keywords))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return at(node, ast.Call(load("$item"), [node.value, _index(node.slice)], []))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        same: ast.expr = at(node, call("$same", node.left, node.comparators[0]))
        return same if isinstance(node.ops[0], ast.Is) else at(node, ast.UnaryOp(ast.Not(), same))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return at(node, call("$fstring", *map(_text_part, node.values)))

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = _guarded(node.body)
        return node

    def visit_comprehension_of(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.AST:
        scope = self._scope_of.get(node)
        is_simple = scope is not None and scope.kind != "class" and not _is_bound_to_its_frame(node)
        self.generic_visit(node)
        if not is_simple or any(generator.is_async for generator in node.generators):
            return node
        has_conditions = any(generator.ifs for generator in node.generators)
        for generator in node.generators:
            generator.ifs = [call("$test", load("$missing"), _thunk(condition)) for condition in generator.ifs]
        if isinstance(node, ast.GeneratorExp):
            node.elt = _guarded(node.elt)
            return at(node, call("$Lazy", _thunk(node, "$missing"))) if has_conditions else node
        elements = ast.ListComp(_guarded_element(node), node.generators)
        make = {ast.ListComp: "$list", ast.SetComp: "$set", ast.DictComp: "$dict"}[type(node)]
        return at(node, call("$collect", load(make), _thunk(elements, "$missing")))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of


def _is_bound_to_its_frame(node: ast.AST) -> bool:
    """Whether an expression cannot be moved into a function of its own."""
    return any(
        isinstance(child, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))
        or (isinstance(child, ast.Call) and called_name(child) in FRAME_READERS)
        for child in ast.walk(node)
    )


# --- making nodes -------------------------------------------------------------------------------------------------


def _do(name: str, *arguments: ast.expr) -> ast.stmt:
    return ast.Expr(call(name, *arguments))


def _attribute(variable: str, name: str) -> ast.expr:
    return ast.Attribute(load(variable), name, ast.Load())


def _method(variable: str, name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_attribute(variable, name), list(arguments), [])


def _do_method(variable: str, name: str, *arguments: ast.expr) -> ast.stmt:
    return ast.Expr(_method(variable, name, *arguments))


def _thunk(body: ast.expr, *parameters: str) -> ast.Lambda:
    arguments = ast.arguments([], [ast.arg(name) for name in parameters], None, [], [], None, [])
    return ast.Lambda(arguments, body)


def _guarded(node: ast.expr) -> ast.expr:
    if isinstance(node, (ast.Name, ast.Constant)) or _is_bound_to_its_frame(node):
        return node
    return at(node, call("$guard", _thunk(node)))


def _guarded_element(node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.expr:
    if isinstance(node, ast.DictComp):
        return ast.Tuple([_guarded(node.key), _guarded(node.value)], ast.Load())
    return _guarded(node.elt)


def _index(node: ast.expr) -> ast.expr:
    """Return an index as an expression: `slice(a, b, None)` for `x[a:b]`."""
    if isinstance(node, ast.Slice):
        parts = [part if part is not None else ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        return at(node, call("$slice", *parts))
    if isinstance(node, ast.Tuple):
        return at(node, ast.Tuple([_index(element) for element in node.elts], ast.Load()))
    return node


def _text_part(part: ast.expr) -> ast.expr:
    if not isinstance(part, ast.FormattedValue):
        return part
    form = part.format_spec if part.format_spec is not None else ast.Constant("")
    return ast.Tuple([part.value, ast.Constant(part.conversion), form], ast.Load())


def _forget_place(place: ast.expr) -> ast.stmt:
    """Assign a promise to `self.items` or `table[key]`, if it can be reached."""
    import copy  # imported lazily: few programs need it

    target = copy.deepcopy(place)
    target.ctx = ast.Store()  # type: ignore[attr-defined]
    forget = ast.Assign([target], call("$unknown"))
    return ast.Try([forget], [ast.ExceptHandler(load("$BaseException"), None, [ast.Pass()])], [], [])
