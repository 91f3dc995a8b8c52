"""What each statement of a program has to do with the others: the facts that provenance is made of, from syntax alone.

Of a condition, what could have been changed had it gone another way; of a function, what calling it may change. Names
and paths are those of compiler/header.py; guest/follow/recorder.py follows a run with them. Standard library only.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from .analyse import HARMLESS_MANAGERS, Analysis
from .channels import Channels
from .escaping import escaping, has_effects, is_by_itself, keeping
from .header import FUNCTIONS, LOOPS, Header, Known
from .record import Data
from .regions import LAST, OUTPUT, Called, Region
from .scopes import Function, Scope
from .statements import statements
from .syntax import called_name, last_name
from .works import works_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from .regions import Name, Path

_ENDS = frozenset(["exit", "quit", "_exit", "abort"])
_CATCHERS = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_CONTROLS = (ast.If, *LOOPS, *_CATCHERS, ast.Match)


class Flow(Data):
    """One statement, by numbers of other statements; of a compound one only the header, but for the region."""

    kind: str
    reads: tuple[Path, ...]
    writes: tuple[Name, ...]  # bound when it is through
    perhaps: tuple[Name, ...]  # bound, or not
    stores: tuple[tuple[Path, tuple[str, Any] | None], ...]  # of `d[k] = …`: d and k; None: unknown key; LOOSE
    touched: tuple[tuple[Path, tuple[str, Any] | None], ...]  # the same of `d[k]` that is only read
    calls: tuple[Called, ...]
    region: Region  # with everything inside
    parent: int | None  # the statement around it that decides whether it runs
    catchers: tuple[int, ...]  # `try` and `with` statements that stand around it
    loop: int | None
    else_of: int | None  # the loop whose `else` holds it: it runs unless `break` left that loop
    function: int  # the statement that defines the function (or class) it stands in; -1 is the module
    jumps: frozenset[tuple[str, int | None]]  # what it may do inside: break and continue, of which loop; return; raise
    iterated: Path | None  # of a loop over a plain path
    has_yield: bool
    is_dynamic: bool  # it may read and change anything (`eval`, `exec`, …)
    evaluated: tuple[Any, ...]  # texts, as paths or literals: if it only evaluates these, it reads the names in them
    consumes: bool  # what a call in it gives is used at once
    may_fail: bool  # another value may have made it raise an error
    handed: tuple[Path, ...]  # arguments and receivers of its calls that are paths
    is_loose: bool  # it changes an object that has no path: the result of a call, or one of several
    makes: bool  # the object that it binds is new
    decides: bool  # another value could have made it evaluate another part, or call another function


class Flows:
    """The facts of every statement of a program, by its number. To be made before the tree is lowered."""

    def __init__(self, found: Analysis) -> None:
        self._found, self._names = found, found.names
        self._homes = {scope: str(index) for index, scope in enumerate(found.names.scopes)}
        lambdas = [node for node in found.syntax.nodes if isinstance(node, ast.Lambda)]
        self._lambdas = {found.names.scope_of[node.body] for node in lambdas}
        generators = [node for node in found.syntax.nodes if isinstance(node, ast.GeneratorExp)]
        self._generators = {found.names.scope_of[node.elt] for node in generators}
        self._captured = self._find_captured()
        self._numbers = {node: number for number, node in enumerate(statements(found.syntax.tree.body))}
        self._mentions: dict[str, Region] = {}  # function (or class) → what calling it may change, seen from outside
        self._regions: dict[ast.stmt, Region] = {}
        defined = frozenset([*found.syntax.functions, *found.names.module.bindings])
        classes = {node.name for node in self._numbers if isinstance(node, ast.ClassDef)}
        functions = frozenset([*found.syntax.functions, *classes])
        fixed = self._find_fixed()
        known = self._known = Known(
            defined, functions, fixed, keeping(self._numbers) & fixed, frozenset(found.holes), Channels(found)
        )
        firsts = self._find_firsts()
        self._own: dict[ast.stmt, Header] = {
            node: Header(node, self.name, known, firsts.get(_frame(found.names.scope_of[node])))
            for node in self._numbers
        }
        self.is_opaque = known.channels.everything
        self.closes = any(
            isinstance(node, _CATCHERS) and any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))
            for node in self._numbers
        )  # a generator that is dropped may still run a `finally` or `with`
        self._summarise()
        self.of: list[Flow] = [None] * len(self._numbers)  # type: ignore[list-item]  # each is laid out below
        self.bodies: dict[int, Region] = {}  # function → what its statements may change
        self.shared: dict[int, dict[str, str]] = {}  # function → its names that inner functions use, and their homes
        self.classes: set[int] = set()
        self.yields: dict[int, list[int]] = {}  # function → statements that make it a generator
        self._lay_out(found.syntax.tree.body, _Around(None, (), None, -1))
        self.ends = self._find_ends()
        holes = found.holes | {stub.name for stub in found.stubs} | {method.attr for method in found.methods}
        self.works = works_of(self._numbers, holes | functions)

    # --- names ------------------------------------------------------------------------------------------------

    def _find_captured(self) -> set[tuple[Scope, str]]:
        """Names of functions that functions inside of them use."""
        captured = set()
        for scope in self._names.scopes:
            inner = [(node.id, scope) for node in scope.loads]
            inner += [(name, scope) for name in scope.nonlocal_names]
            for name, user in inner:
                home = self._names.resolve(name, user)
                is_inside = home is not None and _frame(user) is _frame(home) and not self._is_later(user, home)
                if home is not None and home.kind == "function" and not is_inside:
                    captured.add((home, name))
        return captured

    def _is_later(self, user: Scope, home: Scope) -> bool:
        """Whether a generator expression separates two scopes: its body runs when it is consumed."""
        scope: Scope | None = user
        while scope is not None and scope is not home:
            if scope in self._generators:
                return True
            scope = scope.parent
        return False

    def _find_firsts(self) -> dict[Scope, Name]:
        """What `super()` stands for in each function: its first parameter."""
        firsts: dict[Scope, Name] = {}
        for node in self._numbers:
            if isinstance(node, FUNCTIONS) and (given := [*node.args.posonlyargs, *node.args.args]):
                name = self.name(given[0].arg, node.body[0])
                firsts |= {self._names.scope_of[node.body[0]]: name} if name is not None else {}
        return firsts

    def _find_fixed(self) -> frozenset[str]:
        """Return the functions and classes whose names are bound once, so that a call of the name is unambiguous."""
        sources = [item for scope in self._names.scopes for item in scope.bindings.items()]
        counts = Counter(name for name, bound in sources for _ in bound)
        counts.update(name for scope in self._names.scopes for name in scope.nonlocal_names)
        defined = [node for node in self._numbers if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
        return frozenset(node.name for node in defined if counts[node.name] == 1 and not node.decorator_list)

    def name(self, text: str, node: ast.AST) -> Name | None:
        """What a name means where it stands; None for the variable of a comprehension or a lambda."""
        scope: Scope = self._names.scope_of.get(node, self._names.module)
        home = self._names.resolve(text, scope)
        if home is None or home.kind == "module":
            return "g", text
        if home.kind == "comprehension" or home in self._lambdas:
            return None
        return (self._homes[home], text) if (home, text) in self._captured else ("l", text)

    # --- what calling a function may change -------------------------------------------------------------------

    def _summarise(self) -> None:
        bodies: dict[str, list[ast.stmt]] = {}
        by_itself: dict[
            str, str
        ] = {}  # what Python calls by itself, or whoever was handed it → what it may change then
        handed = escaping(self._found.syntax.nodes)
        for node in self._numbers:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                bodies.setdefault(node.name, []).extend(_within(node))
                if isinstance(node, ast.ClassDef):
                    inits = [m for m in node.body if isinstance(m, FUNCTIONS) and m.name.startswith("__")]
                    bodies[node.name] += [line for method in inits for line in _within(method)]
                elif is_by_itself(node):
                    by_itself.setdefault(node.name, "opens_instances")
                elif node.decorator_list or any(self._own[line].has_yield for line in _within(node)):
                    by_itself[node.name] = "opens_all"
        special = {name for name, opens in by_itself.items() if opens == "opens_instances"}
        by_itself |= {name: "opens_all" for name in bodies if handed is None or name in handed}
        self._mentions = {name: Region() for name in bodies}
        size = -1
        while size != (size := sum(region.size() for region in self._mentions.values())):
            for name, body in bodies.items():
                self._mentions[name].add(self._of_lines(body), from_outside=True)
                for mentioned in {text for line in body for text in self._own[line].mentioned} & bodies.keys():
                    self._mentions[name].add(self._mentions[mentioned])
        self._always, self._implicit = Region(), Region()  # all of them; those that run implicitly
        for name, opens in by_itself.items():
            given = self._of_lines(bodies[name])
            opens_any = any(changed[0] != "g" and changed not in given.names for changed in given.objects)
            for region in [self._always, *([self._implicit] if name in special else [])]:
                region.add(self._mentions[name])
                setattr(region, opens, getattr(region, opens) or opens_any)
        if handed is None or not handed.isdisjoint(["print", "stdout", "stderr"]):
            self._always.names[OUTPUT] = None

    def _of_lines(self, lines: Iterable[ast.stmt]) -> Region:
        """What some statements may change themselves, also where they got it under another name."""
        region = Region()
        made_in: dict[Name, list[Header]] = {}
        headers = [self._own[line] for line in lines]
        called: list[Name] = []
        for header in headers:
            region.add(header.region)
            if header.is_loose:
                region.objects.update(self._exposed(header))
            for name in (*header.writes, *header.perhaps):
                made_in.setdefault(name, []).append(header)
            called += [call.function for call in header.calls if call.function is not None]
        pending = list(region.objects)
        while pending:
            for header in made_in.get(pending.pop(), ()):
                found = {**dict.fromkeys(path[0] for path in header.reads), **self._exposed(header)}
                pending += [name for name in found if name not in region.objects]
                region.objects.update(found)
        region.objects.update(dict.fromkeys(called))  # for what a function holds on to: defaults, names around it
        return region

    def _exposed(self, header: Header) -> dict[Name, None]:
        """What the functions that are called may give back."""
        found: dict[Name, None] = {}
        for mentioned in header.mentioned & self._mentions.keys():
            found.update(self._mentions[mentioned].reads)
        return found

    def region(self, node: ast.stmt) -> Region:
        """What a statement and those inside may change, functions that it calls included."""
        if node not in self._regions:
            lines = [node, *([] if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else _within(node))]
            region = self._regions[node] = self._of_lines(lines)
            region.add(self._always)
            for header in (self._own[line] for line in lines):
                for mentioned in header.mentioned & self._mentions.keys() if header.calls else ():
                    region.add(self._mentions[mentioned])
        return self._regions[node]

    # --- who stands around whom -------------------------------------------------------------------------------

    def _lay_out(self, body: Iterable[ast.stmt], around: _Around) -> None:
        for node in body:
            number, header = self._numbers[node], self._own[node]
            self.of[number] = Flow(
                header.kind, header.reads, header.writes, header.perhaps, header.stores, header.touched, header.calls,
                self.region(node), around.parent, around.catchers, around.loop, around.else_of, around.function,
                frozenset(self._jumps(node, around.loop)), header.iterated, header.has_yield, header.is_dynamic,
                header.evaluated, header.consumes, header.may_fail,
                header.handed, header.changes_loose, header.makes, self._decides(header),
            )  # fmt: skip
            if header.has_yield:
                self.yields.setdefault(around.function, []).append(number)
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                self._lay_out_body(node, number)
            elif isinstance(node, _CONTROLS):
                self._lay_out_parts(node, number, around)

    def _decides(self, header: Header) -> bool:
        """Whether another value could have made a statement run other functions."""
        if header.decides or (header.may_call and has_effects(self._always, self._known.functions)):
            return True
        return header.may_dispatch and has_effects(self._implicit, self._known.functions)

    def _lay_out_body(self, node: Function | ast.ClassDef, number: int) -> None:
        scope = self._names.scope_of[node.body[0]]
        body = self.bodies[number] = Region()
        for line in node.body:
            body.add(self.region(line), from_outside=True)
        self.shared[number] = {text: self._homes[scope] for home, text in self._captured if home is scope}
        if isinstance(node, ast.ClassDef):
            self.classes.add(number)
        self._lay_out(node.body, _Around(None, (), None, number))

    def _lay_out_parts(self, node: ast.stmt, number: int, around: _Around) -> None:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            is_else = isinstance(node, LOOPS) and field == "orelse"
            inner = around.but(parent=number, else_of=number if is_else else None)
            if isinstance(node, LOOPS) and field == "body":
                inner = inner.but(loop=number)
            if isinstance(node, _CATCHERS):
                if field == "body" and not _is_harmless(node):
                    inner = inner.but(catchers=(*around.catchers, number))
                if isinstance(node, (ast.Try, ast.TryStar)) and field != "handlers":
                    inner = inner.but(parent=around.parent)
            for child in getattr(node, field, ()):
                self._lay_out(child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child], inner)

    def _jumps(self, node: ast.stmt, loop: int | None) -> Iterator[tuple[str, int | None]]:
        """The ways out that a statement has inside, in whatever branch."""
        if isinstance(node, FUNCTIONS + (ast.ClassDef,)):
            return
        inner = self._numbers[node] if isinstance(node, LOOPS) else loop
        if isinstance(node, (ast.Break, ast.Continue)):
            yield ("break" if isinstance(node, ast.Break) else "continue"), loop
        elif isinstance(node, ast.Return):
            yield "return", None
        elif isinstance(node, (ast.Raise, ast.Assert)) or self._own[node].mentioned & _ENDS:
            yield "raise", None
        for child in _children(node):
            yield from self._jumps(child, inner)

    def is_fresh(self, binding: int, statement: int) -> bool:
        """Whether a statement binds a new object, and has certainly run whenever the other statement runs."""
        made, around = self.of[binding], self.of[statement].parent
        while around is not None and around != made.parent:
            around = self.of[around].parent
        is_before = made.function in (-1, self.of[statement].function) and around == made.parent
        return made.makes and is_before

    def outermost_loop(self, statement: int) -> int | None:
        """The loop around a statement that no other stands around; it may be one itself."""
        found, loop = None, statement if self.of[statement].kind in ("For", "AsyncFor", "While") else None
        loop = loop if loop is not None else self.of[statement].loop
        while loop is not None:
            found, loop = loop, self.of[loop].loop
        return found

    def _find_ends(self) -> list[int]:
        """Of each statement, the first number after everything inside of it."""
        ends = list(range(1, len(self.of) + 1))
        for node, number in self._numbers.items():
            ends[number] = number + 1 + len(list(statements(_children(node))))
        return ends


class _Around(Data):
    parent: int | None
    catchers: tuple[int, ...]
    loop: int | None
    function: int
    else_of: int | None = None  # the loop whose `else` holds it

    def but(self, **changed: Any) -> _Around:
        return _Around(**{**self.__dict__, **changed})


def _children(node: ast.stmt) -> Iterator[ast.stmt]:
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, field, ()):
            yield from child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child]


def _within(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements inside of another that run when it does: not those of functions it defines."""
    for child in _children(node):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from _within(child)


def _is_harmless(node: ast.stmt) -> bool:
    """Whether a `with` lets every error through."""
    if not isinstance(node, (ast.With, ast.AsyncWith)):
        return False
    managers = [item.context_expr for item in node.items]
    return all(
        (called_name(one) if isinstance(one, ast.Call) else last_name(one)) in HARMLESS_MANAGERS for one in managers
    )


def _frame(scope: Scope) -> Scope:
    """The scope whose frame a scope's code runs in, comprehensions taken to run where they stand."""
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    return scope


__all__ = ["LAST", "OUTPUT", "Called", "Flow", "Flows", "Region"]
