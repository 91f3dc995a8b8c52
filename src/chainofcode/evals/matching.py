"""Self-consistency at equal tokens: how many votes each task gets to match another method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import InputError
from ..methods import METHODS
from .samples import Score

_MAX_VOTES = 100


def split_name(name: str) -> tuple[str, str] | None:
    """Split `cot@coc` into the method that votes and the one whose tokens it may use; None for a plain method."""
    method, mark, other = name.partition("@")
    if not mark:
        return None
    for part in (method, other):
        if part not in METHODS:
            raise InputError(f"unknown method {part!r} in {name!r} (expected one of: {', '.join(METHODS)})")
    if method == other:
        raise InputError(f"{name!r} compares a method with itself")
    return method, other


def matching_votes(scores: Iterable[Score], method: str, other: str, votes: int = 1) -> dict[str, int]:
    """Return how many votes `method` needs in each task to use as many tokens per question as `other`.

    The number is rounded, at least 1 and at most 100. The scores are those of both methods on the same samples, with
    `votes` votes per question. Raises InputError if the model reports no tokens.
    """
    spent: dict[tuple[str, str], list[int]] = {}
    for score in scores:
        if score.was_run:
            spent.setdefault((score.task, score.method), []).append(score.tokens)
    found = {}
    for task in dict.fromkeys(task for task, _ in spent):
        own, wanted = (_mean(spent.get((task, name), ())) for name in (method, other))
        if not own or not wanted:
            raise InputError(
                f"cannot match tokens: none are reported for {method} or {other} on {task or 'any sample'}"
            )
        found[task] = min(max(round(votes * wanted / own), 1), _MAX_VOTES)
    return found


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
