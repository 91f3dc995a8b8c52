"""Calls that a person answers, on the page or over the API, perhaps days later.

A question is kept in the store. The run waits for a moment. Then its state becomes `waiting`, without a process or a
place in the queue, and it is resumed when the answer arrives.
"""

from __future__ import annotations

import secrets
import time

from ..emulator.person import Question
from ..errors import EmulationError
from .active_run import PATIENCE_SECONDS, ActiveRun, is_set_within
from .store import PendingQuestion, Store

_MAX_CHARS = 20_000  # of a call and its type


async def asked_person(store: Store, active: ActiveRun, question: Question) -> str:
    """Wait for the answer of a person. A run that has nothing else to do ends with the state `waiting`."""
    if len(question.call) + len(question.type) > _MAX_CHARS:
        raise EmulationError(f"a call that waits for a person can have at most {_MAX_CHARS:,} characters")
    run, call = active.run.id, question.call
    kept = await store.question_of(run, call)
    if kept is None or kept.type != question.type or question.fault:
        kept = _new_question(run, question)
        await store.keep_question(kept)
    answered = active.expect_answer(kept.id)
    while kept is not None and kept.answer is None:
        if not await is_set_within(answered, PATIENCE_SECONDS) and active.only_waits:
            active.cancel("waiting")
        kept = await store.question_of(run, call)
    if kept is None or kept.answer is None:
        raise EmulationError("the question was removed")
    active.asked.pop(kept.id, None)
    return kept.answer


def _new_question(run: str, question: Question) -> PendingQuestion:
    return PendingQuestion(
        id=secrets.token_hex(12),
        run=run,
        call=question.call,
        type=question.type,
        line=question.line,
        asked=round(time.time(), 3),
    )
