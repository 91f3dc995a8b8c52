"""The protocol of a store, and the records in it: runs, uploads, artifacts, and what each owner has spent.

Programs read uploads as local files, and responses stream traces and artifacts from local files. The store decides
where these come from, and how it keeps everything else. `coc serve` uses `SQLiteStore`, or `PostgresStore` for several
servers.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from ..emulator.person import Question
from ..reasons import Reason
from .trace_files import TraceLog

State = Literal["queued", "running", "waiting", "done", "cancelled", "interrupted", "failed"]
UNFINISHED = ("queued", "running", "waiting")  # `waiting`: for a person's answer
_FINAL = (Reason.ANSWERED, Reason.ERROR)
_SUMMARY_CHARS = 2000  # of a question and of an answer; searches look at as many
_SUMMARY_REASON_CHARS = 200
_MAX_QUESTIONS_CHARS = 1_000_000  # of the calls in one list of questions


class RunRecord(msgspec.Struct):
    """A run without its events."""

    id: str
    state: State
    question: str | None
    method: str
    model: str | None
    created: float
    seconds: float | None = None
    answer: str | None = None
    value: Any = None  # the answer as data, unless it is too long
    confidence: float | None = None  # see `trace.answer_confidence`
    reason: str | None = None
    parent: str | None = None
    usage: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    artifacts: list[dict[str, Any]] = []
    files: list[str] = []
    type: str | None = None  # the required type of the answer, as in the request
    ask_me: str | None = None  # functions whose calls a person answers
    resumed: int = 0  # how often it was resumed
    owner: str = ""

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to do: the run was not interrupted, nor ended by a limit."""
        return self.state == "done" and self.reason in _FINAL

    def as_data(self) -> dict[str, Any]:
        """The record as the API returns it."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data.pop("owner")
        return data


class RunSummary(msgspec.Struct):
    """What lists show of a run. It is stored next to the record and is always short, however large the record is.

    Requests that only need to know whether a run exists, whose it is and whether it is over read the summary.
    """

    id: str
    state: State
    question: str | None
    method: str
    model: str | None
    created: float
    seconds: float | None = None
    answer: str | None = None
    reason: str | None = None
    parent: str | None = None
    tokens: int = 0
    dollars: float | None = 0.0  # None: the price is unknown
    owner: str = ""

    @classmethod
    def of(cls, run: RunRecord) -> RunSummary:
        return cls(
            id=run.id,
            state=run.state,
            question=_cut(run.question, _SUMMARY_CHARS),
            method=run.method,
            model=run.model,
            created=run.created,
            seconds=run.seconds,
            answer=_cut(run.answer, _SUMMARY_CHARS),
            reason=_cut(run.reason, _SUMMARY_REASON_CHARS),
            parent=run.parent,
            tokens=run.usage.get("prompt_tokens", 0) + run.usage.get("completion_tokens", 0),
            dollars=run.usage.get("dollars", 0.0),
            owner=run.owner,
        )

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED

    def as_data(self, max_chars: int) -> dict[str, Any]:
        """The summary as an entry of a list of the API."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data.pop("owner")
        return {**data, "question": _cut(self.question, max_chars), "answer": _cut(self.answer, max_chars)}


AnyRun = RunRecord | RunSummary


def _cut(text: str | None, max_chars: int) -> str | None:
    if text is None or len(text) <= max_chars:
        return text
    return text[: max_chars - 1] + "…"


def new_run(owner: str, question: str | None, method: str, model: str | None, **more: Any) -> RunRecord:
    """A queued run with an id that cannot be guessed."""
    return RunRecord(
        id=secrets.token_hex(12),
        state="queued",
        question=question,
        method=method,
        model=model,
        created=round(time.time(), 3),
        owner=owner,
        **more,
    )


class RunFilter(msgspec.Struct, frozen=True):
    """Which runs to list: those that contain all `words` and have these properties; None allows any."""

    words: tuple[str, ...] = ()
    state: str | None = None
    method: str | None = None
    model: str | None = None
    since: float | None = None  # seconds since 1970
    until: float | None = None

    @property
    def is_empty(self) -> bool:
        return self == ANY_RUN


ANY_RUN = RunFilter()


