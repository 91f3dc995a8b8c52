"""Cancelled requests to a model: they may have cost something, so they belong in the trace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..lm import LM, Completion, Message
from ..lm.interface import Around
from ..trace import Call
from .image_arguments import noted


class Accounted(Around):
    """A model that records its cancelled requests as `Call` events, with an estimate of their cost."""

    def __init__(self, lm: LM) -> None:
        super().__init__(lm)
        self._abandoned: list[Call] = []

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        begun, started = time.time(), time.monotonic()
        try:
            return await self._lm.complete(messages, **options)
        except asyncio.CancelledError:
            call = Call(
                prompt=unshared_part(messages),
                reply="",
                model=self.name,
                usage=self.estimate(messages),
                seconds=time.monotonic() - started,
                started=round(begun, 3),
                is_abandoned=True,
            )
            self._abandoned.append(call)
            raise

    @contextlib.contextmanager
    def keep_if_cancelled(self, calls: Sequence[Call]) -> Iterator[None]:
        """Keep requests that already have replies if the work that they were made for is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            self._abandoned += calls
            raise

    def abandoned(self) -> list[Call]:
        """Return, and forget, the requests that were cancelled or made for cancelled work."""
        abandoned, self._abandoned = self._abandoned, []
        return abandoned


def accounted(lm: LM) -> Accounted:
    return lm if isinstance(lm, Accounted) else Accounted(lm)


def unshared_part(messages: Sequence[Message]) -> str:
    """Return a request as the trace keeps it: without the part that many requests share."""
    kept = [number for number, message in enumerate(messages, 1) if message.is_kept]
    return noted(messages[kept[-1] if kept else 0 :])
