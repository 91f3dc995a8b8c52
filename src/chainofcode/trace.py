"""The trace of a run: its events in order, and their JSON-lines form."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from .errors import TraceError
from .languages import Actor
from .lm import Usage
from .platforms import read_whole
from .program import Program
from .reasons import Reason
from .sandbox.frames import Failure, Lineage
from .sandbox.job import TaggedInputs
from .seals import Seals, find_seal_problem, make_key
from .values.codec import ValueFormatError, decode, encode

VERSION = 1
_MAX_CAUSE_CHARS = 500  # an error may quote a long line of the file
DIGEST_CHARS = 32
Delta = dict[str, str | None]  # name → new value as text; None: deleted


class Call(msgspec.Struct, frozen=True, tag_field="event", tag="call", omit_defaults=True):
    """One request of the host to an LM or a tool: the prompt, the reply and the cost.

    The host records it when the reply arrives or the request is cancelled, even if the program does not use the value.
    """

    prompt: str
    reply: str
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    started: float = 0.0  # when the request was made, in seconds since 1970; 0: unknown
    tool: str = ""  # its name; then `prompt` is the call, and `reply` its result in short
    is_cached: bool = False  # from the cache: no request was made
    is_abandoned: bool = False  # cancelled before a reply came: the usage is an estimate
    answers: dict[str, Any] = {}  # the values in the reply, tagged, by the text of the program's call


class Confidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """How sure the model was of a value: its probability, and the alternatives."""

    probability: float
    alternatives: dict[str, float] = {}  # other values as text, the likeliest first
    spread: float | None = None  # the standard deviation of a score, whose value is the mean
    samples: int = 0  # how many replies it was estimated from; 0: from log probabilities


class Step(msgspec.Struct, frozen=True, tag_field="event", tag="step", omit_defaults=True):
    """A statement that the program ran, or a call or statement that the LM or a tool answered.

    `visit` counts a statement's runs; 0: output after the recording limit. `value` is tagged (see values/codec.py).
    """

    number: int
    by: Actor
    statement: int
    line: int
    visit: int = 0
    delta: Delta = {}
    outcome: str | None = None
    output: str = ""
    call: str | None = None
    value: Any = None
    seconds: float | None = None
    error: str | None = None  # of a tool; the guest raises it at the call
    raised: tuple[str, str] | None = None  # the built-in type and text of the error; None: a ToolError
    # `ahead`: requested before the program made the call; `shared`: the value of an equal call; `batched`: in one reply
    # with other values; `cached`: from an earlier run.
    how: Literal["ahead", "shared", "batched", "cached", ""] = ""
    confidence: Confidence | None = None  # from log probabilities or several replies; None if unknown
    model: str = ""  # the model that answered, if several could have

    @property
    def is_code(self) -> bool:
        """Whether this is a step of the program, not of the LM or a tool."""
        return self.by not in ("lm", "tool")


class Artifact(msgspec.Struct, frozen=True):
    """A file that a program left in its scratch directory. Its bytes are stored separately, under this digest."""

    name: str
    bytes: int
    sha256: str


class Answer(msgspec.Struct, frozen=True, tag_field="event", tag="answer", omit_defaults=True):
    """The end of a run, or of one attempt at an answer."""

    reason: Reason
    value: Any = None
    text: str = ""
    source: Literal["variable", "expression", "output", "reply", ""] = ""
    error: Failure | None = None
    stderr: str = ""
    seconds: float = 0.0  # of the program
    sandbox: str = ""  # the tier of the sandbox, the container engine, or `none`
    then: str = ""  # what was tried next, if this attempt was not the last
    votes: dict[str, int] = {}  # each answer and its number of votes, if there was a vote
    doubts: tuple[str, ...] = ()  # reasons not to trust this vote
    type: str = ""  # the answer type, if one was given
    said: str = ""  # the original answer as text, if conversion changed it
    artifacts: tuple[Artifact, ...] = ()
    unsent: tuple[str, ...] = ()  # files that the guest did not send, and why
    wasted: int = 0  # calls that were sent ahead, but that the program never made
    confidence: float | None = None  # the model's probability of an answer that it states, if known
    unsettled: int = 0  # calls of the program that got a value which it never reported using
    total_seconds: float = 0.0  # from the question to its answer, with all requests and attempts

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "reason", Reason(self.reason))

    @property
    def is_answered(self) -> bool:
        return self.reason is Reason.ANSWERED

    @property
    def run_seconds(self) -> float:
        """The duration of the run: from the question, if there was one, or else from the start of the program."""
        return self.total_seconds or self.seconds


class Header(msgspec.Struct, frozen=True, tag_field="event", tag="trace", omit_defaults=True):
    """The first event of a trace: the question, inputs and settings of the run."""

    version: int
    python: str
    question: Any = None  # tagged, as the inputs are
    inputs: dict[str, Any] = {}
    settings: dict[str, Any] = {}

    @classmethod
    def of(cls, question: str | None, inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> Header:
        if isinstance(inputs, TaggedInputs):
            tagged = inputs.tagged
        else:
            tagged = {name: encode(value) for name, value in inputs.items()}
        return cls(VERSION, platform.python_version(), encode(question), tagged, dict(settings))


class Sent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="sent"):
    """A call was sent to the emulator. Traces do not keep this event."""

    id: int
    call: str
    statement: int
    line: int


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="returned"):
    """A call got a value or failed. Traces do not keep this event."""

    id: int


class Produced(msgspec.Struct, frozen=True):
    """The files and the lineage of a program. Traces do not keep this event."""

    files: dict[str, bytes]  # by their SHA-256
    lineage: Lineage | None = None


Kept = Program | Call | Step | Answer  # what a trace keeps below its header
Event = Header | Kept | Sent | Returned | Produced


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a run that differ from the default, so that the run can be repeated."""

    policy: Literal["strict", "paper"] = "strict"
    packages: list[str] = []
    reads: list[str] = []
    directory: str = ""  # the working directory, if a path in `reads` is relative
    clock: float | None = None
    seed: int | None = None
    files: dict[str, str] = {}  # name → path
    file_kinds: dict[str, tuple[str, str]] = {}  # name → how it was read, and the separator
    scratch: bool = False
    tools: list[str] = []  # the names of functions that the host runs
    limits: dict[str, int | float] = {}
    share: bool = True
    asked: dict[str, Any] = {}  # how the question was asked: method, repairs, votes…
    edited: list[str] = []  # of a what-if: the changes to the recorded run


