"""Follows one statement after another: what each reads, binds, changes and decides, told by its marks.

A condition decides about everything that its branches may set, taken or not, and about what comes after where they hold
a way out. Not followed: errors that another value might have raised where no `try` would have caught them. Standard
library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..program.channels import SCOPES
from ..program.flow import Flow, Flows, Region
from .activations import BY_TURNS, Activation, Calls
from .choices import Choices
from .lineage import Lineage
from .nodes import Node, View

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
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
    """What is noted when a statement begins, goes on with the next element, decides, fails or ends."""

    def __init__(self, flows: Flows, names: dict[str, Any], inputs: Iterable[str], prose: dict[int, str]) -> None:
        super().__init__(flows, Lineage(names, inputs, holds=not (flows.closes or flows.is_opaque)))
        self._names, self._prose = names, prose
        self._choices = Choices(flows, self.lineage, self._caller_of)
        self._has_catchers = any(flow.catchers for flow in flows.of)

    # --- statements -------------------------------------------------------------------------------------------

    def _begin(self, act: Activation, statement: int, flow: Flow, view: View) -> Node:
        """A statement runs: why, and what it reads."""
        if act.open is not None and act.open.statement is not None:
            self._give_up(act, act.open, view)
        node = act.open = act.open or self._new(None)
        node.statement = statement
        caller = self._current(view.frame.f_back)
        self._control(node, act, flow, caller)
        for path in flow.reads:
            if flow.kind == "Delete" and path[0] in flow.writes:  # what it means is not held: it may go
                self.lineage.read_name(node, view.place(path[0]), act.caller)
            else:
                self.lineage.read(node, path, view, act.caller)
        for path, part in flow.touched:
            self.lineage.touch(node, path, part, view)
        self._read_unknown(node, act, flow, view)
        node.whole += self._flows.yields.get(statement, ())  # they make it a generator, whether they run or not
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
        """Prose reads what it mentions; `eval` and the like, anything."""
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
        """Whether the texts that are evaluated are known, and mean names of the module alone."""
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        if act.function >= 0 or not texts or not all(type(text) is str for text in texts):
            return False
        words = {word for text in texts for word in _WORD.findall(text)}
        return words.isdisjoint(SCOPES) and not any("__" in word for word in words)

    def _evaluated(self, flow: Flow, view: View) -> list[str]:
        """The names that are evaluated as text."""
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        return [word for text in texts if isinstance(text, str) for word in _WORD.findall(text)]

    def _control(self, node: Node, act: Activation, flow: Flow, caller: Node | None) -> None:
        if act.is_blind:
            self.lineage.barrier(node)
        if flow.parent is not None and flow.parent in act.latest:
            node.control.append(act.latest[flow.parent])
        elif caller is not None:
            node.control.append(caller.index)
        if act.code.co_flags & BY_TURNS:  # it may be closed by whoever lets go of it
            node.control += [act.caller.index] if act.caller is not None else []
            node.control += [act.yielded] if act.yielded is not None else []
        ways: list[tuple[str, int | None]] = [("return", None)]
        loop = flow.loop
        while loop is not None:
            ways += [("break", loop), ("continue", loop)]
            loop = self._flows.of[loop].loop
        ways += [("break", flow.else_of)] if flow.else_of is not None else []
        ways += [("catch", catcher) for catcher in flow.catchers]  # had one before it failed, it would not run
        for way in ways:
            if way in act.sticky:
                self.lineage.note(node, act.sticky[way])

    def _header(self, act: Activation, statement: int, flow: Flow, view: View) -> Node:
        """The node of a header that was evaluated: opened before the first time, a new one each time after."""
        if act.open is not None and act.open.statement == statement:
            return act.open
        before = act.latest.get(statement)
        node = self._begin(act, statement, flow, view)
        if flow.kind == "While" and before is not None:
            node.control.append(before)  # it is asked again only because it held before
        return node

    def _decide(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        """A condition was evaluated, or a loop has ended: whatever is inside may have been done, or not."""
        self._finish(node, act, flow, view)
        self.lineage.might(flow.region, node, view)
        self._ways_out(node, act, flow, view)
        for way in flow.jumps:
            act.may_leave(way, node.index)
        self._tell_asker(act, node, view)
        act.open = None

    def _turn(self, act: Activation, statement: int, flow: Flow, view: View) -> None:
        """A loop goes on with the next element; of a list that it goes through, only that element counts."""
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
        """A statement is through, with everything inside of it."""
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
        """An error arrived at a handler: whoever was under way had a part in it."""
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
        """It leaves a loop or a function, or may have: what comes after there runs for that reason, or does not."""
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
        """Whether a generator goes on is known to whoever asks it for more."""
        caller = self._current(view.frame.f_back) if act.code.co_flags & BY_TURNS else None
        if caller is not None:
            caller.control.append(node.index)

    # --- the end of a statement -------------------------------------------------------------------------------

    def _finish(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        if node.index + 1 != len(self.lineage.nodes):
            for one in self._unfinished:  # what was returned to it may have been made on the way
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
        """A statement that never came to its end: it failed, or it is a way out."""
        flow = self._flows.of[node.statement] if node.statement is not None else None
        if flow is not None and flow.kind not in _JUMPS:
            for name in (*flow.writes, *flow.perhaps):
                self.lineage.bind_too(view.place(name), node.index)
            self.lineage.change([value for value in node.roots if flow.calls or flow.stores], node)
        self._done(node)
        act.open = None

    def _done(self, node: Node) -> None:
        """It has come to its end; what was begun after it and has not will not."""
        self.lineage.weigh(node)
        node.is_done = True
        node.places.clear()
        node.roots.clear()
        while self._unfinished and self._unfinished[-1].index >= node.index:
            self._unfinished.pop()

    def _might_be_caught(self, node: Node, act: Activation, view: View) -> None:
        """Had it failed, a `try` around it would have gone another way: here, or where it was called."""
        for frame, around in self._under_way(view.frame):
            running = node if around is act else around.open
            statement = running.statement if running is not None else None
            for catcher in self._flows.of[statement].catchers if statement is not None else ():
                there = View(frame, around.serial, self._names)
                self.lineage.might(self._flows.of[catcher].region, node, there)
                around.may_leave(("catch", catcher), node.index)

    def _caller_of(self, view: View) -> tuple[Node, View] | None:
        """The statement that called a function, and what it sees."""
        for frame, act in self._under_way(view.frame.f_back):
            return (act.open, View(frame, act.serial, self._names)) if act.open is not None else None
        return None
