"""Models that return log probabilities: replies made of tokens, each with its alternatives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from chainofcode.lm import LM, Completion, Message, Token

START = (('{"', {}), ("value", {}), ('":', {}))


def reply(*tokens: tuple[str, dict[str, float]]) -> Completion:
    """A reply made of tokens, each with the probabilities of its alternatives."""
    text = "".join(own for own, _ in tokens)
    listed = tuple(
        Token(own, {word: math.log(share) for word, share in ({own: 1.0} | others).items()}) for own, others in tokens
    )
    return Completion(text, tokens=listed)


def openai_logprobs(completion: Completion) -> dict[str, Any]:
    """The log probabilities of a reply, as an OpenAI-compatible endpoint sends them."""
    listed = []
    for token in completion.tokens:
        others = [{"token": text, "logprob": share} for text, share in token.alternatives.items()]
        listed.append({"token": token.text, "logprob": token.alternatives[token.text], "top_logprobs": others})
    return {"content": listed}


def truth(share: float) -> Completion:
    """A reply that is true with this probability."""
    words = {" true": share, " false": 1 - share}
    return reply(*START, (max(words, key=words.__getitem__), words), ("}", {}))


class Certain(LM):
    """A model that gives the same distribution for every value."""

    name, has_logprobs = "certain", True

    def __init__(self, *tokens: tuple[str, dict[str, float]]) -> None:
        self._reply = reply(*START, *tokens, ("}", {}))

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        assert options["logprobs"]
        return [self._reply]


class Judge(LM):
    """A model that knows the probability of `true` for each call of a program."""

    name, has_logprobs = "judge", True

    def __init__(self, truths: Mapping[str, float]) -> None:
        self._truths = truths

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        call = messages[-1].content.rpartition("call: ")[2].partition("\n")[0]
        return [truth(self._truths[call])]
