"""A run that is queued or running: what the server knows about it in addition to its trace."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import msgspec

from ..lm import Usage
from ..program import Program
from ..reasons import Reason
from ..render import cut
from ..sandbox import Sandbox
from ..trace import Answer, Call, Event, Produced, Returned, Sent, Step, answer_confidence, least_sure
from .continuation import Continuation
from .draft import Draft
from .run_kinds import EventSource
from .store import RunRecord, State
from .trace_files import TraceLog

PATIENCE_SECONDS = 1.0  # how long a run that only waits for a person keeps its process
_MAX_WAITING, _MAX_CALL_CHARS = 64, 300


class ActiveRun:
    """A run that is queued or running."""

    def __init__(
        self,
        run: RunRecord,
        source: EventSource,
        sandbox: Sandbox,
        *,
        detach: bool,
        is_claimed: bool = False,
        is_resumed: bool = False,
        is_resumable: bool = False,
    ) -> None:
        self.run, self.source, self.is_detached = run, source, detach
        self.sandbox = sandbox
        self.is_claimed = is_claimed  # from the shared queue: any server can carry it out
        self.is_resumed = is_resumed  # its recorded part is read when its turn comes
        self.is_resumable = is_resumable  # the request to resume it from is stored
        self.draft = Draft()  # the program that the model is writing
        self.task: asyncio.Task[None] | None = None
        self.file: TraceLog | None = None
        self.state_if_cancelled: State = "cancelled"
        self.is_begun = self.is_ending = False
        self.followers = 0
        self.changed, self.over = asyncio.Event(), asyncio.Event()
        self.asked: dict[str, asyncio.Event] = {}  # questions for a person, by id; set when there is an answer
        self.begin(None)
        self.usage = msgspec.convert(run.usage, Usage)  # what a resumed run has used so far
        self.state_if_refused: State = "interrupted" if is_resumed else "failed"  # until the recorded part is read

    def begin(self, continued: Continuation | None) -> None:
        """Start from the recorded part of the run, if there is one."""
        self.continued, self.state_if_refused = continued, "failed"
        self._sent: dict[int, Sent] = {}  # calls in flight
        self.store: dict[str, bytes] = {}
        self.usage, self.answer = Usage(), Answer(Reason.INTERRUPTED)
        self._lowest_confidence: float | None = None  # the lowest confidence of a judgement in the last program
        self._last_event_at = time.monotonic()
        self.draft.clear()
        for event in continued.events if continued is not None else ():
            self.note(event)

    def expect_answer(self, question: str) -> asyncio.Event:
        """Return the event that is set when a person has answered; the page shows the question now."""
        self.wake()
        return self.asked.setdefault(question, asyncio.Event())

    @property
    def only_waits(self) -> bool:
        """Whether the run has nothing to do until a person answers."""
        still = time.monotonic() - self._last_event_at
        return bool(self.asked) and len(self._sent) <= len(self.asked) and still > PATIENCE_SECONDS / 2

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """The calls in flight, as the page shows them."""
        calls = itertools.islice(self._sent.values(), _MAX_WAITING)
        return [
            {"id": call.id, "line": call.line, "statement": call.statement, "text": cut(call.call, _MAX_CALL_CHARS)}
            for call in calls
        ]

    def write(self, text: str) -> None:
        """Show followers the model's reply so far."""
        if self.draft.write(text):
            self.wake()

    def note(self, event: Event) -> None:
        """Update the state of the run from an event."""
        self._last_event_at = time.monotonic()
        match event:
            case Sent():
                self._sent[event.id] = event
            case Returned():
                self._sent.pop(event.id, None)
            case Produced():
                self.store |= event.files
            case Call():
                self.usage += event.usage
                self.draft.clear()
            case Program():
                self._lowest_confidence = None
            case Step():
                self._lowest_confidence = least_sure(self._lowest_confidence, event)
            case Answer():
                self.answer = event
                self._sent.clear()
                self.draft.clear()

    @property
    def confidence(self) -> float | None:
        return answer_confidence(self.answer, self._lowest_confidence)

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def cancel(self, state: State = "cancelled") -> None:
        if not self.is_ending:
            self.state_if_cancelled = state
            self.is_ending = True
            if self.task is not None and self.is_begun:  # a task cancelled before it began would skip its own cleanup
                self.task.cancel()


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
