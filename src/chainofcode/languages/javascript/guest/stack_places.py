"""Maps stack traces of QuickJS to statements of a program. Standard library only."""

from __future__ import annotations

import bisect
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Sequence

# QuickJS names every source `<input>`. The program begins below all lines of the runtime, so line numbers identify it.
LINES_ABOVE = 2000
_MAX_STACK_CHARS = 20_000
_FRAME = re.compile(r"<input>:(\d{1,9})(?::(\d{1,9}))?\)?$", re.MULTILINE)


class StackPlaces:
    """The statements of a program by the line and column of its compiled text."""

    def __init__(self, marks: Sequence[Sequence[int]], statements: Sequence[Sequence[int]]) -> None:
        self._starts = [(line, column) for line, column, _ in marks]
        self._numbers = [number for _, _, number in marks]
        self._statements = statements

    def statement(self, stack: str) -> int | None:
        """Return the statement of the innermost frame of the program."""
        place = _place(stack)
        index = bisect.bisect_right(self._starts, place) - 1 if place is not None else -1
        return self._numbers[index] if index >= 0 else None

    def line(self, statement: int) -> int:
        return int(self._statements[statement][0]) if statement < len(self._statements) else 0

    def line_in(self, stack: str, statement: int) -> int:
        """Return the line of the innermost frame of the program, within its statement."""
        place, (first, _, last, *_) = _place(stack), self._statements[statement]
        return int(first) if place is None else max(first, min(place[0], last))


def _place(stack: str) -> tuple[int, int] | None:
    for found in _FRAME.finditer(stack[:_MAX_STACK_CHARS]):
        line = int(found[1]) - LINES_ABOVE
        if line > 0:
            return line, int(found[2] or 1) - 1
    return None
