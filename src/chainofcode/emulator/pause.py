"""The `Emulator` protocol: a pause of the program, its answer, and who gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ..program import Program
from ..trace import Call, Confidence
from ..values.codec import Opaque


@dataclass(frozen=True)
class Pause:
    """A call (or a statement) the program waits for. `text` is the call as in a table of values.

    For a statement, `text` is its source, `names` what it may set (`return`: the value to return) and the answer is
    a mapping of names to values; `error` says why Python could not run it. `type` is the expected type, as the text of
    an annotation (empty: unknown), `spec` the source of the stub that declares it, `state` the variables in scope.
    """

    kind: Literal["call", "statement"]
    text: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]
    line: int
    error: str | None
    program: Program
    question: str | None
    type: str = ""
    spec: str = ""
    state: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)  # inputs, files, clock and seed of the run


def holds_object(value: Any) -> bool:
    """Whether a value has a part that stayed in the guest: two that look alike may be different."""
    if isinstance(value, Mapping):
        return any(map(holds_object, value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(holds_object, value))
    return isinstance(value, Opaque)


@dataclass(frozen=True)
class Answered:
    """The answer to a pause: the value and, where a model was asked, the requests it took.

    With an `error` there is no value: it is raised in the program, at the call. A value that `is_once` answers this
    call alone; any other answers the same call wherever the program makes it again.
    """

    value: Any
    calls: tuple[Call, ...] = ()
    by: Literal["lm", "tool"] = "lm"
    error: str | None = None
    raised: tuple[str, str] | None = None  # the error's built-in type and text; None: a ToolError
    is_once: bool = False
    is_batched: bool = False  # it came in one reply with those of other calls
    confidence: Confidence | None = None
    likelihood: float | None = None  # of the value as the model wrote it, where it has no confidence
    model: str = ""  # who answered, where several could have
    is_cached: bool = False  # it was kept from an earlier run


@runtime_checkable
class Emulator(Protocol):
    """Answers pauses. Subclass it to get the defaults; `declared` adds them to an object that has only `answer`."""

    in_flight: int = 1  # how many pauses it answers at once, also of calls that the program has not made yet
    is_ordered: bool = False  # an answer depends on the order of the questions: pauses come one at a time
    reads_state: bool = False  # each pause has the variables of the program
    gathers: bool = False  # pauses are held back until lookahead has found those of a round: they can be batched

    async def answer(self, pause: Pause) -> Answered:
        """Return the value of a pause. Raises EmulationError where there is none."""
        ...

    def asks_ahead(self, name: str) -> bool:
        """Whether calls of this function may be answered before the program makes them."""
        return True

    def abandoned(self) -> list[Call]:
        """Return requests that were cancelled, or whose value was no longer wanted, each once: they may have a cost."""
        return []

    def fresh(self) -> Emulator:
        """Return the emulator for another run: without what it has learned in this one."""
        return self


def declared(given: Any) -> Emulator:
    """Return an emulator with every attribute of `Emulator`. An object needs only a method `answer`."""
    return given if isinstance(given, Emulator) else _MinimalEmulator(given)


class _MinimalEmulator(Emulator):
    """An emulator around an object that lacks some attributes of `Emulator`."""

    def __init__(self, given: Any) -> None:
        self._given = given
        for name in ("in_flight", "is_ordered", "reads_state", "gathers"):
            if hasattr(given, name):
                setattr(self, name, getattr(given, name))

    async def answer(self, pause: Pause) -> Answered:
        answered: Answered = await self._given.answer(pause)
        return answered


class AroundEmulator(Emulator):
    """An emulator that passes everything on to another: the base of wrappers, which override `answer`."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator = declared(emulator)
        self.in_flight, self.is_ordered = emulator.in_flight, emulator.is_ordered
        self.reads_state, self.gathers = emulator.reads_state, emulator.gathers

    async def answer(self, pause: Pause) -> Answered:
        return await self._emulator.answer(pause)

    def asks_ahead(self, name: str) -> bool:
        return self._emulator.asks_ahead(name)

    def abandoned(self) -> list[Call]:
        return self._emulator.abandoned()
