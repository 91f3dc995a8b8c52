"""Samples and scores."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

NOT_RUN = "not run"  # the reason of a score
Verdict = Literal["right", "wrong", "no answer"]


class Sample(msgspec.Struct, frozen=True):
    """A question to answer, or a program whose holes a model fills. Without targets, any answer will do."""

    id: str
    question: str | None = None
    program: str | None = None
    targets: list[Any] = []
    kind: str = ""
    split: str = ""
    task: str = ""

    @property
    def digest(self) -> str:
        """A digest of the content: another sample may have the same id."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """The score of a sample. `retries` are values that did not fit and were requested again.

    `attempt` 0 counts. With votes, 1 and up are the scores of each vote by itself, in the order of the trace; their
    `seconds` are the model's.
    """

    id: str
    verdict: Verdict
    answer: str
    targets: list[Any]
    reason: str
    kind: str = ""
    split: str = ""
    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    error: str = ""
    method: str = ""
    task: str = ""
    attempt: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float | None = None
    extracted: bool = True  # False: there was a reply, but no answer in it
    trace: str = ""  # the file it is kept in
    sample: str = ""  # the digest of the sample
    faithful: float | None = None  # the faithfulness score, where it was checked

    @property
    def was_run(self) -> bool:
        """Whether the sample was run: it may also fail before a model is asked."""
        return self.reason != NOT_RUN
