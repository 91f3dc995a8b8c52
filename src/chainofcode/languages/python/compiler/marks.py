"""Watch marks: statements that lowering puts into a program where the watcher records. Standard library only.

Adjacent marks form one checkpoint. A checkpoint is a statement in a column that no source reaches, so that the guest
can find it in the compiled code and turn it into one instruction (guest/run/checkpoints.py). It has the line number of
the code next to it, so that a trace function of the program sees no extra lines.
"""

from __future__ import annotations

import ast

from .record import Data
from .statements import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, Literal

    Phase = Literal["before", "after", "outcome", "turn", "return", "reach", "start", "enter", "leave"]

MARK_COLUMNS = 100_000_000  # checkpoint n is in column MARK_COLUMNS + n; no source is that wide
_LOAD = ast.Load()
_AHEAD_OF_CODE = ("before", "reach", "start", "enter")  # phases of marks before the code of a statement


class Mark(Data):
    """A place where the watcher records: the statement, its phase, and the names that it wrote."""

    statement: int
    phase: Phase
    written: tuple[str, ...] = ()
    outcome: str | None = None
    changed: tuple[str, ...] = ()  # names of objects it stores into
    reads: tuple[str, ...] = ()  # before a statement in a function: the globals it mentions


class Marks:
    """The marks of a program, and the checkpoints they form: lists of indices of marks."""

    def __init__(self, watch_by_jump: bool) -> None:
        self._watch_by_jump = watch_by_jump
        self.all: list[Mark] = []
        self.checkpoints: list[list[int]] = []
        self._checkpoint_at: dict[ast.AST, int] = {}

    def placed(self, mark: Mark, statement: ast.stmt, line: int | None = None) -> ast.stmt:
        """Return a mark as a statement, on the given line or on that of the statement it belongs to."""
        if line is None:
            line = first_line(statement) if mark.phase in _AHEAD_OF_CODE else statement.lineno
        checkpoint = self._added(mark)
        place = _column(line, checkpoint)
        if self._watch_by_jump:  # two instructions, without names or constants
            node = ast.Expr(ast.List([], _LOAD, **place), **place)
        else:
            node = ast.Expr(_call(checkpoint, place), **place)
        self._checkpoint_at[node] = checkpoint
        return node

    def passing(self, mark: Mark, statement: ast.Return) -> ast.stmt:
        """Return a mark that returns the value itself while it is on; when it is off, the `return` after it runs."""
        checkpoint = self._added(mark)
        place = _column(first_line(statement), checkpoint)
        call = _call(checkpoint, place)
        call.args.append(statement.value or ast.Constant(None, **place))
        return ast.If(ast.Name("$on", _LOAD, **place), [ast.Return(call, **place)], [], **place)

    def join(self, node: ast.AST) -> None:
        """Join adjacent marks into one checkpoint, which costs one instruction when it is off."""
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            kept: list[ast.AST] = []
            for child in getattr(node, field, ()):
                here = self._checkpoint_at.get(child)
                before = self._checkpoint_at.get(kept[-1]) if kept else None
                if here is not None and before is not None:
                    self.checkpoints[before] += self.checkpoints[here]
                    self.checkpoints[here] = []
                else:
                    kept.append(child)
                    self.join(child)
            if kept:
                setattr(node, field, kept)

    def _added(self, mark: Mark) -> int:
        self.all.append(mark)
        self.checkpoints.append([len(self.all) - 1])
        return len(self.checkpoints) - 1


def _column(line: int, checkpoint: int) -> dict[str, Any]:
    column = MARK_COLUMNS + checkpoint
    return {"lineno": line, "end_lineno": line, "col_offset": column, "end_col_offset": column}


def _call(checkpoint: int, place: dict[str, Any]) -> ast.Call:
    return ast.Call(ast.Name("$mark", _LOAD, **place), [ast.Constant(checkpoint, **place)], [], **place)
