"""A package that adds the provider `echo` to chainofcode, as your own package would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainofcode import LM, Completion, Message


class Echo(LM):
    """Replies with the last message."""

    def __init__(self, model: str) -> None:
        self.name = f"echo:{model}"

    async def complete(self, messages: Sequence[Message], n: int = 1, **options: Any) -> list[Completion]:
        return [Completion(messages[-1].content)] * n


def connect(model: str, *, base_url: str | None = None, api_key: str | None = None) -> LM:
    if model == "broken":
        raise RuntimeError("out of order")
    if model == "renamed":
        return Echo("other") if base_url else _named("openai:gpt-4o")
    return Echo(model)


def _named(name: str) -> LM:
    made = Echo("")
    made.name = name
    return made
