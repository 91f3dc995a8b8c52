"""Close streams of events where their reader stops: a stream holds a guest, which must end before its sandbox does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def close_after(events: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Yield a stream and close it at the end of the block, also after an interruption or an error in the block.

    Otherwise asyncio closes abandoned generators when the event loop ends, all at once: a generator would then close
    while one that it reads is closing, too.
    """
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)  # a method may return an iterator that is not a generator
        if close is not None:
            await close()
