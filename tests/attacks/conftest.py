"""One jail for each tier that this machine has, kept for all attacks; and a place on the host for them to attack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainofcode import SandboxError
from chainofcode.sandbox import Jail

from .harness import SECRET, Wall, World

# Tier A is the one that most machines have; A- is A without Landlock. All attacks run in all tiers every night.
TIERS = [
    "A",
    *(pytest.param(tier, marks=pytest.mark.sampled(every)) for tier, every in (("A-", 4), ("B", 3), ("C", 3))),
]


@pytest.fixture(scope="session", params=TIERS)
def wall(request: pytest.FixtureRequest) -> Iterator[Wall]:
    """Made while a secret stands in the host's environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COC_ATTACK_TOKEN", SECRET)
        with Jail(request.param) as jail:
            try:
                asyncio.run(jail.status())
            except SandboxError as error:
                if "the witness could" in str(error):  # it can be built, and does not hold
                    raise
                pytest.skip(f"tier {request.param} of the sandbox cannot be had on this machine")
            yield Wall(request.param, jail)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "host")
