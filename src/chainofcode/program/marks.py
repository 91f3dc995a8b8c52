"""Watch marks: statements that lowering puts into a program where the watcher looks. Standard library only.

Adjacent marks form one checkpoint. A checkpoint is a statement whose column no source has, so that the guest finds it
again in the compiled code and turns it into one instruction (guest/checkpoints.py). Its line is that of the code beside
it: a trace function of the program must see no other lines.
"""

from __future__ import annotations

import ast

from .data import Data
from .statements import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, Literal

    Phase = Literal["before", "after", "outcome", "turn", "return", "reach", "start", "enter", "leave"]

MARK_COLUMNS = 100_000_000  # checkpoint n stands in column MARK_COLUMNS + n; no source is as wide
_LOAD = ast.Load()
_AHEAD_OF_CODE = ("before", "reach", "start", "enter")  # phases of marks that stand before the code of a statement


class Mark(Data):
    """A place where the watcher looks: after which statement, at what point of it, and which names it wrote."""

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
        """A mark as a statement, on a line of its own or that of the statement it belongs to."""
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
        """A mark that passes on what is returned; it stands before the statement that returns it otherwise."""
        checkpoint = self._added(mark)
        place = _column(first_line(statement), checkpoint)
        call = _call(checkpoint, place)
        call.args.append(statement.value or ast.Constant(None, **place))
        return ast.If(ast.Name("$on", _LOAD, **place), [ast.Return(call, **place)], [], **place)

    def join(self, node: ast.AST) -> None:
        """Let each run of adjacent marks be one checkpoint: switched off, it costs one instruction."""
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
