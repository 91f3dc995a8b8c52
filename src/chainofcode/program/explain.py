"""Which calls of a program can be asked for ahead of it, and why the others cannot: what `ahead` knows, in words."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator

from .ahead import Ahead
from .analyse import analyse
from .data import Data
from .parse import parse
from .scopes import Comprehension, Scope
from .statements import own_nodes
from .syntax import called_name

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Overlap(Data):
    """One call that the model answers: whether it can be under way with others, and when it goes out."""

    line: int
    call: str
    can_overlap: bool
    when: str


def explain(
    source: str, *, defined: Collection[str] = (), packages: Collection[str] = (), tools: Collection[str] = ()
) -> list[Overlap]:
    """The calls of a program, in the order they are written. Raises NotAProgram."""
    parsed = parse(source)
    found = analyse(parsed.tree, defined=defined, packages=packages, tools=tools)
    ahead = Ahead(found, tools)
    reason = _Reason(ahead, tools)
    calls = {call: None for call in map(reason.call_of, found.hole_names()) if call is not None}
    told = [reason.of(call) for call in calls]
    prose = "when the program gets there: a line that is not Python, which may change anything"
    told += [Overlap(line.line, line.text.split("\n")[0], False, prose) for line in parsed.prose]
    return sorted(told, key=lambda one: one.line)


class _Hanging:
    """Which names hang on a value of the model's where they are read, as the text of the program says it.

    A name hangs from the first statement on that takes such a value, or that runs only where such a value lets it.
    """

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._since: dict[tuple[Scope, str], int] = {}
        for number, statement in enumerate(ahead.statements):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            own = [node for node in own_nodes(statement) if isinstance(node, (ast.expr, ast.comprehension))]
            if any(ahead.holds(node) for node in own) or any(self._hangs(node, number) for node in own):
                scope = ahead.found.names.scope_of[statement]
                for name in ahead.touched(statement):
                    self._since.setdefault((ahead.found.names.resolve(name, scope) or scope, name), number)

    def on(self, part: ast.AST, number: float) -> str:
        """What a part of the statement of that number waits for: the first such call or name in it, or nothing."""
        for node in ast.walk(part):
            if (isinstance(node, ast.Call) and self._ahead.holds(node)) or self._hangs(node, number):
                return f"`{ast.unparse(node)}`"
        return ""

    def _hangs(self, node: ast.AST, number: float) -> bool:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return False
        names = self._ahead.found.names
        scope = names.scope_of.get(node)
        home = names.resolve(node.id, scope) if scope is not None else None
        if home is None:
            return False
        if home.kind == "comprehension":
            sources = [source for source in home.bindings[node.id] if source is not None]
            return any(self.on(source, number) for source in sources)
        return self._since.get((home, node.id), number) < number


class _Reason:
    def __init__(self, ahead: Ahead, tools: Collection[str]) -> None:
        self._ahead, self._tools = ahead, tools
        self._hanging = _Hanging(ahead)

    def call_of(self, name: ast.AST) -> ast.Call | None:
        """The call that a hole's name stands in: as what is called, or as a function that is handed on."""
        parent = self._ahead.parents.get(name)
        while isinstance(parent, (ast.keyword, ast.Attribute)):
            parent = self._ahead.parents.get(parent)
        return parent if isinstance(parent, ast.Call) else None

    def of(self, call: ast.Call) -> Overlap:
        why_not = self._why_not(call)
        when = why_not or self._when(call)
        return Overlap(call.lineno, ast.unparse(call), not why_not, when)

    # --- why not ----------------------------------------------------------------------------------------------

    def _why_not(self, call: ast.Call) -> str:
        effects, name = self._ahead.effects, called_name(call)
        if name in self._tools:
            return "when the program gets there: a tool"
        if effects.whole:
            return f"when the program gets there: {effects.whole}"
        is_method = call.func in self._ahead.found.methods  # its object is an argument
        if not call.args and not call.keywords and not self._is_handed_on(call) and not is_method:
            return "when the program gets there: without arguments it is asked for every time"
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            objection = "" if self._is_handed_on(call) else effects.objection(argument)
            if objection:
                return f"when the program gets there: {objection}"
        if name in self._ahead.found.awaited:
            return "when the program gets there: it is awaited"
        return self._carried(call)

    def _is_handed_on(self, call: ast.Call) -> bool:
        """`map(f, xs)`: the hole is an argument."""
        return call in self._ahead.index

    def _carried(self, call: ast.Call) -> str:
        """What one turn of a loop needs of the one before."""
        read = {node.id for node in ast.walk(call) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for node in self._around(call):
            if isinstance(node, ast.While):
                return (
                    f"when the program gets there: nobody knows how often the `while` on line {node.lineno} goes round"
                )
            if isinstance(node, ast.For):
                own = {child.id for child in ast.walk(node.target) if isinstance(child, ast.Name)}
                touched = set[str]().union(*(self._ahead.touched(line) for line in node.body))
                carried = (read & touched) - own - self._set_before(call, node)
                if carried:
                    name = min(carried)
                    return f"when the program gets there: each turn of the loop on line {node.lineno} changes `{name}`"
        return ""

    def _set_before(self, call: ast.Call, loop: ast.For) -> set[str]:
        """Names that the same turn has set, to something new, before it gets to the call."""
        names: set[str] = set()
        for line in loop.body:
            if any(child is call for child in ast.walk(line)):
                break
            if isinstance(line, ast.Assign):
                names |= {target.id for target in line.targets if isinstance(target, ast.Name)}
        return names

    # --- when -------------------------------------------------------------------------------------------------

    def _when(self, call: ast.Call) -> str:
        parts = list(dict.fromkeys([*self._conditions(call), *self._iterated(call), *self._chained(call)]))
        known = f"as soon as {' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} known" if parts else "at once"
        loops = [node for node in self._around(call) if node in self._ahead.index]
        home = self._function(call)
        if self._is_handed_on(call):
            return f"{known}, for all elements of `{called_name(call)}` on line {call.lineno}"
        if loops:
            outer = loops[-1]
            loop = self._ahead.loops[self._ahead.index[outer]]
            line = getattr(outer, "lineno", call.lineno)
            if self._ahead.may_leave(loop):
                return f"{known}, for a few turns ahead: the loop on line {line} may end early"
            what = "every turn of the loop" if isinstance(outer, ast.For) else "every element"
            return f"{known}, for {what} on line {line}"
        if home is not None:
            return f"{known} when `{home}` is called, be it ahead of the program"
        return f"{known}, with the other calls of its block" if not parts else known

    def _on(self, part: ast.AST, call: ast.Call) -> str:
        """What a part of the program that a call needs waits for itself."""
        home = call if self._function(call) is None else None  # a function is called nobody knows when
        return self._hanging.on(part, self._number(call) if home is not None else math.inf)

    def _number(self, node: ast.AST) -> int:
        around: ast.AST | None = node
        while around is not None and around not in self._ahead.number:
            around = self._ahead.parents.get(around)
        return self._ahead.number[around] if isinstance(around, ast.stmt) else 0

    def _conditions(self, call: ast.Call) -> Iterator[str]:
        """What must be known for it to be known whether the call is made."""
        child: ast.AST = call
        for node in self._around(call):
            if isinstance(child, ast.stmt):
                yield from self._ways_out(child, call)
            for test in self._tests(node, child):
                if self._on(test, call):
                    yield f"`{ast.unparse(test)}`"
            child = node

    def _tests(self, node: ast.AST, child: ast.AST) -> Iterator[ast.expr]:
        """What decides, in a node, whether a part of it is evaluated."""
        match node:
            case ast.If() | ast.IfExp():
                yield from [node.test] if node.test is not child else []
            case ast.Match():
                yield from [node.subject] if node.subject is not child else []
            case ast.BoolOp():
                yield from node.values[: next((n for n, one in enumerate(node.values) if one is child), 0)]
            case ast.comprehension():
                yield from node.ifs[: next((n for n, one in enumerate(node.ifs) if one is child), len(node.ifs))]

    def _ways_out(self, statement: ast.stmt, call: ast.Call) -> Iterator[str]:
        """`if f(x): continue`, before a statement in its block: what comes after hangs on it."""
        block = next((block for block in self._ahead.blocks if statement in block), [])
        for line in block[: block.index(statement)] if block else ():
            if isinstance(line, ast.If) and self._on(line.test, call) and self._ahead.leaves(line):
                yield f"`{ast.unparse(line.test)}`"

    def _iterated(self, call: ast.Call) -> Iterator[str]:
        """What is gone through by the loops around it."""
        loops = [self._ahead.loops[self._ahead.index[node]] for node in self._around(call) if node in self._ahead.index]
        loops += [self._ahead.loops[self._ahead.index[call]]] if self._is_handed_on(call) else []
        yield from (waits for loop in loops if (waits := self._on(loop.iterable, call)))

    def _chained(self, call: ast.Call) -> Iterator[str]:
        """What its arguments, and the object whose method it is, are made of."""
        given = () if self._is_handed_on(call) else (*call.args, *(keyword.value for keyword in call.keywords))
        of = (call.func.value,) if isinstance(call.func, ast.Attribute) else ()
        yield from (waits for part in (*of, *given) if (waits := self._on(part, call)) and not self._is_turns_own(part))

    def _is_turns_own(self, part: ast.expr) -> bool:
        """Whether it is what a loop around it goes through, which `_iterated` has named."""
        return isinstance(part, ast.Name) and any(
            isinstance(child, ast.Name) and child.id == part.id
            for node in self._around(part)
            if isinstance(node, (ast.For, ast.comprehension))
            for child in ast.walk(node.target)
        )

    # --- where ------------------------------------------------------------------------------------------------

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What stands around a node in its function; not a loop whose iterable it stands in."""
        parent = self._ahead.parents.get(node)
        while parent is not None and not isinstance(parent, _DEFINITIONS):
            loop = self._ahead.loops[self._ahead.index[parent]] if parent in self._ahead.index else None
            if loop is None or loop.iterable is not node:
                yield parent
            if isinstance(parent, Comprehension):
                place = next((n for n, one in enumerate(parent.generators) if one is node), len(parent.generators))
                yield from reversed(parent.generators[:place])
            node, parent = parent, self._ahead.parents.get(parent)

    def _function(self, node: ast.AST) -> str | None:
        parent = self._ahead.parents.get(node)
        while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parent = self._ahead.parents.get(parent)
        return parent.name if parent is not None else None
