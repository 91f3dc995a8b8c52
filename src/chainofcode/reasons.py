"""Why a run ended, and whether another attempt may help."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The reason of an answer. Its value is the text in traces, results and JSON."""

    ANSWERED = "answered"
    ERROR = "error"  # the program raised an exception or has no answer
    EMULATION_FAILED = "emulation failed"  # a call has no value
    GUEST_DIED = "guest died"
    INTERRUPTED = "interrupted"
    CPU_LIMIT = "limit:cpu"
    RUN_LIMIT = "limit:run"
    WALL_LIMIT = "limit:wall"
    METHOD_LIMIT = "limit:method"  # the method took too long; a quicker one may answer
    MEMORY_LIMIT = "limit:memory"
    OUTPUT_LIMIT = "limit:output"
    FRAME_LIMIT = "limit:frame"
    BYTES_LIMIT = "limit:bytes"
    TRACE_LIMIT = "limit:trace"
    PROCESSES_LIMIT = "limit:processes"
    MODULES_LIMIT = "limit:modules"
    CALLS_LIMIT = "limit:calls"
    TOKENS_LIMIT = "limit:tokens"
    MONEY_LIMIT = "limit:money"

    @property
    def limit(self) -> str:
        """The limit or budget that ended the run, such as `cpu`; empty if none did."""
        return self.removeprefix("limit:") if self.startswith("limit:") else ""

    @property
    def is_budget(self) -> bool:
        """Whether a budget for requests to models is used up."""
        return self in _BUDGETS

    @property
    def is_final(self) -> bool:
        """Whether another attempt at the question would end the same way."""
        return self.is_budget or self is Reason.WALL_LIMIT

    @property
    def is_repairable(self) -> bool:
        """Whether another program might do better."""
        return self in _REPAIRABLE

    @property
    def is_by_chance(self) -> bool:
        """Whether the same program might end differently next time, depending on the machine and its load."""
        return self in _BY_CHANCE


_BUDGETS = frozenset({Reason.CALLS_LIMIT, Reason.TOKENS_LIMIT, Reason.MONEY_LIMIT})
_BY_CHANCE = frozenset(
    {
        Reason.RUN_LIMIT,
        Reason.WALL_LIMIT,
        Reason.METHOD_LIMIT,
        Reason.CPU_LIMIT,
        Reason.MEMORY_LIMIT,
        Reason.PROCESSES_LIMIT,
        Reason.OUTPUT_LIMIT,
        Reason.GUEST_DIED,
    }
)
_REPAIRABLE = frozenset(
    {
        Reason.ERROR,
        Reason.RUN_LIMIT,
        Reason.CPU_LIMIT,
        Reason.MEMORY_LIMIT,
        Reason.OUTPUT_LIMIT,
        Reason.FRAME_LIMIT,
        Reason.BYTES_LIMIT,
        Reason.TRACE_LIMIT,
        Reason.GUEST_DIED,
    }
)