class PendingQuestion(msgspec.Struct, frozen=True):
    """A call of a run that a person answers. `answer` is the person's text, None before that."""

    id: str
    run: str
    call: str
    type: str  # of the value, as the text of an annotation
    line: int
    asked: float
    answer: str | None = None

    @property
    def question(self) -> Question:
        return Question(self.call, self.type, self.line)

    def as_data(self) -> dict[str, Any]:
        """The question as the API returns it."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data.pop("answer")
        return {**data, "wants": self.question.wants}


def take_first_questions(questions: Iterable[PendingQuestion]) -> list[PendingQuestion]:
    """The first questions, up to the size of one list, and at least one."""
    found, chars = list[PendingQuestion](), 0
    for question in questions:
        chars += len(question.call) + len(question.type)
        if found and chars > _MAX_QUESTIONS_CHARS:
            break
        found.append(question)
    return found


class StoredFile(msgspec.Struct, frozen=True):
    """An uploaded file."""

    id: str
    name: str
    bytes: int
    sha256: str


def new_file(name: str, data: bytes) -> StoredFile:
    """An upload with an id that cannot be guessed."""
    return StoredFile(id=secrets.token_hex(12), name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


class QueueRoom(NamedTuple):
    """How many runs may be unfinished, per server, and whether several owners share the places fairly."""

    per_server: int
    is_shared: bool


class ClaimedRun(NamedTuple):
    """A run from the shared queue that this server carries out now, and its request.

    `is_own`: only this server could claim it, because a client waits for it here.
    """

    run: RunRecord
    request: bytes | None
    is_own: bool


class SharedQueue(Protocol):
    """The queue of several servers. A run belongs to the server that claimed it while that server sends heartbeats."""

    async def enqueue(self, run: RunRecord, request: bytes | None = None, places: QueueRoom | None = None) -> None:
        """Queue a run for any server. Raises Refusal if its owner has no place left, or TakenOver."""

    async def claim(
        self, waiting: Sequence[str], models: Sequence[str], *, only_own: bool = False
    ) -> ClaimedRun | None:
        """Take the next run with one of these models, except from `waiting` owners: the owner with the fewest running
        runs is next; equals take turns. `only_own`: only runs that no other server can carry out."""

    async def lost_claim(self, known: Sequence[str]) -> ClaimedRun | None:
        """A run that this server has claimed but does not know: a `claim` that failed may have taken it."""

    async def cancel(self, id: str) -> None:
        """Cancel a run that belongs to another server, or to none."""

    async def held(self) -> dict[str, bool]:
        """The unfinished runs that belong to this server, and whether each is to be cancelled."""

    def listen(self, notified: Callable[[str, str], None]) -> None:
        """Send heartbeats, take over the runs of dead servers, and call `notified` in a thread.

        `notified` gets `queued`, `held`, or `changed` with the id of a run. The id is empty if changes may have been
        missed.
        """

    def leave(self) -> None:
        """Stop listening. Other servers may take over the remaining runs."""


class Store(Protocol):
    """Durable storage. What an awaited call wrote survives a crash; writes that fail raise StorageError.

    `owner` is the name of a token: records of other owners do not exist for it. `shared` is the queue of all servers
    that use the store, None for a single server.
    """

    @property
    def shared(self) -> SharedQueue | None: ...

    def close(self) -> None: ...

    async def check(self) -> None:
        """Raise StorageError if nothing can be written."""

    async def keep(self, run: RunRecord, trace: TraceLog | None = None, request: bytes | None = None) -> None:
        """Insert or replace a run. `trace` is closed before the run is marked as finished.

        `request` is what the run is resumed from, kept until the run is final.
        """

    async def request(self, run: str) -> bytes | None: ...

    async def interrupted(self) -> list[tuple[str, str]]:
        """The id and owner of each interrupted run that has a request, the oldest first."""

    async def run(self, id: str, owner: str) -> RunRecord | None: ...

    async def summary(self, id: str, owner: str) -> RunSummary | None: ...

    async def runs(
        self, owner: str, limit: int, before: str | None, run_filter: RunFilter = ANY_RUN
    ) -> list[RunSummary]:
        """The newest runs that match a filter; `before` is the id of the last run of the previous page."""

    async def remove(self, ids: Sequence[str]) -> None:
        """Remove finished runs with their traces, and artifacts that no other run has."""

    async def remove_before(self, when: float) -> int:
        """Remove finished runs and unused uploads from before a time. Return the number of runs."""

    async def new_trace(self, id: str) -> TraceLog:
        """Begin the trace of a run."""

    async def replace_trace(self, id: str, items: Iterable[object]) -> TraceLog:
        """Replace a trace with these events, and continue it. A crash leaves the old trace or the new one."""

    async def local_trace(self, id: str) -> Path:
        """The trace of a run, as far as it is stored, as a local file; a run without events has none."""

    async def keep_question(self, question: PendingQuestion) -> None:
        """Keep a question until its run is final. It replaces an earlier one for the same call of the run."""

    async def question(self, id: str, owner: str) -> PendingQuestion | None: ...

    async def question_of(self, run: str, call: str) -> PendingQuestion | None: ...

    async def questions(self, owner: str, limit: int, run: str | None = None) -> list[PendingQuestion]:
        """The unanswered questions of unfinished runs, the oldest first, up to a total size."""

    async def answer_question(self, id: str, answer: str) -> bool:
        """Keep an answer. Return False if there was one already."""

    async def keep_file(self, file: StoredFile, owner: str, data: bytes) -> None:
        """Keep an upload. Raises Refusal when the owner has no room left."""

    async def file(self, id: str, owner: str) -> StoredFile | None: ...

    async def local_file(self, file: StoredFile) -> Path: ...

    def without_paths(self, text: str) -> str:
        """A message for clients, without the paths of the server: uploads have the names that the client gave them."""

    async def keep_artifacts(self, run: str, artifacts: Mapping[str, bytes]) -> None:
        """Keep the files that a run wrote, by their SHA-256."""

    async def local_artifact(self, sha256: str) -> Path: ...

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        """Add tokens and dollars to what each owner has spent on a day."""

    async def spent(self, day: str) -> dict[str, tuple[int, float]]: ...
