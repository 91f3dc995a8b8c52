"""What a guest is asked to do, and what it may use for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import InputError
from ..guest.values import encode


@dataclass(frozen=True)
class Limits:
    """What one run may use. `run_seconds` counts while the guest runs, `wall_seconds` always."""

    cpu_seconds: float = 60
    run_seconds: float = 60
    wall_seconds: float = 3600
    memory_bytes: int = 2 * 1024**3
    output_bytes: int = 1_000_000
    frame_bytes: int = 16 * 1024**2
    lm_calls: int = 1000


@dataclass(frozen=True)
class Job:
    """One program to run and the world it runs in. `clock` and `seed` make runs repeatable."""

    source: str
    is_reply: bool = True
    question: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    policy: Literal["strict", "paper"] = "strict"
    packages: tuple[str, ...] = ()
    clock: float = 1_735_689_600.0  # 2025-01-01T00:00:00Z
    seed: int = 0
    limits: Limits = field(default_factory=Limits)

    def message(self) -> dict[str, Any]:
        """The job as the guest's first frame."""
        return {
            "source": self.source,
            "is_reply": self.is_reply,
            "question": encode(self.question),
            "inputs": {name: encode(value, brief=_refuse(name)) for name, value in self.inputs.items()},
            "policy": self.policy,
            "packages": list(self.packages),
            "clock": self.clock,
            "seed": self.seed,
            "cpu_seconds": self.limits.cpu_seconds,
            "memory_bytes": self.limits.memory_bytes,
        }


def _refuse(name: str) -> Callable[[object], str]:
    def refuse(part: object) -> str:
        raise InputError(f"the input {name!r} holds a {type(part).__name__}, or too much, to be sent to a program")

    return refuse
