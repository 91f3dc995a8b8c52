"""Which calls of a program can be asked for ahead of it, and why the others cannot: what `ahead` knows, in words."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from .ahead import Ahead
from .analyse import analyse
from .data import Data
from .parse import parse
from .scopes import Comprehension
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


class _Reason:
    def __init__(self, ahead: Ahead, tools: Collection[str]) -> None:
        self._ahead, self._tools = ahead, tools

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
        parts = list(dict.fromkeys([*self._conditions(call), *self._chained(call)]))
        known = f"as soon as {' and '.join(parts)} is known" if parts else "at once"
        loops = [node for node in self._around(call) if node in self._ahead.index]
        home = self._function(call)
        if self._is_handed_on(call):
            return f"for all elements at once: `{called_name(call)}` on line {call.lineno}"
        if loops:
            outer = loops[-1]
            loop = self._ahead.loops[self._ahead.index[outer]]
            line = getattr(outer, "lineno", call.lineno)
            if self._ahead.may_leave(loop):
                return f"{known}, for a few turns ahead: the loop on line {line} may end early"
            what = "every turn of the loop" if isinstance(outer, ast.For) else "every element"
            return f"{known}, for {what} on line {line}"
        if home is not None:
            return f"{known}, with what else is called; also where `{home}` is called ahead"
        return f"{known}, with the other calls of its block" if not parts else known

    def _conditions(self, call: ast.Call) -> Iterator[str]:
        child: ast.AST = call
        for node in self._around(call):
            if isinstance(child, ast.stmt):
                yield from self._ways_out(child)
            test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
            if isinstance(node, ast.comprehension):
                test = next((one for one in node.ifs if self._ahead.holds(one) and one is not child), None)
            if isinstance(node, Comprehension) and not isinstance(child, ast.comprehension):
                tests = [one for generator in node.generators for one in generator.ifs if self._ahead.holds(one)]
                test = tests[0] if tests else None
            if test is not None and test is not child and self._ahead.holds(test):
                yield f"`{ast.unparse(test)}`"
            child = node

    def _ways_out(self, statement: ast.stmt) -> Iterator[str]:
        """`if f(x): continue`, before a statement in its block: what comes after hangs on it."""
        block = next((block for block in self._ahead.blocks if statement in block), [])
        for line in block[: block.index(statement)] if block else ():
            if isinstance(line, ast.If) and self._ahead.holds(line.test) and self._ahead.leaves(line):
                yield f"`{ast.unparse(line.test)}`"

    def _chained(self, call: ast.Call) -> Iterator[str]:
        given = () if self._is_handed_on(call) else (*call.args, *(keyword.value for keyword in call.keywords))
        for argument in given:
            for node in ast.walk(argument):
                if isinstance(node, ast.Call) and self._ahead.holds(node):
                    yield f"`{ast.unparse(node)}`"
                    break
                source = self._source(node) if isinstance(node, ast.Name) else None
                if source is not None and self._ahead.holds(source):
                    yield f"`{ast.unparse(node)}`"
                    break

    def _source(self, name: ast.Name) -> ast.AST | None:
        names = self._ahead.found.names
        scope = names.scope_of.get(name)
        home = names.resolve(name.id, scope) if scope is not None else None
        sources = home.bindings[name.id] if home is not None else []
        return (
            sources[-1]
            if sources and isinstance(sources[-1], ast.expr) and not self._is_iterated(sources[-1])
            else None
        )

    def _is_iterated(self, source: ast.AST) -> bool:
        parent = self._ahead.parents.get(source)
        return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is source

    # --- where ------------------------------------------------------------------------------------------------

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What stands around a node in its function; of a comprehension, its first loop."""
        parent = self._ahead.parents.get(node)
        while parent is not None and not isinstance(parent, _DEFINITIONS):
            yield parent
            if isinstance(parent, Comprehension) and node not in parent.generators:
                yield parent.generators[0]
            node, parent = parent, self._ahead.parents.get(parent)

    def _function(self, node: ast.AST) -> str | None:
        parent = self._ahead.parents.get(node)
        while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parent = self._ahead.parents.get(parent)
        return parent.name if parent is not None else None
