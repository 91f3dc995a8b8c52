"""The effects of one statement: what its own expressions read, bind, change and call, as names and paths.

A *name* is a pair of its home and its text: the home is `g` for the module's names, `l` for those of one call of a
function, and the number of the scope for those that inner functions share. A *path* is a name and steps from it, as in
`self.rows[i]`. Unknown effects are overstated. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from .channels import Channels, reads_scope
from .library import CONSTRUCTORS, CONTAINER_MUTATORS, LAZY_FUNCTIONS, PURE_FUNCTIONS, PURE_METHODS
from .record import Data
from .statements import StatementFacts, prose_number
from .syntax import COMPREHENSIONS, DEFINITIONS, FUNCTIONS, LOOPS, arguments_of, called_name, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    Name = tuple[str, str]
    Path = tuple[Name, tuple[tuple[str, Any], ...]]
    Store = tuple[Path, tuple[str, Any] | None]  # of `d[k] = …`: d and k; None: unknown key; LOOSE

OUTPUT: Name = ("g", "$output")  # what was printed
LAST: Name = ("g", "$last")  # the value of the last expression statement
WORLD: Name = ("g", "$world")  # state that a module's functions share, such as the clock (compiler/channels.py)
LOOSE = ("loose", None)  # some object reachable from there is changed
_WITH = (ast.With, ast.AsyncWith)
_FAILING = (
    ast.Call, ast.Subscript, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Await, ast.comprehension,
    ast.FormattedValue, ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.Delete, *LOOPS, *_WITH,
    ast.AugAssign, ast.Tuple, ast.Starred,
)  # fmt: skip
_CHOOSING = (ast.IfExp, ast.BoolOp, *COMPREHENSIONS, ast.Lambda)
# Operations that may run methods of the program's classes, and those that may run functions passed as values.
_DISPATCHING = (
    ast.Subscript, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue, ast.AugAssign, ast.If,
    ast.While, ast.Assert, ast.Match, ast.IfExp, ast.BoolOp, ast.Delete,
)  # fmt: skip
_CALLING = (
    ast.Call, ast.Subscript, ast.Compare, ast.Await, ast.comprehension, *LOOPS, *_WITH, ast.Starred, ast.YieldFrom
)  # fmt: skip
_MADE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.Constant, ast.JoinedStr, ast.Lambda)
_KEEPING = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.IfExp)
_PATH_DEPTH = 6


class Called(Data):
    """A call in a statement: of a name, a method, or an unknown function; and its arguments."""

    function: Name | None  # f in f(x)
    receiver: Path | None  # xs in xs.append(x)
    method: str  # append
    arguments: tuple[Path, ...]  # paths in the arguments, and in a receiver that is not itself a path
    is_followed: bool = False  # a method of the program: its own statements record their changes
    is_super: bool = False  # called on `super()`: the first argument is the object itself

    @property
    def is_loose(self) -> bool:
        return self.function is None and self.receiver is None and not self.is_followed and not self.is_super


class Region:
    """What running some statements may change: names, and the objects that names are bound to.

    Reading advances iterators. An implicit method call may change instances of the program's classes
    (`opens_instances`), and a function passed as a value may change anything that is read (`opens_all`).
    """

    def __init__(self) -> None:
        self.names: dict[Name, None] = {}
        self.objects: dict[Name, None] = {}
        self.reads: dict[Name, None] = {}
        self.is_dynamic = self.opens_instances = self.opens_all = False

    def add(self, other: Region, *, from_outside: bool = False) -> None:
        """Merge another region; `from_outside` of its function, without the function's local names."""
        for names, added in ((self.names, other.names), (self.objects, other.objects), (self.reads, other.reads)):
            names.update({name: None for name in added if not from_outside or name[0] != "l"})
        self.is_dynamic |= other.is_dynamic
        self.opens_instances |= other.opens_instances
        self.opens_all |= other.opens_all

    def size(self) -> int:
        return len(self.names) + len(self.objects) + len(self.reads) + self.is_dynamic

    def has_effects(self, functions: Iterable[str]) -> bool:
        """Whether running the statements has side effects, beyond mutating the program's functions."""
        objects = {text for _, text in self.objects}.difference(functions)
        return bool(self.names or objects or self.is_dynamic or self.opens_instances or self.opens_all)


