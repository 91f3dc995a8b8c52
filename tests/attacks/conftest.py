"""One jail for each available tier, shared by all attacks, and a directory on the host for them to attack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainofcode import SandboxError
from chainofcode.sandbox import Jail

from .harness import SECRET, HostFiles, TierSandbox

# Most machines have tier A; A- is tier A without Landlock. The nightly run tries all attacks in all tiers.
TIERS = [
    "A",
    *(pytest.param(tier, marks=pytest.mark.sampled(every)) for tier, every in (("A-", 4), ("B", 3), ("C", 3))),
]


@pytest.fixture(scope="session", params=TIERS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[TierSandbox]:
    """The sandbox of one tier, opened while the host's environment contains a secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COC_ATTACK_TOKEN", SECRET)
        with Jail(request.param) as jail:
            try:
                asyncio.run(jail.status())
            except SandboxError as error:
                if "the witness could" in str(error):  # the tier is available, but not secure
                    raise
                pytest.skip(f"tier {request.param} of the sandbox is not available on this machine")
            yield TierSandbox(request.param, jail)


@pytest.fixture
def host_files(tmp_path: Path) -> HostFiles:
    return HostFiles(tmp_path / "host")
