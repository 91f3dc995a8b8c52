"""Alternative targets of a mutation: objects that would have been changed if a value had been different.

In `box = a if f(1) else b; box.append(2)` the second statement changes `a`, but could have changed `b`. If a name is
always bound to the same object, there is no alternative target. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.flow import Flows
from .lineage import ChangeLog, LineageGraph, Node, View
from .reachable import ABSENT, can_change, step

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    from ...compiler.effects import Name, Path

_MAX_BINDINGS = 50  # of one name; with more, assume an alternative target
_MAX_CALLERS = 20  # how far a parameter is traced back through its callers


class Choices:
    """Records the alternative targets of mutations. `caller` returns the node and the view of the calling statement."""

    def __init__(self, flows: Flows, lineage: LineageGraph, caller: Callable[[View], tuple[Node, View] | None]) -> None:
        self._flows, self._lineage, self._caller = flows, lineage, caller

    def change(self, node: Node, path: Path, view: View) -> None:
        """Record that the object at the end of a path was changed."""
        name, steps = path
        value = view.value(name)
        if not can_change(value):
            return
        if self._is_chosen(node, name, view, bool(steps)):
            self._lineage.change_any(node)
            return
        for how, key in steps:
            part, actual_key = step(value, how, view.key(how, key))
            if part is ABSENT:
                return  # the lineage records everything reachable from here
            if any(self._lineage.log_varies(log) for log in self._lineage.changes_of(value, actual_key)):
                self._lineage.change_any(node)  # another value might have stored any object there
                return
            if how == "var" and self._varies(key, view):
                self._lineage.might_change(value, node)
                return
            value = part

    def store(self, node: Node, path: Path, part: tuple[str, Any] | None, view: View) -> None:
        """Record a store into the object at the end of a path."""
        self.change(node, path, view)
        if part is not None and part[0] == "var" and self._varies(part[1], view):
            value = view.follow(path)
            if can_change(value):
                self._lineage.might_set(value, node)

    def _varies(self, name: Name, view: View) -> bool:
        """Whether a name could have had another value."""
        log = self._lineage.logs.get(view.place(name))
        if log is None or not log.sure:
            caller = self._caller(view) if name[0] == "l" else None
            return name[0] != "g" and (caller is None or caller[0].varies)
        return self._lineage.log_varies(log)

    def _is_chosen(self, node: Node, name: Name, view: View, has_steps: bool, depth: int = 0) -> bool:
        """Whether a name could have been bound to another object."""
        log = self._lineage.logs.get(view.place(name))
        if log is None or not log.sure:
            return name[0] == "l" and self._is_parameter_chosen(name, view, has_steps, depth)
        if not self._lineage.log_varies(log):
            return False
        might = ChangeLog()
        might.perhaps = log.perhaps
        if len(log.sure) > _MAX_BINDINGS or self._lineage.log_varies(might):
            return True
        for binding in (self._lineage.nodes[index] for index in log.sure):
            is_open = has_steps or binding.statement is None or node.statement is None
            if binding.varies and (is_open or not self._flows.is_fresh(binding.statement, node.statement)):  # type: ignore[arg-type]
                return True
        return False

    def _is_parameter_chosen(self, name: Name, view: View, has_steps: bool, depth: int) -> bool:
        """Whether a parameter could have been another object: traced back to the path that the caller passed."""
        code, caller = view.frame.f_code, self._caller(view)
        if code.co_name in ("__init__", "__post_init__") and code.co_varnames[:1] == (name[1],):
            return False  # `self` is a new object
        if caller is None or depth > _MAX_CALLERS:
            return True
        node, caller_view = caller
        if node.statement is None:
            return node.varies
        value = view.value(name)
        for path in self._flows.of[node.statement].call_paths:
            if caller_view.follow(path) is value:
                return self._is_chosen(node, path[0], caller_view, has_steps or bool(path[1]), depth + 1)
        return node.varies
