"""Resumed runs: those that were interrupted, cancelled or ended by a limit, and those that waited for a person."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ..emulator.types import Misfit
from ..engine import RunOptions
from ..errors import InputError
from . import patterns
from .continuation import Continuation
from .intake import Intake, KeptRequest
from .metrics import ServerLog
from .refusal import Refusal, invalid
from .settings import ServerSettings
from .store import ClaimedRun, PendingQuestion, RunRecord

_MAX_BY_ITSELF = 5  # so that a run that crashes the server is not resumed forever
_BUSY_SECONDS = 5.0


class AnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/questions/ID: a value as JSON, or a text as a person typed it."""

    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | None = None

    @property
    def answer_text(self) -> str:
        if (self.value is msgspec.UNSET) == (self.text is None):
            raise invalid("an answer must have either `value` or `text`")
        answer_text = self.text if self.text is not None else msgspec.json.encode({"value": self.value}).decode()
        if len(answer_text) > patterns.MAX_ANSWER_CHARS:
            raise invalid(f"an answer can have at most {patterns.MAX_ANSWER_CHARS:,} characters")
        return answer_text


class Resuming:
    """Resumes runs: at the request of a client, when a person has answered, and when the server starts."""

    def __init__(self, intake: Intake, log: ServerLog) -> None:
        self._intake, self._store, self._runs, self._log = intake, intake.store, intake.runs, log
        self._runs.recorded = self._recorded

    async def resume(self, owner: str, id: str, model: str | None = None) -> RunRecord:
        """Queue a run again, to reuse what its trace has. Raises Refusal if nothing is left to do."""
        with self._intake.claimed(id):
            run = await self._runs.find(id, owner)
            await self._check_state(run)
            return await self._restart(run, await self._kept(run), model or run.model)

    async def _check_state(self, run: RunRecord) -> None:
        if run.is_final:
            raise Refusal(409, "nothing_left", f"nothing is left to do: the run ended ({run.reason})")
        if run.state == "waiting" and await self._store.questions(run.owner, 1, run.id):
            raise Refusal(409, "not_over", "the run waits for an answer: see /api/questions")
        if run.state in ("queued", "running"):
            raise Refusal(409, "not_over", "the run is not over yet")

    async def _kept(self, run: RunRecord) -> KeptRequest:
        kept = await self._intake.kept_request(run)
        if kept is None or kept.replay is not None:
            raise Refusal(
                409,
                "cannot_resume",
                "the run cannot be resumed: it is a replay, uses tools of a client, or is from an older version",
            )
        return kept

    async def _restart(self, run: RunRecord, kept: KeptRequest, model: str | None) -> RunRecord:
        name = self._intake.models.named(model) if model is not None else None
        self._intake.check_start(run.owner, name)
        await self._intake.source(run.owner, kept.request, model=name, schema=kept.schema)  # raises if it cannot start
        run = msgspec.structs.replace(
            run,
            state="queued",
            model=name,
            answer=None,
            value=None,
            confidence=None,
            reason=None,
            error=None,
            artifacts=[],
            resumed=run.resumed + 1,
        )
        if self._runs.peers is not None:
            await self._runs.enqueue(run)
            return run
        return (await self._runs.submit(run, self._intake.kept_source(run), is_resumed=True)).run

    async def start_claimed(self, claimed: ClaimedRun) -> None:
        """Carry out a run from the shared queue: a new one, or one that another server could not finish."""
        run = claimed.run
        kept = msgspec.json.decode(claimed.request or b"", type=KeptRequest)
        source = await self._intake.source(run.owner, kept.request, model=run.model, schema=kept.schema)
        await self._runs.submit(run, source, is_resumed=True, is_claimed=True)

    async def _recorded(self, run: RunRecord) -> Continuation | None:
        """The recorded part of a run; None if it has no events."""
        path = await self._store.local_trace(run.id)
        if not path.exists() or not path.stat().st_size:
            path.unlink(missing_ok=True)
            return None
        trace = await self._intake.trace(run)
        try:
            continued = await self._intake.in_thread(run.owner, lambda: Continuation(trace))
        except InputError as error:
            raise Refusal(409, "cannot_resume", str(error)) from None
        continued.use_settings(_allowed(self._intake.settings))
        return continued

    # --- after a restart --------------------------------------------------------------------------------------

    async def resume_all(self) -> None:
        """Resume the runs that were interrupted, except those whose client waited for them."""
        for id, owner in await self._store.interrupted():
            try:
                await self._resume_by_itself(id, owner)
            except Refusal as error:
                self._log.write("run not resumed", run=id, why=error.message)
            except Exception as error:  # one run: the others continue
                self._log.write("run not resumed", {"error": str(error)}, run=id, error_type=type(error).__name__)

    async def _resume_by_itself(self, id: str, owner: str) -> None:
        run = await self._runs.find(id, owner)
        if not self._intake.knows(owner) or not (await self._kept(run)).is_detached:
            return
        if run.resumed >= _MAX_BY_ITSELF:
            raise Refusal(409, "cannot_resume", f"it was already resumed {run.resumed} times")
        while True:
            try:
                await self.resume(owner, id)
                return
            except Refusal as error:
                if error.kind != "busy":
                    raise
            await asyncio.sleep(_BUSY_SECONDS)

    # --- answers of a person ----------------------------------------------------------------------------------

    async def answer(self, owner: str, id: str, request: AnswerRequest) -> RunRecord:
        """Answer a question. The run continues if no other question is open. Raises Refusal."""
        question = await self._store.question(id, owner)
        if question is None:
            raise Refusal(404, "not_found", f"there is no question {id[:100]!r}")
        run = await self._runs.find(question.run, owner)
        _check_open(question, run)
        answer_text = request.answer_text
        await self._check_value(owner, question, answer_text)
        if self._runs.active(run.id, owner) is None:  # then the run needs a place in the queue
            self._intake.check_start(owner, run.model)
        if not await self._store.answer_question(id, answer_text):
            raise _answered()
        active = self._runs.active(run.id, owner)
        if active is not None:
            if id in active.asked:
                active.asked[id].set()
            if not active.is_ending:
                return active.run
            await active.over.wait()
        return await self._after_answer(owner, run.id)

    async def _check_value(self, owner: str, question: PendingQuestion, answer_text: str) -> None:
        try:
            await self._intake.in_thread(owner, lambda: question.question.value_in(answer_text))
        except (Misfit, RecursionError) as error:
            raise invalid(f"{error or 'the value is nested too deeply'}; expected {question.question.wants}") from None

    async def _after_answer(self, owner: str, id: str) -> RunRecord:
        run = await self._runs.find(id, owner)
        if run.state != "waiting" or await self._store.questions(owner, 1, id):
            return run
        try:
            return await self.resume(owner, id)
        except Refusal as error:
            if error.status == 409:  # another answer has resumed it
                return await self._runs.find(id, owner)
            self._log.write("run not resumed", run=id, why=error.message)
        run.state = "interrupted"  # its answers are kept: it can be resumed later
        await self._store.keep(run)
        return run


def _check_open(question: PendingQuestion, run: RunRecord) -> None:
    if question.answer is not None:
        raise _answered()
    if run.is_over:
        raise Refusal(409, "over", f"the run is no longer waiting: it is {run.state}")


def _answered() -> Refusal:
    return Refusal(409, "answered", "the question already has an answer")


def _allowed(settings: ServerSettings) -> dict[str, Any]:
    options = RunOptions(packages=settings.packages, scratch=settings.has_scratch, limits=settings.limits)
    return dict(options.header().settings)
