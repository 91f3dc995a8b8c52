"""The wire, host side. Every frame from a guest is hostile: bounded, typed, checked against earlier frames."""

from __future__ import annotations

import struct
from typing import Any, Literal

import msgspec

from ..languages.python.guest.link import MAX_PARTS, MAX_QUESTIONS, RUN_FRAMES, parts_of
from ..languages.python.guest.run.scratch import MAX_UNSENT
from ..program import Program
from .artifacts import ReceivedFiles, Wrote

_LENGTH = struct.Struct("<I")
_MAX_STEPS = 100_000  # a guest that keeps its own limits stays far below, not counting calls
_STEPS_PER_CALL = 4  # requested, awaited, settled, and output printed before
_GUESTS_REASONS = frozenset(
    ["answered", "error", "limit:memory", "limit:cpu", "limit:frame", "limit:bytes", "limit:modules", "halted"]
)


class FrameError(ValueError):
    """The guest broke the protocol; the message says how."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data: exception type, message, and the program's line and statement if there is one.

    Errors of the host's have a `code`, and what they are `about`: see errors.py.
    """

    type: str
    message: str
    line: int | None = None
    statement: int | None = None
    code: str = ""
    about: str = ""


class ProgramParsed(msgspec.Struct, frozen=True, tag="parsed"):
    """The program, as the guest's compiler understood it."""

    program: Program


class RanStep(msgspec.Struct, frozen=True):
    """One visit of a statement, with the names that it changed."""

    statement: int
    visit: int
    delta: dict[str, str | None] = {}
    outcome: str | None = None
    output: str = ""


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    """Statements that Python ran."""

    steps: list[RanStep]


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """A request of the guest: for a call's value, a statement's delta, or whether the host has a module.

    The program waits for the reply; its shadow does not. Calls with the same text and arguments are the same call if
    `known_by` is not None: it holds the identities of arguments that the value language cannot express.
    """

    id: int
    kind: Literal["call", "statement", "module"]
    name: str
    text: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    names: list[str] = []
    statement: int = 0
    error: str | None = None
    state: dict[str, str] = {}
    known_by: list[Any] | None = None


class Surveyed(msgspec.Struct, frozen=True, tag="surveyed"):
    """The end of a shadow's round: the calls it met without a value, in program order, and the statements it skipped,
    each with the text of the call whose value it waits for."""

    calls: list[int]
    skipped: list[tuple[int, str]] = []
    error: Failure | None = None  # the error that the program ended with


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """The program used the value of a pause, perhaps again. Sent in program order."""

    id: int
    statement: int


class LineageNode(msgspec.Struct, frozen=True, array_like=True):
    """One run of a statement (-1: none, for inputs and names at the end), with its visits and values by their places
    in the trace, and what it depends on: nodes by data and by control, and logs up to a length."""

    statement: int
    visits: list[int] = []
    values: list[int] = []
    data: list[int] = []
    control: list[int] = []
    read: list[tuple[int, int, int]] = []
    whole: list[int] = []  # further statements, where it stands for many runs


