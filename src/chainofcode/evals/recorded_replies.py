"""Scores replies that were recorded, of any model, without running anything."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..errors import InputError
from .scoring import stated


class Reply(msgspec.Struct, frozen=True):
    """One recorded reply to a question of a task; `style` is how it was asked for, such as `direct` or `cot`."""

    task: str
    index: int
    style: str
    reply: str
    target: str | int | float


class Tally(msgspec.Struct):
    """Replies of one task and style. What states no answer is counted apart from what states a wrong one."""

    task: str
    style: str
    n: int = 0
    right: int = 0
    no_answer: int = 0  # empty
    not_extracted: int = 0  # words, but no answer among them

    def add(self, reply: Reply) -> None:
        self.n += 1
        target = str(reply.target)
        answer = stated(reply.reply, target)
        if not reply.reply.strip():
            self.no_answer += 1
        elif answer is None:
            self.not_extracted += 1
        else:
            self.right += answer == target.strip()

    @property
    def accuracy(self) -> float:
        """In per cent."""
        return 100 * self.right / self.n if self.n else 0.0

    @property
    def error(self) -> float:
        """The standard error of the accuracy, in per cent."""
        share = self.right / self.n if self.n else 0.0
        return 100 * math.sqrt(share * (1 - share) / self.n) if self.n else 0.0


def read_replies(path: Path) -> Iterable[Reply]:
    """Lines of `{"task": …, "index": …, "style": …, "reply": …, "target": …}`, one at a time."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield msgspec.json.decode(line, type=Reply)
                    except (msgspec.DecodeError, RecursionError) as error:
                        raise InputError(f"{path}, line {number}: not a recorded reply: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def tally(replies: Iterable[Reply]) -> list[Tally]:
    """Counts by task and style, in the order in which they come up. The same reply twice is counted once."""
    tallies: dict[tuple[str, str], Tally] = {}
    seen: set[tuple[str, str, int]] = set()
    for reply in replies:
        if (reply.task, reply.style, reply.index) not in seen:
            seen.add((reply.task, reply.style, reply.index))
            tallies.setdefault((reply.task, reply.style), Tally(reply.task, reply.style)).add(reply)
    return list(tallies.values())
