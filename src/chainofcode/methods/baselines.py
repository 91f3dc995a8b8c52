"""Methods without a program: the baselines of the paper."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..trace import Event
from .prompting import MAX_TOKENS, Asked


async def direct(asked: Asked) -> AsyncIterator[Event]:
    """The model states the answer at once."""
    room = MAX_TOKENS if asked.answer_type is not None else 256
    call = await asked.complete(asked.shown("direct"), asked.text, max_tokens=room)
    yield call
    yield asked.stated(call.reply)


async def cot(asked: Asked) -> AsyncIterator[Event]:
    """Chain of Thought: the model reasons in words, then states the answer."""
    call = await asked.complete(asked.shown("cot"), asked.text)
    yield call
    yield asked.stated(call.reply)
