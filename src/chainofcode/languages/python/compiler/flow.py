"""How the statements of a program may affect each other: the static facts that provenance needs.

For a condition: what could have been changed if it had gone the other way. For a function: what calling it may change.
Names and paths are those of compiler/effects.py; guest/follow/recorder.py follows a run with them. Standard library
only.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

from .analyse import Analysis
from .channels import Channels
from .computation import works_by_statement
from .effects import OUTPUT, Effects, Known, Region
from .library import EXITS, MAKERS, NAME_LOOKUPS, PLAIN_MANAGERS, PROPERTY_DECORATORS
from .record import Data
from .statements import children, inside, statements
from .syntax import DEFINITIONS, FUNCTIONS, LOOPS, Function, Scope, is_read, last_name, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from .effects import Name

_CATCHERS = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_YIELDS = (ast.Yield, ast.YieldFrom)
_CONTROLS = (ast.If, *LOOPS, *_CATCHERS, ast.Match)


class Surroundings(Data):
    """The place of a statement, as numbers of other statements."""

    parent: int | None  # the statement around it that decides whether it runs
    catchers: tuple[int, ...]  # `try` and `with` statements around it
    loop: int | None
    function: int  # the statement that defines the function (or class) around it; -1 is the module
    else_of: int | None  # the loop whose `else` contains it: it runs unless `break` left that loop

    def but(self, **changed: Any) -> Surroundings:
        return Surroundings(**{**self.__dict__, **changed})


class Flow(Effects):
    """The effects of one statement, its place, and how it may affect others."""

    parent: int | None
    catchers: tuple[int, ...]
    loop: int | None
    function: int
    else_of: int | None
    region: Region  # what it and everything inside may change
    jumps: frozenset[tuple[str, int | None]]  # ways out of it: break and continue, of which loop; return; raise
    decides: bool  # another value could have made it evaluate another part, or call another function


class Flows:
    """The flow of every statement of a program, by its number. Create it before the tree is lowered."""

    def __init__(self, found: Analysis) -> None:
        self._found, self._names, self._numbers = found, found.names, found.facts.numbers
        self._homes = {scope: str(index) for index, scope in enumerate(found.names.scopes)}
        scope_of, nodes = found.names.scope_of, found.syntax.nodes
        self._lambdas = {scope_of[node.body] for node in nodes if isinstance(node, ast.Lambda)}
        self._generators = {scope_of[node.elt] for node in nodes if isinstance(node, ast.GeneratorExp)}
        self._captured = self._find_captured()
        self._regions: dict[ast.stmt, Region] = {}
        known = self._known = self._find_known()
        firsts = self._find_firsts()
        self.of: list[Flow] = [
            Flow(found.facts.of(node), self.name, known, firsts.get(scope_of[node].frame)) for node in self._numbers
        ]
        self.is_opaque = known.channels.everything
        # A generator that is dropped may still run a `finally` or `with`.
        catchers = [node for node in self._numbers if isinstance(node, _CATCHERS)]
        self.closes = any(isinstance(part, _YIELDS) for node in catchers for part in ast.walk(node))
        self._summarise()
        self.bodies: dict[int, Region] = {}  # function → what its statements may change
        self.shared: dict[int, dict[str, str]] = {}  # function → its names that inner functions use, and their homes
        self.classes: set[int] = set()
        self.yields: dict[int, list[int]] = {}  # function → statements that make it a generator
        self._lay_out(found.syntax.tree.body, Surroundings(None, (), None, -1, None))
        # For each statement, the first number after everything inside it.
        self.ends = [number + len(list(statements([node]))) for node, number in self._numbers.items()]
        holes = found.holes | {stub.name for stub in found.stubs} | {method.attr for method in found.methods}
        self.works = works_by_statement(self._numbers, holes | known.functions)

    def _flow(self, node: ast.stmt) -> Flow:
        return self.of[self._numbers[node]]

    # --- names ------------------------------------------------------------------------------------------------

    def _find_known(self) -> Known:
        found = self._found
        fixed = self._find_fixed()
        return Known(
            defined=frozenset([*found.syntax.functions, *found.names.module.bindings]),
            functions=frozenset([*found.syntax.functions, *(node.name for node in found.syntax.classes)]),
            fixed=fixed,
            keeping=frozenset(node.name for node in found.syntax.classes if _only_keeps(node)) & fixed,
            holes=frozenset(found.holes),
            channels=Channels(found),
        )

    def _find_captured(self) -> set[tuple[Scope, str]]:
        """Return the names of functions that functions inside them use."""
        captured = set()
        for user in self._names.scopes:
            for name in [*(node.id for node in user.loads), *user.nonlocal_names]:
                home = self._names.resolve(name, user)
                if home is None or home.kind != "function":
                    continue
                if user.frame is not home.frame or self._is_later(user, home):
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
        """Return the object of `super()` in each function: its first parameter."""
        firsts: dict[Scope, Name] = {}
        for node in self._numbers:
            if isinstance(node, FUNCTIONS) and (given := [*node.args.posonlyargs, *node.args.args]):
                name = self.name(given[0].arg, node.body[0])
                firsts |= {self._names.scope_of[node.body[0]]: name} if name is not None else {}
        return firsts

    def _find_fixed(self) -> frozenset[str]:
        """Return the functions and classes whose names are bound once, so that a call of the name is unambiguous."""
        counts: Counter[str] = Counter()
        for scope in self._names.scopes:
            counts.update({name: len(sources) for name, sources in scope.bindings.items()})
            counts.update(scope.nonlocal_names)
        defined = [node for node in self._numbers if isinstance(node, DEFINITIONS)]
        return frozenset(node.name for node in defined if counts[node.name] == 1 and not node.decorator_list)

    def name(self, text: str, node: ast.AST) -> Name | None:
        """Return what a name means at a node; None for the variable of a comprehension or a lambda."""
        scope: Scope = self._names.scope_of.get(node, self._names.module)
        home = self._names.resolve(text, scope)
        if home is None or home.kind == "module":
            return "g", text
        if home.kind == "comprehension" or home in self._lambdas:
            return None
        return (self._homes[home], text) if (home, text) in self._captured else ("l", text)

    # --- what calling a function may change -------------------------------------------------------------------

    def _summarise(self) -> None:
        """Compute what calling each function may change, as seen from outside."""
        bodies = self._find_bodies()
        self._mentions = {name: Region() for name in bodies}
        mentioned = {
            name: {text for line in body for text in self._flow(line).mentioned} & bodies.keys()
            for name, body in bodies.items()
        }
        mentioning: dict[str, list[str]] = {name: [] for name in bodies}
        for name, others in mentioned.items():
            for other in others:
                mentioning[other].append(name)
        pending = deque(_callees_first(mentioned))
        waiting = set(pending)
        while pending:  # what its statements, and the functions that they mention, may change
            waiting.remove(name := pending.popleft())
            region = self._mentions[name]
            size = region.size()
            region.add(self._of_lines(bodies[name]), from_outside=True)
            for other in mentioned[name]:
                region.add(self._mentions[other])
            if region.size() != size:
                again = [other for other in mentioning[name] if other not in waiting]
                pending.extend(again)
                waiting.update(again)
        self._find_implicit(bodies)

    def _find_implicit(self, bodies: dict[str, list[ast.stmt]]) -> None:
        passed = _passed_as_values(self._found.syntax.nodes)
        functions = [node for node in self._numbers if isinstance(node, FUNCTIONS)]
        deferred = {  # they may run at other times than when they are called: they are decorated, or generators
            node.name
            for node in functions
            if not _is_implicit(node)
            and (node.decorator_list or any(self._flow(line).has_yield for line in inside(node)))
        }
        implicit = {node.name for node in filter(_is_implicit, functions)} - deferred
        deferred |= bodies.keys() if passed is None else bodies.keys() & passed
        self._implicit = Region()  # what functions may change that Python calls implicitly
        self._always = Region()  # the same of all functions that run without an explicit call
        for name in sorted(implicit | deferred):
            region = self._opened(name, bodies[name], "opens_all" if name in deferred else "opens_instances")
            self._always.add(region)
            if name in implicit:
                self._implicit.add(region)
        if passed is None or not passed.isdisjoint(["print", "stdout", "stderr"]):
            self._always.names[OUTPUT] = None

    def _find_bodies(self) -> dict[str, list[ast.stmt]]:
        """Return the statements that run when a function is called; of a class, those of its special methods, too."""
        bodies: dict[str, list[ast.stmt]] = {}
        for node in self._numbers:
            if isinstance(node, DEFINITIONS):
                bodies.setdefault(node.name, []).extend(inside(node))
            if isinstance(node, ast.ClassDef):
                special = [
                    method for method in node.body if isinstance(method, FUNCTIONS) and method.name.startswith("__")
                ]
                bodies[node.name] += [line for method in special for line in inside(method)]
        return bodies

    def _opened(self, name: str, body: Iterable[ast.stmt], how: str) -> Region:
        """Return what calling a function may change; if it changes its arguments, the flag `how` is set, too."""
        region = Region()
        region.add(self._mentions[name])
        given = self._of_lines(body)
        if any(changed[0] != "g" and changed not in given.names for changed in given.objects):
            setattr(region, how, True)
        return region

    def _of_lines(self, lines: Iterable[ast.stmt]) -> Region:
        """Return what some statements may change themselves, directly or under another name."""
        region = Region()
        made_in: dict[Name, list[Flow]] = {}
        called: list[Name] = []
        for flow in map(self._flow, lines):
            region.add(flow.own_region)
            if flow.has_unnamed_targets:
                region.objects.update(self._exposed(flow))
            for name in (*flow.writes, *flow.perhaps):
                made_in.setdefault(name, []).append(flow)
            called += [call.function for call in flow.calls if call.function is not None]
        pending = list(region.objects)
        while pending:
            for flow in made_in.get(pending.pop(), ()):
                found = {**dict.fromkeys(path[0] for path in flow.reads), **self._exposed(flow)}
                pending += [name for name in found if name not in region.objects]
                region.objects.update(found)
        region.objects.update(dict.fromkeys(called))  # for the objects a function refers to: defaults, enclosing names
        return region

    def _exposed(self, flow: Flow) -> dict[Name, None]:
        """Return what the called functions may return."""
        found: dict[Name, None] = {}
        for mentioned in flow.mentioned & self._mentions.keys():
            found.update(self._mentions[mentioned].reads)
        return found

    def region(self, node: ast.stmt) -> Region:
        """Return what a statement and those inside it may change, functions that it calls included."""
        if node not in self._regions:
            lines = [node, *(() if isinstance(node, DEFINITIONS) else inside(node))]
            region = self._regions[node] = self._of_lines(lines)
            region.add(self._always)
            for flow in map(self._flow, lines):
                for mentioned in flow.mentioned & self._mentions.keys() if flow.calls else ():
                    region.add(self._mentions[mentioned])
        return self._regions[node]

    # --- nesting ----------------------------------------------------------------------------------------------

    def _lay_out(self, body: Iterable[ast.stmt], around: Surroundings) -> None:
        for node in body:
            number, flow = self._numbers[node], self._flow(node)
            flow.__dict__.update(vars(around))
            flow.region, flow.jumps = self.region(node), frozenset(self._jumps(node, around.loop))
            flow.decides = self._decides(flow)
            if flow.has_yield:
                self.yields.setdefault(around.function, []).append(number)
            if isinstance(node, DEFINITIONS):
                self._lay_out_body(node, number)
            elif isinstance(node, _CONTROLS):
                self._lay_out_parts(node, number, around)

    def _decides(self, flow: Flow) -> bool:
        """Whether another value could have made a statement run other functions."""
        functions = self._known.functions
        if flow.chooses or (flow.may_call and self._always.has_effects(functions)):
            return True
        return flow.may_dispatch and self._implicit.has_effects(functions)

    def _lay_out_body(self, node: Function | ast.ClassDef, number: int) -> None:
        scope = self._names.scope_of[node.body[0]]
        body = self.bodies[number] = Region()
        for line in node.body:
            body.add(self.region(line), from_outside=True)
        self.shared[number] = {text: self._homes[scope] for home, text in self._captured if home is scope}
        if isinstance(node, ast.ClassDef):
            self.classes.add(number)
        self._lay_out(node.body, Surroundings(None, (), None, number, None))

    def _lay_out_parts(self, node: ast.stmt, number: int, around: Surroundings) -> None:
        inner = around.but(parent=number, else_of=None)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            place = inner
            match node, field:
                case ((ast.For() | ast.AsyncFor() | ast.While()), "body"):
                    place = inner.but(loop=number)
                case ((ast.For() | ast.AsyncFor() | ast.While()), "orelse"):
                    place = inner.but(else_of=number)
                case ((ast.Try() | ast.TryStar()), "body"):
                    place = inner.but(parent=around.parent, catchers=(*around.catchers, number))
                case ((ast.Try() | ast.TryStar()), "orelse" | "finalbody"):
                    place = inner.but(parent=around.parent)
                case ((ast.With() | ast.AsyncWith()), "body"):
                    is_plain = all(last_name(item.context_expr) in PLAIN_MANAGERS for item in node.items)
                    place = inner if is_plain else inner.but(catchers=(*around.catchers, number))
            for child in getattr(node, field, ()):
                is_part = isinstance(child, (ast.ExceptHandler, ast.match_case))
                self._lay_out(child.body if is_part else [child], place)

    def _jumps(self, node: ast.stmt, loop: int | None) -> Iterator[tuple[str, int | None]]:
        """Yield the ways out of a statement, in any branch."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.Break():
                yield "break", loop
            case ast.Continue():
                yield "continue", loop
            case ast.Return():
                yield "return", None
            case ast.Raise() | ast.Assert():
                yield "raise", None
            case _ if self._flow(node).mentioned & EXITS:
                yield "raise", None
        inner = self._numbers[node] if isinstance(node, LOOPS) else loop
        for child in children(node):
            yield from self._jumps(child, inner)

    def is_fresh(self, binding: int, statement: int) -> bool:
        """Whether a statement binds a new object, and has certainly run whenever the other statement runs."""
        made, around = self.of[binding], self.of[statement].parent
        while around is not None and around != made.parent:
            around = self.of[around].parent
        is_before = made.function in (-1, self.of[statement].function) and around == made.parent
        return made.makes and is_before

    def outermost_loop(self, statement: int) -> int | None:
        """Return the outermost loop around a statement; it may be the statement itself."""
        is_loop = self.of[statement].kind in ("For", "AsyncFor", "While")
        found, loop = None, statement if is_loop else self.of[statement].loop
        while loop is not None:
            found, loop = loop, self.of[loop].loop
        return found