class Lineage(msgspec.Struct, frozen=True):
    """Dependencies between statements. `logs` are pairs of lists of nodes: those that set something, those that may."""

    nodes: list[LineageNode]
    logs: list[tuple[list[int], list[int]]] = []
    ends: dict[str, int] = {}  # the module's names at the end; `$last` and `$output` are answers without a name
    inputs: dict[str, int] = {}
    guards: list[int] = []  # conditions under which the program would have ended with an error
    failed: list[int] = []  # nodes that were running when it did
    works: list[int] = []  # of each statement what it does itself: nothing, it hands values on, or it works them out


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The end of a run. A guest reports `answered`, `error`, the limits that it enforces itself, and `halted` when the
    host stops it; the host adds further reasons."""

    reason: str
    answer: Any = None
    text: str = ""
    source: Literal["variable", "expression", "output", ""] = ""
    error: Failure | None = None
    stderr: str = ""
    unsent: list[str] = []  # files in its scratch directory that were not sent, and why
    lineage: Lineage | None = None  # if the job asked for it, and it is not too large


Signal = ProgramParsed | Ran | Paused | Surveyed | Settled | Wrote | Ended
_decoder: msgspec.json.Decoder[Signal] = msgspec.json.Decoder(Signal)


def encode(message: dict[str, Any]) -> bytes:
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Decodes the signals of a guest and checks them against the protocol."""

    def __init__(
        self,
        frame_bytes: int,
        output_bytes: int,
        *,
        calls: int = 0,
        may_write: bool = False,
        is_shadow: bool = False,
    ) -> None:
        self._is_shadow = is_shadow
        self.artifacts = ReceivedFiles(is_wanted=may_write)
        self._frame_bytes, self._output_bytes = frame_bytes, output_bytes
        self._max_bytes = self._bytes_left = RUN_FRAMES * frame_bytes
        self._max_steps = _MAX_STEPS + _STEPS_PER_CALL * calls
        self._buffer = bytearray()
        self._statements = -1
        self._last_pause = self._steps = self._output = self._questions = 0
        self._opened: dict[int, str] = {}

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._bytes_left -= len(data)

    def next(self) -> Signal | None:
        """The next signal; None if more bytes are needed. Raises FrameError or OutputLimit."""
        if self._bytes_left < 0:  # the host keeps it in memory, as a trace
            raise FrameError(f"over {self._max_bytes:,} bytes in all")
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._frame_bytes:
            raise FrameError(f"a frame of {length:,} bytes; {self._frame_bytes:,} are allowed")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        if parts_of(body) > MAX_PARTS:
            raise FrameError(f"a frame with over {MAX_PARTS:,} lists and objects")
        try:
            signal = _decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise FrameError(f"malformed frame: {error}") from None
        self._check(signal)
        return signal

    def is_cut(self) -> bool:
        return bool(self._buffer)

    def _check(self, signal: Signal) -> None:
        match signal:
            case ProgramParsed():
                if self._statements >= 0:
                    raise FrameError("a second program")
                self._statements = len(signal.program.statements)
            case Ran():
                self._check_ran(signal)
            case Paused():
                self._check_paused(signal)
            case Surveyed():
                self._check_surveyed(signal)
            case Settled():
                self._check_settled(signal)
            case Wrote():
                try:
                    self.artifacts.add(signal)
                except ValueError as error:
                    raise FrameError(str(error)) from None
            case Ended():
                self._check_ended(signal)

    def _check_ran(self, ran: Ran) -> None:
        self._count_steps(len(ran.steps) or 1)
        self._output += sum(len(step.output.encode()) for step in ran.steps)
        for step in ran.steps:
            self._check_statement(step.statement)
        if self._output > self._output_bytes:
            raise OutputLimit(ran)

    def _check_paused(self, paused: Paused) -> None:
        self._questions += paused.kind == "module"
        if self._questions > MAX_QUESTIONS:
            raise FrameError(f"over {MAX_QUESTIONS:,} module lookups")
        if paused.id <= self._last_pause:
            raise FrameError(f"pause {paused.id} after pause {self._last_pause}")
        self._count_steps()
        self._last_pause = paused.id
        self._opened[paused.id] = paused.kind
        self._check_statement(paused.statement)

    def _check_surveyed(self, surveyed: Surveyed) -> None:
        self._count_steps()
        if not self._is_shadow:  # a `surveyed` guest counts as waiting
            raise FrameError("a `surveyed` frame from a guest that is not a shadow")
        calls = surveyed.calls
        if len(set(calls)) < len(calls) or any(call not in self._opened for call in calls):
            raise FrameError("a `surveyed` frame with unknown or repeated calls")
        for statement, _ in surveyed.skipped:
            self._check_statement(statement)

    def _check_settled(self, settled: Settled) -> None:
        kind = self._opened.get(settled.id)
        if kind is None:
            raise FrameError(f"pause {settled.id} is not open")
        if kind != "call":  # used once; the value of a call may be shared
            del self._opened[settled.id]
        self._count_steps()
        self._check_statement(settled.statement)

    def _check_ended(self, ended: Ended) -> None:
        if len(ended.unsent) > MAX_UNSENT:
            raise FrameError(f"over {MAX_UNSENT} files that were not sent")
        if ended.reason not in _GUESTS_REASONS:
            raise FrameError(f"an end for the reason {ended.reason[:40]!r}")
        if ended.error is not None and ended.error.statement is not None:
            self._check_statement(ended.error.statement)
        if ended.lineage is not None:
            for node in ended.lineage.nodes:
                for statement in (max(node.statement, 0), *node.whole):
                    self._check_statement(statement)

    def _count_steps(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > self._max_steps:
            raise FrameError(f"over {self._max_steps:,} steps")

    def _check_statement(self, number: int) -> None:
        if not 0 <= number < max(self._statements, 1):
            raise FrameError(f"statement {number} of {max(self._statements, 0)}")


class OutputLimit(Exception):
    """The program printed too much; `ran` is the signal that exceeded the limit."""

    def __init__(self, ran: Ran) -> None:
        self.ran = ran
