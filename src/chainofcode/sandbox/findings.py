"""The findings of `coc doctor`, as data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One tier, layer or engine: whether it works, details, and a remedy if it does not."""

    name: str
    holds: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class TierFindings:
    """The best tier that works, empty if none does; every tier that was tried, and the layers of tiers."""

    best: str = ""
    user: str = ""
    tiers: list[Finding] = field(default_factory=list)
    layers: list[Finding] = field(default_factory=list)
