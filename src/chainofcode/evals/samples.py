"""Samples and scores."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ..errors import InputError
from ..lm import Usage

_RANGE = re.compile(r"([0-9]{0,9}):([0-9]{0,9})")
NOT_RUN = "not run"  # the reason of a score
Verdict = Literal["right", "wrong", "no answer"]


class Sample(msgspec.Struct, frozen=True):
    """A question to answer, or a program whose holes a model fills. Without targets, any answer is right."""

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


def select(samples: Iterable[Sample], split: str | None = None, limit: int | None = None) -> list[Sample]:
    """Return the samples of a split, and of these the first `limit` of each task.

    A split is a name that samples carry, or a range of indices within each task: `0:100`, `100:`.
    """
    numbers = index_range(split)
    seen, taken, names, chosen = Counter[str](), Counter[str](), dict[str, None](), list[Sample]()
    for sample in samples:
        names[sample.split] = None
        is_in = split in (None, sample.split) if numbers is None else seen[sample.task] in numbers
        seen[sample.task] += 1
        if is_in and (limit is None or taken[sample.task] < limit):
            taken[sample.task] += 1
            chosen.append(sample)
    if not chosen:
        known = ", ".join(name for name in names if name) or "none has a name"
        raise InputError(f"no samples in split {split!r} (splits: {known}; by index: 0:100, 100:)")
    return chosen


def index_range(split: str | None) -> range | None:
    """Return the indices of a split such as `0:100`; None if it is a name, or not given."""
    found = _RANGE.fullmatch(split or "")
    if found is None:
        return None
    start, stop = found.groups()
    return range(int(start or 0), int(stop) if stop else 10**9)


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """The score of a sample. `retries` counts values that were requested again, `repairs` counts repaired programs.

    The endpoint reports the tokens; `cached_tokens` are the part of `prompt_tokens` that came from its cache.

    `attempt` 0 is the score of the sample. With votes, 1 and up are the scores of the votes, in the order of the trace;
    their `seconds` are those of the model alone.
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
    faithful: float | None = None  # the faithfulness score, if it was checked
    repairs: int = 0
    cached_tokens: int = 0
    usage: dict[str, Usage] = {}  # by model

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def was_run(self) -> bool:
        """Whether the sample was run: it may fail before that, for example if there is no model."""
        return self.reason != NOT_RUN
