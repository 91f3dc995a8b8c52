"""Provenance as a graph of the statements that ran: which ones set each name and changed each object.

A node is one run of a statement. It depends on the nodes that bound the names it read, on those that changed the
objects it could reach, on those that decided that it runs, and on those that *might* have changed what it read, had
they taken another branch. Where a dependence cannot be followed, it is overstated, never understated. Standard library
only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType

from ....guest.link import clean
from ...compiler.effects import LOOSE, Called, Region
from ..run.places import CO_OPTIMIZED
from ..run.watch import names_of
from .reachable import (
    ABSENT,
    can_change,
    changes_of_function,
    changes_of_method,
    changes_of_super,
    fields_of,
    has_key,
    held_by_lambda,
    is_own_class,
    is_plain,
    may_change_names,
    names_in,
    reachable,
    step,
    stored_key,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from ...compiler.effects import Name, Path

_INLINE = 4  # logs up to this length are copied into the nodes that read them
_MAX_SINKS = 200
_MAX_LOOK = 500_000  # objects that may be visited from one value


class ChangeLog:
    """The nodes that set a name or object, in order, and those that might have. Append-only: a length marks a moment.

    `varies`: one of them depends on an input or on a value of the host; `seen` is how far that was checked.
    """

    __slots__ = ("perhaps", "seen", "sure", "varies")

    def __init__(self, *sure: int) -> None:
        self.sure, self.perhaps = list(sure), list[int]()
        self.varies, self.seen = False, (0, 0)


class ObjectChanges:
    """The changes to one object: all of them, those under each key, and those under an unknown key.

    The object is kept alive so that its address is not reused. If the program could notice that, it is not kept alive,
    and a new object at the same address gets extra dependences.
    """

    __slots__ = ("all", "any", "keys", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.all, self.any = value, ChangeLog(), ChangeLog()
        self.keys: dict[Any, ChangeLog] = {}


class Node:
    """One run of a statement; `read`: logs with their lengths at that time; `whole`: other statements in the node."""

    __slots__ = (
        "control", "data", "index", "is_done", "places", "read", "roots", "statement", "values", "varies", "visits",
        "whole",
    )  # fmt: skip

    def __init__(self, index: int, statement: int | None) -> None:
        self.index, self.statement = index, statement
        self.data, self.control = list[int](), list[int]()
        self.read: dict[int, tuple[ChangeLog, int, int]] = {}
        self.visits, self.values = list[int](), list[int]()  # steps of the trace: by Python; by the model or a tool
        self.whole: list[int] = []
        self.varies = self.is_done = False  # `varies`: it depends on an input or a value of the host
        self.places: list[Any] = []  # the names it read
        self.roots: list[Any] = []  # the values of those names


class View:
    """The names that a frame sees at one moment. `serial` tells calls of the same function apart."""

    __slots__ = ("_names", "_own", "frame", "serial")

    def __init__(self, frame: FrameType, serial: int, names: dict[str, Any]) -> None:
        self.frame, self.serial, self._names = frame, serial, names
        self._own: dict[str, Any] | None = None

    def place(self, name: Name) -> Any:
        """Return the key of a name's log: local names have one per call of the function."""
        return (self.serial, name[1]) if name[0] == "l" else name

    def value(self, name: Name) -> Any:
        if name[0] == "g":
            return self._names.get(name[1], ABSENT)
        return self.own.get(name[1], ABSENT)

    def function(self, name: Name) -> Any:
        """Return the value of a called name: holes are builtins."""
        value = self.value(name)
        return vars(self._names["__builtins__"]).get(name[1], ABSENT) if value is ABSENT else value

    @property
    def own(self) -> dict[str, Any]:
        if self._own is None:
            self._own = _visible(self.frame)
        return self._own

    def key(self, how: str, key: Any) -> Any:
        return self.value(key) if how == "var" else key

    def follow(self, path: Path) -> Any:
        """Return the object at the end of a path, or the last one on it that can be read."""
        value = self.value(path[0])
        for how, key in path[1]:
            part = step(value, how, self.key(how, key))[0]
            if part is ABSENT:
                return value
            value = part
        return value


def _visible(frame: FrameType) -> dict[str, Any]:
    """Return a frame's variables; for a class body, those of the enclosing function too."""
    around = frame.f_back
    if frame.f_code.co_flags & CO_OPTIMIZED or frame.f_code.co_name == "<module>" or around is None:
        return names_of(frame)
    return {**_visible(around), **names_of(frame)}


