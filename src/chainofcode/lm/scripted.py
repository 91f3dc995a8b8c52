"""A model that is a function or a list of replies: tests, demos, replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import Completion, Message, Usage


class ScriptedLM:
    """Replies in the given order, or what the function makes of the conversation. `requests` keeps what was asked."""

    def __init__(self, replies: Iterable[str] | Callable[[Sequence[Message]], str], name: str = "scripted") -> None:
        self.name = name
        self.requests: list[tuple[Message, ...]] = []
        self._function = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        temperature: float = 0.0,
        n: int = 1,
        seed: int | None = None,
    ) -> list[Completion]:
        self.requests.append(tuple(messages))
        return [Completion(self._reply(messages), Usage(requests=1, dollars=0.0)) for _ in range(n)]

    def _reply(self, messages: Sequence[Message]) -> str:
        if self._function is not None:
            return self._function(messages)
        try:
            return next(self._replies)
        except StopIteration:
            raise IndexError(f"the script has no reply left for request {len(self.requests)}") from None
