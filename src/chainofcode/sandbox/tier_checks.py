"""The checks of `coc doctor` for the tiers of the sandbox on Linux, and how to enable missing layers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys

from ..boot import boot_command
from ..errors import SandboxError
from . import kernel, seccomp
from .cgroups import delegated
from .findings import Finding, TierFindings
from .pool import Jail
from .tiers import NAMESPACED, TIERS

_WORKER_SECONDS = 30
_IN_CONTAINER = "in docker or podman: --security-opt seccomp=unconfined, as root also --cap-add SYS_ADMIN"
# Patterns of refusals, and their remedies.
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
    (r"^landlock.*not supported", "boot with lsm=landlock,… (the kernel has Landlock, but it is disabled)"),
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
    (r"^version \d", "Linux 6.12 or later supports all rules that are used"),
)


async def examine_tiers() -> TierFindings:
    """Try to build every tier, and test it with its witness."""
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
        Finding("rlimits", bool(best), "set, and verified by a test process" if best else ""),
        _cgroups(),
        await asyncio.to_thread(_workers),
    ]
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    return TierFindings(best, user, tiers, layers)


_WALLS = {"A": "all layers", "A-": "no Landlock", "B": "no namespaces", "C": "no files"}


def _tiers() -> list[str]:
    """The tiers to try: A- is for kernels without Landlock."""
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


def _workers() -> Finding:
    """Check how workers, which parse untrusted data outside guests, are confined."""
    command = boot_command(sys.executable, "sandbox.worker_confinement")
    done = subprocess.run(command, capture_output=True, check=False, env={}, timeout=_WORKER_SECONDS)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        why = lines[0] if len(lines) == 1 else "a worker process could not give up its rights"
        return Finding("workers", False, why)
    missing: dict[str, str] = json.loads(done.stdout)
    why = "; ".join(f"without {layer} ({reason})" for layer, reason in missing.items())
    return Finding("workers", not missing, why or "confined, because they parse untrusted data")


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
