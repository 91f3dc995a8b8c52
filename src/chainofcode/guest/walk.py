"""Walks over a program without running it: statement by statement, with what is known. See scout.py.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

from ..program.ahead import Ahead, each
from ..program.hidden import built_into, compiled
from ..program.scopes import Comprehension, Function
from ..program.statements import prose_number
from ..program.syntax import called_name
from .iterations import is_followed
from .places import FILENAME
from .plain import is_plain
from .units import Env, Loop, Unit
from .watch import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from collections.abc import Callable
    from typing import Any

_MAX_DEPTH = 6  # of functions of the program, each called by the one before
_MAX_TURNS = 200  # of a `while`
_MAX_HOLES = 8  # in an expression that is evaluated as a whole: of longer ones only the parts
_PLAIN = (int, float, str, bool, bytes, complex, type(None))


class Walker:
    """Walks units of one program."""

    def __init__(self, ahead: Ahead, module: dict[str, Any]) -> None:
        self.evaluate: Callable[[Callable[..., Any], Sequence[Any]], Any] = lambda function, values: Env.UNKNOWN
        self.ahead, self._module = ahead, Env({}, None, real=module)
        self.hidden: dict[str, Any] = {}  # what lowering calls
        self._codes: dict[ast.AST, tuple[Callable[..., Any], tuple[str, ...], frozenset[str]] | None] = {}
        self._unit = Unit([], self._module)
        self._path: tuple[ast.AST, ...] = ()  # the calls of the program's functions that it is in

    def env_of(self, frame: FrameType) -> Env:
        """What is needed of a frame's names as it is now, for the program goes on; only data, which nobody misses."""
        is_module = frame.f_locals is frame.f_globals
        seen = frame.f_globals if is_module else names_of(frame)
        told = {name: seen[name] if is_plain(seen[name]) else Env.UNKNOWN for name in self.ahead.needed if name in seen}
        return Env(told, self._module, is_local=not is_module)

    def loop(self, index: int, items: Iterator[Any], env: Env, real: Any = None) -> Loop:
        syntax = self.ahead.loops[index]
        made = Loop(syntax, items, env, self.ahead.may_leave(syntax))
        made.real, made.is_known = real, real is not None
        return made

    # --- statements -------------------------------------------------------------------------------------------

    def walk(self, unit: Unit) -> None:
        self._unit, self._path = unit, ()
        if unit.loop is not None:
            self._turn(unit.loop, Env({}, unit.env))
        else:
            self._block(unit.statements, Env({}, unit.env))
        if unit.loop is not None and unit.loops:
            unit.loop.is_fruitful()

    def _turn(self, loop: Loop, env: Env) -> None:
        node, item = loop.syntax.node, env.get("$item")
        if isinstance(node, ast.For):
            body = self.ahead.block(node)
            for line in body:
                env.forget(self.ahead.touched(line))
            self._bind(node.target, item, env)
            self._block(body, env)
        elif isinstance(node, ast.comprehension):
            self._element(node, item, env)
        elif loop.syntax.function is not None:
            self._apply(loop.syntax.function, item, env)

    def _block(self, block: Sequence[ast.stmt], env: Env) -> bool:
        """Walk statements; False where the rest may not be reached."""
        return all(self._statement(statement, env) for statement in block)

    def _statement(self, node: ast.stmt, env: Env) -> bool:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            goes_on: bool = method(node, env)
            return goes_on
        if self.ahead.holds(node):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._visit(child, env)
        env.forget(self.ahead.touched(node))
        return not isinstance(node, (ast.Raise, ast.Break, ast.Continue, ast.Match, ast.AsyncFor))

    def _Expr(self, node: ast.Expr, env: Env) -> bool:
        if prose_number(node) is not None:
            return False  # it may change anything
        if self.ahead.holds(node):
            is_last = isinstance(node.value, ast.Call) and called_name(node.value) == "$last"
            self._visit(node.value.args[0] if is_last else node.value, env)  # type: ignore[attr-defined]
        env.forget(self.ahead.touched(node))
        return True

    def _Return(self, node: ast.Return, env: Env) -> bool:
        if node.value is not None and self.ahead.holds(node):
            self._visit(node.value, env)
        return False

    def _Assign(self, node: ast.Assign, env: Env) -> bool:
        is_needed = self.ahead.holds(node) or any(
            isinstance(name, ast.Name) and name.id in self.ahead.needed
            for target in node.targets
            for name in ast.walk(target)
        )
        value = self._visit(node.value, env) if is_needed else Env.UNKNOWN
        for target in node.targets:
            if self.ahead.holds(target):
                self._inside(target, env)
        env.forget(self.ahead.touched(node))
        for target in node.targets:
            self._bind(target, value, env)
        return True

    def _AnnAssign(self, node: ast.AnnAssign, env: Env) -> bool:
        value = self._visit(node.value, env) if node.value is not None else Env.UNKNOWN
        env.forget(self.ahead.touched(node))
        self._bind(node.target, value, env)
        return True

    def _AugAssign(self, node: ast.AugAssign, env: Env) -> bool:
        if self.ahead.holds(node.target):
            self._inside(node.target, env)
        value = self._visit(node.value, env)
        old = env.get(node.target.id) if isinstance(node.target, ast.Name) else Env.UNKNOWN
        env.forget(self.ahead.touched(node))
        if isinstance(node.target, ast.Name) and type(old) in _PLAIN and type(value) in _PLAIN:
            read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            sum_ = ast.copy_location(ast.BinOp(read, node.op, ast.Name("$value", ast.Load())), node)
            env.names[node.target.id] = self._calculated(node, sum_, old, value)
        return True

    def _calculated(self, node: ast.AugAssign, sum_: ast.expr, old: Any, value: Any) -> Any:
        code = self._codes.get(node)
        if code is None:
            names = (sum_.left.id, "$value")  # type: ignore[attr-defined]
            code = self._codes[node] = (self._compiled(sum_, names), names, frozenset())
        return self.evaluate(code[0], (old, value))

    def _If(self, node: ast.If, env: Env) -> bool:
        test = self._visit(node.test, env)
        if type(test) in _PLAIN or type(test) in (list, dict, tuple, set):
            return self._block(self.ahead.block(node, "body" if test else "orelse"), env)
        env.forget(self.ahead.touched(node))
        return not self.ahead.leaves(node)

    def _For(self, node: ast.For, env: Env) -> bool:
        if node in self.ahead.index:
            items = self._visit(self._iterable(node), env)
            if is_followed(items):
                self._open_loop(node, items, env)
        env.forget(self.ahead.touched(node))
        self._block(self.ahead.block(node, "orelse"), env)
        return not self.ahead.leaves(node, ast.Return, ast.Raise)

    def _While(self, node: ast.While, env: Env) -> bool:
        for _ in range(_MAX_TURNS if self.ahead.holds(node) else 0):
            test = self._visit(node.test, env)
            if type(test) not in _PLAIN:
                break
            if not test:
                return self._block(self.ahead.block(node, "orelse"), env)
            if not self._block(self.ahead.block(node), env):
                break
        env.forget(self.ahead.touched(node))
        return not self.ahead.leaves(node, ast.Return, ast.Raise)

    def _With(self, node: ast.With, env: Env) -> bool:
        for item in node.items:
            if self.ahead.holds(item):
                self._visit(item.context_expr, env)
        env.forget(self.ahead.touched(node))
        goes_on = self._block(self.ahead.block(node), env)
        env.forget(self.ahead.touched(node))
        return goes_on

    def _Try(self, node: ast.Try, env: Env) -> bool:
        self._block(self.ahead.block(node), env)
        env.forget(self.ahead.touched(node))
        return not self.ahead.leaves(node)

    _TryStar = _Try

    def _FunctionDef(self, node: Function, env: Env) -> bool:
        return True

    _ClassDef = _AsyncFunctionDef = _Import = _ImportFrom = _Global = _Nonlocal = _Pass = _FunctionDef

    def _bind(self, target: ast.expr, value: Any, env: Env) -> None:
        if isinstance(target, ast.Name):
            env.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            is_known = type(value) in (tuple, list, str) and len(value) == len(target.elts)
            is_known = is_known and not any(isinstance(part, ast.Starred) for part in target.elts)
            for part, item in zip(target.elts, value if is_known else [Env.UNKNOWN] * len(target.elts), strict=True):
                self._bind(part, item, env)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, Env.UNKNOWN, env)

    # --- expressions ------------------------------------------------------------------------------------------

    def _visit(self, node: ast.expr, env: Env) -> Any:
        """The value of an expression, if it can be known now; the calls in it go out."""
        if isinstance(node, (ast.Starred, ast.FormattedValue)):  # parts that have no value by themselves
            return self._visit(node.value, env)
        is_long = self.ahead.weight.get(node, 0) > _MAX_HOLES and not isinstance(node, (ast.Call, *Comprehension))
        value = self._evaluate(node, env) if not is_long else Env.UNKNOWN
        if value is Env.UNKNOWN and self.ahead.holds(node):
            self._inside(node, env)
        return value

    def _evaluate(self, node: ast.expr, env: Env) -> Any:
        if node not in self._codes:
            self._codes[node] = None if self.ahead.effects.objection(node) else self._code(node)
        code = self._codes[node]
        if code is None:
            return Env.UNKNOWN
        function, names, reads = code
        values = [env.get(name) for name in names]
        module = env.module()
        if any(value is Env.UNKNOWN or not is_plain(value) for value in values):
            return Env.UNKNOWN
        if any((value := module.get(name)) is not Env.UNKNOWN and not is_plain(value) for name in reads):
            return Env.UNKNOWN
        return self.evaluate(function, values)

    def _code(self, node: ast.expr) -> tuple[Callable[..., Any], tuple[str, ...], frozenset[str]]:
        """The expression as a function of the variables that it reads."""
        bound = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
        read: dict[str, None] = {}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                bound.add(child.id)
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and child.id not in bound and not child.id.startswith("$"):
                scope = self.ahead.found.names.scope_of.get(child)
                if scope is not None and self.ahead.found.names.resolve(child.id, scope) is not None:
                    read[child.id] = None
        return self._compiled(node, tuple(read)), tuple(read), self.ahead.reads(node)

    def _compiled(self, node: ast.expr, names: tuple[str, ...]) -> Callable[..., Any]:
        args = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
        tree = ast.Expression(ast.copy_location(ast.Lambda(args, node), node))
        code = built_into(compiled(ast.fix_missing_locations(tree), FILENAME, "eval"), self.hidden)
        assert self._module.real is not None
        function: Callable[..., Any] = eval(code, self._module.real)
        return function

    def _inside(self, node: ast.expr, env: Env) -> None:
        """Send the calls in an expression whose value is not known."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                known = self._visit(value, env)
                if type(known) not in _PLAIN or bool(known) is isinstance(node.op, ast.Or):
                    return
        elif isinstance(node, ast.IfExp):
            test = self._visit(node.test, env)
            if type(test) in _PLAIN:
                self._visit(node.body if test else node.orelse, env)
        elif isinstance(node, ast.Compare):
            self._visit(node.left, env)
            self._visit(node.comparators[0], env)
        elif isinstance(node, ast.Lambda):
            return
        elif isinstance(node, Comprehension):
            self._comprehension(node, 0, env)
        elif isinstance(node, ast.Call):
            self._call(node, env)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.expr, ast.keyword)) and self.ahead.holds(child):
                    self._visit(child.value if isinstance(child, ast.keyword) else child, env)

    def _call(self, node: ast.Call, env: Env) -> None:
        for child in (node.func, *node.args, *(keyword.value for keyword in node.keywords)):
            if self.ahead.holds(child) and not isinstance(child, (ast.Name, ast.Lambda)):
                self._visit(child, env)
        loop = each(node)
        if loop is not None and node in self.ahead.index:
            items = self._evaluate(loop.iterable, env)
            if is_followed(items):
                self._open_loop(node, items, env)
        function = self.ahead.function(node.func.id) if isinstance(node.func, ast.Name) else None
        is_plain = not any(isinstance(arg, ast.Starred) for arg in node.args) and all(k.arg for k in node.keywords)
        if function is not None and is_plain and self.ahead.holds(function):
            named = {keyword.arg: self._evaluate(keyword.value, env) for keyword in node.keywords}
            self._enter(node, function, [self._evaluate(arg, env) for arg in node.args], named, env)

    def _enter(
        self, call: ast.AST, function: Function | ast.Lambda, args: Sequence[Any], named: dict[Any, Any], env: Env
    ) -> None:
        """Walk a function of the program, called with what is known of its arguments."""
        if len(self._path) >= _MAX_DEPTH:
            return
        scope = self.ahead.scope_in(function)
        is_nested = scope.parent is not None and scope.parent.kind != "module"
        inner = Env(dict.fromkeys(scope.bindings, Env.UNKNOWN), env if is_nested else env.module(), is_local=True)
        parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        inner.names.update(zip(parameters, args, strict=False))
        inner.names.update({name: value for name, value in named.items() if name in scope.bindings})
        given = {*parameters[: len(args)], *named}
        for name, default in zip(reversed(parameters), reversed(function.args.defaults), strict=False):
            if name not in given and isinstance(default, ast.Constant):
                inner.names[name] = default.value
        outside, self._path = self._path, (*self._path, call)
        if isinstance(function, ast.Lambda):
            self._visit(function.body, inner)
        else:
            self._block(self.ahead.block(function), inner)
        self._path = outside

    def _apply(self, function: ast.expr, item: Any, env: Env) -> None:
        """Call for one element what `map`, `sorted` and the like call for each."""
        own = self.ahead.function(function.id) if isinstance(function, ast.Name) else None
        if isinstance(function, ast.Lambda) or own is not None:
            called = function if isinstance(function, ast.Lambda) else own
            self._enter(function, called, [item], {}, env)  # type: ignore[arg-type]
            return
        call = self._codes.get(function)
        if call is None:
            taken = ast.copy_location(ast.Name("$item", ast.Load()), function)
            node = ast.copy_location(ast.Call(function, [taken], []), function)
            if self.ahead.effects.objection(node):
                return
            call = self._codes[function] = (self._compiled(node, ("$item",)), ("$item",), frozenset())
        self.evaluate(call[0], (item,))

    # --- loops inside -----------------------------------------------------------------------------------------

    def _comprehension(self, node: Any, place: int, env: Env) -> None:
        generator = node.generators[place]
        if generator in self.ahead.index:
            items = self._visit(self._iterable(generator), env)
            if is_followed(items):
                self._open_loop(generator, items, env)

    def _iterable(self, node: ast.AST) -> ast.expr:
        """As the program has it: lowering has put a call around it."""
        return self.ahead.loops[self.ahead.index[node]].iterable

    def _element(self, generator: ast.comprehension, item: Any, env: Env) -> None:
        owner: Any = self.ahead.parents[generator]
        self._bind(generator.target, item, env)
        for condition in generator.ifs:
            test = self._visit(condition, env)
            if type(test) not in _PLAIN or not test:
                return
        place = owner.generators.index(generator) + 1
        if place < len(owner.generators):
            self._comprehension(owner, place, env)
            return
        for part in [owner.key, owner.value] if isinstance(owner, ast.DictComp) else [owner.elt]:
            if self.ahead.holds(part):
                self._visit(part, env)

    def _open_loop(self, node: ast.AST, items: Any, env: Env) -> None:
        """A loop that lies ahead: its turns come when there is room for them."""
        key = (node, self._path)
        if key not in self._unit.loops:
            loop = self.loop(self.ahead.index[node], iter(items), Env(dict(env.names), env.outer))
            loop.parent = self._unit
            self._unit.loops[key] = loop
