"""`coc doctor`: tries every tier of the sandbox on this machine, and shows how to get what is missing."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ..errors import SandboxError
from . import kernel, seccomp
from .cgroups import delegated
from .container import ENGINES, Container
from .frames import Ended
from .jail import NAMESPACED
from .job import Job
from .pool import TIERS, Jail

_IN_CONTAINER = "in docker or podman: --security-opt seccomp=unconfined, as root also --cap-add SYS_ADMIN"
# Patterns of refusals, and remedies.
_REMEDIES = (
    (
        r"^((unshare|mount|pivot_root|sethostname|open_tree).*not permitted|Permission denied: .*_map)",
        "ordinary users cannot create namespaces here. Debian: sysctl kernel.unprivileged_userns_clone=1; Ubuntu: "
        f"sysctl kernel.apparmor_restrict_unprivileged_userns=0; {_IN_CONTAINER}",
    ),
    (r"^unshare.*No space left", "sysctl user.max_user_namespaces=10000"),
    (r"^unshare.*Invalid argument", "a kernel with user, pid, net, ipc, uts and cgroup namespaces"),
    (r"^mount_setattr.*not implemented", "Linux 5.12 or later"),
    (r"^landlock.*not implemented", "Linux 5.13 or later, built with Landlock"),
    (r"^landlock.*not supported", "boot with lsm=landlock,… (the kernel has Landlock, switched off)"),
    (r"^landlock.*not permitted", "the container's seccomp profile forbids Landlock: use a newer docker or podman"),
    (r"^prctl\(PR_SET_SECCOMP\)", "a kernel with CONFIG_SECCOMP_FILTER"),
    (r"^seccomp: no list", "an x86_64 or aarch64 machine, or --sandbox=docker"),
    (
        r"^guests never run as root",
        "run coc as an ordinary user, or put Python and what is granted where other users may read it",
    ),
    (
        r"cgroup v2|memory controller|not delegated|topmost group|would escape",
        "systemd-run --user --scope coc …; in a service Delegate=yes and DelegateSubgroup=coc",
    ),
    (r"^version \d", "Linux 6.12 or later has all of Landlock that is used"),
)


@dataclass(frozen=True)
class Finding:
    """One tier, layer or engine: whether it works, details, and a remedy if it does not."""

    name: str
    holds: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """`tier` is the one that programs run in, empty if there is none."""

    tier: str
    machine: str
    tiers: list[Finding] = field(default_factory=list)
    layers: list[Finding] = field(default_factory=list)
    engines: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        if self.tier:
            yield f"programs run in tier {self.tier}; a witness behind its walls failed at everything it tried"
        else:
            yield "no tier holds: programs are refused, unless run with --sandbox=docker, podman or none"
        yield self.machine
        for title, findings in (("tier", self.tiers), ("layer", self.layers), ("engine", self.engines)):
            yield ""
            yield f"{title:<18} holds"
            for finding in findings:
                yield f"{finding.name:<18} {'yes' if finding.holds else 'no ':<6} {finding.detail}".rstrip()
                if finding.remedy:
                    yield f"{'':<25} to get it: {finding.remedy}"


async def _engine(name: str) -> Finding:
    """Whether an engine can run a container."""
    try:
        async with Container(name).start(Job("answer = 1")) as session:
            ends = [signal async for signal in session if isinstance(signal, Ended)]
    except SandboxError as error:
        return Finding(name, False, str(error))
    return Finding(name, ends[-1].reason == "answered", f"--sandbox={name}")


async def examine() -> Report:
    """Try every tier, with its witness, and every container engine."""
    tiers: list[Finding] = []
    missing: dict[str, str] = {}
    for tier in _tiers():
        with Jail(tier, spares=0) as jail:
            try:
                missing |= (await jail.status()).missing
            except SandboxError:
                why = jail.refusals.get(tier, "it did not start")
                tiers.append(Finding(f"{tier}  {_WALLS[tier]}", False, why, _remedy(why)))
            else:
                tiers.append(Finding(f"{tier}  {_WALLS[tier]}", True))
    best = next((tier for tier, finding in zip(_tiers(), tiers, strict=True) if finding.holds), "")
    layers = [
        _namespaces(any(finding.holds and finding.name.startswith(NAMESPACED) for finding in tiers)),
        _landlock(missing),
        _seccomp(tiers),
        Finding("rlimits", bool(best), "set and found set by the witness" if best else ""),
        _cgroups(),
    ]
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    machine = f"Linux {platform.release()} on {platform.machine()}, Python {platform.python_version()}, as {who}"
    engines = [await _engine(name) for name in ENGINES]
    return Report(tier=best, machine=machine, tiers=tiers, layers=layers, engines=engines)


_WALLS = {"A": "all walls", "A-": "no Landlock", "B": "no namespaces", "C": "no files at all"}


def _tiers() -> list[str]:
    """Those to try: A- is for kernels without Landlock."""
    try:
        kernel.landlock_abi()
    except OSError:
        return list(TIERS)
    return [tier for tier in TIERS if tier != "A-"]


def _remedy(why: str) -> str:
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, why)), "")


def _namespaces(holds: bool) -> Finding:
    return Finding("namespaces", holds, "user, mount, pid, net, ipc, uts, cgroup" if holds else "")


def _cgroups() -> Finding:
    place, controllers, why = delegated()
    if place is None:
        return Finding("cgroups", False, why, _remedy(why))
    return Finding("cgroups", True, f"{', '.join(controllers)}: a group for each guest")


def _landlock(missing: dict[str, str]) -> Finding:
    try:
        abi = kernel.landlock_abi()
    except OSError as error:
        return Finding("Landlock", False, str(error.strerror), _remedy(str(error.strerror)))
    lacks = missing.get("Landlock", "")
    return Finding("Landlock", True, lacks or f"version {abi}", _remedy(lacks))


def _seccomp(tiers: list[Finding]) -> Finding:
    holds = seccomp.is_supported() and any(finding.holds for finding in tiers)
    return Finding("seccomp", holds, f"a list of system calls for {kernel.MACHINE}" if holds else "")
