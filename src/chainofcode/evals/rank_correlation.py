"""Rank correlations: Spearman's rho and Kendall's tau-b, with ties."""

from __future__ import annotations

import math
from collections.abc import Sequence


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the correlation of ranks; 0 if all values of one side are equal."""
    return _pearson(_ranks(one), _ranks(other))


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Return tau-b; 0 if all values of one side are equal."""
    agreeing = ties_one = ties_other = pairs = 0
    for i in range(len(one)):
        for j in range(i):
            a, b = one[i] - one[j], other[i] - other[j]
            pairs += 1
            ties_one += a == 0
            ties_other += b == 0
            agreeing += (a * b > 0) - (a * b < 0)
    scale = math.sqrt((pairs - ties_one) * (pairs - ties_other))
    return agreeing / scale if scale else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def _pearson(one: Sequence[float], other: Sequence[float]) -> float:
    if not one:
        return 0.0
    mean_one, mean_other = sum(one) / len(one), sum(other) / len(other)
    products = sum((a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True))
    scale = math.sqrt(sum((a - mean_one) ** 2 for a in one) * sum((b - mean_other) ** 2 for b in other))
    return products / scale if scale else 0.0