_decoder = msgspec.json.Decoder(Header | Program | Call | Step | Answer)


@dataclass(repr=False)
class Trace:
    """The events of a run in order, with its question, inputs and settings."""

    question: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # see Settings
    events: list[Kept] = field(default_factory=list)
    python: str = field(default_factory=platform.python_version)
    # For a trace that was read: why someone else may have recorded it. Its grants then need approval.
    seal_problem: str = field(default="", compare=False)
    is_approved: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Trace:
        """Collect the events of a run, from its header on."""
        trace = cls()
        for event in events:
            trace.add(event)
        return trace

    def add(self, event: Event) -> None:
        """Keep an event, if traces keep it. Raises ValueFormatError for a header with invalid values."""
        if isinstance(event, Header):
            question = decode(event.question)
            if not isinstance(question, str | None):
                raise ValueFormatError("the question is not text")
            self.question, self.python, self.settings = question, event.python, event.settings
            self.inputs = {name: decode(value) for name, value in event.inputs.items()}
        elif not isinstance(event, (Sent, Returned, Produced)):
            self.events.append(event)

    @property
    def program(self) -> Program | None:
        """The last program, which gave the answer."""
        return next((event for event in reversed(self.events) if isinstance(event, Program)), None)

    @property
    def attempts(self) -> list[list[Kept]]:
        """The events of each attempt at an answer. An attempt ends with its Answer."""
        attempts: list[list[Kept]] = [[]]
        for event in self.events:
            attempts[-1].append(event)
            if isinstance(event, Answer):
                attempts.append([])
        return [attempt for attempt in attempts if attempt]

    @property
    def is_foreign(self) -> bool:
        """Whether someone else may have recorded or changed the trace, and this user has not approved its grants."""
        return bool(self.seal_problem) and not self.is_approved

    @property
    def edited(self) -> list[str]:
        """The changes to the recorded run, if this is a what-if."""
        edits = self.settings.get("edited")
        return [str(change) for change in edits] if isinstance(edits, list) else []

    @property
    def steps(self) -> list[Step]:
        return [event for event in self.events if isinstance(event, Step)]

    @property
    def calls(self) -> list[Call]:
        """The requests to models."""
        return [event for event in self.events if isinstance(event, Call) and not event.tool]

    @property
    def tool_calls(self) -> list[Call]:
        """The tool calls that the host made, whether or not the program used their values."""
        return [event for event in self.events if isinstance(event, Call) and event.tool]

    @property
    def answer(self) -> Answer | None:
        return next((event for event in reversed(self.events) if isinstance(event, Answer)), None)

    @property
    def judgements(self) -> list[Step]:
        """The model's values for the last program whose confidence is known, without those of repeated calls."""
        last = next((attempt for attempt in reversed(self.attempts) if _has_program(attempt)), [])
        steps = (event for event in last if isinstance(event, Step) and event.how != "shared")
        return [step for step in steps if step.confidence is not None]

    @property
    def confidence(self) -> float | None:
        """How sure the model was; see `answer_confidence`."""
        return answer_confidence(self.answer, functools.reduce(least_sure, self.judgements, None))

    @property
    def output(self) -> str:
        """What the program printed."""
        return "".join(step.output for step in self.steps)

    @property
    def lm_calls(self) -> int:
        """How many calls and statements of the program the LM, or a table in its place, answered.

        Repeated calls do not count, and neither do `wasted` ones.
        """
        return sum(step.by == "lm" and step.how != "shared" for step in self.steps)

    @property
    def wasted(self) -> int:
        """How many calls were sent ahead, but never made by a program."""
        return sum(event.wasted for event in self.events if isinstance(event, Answer))

    @property
    def unsettled(self) -> int:
        """How many calls got a value that the program never reported using."""
        return sum(event.unsettled for event in self.events if isinstance(event, Answer))

    @property
    def usage(self) -> Usage:
        total = Usage()
        for call in self.calls:
            total += call.usage
        return total

    def __repr__(self) -> str:
        reason = self.answer.reason if self.answer is not None else "no end"
        return f"<Trace {reason}: {len(self.steps)} steps, {self.lm_calls} LM calls>"

    def _repr_html_(self) -> str:
        """Show the trace in a notebook. Imported lazily: `markup` comes later in the module order."""
        made: str = import_module(".markup", __package__).as_html(self)
        return made

    # --- JSON lines -------------------------------------------------------------------------------------------

    @property
    def header(self) -> Header:
        """The first line of a trace."""
        header = Header.of(self.question, self.inputs, self.settings)
        return msgspec.structs.replace(header, python=self.python)

    def lines(self, key: bytes | None = None) -> Iterable[str]:
        """The header and each event as a line, sealed if a key is given.

        Each line ends with a digest of itself and all earlier lines.
        """
        digest, seals = "", Seals(key)
        for item in (self.header, *self.events):
            line = seals.seal(as_json(item))
            digest = linked(digest, line)
            yield chained(line, digest).decode()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace, sealed with this user's key, unless it was read from a file without that seal.

        If this fails or is interrupted, an existing file stays unchanged.
        """
        path = Path(path)
        check_place(path)
        partial = path.with_name(path.name + ".partial")
        key = make_key() if not self.seal_problem else None
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in self.lines(key))
            partial.replace(path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise TraceError(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, is_whole: bool = True, is_own: bool = False) -> Trace:
        """Read a trace. Raises TraceError, with the line, if it is not a trace.

        Without `is_whole`, a last line that was cut off, as by a full disk, is left out. With `is_own`, its seal is not
        checked, because only this program can write the file.
        """
        try:
            lines = read_whole(path).splitlines()
        except OSError as error:
            raise TraceError(f"cannot read {path}: {error.strerror}") from None
        return cls.parse(lines if is_whole else lines[: _whole_lines(lines)], str(path), is_own=is_own)

    @classmethod
    def parse(cls, lines: Iterable[bytes], name: str = "this", *, is_own: bool = False) -> Trace:
        """Read a trace from its lines, as `read` does."""
        lines, number = list(lines), 0
        trace = cls(seal_problem="" if is_own else find_seal_problem(lines))
        for number, line in enumerate(lines, 1):
            event = _parsed(line, name, number)
            if isinstance(event, Header) != (number == 1):
                raise TraceError(_not_a_trace(name, number, "a trace starts with one header line"))
            try:
                trace.add(event)
            except (ValueFormatError, RecursionError) as error:
                raise TraceError(_not_a_trace(name, number, str(error))) from None
        if not number:
            raise TraceError(_not_a_trace(name, 1, "the file is empty"))
        return trace


def _parsed(line: bytes, name: str, number: int) -> Header | Kept:
    try:
        event: Header | Kept = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(_not_a_trace(name, number, str(error))) from None
    if isinstance(event, Header) and event.version != VERSION:
        raise TraceError(f"{name}: unsupported trace version {event.version} (expected {VERSION})")
    return event


def _whole_lines(lines: list[bytes]) -> int:
    """How many lines are complete: all, or all but the last. The first line always counts."""
    try:
        msgspec.json.decode(lines[-1] if lines else b"0")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return max(len(lines) - 1, 1)
    return len(lines)


def _not_a_trace(name: str, line: int, cause: str) -> str:
    cause = cause[:_MAX_CAUSE_CHARS]
    if line > 1:
        return f"{name}, line {line}: not a line of a trace: {cause}"
    return f"{name} is not a trace; coc run and coc ask write one with --trace FILE (line {line}: {cause})"


def _has_program(attempt: list[Kept]) -> bool:
    return any(isinstance(event, Program) for event in attempt)


def least_sure(known: float | None, step: Step) -> float | None:
    """Return the smaller of a probability and that of a step's value. Scores do not count: they are means."""
    confidence = step.confidence
    if confidence is None or confidence.spread is not None:
        return known
    return confidence.probability if known is None else min(known, confidence.probability)


