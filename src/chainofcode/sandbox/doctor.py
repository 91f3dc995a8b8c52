"""`coc doctor`: finds where programs can run, and shows how to enable the rest."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ..errors import SandboxError
from .container import ENGINES, Container, check_engine
from .findings import Finding, TierFindings
from .frames import Ended
from .job import Job
from .linux_only import IMAGE, remedy
from .remote_sandbox import open_remote


@dataclass(frozen=True)
class Report:
    """The report of `coc doctor`. `tier` is the tier that programs run in, empty if there is none."""

    tier: str
    machine: str
    tiers: list[Finding] = field(default_factory=list)
    layers: list[Finding] = field(default_factory=list)
    engines: list[Finding] = field(default_factory=list)
    remote: list[Finding] = field(default_factory=list)

    @property
    def works(self) -> bool:
        """Whether programs run without further options."""
        return self.remote[0].holds if self.remote else bool(self.tier)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        if self.remote:
            yield f"programs run {self.remote[0].detail}" if self.remote[0].holds else self.remote[0].detail
        elif self.tier:
            yield f"programs run in tier {self.tier}; a test process tried to break out of it, and failed"
        elif self.tiers:
            yield "no tier works: programs are refused, unless run with --sandbox=docker, podman or none"
        else:
            yield f"the built-in sandbox works on Linux only; {remedy()}"
        yield self.machine
        for title, findings in (
            ("tier", self.tiers),
            ("layer", self.layers),
            ("engine", self.engines),
            ("COC_SANDBOX", self.remote),
        ):
            if not findings:
                continue
            yield ""
            yield f"{title:<18} works"
            for finding in findings:
                yield f"{finding.name:<18} {'yes' if finding.holds else 'no ':<6} {finding.detail}".rstrip()
                if finding.remedy:
                    yield f"{'':<25} to enable it: {finding.remedy}"


async def _engine(name: str) -> Finding:
    """Check that an engine can run a container; on macOS, which needs a download for that, only that it is running."""
    try:
        if sys.platform != "linux":
            await asyncio.to_thread(check_engine, name)
            return Finding(name, True, f"--sandbox={name}:{IMAGE}")
        async with Container(name).start(Job("answer = 1")) as session:
            ends = [signal async for signal in session if isinstance(signal, Ended)]
    except SandboxError as error:
        return Finding(name, False, str(error))
    return Finding(name, ends[-1].reason == "answered", f"--sandbox={name}")


async def _remote(url: str) -> Finding:
    """Check that a server runs programs."""
    try:
        async with open_remote(url).start(Job("answer = 1")) as session:
            ends = [signal async for signal in session if isinstance(signal, Ended)]
            return Finding(url, ends[-1].reason == "answered", f"at {url}, in tier {session.wall}")
    except SandboxError as error:
        return Finding(url, False, str(error))


async def examine(remote: str = "") -> Report:
    """Try every tier, every container engine, and the remote sandbox with this URL."""
    tiers = TierFindings()
    if sys.platform == "linux":
        from .tier_checks import examine_tiers  # works only on Linux

        tiers = await examine_tiers()
    machine = f"{platform.system()} {platform.release()} on {platform.machine()}, Python {platform.python_version()}"
    return Report(
        tier=tiers.best,
        machine=f"{machine}, as {tiers.user}" if tiers.user else machine,
        tiers=tiers.tiers,
        layers=tiers.layers,
        engines=[await _engine(name) for name in ENGINES if sys.platform != "win32"],
        remote=[await _remote(remote)] if remote else [],
    )
