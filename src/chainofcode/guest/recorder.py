"""Follows a run mark by mark and notes in a lineage what came from what. On request only: it costs.

A condition decides about everything that its branches may set, taken or not, and about what comes after where they hold
a way out. Not followed: errors that another value might have raised where no `try` would have caught them. From where
another thread runs on, and where objects tell that they go, everything depends on everything. A loop that runs very
often is one node from then on, which depends on all that it may read. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import FrameType

from ..program.flow import LAST, OUTPUT, Flow, Flows, Region
from .activations import BY_TURNS, Activation, Calls, Coarse
from .lineage import Lineage, Node, TooMuch, View
from .reach import ATOMS

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from collections.abc import Callable
    from typing import Any

    from ..program.lower import Mark

MAX_NODES = 3000  # of one loop, or of what runs between loops
MAX_WORK = 200_000  # objects looked at, likewise
_PREDICATES = frozenset(["If", "While", "Match"])
_FOR = frozenset(["For", "AsyncFor"])
_JUMPS = frozenset(["Break", "Continue", "Return", "Raise"])
_TRIES = frozenset(["Try", "TryStar"])
_WITH = frozenset(["With", "AsyncWith"])
_LOOPS = _FOR | {"While"}
_COMPOUND = _PREDICATES | _FOR | _TRIES | _WITH
_WORD = re.compile(r"[^\W\d]\w*")


class Recorder(Calls):
    """Hears of every mark of a run, of every value that was asked for, and of what is printed."""

    def __init__(self, flows: Flows, names: dict[str, Any], inputs: Iterable[str], prose: dict[int, str]) -> None:
        super().__init__(flows, Lineage(names, inputs, holds=not flows.closes))
        self._names, self._prose = names, prose
        self._settled = self._since = 0
        self._is_line_open = False  # what is printed next belongs to a line that was begun
        self._has_catchers = any(flow.catchers for flow in flows.of)
        if flows.is_hopeless:
            self._lost = self._new(None)
        self.wake: Callable[[], None] = lambda: None  # lets marks speak again that were told not to

    # --- what is heard ----------------------------------------------------------------------------------------

    def hear(self, mark: Mark, frame: FrameType) -> bool:
        """One visit of a mark; False when the next ones need not be told."""
        try:
            return self._lost is None and self._hear(mark, frame)
        except TooMuch:
            self._lost = self._new(None)
            return False

    def lose(self) -> None:
        """From here on everything depends on everything: something could not be followed."""
        self._lost = self._lost or self._new(None)

    def _hear(self, mark: Mark, frame: FrameType) -> bool:
        if self._coarse is not None:
            if not self._coarse.is_over(mark, frame):
                function = mark.statement if mark.phase == "start" else self._flows.of[mark.statement].function
                return self._coarse.needs(mark, function)
            self._end_coarse(self._coarse, frame)
        act = self._start(mark.statement, frame) if mark.phase == "start" else self._activation(frame)
        if act is None:  # text that the program runs itself
            return True
        flow, view = self._flows.of[mark.statement], View(frame, act.serial, self._names)
        if mark.phase == "enter" and flow.kind not in _TRIES:
            self._begin(act, mark.statement, flow, view)
        elif mark.phase == "leave":
            self._leave(act, mark.statement, flow, view)
        elif mark.phase == "turn":
            self._turn(act, mark.statement, flow, view)
        elif mark.phase == "outcome" and flow.kind in _TRIES:
            self._catch(act, mark.statement, flow, view)
        elif mark.phase == "outcome" or (mark.phase == "after" and flow.kind in _WITH):
            self._decide(self._header(act, mark.statement, flow, view), act, flow, view)
        if len(self.lineage.nodes) - self._since > MAX_NODES or self.lineage.work > MAX_WORK:
            self._begin_coarse(frame)
        return True

    def told(self, statement: int, visit: int, frame: FrameType | None) -> None:
        """A step of the trace was made of this."""
        act = self._activations.get(id(frame))
        if act is not None and self._coarse is None and statement in act.latest:
            self.lineage.nodes[act.latest[statement]].visits.append(visit)

    def settled(self) -> None:
        """The program took a value that was asked for: the next one of the trace."""
        node = self._running()
        if node is not None:
            node.values.append(self._settled)
        self._settled += 1

    def printed(self, text: str) -> None:
        node = self._running()
        if node is not None and text.strip():  # the last line that is not empty may be the answer
            (self.lineage.bind_too if self._is_line_open else self.lineage.bind)(OUTPUT, node.index)
        self._is_line_open = not text.endswith("\n") and (self._is_line_open or bool(text.strip()))

    def kept(self) -> None:
        """The value of an expression statement was kept as the last one."""
        node = self._running()
        if node is not None:
            self.lineage.bind(LAST, node.index)

    def emulated(self, changed: Iterable[str], frame: FrameType) -> None:
        """Whoever was asked for a statement has set these names."""
        act = self._activation(frame)
        if act is None or act.open is None or self._coarse is not None:
            return
        view, shared = View(frame, act.serial, self._names), self._flows.shared.get(act.function, {})
        for text in changed:
            is_own = act.function >= 0 and text in view.own
            name = (shared.get(text, "l") if is_own else "g", text)
            self.lineage.bind(view.place(name), act.open.index)
            self.lineage.change([view.value(name)], act.open)

    def graph(self, ends: dict[str, Any]) -> dict[str, Any]:
        """All that was noted, as data."""
        try:
            if self._coarse is not None and self._lost is None:
                self._end_coarse(self._coarse, None)
            return self._graph(ends)
        except TooMuch:
            self._lost = self._lost or self._new(None)
            return self._graph(dict.fromkeys(ends))

    def _graph(self, ends: dict[str, Any]) -> dict[str, Any]:
        failed = [node.index for node in self._unfinished]
        if self._lost is None:
            return {**self.lineage.told(ends, failed, []), "works": self._flows.works}
        self._lost.whole, self._lost.control = list(range(len(self._flows.of))), list(range(self._lost.index))
        graph = self.lineage.told(ends, [*failed, self._lost.index], [self._lost.index])
        return {**graph, "works": self._flows.works}

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
            self.lineage.read(node, path, view, act.caller)
        for path, part in flow.touched:
            self.lineage.touch(node, path, part, view)
        self._read_unknown(node, flow, view)
        act.latest[statement] = node.index
        if flow.has_yield:
            act.yielded = node.index
        if caller is not None and (flow.kind == "Return" or flow.has_yield or act.function in self._flows.classes):
            caller.data.append(node.index)
        if flow.kind not in _COMPOUND:
            self._ways_out(node, act, flow, view)
        return node

    def _read_unknown(self, node: Node, flow: Flow, view: View) -> None:
        """Prose reads what it mentions; `eval` and the like, anything."""
        if flow.kind == "Prose":
            texts = _WORD.findall(self._prose.get(node.statement or 0, ""))
        elif flow.is_dynamic:
            texts = self._unknown(flow, view)
        else:
            return
        for text in dict.fromkeys(texts):
            for home in ("g", "l"):
                self.lineage.read(node, ((home, text), ()), view, None)

    def _unknown(self, flow: Flow, view: View) -> list[str]:
        """The names that a text which is evaluated may mean."""
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        if texts and all(type(text) is str for text in texts):
            return [word for text in texts for word in _WORD.findall(text)]
        return [text for text in (*self._names, *view.own) if not text.startswith("__")]

    def _control(self, node: Node, act: Activation, flow: Flow, caller: Node | None) -> None:
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
        if flow.kind in _FOR:
            node = self._header(act, statement, flow, view)
            self.lineage.look(node, act.iterated.pop(statement, None))
            self.lineage.might(flow.region, node, view)
            self._tell_asker(act, node, view)
            self._done(node)
        elif flow.kind in _WITH and act.open is not None and act.open.statement not in (None, statement):
            self._catch(act, statement, flow, view)
        elif act.open is not None and act.open.statement == statement:
            (self._decide if flow.kind in _PREDICATES else self._finish)(act.open, act, flow, view)
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
        for path, part in flow.stores:
            self.lineage.store(node, path, part, view)
        for call in flow.calls:
            self.lineage.call(node, call, view)
        if flow.is_dynamic:
            for text in self._unknown(flow, view):
                for name in (("g", text), ("l", text)):
                    self.lineage.change([view.value(name)], node)
                    if not flow.evaluated:
                        self.lineage.bind_too(view.place(name), node.index)
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

    # --- loops that run very often ----------------------------------------------------------------------------

    def _begin_coarse(self, frame: FrameType) -> None:
        """From now on the outermost loop that runs is one node; where none does, the outermost statement."""
        chain = [(below, act, act.running) for below, act in self._under_way(frame)][::-1]
        loops = ((f, a, r) for f, a, s in chain if (r := self._flows.outermost_loop(s)) is not None)
        frame, act, statement = next(loops, chain[0])
        flow, view = self._flows.of[statement], View(frame, act.serial, self._names)
        node = self._new(statement)
        inside = range(statement, self._flows.ends[statement])
        node.whole = [n for n, one in enumerate(self._flows.of) if n in inside or one.function >= 0]
        self._control(node, act, flow, self._current(frame.f_back))
        for number in node.whole:
            for path in self._flows.of[number].reads:
                if path[0][0] != "l" or number in inside:
                    self.lineage.read(node, (path[0], ()), view, act.caller)
        act.latest[statement] = node.index
        around = {one.function for _, one in self._under_way(frame.f_back)}
        self._coarse = Coarse(node, act, frame, inside, around)

    def _end_coarse(self, coarse: Coarse, frame: FrameType | None) -> None:
        self._coarse, node, act = None, coarse.node, coarse.act
        names = {name: None for number in node.whole for name in self._flows.of[number].region.names}
        for name in names:
            place = (act.serial, name[1]) if name[0] == "l" else name
            self.lineage.bind_too(place, node.index)
        kept = [value for value in node.roots if type(value) not in ATOMS]
        self.lineage.change([*kept, *(self._names.get(text) for home, text in names if home == "g")], node)
        act.open = None
        for one in self._activations.values():
            if one.code.co_flags & BY_TURNS:  # it may have had its turn meanwhile
                one.yielded = node.index
        if frame is not None and coarse.is_below(frame):  # it has left its function, too
            caller = self._current(frame)
            if caller is not None:
                caller.data.append(node.index)
        self._done(node)
        self._since, self.lineage.work = len(self.lineage.nodes), 0
        self.wake()
