"""The options of a run: inputs, language, grants, limits, tools."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import msgspec

from ..emulator import Tool, Toolbox
from ..languages import PYTHON, Language, language_named
from ..program import Program
from ..sandbox import File, Job, Limits
from ..trace import Header, Settings

Tools = Toolbox | Sequence[Callable[..., Any] | Tool]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run. `clock` and `seed` are fixed unless you set them, so that runs can be repeated."""

    question: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    language: Language | str | None = None  # None: that of the Program, or Python for text
    policy: Literal["strict", "paper"] = "strict"
    packages: Sequence[str] = ()
    reads: Sequence[str] = ()
    directory: str = ""  # where relative paths in `reads` begin; empty for the working directory
    prelude: Sequence[File] = ()
    scratch: bool = False
    clock: float | None = None
    seed: int | None = None
    limits: Limits = field(default_factory=Limits)
    tools: Tools = ()
    in_flight: int | None = None  # concurrent calls; None: as many as the emulator accepts
    share: bool = True  # whether a repeated call gets the same value instead of a new one
    follow: bool = False  # record the provenance of the answer, one call at a time
    asked: Mapping[str, Any] = field(default_factory=dict)  # how the question was asked; only recorded in the trace

    @classmethod
    def of(cls, options: RunOptions | None, given: Mapping[str, Any], question: str | None = None) -> RunOptions:
        """Return the options with some replaced. Raises TypeError for an unknown name."""
        if question is not None:
            given = {**given, "question": question}
        known = [option.name for option in dataclasses.fields(cls)]
        unknown = sorted(given.keys() - set(known))
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r} (expected one of: {', '.join(known)})")
        return dataclasses.replace(options or cls(), **given)

    @property
    def toolbox(self) -> Toolbox:
        return Toolbox.of(self.tools)

    def language_or(self, default: Language) -> Language:
        """Return the chosen language, or the default if none was chosen."""
        if isinstance(self.language, str):
            return language_named(self.language)
        return self.language or default

    def job(self, program: str | Program, **more: Any) -> Job:
        """Return the job that runs a program, or a model's reply that contains one."""
        if not isinstance(program, (str, Program)):
            raise TypeError(f"program must be text or a Program, not {type(program).__name__}")
        source = program if isinstance(program, str) else program.source
        own = PYTHON if isinstance(program, str) else language_named(program.language)
        world: Any = {"clock": self.clock, "seed": self.seed}
        return Job(
            source=source,
            language=self.language_or(own),
            is_reply=isinstance(program, str),
            question=self.question,
            inputs=self.inputs,
            policy=self.policy,
            packages=self.packages,
            reads=self.reads,
            directory=self.directory,
            prelude=self.prelude,
            scratch=self.scratch,
            tools=tuple(self.toolbox.tools),
            limits=self.limits,
            **{name: value for name, value in world.items() if value is not None},
            **more,
        )

    def header(self) -> Header:
        """Return the first event of a trace."""
        return Header.of(self.question, self.inputs, msgspec.to_builtins(self._settings()))

    def _settings(self) -> Settings:
        usual = Limits()
        limits = {name: value for name, value in vars(self.limits).items() if value != getattr(usual, name)}
        reads = list(map(os.fspath, self.reads))
        return Settings(
            policy=self.policy,
            packages=list(self.packages),
            reads=reads,
            directory="" if all(map(os.path.isabs, reads)) else self.directory or os.path.abspath("."),
            clock=self.clock,
            seed=self.seed,
            files={file.name: file.path for file in self.prelude},
            file_kinds={file.name: (file.kind, file.separator) for file in self.prelude},
            scratch=self.scratch,
            tools=list(self.toolbox.tools),
            limits=limits,
            share=self.share,
            asked=dict(self.asked),
        )


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions` as keyword arguments, without the question."""

    inputs: Mapping[str, Any]
    language: Language | str | None
    policy: Literal["strict", "paper"]
    packages: Sequence[str]
    reads: Sequence[str]
    directory: str
    prelude: Sequence[File]
    scratch: bool
    clock: float | None
    seed: int | None
    limits: Limits
    tools: Tools
    in_flight: int | None
    share: bool
    follow: bool
    asked: Mapping[str, Any]