# --- functions that run without an explicit call ------------------------------------------------------------------


def _callees_first(mentioned: Mapping[str, Iterable[str]]) -> list[str]:
    """Order functions so that each comes after those that it mentions, unless they mention one another."""
    order: list[str] = []
    seen: set[str] = set()
    for first in mentioned:
        path = [] if first in seen else [(first, iter(mentioned[first]))]
        seen.add(first)
        while path:
            name, others = path[-1]
            following = next((other for other in others if other not in seen), None)
            if following is None:
                order.append(name)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(mentioned[following])))
    return order


def _only_keeps(node: ast.ClassDef) -> bool:
    """Whether the constructor of a class only stores its arguments, without changing them."""
    makers = [method for method in node.body if isinstance(method, FUNCTIONS) and method.name in MAKERS]
    return not node.decorator_list and not node.bases and all(map(_only_sets_fields, makers))


def _only_sets_fields(node: Function) -> bool:
    first = node.args.args[0].arg if node.args.args else ""
    for line in node.body:
        match line:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name))]) if name == first:
                continue
        return False
    return not any(isinstance(part, (ast.Call, ast.comprehension)) for part in ast.walk(node))


def _is_implicit(node: Function) -> bool:
    """Whether Python calls a method implicitly. Constructors do not count: they change the new object only."""
    names = {last_name(decorator) for decorator in node.decorator_list}
    if names:
        return names <= PROPERTY_DECORATORS
    return node.name.startswith("__") and node.name not in MAKERS


def _passed_as_values(nodes: Iterable[ast.AST]) -> set[str] | None:
    """Return the names of functions that are passed as values or run later; None if that may be any function."""
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found: set[str | None] = set()
    for node in nodes:
        if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
            found.update(map(text_of, ast.walk(node)))
        elif is_read(node) and id(node) not in called:
            found.add(text_of(node))
    mentioned = set(map(text_of, nodes))
    return {text for text in found if text is not None} if mentioned.isdisjoint(NAME_LOOKUPS) else None
