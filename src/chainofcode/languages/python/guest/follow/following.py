"""Follows a run through its watch marks: what each statement reads, binds, changes and decides.

Everything that a branch may set depends on the condition, whether or not the branch ran; if a branch can leave the
block (`break`, `return`, …), so does the code after it. Not followed: errors that another value would have raised and
that no `try` would have caught. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType

from ...compiler.effects import Region
from ...compiler.flow import Flow, Flows
from ...compiler.library import SCOPE_FUNCTIONS
from ..run.places import FILENAME, program_frame
from ..run.watch import hides_names, names_of
from .choices import Choices
from .lineage import ChangeLog, LineageGraph, Node, View

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from ...compiler.lower import Mark

BY_TURNS = 0x20 | 0x80 | 0x200  # code flags of generators and coroutines, which run in turns with their consumer
_MAKERS = frozenset(["__init__", "__post_init__"])
PREDICATES = frozenset(["If", "While", "Match"])
FOR = frozenset(["For", "AsyncFor"])
TRIES = frozenset(["Try", "TryStar"])
WITH = frozenset(["With", "AsyncWith"])
_JUMPS = frozenset(["Break", "Continue", "Return", "Raise"])
_LOOPS = FOR | {"While"}
_COMPOUND = PREDICATES | FOR | TRIES | WITH
_WORD = re.compile(r"[^\W\d]\w*")


class Activation:
    """An active call of a function (or the module): the statement that runs in it, and what decided that it runs."""

    __slots__ = (
        "caller", "code", "function", "is_blind", "iterated", "latest", "open", "serial", "sticky", "turns", "yielded"
    )  # fmt: skip

    def __init__(self, serial: int, function: int, code: CodeType, caller: Node | None) -> None:
        self.serial, self.function, self.code, self.caller = serial, function, code, caller
        self.is_blind = hides_names(code)  # its variables cannot be read
        self.open: Node | None = None
        self.latest: dict[int, int] = {}  # statement → its last node here
        self.sticky: dict[tuple[str, int | None], ChangeLog] = {}  # nodes that could have left a loop or the function
        self.iterated: dict[int, Any] = {}
        self.turns: dict[int, int] = {}
        self.yielded: int | None = None  # the last node that yielded, in a generator or coroutine

    def may_leave(self, way: tuple[str, int | None], index: int) -> None:
        self.sticky.setdefault(way, ChangeLog()).perhaps.append(index)

    @property
    def running(self) -> int:
        """The statement that runs now, or ran last."""
        if self.open is not None and self.open.statement is not None:
            return self.open.statement
        return max(self.latest, key=lambda statement: self.latest[statement], default=0)


class Coarse:
    """A loop that is one node from now on, its frame and the frames of its callers."""

    def __init__(self, node: Node, act: Activation, frame: FrameType, statements: range, around: set[int]) -> None:
        self.node, self.act, self.statements, self._home = node, act, statements, id(frame)
        self._around = around  # functions whose calls are active around it
        self._below = set[int]()
        below = frame.f_back
        while below is not None:
            self._below.add(id(below))
            below = below.f_back

    def is_over(self, mark: Mark, frame: FrameType) -> bool:
        if id(frame) != self._home:
            return self.is_below(frame)
        is_inside = mark.statement in self.statements and mark.phase != "start"
        return not is_inside or (mark.statement == self.statements.start and mark.phase == "leave")

    def needs(self, mark: Mark, function: int) -> bool:
        """Whether a mark must stay on: marks of the active code outside the loop show when the loop is over."""
        is_end = mark.statement == self.statements.start and mark.phase == "leave"
        is_inside = mark.statement in self.statements and not is_end
        return function in self._around or (function == self.act.function and not is_inside)

    def is_below(self, frame: FrameType) -> bool:
        return id(frame) in self._below


class Calls:
    """The active calls, and the statement that runs in each."""

    def __init__(self, flows: Flows, lineage: LineageGraph) -> None:
        self._flows, self.lineage = flows, lineage
        self._activations: dict[int, Activation] = {}
        self._unfinished: list[Node] = []
        self._serial = 0
        self._coarse: Coarse | None = None
        self._lost: Node | None = None  # set when the run can no longer be followed, e.g. because of a second thread

    def _start(self, function: int, frame: FrameType) -> Activation:
        caller = self._current(frame.f_back)
        if caller is None and function >= 0:
            self._lost = self._new(None)
        act = self._activations[id(frame)] = Activation(self._serial, function, frame.f_code, caller)
        if function in self._flows.classes:  # a class body sees the names of the enclosing scopes
            act.is_blind |= any(around.is_blind for _, around in self._under_way(frame.f_back))
        self._serial += 1
        if caller is not None:
            for text, home in self._flows.shared.get(function, {}).items():
                self.lineage.bind_too((home, text), caller.index)
        if (
            frame.f_code.co_name in _MAKERS and self.lineage.holds
        ):  # a new object that is used directly may have no name
            self._give([names_of(frame).get(frame.f_code.co_varnames[0])], frame.f_back, is_new=True)
        return act

    def _give(self, values: list[Any], frame: FrameType | None, *, is_new: bool = False) -> None:
        """Add returned values to the roots of the statements that use them, up through chains of `return f(…)`.

        They may still be changed before the caller's statement ends. New objects are added only where they are used.
        """
        for _, act in self._under_way(frame) if self.lineage.holds else ():
            statement = act.open.statement if act.open is not None else None
            flow = self._flows.of[statement] if statement is not None else None
            if act.open is not None and (flow is None or flow.consumes or not is_new):
                act.open.roots += values
            if flow is None or flow.kind != "Return":
                return

    def _activation(self, frame: FrameType) -> Activation | None:
        act = self._activations.get(id(frame))
        if act is not None and act.code is frame.f_code:
            return act
        return self._start(-1, frame) if frame.f_code.co_name == "<module>" else None

    def _running(self) -> Node | None:
        if self._lost is not None:
            return self._lost
        return self._coarse.node if self._coarse is not None else self._current(program_frame())

    def _under_way(self, frame: FrameType | None) -> Iterator[tuple[FrameType, Activation]]:
        """Yield the active calls that are watched, innermost first."""
        while frame is not None:
            act = self._activations.get(id(frame)) if frame.f_code.co_filename == FILENAME else None
            if act is not None and act.code is frame.f_code:
                yield frame, act
            frame = frame.f_back

    def _current(self, frame: FrameType | None) -> Node | None:
        """Return the node of the statement that runs in a frame, or in its nearest watched caller."""
        for _, act in self._under_way(frame):
            if act.open is None:  # a loop's header is evaluated again: its mark comes later
                act.open = self._new(None)
            return act.open
        return None

    def _new(self, statement: int | None) -> Node:
        node = self.lineage.new(statement)
        self._unfinished.append(node)
        return node


class Following(Calls):
    """Records dependences when a statement begins, takes the next element, decides, fails or ends."""

    def __init__(self, flows: Flows, names: dict[str, Any], inputs: Iterable[str], prose: dict[int, str]) -> None:
        super().__init__(flows, LineageGraph(names, inputs, holds=not (flows.closes or flows.is_opaque)))
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
        self._read(node, act, flow, view)
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

    def _read(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        for path in flow.reads:
            if flow.kind == "Delete" and path[0] in flow.writes:  # do not keep the object alive: `del` may free it
                self.lineage.read_name(node, view.place(path[0]), act.caller)
            else:
                self.lineage.read(node, path, view, act.caller)
        for path, part in flow.touched:
            self.lineage.touch(node, path, part, view)
        self._read_unknown(node, act, flow, view)

    def _read_unknown(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        """Record the reads of dynamic statements: prose reads the names it mentions, `eval` may read anything."""
        words: list[str] | None = []
        if flow.kind == "Prose":
            words = _WORD.findall(self._prose.get(node.statement or 0, ""))
        elif flow.is_dynamic:
            words = self._evaluated_words(act, flow, view)
        if words is None:
            self.lineage.barrier(node)
        for word in dict.fromkeys(words or ()):
            for home in ("g", "l"):
                self.lineage.read(node, ((home, word), ()), view, None)

    def _evaluated_words(self, act: Activation, flow: Flow, view: View) -> list[str] | None:
        """Return the words of the strings that a statement evaluates.

        None unless they are known strings at module level that use no scope functions.
        """
        texts = [text if isinstance(text, str) else view.follow(text) for text in flow.evaluated]
        if act.function >= 0 or not texts or not all(type(text) is str for text in texts):
            return None
        words = _WORD.findall(" ".join(texts))
        is_plain = SCOPE_FUNCTIONS.isdisjoint(words) and not any("__" in word for word in words)
        return words if is_plain else None

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
        # The ways in which a statement before this one could have skipped it.
        ways: list[tuple[str, int | None]] = [("return", None)]
        loop = flow.loop
        while loop is not None:
            ways += [("break", loop), ("continue", loop)]
            loop = self._flows.of[loop].loop
        ways += [("break", flow.else_of), *(("catch", catcher) for catcher in flow.catchers)]
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
        self._control_consumer(act, node, view)
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
        self._control_consumer(act, node, view)
        self._done(node)
        act.open = None

    def _leave(self, act: Activation, statement: int, flow: Flow, view: View) -> None:
        """Close a compound statement after its body."""
        if flow.kind in FOR:
            node = self._header(act, statement, flow, view)
            self.lineage.look(node, act.iterated.pop(statement, None))
            self.lineage.might(flow.region, node, view)
            self._control_consumer(act, node, view)
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
            before = [act.latest[act.running]] if act.running in act.latest else []
            self._begin_loops(act, statement, view)
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

    def _begin_loops(self, act: Activation, statement: int, view: View) -> None:
        """Evaluate the headers of the running loops inside a statement again."""
        loop: int | None = act.running
        while loop is not None and statement < loop < self._flows.ends[statement]:
            if self._flows.of[loop].kind in _LOOPS:
                self._begin(act, loop, self._flows.of[loop], view)
            loop = self._flows.of[loop].loop

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

    def _control_consumer(self, act: Activation, node: Node, view: View) -> None:
        """Make the consumer of a generator depend on this node, which decides whether the generator continues."""
        caller = self._current(view.frame.f_back) if act.code.co_flags & BY_TURNS else None
        if caller is not None:
            caller.control.append(node.index)

    # --- the end of a statement -------------------------------------------------------------------------------

    def _finish(self, node: Node, act: Activation, flow: Flow, view: View) -> None:
        if node.index + 1 != len(self.lineage.nodes):
            for unfinished in self._unfinished:  # its calls may have changed the objects it reads
                if unfinished.index >= node.index:
                    self.lineage.look_again(unfinished)
        for name in flow.writes:
            self.lineage.bind(view.place(name), node.index)
        for name in flow.perhaps:
            self.lineage.bind_too(view.place(name), node.index)
        self.lineage.weigh(node)
        self._change(node, flow, view)
        if flow.is_dynamic:
            words = self._evaluated_words(act, flow, view)
            if words is None:
                self.lineage.barrier(node)
            self.lineage.change([view.value(("g", word)) for word in words or ()], node)
        if flow.decides:
            self.lineage.might(flow.region, node, view)
        caller = self._current(view.frame.f_back) if flow.has_yield else None
        node.data += [caller.index] if caller is not None else []
        if self._has_catchers and flow.may_fail:
            self._might_be_caught(node, act, view)
        self._done(node)

    def _change(self, node: Node, flow: Flow, view: View) -> None:
        """Record what the stores and calls of a statement changed."""
        for path, part in flow.stores:
            self._choices.store(node, path, part, view)
            self.lineage.store(node, path, part, view)
        for call in flow.calls:
            if self.lineage.call(node, call, view):
                for path in call.arguments if call.receiver is None else (call.receiver, *call.arguments):
                    self._choices.change(node, path, view)
        if flow.is_loose:
            self.lineage.change(list(node.roots), node)
            if node.varies:
                self.lineage.change_any(node)

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
                around_view = View(frame, around.serial, self._names)
                self.lineage.might(self._flows.of[catcher].region, node, around_view)
                around.may_leave(("catch", catcher), node.index)

    def _caller_of(self, view: View) -> tuple[Node, View] | None:
        """Return the node and the view of the statement that called a function."""
        for frame, act in self._under_way(view.frame.f_back):
            return (act.open, View(frame, act.serial, self._names)) if act.open is not None else None
        return None
