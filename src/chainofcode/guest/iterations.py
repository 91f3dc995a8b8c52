"""Iterators of the library's containers: what they still have to give, without taking it. Standard library only."""

from __future__ import annotations

import operator
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS: tuple[type, ...] = (list, tuple, dict, set, frozenset, str, bytes, range, *_VIEWS)
_ITERATORS: frozenset[type] = frozenset(
    type(iterator)
    for iterator in (
        *(iter(kind()) for kind in (list, tuple, dict, set, bytes, str)),
        *(iter("é"), iter(range(1)), iter(range(1 << 70)), iter({}.values()), iter({}.items())),
        *(reversed([]), reversed(range(1)), reversed(()), reversed({})),
    )
)
_MAX_DEPTH = 8


def is_followed(iterable: Any) -> bool:
    """Whether an iterable, and how far it has got, can be looked at without changing it."""
    return type(iterable) in _CONTAINERS or _is_iterator(iterable, 0)


def _is_iterator(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in (enumerate, zip) and depth < _MAX_DEPTH:
        return all(_is_iterator(part, depth + 1) for part in _parts(value))
    return kind in _ITERATORS


def _parts(value: Any) -> tuple[Any, ...]:
    """The iterators inside an `enumerate` or a `zip`."""
    arguments: tuple[Any, ...] = value.__reduce__()[1]
    return arguments[:1] if type(value) is enumerate else arguments


def clone(iterator: Any) -> Iterator[Any]:
    """Another iterator over what this one has still to give."""
    if type(iterator) is enumerate:
        arguments: Any = iterator.__reduce__()[1]
        return enumerate(clone(arguments[0]), arguments[1])
    if type(iterator) is zip:
        return zip(*map(clone, _parts(iterator)), strict=False)
    make, arguments, *state = iterator.__reduce__()
    copy: Any = make(*arguments)
    if state and state[0] is not None:
        copy.__setstate__(state[0])
    return copy  # type: ignore[no-any-return]


def left(iterator: Any) -> int:
    """How many elements are left."""
    if type(iterator) in (enumerate, zip):
        return min((left(part) for part in _parts(iterator)), default=0)
    return operator.length_hint(iterator)
