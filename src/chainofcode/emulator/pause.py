"""What is asked of whoever answers a pause, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ..program import Program
from ..trace import Call


@dataclass(frozen=True)
class Pause:
    """A call (or a statement) the program waits for. `text` is the call as values files write it.

    For a statement, `text` is its source, `names` what it may set (`return`: the value to return) and the answer is
    a mapping of names to values; `error` says why Python could not run it. `type` is the type expected, as the text of
    an annotation (empty: unknown), `spec` the source of the stub that declares it, `state` the variables in sight.
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


@dataclass(frozen=True)
class Answered:
    """What came of a pause: the value and, where a model was asked, the requests it took.

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


@runtime_checkable
class Emulator(Protocol):
    """Answers pauses. Raises EmulationError when it has no value.

    Optional attributes: `in_flight` above 1 allows concurrent requests, also for calls that the program has not made
    yet; `reads_state` adds the program's variables to each pause; `gathers` holds requests back until lookahead has
    found the calls of a round, so that they can be batched.
    """

    async def answer(self, pause: Pause) -> Answered: ...