class TooMuch(Exception):
    """Too many objects are reachable from a value."""


class LineageGraph:
    """The graph as it grows; `names` is the module's namespace, `work` the number of objects visited."""

    def __init__(self, names: dict[str, Any], inputs: Iterable[str], *, holds: bool) -> None:
        self._names, self.holds = names, holds
        self.nodes: list[Node] = []
        self.logs: dict[Any, ChangeLog] = {}  # of names, by place
        self._object_changes: dict[int, ObjectChanges] = {}
        self._shared: dict[str, dict[Any, None]] = {}  # text → places of names that inner functions use
        self._everything = ChangeLog()  # every node
        self._wild = ChangeLog()  # nodes that might have changed any object
        self._barriers = ChangeLog()  # nodes that may have read and changed anything
        self.guards: list[int] = []  # conditions under which the program would have ended with an error
        self.work = 0
        self._inputs: dict[str, int] = {}
        for name in inputs:
            node = self.new(None)
            node.varies = node.is_done = True
            self.logs["g", name] = ChangeLog(node.index)
            self._inputs[name] = node.index

    def new(self, statement: int | None) -> Node:
        node = Node(len(self.nodes), statement)
        self.nodes.append(node)
        self._everything.sure.append(node.index)
        self.note(node, self._barriers)
        return node

    def barrier(self, node: Node) -> None:
        """Record a node that may read and change anything: it depends on all earlier nodes, all later ones on it."""
        self.note(node, self._everything)
        if not self._barriers.sure or self._barriers.sure[-1] != node.index:
            self._barriers.sure.append(node.index)

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, node: Node, path: Path, view: View, parameters_of: Node | None) -> None:
        """Record that a path is read: the name, each part on the way, and everything reachable from its end."""
        name, steps = path
        self.read_name(node, view.place(name), parameters_of if name[0] == "l" else None)
        value = view.value(name)
        for how, key in steps:
            part, actual_key = step(value, how, view.key(how, key))
            if part is ABSENT:
                break
            self.read_part(node, value, actual_key)
            if actual_key != view.key(how, key):  # a negative index: it also depends on the length
                self._note_all(node, value)
            value = part
        self.look(node, value)

    def read_name(self, node: Node, place: Any, otherwise: Node | None) -> None:
        """Read a name: depend on the nodes that set it, or for a parameter, on the caller."""
        log = self.logs.get(place)
        if log is not None and log.sure:
            node.places.append(place)
        elif otherwise is not None:
            node.data.append(otherwise.index)
        if log is not None:
            self.note(node, log)

    def read_part(self, node: Node, value: Any, key: Any) -> None:
        self.note(node, self._wild)
        if value is self._names:
            self.read_name(node, ("g", key), None)
        changes = self._object_changes.get(id(fields_of(value)))
        if changes is not None:
            self.note(node, changes.any)
            if key in changes.keys:
                self.note(node, changes.keys[key])

    def look(self, node: Node, value: Any) -> None:
        """Record that everything reachable from a value is read."""
        if not can_change(value):
            return
        node.roots.append(value)
        self.note(node, self._wild)
        lambdas: list[Any] = []
        for held, is_closed in self._reachable(
            value, lambda function, code: self._look_in(node, function, code, lambdas)
        ):
            self._note_all(node, held)
            if is_closed:
                self.set(held, ABSENT, node)
        for function in lambdas:  # the code it is passed to may call it
            self.change(held_by_lambda(function, self._names), node)

    def touch(self, node: Node, path: Path, part: tuple[str, Any] | None, view: View) -> None:
        """Record that a key is looked up, which adds a missing key to a `defaultdict`."""
        value = view.follow(path)
        found = [value] if part is not None else [held for held, _ in self._reachable(value)]
        key = view.key(*part) if part is not None else ABSENT
        for held in found:
            if type(held) is defaultdict and not has_key(held, key):
                self.set(held, stored_key(held, "key", key), node)

    def look_again(self, node: Node) -> None:
        """Record a node's reads again, after other nodes ran during it and may have changed what it read."""
        self.note(node, self._barriers)
        if node.roots:
            self.note(node, self._wild)
        for place in node.places:
            self.note(node, self.logs[place])
        for value in node.roots:
            for held, _ in self._reachable(value, lambda function, code: self._look_in(node, function, code, [])):
                self._note_all(node, held)

    def _note_all(self, node: Node, held: Any) -> None:
        changes = self._object_changes.get(id(fields_of(held)))
        if changes is not None:
            self.note(node, changes.all)
        if held is self._names:
            for place, log in self.logs.items():
                if place[0] == "g":
                    self.note(node, log)

    def _look_in(self, node: Node, value: Any, code: CodeType, changing: list[Any]) -> None:
        """Record that a lambda may be called, which reads its names."""
        if may_change_names(code, self._names):
            changing.append(value)
        for text in names_in(code):
            for place in [("g", text), *self._shared.get(text, ())]:
                if place in self.logs:
                    self.note(node, self.logs[place])

    def note(self, node: Node, log: ChangeLog) -> None:
        node.read[id(log)] = (log, len(log.sure), len(log.perhaps))

    def _reachable(
        self, value: Any, on_lambda: Callable[[Any, CodeType], None] = lambda value, code: None
    ) -> Iterator[tuple[Any, bool]]:
        def counted(function: Any, code: CodeType) -> None:
            self.work += 4
            on_lambda(function, code)

        most = self.work + _MAX_LOOK
        for held, is_closed in reachable(value, self._names, counted):
            if self.work > most:
                raise TooMuch
            self.work += 1 + (len(held) >> 3) if type(held) in (list, dict) else 4
            yield held, is_closed

    # --- changing ---------------------------------------------------------------------------------------------

    def bind(self, place: Any, index: int) -> None:
        """Record that a name is set: earlier bindings are gone, unless several calls share the name."""
        if type(place[0]) is int or place[0] == "g":
            self.logs[place] = ChangeLog(index)
        else:
            self.bind_too(place, index)

    def bind_too(self, place: Any, index: int) -> None:
        """Record that a name may have been set, or a part of its value."""
        if type(place[0]) is str and place[0] != "g":
            self._shared.setdefault(place[1], {})[place] = None
        self.logs.setdefault(place, ChangeLog()).sure.append(index)

    def store(self, node: Node, path: Path, part: tuple[str, Any] | None, view: View) -> None:
        value = view.value(path[0])
        for how, key in path[1]:
            inner = step(value, how, view.key(how, key))[0]
            if inner is ABSENT:
                self.change([value], node)
                return
            value = inner
        if part == LOOSE or not is_plain(value):
            self.change([value], node)
        elif can_change(value):
            self.set(value, stored_key(value, part[0], view.key(*part)) if part is not None else ABSENT, node)

    def call(self, node: Node, call: Called, view: View) -> bool:
        """Record what a finished call may have changed, unless its own statements record it; False if nothing."""
        if call.is_followed:
            return False
        arguments = [view.follow(path) for path in call.arguments]
        changed = arguments
        if call.is_super:
            changed = changes_of_super(arguments[0], call.method, arguments[1:]) if arguments else []
        elif call.function is not None:
            changed = changes_of_function(view.function(call.function), arguments)
        elif call.receiver is not None:
            receiver = view.follow(call.receiver)
            if call.method == "append" and type(receiver) is list:
                self.set(receiver, len(receiver) - 1, node)
                return True
            changed = changes_of_method(receiver, call.method, arguments)
        self.change(changed, node)
        return bool(changed)

    def set(self, value: Any, key: Any, node: Node) -> None:
        """Record a change of an object, under a key or (ABSENT) an unknown one."""
        changes = self._changes_to(value)
        changes.all.sure.append(node.index)
        if key is ABSENT:
            changes.any.sure.append(node.index)
        else:
            changes.keys[key] = ChangeLog(node.index)
        if value is self._names:
            for text in [key] if type(key) is str else [name for name in self._names if type(name) is str]:
                self.bind_too(("g", text), node.index)

    def _changes_to(self, value: Any) -> ObjectChanges:
        fields = fields_of(value)
        changes = self._object_changes.get(id(fields))
        if changes is None:
            changes = self._object_changes[id(fields)] = ObjectChanges((value, fields) if self.holds else None)
        return changes

    def change(self, values: Iterable[Any], node: Node) -> None:
        """Record that everything reachable from some values may have been changed."""
        for value in values:
            if can_change(value):
                for held, _ in self._reachable(value):
                    self.set(held, ABSENT, node)

    def might(self, region: Region, node: Node, view: View) -> None:
        """Record what the statements of a region might have changed, had a node decided differently."""
        if region.is_dynamic:
            self._barriers.perhaps.append(node.index)
        for name in region.names:
            self.logs.setdefault(view.place(name), ChangeLog()).perhaps.append(node.index)
        for name in region.objects:
            self.might_change(view.value(name), node)
        for name in region.reads:
            value = view.value(name)
            if name in region.objects or not can_change(value):
                continue
            found = list(self._reachable(value))  # reading may change some of these
            has_instances = any(is_own_class(type(part)) for part, _ in found)
            opens = region.opens_all or (region.opens_instances and has_instances)
            for held, is_closed in found:
                if opens or is_closed or type(held) is defaultdict:
                    self.might_set(held, node)

    def might_change(self, value: Any, node: Node) -> None:
        """Record that a node might have changed everything reachable from a value."""
        for held, _ in self._reachable(value) if can_change(value) else ():
            self.might_set(held, node)

    def might_set(self, held: Any, node: Node) -> None:
        """Record that a node might have changed an object, under any key."""
        changes = self._changes_to(held)
        changes.all.perhaps.append(node.index)
        changes.any.perhaps.append(node.index)
        if held is self._names:
            for place, log in self.logs.items():
                if place[0] == "g":
                    log.perhaps.append(node.index)

    # --- which nodes depend on inputs and on values of the host -------------------------------------------------

    def weigh(self, node: Node) -> None:
        """Determine whether a node depends on an input, or on a value from the host."""
        if not node.varies:
            behind = (self.nodes[index].varies for index in (*node.data, *node.control))
            logs = (self.log_varies(log) for log, _, _ in node.read.values())
            node.varies = bool(node.values) or any(behind) or any(logs)

    def log_varies(self, log: ChangeLog) -> bool:
        if log.varies:
            return True
        seen = list(log.seen)
        for part, indexes in enumerate((log.sure, log.perhaps)):
            for index in indexes[seen[part] :]:
                if self.nodes[index].varies:
                    log.varies = True
                    return True
                if not self.nodes[index].is_done:
                    break
                seen[part] += 1
        log.seen = (seen[0], seen[1])
        return False

    def changes_of(self, value: Any, key: Any) -> list[ChangeLog]:
        """Return the logs of changes to an object under a key or an unknown key."""
        changes = self._object_changes.get(id(fields_of(value)))
        if changes is None:
            return []
        return [changes.any, changes.keys[key]] if key in changes.keys else [changes.any]

    def change_any(self, node: Node) -> None:
        """Record that a node might have changed any object."""
        self._wild.perhaps.append(node.index)

    # --- the graph --------------------------------------------------------------------------------------------

    def as_data(self, ends: dict[str, Any], failed: list[int], always: list[int]) -> dict[str, Any]:
        """Return the graph as data, with a final node for each of the module's names and each entry of `ends`."""
        sinks: dict[str, int] = {}
        for name, value in [*((name, self._names[name]) for name in self._sinks(bool(always))), *ends.items()]:
            node = self.new(None)
            node.data += always
            self.read_name(node, ("g", name), None)
            self.look(node, value if not always else None)
            sinks[clean(name, 200)] = node.index
        logs: dict[int, int] = {}
        log_data: list[list[Any]] = []
        nodes = [self._node_data(node, logs, log_data) for node in self.nodes]
        return {
            "nodes": nodes,
            "logs": log_data,
            "ends": sinks,
            "inputs": {clean(name, 200): index for name, index in self._inputs.items()},
            "guards": self.guards,
            "failed": failed,
        }

    def _sinks(self, and_unread: bool) -> list[str]:
        """Return the names of the module that the graph has, the answer last."""
        known = [place[1] for place in self.logs if place[0] == "g"]
        known += [name for name in self._names if type(name) is str] if and_unread else []
        names = [name for name in known if name in self._names and name != "answer"][-_MAX_SINKS:]
        return [*names, "answer"] if "answer" in self._names else names

    def _node_data(self, node: Node, logs: dict[int, int], log_data: list[list[Any]]) -> list[Any]:
        data, control, read = set(node.data), set(node.control), []
        for log, sure, perhaps in node.read.values():
            if sure + perhaps <= _INLINE:
                data.update(log.sure[:sure])
                control.update(log.perhaps[:perhaps])
                continue
            if id(log) not in logs:
                logs[id(log)] = len(log_data)
                log_data.append([log.sure, log.perhaps])
            read.append([logs[id(log)], sure, perhaps])
        statement = -1 if node.statement is None else node.statement
        own = node.index
        return [
            statement, node.visits, node.values, sorted(data - {own}), sorted(control - {own}), read, node.whole
        ]  # fmt: skip
