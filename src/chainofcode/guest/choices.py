"""Objects that might have been changed in place of another: which one a name or a key meant was a matter of values.

In `box = a if f(1) else b; box.append(2)` the second statement changes a, and might have changed b. Where a name was
surely bound to the object that is changed, there is no choice. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..program.flow import Flows
from .lineage import Lineage
from .nodes import Log, Node, View
from .reach import ABSENT, ATOMS, step

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

    from ..program.regions import Name, Path

_MAX_BINDINGS = 50  # of one name; with more, who knows
_MAX_CALLERS = 20  # a parameter of a parameter of a parameter…


class Choices:
    """Notes which other objects a change might have hit. `caller` gives the statement that called, and what it sees."""

    def __init__(self, flows: Flows, lineage: Lineage, caller: Callable[[View], tuple[Node, View] | None]) -> None:
        self._flows, self._lineage, self._caller = flows, lineage, caller

    def change(self, node: Node, path: Path, view: View) -> None:
        """What is at the end of a path was changed."""
        name, steps = path
        value = view.value(name)
        if type(value) in ATOMS or value is ABSENT:
            return
        if self._is_chosen(node, name, view, bool(steps)):
            self._lineage.change_any(node)
            return
        for how, key in steps:
            part, kept = step(value, how, view.key(how, key))
            if part is ABSENT:
                return  # all that can be reached from there was noted
            if any(self._lineage.log_varies(log) for log in self._lineage.changes_of(value, kept)):
                self._lineage.change_any(node)  # who knows what might have been put there
                return
            if how == "var" and self._varies(key, view):
                self._lineage.might_change(value, node)
                return
            value = part

    def store(self, node: Node, path: Path, part: tuple[str, Any] | None, view: View) -> None:
        """A part of what is at the end of a path was changed."""
        self.change(node, path, view)
        if part is not None and part[0] == "var" and self._varies(part[1], view):
            self._lineage.might_set(view.follow(path), node)

    def _varies(self, name: Name, view: View) -> bool:
        """Whether a name might have meant another value."""
        log = self._lineage.logs.get(view.place(name))
        if log is None or not log.sure:
            caller = self._caller(view) if name[0] == "l" else None
            return name[0] != "g" and (caller is None or caller[0].varies)
        return self._lineage.log_varies(log)

    def _is_chosen(self, node: Node, name: Name, view: View, has_steps: bool, depth: int = 0) -> bool:
        """Whether a name might have meant another object."""
        log = self._lineage.logs.get(view.place(name))
        if log is None or not log.sure:
            return name[0] == "l" and self._is_parameter_chosen(name, view, has_steps, depth)
        if not self._lineage.log_varies(log):
            return False
        if len(log.sure) > _MAX_BINDINGS or self._lineage.log_varies(_only(log.perhaps)):
            return True
        return any(self._is_binding_chosen(self._lineage.nodes[index], node, has_steps) for index in log.sure)

    def _is_binding_chosen(self, binding: Node, node: Node, has_steps: bool) -> bool:
        if not binding.varies:
            return False
        if has_steps or binding.statement is None or node.statement is None:
            return True
        return not self._flows.is_fresh(binding.statement, node.statement)

    def _is_parameter_chosen(self, name: Name, view: View, has_steps: bool, depth: int) -> bool:
        """A parameter is what the caller handed in; where that was a plain name, it is as sure as that."""
        code, caller = view.frame.f_code, self._caller(view)
        if code.co_name in ("__init__", "__post_init__") and code.co_varnames[:1] == (name[1],):
            return False  # it was just made
        if caller is None or depth > _MAX_CALLERS:
            return True
        node, there = caller
        if node.statement is None:
            return node.varies
        value = view.value(name)
        for path in self._flows.of[node.statement].handed:
            if there.follow(path) is value:
                return self._is_chosen(node, path[0], there, has_steps or bool(path[1]), depth + 1)
        return node.varies


def _only(perhaps: list[int]) -> Log:
    log = Log()
    log.perhaps = perhaps
    return log
