"""What each statement of a program has to do with the others: the facts that provenance is made of, from syntax alone.

Of a condition, what could have been changed had it gone another way; of a function, what calling it may change. Names
and paths are those of program/header.py; guest/recorder.py follows a run with them. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .analyse import HARMLESS_MANAGERS, Analysis
from .data import Data
from .header import FUNCTIONS, LAST, LOOPS, OUTPUT, Called, Header, Region
from .scopes import Function, Scope
from .statements import statements
from .syntax import called_name, last_name
from .works import works_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

    from .header import Name, Path

_ENDS = frozenset(["exit", "quit", "_exit", "abort"])
_CATCHERS = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_CONTROLS = (ast.If, *LOOPS, *_CATCHERS, ast.Match)


class Flow(Data):
    """One statement, by numbers of other statements; of a compound one only the header, but for the region."""

    kind: str
    reads: tuple[Path, ...]
    writes: tuple[Name, ...]  # bound when it is through
    perhaps: tuple[Name, ...]  # bound, or not
    stores: tuple[tuple[Path, tuple[str, Any] | None], ...]  # of `d[k] = …`: d and k; None: nobody knows which
    calls: tuple[Called, ...]
    region: Region  # with everything inside
    parent: int | None  # the statement around it that decides whether it runs
    catchers: tuple[int, ...]  # `try` and `with` statements that stand around it
    loop: int | None
    function: int  # the statement that defines the function (or class) it stands in; -1 is the module
    jumps: frozenset[tuple[str, int | None]]  # what it may do inside: break and continue, of which loop; return; raise
    iterated: Path | None  # of a loop over a plain path
    has_yield: bool
    is_dynamic: bool  # it reads and changes nobody knows what,
    evaluated: tuple[Any, ...]  # but for the names in these texts, where it does no more than `eval`: paths, literals
    may_fail: bool  # another value may have made it raise an error


class Flows:
    """The facts of every statement of a program, by its number. To be made before the tree is lowered."""

    def __init__(self, found: Analysis) -> None:
        self._found, self._names = found, found.names
        self._homes = {scope: str(index) for index, scope in enumerate(found.names.scopes)}
        lambdas = [node for node in found.syntax.nodes if isinstance(node, ast.Lambda)]
        self._lambdas = {found.names.scope_of[node.body] for node in lambdas}
        self._captured = self._find_captured()
        self._numbers = {node: number for number, node in enumerate(statements(found.syntax.tree.body))}
        self._mentions: dict[str, Region] = {}  # function (or class) → what calling it may change, seen from outside
        self._regions: dict[ast.stmt, Region] = {}
        self._own: dict[ast.stmt, Header] = {node: Header(node, self.name) for node in self._numbers}
        self._summarise()
        self.of: list[Flow] = [None] * len(self._numbers)  # type: ignore[list-item]  # each is laid out below
        self.bodies: dict[int, Region] = {}  # function → what its statements may change
        self.shared: dict[int, dict[str, str]] = {}  # function → its names that inner functions use, and their homes
        self.classes: set[int] = set()
        self._lay_out(found.syntax.tree.body, _Around(None, (), None, -1))
        self.ends = self._find_ends()
        holes = found.holes | {stub.name for stub in found.stubs} | {method.attr for method in found.methods}
        classes = {node.name for node in self._numbers if isinstance(node, ast.ClassDef)}
        self.works = works_of(self._numbers, holes | classes | found.syntax.functions.keys())

    # --- names ------------------------------------------------------------------------------------------------

    def _find_captured(self) -> set[tuple[Scope, str]]:
        """Names of functions that functions inside of them use."""
        captured = set()
        for scope in self._names.scopes:
            inner = [(node.id, scope) for node in scope.loads]
            inner += [(name, scope) for name in scope.nonlocal_names]
            for name, user in inner:
                home = self._names.resolve(name, user)
                if home is not None and home.kind == "function" and _frame(user) is not _frame(home):
                    captured.add((home, name))
        return captured

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
        always: list[str] = []  # methods that Python calls by itself
        for node in self._numbers:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                bodies.setdefault(node.name, []).extend(_within(node))
                if isinstance(node, ast.ClassDef):
                    inits = [m for m in node.body if isinstance(m, FUNCTIONS) and m.name.startswith("__")]
                    bodies[node.name] += [line for method in inits for line in _within(method)]
                elif node.decorator_list or (node.name.startswith("__") and node.name != "__init__"):
                    always.append(node.name)
        self._mentions = {name: Region() for name in bodies}
        size = -1
        while size != (size := sum(len(r.names) + len(r.objects) for r in self._mentions.values())):
            for name, body in bodies.items():
                for line in body:
                    self._mentions[name].add(self._own[line].region, from_outside=True)
                    for mentioned in self._own[line].mentioned & bodies.keys():
                        self._mentions[name].add(self._mentions[mentioned])
        self._always = Region()
        for name in always:
            self._always.add(self._mentions[name])

    def region(self, node: ast.stmt) -> Region:
        """What a statement and those inside may change, functions that it calls included."""
        if node not in self._regions:
            region = self._regions[node] = Region()
            for line in [node, *([] if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else _within(node))]:
                header = self._own[line]
                region.add(header.region)
                region.add(self._always)
                for mentioned in header.mentioned & self._mentions.keys() if header.calls else ():
                    region.add(self._mentions[mentioned])
        return self._regions[node]

    # --- who stands around whom -------------------------------------------------------------------------------

    def _lay_out(self, body: Iterable[ast.stmt], around: _Around) -> None:
        for node in body:
            number, header = self._numbers[node], self._own[node]
            self.of[number] = Flow(
                header.kind, header.reads, header.writes, header.perhaps, header.stores, header.calls,
                self.region(node), around.parent, around.catchers, around.loop, around.function,
                frozenset(self._jumps(node, around.loop)), header.iterated, header.has_yield, header.is_dynamic,
                header.evaluated, header.may_fail,
            )  # fmt: skip
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                self._lay_out_body(node, number)
            elif isinstance(node, _CONTROLS):
                self._lay_out_parts(node, number, around)

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
            inner = around.but(parent=number)
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
