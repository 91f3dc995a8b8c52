"""A job for a guest: the program, its inputs and grants, and the limits of the run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ..errors import InputError
from ..languages import PYTHON, Language
from ..values.codec import encode

MAX_IN_FLIGHT = 1024


@dataclass(frozen=True)
class Limits:
    """Limits of one run. `run_seconds` counts only while the guest runs, `wall_seconds` all of the time."""

    cpu_seconds: float = 60
    run_seconds: float = 60
    wall_seconds: float = 3600
    memory_bytes: int = 2 * 1024**3
    output_bytes: int = 1_000_000
    frame_bytes: int = 16 * 1024**2  # of a call with its arguments, or of an answer; a run may use 15 times as much
    trace_bytes: int = 100_000_000  # of what the run records
    processes: int = 512  # counts threads; a program cannot start other processes
    scratch_bytes: int = 64 * 1024**2
    lm_calls: int = 1000

    def __post_init__(self) -> None:
        for field_ in fields(self):
            if not getattr(self, field_.name) > 0:
                raise InputError(f"the limit {field_.name} must be above 0, not {getattr(self, field_.name)!r}")


LIMIT_OPTIONS = {  # the fields of Limits by the names that users type
    "cpu": "cpu_seconds",
    "run": "run_seconds",
    "wall": "wall_seconds",
    "memory": "memory_bytes",
    "output": "output_bytes",
    "processes": "processes",
    "scratch": "scratch_bytes",
    "frame": "frame_bytes",
    "trace": "trace_bytes",
    "calls": "lm_calls",
}


@dataclass(frozen=True)
class File:
    """A file that the program gets as a variable; see languages/guest/file_readers.py for the kinds."""

    name: str
    path: str
    kind: Literal["rows", "database", "table", "parquet", "excel", "json", "lines", "text", "path"]
    separator: str = ""


class TaggedInputs(dict[str, Any]):
    """Inputs with their tagged form. Making it takes long for many values: a server does it once, in a thread.

    Raises InputError for values that have no tagged form.
    """

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self.tagged = _tag(inputs)


@dataclass(frozen=True)
class Job:
    """One program and the environment that it runs in. `clock` and `seed` make runs repeatable."""

    source: str
    language: Language = PYTHON
    is_reply: bool = True
    question: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    policy: Literal["strict", "paper"] = "strict"
    packages: Sequence[str] = ()  # granted for importing
    reads: Sequence[str] = ()  # files and directories granted for reading
    directory: str = ""  # where relative paths in `reads` begin; empty for the working directory
    prelude: Sequence[File] = ()  # read before the program runs; `reads` must grant them
    scratch: bool = False  # a writable directory, empty at first, removed afterwards
    clock: float = 1_735_689_600.0  # 2025-01-01T00:00:00Z
    seed: int = 0
    tools: Sequence[str] = ()  # names of functions that the host runs
    with_state: bool = False  # pauses carry the program's variables, for a model
    in_flight: int = 1  # concurrent calls, including those sent ahead of the program
    is_shadow: bool = False  # a speculative run, to find the calls that the program will make
    is_recorded: bool = False  # the guest reports its lineage
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if type(self.in_flight) is not int or not 1 <= self.in_flight <= MAX_IN_FLIGHT:
            raise InputError(f"in_flight must be 1 to {MAX_IN_FLIGHT}, not {self.in_flight!r}")
        for name in ("packages", "reads"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if not isinstance(self.limits, Limits):
            raise InputError(f"limits must be Limits(…), not {self.limits!r}")
        for name in self.inputs:
            if not name.isidentifier():
                raise InputError(f"invalid input name {name!r}: it must be an identifier")

    @property
    def all_packages(self) -> tuple[str, ...]:
        """The packages granted to the program, and those that the guest of its language needs.

        Raises InputError if a package of the language is not installed.
        """
        self.language.package_paths()
        return tuple(dict.fromkeys([*self.packages, *self.language.packages]))

    @functools.cached_property
    def given(self) -> Mapping[str, Any]:
        """The inputs, files, clock and seed of the program; one object for all pauses of a run."""
        world = {"clock": self.clock, "seed": self.seed}
        return {"inputs": dict(self.inputs), "reads": self.reads, "directory": self.directory, **world}

    @property
    def scratch_bytes(self) -> int:
        return self.limits.scratch_bytes if self.scratch else 0

    def message(self) -> dict[str, Any]:
        """The first frame for the guest."""
        return {
            "language": self.language.name,
            "source": self.source,
            "is_reply": self.is_reply,
            "question": encode(self.question),
            "inputs": self.inputs.tagged if isinstance(self.inputs, TaggedInputs) else _tag(self.inputs),
            "prelude": [[file.name, file.path, file.kind, file.separator] for file in self.prelude],
            "scratch": self.scratch,
            "policy": self.policy,
            "packages": list(self.packages),
            "clock": self.clock,
            "seed": self.seed,
            "tools": list(self.tools),
            "with_state": self.with_state,
            "is_recorded": self.is_recorded,
            "is_shadow": self.is_shadow,
            "cpu_seconds": self.limits.cpu_seconds,
            "memory_bytes": self.limits.memory_bytes,
            "frame_bytes": self.limits.frame_bytes,
        }


def _names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(part, str | os.PathLike) for part in names):
        raise InputError(f"{option} must be a tuple of names, not {names!r}")
    return tuple(os.fspath(part) for part in names)


def _tag(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encode(value, brief=_refuse(name)) for name, value in inputs.items()}


def _refuse(name: str) -> Callable[[object], str]:
    def refuse(part: object) -> str:
        raise InputError(
            f"cannot send the input {name!r} to a program: "
            f"it contains a value of type {type(part).__name__}, or is too large"
        )

    return refuse
