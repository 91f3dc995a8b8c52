"""The functions that random programs leave undefined, as pure functions of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def weigh(x: int) -> int:
    return (x * 7 + 3) % 11


def is_lucky(x: int) -> bool:
    return x % 3 == 0


def name_of(x: int) -> str:
    return "abcdefg"[x % 7] * (1 + x % 2)


def pieces(x: int) -> list[int]:
    return [x % 5, (x + 2) % 5, (x * 3) % 7][: x % 4]


def blend(x: int, y: int = 1, *, scale: int = 1) -> int:
    return (x * 3 + y * 5 * scale) % 13


def kind_of(value: object) -> str:
    return f"{type(value).__name__} {value!r}"


def shout(text: str) -> str:
    return text.upper()[::-1]


def is_short(text: str) -> bool:
    return len(text) < 2


def total_of(values: list[int]) -> int:
    return sum(values) % 17


def lucky_number() -> int:
    return 4


def fetch(x: int) -> int:
    return (x * 5 + 1) % 9


def rank(x: int, y: int = 2) -> int:
    return (x * 2 + y * 3) % 7


CALLED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        weigh, is_lucky, name_of, pieces, blend, kind_of, shout, is_short, total_of, lucky_number,
    )
}  # fmt: skip
AWAITED: dict[str, Callable[..., Any]] = {function.__name__: function for function in (fetch, rank)}
HOLES = CALLED | AWAITED
