"""Follows a run statement by statement, through its watch marks: what each one reads, binds, changes and decides.

Everything that a branch may set depends on the condition, whether or not the branch ran; if a branch can leave the
block (`break`, `return`, …), so does the code after it. Not followed: errors that another value would have raised and
that no `try` would have caught. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...compiler.effects import Region
from ...compiler.flow import Flow, Flows
from ...compiler.library import SCOPE_FUNCTIONS
from .activations import BY_TURNS, Activation, Calls
from .choices import Choices
from .lineage import Lineage
from .nodes import Node, View

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

PREDICATES = frozenset(["If", "While", "Match"])
FOR = frozenset(["For", "AsyncFor"])
TRIES = frozenset(["Try", "TryStar"])
WITH = frozenset(["With", "AsyncWith"])
_JUMPS = frozenset(["Break", "Continue", "Return", "Raise"])
_LOOPS = FOR | {"While"}
_COMPOUND = PREDICATES | FOR | TRIES | WITH
_WORD = re.compile(r"[^\W\d]\w*")


class Following(Calls):
    """Records dependences when a statement begins, takes the next element, decides, fails or ends."""

    def __init__(self, flows: Flows, names: dict[str, Any], inputs: Iterable[str], prose: dict[int, str]) -> None:
        super().__init__(flows, Lineage(names, inputs, holds=not (flows.closes or flows.is_opaque)))
        self._names, self._prose = names, prose
        self._choices = Choices(flows, self.lineage, self._caller_of)
        self._has_catchers = any(flow.catchers for flow in flows.of)

    # --- statements -------------------------------------------------------------------------------------------

    def _begin(self, act: Activation, statement: int, flow: Flow, view: View) -> Node:
        """Open a node for a statement, with its control dependences and what it reads."""
        if act.open is not None and act.open.statement is not None:
            self._give_up(act, act.open, view)
        node = act.open = act.open or self._new(None)
        node.statement = statement
        caller = self._current(view.frame.f_back)
        self._control(node, act, flow, caller)
        for path in flow.reads:
            if flow.kind == "Delete" and path[0] in flow.writes:  # do not keep the object alive: `del` may free it
                self.lineage.read_name(node, view.place(path[0]), act.caller)
            else:
                self.lineage.read(node, path, view, act.caller)
        for path, part in flow.touched:
            self.lineage.touch(node, path, part, view)
        self._read_unknown(node, act, flow, view)
        node.whole += self._flows.yields.get(statement, ())  # `yield` makes it a generator even if it never runs
        act.latest[statement] = node.index
        if flow.has_yield:
            act.yielded = node.index
        if caller is not None and (flow.kind == "Return" or flow.has_yield or act.function in self._flows.classes):
            caller.data.append(node.index)
            self._give(node.roots, view.frame.f_back)
        self.lineage.weigh(node)
        if flow.kind not in _COMPOUND:
            self._ways_out(node, act, flow, view)
        return node

    def _read_unknown(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        """Record the reads of dynamic statements: prose reads the names it mentions, `eval` and the like anything."""
        texts: list[str] = []
        if flow.kind == "Prose":
            texts = _WORD.findall(self._prose.get(node.statement or 0, ""))
        elif flow.is_dynamic and self._is_told(act, flow, view):
            texts = self._evaluated(flow, view)
        elif flow.is_dynamic:
            self.lineage.barrier(node)
        for text in dict.fromkeys(texts):
            for home in ("g", "l"):
                self.lineage.read(node, ((home, text), ()), view, None)

    def _is_told(self, act: Activation, flow: Flow, view: View) -> bool:
        """Whether the evaluated texts are known strings at module level that use no scope functions."""
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        if act.function >= 0 or not texts or not all(type(text) is str for text in texts):
            return False
        words = {word for text in texts for word in _WORD.findall(text)}
        return words.isdisjoint(SCOPE_FUNCTIONS) and not any("__" in word for word in words)

    def _evaluated(self, flow: Flow, view: View) -> list[str]:
        """Return the words of the evaluated texts."""
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        return [word for text in texts if isinstance(text, str) for word in _WORD.findall(text)]

    def _control(self, node: Node, act: Activation, flow: Flow, caller: Node | None) -> None:
        if act.is_blind:
            self.lineage.barrier(node)
        if flow.parent is not None and flow.parent in act.latest:
            node.control.append(act.latest[flow.parent])
        elif caller is not None:
            node.control.append(caller.index)
        if act.code.co_flags & BY_TURNS:  # a generator also ends when its caller drops it
            node.control += [act.caller.index] if act.caller is not None else []
            node.control += [act.yielded] if act.yielded is not None else []
        ways: list[tuple[str, int | None]] = [("return", None)]
        loop = flow.loop
        while loop is not None:
            ways += [("break", loop), ("continue", loop)]
            loop = self._flows.of[loop].loop
        ways += [("break", flow.else_of)] if flow.else_of is not None else []
        ways += [("catch", catcher) for catcher in flow.catchers]  # a failure before it would have skipped it
        for way in ways:
            if way in act.sticky:
                self.lineage.note(node, act.sticky[way])

    def _header(self, act: Activation, statement: int, flow: Flow, view: View) -> Node:
        """Return the node of an evaluated header: the open one the first time, then a new one each time."""
        if act.open is not None and act.open.statement == statement:
            return act.open
        before = act.latest.get(statement)
        node = self._begin(act, statement, flow, view)
        if flow.kind == "While" and before is not None:
            node.control.append(before)  # evaluated again only because the condition held before
        return node

    def _decide(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        """Record a condition, or the end of a loop: everything that the body may set depends on it."""
        self._finish(node, act, flow, view)
        self.lineage.might(flow.region, node, view)
        self._ways_out(node, act, flow, view)
        for way in flow.jumps:
            act.may_leave(way, node.index)
        self._tell_asker(act, node, view)
        act.open = None

    def _turn(self, act: Activation, statement: int, flow: Flow, view: View) -> None:
        """Begin the next turn of a loop. Over a list or tuple, the turn depends on that element only."""
        is_first = act.open is not None and act.open.statement == statement
        if is_first:
            act.turns[statement] = 0
            act.sticky.pop(("break", statement), None)
            act.iterated[statement] = view.follow(flow.iterated) if flow.iterated is not None else None
        act.sticky.pop(("continue", statement), None)
        iterated: Any = act.iterated.get(statement)
        place = act.turns.get(statement, 0)
        if not is_first and flow.iterated is not None and type(iterated) in (list, tuple) and place < len(iterated):
            node = act.open = act.open or self._new(None)
            node.statement, act.latest[statement] = statement, node.index
            self._control(node, act, flow, self._current(view.frame.f_back))
            self.lineage.read_name(node, view.place(flow.iterated[0]), act.caller)
            self.lineage.read_part(node, iterated, place)
            self.lineage.look(node, iterated[place])
        else:
            node = self._header(act, statement, flow, view)
        act.turns[statement] = place + 1
        for name in flow.writes:
            self.lineage.bind(view.place(name), node.index)
        self._tell_asker(act, node, view)
        self._done(node)
        act.open = None

    def _leave(self, act: Activation, statement: int, flow: Flow, view: View) -> None:
        """Close a compound statement after its body."""
        if flow.kind in FOR:
            node = self._header(act, statement, flow, view)
            self.lineage.look(node, act.iterated.pop(statement, None))
            self.lineage.might(flow.region, node, view)
            self._tell_asker(act, node, view)
            self._done(node)
        elif flow.kind in WITH and act.open is not None and act.open.statement not in (None, statement):
            self._catch(act, statement, flow, view)
        elif act.open is not None and act.open.statement == statement:
            (self._decide if flow.kind in PREDICATES else self._finish)(act.open, act, flow, view)
        act.sticky.pop(("catch", statement), None)
        act.open = None

    def _catch(self, act: Activation, statement: int, flow: Flow, view: View) -> None:
        """Record that a handler caught an error: it depends on all unfinished statements from the failed one on."""
        before: list[int] = []
        if act.open is None or act.open.statement is None:  # a loop's header failed when it was evaluated again
            loop: int | None = act.running
            before = [act.latest[loop]] if loop in act.latest else []
            inside = range(statement + 1, self._flows.ends[statement])
            while loop is not None and loop in inside:
                if self._flows.of[loop].kind in _LOOPS:
                    self._begin(act, loop, self._flows.of[loop], view)
                loop = self._flows.of[loop].loop
        first = act.open.index if act.open is not None else len(self.lineage.nodes)
        failed = [node.index for node in self._unfinished if node.index >= first]
        if act.open is not None:
            self._give_up(act, act.open, view)
        node = self._begin(act, statement, flow, view)
        node.control += [*before, *failed]
        for name in flow.writes:
            self.lineage.bind(view.place(name), node.index)
        self.lineage.might(flow.region, node, view)
        self._done(node)
        act.open = None

    # --- ways out ---------------------------------------------------------------------------------------------

    def _ways_out(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        """Record that a statement leaves a loop or a function, or may have: the code after it depends on that."""
        for kind, loop in flow.jumps:
            if kind == "raise":
                self.lineage.guards.append(node.index)
            elif kind == "return":
                caller = self._current(view.frame.f_back)
                if caller is not None:
                    caller.control.append(node.index)
                self.lineage.might(self._flows.bodies.get(act.function, Region()), node, view)
            elif loop is not None:
                self.lineage.might(self._flows.of[loop].region, node, view)

    def _tell_asker(self, act: Activation, node: Node, view: View) -> None:
        """Make the consumer of a generator depend on this node, which decides whether the generator continues."""
        caller = self._current(view.frame.f_back) if act.code.co_flags & BY_TURNS else None
        if caller is not None:
            caller.control.append(node.index)

    # --- the end of a statement -------------------------------------------------------------------------------

    def _finish(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        if node.index + 1 != len(self.lineage.nodes):
            for one in self._unfinished:  # its calls may have changed the objects it reads
                if one.index >= node.index:
                    self.lineage.look_again(one)
        for name in flow.writes:
            self.lineage.bind(view.place(name), node.index)
        for name in flow.perhaps:
            self.lineage.bind_too(view.place(name), node.index)
        self.lineage.weigh(node)
        for path, part in flow.stores:
            self._choices.store(node, path, part, view)
            self.lineage.store(node, path, part, view)
        for call in flow.calls:
            if self.lineage.call(node, call, view):
                for path in call.handed if call.receiver is None else (call.receiver, *call.handed):
                    self._choices.change(node, path, view)
        if flow.is_loose:
            self.lineage.change(list(node.roots), node)
            if node.varies:
                self.lineage.change_any(node)
        if flow.is_dynamic and self._is_told(act, flow, view):
            self.lineage.change([view.value(("g", text)) for text in self._evaluated(flow, view)], node)
        elif flow.is_dynamic:
            self.lineage.barrier(node)
        if flow.decides:
            self.lineage.might(flow.region, node, view)
        if flow.has_yield:
            caller = self._current(view.frame.f_back)
            node.data += [caller.index] if caller is not None else []
        if self._has_catchers and flow.may_fail:
            self._might_be_caught(node, act, view)
        self._done(node)

    def _give_up(self, act: Activation, node: Node, view: View) -> None:
        """Close a statement that did not complete: it failed, or it left its block."""
        flow = self._flows.of[node.statement] if node.statement is not None else None
        if flow is not None and flow.kind not in _JUMPS:
            for name in (*flow.writes, *flow.perhaps):
                self.lineage.bind_too(view.place(name), node.index)
            self.lineage.change([value for value in node.roots if flow.calls or flow.stores], node)
        self._done(node)
        act.open = None

    def _done(self, node: Node) -> None:
        """Mark a node as finished, and drop the unfinished nodes that were opened after it."""
        self.lineage.weigh(node)
        node.is_done = True
        node.places.clear()
        node.roots.clear()
        while self._unfinished and self._unfinished[-1].index >= node.index:
            self._unfinished.pop()

    def _might_be_caught(self, node: Node, act: Activation, view: View) -> None:
        """Record that an error here would have reached the enclosing `try` statements, those of callers included."""
        for frame, around in self._under_way(view.frame):
            running = node if around is act else around.open
            statement = running.statement if running is not None else None
            for catcher in self._flows.of[statement].catchers if statement is not None else ():
                there = View(frame, around.serial, self._names)
                self.lineage.might(self._flows.of[catcher].region, node, there)
                around.may_leave(("catch", catcher), node.index)

    def _caller_of(self, view: View) -> tuple[Node, View] | None:
        """Return the node and the view of the statement that called a function."""
        for frame, act in self._under_way(view.frame.f_back):
            return (act.open, View(frame, act.serial, self._names)) if act.open is not None else None
        return None
