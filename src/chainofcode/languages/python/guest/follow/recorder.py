"""Records the provenance of a run as a graph, its lineage. Only on request, because it is slow.

If a program uses a channel that cannot be followed (compiler/channels.py), or as soon as a second thread runs,
everything depends on everything. A loop that runs very often becomes one node, which depends on everything that it may
read. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType

from ...compiler.effects import LAST, OUTPUT
from ...compiler.flow import Flows
from .following import BY_TURNS, TRIES, WITH, Activation, Coarse, Following
from .lineage import Node, TooMuch, View
from .reachable import can_change

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Callable
    from typing import Any

    from ...compiler.lower import Mark

MAX_NODES = 3000  # of one loop, or of the code between two loops
MAX_WORK = 200_000  # objects visited, likewise


class Recorder(Following):
    """Receives every visit of a mark, every value that the program takes, and its output."""

    def __init__(self, flows: Flows, names: dict[str, Any], inputs: Iterable[str], prose: dict[int, str]) -> None:
        super().__init__(flows, names, inputs, prose)
        self._settled = self._since = 0
        self._is_line_open = False  # the next output continues a line
        self._listed: dict[int, Node] = {}  # statements that ran without being followed
        self._listed_last: Node | None = None
        if flows.is_opaque:
            self._lost = self._new(None)
        self.wake: Callable[[], None] = lambda: None  # switches marks on that were switched off

    # --- events -----------------------------------------------------------------------------------------------

    def hear(self, mark: Mark, frame: FrameType) -> bool:
        """Record a visit of a mark. Returns False if its next visits need not be recorded."""
        if self._lost is not None:  # not followed any more: the answer depends on every statement
            if mark.statement not in self._listed:
                self._listed[mark.statement] = self.lineage.new(mark.statement)
            self._listed_last = self._listed[mark.statement]
            return False
        try:
            return self._hear(mark, frame)
        except TooMuch:
            self._lost = self._new(None)
            return False

    def lose(self) -> None:
        """Stop following the run: from here on, everything depends on everything."""
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
        self._follow(mark, act, View(frame, act.serial, self._names))
        if len(self.lineage.nodes) - self._since > MAX_NODES or self.lineage.work > MAX_WORK:
            self._begin_coarse(frame)
        return True

    def _follow(self, mark: Mark, act: Activation, view: View) -> None:
        """Record what a mark reports of its statement."""
        flow = self._flows.of[mark.statement]
        match mark.phase:
            case "enter" if flow.kind not in TRIES:
                self._begin(act, mark.statement, flow, view)
            case "leave":
                self._leave(act, mark.statement, flow, view)
            case "turn":
                self._turn(act, mark.statement, flow, view)
            case "outcome" if flow.kind in TRIES:
                self._catch(act, mark.statement, flow, view)
            case "outcome":
                self._decide(self._header(act, mark.statement, flow, view), act, flow, view)
            case "after" if flow.kind in WITH:
                self._decide(self._header(act, mark.statement, flow, view), act, flow, view)

    def recorded(self, statement: int, visit: int, frame: FrameType | None) -> None:
        """Record that a visit of a statement became a step of the trace."""
        if statement in self._listed:
            self._listed[statement].visits.append(visit)
            return
        act = self._activations.get(id(frame))
        if act is not None and self._coarse is None and statement in act.latest:
            self.lineage.nodes[act.latest[statement]].visits.append(visit)

    def settled(self) -> None:
        """Record that the program took a requested value, the next one in the trace."""
        node = self._listed_last or self._running()
        if node is not None:
            node.values.append(self._settled)
            node.varies = True
        self._settled += 1

    def printed(self, text: str) -> None:
        node = self._running()
        if node is not None and text.strip():  # the last line that is not empty may be the answer
            (self.lineage.bind_too if self._is_line_open else self.lineage.bind)(OUTPUT, node.index)
        self._is_line_open = not text.endswith("\n") and (self._is_line_open or bool(text.strip()))

    def kept(self) -> None:
        """Record that the value of an expression statement is now the last one."""
        node = self._running()
        if node is not None:
            self.lineage.bind(LAST, node.index)

    def emulated(self, changed: Iterable[str], frame: FrameType) -> None:
        """Record the names that the delta of an emulated statement set."""
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
        """Return the graph as data."""
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
            return {**self.lineage.as_data(ends, failed, []), "works": self._flows.works}
        self._lost.whole, self._lost.data = list(range(len(self._flows.of))), list(range(len(self.lineage.nodes)))
        graph = self.lineage.as_data(ends, [*failed, self._lost.index], [self._lost.index])
        return {**graph, "works": self._flows.works}

    # --- loops that run very often ----------------------------------------------------------------------------

    def _begin_coarse(self, frame: FrameType) -> None:
        """Make one node of the outermost loop that runs, or of the outermost statement if no loop runs."""
        chain = [(below, act, act.running) for below, act in self._under_way(frame)][::-1]
        loops = ((f, a, r) for f, a, s in chain if (r := self._flows.outermost_loop(s)) is not None)
        frame, act, statement = next(loops, chain[0])
        flow = self._flows.of[statement]
        node = self._new(statement)
        inside = range(statement, self._flows.ends[statement])
        node.whole = [n for n, flow_inside in enumerate(self._flows.of) if n in inside or flow_inside.function >= 0]
        self._control(node, act, flow, self._current(frame.f_back))
        if flow.region.is_dynamic:
            self.lineage.barrier(node)
        view = View(frame, act.serial, self._names)
        for number in node.whole:  # it may read every name that its statements read
            for name, _ in self._flows.of[number].reads:
                if name[0] != "l" or number in inside:
                    self.lineage.read(node, (name, ()), view, act.caller)
        act.latest[statement] = node.index
        around = {activation.function for _, activation in self._under_way(frame.f_back)}
        self._coarse = Coarse(node, act, frame, inside, around)

    def _end_coarse(self, coarse: Coarse, frame: FrameType | None) -> None:
        self._coarse, node, act = None, coarse.node, coarse.act
        if act.is_blind or self._flows.of[coarse.statements.start].region.is_dynamic:
            self.lineage.barrier(node)
        self._change_all(node, act)
        act.open = None
        for activation in self._activations.values():
            if activation.code.co_flags & BY_TURNS:  # it may have run meanwhile
                activation.yielded = node.index
        caller = self._current(frame) if frame is not None and coarse.is_below(frame) else None
        if caller is not None:  # it has left its function, too
            caller.data.append(node.index)
        self._done(node)
        self._since, self.lineage.work = len(self.lineage.nodes), 0
        self.wake()

    def _change_all(self, node: Node, act: Activation) -> None:
        """Record that a node may have changed every name and object that its statements change."""
        names = {name: None for number in node.whole for name in self._flows.of[number].region.names}
        for home, text in names:
            place = (act.serial, text) if home == "l" else (home, text)
            self.lineage.bind_too(place, node.index)
        kept = [*filter(can_change, node.roots), *(self._names.get(text) for home, text in names if home == "g")]
        self.lineage.change(kept, node)
