"""Methods without a program: the baselines of the paper."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..trace import Event
from .prompting import MAX_TOKENS, Inquiry


async def direct(inquiry: Inquiry) -> AsyncIterator[Event]:
    """The model states the answer without reasoning."""
    room = MAX_TOKENS if inquiry.answer_type is not None else 256
    call, answer = await inquiry.state(inquiry.shown("direct"), inquiry.text, max_tokens=room)
    yield call
    yield answer


async def cot(inquiry: Inquiry) -> AsyncIterator[Event]:
    """Chain of Thought: the model reasons in words, then states the answer."""
    call = await inquiry.complete(inquiry.shown("cot"), inquiry.text)
    yield call
    yield inquiry.stated(call.reply)