class Known(Data):
    """Facts about a program that the effects of all its statements share."""

    defined: frozenset[str]  # the program's own names
    functions: frozenset[str]  # its functions, methods and classes
    fixed: frozenset[str]  # its functions and classes whose names are bound once
    keeping: frozenset[str]  # its classes whose constructors only store their arguments
    holes: frozenset[str]  # undefined functions
    channels: Channels


class Effects:
    """The effects of one statement; of a compound one, those of its header."""

    def __init__(
        self,
        facts: StatementFacts,
        name: Callable[[str, ast.AST], Name | None],
        known: Known,
        first: Name | None = None,
    ) -> None:
        self._name = name  # resolves a name at a node; None for the variable of a comprehension
        self._known, self._first = known, first  # `first`: the object of `super()`
        self._facts, self._nodes, self._node = facts, facts.nodes, facts.node
        self._called = {id(call.func) for call in facts.calls}
        self.kind = "Prose" if prose_number(self._node) is not None else type(self._node).__name__
        self.mentioned = {text for part in self._nodes if (text := text_of(part)) is not None}
        scopes = set(map(reads_scope, facts.calls)) - known.defined - {None}
        self.is_dynamic = bool(scopes)  # it may read and change anything (`eval`, `exec`, …)
        # Texts, as paths or literals: if it only evaluates these, it reads the names in them.
        self.evaluated = self._evaluated() if scopes == {"eval"} else ()
        self.touches_world = any(map(known.channels.touches_world, self._nodes))
        self.may_fail = self._has(_FAILING)  # another value may have made it raise an error
        self.has_yield = self._has((ast.Yield, ast.YieldFrom, ast.Await))
        self.stores = tuple(self._stores())
        self.touched = tuple(self._touched())  # the same for each `d[k]` that is only read
        self.reads = tuple(self._reads())
        self.perhaps = tuple(self._perhaps())  # names that may be bound
        bound = [self._name(text, where) for text, where in facts.bindings]
        surely = [name for name in bound if name is not None and name not in self.perhaps]
        self.writes = tuple(dict.fromkeys(surely))  # names that are bound when it completes
        self.calls = tuple(self._calls())
        # It changes an object that has no path: the result of a call, or one of several.
        self.is_loose = any(part == LOOSE for _, part in self.stores) or any(call.is_loose for call in self.calls)
        self.chooses = any(map(self._chooses, self._nodes))
        self.may_dispatch = self._has(_DISPATCHING)
        self.may_call = isinstance(self._node, _CALLING) or any(map(self._may_call, self._nodes))
        self.call_paths = tuple(self._call_paths())  # arguments and receivers of its calls that are paths
        self.makes = self._makes()
        self.consumes = not all(map(self._is_kept, facts.calls))  # the result of a call in it is used immediately
        is_loop = isinstance(self._node, (ast.For, ast.AsyncFor))
        self.iterated = self._path(self._node.iter) if is_loop else None  # type: ignore[attr-defined]
        self.own_region = self._region()

    def _has(self, kinds: tuple[type[ast.AST], ...]) -> bool:
        return isinstance(self._node, kinds) or any(isinstance(part, kinds) for part in self._nodes)

    # --- reading ----------------------------------------------------------------------------------------------

    def _reads(self) -> dict[Path, None]:
        reads = self._read_all(self._facts.parts)
        reads += [path for path, _ in self.stores]
        reads += [(WORLD, ())] if self.touches_world else []
        if isinstance(self._node, (ast.AugAssign, ast.Delete)):
            targets = self._node.targets if isinstance(self._node, ast.Delete) else [self._node.target]
            for target in targets:
                reads += self._named(target) if isinstance(target, ast.Name) else []
        if isinstance(self._node, FUNCTIONS):  # `nonlocal x` needs an x around the function
            inner = [part for part in ast.walk(self._node) if isinstance(part, ast.Nonlocal)]
            names = [self._name(text, part) for part in inner for text in part.names]
            reads += [(name, ()) for name in names if name is not None and name[0] != "l"]
        return {path: None for path in reads if not _is_unhashable(path)}

    def _read(self, node: ast.AST) -> Iterator[Path]:
        """Yield the longest paths in an expression."""
        if isinstance(node, ast.Name):
            yield from self._named(node) if isinstance(node.ctx, ast.Load) else ()
            return
        if isinstance(node, ast.stmt):
            return
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            is_method = isinstance(node, ast.Attribute) and id(node) in self._called
            target = node.value if is_method else node
            path = self._path(target)
            if path is not None:
                yield path
                while isinstance(target, (ast.Attribute, ast.Subscript)):
                    yield from self._read(target.slice) if isinstance(target, ast.Subscript) else ()
                    target = target.value
                return
        for child in ast.iter_child_nodes(node):
            yield from self._read(child)

    def _read_all(self, nodes: Iterable[ast.AST]) -> list[Path]:
        return [path for node in nodes for path in self._read(node)]

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
        match node:
            case ast.Attribute(attr=attribute):
                return "attr", attribute
            case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number))):
                return ("key", -number) if isinstance(number, int) else None
            case ast.Subscript(slice=ast.Constant(value=key)):
                return "key", key
            case ast.Subscript(slice=ast.Name() as index):
                name = self._name(index.id, index)
                return ("var", name) if name is not None else None
        return None

    def _evaluated(self) -> tuple[Any, ...]:
        """Return the strings that are evaluated; none if one of them is not known statically."""
        found: list[Any] = []
        for call in self._facts.calls:
            match call:
                case ast.Call(func=ast.Name("eval") | ast.Attribute(attr="eval"), args=[text], keywords=[]):
                    found.append(text.value if isinstance(text, ast.Constant) else self._path(text))
        mentions = [part for part in self._nodes if isinstance(part, ast.Name) and part.id == "eval"]
        return tuple(found) if len(found) == len(mentions) and None not in found else ()

    # --- changing ---------------------------------------------------------------------------------------------

    def _perhaps(self) -> Iterator[Name]:
        for part in self._nodes:
            if isinstance(part, ast.NamedExpr):
                name = self._name(part.target.id, part.target)
                yield from [name] if name is not None else []
        if self.touches_world:
            yield WORLD

    def _stores(self) -> Iterator[Store]:
        for part in self._facts.targets:
            base = self._path(part.value)
            if base is not None:
                yield base, self._step(part)
            else:  # `f(x).y = …` may change anything that it is made of
                yield from ((path, LOOSE) for path in self._made_of(part.value))
        if isinstance(self._node, ast.AugAssign):  # `xs += …` changes a list
            path = self._path(self._node.target)
            yield from [(path, None)] if path is not None else []

    def _made_of(self, *nodes: ast.AST) -> list[Path]:
        """Return the paths that expressions may get objects from. A comprehension's variable may come from any path."""
        found = self._read_all(nodes)
        inner = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]
        if any(self._name(part.id, part) is None for part in inner):
            found += self._read_all(self._facts.parts)
        return found

    def _touched(self) -> Iterator[Store]:
        """Yield the objects in which a key is looked up, which adds a missing key to a `defaultdict`."""
        for part in self._nodes:
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
                base = self._path(part.value)
                if base is not None:
                    yield base, self._step(part)
                else:
                    yield from ((path, None) for path in self._made_of(part.value))

    @property
    def has_unnamed_targets(self) -> bool:
        """Whether it stores into, or calls a method of, an object that has no path."""
        if any(self._path(part.value) is None for part in self._facts.targets):
            return True
        return any(call.method and call.receiver is None and not call.is_super for call in self.calls)

    def _region(self) -> Region:
        region = Region()
        region.names.update(dict.fromkeys([*self.writes, *self.perhaps]))
        region.objects.update(dict.fromkeys(path[0] for path, _ in self.stores))
        for call in self.calls:
            region.objects.update(dict.fromkeys(path[0] for path in self._changed_by(call)))
        region.reads.update(dict.fromkeys(path[0] for path in self.reads))
        region.is_dynamic = self.is_dynamic and not self.evaluated
        if "print" in self.mentioned or self.is_dynamic:
            region.names[OUTPUT] = None
        if isinstance(self._node, ast.Expr):
            region.names[LAST] = None
        return region

    def _changed_by(self, call: Called) -> Iterator[Path]:
        """Yield the receiver of a call, and its arguments unless the call only stores them."""
        is_plain = call.method in CONTAINER_MUTATORS and call.method not in self._known.defined
        only_keeps = call.function is not None and call.function[1] in self._known.keeping
        if call.receiver is not None:
            yield call.receiver
            only_keeps = only_keeps or is_plain
        if not only_keeps:
            yield from call.arguments

    # --- calling ----------------------------------------------------------------------------------------------

    def _calls(self) -> Iterator[Called]:
        for call in self._facts.calls:
            arguments = self._made_of(*arguments_of(call))
            function = call.func
            if isinstance(function, ast.Attribute):
                yield from self._method_calls(function, arguments)
                continue
            name = self._name(function.id, function) if isinstance(function, ast.Name) else None
            if name is None:
                yield Called(None, None, "", (*arguments, *self._made_of(function)))
            elif name[0] != "g" or name[1] not in PURE_FUNCTIONS or name[1] in self._known.defined:
                yield Called(name, None, "", tuple(arguments))

    def _method_calls(self, function: ast.Attribute, arguments: list[Path]) -> Iterator[Called]:
        method, value = function.attr, function.value
        is_own = method in self._known.defined
        if isinstance(value, ast.Call) and called_name(value) == "super":
            own: list[Path] = [(self._first, ())] if self._first is not None else []
            yield Called(None, None, method, (*own, *arguments), is_super=True)
        elif method not in PURE_METHODS or is_own:
            receiver = self._path(value)
            if receiver is None:
                arguments = [*arguments, *self._made_of(value)]
            is_followed = receiver is None and is_own and method not in CONTAINER_MUTATORS
            yield Called(None, receiver, method, tuple(arguments), is_followed=is_followed)

    def _call_paths(self) -> Iterator[Path]:
        calls = self._facts.calls
        given = [argument for call in calls for argument in arguments_of(call)]
        given += [call.func.value for call in calls if isinstance(call.func, ast.Attribute)]
        return (path for argument in given if (path := self._path(argument)) is not None)

    def _is_kept(self, call: ast.Call) -> bool:
        """Whether the result of a call is only stored or passed on, not used directly as in `C(1).x`."""
        child: ast.AST = call
        while True:
            around = self._facts.parents.get(child)
            if around is None:
                return self._keeps_its_value()
            if isinstance(around, ast.keyword):
                return True
            if isinstance(around, ast.Call) and around.func is not child:
                name = called_name(around)
                return name in CONTAINER_MUTATORS or name in self._known.defined
            if not isinstance(around, _KEEPING):
                return False
            child = around

    def _keeps_its_value(self) -> bool:
        """Whether a statement only stores the value of its expression."""
        if isinstance(self._node, ast.Assign):
            return not any(isinstance(target, (ast.Tuple, ast.List)) for target in self._node.targets)
        return isinstance(self._node, (ast.AnnAssign, ast.Return, ast.Expr))

    def _makes(self) -> bool:
        """Whether a statement binds a new object, with no other reference to it."""
        if isinstance(self._node, (ast.Assign, ast.AnnAssign)) and self._node.value is not None:
            return self._is_made(self._node.value)
        return isinstance(self._node, (*DEFINITIONS, ast.Import, ast.ImportFrom))

    def _is_made(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_made(part) for part in node.elts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            text = node.func.id
            return text in self._known.keeping or (text in CONSTRUCTORS and text not in self._known.defined)
        return isinstance(node, _MADE)

    def _chooses(self, part: ast.AST) -> bool:
        """Whether values decide which parts of an expression are evaluated, or which function it calls."""
        match part:
            case ast.Compare(ops=operators):
                return len(operators) > 1
            case ast.Call(func=function):
                return not isinstance(function, (ast.Name, ast.Attribute))
            case ast.Name(id=text) if id(part) in self._called:
                return text in self._known.defined and text not in self._known.fixed
            case ast.Attribute(attr=text) if id(part) in self._called:
                return text in self._known.defined
            case ast.Name(id=text, ctx=ast.Load()) | ast.Attribute(attr=text, ctx=ast.Load()):
                return text in self._known.functions and self._hands_functions_on()
        return isinstance(part, _CHOOSING)

    def _hands_functions_on(self) -> bool:
        """Whether a function that the statement mentions may be called by another function."""
        if getattr(self._node, "decorator_list", ()):
            return True
        names = {called_name(call) for call in self._facts.calls}
        return not names <= LAZY_FUNCTIONS | self._known.holes

    def _may_call(self, part: ast.AST) -> bool:
        """Whether an expression may run a function that was passed as a value."""
        match part:
            case ast.Call(func=ast.Name(id=text)):
                return text not in self._known.fixed and text not in self._known.holes and text not in LAZY_FUNCTIONS
            case ast.Tuple() | ast.List():
                return not isinstance(part.ctx, ast.Load)  # unpacking reads an iterator
        return isinstance(part, _CALLING)


def _is_unhashable(path: Path) -> bool:
    try:
        hash(path)
    except TypeError:
        return True
    return False
