"""Scores recorded replies of any model, without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..emulator.documents import at_line, numbered, read_text
from .scoring import accuracy, stated


class Reply(msgspec.Struct, frozen=True):
    """One recorded reply to a question of a task; `style` is the kind of prompt, such as `direct` or `cot`."""

    task: str
    index: int
    style: str
    reply: str
    target: str | int | float


class Tally(msgspec.Struct):
    """Replies of one task and style. Replies without an answer are counted separately from wrong answers."""

    task: str
    style: str
    n: int = 0
    right: int = 0
    no_answer: int = 0  # empty
    not_extracted: int = 0  # a reply without an answer

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
        return accuracy(self.right, self.n)[0]

    @property
    def error(self) -> float:
        """The standard error of the accuracy, in per cent."""
        return accuracy(self.right, self.n)[1]


def read_replies(path: Path) -> Iterable[Reply]:
    """Yield lines of `{"task": …, "index": …, "style": …, "reply": …, "target": …}`."""
    for number, line in numbered(read_text(path).split("\n")):
        with at_line(path, number, "not a recorded reply"):
            reply = msgspec.json.decode(line, type=Reply)
        yield reply


def tally(replies: Iterable[Reply]) -> list[Tally]:
    """Count replies by task and style, in order of appearance. Repeated replies count once."""
    tallies: dict[tuple[str, str], Tally] = {}
    seen: set[tuple[str, str, int]] = set()
    for reply in replies:
        if (reply.task, reply.style, reply.index) not in seen:
            seen.add((reply.task, reply.style, reply.index))
            tallies.setdefault((reply.task, reply.style), Tally(reply.task, reply.style)).add(reply)
    return list(tallies.values())
