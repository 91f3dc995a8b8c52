"""The host's side of the wire protocol. It checks the size, type and order of every frame, and trusts no guest."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from ..languages.guest.link import MAX_FRAME_MEMORY, MAX_QUESTIONS, RUN_FRAMES, memory_of
from ..languages.guest.requests import MAX_SHARED_STEPS
from ..languages.guest.scratch import MAX_UNSENT
from ..program import Program
from ..values.codec import ValueFormatError, decode
from .artifacts import ReceivedFiles, Wrote

_LENGTH = struct.Struct("<I")
_MAX_STEPS = 100_000  # without those of calls; an honest guest sends far fewer
_STEPS_PER_CALL = 4  # requested, awaited, settled, and the output before
MAX_RUN_MEMORY = 4 * MAX_FRAME_MEMORY  # of the frames of a run that the host keeps
_MAX_NAMES = 10_000  # that a pause may set or read
_SHADOW_FRAMES = 4  # RUN_FRAMES for shadows, whose reports the host keeps until the run ends
_GUESTS_REASONS = frozenset(
    ["answered", "error", "limit:memory", "limit:cpu", "limit:frame", "limit:bytes", "limit:modules", "halted"]
)


class FrameError(ValueError):
    """The guest broke the protocol; the message says how."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data: exception type, message, and the program's line and statement if there is one.

    Some errors have a `code` for programs and a name that they are `about`. errors.py has the codes of the host. Those
    of the program: the symbol of a system error, such as `ENOENT` (about a file), and `undefined name` (about a name).
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
    `known_by` is not null: it holds the identities of arguments that the value language cannot express. Arguments stay
    JSON, because the host keeps them until the run ends, and objects would take many times the memory.
    """

    id: int
    kind: Literal["call", "statement", "module"]
    name: str
    text: str = ""
    args: msgspec.Raw = msgspec.Raw(b"[]")
    kwargs: msgspec.Raw = msgspec.Raw(b"{}")
    names: list[str] = []
    statement: int = 0
    error: str | None = None
    state: dict[str, str] = {}
    known_by: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_known(self) -> bool:
        """Whether the call can be compared with other calls."""
        return bytes(self.known_by) != b"null"

    @property
    def memory(self) -> int:
        """An estimate of the memory that the arguments take as objects."""
        return memory_of(bytes(self.args)) + memory_of(bytes(self.kwargs))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as values. Raises ValueFormatError for malformed ones, which no honest guest sends."""
        try:
            args = msgspec.json.decode(self.args, type=list[Any])
            kwargs = msgspec.json.decode(self.kwargs, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueFormatError(f"malformed arguments: {error}") from None
        return tuple(decode(arg) for arg in args), {name: decode(value) for name, value in kwargs.items()}


class Surveyed(msgspec.Struct, frozen=True, tag="surveyed"):
    """The end of a shadow's round: its calls without a value, in program order, and the statements that it skipped,
    each with the text of the call whose value it waits for."""

    calls: list[int]
    skipped: list[tuple[int, str]] = []
    error: Failure | None = None  # the error that the program ended with


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """The program used the value of a pause; the value of a call may be used again. Sent in program order."""

    id: int
    statement: int


_StepIndex = Annotated[int, msgspec.Meta(ge=0)]  # of a step in the trace


class LineageNode(msgspec.Struct, frozen=True, array_like=True):
    """One run of a statement (-1: none, for inputs and names at the end), its visits and values as indexes of steps,
    and its dependencies: nodes by data and by control, and logs up to a length."""

    statement: int
    visits: list[_StepIndex] = []
    values: list[_StepIndex] = []
    data: list[int] = []
    control: list[int] = []
    read: list[tuple[int, int, int]] = []
    whole: list[int] = []  # further statements, if the node stands for many runs


class Lineage(msgspec.Struct, frozen=True):
    """Dependencies between statements. `logs` are pairs of lists of nodes: sure changes of something, possible ones."""

    nodes: list[LineageNode]
    logs: list[tuple[list[int], list[int]]] = []
    ends: dict[str, int] = {}  # the module's names at the end; `$last` and `$output` are answers without a name
    inputs: dict[str, int] = {}
    guards: list[int] = []  # conditions under which the program would have ended with an error
    failed: list[int] = []  # nodes that were running when it failed
    works: list[int] = []  # how much each statement computes itself (languages/python/compiler/computation.py)


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


@dataclass
class _Uses:
    """How often a guest may still settle a pause; None if the pause has no value yet."""

    kind: str
    left: int | None = None
    is_settled: bool = False


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
        is_recorded: bool = False,
    ) -> None:
        self._is_shadow, self._is_recorded = is_shadow, is_recorded
        self.artifacts = ReceivedFiles(is_wanted=may_write)
        self._frame_bytes, self._output_bytes = frame_bytes, output_bytes
        self._max_bytes = self._bytes_left = (_SHADOW_FRAMES if is_shadow else RUN_FRAMES) * frame_bytes
        self._max_steps = _MAX_STEPS + _STEPS_PER_CALL * calls
        self._buffer = bytearray()
        self._statements = -1
        self._last_pause = self._steps = self._output = self._questions = self._shared = self._memory = 0
        self._uses: dict[int, _Uses] = {}  # by the number of the pause

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._bytes_left -= len(data)

    def next(self) -> Signal | None:
        """The next signal; None if more bytes are needed. Raises FrameError or OutputLimit."""
        if self._bytes_left < 0:  # the host keeps these bytes in memory, in the trace
            raise FrameError(f"over {self._max_bytes:,} bytes in all")
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._frame_bytes:
            raise FrameError(f"a frame of {length:,} bytes; the limit is {self._frame_bytes:,}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        memory = memory_of(body)
        if memory > MAX_FRAME_MEMORY:
            raise FrameError(f"a frame that takes over {MAX_FRAME_MEMORY:,} bytes of memory")
        try:
            signal = _decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise FrameError(f"malformed frame: {error}") from None
        self._memory += length if isinstance(signal, (Paused, Wrote)) else memory
        if self._memory > MAX_RUN_MEMORY:
            raise FrameError(f"frames that take over {MAX_RUN_MEMORY:,} bytes of memory in all")
        self._check(signal)
        return signal

    def resumed(self, pause: int, *, is_once: bool) -> None:
        """Note that the guest got a value: it may now settle the pause, only once with `is_once`."""
        uses = self._uses[pause]
        uses.left = 1 if is_once or uses.kind != "call" else MAX_SHARED_STEPS + 1

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
        if paused.id != self._last_pause + 1:  # this also excludes ids with colliding hashes
            raise FrameError(f"pause {paused.id} after pause {self._last_pause}")
        if len(paused.names) + len(paused.state) > _MAX_NAMES:
            raise FrameError(f"a pause with over {_MAX_NAMES:,} names")
        self._count_steps()
        self._last_pause = paused.id
        self._uses[paused.id] = _Uses(paused.kind)
        self._check_statement(paused.statement)

    def _check_surveyed(self, surveyed: Surveyed) -> None:
        self._count_steps()
        if not self._is_shadow:  # a `surveyed` guest counts as waiting
            raise FrameError("a `surveyed` frame from a guest that is not a shadow")
        calls = surveyed.calls
        if any(call not in self._uses for call in calls) or len(set(calls)) < len(calls):
            raise FrameError("a `surveyed` frame with unknown or repeated calls")
        for statement, _ in surveyed.skipped:
            self._check_statement(statement)

    def _check_settled(self, settled: Settled) -> None:
        uses = self._uses.get(settled.id)
        if uses is None:
            raise FrameError(f"pause {settled.id} is not open")
        if uses.left is None:
            raise FrameError(f"pause {settled.id} settled before it was resumed")
        if not uses.left:
            raise FrameError(f"pause {settled.id} settled too often")
        uses.left -= 1
        self._shared += uses.is_settled
        uses.is_settled = True
        if self._shared > MAX_SHARED_STEPS:
            raise FrameError(f"over {MAX_SHARED_STEPS:,} values used again")
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
            if not self._is_recorded:  # checking it takes time
                raise FrameError("a lineage that was not requested")
            for node in ended.lineage.nodes:
                own = node.statement if node.statement != -1 else 0  # -1: of no statement
                for statement in (own, *node.whole):
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
