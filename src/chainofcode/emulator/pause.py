"""The `Emulator` protocol, with the pauses that emulators answer and the answers that they return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ..program import Program
from ..trace import Call, Confidence
from ..values.codec import Opaque


@dataclass(frozen=True)
class Pause:
    """A call (or a statement) that the program waits for. `text` is the call as tables of values write it.

    For a statement, `text` is its source, `names` are the variables that it may set (`return`: the value to return),
    and the answer is a mapping of names to values; `error` is why Python could not run it. `type` is the expected type,
    as the text of an annotation (empty: unknown), `spec` the source of the stub that declares it, `state` the variables
    in scope.
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
    """Whether a value has a part that stayed in the guest: two such objects may look alike and be different."""
    if isinstance(value, Mapping):
        return any(map(holds_object, value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(holds_object, value))
    return isinstance(value, Opaque)


@dataclass(frozen=True)
class Answered:
    """The answer to a pause: the value and, if a model was asked, the requests for it.

    With an `error` there is no value: it is raised in the program, at the call. A value that `is_once` answers this
    call alone; any other answers the same call wherever the program makes it again.
    """

    value: Any
    calls: tuple[Call, ...] = ()
    by: Literal["lm", "tool"] = "lm"
    error: str | None = None
    raised: tuple[str, str] | None = None  # the error's built-in type and text; None: a ToolError
    is_once: bool = False
    is_batched: bool = False  # it came in one reply with values of other calls
    confidence: Confidence | None = None
    likelihood: float | None = None  # of the value's tokens, for values without a confidence
    model: str = ""  # the model that answered, if several could have
    is_cached: bool = False  # from an earlier run


@runtime_checkable
class Emulator(Protocol):
    """Answers pauses. Subclass it to get the defaults; `declared` adds them to an object that has only `answer`."""

    in_flight: int = 1  # how many pauses it answers at once, including calls that the program has not made yet
    is_ordered: bool = False  # answers depend on the order of pauses, which come one at a time
    reads_state: bool = False  # needs the variables of the program in each pause
    gathers: bool = False  # pauses are held back until lookahead has found those of a round: they can be batched

    async def answer(self, pause: Pause) -> Answered:
        """Return the value of a pause. Raises EmulationError if there is none."""
        ...

    def asks_ahead(self, name: str) -> bool:
        """Whether calls of this function may be answered before the program makes them."""
        return True

    def abandoned(self) -> list[Call]:
        """Return, and forget, requests that were cancelled or are no longer needed: they may have a cost."""
        return []

    def fresh(self) -> Emulator:
        """Return the emulator for another run, without what it has learned in this one."""
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
