"""One statement's own expressions: what they read, bind, change and call. The first half of compiler/flow.py.

A *name* is a pair of its home and its text: the home is `g` for the module's names, `l` for those of one call of a
function, and the number of the scope for those that inner functions share. A *path* is a name and steps from it, as in
`self.rows[i]`. What cannot be told is taken to be the most that it could be. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .channels import Channels, reads_scope
from .library import CHANGES, HARMLESS, METHODS
from .record import Data
from .regions import LAST, LOOSE, OUTPUT, WORLD, Called, Region
from .statements import own_nodes, prose_number
from .syntax import called_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from .regions import Name, Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FAILING = (
    ast.Call, ast.Subscript, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Await, ast.comprehension,
    ast.FormattedValue, ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.Delete, *LOOPS, ast.With, ast.AsyncWith,
    ast.AugAssign, ast.Tuple, ast.Starred,
)  # fmt: skip
_DECIDING = (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
# Operations that may run methods of the program's classes, and those that may run functions passed as values.
_DISPATCHING = (
    ast.Subscript, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue, ast.AugAssign, ast.If,
    ast.While, ast.Assert, ast.Match, ast.IfExp, ast.BoolOp, ast.Delete,
)  # fmt: skip
_CALLING = (
    ast.Call, ast.Subscript, ast.Compare, ast.Await, ast.comprehension, *LOOPS, ast.With, ast.AsyncWith, ast.Starred,
    ast.YieldFrom,
)  # fmt: skip
_MADE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.Constant, ast.JoinedStr, ast.Lambda)
_MAKING = frozenset([
    "Counter", "OrderedDict", "bool", "bytearray", "defaultdict", "deque", "dict", "float", "frozenset", "int", "iter",
    "len", "list", "range", "set", "sorted", "str", "sum", "tuple",
])  # fmt: skip
_LAZY = frozenset(["classmethod", "enumerate", "filter", "iter", "map", "partial", "property", "reversed", "zip"])
_KEEPING = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.IfExp, ast.keyword)
_PATH_DEPTH = 6


class Known(Data):
    """Facts about a program that all its headers share."""

    defined: frozenset[str]  # the program's own names
    functions: frozenset[str]  # its functions, methods and classes
    fixed: frozenset[str]  # its functions and classes whose names are bound once
    keeping: frozenset[str]  # its classes whose constructors only store their arguments
    holes: frozenset[str]  # undefined functions
    channels: Channels


class Header:
    """One statement's own expressions: what they read, bind, change and call."""

    def __init__(
        self,
        node: ast.stmt,
        name: Callable[[str, ast.AST], Name | None],
        known: Known,
        first: Name | None = None,
    ) -> None:
        self._name = name  # what a text means where it stands; None for the variable of a comprehension
        self._known, self._defined, self._first = known, known.defined, first  # `first`: the object of `super()`
        self.kind = "Prose" if prose_number(node) is not None else type(node).__name__
        self._tops = own_parts(node)
        self._nodes = [part for top in self._tops for part in own_nodes(top, into_lambdas=True)]
        self._called = {id(part.func) for part in self._nodes if isinstance(part, ast.Call)}
        self.mentioned = {part.id for part in self._nodes if isinstance(part, ast.Name)}
        self.mentioned |= {part.attr for part in self._nodes if isinstance(part, ast.Attribute)}
        scopes = {scope for part in self._nodes if (scope := reads_scope(part)) is not None} - self._defined
        self.is_dynamic = bool(scopes)
        self.evaluated = self._evaluated() if scopes == {"eval"} else ()
        self.touches_world = any(known.channels.touches_world(part) for part in self._nodes)
        self.may_fail = any(isinstance(part, _FAILING) for part in (node, *self._nodes))
        self.has_yield = any(isinstance(part, (ast.Yield, ast.YieldFrom, ast.Await)) for part in self._nodes)
        reads = [path for top in self._tops for path in self._read(top)]
        self.is_loose = False  # it changes something that is no path
        self.stores = tuple(self._stores(node))
        self.touched = tuple(self._touched())
        reads += [path for path, _ in self.stores]
        reads += [(WORLD, ())] if self.touches_world else []
        if isinstance(node, (ast.AugAssign, ast.Delete)):
            targets = node.targets if isinstance(node, ast.Delete) else [node.target]
            reads += [path for target in targets if isinstance(target, ast.Name) for path in self._named(target)]
        if isinstance(node, FUNCTIONS):  # `nonlocal x` needs an x around it
            declared = [(text, one) for one in ast.walk(node) if isinstance(one, ast.Nonlocal) for text in one.names]
            reads += [
                (bound, ()) for text, one in declared if (bound := name(text, one)) is not None and bound[0] != "l"
            ]
        self.reads = tuple({path: None for path in reads if not _is_unhashable(path)})
        walruses = [part.target for part in self._nodes if isinstance(part, ast.NamedExpr)]
        perhaps = [bound for target in walruses if (bound := name(target.id, target)) is not None]
        self.perhaps = (*perhaps, WORLD) if self.touches_world else tuple(perhaps)
        self.writes = tuple(name for name in self._bound(node) if name not in self.perhaps)
        self.calls = tuple(self._calls())
        self.changes_loose = any(part == LOOSE for _, part in self.stores) or any(call.is_loose for call in self.calls)
        calls = [part for part in self._nodes if isinstance(part, ast.Call)]
        lazy = _LAZY | known.holes
        self._hands_on = bool(getattr(node, "decorator_list", ())) or not all(
            called_name(call) in lazy for call in calls
        )
        self.decides = any(map(self._decides, self._nodes))
        self.may_dispatch = isinstance(node, _DISPATCHING) or any(
            isinstance(part, _DISPATCHING) for part in self._nodes
        )
        self.may_call = isinstance(node, _CALLING) or any(map(self._may_call, self._nodes))
        arguments = [part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords))]
        arguments += [call.func.value for call in calls if isinstance(call.func, ast.Attribute)]
        self.handed = tuple(path for part in arguments if (path := self._path(part)) is not None)
        self.makes = self._makes(node)
        self.consumes = self._consumes(node)
        is_loop = isinstance(node, (ast.For, ast.AsyncFor))
        self.iterated = self._path(node.iter) if is_loop else None  # type: ignore[attr-defined]
        self.region = self._region(node)

    # --- reading ----------------------------------------------------------------------------------------------

    def _read(self, node: ast.AST) -> Iterator[Path]:
        """The longest paths in an expression."""
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            target = node.value if id(node) in self._called and isinstance(node, ast.Attribute) else node
            path = self._path(target)
            if path is not None:
                yield path
                while isinstance(target, (ast.Attribute, ast.Subscript)):
                    if isinstance(target, ast.Subscript):
                        yield from self._read(target.slice)
                    target = target.value
                return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                yield from self._named(node)
            return
        if isinstance(node, ast.stmt) and not isinstance(node, ast.expr):
            return
        for child in ast.iter_child_nodes(node):
            yield from self._read(child)

    def _named(self, node: ast.Name) -> list[Path]:
        name = self._name(node.id, node)
        return [(name, ())] if name is not None else []

    def _path(self, node: ast.expr, depth: int = 0) -> Path | None:
        if isinstance(node, ast.Name):
            name = self._name(node.id, node)
            return (name, ()) if name is not None else None
        if not isinstance(node, (ast.Attribute, ast.Subscript)) or depth > _PATH_DEPTH:
            return None
        base = self._path(node.value, depth + 1)
        step = self._step(node)
        return (base[0], (*base[1], step)) if base is not None and step is not None else None

    def _step(self, node: ast.Attribute | ast.Subscript) -> tuple[str, Any] | None:
        if isinstance(node, ast.Attribute):
            return "attr", node.attr
        index = node.slice
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.op, ast.USub)
            and isinstance(index.operand, ast.Constant)
        ):
            return ("key", -index.operand.value) if isinstance(index.operand.value, int) else None
        if isinstance(index, ast.Constant):
            return "key", index.value
        name = self._name(index.id, index) if isinstance(index, ast.Name) else None
        return ("var", name) if name is not None else None

    def _evaluated(self) -> tuple[Any, ...]:
        """The texts that are evaluated; none where one of them cannot be told before."""
        calls = [part for part in self._nodes if isinstance(part, ast.Call) and called_name(part) == "eval"]
        mentions = sum(isinstance(part, ast.Name) and part.id == "eval" for part in self._nodes)
        texts = [call.args[0] for call in calls if len(call.args) == 1 and not call.keywords]
        found = [text.value if isinstance(text, ast.Constant) else self._path(text) for text in texts]
        return tuple(found) if len(found) == mentions and None not in found else ()

    # --- changing ---------------------------------------------------------------------------------------------

    def _bound(self, node: ast.stmt) -> Iterator[Name]:
        texts: list[tuple[str, ast.AST]] = []
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            texts = [(node.name, node)]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            texts = [(alias.asname or alias.name.partition(".")[0], node) for alias in node.names]
        for part in self._nodes:
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                texts.append((part.id, part))
            elif isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                texts.append((part.name, node))
            elif isinstance(part, ast.MatchMapping) and part.rest:
                texts.append((part.rest, node))
        for handler in getattr(node, "handlers", ()):
            texts += [(handler.name, node)] if handler.name else []
        names = (self._name(text, where) for text, where in texts)
        yield from dict.fromkeys(name for name in names if name is not None)

    def _stores(self, node: ast.stmt) -> Iterator[tuple[Path, tuple[str, Any] | None]]:
        for part in self._nodes:
            if isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
                base = self._path(part.value)
                if base is not None:
                    yield base, self._step(part)
                else:  # `f(x).y = …` may be anything that it is made of
                    self.is_loose = True
                    yield from ((path, LOOSE) for path in self._made_of(part.value))
        if isinstance(node, ast.AugAssign):  # `xs += …` changes a list
            path = self._path(node.target)
            yield from [(path, None)] if path is not None else []

    def _made_of(self, *nodes: ast.AST) -> list[Path]:
        """The paths that expressions may get their objects from; the variables of a comprehension, from anywhere."""
        found = [path for node in nodes for path in self._read(node)]
        inner = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]
        if any(self._name(part.id, part) is None for part in inner):
            found += [path for top in self._tops for path in self._read(top)]
        return found

    def _touched(self) -> Iterator[tuple[Path, tuple[str, Any] | None]]:
        """What is asked for a key: some dicts make what they lack."""
        for part in self._nodes:
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
                base = self._path(part.value)
                if base is not None:
                    yield base, self._step(part)
                else:
                    yield from ((path, None) for path in self._made_of(part.value))

    def _consumes(self, node: ast.stmt) -> bool:
        """Whether what a call gives is used at once, as in `C(1).x`, and not just kept or handed on."""
        is_kept = isinstance(node, (ast.AnnAssign, ast.Return, ast.Expr)) or (
            isinstance(node, ast.Assign) and not any(isinstance(one, (ast.Tuple, ast.List)) for one in node.targets)
        )
        parents = {id(child): part for part in self._nodes for child in ast.iter_child_nodes(part)}
        for part in self._nodes:
            child: ast.AST = part
            while isinstance(child, ast.expr) and isinstance(part, ast.Call):
                around = parents.get(id(child))
                if around is None and is_kept:
                    break
                if isinstance(around, ast.Call) and self._only_keeps(around, child):
                    break
                if around is None or not isinstance(around, _KEEPING):
                    return True
                child = around
        return False

    def _only_keeps(self, call: ast.Call, argument: ast.AST) -> bool:
        name = called_name(call)
        return argument is not call.func and (name in CHANGES or name in self._defined)

    def _calls(self) -> Iterator[Called]:
        for part in self._nodes:
            if not isinstance(part, ast.Call):
                continue
            handed = self._made_of(*part.args, *(k.value for k in part.keywords))
            function = part.func
            if isinstance(function, ast.Name):
                name = self._name(function.id, function)
                if name is None or name[0] != "g" or function.id not in HARMLESS or function.id in self._defined:
                    yield Called(name, None, "", (*handed, *(self._made_of(function) if name is None else ())))
            elif isinstance(function, ast.Attribute):
                yield from self._method_calls(function, handed)
            else:
                yield Called(None, None, "", (*handed, *self._made_of(function)))

    def _method_calls(self, function: ast.Attribute, handed: list[Path]) -> Iterator[Called]:
        method, value = function.attr, function.value
        is_own = method in self._defined
        if isinstance(value, ast.Call) and called_name(value) == "super":
            own: list[Path] = [(self._first, ())] if self._first is not None else []
            yield Called(None, None, method, (*own, *handed), is_super=True)
        elif method not in METHODS or is_own:
            receiver = self._path(value)
            if receiver is None:
                self.is_loose = True
                handed += self._made_of(value)
            is_told = receiver is None and is_own and method not in CHANGES
            yield Called(None, receiver, method, tuple(handed), is_told=is_told)

    def _makes(self, node: ast.stmt) -> bool:
        """Whether a statement binds a new object, with no other reference to it."""
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            return self._is_made(node.value)
        return isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom))

    def _is_made(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_made(part) for part in node.elts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            text = node.func.id
            return text in self._known.keeping or (text in _MAKING and text not in self._defined)
        return isinstance(node, _MADE)

    def _decides(self, part: ast.AST) -> bool:
        """Whether values decide which parts of an expression are evaluated, or which function it calls."""
        if isinstance(part, ast.Compare):
            return len(part.ops) > 1
        if isinstance(part, ast.Call):
            return not isinstance(part.func, (ast.Name, ast.Attribute))
        if isinstance(part, (ast.Name, ast.Attribute)):
            text = part.id if isinstance(part, ast.Name) else part.attr
            if id(part) in self._called:
                return text in self._defined and not (isinstance(part, ast.Name) and text in self._known.fixed)
            return self._hands_on and isinstance(part.ctx, ast.Load) and text in self._known.functions
        return isinstance(part, _DECIDING)

    def _may_call(self, part: ast.AST) -> bool:
        """Whether an expression may run a function that was passed as a value."""
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            text = part.func.id
            return text not in self._known.fixed and text not in self._known.holes and text not in _LAZY
        if isinstance(part, (ast.Tuple, ast.List)):
            return not isinstance(part.ctx, ast.Load)  # unpacking reads an iterator
        return isinstance(part, _CALLING)

    def _region(self, node: ast.stmt) -> Region:
        region = Region()
        region.names.update(dict.fromkeys([*self.writes, *self.perhaps]))
        region.objects.update(dict.fromkeys(path[0] for path, _ in self.stores))
        for call in self.calls:
            changed = [] if call.receiver is None else [call.receiver]
            is_plain = call.method in CHANGES and call.method not in self._defined
            is_kept = call.function is not None and call.function[1] in self._known.keeping
            changed += call.handed if not is_kept and (call.receiver is None or not is_plain) else []
            region.objects.update(dict.fromkeys(path[0] for path in changed))
        region.reads.update(dict.fromkeys(path[0] for path in self.reads))
        region.is_dynamic = self.is_dynamic and not self.evaluated
        if "print" in self.mentioned or self.is_dynamic:
            region.names[OUTPUT] = None
        if isinstance(node, ast.Expr):
            region.names[LAST] = None
        return region


def own_parts(node: ast.stmt) -> list[ast.AST]:
    """A statement's header as trees: patterns and their guards belong to it, what stands inside does not."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = node.args
            return [*node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        case ast.Match():
            parts: list[ast.AST] = [node.subject]
            return parts + [part for case in node.cases for part in (case.pattern, case.guard) if part is not None]
        case ast.Try() | ast.TryStar():
            return [handler.type for handler in node.handlers if handler.type is not None]
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _is_unhashable(path: Path) -> bool:
    try:
        hash(path)
    except TypeError:
        return True
    return False
