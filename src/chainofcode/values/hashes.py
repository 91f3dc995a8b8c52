"""Detects keys with colliding hashes, which make a dict or set slow. Standard library only.

CPython places a key by the low bits of its hash. After a collision, it tries a sequence of places that depends on the
whole hash. On the host, hashes of strings are randomised; those of numbers, tuples and dates are not. An attacker can
choose keys whose sequences collide: a dict of n such keys takes n² steps, in one uninterruptible call.
"""

from __future__ import annotations

from collections.abc import Sequence

FEW_KEYS = 256  # up to this many keys are fast, regardless of their hashes
MAX_EQUAL_HASHES = 32  # keys with equal hashes are also compared with each other
MAX_AVERAGE_STEPS = 24  # to find a free place; multiples of a power of two need up to 20, other numbers less than 4
_HASH_BITS = (1 << 64) - 1
_PERTURB_SHIFT = 5  # as in CPython
_SET_RUN = 10  # neighbouring places that a set tries before it probes further
_SMALLEST_TABLE = 8


class Colliding(ValueError):
    """Too many keys have colliding hashes; a dict or set of them would be too slow."""


def check_hashes(keys: Sequence[object], *, is_set: bool = False) -> None:
    """Raise Colliding if too many keys collide. Takes linear time; the keys must be hashable, and may be repeated.

    Simulates CPython's search for a free place in each size of the growing table.
    """
    if len(keys) <= MAX_EQUAL_HASHES:
        return
    hashes = _distinct(keys, [hash(key) & _HASH_BITS for key in keys])
    size = _SMALLEST_TABLE
    while len(hashes) > FEW_KEYS:
        fitting = hashes[: size * 2 // 3]
        if len(fitting) > FEW_KEYS:
            _check_table(fitting, size, _SET_RUN if is_set else 1)
        if len(fitting) == len(hashes):
            return
        size *= 2


def _distinct(keys: Sequence[object], hashes: list[int]) -> list[int]:
    """Return the distinct hashes in order. Raises Colliding if too many different keys have the same hash."""
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    is_repeated, first = bytearray(len(hashes)), order[0]
    others = 0
    for index in order[1:]:
        if hashes[index] != hashes[first]:
            first, others = index, 0
            continue
        is_repeated[index] = 1
        others += keys[index] != keys[first]
        if others > MAX_EQUAL_HASHES:
            raise Colliding(f"over {MAX_EQUAL_HASHES} values have the same hash")
    return [hash_ for hash_, is_again in zip(hashes, is_repeated, strict=True) if not is_again]


def _check_table(hashes: Sequence[int], size: int, run: int) -> None:
    mask, is_used, left = size - 1, bytearray(size), MAX_AVERAGE_STEPS * len(hashes)
    for hash_ in hashes:
        place, perturb = hash_ & mask, hash_
        free = is_used.find(0, place, place + run)
        while free < 0:
            perturb >>= _PERTURB_SHIFT
            place = (5 * place + perturb + 1) & mask
            free = is_used.find(0, place, place + run)
            left -= 1
        if left < 0:
            raise Colliding("the hashes of too many values collide")
        is_used[free] = 1
