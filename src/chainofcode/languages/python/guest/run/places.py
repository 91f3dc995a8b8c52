"""Maps frames and instructions to the program's statements, holes and guards. Standard library only."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from types import CodeType, FrameType, TracebackType

from .....values.codec import Record
from ...compiler.analyse import GuardedLines
from ...compiler.library import PROTOCOL_METHODS
from ...compiler.lower import Place
from ...compiler.marks import MARK_COLUMNS

CO_OPTIMIZED = 1  # a flag of code objects: names in slots, as in a function
FILENAME = "<program>"
Position = tuple[int, int]
Span = tuple[Position, Position]


def keeps_cells(code: CodeType) -> bool:
    """Whether `f_locals` of a class body must not be read: before 3.13 reading it removes names from the namespace that
    also have cells (`__class__ = …` next to a method that calls `super()`)."""
    is_module_or_class = not code.co_flags & CO_OPTIMIZED
    return is_module_or_class and sys.version_info < (3, 13) and not set(code.co_cellvars).isdisjoint(code.co_names)


class Places:
    """Statement numbers by position, and which guard of the program covers a position."""

    def __init__(self, places: Sequence[Place], guards: Sequence[GuardedLines], holes: Sequence[Span]) -> None:
        self._places, self._guards, self._holes = places, guards, holes
        self._starts = [place.start for place in places]
        # Keyed by id, holding the code: hashing a code object hashes its bytecode every time.
        self._spans: dict[int, tuple[CodeType, list[Span | None]]] = {}

    def statement_at(self, position: Position) -> int:
        """Return the innermost statement around a position."""
        index = bisect_right(self._starts, position) - 1
        while index > 0 and self._places[index].end < position:
            index -= 1
        return max(index, 0)

    def return_at(self, code: CodeType, offset: int) -> int | None:
        """Return the `return` statement that an instruction belongs to; None if the function ends without one."""
        span = self._span(code, offset)
        statement = self.statement_at(span[0]) if span is not None else 0
        return statement if span is not None and self._places[statement].kind == "Return" else None

    def current_statement(self, frame: FrameType | None) -> int:
        while frame is not None:
            if frame.f_code.co_filename == FILENAME:
                # A jump back to a checkpoint, where Python 3.14 handles signals, belongs to the statement before it.
                spans = (self._span(frame.f_code, offset) for offset in range(frame.f_lasti, -1, -2))
                span = next(filter(None, spans), None)
                if span is not None:
                    return self.statement_at(span[0])
            frame = frame.f_back
        return 0

    def is_guarded(
        self, frame: FrameType | None, names: Collection[str], *, explicit: bool = False, include_with: bool = False
    ) -> bool:
        """Whether a `try` of the program, anywhere up the stack, catches one of these exceptions by name.

        With `explicit`, a handler that catches everything does not count; with `include_with`, a `with` whose manager
        may swallow errors does.
        """
        for _, (start, _end) in self._program_spans(frame):
            for guard in self._guards:
                if guard.start <= start < guard.end and (guard.is_try or include_with):
                    if guard.catches is None and not explicit:
                        return True
                    if guard.catches is not None and not guard.catches.isdisjoint(names):
                        return True
        return False

    def is_in_protocol(self, frame: FrameType | None) -> bool:
        """Whether Python itself called a method of the program in which an error can be a normal result."""
        while frame is not None:
            if frame.f_code.co_filename == FILENAME and frame.f_code.co_name in PROTOCOL_METHODS:
                return True
            frame = frame.f_back
        return False

    def failing_span(self, trace: TracebackType | None) -> Span | None:
        """Return the part of the program that raised an error; None if the error came from deeper code."""
        last = trace
        while last is not None and last.tb_next is not None:
            if last.tb_next.tb_frame.f_code is Record.__getattr__.__code__:  # an emulated object lacks an attribute
                break
            last = last.tb_next
        if last is None or last.tb_frame.f_code.co_filename != FILENAME:
            return None
        return self._span(last.tb_frame.f_code, last.tb_lasti)

    def spans_of(self, trace: TracebackType | None) -> Iterator[Span]:
        """Yield the places in the program that a traceback passes through, outermost first."""
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILENAME:
                span = self._span(trace.tb_frame.f_code, trace.tb_lasti)
                if span is not None:
                    yield span
            trace = trace.tb_next

    def is_in(self, span: Span, statement: int) -> bool:
        place = self._places[statement]
        return place.start <= span[0] and span[1] <= place.end

    def holds_hole(self, span: Span) -> bool:
        return any(span[0] <= start and end <= span[1] for start, end in self._holes)

    def _program_spans(self, frame: FrameType | None) -> Iterator[tuple[FrameType, Span]]:
        while frame is not None:
            if frame.f_code.co_filename == FILENAME:
                span = self._span(frame.f_code, frame.f_lasti)
                if span is not None:
                    yield frame, span
            frame = frame.f_back

    def _span(self, code: CodeType, lasti: int) -> Span | None:
        known = self._spans.get(id(code))
        if known is None:
            spans = [_span_of(*position) for position in code.co_positions()]
            known = self._spans[id(code)] = (code, spans)
        index = lasti // 2
        return known[1][index] if 0 <= index < len(known[1]) else None


def _span_of(line: int | None, end_line: int | None, column: int | None, end: int | None) -> Span | None:
    if line is None or (column or 0) >= MARK_COLUMNS:  # a checkpoint, or an instruction that belongs to it
        return None
    return (line, column or 0), (end_line or line, end or 0)


def program_frame() -> FrameType | None:
    """Return the innermost frame of the program, as seen from guest code that it called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != FILENAME:
        frame = frame.f_back
    return frame