def answer_confidence(answer: Answer | None, least: float | None) -> float | None:
    """Return how sure the model was of an answer that it states, otherwise of its least sure judgement.

    This is not the probability that the answer is right. None if there is no answer or no known confidence.
    """
    if answer is None or not answer.is_answered:
        return None
    return answer.confidence if answer.source == "reply" else least


def as_json(item: object) -> bytes:
    """Encode an event for a trace file."""
    try:
        return msgspec.json.encode(item)
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(msgspec.to_builtins(item)))


def linked(before: str, line: bytes) -> str:
    """The digest of a line without its `chain`. It covers the digest of the line before, and so all earlier lines."""
    return hashlib.sha256(before.encode() + line).hexdigest()[:DIGEST_CHARS]


def chained(line: bytes, digest: str) -> bytes:
    """Add the digest of a line as its last member, `chain`."""
    return b'%s,"chain":"%s"}' % (line[:-1], digest.encode())


def check_place(path: Path) -> None:
    """Raise TraceError if no trace can be written there, so that a run fails before it starts."""
    directory = path.parent
    if not directory.is_dir():
        raise TraceError(f"cannot write {path}: there is no directory {directory}")
    if path.is_dir():
        raise TraceError(f"cannot write {path}: it is a directory")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise TraceError(f"cannot write {path}: no write permission in {directory}")


def _printable(data: Any) -> Any:
    """Replace lone surrogates, which JSON cannot express, with escape sequences."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_printable(name): _printable(part) for name, part in data.items()}
    return [_printable(part) for part in data] if isinstance(data, (list, tuple)) else data
